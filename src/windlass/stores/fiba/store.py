"""The stores over a B-tree: FiBA, and the classic augmented B-tree as its baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np

from windlass import durations
from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Answers, Events
from windlass.aggregates.monoid import Columns, Monoid
from windlass.errors import InvalidArgument
from windlass.stores.bound import SMALLEST, Bound, count_of
from windlass.stores.fiba import invariants, nodes
from windlass.stores.fiba.changing import (
    Function,
    change_kernel,
    contains_step,
    evict_step,
    evict_up_to_step,
    insert_step,
    live_step,
    machine_code,
    query_kernel,
    range_step,
    repair_kernel,
    whole_step,
)
from windlass.stores.fiba.nodes import HEIGHT, MERGES, MOVES, REPAIRS, SIZE, SPLITS, VISITS
from windlass.stores.fiba.streaming import Scratch, stream_through
from windlass.stores.fiba.times import GREATEST, LEAST, Times, time_of, times_of
from windlass.stores.journal import Journal
from windlass.stores.layout import Integers

DEFAULT_ARITY, MOST_ARITY = 16, 64
_AS_IT_IS: AbstractContextManager[None] = nullcontext()
_NOTHING: Events = ((), np.zeros(0, np.bool_), 0)
_AS_THEY_ARE = np.zeros(0, np.int64)


# ---------------------------------------------------------------------- the stores


class BTree(Bound):
    """Events by time in a B-tree, with partial aggregates in its nodes."""

    needs_identity = True  # of a stream's answers, where a time has not come yet
    fingers: ClassVar[bool]

    _head: Integers
    _nodes: Integers
    _free: Integers
    _aggregates: Columns
    _scratch: list[Scratch]  # of streams
    _batches: tuple[Any, ...] | None  # arrays for a batch, see `_batch`

    def __init__(
        self,
        aggregate: Aggregate,
        *,
        min_arity: int = DEFAULT_ARITY,
        unit: str = "us",
        dtype: Any = None,
        nullable: bool | None = None,
        capacity: int | None = None,
    ) -> None:
        self.min_arity = _arity(min_arity)
        durations.parse(1, unit=unit)
        self.unit = unit
        super().__init__(aggregate, dtype=dtype, nullable=nullable, capacity=capacity)

    # ------------------------------------------------------------------ one event at a time

    def insert(self, time: Any, *values: Any) -> None:
        """Insert an event. If there is one of that time, the two are combined, the older arrival first."""
        t = time_of(time)
        with self._all_or_nothing():
            self._insert(np.array([t]), self._event(values), _AS_THEY_ARE)

    def evict(self, time: Any) -> bool:
        """Remove the event of a time, wherever it is; False if there is none."""
        self._usable()
        t = time_of(time)
        if len(self) == 0:
            return False
        with self._all_or_nothing():
            return bool(self._change(evict_step, (t,), 1))

    def query(self, start: Any = None, end: Any = None) -> Any:
        """The answer over the window; or over the times from `start` on and before `end`. None if there is none."""
        self._usable()
        first = LEAST if start is None else time_of(start)
        last = GREATEST if end is None else time_of(end) - 1
        if len(self) == 0 or first > last or (end is not None and last < LEAST):
            return self._empty_answer()
        answers = self._answers(1)
        if not self._answer_between(first, last, answers, 0):
            return self._empty_answer()
        return self._finish(answers)[0].as_py()

    def _answer_between(self, first: int, last: int, answers: Answers, row: int) -> bool:
        """Answer over the times from first to last; False if there are none."""
        oldest, youngest = self.oldest(), self.youngest()
        assert oldest is not None and youngest is not None
        if first > youngest or last < oldest:
            return False
        if first <= oldest and last >= youngest:
            pieces = np.empty(3, np.int64)
            n = machine_code(whole_step)(self._tree, pieces)
        else:
            pieces = np.empty(16 * self.min_arity * (self.height + 2), np.int64)
            n = machine_code(range_step)(self._tree, max(first, oldest), last, pieces)
        if n > 0:
            kernel = self._kernel(query_kernel)
            self._run(kernel, self._state(), (pieces, n, answers, row), bulk=True, writes=False)
        return bool(n > 0)

    def _answer_range(self, first: int, answers: Answers, row: int) -> None:
        """Answer over the times from first on, of which there are some."""
        self._answer_between(first, GREATEST, answers, row)

    def oldest(self) -> int | None:
        """The oldest time; None if there is none."""
        if len(self) == 0:
            return None
        return int(self._nodes[self._head[nodes.LEFT] + nodes.TIMES])

    def youngest(self) -> int | None:
        """The youngest time; None if there is none."""
        if len(self) == 0:
            return None
        finger = self._head[nodes.RIGHT]
        return int(self._nodes[finger + nodes.TIMES + self._nodes[finger + nodes.ENTRIES] - 1])

    def __contains__(self, time: Any) -> bool:
        if len(self) == 0:
            return False
        return bool(machine_code(contains_step)(self._tree, time_of(time)))

    def __iter__(self) -> Any:
        """The times, oldest first."""
        return iter(self.times().tolist())

    def times(self) -> Times:
        """The times, oldest first."""
        return self._live()[0]

    # ------------------------------------------------------------------ bulk

    def bulk_insert(self, times: Any, values: Any) -> None:
        """Insert many events, in any order: sorted once, in one pass over the tree, each node repaired once."""
        ts = times_of(times)
        with self._unless_compiled():
            events, _ = self._read(values)
            _check_lengths(ts, events)
            if len(ts):
                self._insert(ts, events, _AS_THEY_ARE)

    def bulk_evict(self, up_to: Any) -> int:
        """Remove every event before a time; returns how many there were."""
        self._usable()
        t = time_of(up_to)
        if len(self) == 0 or t == LEAST:
            return 0
        with self._unless_compiled(bulk=False):
            return self._evict_through(t - 1)

    def _unless_compiled(self, bulk: bool = True) -> AbstractContextManager[None]:
        """All or nothing. Where it is compiled and bound there is nothing to take back, and finding out costs time."""
        self._usable()
        if self._monoid is not None and self._monoid.is_compiled:
            return _AS_IT_IS
        return self._all_or_nothing(bulk)

    def stream(
        self, times: Any, values: Any, window: int | None = None, *, span: Any = None, last: Sequence[Any] = ()
    ) -> Any:
        """Run events through the window in the order given and return every answer, one an event.

        `window`: the window holds that many distinct times; where there are more, the oldest goes. `span`: it holds
        the times after the youngest minus the span, and events that come later than that do not count. `last`: spans of
        parts of the window that end with its youngest time; then the answers are a tuple, the window's first and one
        for each part. NumPy values (and lists) give NumPy answers, Arrow values give Arrow.
        """
        if (window is None) == (span is None):
            raise InvalidArgument("stream needs one of window= and span=")
        size = count_of(window, "window") if window is not None else 0
        length = durations.parse(span, unit=self.unit) if span is not None else 0
        parts = [durations.parse(part, unit=self.unit) for part in last]
        if span is not None and any(part > length for part in parts):
            raise InvalidArgument(f"a part of the window cannot be longer than its span of {span!r}; got {list(last)}")
        ts = times_of(times)
        with self._unless_compiled():
            return self._stream(ts, values, size, length, parts)

    def _stream(self, ts: Times, values: Any, size: int, length: int, parts: list[int]) -> Any:
        events, arrow = self._read(values)
        _check_lengths(ts, events)
        answers = self._answers(events[2])
        lasts = [(part, self._answers(events[2])) for part in parts]
        stream_through(self, ts, events, size, length, answers, lasts)
        if not lasts:
            return self._present(answers, arrow)
        return tuple(self._present(found, arrow) for found in (answers, *(found for _, found in lasts)))

    # ------------------------------------------------------------------ steps

    def _insert(self, ts: Times, events: Events, order: Integers) -> None:
        n = len(ts)
        if len(self) + n > self._capacity:
            self._reserve(max(len(self) + n, 2 * self._capacity, SMALLEST))
        items, gathered, slots, _ = self._batch(n)
        if self._change(insert_step, (ts, items, slots, gathered), n, events, order, slots) < 0:
            order = np.argsort(ts, kind="stable")
            self._insert(ts[order], events, order)

    def _batch(self, n: int) -> tuple[Any, ...]:
        """Arrays for a change of n events: items, gathered entries, slots, repairs."""
        batch = self._batches
        if batch is None or len(batch[2]) < n or len(batch[3]) < 2 * self.rows + 2:
            most = max(n, 256)
            items = tuple(np.empty(most + 1, np.int64) for _ in range(4))
            gathered = tuple(np.empty(most + 2 * self.min_arity, np.int64) for _ in range(3))
            batch = self._batches = (items, gathered, np.empty(most, np.int64), np.empty(2 * self.rows + 2, np.int64))
        return batch

    def _evict_through(self, t: int) -> int:
        evicted = int(self._change(evict_up_to_step, (t,), 1))
        self._shrink()
        return evicted

    def _change(
        self,
        step: Function,
        arguments: tuple[Any, ...],
        n: int,
        events: Events = _NOTHING,
        order: Integers = _AS_THEY_ARE,
        slots: Integers = _AS_THEY_ARE,
    ) -> Any:
        """Both steps of a change of n events."""
        repairs = self._batch(n)[3]
        kernel = self._kernel(change_kernel if events[2] else repair_kernel)
        tail = (events, order, slots, events[2], repairs) if events[2] else (repairs,)
        if self._bound.is_compiled or n > 1:
            result, count = machine_code(step)(self._tree, *arguments, repairs)
            if count > 0:
                self._run(kernel, self._state(), (*tail, count), bulk=True)
            return result
        journal = Journal()
        tree, state = journal.noting(self._tree), journal.noting(self._state())
        try:
            with np.errstate(all="ignore"):
                result, count = step(tree, *arguments, repairs)
                kernel(state, *tail, count)
        except BaseException:
            journal.undo()
            raise
        return result

    def _kernel(self, make: Callable[[Monoid], Function]) -> Function:
        m = self._bound
        return evaluation.kernel(m, lambda: make(m), "fiba", make)

    def _state(self) -> tuple[Any, ...]:
        return self._head, self._nodes, self._ring, self._aggregates

    @property
    def _tree(self) -> tuple[Any, ...]:
        return self._head, self._nodes, self._free

    def _copies(self) -> dict[str, Any]:
        columns = {"_ring": self._ring, "_aggregates": self._aggregates}
        arrays = {"_head": self._head, "_nodes": self._nodes, "_free": self._free}
        return {k: tuple(c.copy() for c in v) for k, v in columns.items()} | {k: v.copy() for k, v in arrays.items()}

    # ------------------------------------------------------------------ memory, snapshots

    def __len__(self) -> int:
        return int(self._head[SIZE]) if self._monoid is not None else 0

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

    def _install(self, monoid: Monoid, capacity: int) -> None:
        self._monoid = monoid
        self._scratch, self._batches = [], None
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

    def _reserve(self, capacity: int) -> None:
        """More room: the tree stays as it is, in longer arrays."""
        rows = rows_of(capacity, self.min_arity)
        self._nodes = _longer(self._nodes, rows * nodes.stride_of(self.min_arity))
        self._free = _longer(self._free, capacity)
        self._ring = tuple(map(_copied, self._ring, self._bound.allocate(capacity)))
        self._aggregates = tuple(map(_copied, self._aggregates, self._bound.allocate(rows)))
        self._capacity = capacity

    def _shrink(self) -> None:
        """Give memory back where less than a quarter of it is used."""
        least = max(SMALLEST, self._reserved)
        if len(self) <= self._capacity // 4 and self._capacity // 2 >= least:
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
        items = tuple(np.empty(n + 1, np.int64) for _ in range(4))
        gathered = tuple(np.empty(n + 2 * self.min_arity, np.int64) for _ in range(3))
        slots, repairs = np.empty(n, np.int64), np.empty(2 * (rows_of(n, self.min_arity) + 1), np.int64)
        _, count = machine_code(insert_step)(self._tree, links, items, slots, gathered, repairs)
        for new, alive in zip(self._ring, columns, strict=True):
            new[~slots] = alive
        self._run(self._kernel(repair_kernel), self._state(), (repairs, count), bulk=True)

    def options(self) -> dict[str, Any]:
        return {"min_arity": self.min_arity, "unit": self.unit}

    def set_options(self, options: dict[str, Any]) -> None:
        self.min_arity = _arity(options["min_arity"])
        durations.parse(1, unit=options["unit"])
        self.unit = options["unit"]

    def check_structure(self) -> None:
        assert len(self) == self.live_slots(), "size"

    def check_invariants(self) -> None:
        """Assert the numbered invariants of the package's card. Costs O(n); for tests."""
        if self._monoid is not None:
            invariants.check(self)


class FiBA(BTree):
    """The finger B-tree aggregator: O(log d) for an event at distance d from the window's nearer end, O(1) a query.

    `min_arity` is the least number of children of a node, half of the greatest. `unit` is what a span given as text is
    counted in; the times of timestamps and dates are microseconds. `dtype`, `nullable` and `capacity` as for all
    stores.
    """

    fingers = True
    costs = "O(1) ⊕ in order, O(log d) at distance d; n partials and n / min_arity"


class ClassicBTree(BTree):
    """A B-tree that keeps in every node the aggregate of its subtree: O(log n) an event, wherever it falls."""

    fingers = False
    costs = "O(log n) ⊕ an event; n partials and n / min_arity"


def _check_lengths(ts: Times, events: Events) -> None:
    if len(ts) != events[2]:
        raise InvalidArgument(f"got {len(ts)} times and {events[2]} values")


def rows_of(capacity: int, min_arity: int) -> int:
    """Nodes for so many events: every one but the root has at least min_arity - 1; and a few that wait to be freed."""
    levels = int(math.log(capacity + 1, min_arity)) + 3
    return capacity // (min_arity - 1) + 3 * levels


def _arity(value: Any) -> int:
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
