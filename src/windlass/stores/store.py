"""The protocol of all stores: a window of events as partials, kept by one technique.

    insert(v)  evict()  query()          one event at a time, at Python's speed
    insert_many  slide  (…)              the same in bulk, compiled: the unit of work

A store binds to the types of its columns with the first values it sees (or with `dtype=`), makes the aggregate's monoid
for them, and compiles the technique for that monoid on first use. Everything is checked before the state changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Answers
from windlass.aggregates.input import read_columns
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import OBJECT, ValueType, scalar, value_type
from windlass.errors import CorruptSnapshot, EmptyWindow, InvalidArgument, UnsupportedAggregate, WrongType
from windlass.stores import rounds
from windlass.stores.rounds import Parts, Technique
from windlass.stores.snapshot import pack, read_arrays, unpack

_SMALLEST = 16


class Store:
    """A window over a stream, answering `query()` incrementally. Subclasses are the techniques."""

    integers: ClassVar[tuple[str, ...]] = ("head", "size")
    running: ClassVar[tuple[str, ...]] = ()
    costs: ClassVar[str] = ""
    subtractable: ClassVar[bool] = False
    layout: ClassVar[int] = 1  # raised when the meaning of a snapshot's arrays changes

    def __init__(
        self,
        aggregate: Aggregate,
        *,
        dtype: Any = None,
        nullable: bool | None = None,
        capacity: int | None = None,
    ) -> None:
        if not isinstance(aggregate, Aggregate):
            raise UnsupportedAggregate(
                f"{type(self).__name__} needs an aggregate such as agg.sum(), got {type(aggregate).__name__}"
            )
        self.aggregate = aggregate
        self._check_aggregate()
        self._nullable = nullable
        self._reserved = _count(capacity, "capacity") if capacity is not None else 0
        self._monoid: Monoid | None = None
        self._broken: str | None = None
        if dtype is not None or not aggregate.columns:
            types = dtype if isinstance(dtype, tuple | list) else [dtype] * len(aggregate.columns)
            self._bind([value_type(t) for t in types][: len(aggregate.columns)], bool(nullable))

    # ------------------------------------------------------------------ what a technique brings

    @staticmethod
    def technique(m: Monoid) -> Technique:
        raise NotImplementedError

    def _check_aggregate(self) -> None:
        if self.subtractable and not self.aggregate.invertible:
            raise UnsupportedAggregate(
                f"{type(self).__name__} subtracts what leaves the window, and {self.aggregate!r} has no inverse; "
                "use TwoStacks, DABA, FlatFIT, FlatFAT or BInt"
            )

    def _slots(self, capacity: int) -> int:
        """Slots of the ring for a window of this capacity."""
        return capacity

    def _links_for(self, capacity: int) -> np.ndarray[Any, Any]:
        return np.zeros(0, np.int64)

    def _round_capacity(self, capacity: int) -> int:
        return capacity

    def check_structure(self) -> None:
        """Assert that sizes and positions are possible, whatever the partials are. Cheap; runs on every restore."""
        assert 0 <= int(self._header[0]) < max(1, self.capacity), "head"
        assert 0 <= len(self) <= self.capacity, "size"

    def check_invariants(self) -> None:
        """Assert the numbered invariants of the technique's card. Costs O(n) and more; for tests."""
        if self._monoid is not None:
            self.check_structure()

    # ------------------------------------------------------------------ one event at a time

    def __len__(self) -> int:
        return int(self._header[1]) if self._monoid is not None else 0

    def insert(self, *values: Any) -> None:
        """Append the youngest event: one value a column of the aggregate."""
        self._usable()
        width = len(self.aggregate.columns)
        if len(values) != width and not (width == 0 and len(values) == 1):
            raise InvalidArgument(f"{self.aggregate!r} takes {width} value(s) an event, got {len(values)}")
        if self._monoid is None:
            self._bind_to_values(values)
        m = self._bound
        items = [scalar(v, t) for v, t in zip(values, m.inputs, strict=False)]
        missing = any(item is None for item in items)
        if missing:
            self._refuse_nulls_unless_nullable(m)
        columns = tuple(
            _one(item, t, as_object=not m.is_compiled) for item, t in zip(items, m.inputs, strict=True)
        )
        self._insert(columns, np.array([not missing]), 1)

    def insert_many(self, values: Any) -> None:
        """Append many events, oldest first."""
        self._usable()
        columns, valid, n, _ = self._read(values)
        self._insert(columns, valid, n)

    def _insert(self, columns: Columns, valid: np.ndarray[Any, Any], n: int) -> None:
        if len(self) + n > self.capacity:
            self._reserve(_grown(len(self) + n, self.capacity))
        self._advance(rounds.insert_kernel, n, lambda i: (columns, valid, i, n))

    def evict(self, count: int = 1) -> None:
        """Remove the oldest event, or the `count` oldest."""
        self._usable()
        count = _count(count, "the number of events to evict", least=0)
        if count > len(self):
            raise EmptyWindow(f"cannot evict {count} event(s) from a {type(self).__name__} of {len(self)}")
        if count == 0:
            return
        self._call(rounds.evict_kernel, count, bulk=count > 1)
        capacity = self.capacity
        while len(self) <= capacity // 4 and capacity // 2 >= max(_SMALLEST, self._reserved):
            capacity //= 2
        if capacity < self.capacity:
            self._reserve(capacity)

    def query(self, last: int | None = None) -> Any:
        """The answer over the window, lowered; with `last`, over its youngest events only. None if there is none."""
        self._usable()
        if last is not None:
            return self.query_many([last])[0]
        if len(self) == 0:
            return self._empty_answer()
        answers = self._answers(1)
        self._call(rounds.query_kernel, answers)
        return self._finish(answers)[0].as_py()

    def query_many(self, lasts: Sequence[int]) -> list[Any]:
        """Answers over the youngest `r` events for each `r`: many queries from one structure."""
        self._usable()
        ranges = self._ranges(lasts)
        if len(self) == 0:
            return [self._empty_answer() for _ in ranges]
        answers = self._answers(len(ranges))
        self._call(rounds.suffix_kernel, ranges, answers)
        return list(self._finish(answers).to_pylist())

    # ------------------------------------------------------------------ bulk

    def slide(
        self,
        values: Any,
        window: int | None = None,
        *,
        windows: Sequence[int] | None = None,
        evictions: Any = None,
    ) -> Any:
        """Run all values through the window and return every answer, one an event.

        `window`: the window holds at most that many events. `windows`: several at once, one column of answers each.
        `evictions`: a window of varying size; round i first evicts `evictions[i]` events.
        NumPy values (and lists) give NumPy answers, Arrow values give Arrow.
        """
        self._usable()
        if sum(option is not None for option in (window, windows, evictions)) != 1:
            raise InvalidArgument("slide needs exactly one of window=, windows= and evictions=")
        if windows is not None:
            ranges = self._ranges(windows)
            columns, valid, n, arrow = self._read(values)
            return self._slide_many(columns, valid, n, ranges, arrow)
        if window is not None:
            size = _count(window, "window")
            self._check_window(size)
            columns, valid, n, arrow = self._read(values)
            needed = min(size, len(self) + n)
            self._reserve_exactly(max(needed, len(self)))
            answers = self._answers(n)
            self._advance(rounds.slide_kernel, n, lambda i: (columns, valid, i, n, size, answers))
        else:
            columns, valid, n, arrow = self._read(values)
            counts = self._evictions(evictions, n)
            answers = self._answers(n)
            self._advance(rounds.roll_kernel, n, lambda i: (columns, valid, i, n, counts, answers))
        return self._present(answers, arrow)

    def _slide_many(
        self, columns: Columns, valid: np.ndarray[Any, Any], n: int, ranges: np.ndarray[Any, Any], arrow: bool
    ) -> Any:
        longest, scratch = int(ranges.max()), np.zeros(2 * len(ranges), np.int64)
        needed = min(longest, len(self) + n)
        self._reserve_exactly(max(needed, len(self)))
        answers = self._answers(n * len(ranges))
        self._advance(
            self._many_kernel(), n, lambda i: (columns, valid, i, n, ranges, longest, scratch, answers)
        )
        if not arrow:
            return self._present(answers, arrow).reshape(n, len(ranges))
        columns, defined = answers
        each = [
            (tuple(_every(c, q, len(ranges)) for c in columns), _every(defined, q, len(ranges)))
            for q in range(len(ranges))
        ]
        return pa.RecordBatch.from_arrays([self._finish(a) for a in each], [str(r) for r in ranges])

    def _many_kernel(self) -> Callable[[Parts], Any]:
        return rounds.slide_many_kernel

    def _evictions(self, evictions: Any, n: int) -> np.ndarray[Any, Any]:
        counts = np.ascontiguousarray(evictions)
        if counts.shape != (n,) or counts.dtype.kind not in "iu":
            raise InvalidArgument(
                f"evictions must be {n} integers, one a value; got {counts.dtype} of shape {counts.shape}"
            )
        counts = counts.astype(np.int64)
        before = len(self) + np.arange(n) - np.cumsum(counts)  # the size after each round's evictions
        bad = np.flatnonzero((before < 0) | (counts < 0))
        if len(bad):
            raise EmptyWindow(f"evictions[{bad[0]}] = {counts[bad[0]]} evicts more events than there are")
        most = int(before.max(initial=-1)) + 1
        self._check_window(most)
        self._reserve_exactly(most)
        return counts

    def _check_window(self, events: int) -> None:
        """Refuse a window of so many events, where the technique cannot answer for it."""

    def _ranges(self, lasts: Iterable[int]) -> np.ndarray[Any, Any]:
        ranges = [_count(r, "window") for r in lasts]
        if not ranges:
            raise InvalidArgument("give at least one window")
        if self._technique_name() and not self.answers_ranges:
            raise UnsupportedAggregate(
                f"{type(self).__name__} answers its whole window only; for many ranges from one structure use "
                "SlickDeque, FlatFIT, FlatFAT, BInt or Recompute"
            )
        return np.array(ranges, np.int64)

    answers_ranges: ClassVar[bool] = False

    def _technique_name(self) -> str:
        return type(self).__name__

    # ------------------------------------------------------------------ snapshots

    def snapshot(self) -> bytes:
        """The whole state as bytes: checked, versioned, and free of pickled code."""
        self._usable()
        state: dict[str, Any] | None = None
        if self._monoid is not None:
            columns, links = self._live()
            state = {
                "monoid": self._monoid,
                "header": self._live_header(),
                "options": self._options(),
                "links": links,
                "columns": columns,
                "running": self._live_running(),
            }
        return pack(type(self).__name__, self.layout, self.aggregate, state)

    def restore(self, data: bytes) -> Self:
        """Take over a snapshot of the same technique and aggregate. Anything else is refused, and nothing changes."""
        head = unpack(data, type(self).__name__, self.layout, self.aggregate)
        fresh = type(self)(self.aggregate)
        if head is not None:
            fresh._take_over(head)
        self.__dict__.update(fresh.__dict__)
        return self

    def _take_over(self, head: dict[str, Any]) -> None:
        try:
            self._set_options(head["options"])
            self._bind(head["types"], head["nullable"])
            links, columns, running = read_arrays(head, self._bound, self._kernel_running())
            header = np.array(head["header"], np.int64)
            if header.shape != self._header.shape:
                raise CorruptSnapshot("the snapshot's integers do not fit this technique")
            self._header = header
            if len(self) < 0 or len(columns[0]) != self._live_slots():
                raise CorruptSnapshot("the snapshot's sizes contradict each other")
            self._lay_out(columns, links, self._round_capacity(max(1, len(columns[0]))))
            for slots, live in zip(self._running, running, strict=True):
                slots[: len(live)] = live
            self.check_structure()
        except (AssertionError, ValueError, TypeError, OverflowError, WrongType) as error:
            if isinstance(error, CorruptSnapshot):
                raise
            raise CorruptSnapshot(f"the snapshot's state is impossible: {error}") from error

    def _live_header(self) -> np.ndarray[Any, Any]:
        """The integers as `_lay_out` leaves them."""
        return np.array([0, *self._header[1:]], np.int64)

    def _live_slots(self) -> int:
        """How many slots of the ring `_live` gives for the header's state."""
        return len(self)

    def _live_running(self) -> Columns:
        """The running partials; those that mean nothing at the moment are whatever they are."""
        return tuple(column[: self._kernel_running()] for column in self._running)

    def _options(self) -> dict[str, Any]:
        """What the constructor was told beyond the aggregate and types, as JSON."""
        return {}

    def _set_options(self, options: dict[str, Any]) -> None:
        pass

    # ------------------------------------------------------------------ looks

    @property
    def capacity(self) -> int:
        return self._capacity if self._monoid is not None else 0

    @property
    def nbytes(self) -> int:
        """Bytes of state: partials, links and header."""
        if self._monoid is None:
            return 0
        arrays = (*self._ring, *self._running, self._links, self._header)
        return sum(a.nbytes for a in arrays)

    @property
    def mode(self) -> str:
        """`compiled`, or `interpreted: why`; `unbound` before the first value."""
        if self._monoid is None:
            return "unbound"
        return "compiled" if self._monoid.is_compiled else f"interpreted: {self._monoid.interpreted}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.aggregate!r}: {len(self)} events, {self.mode}>"

    # ------------------------------------------------------------------ binding

    @property
    def _bound(self) -> Monoid:
        assert self._monoid is not None
        return self._monoid

    def _bind(self, types: Sequence[ValueType], nullable: bool) -> None:
        monoid = self.aggregate.monoid(types, nullable=nullable, subtractable=self.subtractable)
        self._install(monoid)

    def _install(self, monoid: Monoid, capacity: int | None = None) -> None:
        capacity = self._round_capacity(max(capacity or 0, self._reserved, 1))
        self._capacity = capacity
        self._ring = self._allocate(monoid, capacity)
        self._links = self._links_for(capacity)
        self._running = _cleared(monoid, max(1, len(self.running)))
        self._header = np.zeros(len(self.integers), np.int64)
        self._monoid = monoid

    def _allocate(self, monoid: Monoid, capacity: int) -> Columns:
        return monoid.allocate(self._slots(capacity))

    def _bind_to_values(self, values: Sequence[Any]) -> None:
        types = []
        for value in values:
            if value is None:
                raise InvalidArgument(
                    f"the first value is null, so its type is unknown; construct {type(self).__name__}(…, dtype=…)"
                )
            try:
                types.append(value_type(pa.scalar(value).type))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise WrongType(f"{value!r} is not a value Windlass can aggregate: {error}") from error
        self._bind(types, True if self._nullable is None else self._nullable)

    def _refuse_nulls_unless_nullable(self, m: Monoid) -> None:
        if not m.nullable:
            raise InvalidArgument(
                f"got a null, but this {type(self).__name__} was bound to values without nulls; "
                "construct it with nullable=True"
            )

    # ------------------------------------------------------------------ memory

    def _reserve_exactly(self, events: int) -> None:
        """A window of known size gets just that; growing events one by one double instead."""
        if events > self.capacity:
            self._reserve(events)

    def _reserve(self, capacity: int) -> None:
        """Lay the window out anew, oldest first, with room for `capacity` events."""
        columns, links = self._live()
        self._lay_out(columns, links, self._round_capacity(max(capacity, len(self), 1)))

    def _live(self) -> tuple[Columns, np.ndarray[Any, Any]]:
        """What is alive of ring and links, oldest first, in terms that do not depend on where the ring begins."""
        order = (int(self._header[0]) + np.arange(len(self))) % self._capacity
        return tuple(column[order] for column in self._ring), np.zeros(0, np.int64)

    def _lay_out(self, columns: Columns, links: np.ndarray[Any, Any], capacity: int) -> None:
        """The reverse of `_live`, into fresh arrays."""
        self._ring = self._allocate(self._bound, capacity)
        for new, live in zip(self._ring, columns, strict=True):
            new[: len(live)] = live
        self._links = self._links_for(capacity)
        self._capacity = capacity
        self._header[0] = 0

    # ------------------------------------------------------------------ kernels

    def _call(self, kernel: Callable[[Parts], Any], *arguments: Any, bulk: bool = False) -> Any:
        m = self._bound
        function = self._kernel(kernel, m)
        if m.is_compiled:
            return function(self._header, self._running, self._ring, self._links, *arguments)
        return self._interpret(function, arguments, bulk)

    def _interpret(self, function: Callable[..., Any], arguments: tuple[Any, ...], bulk: bool) -> Any:
        """Run in Python; an exception out of the aggregate's own functions must not leave half a change behind."""
        arrays = (self._header, self._running, self._ring, self._links)
        backup = (
            [tuple(a.copy() for a in x) if isinstance(x, tuple) else x.copy() for x in arrays]
            if bulk
            else None
        )
        try:
            return function(*arrays, *arguments)
        except Exception as error:
            if backup is not None:
                self._header, self._running, self._ring, self._links = backup  # type: ignore[assignment]
            else:
                self._broken = f"{type(error).__name__}: {error}"
            raise

    def _advance(
        self, kernel: Callable[[Parts], Any], n: int, arguments: Callable[[int], tuple[Any, ...]]
    ) -> None:
        """Run a bulk kernel to the end, making room where it stopped for lack of it."""
        done = 0
        while done < n:
            done = int(self._call(kernel, *arguments(done), bulk=True))
            if done < n:
                self._make_room()

    def _make_room(self) -> None:
        raise AssertionError("a ring of the window's size always has room")

    def _kernel(self, kernel: Callable[[Parts], Any], m: Monoid) -> Callable[..., Any]:
        technique = self._technique_of()

        def make() -> Callable[..., Any]:
            return kernel(rounds.parts(m, technique(m), len(self.integers), self._kernel_running()))

        return evaluation.kernel(m, make, technique, kernel)

    def _technique_of(self) -> Callable[[Monoid], Technique]:
        return type(self).technique

    def _kernel_running(self) -> int:
        return len(self.running)

    def _usable(self) -> None:
        if self._broken is not None:
            raise InvalidArgument(
                f"this {type(self).__name__} stopped in the middle of an update ({self._broken}); "
                "restore it from a snapshot"
            )

    # ------------------------------------------------------------------ values in, answers out

    def _read(self, values: Any) -> tuple[Columns, np.ndarray[Any, Any], int, bool]:
        types = self._monoid.inputs if self._monoid is not None else None
        read = read_columns(self.aggregate, values, types)
        if self._monoid is None:
            nullable = self._nullable if self._nullable is not None else read.may_be_null
            self._bind([c.type for c in read.columns], nullable)
        m = self._bound
        valid = evaluation.all_valid(read.columns)
        if valid is not None:
            self._refuse_nulls_unless_nullable(m)
        mask = valid if valid is not None else np.ones(read.length if m.nullable else 0, np.bool_)
        return tuple(evaluation.for_kernel(c, m) for c in read.columns), mask, read.length, read.arrow

    def _answers(self, n: int) -> Answers:
        return evaluation.empty_answers(self._bound, n)

    def _finish(self, answers: Answers) -> pa.Array:
        return evaluation.finish(self._bound, answers)

    def _present(self, answers: Answers, arrow: bool) -> Any:
        m = self._bound
        columns, defined = answers
        if arrow:
            return self._finish(answers)
        plain = m.finish is None and value_type(m.result).dtype == columns[0].dtype and _is_number(m.result)
        if plain and (m.defined is None or bool(defined.all())):
            return columns[0]
        return self._finish(answers).to_numpy(zero_copy_only=False)

    def _empty_answer(self) -> Any:
        return None if self._monoid is None else evaluation.answer_of_nothing(self._monoid)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_))


def _one(item: Any, type_: ValueType, as_object: bool) -> np.ndarray[Any, Any]:
    array = np.empty(1, OBJECT if as_object else type_.dtype)
    if item is not None:
        array[0] = item.item() if isinstance(item, np.generic) and as_object else item
    elif not as_object:
        array[0] = 0
    return array


def _count(value: Any, what: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidArgument(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise InvalidArgument(f"{what} must be at least {least}, got {value}")
    return int(value)


def _cleared(monoid: Monoid, slots: int) -> Columns:
    columns = monoid.allocate(slots)
    for column, value in zip(columns, monoid.identity(), strict=True):
        if column.ndim > 1:
            column[:] = value
        else:
            column.fill(value)
    return columns


def _every(column: np.ndarray[Any, Any], q: int, k: int) -> np.ndarray[Any, Any]:
    """Query q's rows of answers that stand k a round."""
    return np.ascontiguousarray(column[q::k])


def _grown(needed: int, capacity: int) -> int:
    return max(needed, 2 * capacity, _SMALLEST)
