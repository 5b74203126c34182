"""The protocol of all stores: a window of events as partials, kept by one technique.

    insert(v)  evict()  query()                       one event at a time, at Python's speed
    insert_many(values)  slide(values, window=…)      the same in bulk, compiled: the unit of work

A store binds to the types of its columns with the first values it sees (or with `dtype=`), makes the aggregate's monoid
for them, and compiles the technique for that monoid on first use. Everything is checked before the state changes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Answers, Events
from windlass.aggregates.input import read_columns
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import OBJECT, ValueType, scalar, type_of, value_type
from windlass.errors import CorruptSnapshot, EmptyWindow, InvalidArgument, UnsupportedAggregate, WrongType
from windlass.kernels import CannotCompile
from windlass.stores import rounds
from windlass.stores.journal import Journal
from windlass.stores.layout import Integers, Layout
from windlass.stores.rounds import Function, Parts
from windlass.stores.snapshot import pack, take_over

_SMALLEST, _MOST = 16, 1 << 40  # events
Kernel = Callable[[Parts], Function]


class Store(Layout):
    """A window over a stream, answering `query()` incrementally. Subclasses are the techniques.

    `dtype` (one, or one a column) and `nullable` bind the store to value types before the first value; `capacity`
    reserves room.
    """

    costs: ClassVar[str] = ""
    subtractable: ClassVar[bool] = False  # needs the aggregate's inverse
    needs_identity: ClassVar[bool] = False  # combines slots that hold no event
    answers_ranges: ClassVar[bool] = False  # can answer for the youngest r events, for many r
    query_writes: ClassVar[bool] = False  # a query changes the state, though not the window
    layout: ClassVar[int] = 1  # raised when the meaning of a snapshot's arrays changes

    def __init__(
        self, aggregate: Aggregate, *, dtype: Any = None, nullable: bool | None = None, capacity: int | None = None
    ) -> None:
        if not isinstance(aggregate, Aggregate):
            raise UnsupportedAggregate(
                f"{type(self).__name__} needs an aggregate such as agg.sum(), got {type(aggregate).__name__}"
            )
        self.aggregate = aggregate
        self._stopped: list[str] = []  # why the state cannot be trusted any more
        self._check_aggregate()
        if nullable is not None and not isinstance(nullable, bool):
            raise InvalidArgument(f"nullable must be True, False or None, got {nullable!r}")
        self._nullable = nullable
        self._fixed_types: tuple[ValueType, ...] | None = None  # what dtype= said
        self._reserved = _count(capacity, "capacity") if capacity is not None else 0
        if dtype is not None or not aggregate.columns:
            given = dtype if isinstance(dtype, tuple | list) else [dtype] * len(aggregate.columns)
            self._fixed_types = tuple(value_type(t) for t in given)
            self.bind(self._fixed_types, bool(nullable))

    def _check_aggregate(self) -> None:
        if self.subtractable and not self.aggregate.invertible:
            raise UnsupportedAggregate(
                f"{type(self).__name__} subtracts what leaves the window, and {self.aggregate!r} has no inverse; "
                "use TwoStacks, DABA, FlatFIT, FlatFAT or BInt"
            )

    # ------------------------------------------------------------------ one event at a time

    def insert(self, *values: Any) -> None:
        """Append the youngest event: one value a column of the aggregate."""
        width = len(self.aggregate.columns)
        if len(values) != width and not (width == 0 and len(values) == 1):
            raise InvalidArgument(f"{self.aggregate!r} takes {width} value(s) an event, got {len(values)}")
        with self._all_or_nothing():
            if self._monoid is None:
                self._bind_to_values(values)
            m = self._bound
            items = [scalar(v, t) for v, t in zip(values, m.inputs, strict=False)]
            missing = any(item is None for item in items)
            if missing:
                self._refuse_nulls_unless_nullable(m)
            columns = tuple(_one(item, t, as_object=not m.is_compiled) for item, t in zip(items, m.inputs, strict=True))
            self._insert((columns, np.array([not missing]), 1))

    def insert_many(self, values: Any) -> None:
        """Append many events, oldest first."""
        with self._all_or_nothing(bulk=True):
            events, _ = self._read(values)
            self._insert(events)

    def _insert(self, events: Events) -> None:
        needed = len(self) + events[2]
        if needed > self.capacity:
            self._reserve(max(needed, 2 * self.capacity, _SMALLEST))
        self._advance(rounds.insert_kernel, events)

    def evict(self, count: int = 1) -> None:
        """Remove the oldest event, or the `count` oldest."""
        count = _count(count, "the number of events to evict", least=0)
        if count > len(self):
            raise EmptyWindow(f"cannot evict {count} event(s) from a {type(self).__name__} of {len(self)}")
        if count == 0:
            return
        shrinks = self._shrunk(len(self) - count) < self.capacity
        with self._all_or_nothing(bulk=count > 1 or shrinks):
            self._call(rounds.evict_kernel, count, bulk=count > 1)
            if shrinks:
                self._reserve(self._shrunk(len(self)))

    def _shrunk(self, events: int) -> int:
        """The capacity to keep for so many events: at least a quarter of a ring is in use, unless it is small."""
        capacity = self.capacity
        while events <= capacity // 4 and capacity // 2 >= max(_SMALLEST, self._reserved):
            capacity //= 2
        return capacity

    def query(self, last: int | None = None) -> Any:
        """The answer over the window, lowered; with `last`, over its youngest events only. None if there is none."""
        self._usable()
        if last is not None:
            return self.query_many([last])[0]
        if len(self) == 0:
            return self._empty_answer()
        answers = self._answers(1)
        self._call(rounds.query_kernel, answers, writes=self.query_writes)
        return self._finish(answers)[0].as_py()

    def query_many(self, lasts: Sequence[int]) -> list[Any]:
        """Answers over the youngest `r` events for each `r`: many queries from one structure."""
        self._usable()
        ranges = self._ranges(lasts)
        if len(self) == 0:
            return [self._empty_answer() for _ in ranges]
        answers = self._answers(len(ranges))
        self._call(rounds.suffix_kernel, ranges, answers, writes=self.query_writes)
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
        if sum(option is not None for option in (window, windows, evictions)) != 1:
            raise InvalidArgument("slide needs exactly one of window=, windows= and evictions=")
        with self._all_or_nothing(bulk=True):
            if windows is not None:
                ranges = self._ranges(windows)
                events, arrow = self._read(values)
                return self._slide_many(events, ranges, arrow)
            if window is not None:
                size = _count(window, "window")
                self._check_window(size)
                events, arrow = self._read(values)
                self._trim(size, events)
                self._reserve_exactly(min(size, len(self) + events[2]))
                answers = self._answers(events[2])
                self._advance(rounds.slide_kernel, events, size, answers)
            else:
                events, arrow = self._read(values)
                counts = self._evictions(evictions, events[2])
                answers = self._answers(events[2])
                self._advance(rounds.roll_kernel, events, counts, answers)
            return self._present(answers, arrow)

    def _slide_many(self, events: Events, ranges: Integers, arrow: bool) -> Any:
        n, k, longest = events[2], len(ranges), int(ranges.max())
        self._trim(longest, events)
        self._reserve_exactly(min(longest, len(self) + n))
        answers = self._answers(n * k)
        scratch = np.zeros(2 * k, np.int64), self._bound.allocate(self._scratch_slots(k))
        self._advance(self._many_kernel(), events, ranges, longest, scratch, answers)
        if not arrow:
            return self._present(answers, arrow).reshape(n, k)
        columns, defined = answers
        each = [(tuple(_every(c, q, k) for c in columns), _every(defined, q, k)) for q in range(k)]
        return pa.RecordBatch.from_arrays([self._finish(a) for a in each], [str(r) for r in ranges])

    def _trim(self, window: int, events: Events) -> None:
        """Evict what a window of this size no longer holds, before events slide through it."""
        if len(self) > window and events[2] > 0:
            self._call(rounds.evict_kernel, len(self) - window, bulk=True)

    def _many_kernel(self) -> Kernel:
        return rounds.slide_many_kernel

    def _scratch_slots(self, ranges: int) -> int:
        """Partials that the kernel for many ranges needs besides the state."""
        return 1

    def _evictions(self, evictions: Any, n: int) -> Integers:
        counts = np.ascontiguousarray(evictions)
        if counts.shape != (n,) or (n > 0 and counts.dtype.kind not in "iu"):
            raise InvalidArgument(
                f"evictions must be {n} integers, one a value; got {counts.dtype} of shape {counts.shape}"
            )
        counts = counts.astype(np.int64)
        before = len(self) + np.arange(n) - np.cumsum(counts)  # the size after each round's evictions
        bad = np.flatnonzero((before < 0) | (counts < 0))
        if len(bad):
            raise EmptyWindow(f"evictions[{bad[0]}] = {counts[bad[0]]} evicts more events than there are")
        self._check_window(int(before.max(initial=-1)) + 1)
        self._reserve_exactly(int(before.max(initial=-1)) + 1)
        return counts

    def _ranges(self, lasts: Iterable[int]) -> Integers:
        if not isinstance(lasts, Iterable):
            raise InvalidArgument(f"give several windows as a sequence of integers, got {lasts!r}")
        ranges = [_count(r, "window") for r in lasts]
        if not ranges:
            raise InvalidArgument("give at least one window")
        if not self.answers_ranges:
            raise UnsupportedAggregate(
                f"{type(self).__name__} answers its whole window only; for many ranges from one structure use "
                "SlickDeque, FlatFIT, FlatFAT, BInt or Recompute"
            )
        return np.array(ranges, np.int64)

    def _check_window(self, events: int) -> None:
        """Refuse a window of a size that this store cannot answer for."""

    # ------------------------------------------------------------------ snapshots and looks

    def snapshot(self) -> bytes:
        """The whole state as bytes: checked, versioned, and free of pickled code."""
        self._usable()
        return pack(self)

    def restore(self, data: bytes) -> Self:
        """Take over a snapshot of the same technique and aggregate. Anything else is refused, and nothing changes."""
        fresh = type(self)(self.aggregate, nullable=self._nullable, capacity=self._reserved or None)
        take_over(fresh, data)
        if self._fixed_types is not None and fresh._monoid is not None and fresh._monoid.inputs != self._fixed_types:
            found = ", ".join(map(str, fresh._monoid.inputs))
            raise CorruptSnapshot(
                f"the snapshot holds values of {found}, and this store was constructed for another dtype"
            )
        fresh._fixed_types = self._fixed_types
        self.__dict__.clear()
        self.__dict__.update(fresh.__dict__)
        return self

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __reduce__(self) -> Any:
        options = {"nullable": self._nullable, "capacity": self._reserved or None}
        return _unpickled, (type(self), self.aggregate, options, self.snapshot())

    @property
    def mode(self) -> str:
        """`compiled`, or `interpreted: why`; `unbound` before the first value."""
        if self._monoid is None:
            return "unbound"
        return "compiled" if self._monoid.is_compiled else f"interpreted: {self._monoid.interpreted}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.aggregate!r}: {len(self)} events, {self.mode}>"

    # ------------------------------------------------------------------ binding

    def bind(self, types: Sequence[ValueType], nullable: bool) -> None:
        """Fix the types of the columns; done by the first values unless `dtype` was given."""
        monoid = self.aggregate.monoid(
            types, nullable=nullable, subtractable=self.subtractable, identity=self.needs_identity
        )
        self._install(monoid, self._reserved)

    def _bind_to_values(self, values: Sequence[Any]) -> None:
        types = []
        for value in values:
            if value is None:
                raise InvalidArgument(
                    f"the first value is null, so its type is unknown; construct {type(self).__name__}(…, dtype=…)"
                )
            try:
                types.append(type_of(value))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise WrongType(f"{value!r} is not a value Windlass can aggregate: {error}") from error
        self.bind(types, True if self._nullable is None else self._nullable)

    def _refuse_nulls_unless_nullable(self, m: Monoid) -> None:
        if not m.nullable:
            raise InvalidArgument(
                f"got a null, but this {type(self).__name__} was bound to values without nulls; "
                "construct it with nullable=True"
            )

    def _reserve_exactly(self, events: int) -> None:
        """A window of known size gets just that much room; a window that grows event by event doubles it."""
        if events > self.capacity:
            self._reserve(events)

    # ------------------------------------------------------------------ kernels

    def _call(self, kernel: Kernel, *arguments: Any, bulk: bool = False, writes: bool = True) -> Any:
        m, technique = self._bound, self._technique()

        def make() -> Function:
            return kernel(rounds.parts(m, technique(m), len(self.integers), len(self.running)))

        function = evaluation.kernel(m, make, technique, kernel)
        if not m.is_compiled:
            return self._interpret(function, arguments, bulk)
        try:
            return function(self._state(), *arguments)
        except CannotCompile as error:  # nothing has run
            raise UnsupportedAggregate(
                f"numba cannot compile {type(self).__name__} for {self.aggregate!r}: {error}; "
                "an aggregate of your own can be defined with compile=False"
            ) from error
        except Exception as error:
            if writes:
                self._stopped.append(f"{type(error).__name__}: {error}")
            raise

    def _state(self) -> tuple[Any, ...]:
        return self._header, self._running, self._ring, self._links

    def _interpret(self, function: Function, arguments: tuple[Any, ...], bulk: bool) -> Any:
        """Run in Python; what a single step has changed when it raises is taken back here."""
        with np.errstate(all="ignore"):  # as in compiled code: NaN and infinity are data, integers wrap
            if bulk:
                return function(self._state(), *arguments)
            journal = Journal()
            try:
                return function(journal.noting(self._state()), *arguments)
            except BaseException:
                journal.undo()
                raise

    @contextmanager
    def _all_or_nothing(self, bulk: bool = False) -> Iterator[None]:
        """Whatever is raised, a refusal or an exception out of the aggregate's own functions, the store is as it was:
        not bound to the refused values, not grown, no event further. Single steps keep a journal; `bulk` copies.
        Compiled code does neither: there the store is unusable after an exception, and says so."""
        self._usable()
        before = dict(self.__dict__)
        if bulk and self._monoid is not None and not self._monoid.is_compiled:
            running, ring = (tuple(c.copy() for c in columns) for columns in (self._running, self._ring))
            before |= {"_header": self._header.copy(), "_running": running, "_ring": ring, "_links": self._links.copy()}
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _usable(self) -> None:
        """Compiled code keeps no journal: where a user's function raised in it, the arrays are not to be trusted."""
        if self._stopped:
            raise InvalidArgument(
                f"this {type(self).__name__} stopped in the middle of an update ({self._stopped[0]}); "
                "restore it from a snapshot"
            )

    def _advance(self, kernel: Kernel, events: Events, *arguments: Any) -> None:
        """Run a bulk kernel to the end, making room where it stopped for lack of it."""
        done = 0
        while done < events[2]:
            done = int(self._call(kernel, events, done, *arguments, bulk=events[2] > 1))
            if done < events[2]:
                self._make_room()

    def _make_room(self) -> None:
        raise AssertionError("a ring of the window's size always has room")

    # ------------------------------------------------------------------ values in, answers out

    def _read(self, values: Any) -> tuple[Events, bool]:
        types = self._monoid.inputs if self._monoid is not None else None
        read = read_columns(self.aggregate, values, types)
        if self._monoid is None:
            nullable = self._nullable if self._nullable is not None else read.may_be_null
            self.bind([c.type for c in read.columns], nullable)
        m = self._bound
        if any(c.valid is not None for c in read.columns):
            self._refuse_nulls_unless_nullable(m)
        return evaluation.events_of(m, read.columns, read.length), read.arrow

    def _answers(self, n: int) -> Answers:
        return evaluation.empty_answers(self._bound, n)

    def _finish(self, answers: Answers) -> pa.Array:
        try:
            return evaluation.finish(self._bound, answers)
        except pa.ArrowException as error:
            raise WrongType(f"an answer of {self.aggregate!r} does not fit {self._bound.result}: {error}") from error

    def _present(self, answers: Answers, arrow: bool) -> Any:
        m = self._bound
        columns, defined = answers
        if arrow:
            return self._finish(answers)
        plain = m.finish is None and value_type(m.result).dtype == columns[0].dtype and value_type(m.result).is_number
        if plain and (m.defined is None or bool(defined.all())):
            return columns[0]
        return self._finish(answers).to_numpy(zero_copy_only=False)

    def _empty_answer(self) -> Any:
        return None if self._monoid is None else evaluation.answer_of_nothing(self._monoid)


def _one(item: Any, type_: ValueType, as_object: bool) -> np.ndarray[Any, Any]:
    """A column of one value, or of anything where it is null."""
    array = np.zeros(1, OBJECT if as_object else type_.dtype)
    if item is not None:
        array[0] = item.item() if isinstance(item, np.generic) and as_object else item
    return array


def _count(value: Any, what: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidArgument(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise InvalidArgument(f"{what} must be at least {least}, got {value}")
    if value > _MOST:
        raise InvalidArgument(f"{what} must be at most {_MOST}, got {value}")
    return int(value)


def _unpickled(technique: type[Store], aggregate: Aggregate, options: dict[str, Any], data: bytes) -> Store:
    return technique(aggregate, **options).restore(data)


def _every(column: np.ndarray[Any, Any], q: int, k: int) -> np.ndarray[Any, Any]:
    """Query q's rows of answers that stand k a round."""
    return np.ascontiguousarray(column[q::k])
