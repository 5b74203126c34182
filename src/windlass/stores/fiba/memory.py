"""The arrays of a tree and how they grow and shrink; what a snapshot is of them.

    _head, _nodes, _free    the tree, integers alone (`nodes`)          _ring           partials of events, by slot
                                                                        _aggregates     of nodes, by row

A snapshot holds the events' partials and times, oldest first: the tree is built from them anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from windlass import durations
from windlass.aggregates import evaluation
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import LIMIT
from windlass.errors import InvalidArgument
from windlass.exclusive import exclusive
from windlass.stores.bound import SMALLEST, Bound, count_of
from windlass.stores.fiba import invariants, nodes
from windlass.stores.fiba.changing import (
    Function,
    carve,
    insert_step,
    live_step,
    machine_code,
    repair_kernel,
    room_of,
    settle_step,
)
from windlass.stores.fiba.nodes import HEIGHT, MERGES, MOVES, REPAIRS, SIZE, SPLITS, VISITS
from windlass.stores.fiba.times import Times
from windlass.stores.layout import Integers

MOST_ARITY = 64


class Memory(Bound):
    """A B-tree by time in flat arrays, with partial aggregates of its nodes."""

    min_arity: int
    unit: str  # of spans
    fingers: ClassVar[bool]

    _head: Integers
    _nodes: Integers
    _free: Integers
    _aggregates: Columns
    _arena: Integers  # what a change needs, see `changing.carve`
    _fits: int  # how many events it is long enough for
    _kernels: dict[Any, Function]
    _quick: dict[Any, Function]  # those that have run before, see `changing.quick`
    _scratch: list[Any]  # of streams
    _is_settled: bool = True  # False: nodes that an eviction marked still wait for repair

    _always_fits = -1  # one partial may hold any number of events: those of one time
    _partials = ("_ring", "_running", "_aggregates")

    def __len__(self) -> int:
        return self._head.item(SIZE) if self._monoid is not None else 0

    @property
    def height(self) -> int:
        """Levels above the leaves."""
        return int(self._head[HEIGHT]) if self._monoid is not None else 0

    @property
    def rows(self) -> int:
        """For how many nodes there is room."""
        return len(self._aggregates[0]) if self._aggregates else rows_of(self._capacity, self.min_arity)

    @property
    def counts(self) -> dict[str, int]:
        """What was done since the store was made: nodes visited, split, merged, moved between and repaired."""
        names = {"visits": VISITS, "splits": SPLITS, "merges": MERGES, "moves": MOVES, "repairs": REPAIRS}
        return {name: int(self._head[word]) if self._monoid is not None else 0 for name, word in names.items()}

    @property
    def nbytes(self) -> int:
        if self._monoid is None:
            return 0
        arrays = (*self._ring, *self._aggregates, self._nodes, self._free, self._head)
        return sum(array.nbytes for array in arrays)

    def _watch(self, size: int, events: int, window: int | None = None) -> None:
        """Events at one time are combined, so `_size` bounds Σ|x| of all events since the window was last empty."""
        self._size = size * events + (self._size if self._head.item(SIZE) else 0)
        if self._size >= LIMIT:
            self._widen()

    def may_overflow(self, size: int) -> bool:
        """Whether values with this Σ|x| could make a sum overflow."""
        m = self._monoid
        return m is not None and (m.may_not_fit or (m.wide is not None and self._size + size >= LIMIT))

    def _widened(self) -> dict[str, Any]:
        return super()._widened() | {"_kernels": {}, "_quick": {}, "_scratch": []}

    def _install(self, monoid: Monoid, capacity: int) -> None:
        self._monoid = monoid
        self._kernels, self._quick = {}, {}
        self._running = monoid.allocate(0)
        self._header = np.zeros(1, np.int64)
        self._allocate_tree(max(SMALLEST, capacity))

    def _allocate_tree(self, capacity: int) -> None:
        self._capacity = capacity
        rows = rows_of(capacity, self.min_arity)
        self._head = np.empty(nodes.WORDS, np.int64)
        self._nodes = np.empty(rows * nodes.stride_of(self.min_arity), np.int64)
        self._free = np.empty(capacity, np.int64)
        self._ring = self._bound.allocate(capacity)
        self._aggregates = self._bound.allocate(rows)
        nodes.prepare(self._head, self.min_arity, int(self.fingers))
        nodes.clear(self._tree)
        self._fits, self._scratch, self._is_settled = -1, [], True

    def _reserve(self, capacity: int) -> None:
        """More room: the tree stays as it is, in longer arrays."""
        rows = rows_of(capacity, self.min_arity)
        self._nodes = _longer(self._nodes, rows * nodes.stride_of(self.min_arity))
        self._free = _longer(self._free, capacity)
        self._ring = tuple(map(_copied, self._ring, self._bound.allocate(capacity)))
        self._aggregates = tuple(map(_copied, self._aggregates, self._bound.allocate(rows)))
        self._capacity, self._fits, self._scratch = capacity, -1, []

    def _shrink(self) -> None:
        """Give memory back where less than a quarter of it is used."""
        if len(self) > self._capacity >> 2:
            return
        least = max(SMALLEST, self._reserved)
        if self._capacity // 2 >= least:
            columns, times = self.live()
            self.lay_out(columns, times, max(2 * len(self), least))

    def _live(self) -> tuple[Times, Integers]:
        times, slots = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        if len(self):
            machine_code(live_step)(self._tree, times, slots)
        return times, slots

    def live(self) -> tuple[Columns, Integers]:
        """The partials of the events, oldest first, and their times."""
        times, slots = self._live()
        return tuple(column[slots] for column in self._ring), times

    def live_header(self) -> Integers:
        return np.array([len(self)], np.int64)

    def live_slots(self) -> int:
        return int(self._header[0])

    def lay_out(self, columns: Columns, links: Integers, capacity: int) -> None:
        """A tree of these partials and times, built from the leaves up."""
        n = len(links)
        if any(len(c) != n for c in columns) or not bool((links[1:] > links[:-1]).all()):
            raise ValueError("the times do not ascend, or are not as many as the partials")
        counts = self._head[VISITS : nodes.LEFT].copy()
        self._allocate_tree(max(SMALLEST, capacity, n))
        self._head[VISITS : nodes.LEFT] = counts
        if n == 0:
            return
        arena = self._room(n)
        _, count = machine_code(insert_step)(self._tree, links, arena)
        slots = ~carve(arena, n, self.min_arity)[2]
        for new, alive in zip(self._ring, columns, strict=True):
            new[slots] = alive
        self._repair(n, count)

    # ------------------------------------------------------------------ what changes need

    def _room(self, n: int) -> Integers:
        """An arena for a change of n events."""
        if n > self._fits:
            self._fits = max(2 * n, 256)
            self._arena = np.empty(room_of(self._fits, self.min_arity, self.rows), np.int64)
        return self._arena

    def _settle(self) -> None:
        """Repair what evictions have left."""
        if not self._is_settled:
            self._repair(0, machine_code(settle_step)(self._tree, self._room(0)))
            self._is_settled = True

    def _repair(self, n: int, count: int) -> None:
        """Repair the nodes that are noted in the arena of a change of n events."""
        self._run(self._kernel(repair_kernel), self._state(), (self._arena, n, count), bulk=True)

    def _kernel(self, make: Callable[[Monoid], Function]) -> Function:
        found = self._kernels.get(make)
        if found is None:
            m = self._bound
            found = self._kernels[make] = evaluation.kernel(m, lambda: make(m), "fiba", make)
        return found

    def _state(self) -> tuple[Any, ...]:
        return self._head, self._nodes, self._ring, self._aggregates

    @property
    def _tree(self) -> tuple[Any, ...]:
        return self._head, self._nodes, self._free

    def _copies(self) -> dict[str, Any]:
        columns = {"_ring": self._ring, "_aggregates": self._aggregates}
        arrays = {"_head": self._head, "_nodes": self._nodes, "_free": self._free}
        return {k: tuple(c.copy() for c in v) for k, v in columns.items()} | {k: v.copy() for k, v in arrays.items()}

    # ------------------------------------------------------------------ options, invariants

    def options(self) -> dict[str, Any]:
        return {"min_arity": self.min_arity, "unit": self.unit}

    def set_options(self, options: dict[str, Any]) -> None:
        self.min_arity = arity_of(options["min_arity"])
        durations.parse(1, unit=options["unit"])
        self.unit = options["unit"]

    def check_structure(self) -> None:
        assert len(self) == self.live_slots(), "size"

    @exclusive
    def check_invariants(self) -> None:
        """Assert the numbered invariants of the package's card. Costs O(n); for tests."""
        if self._monoid is not None:
            self._settle()
            invariants.check(self)


def rows_of(capacity: int, min_arity: int) -> int:
    """Nodes for so many events: every one but the root has at least min_arity - 1; and a few that wait to be freed."""
    levels = int(math.log(capacity + 1, min_arity)) + 3
    return capacity // (min_arity - 1) + 3 * levels


def arity_of(value: Any) -> int:
    arity = count_of(value, "min_arity", 2)
    if arity > MOST_ARITY:
        raise InvalidArgument(f"min_arity must be at most {MOST_ARITY}, got {arity}")
    return arity


def _longer(array: Integers, length: int) -> Integers:
    longer: Integers = _copied(array, np.empty(length, np.int64))
    return longer


def _copied(old: Any, new: Any) -> Any:
    new[: len(old)] = old
    return new
