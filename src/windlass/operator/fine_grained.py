"""Fine-grained windows: a window for every event, ending with it, whatever order the events come in (FiBA 1 and 5.2).

The other windows are coarse: they slide by minutes, and events of a slide share a slice. Here every window begins and
ends with other events, so windows share nothing, and the events themselves are kept by time. Each event is answered
when it arrives: over the last `span` of time of its key, or over its own time and `window - 1` others. In the second
case a round is an evict and an insert (FiBA 5): a new time replaces the oldest one, even if the new time is the earlier
of the two. So the window always holds the event.

Without keys there is one tree an aggregate, to which a stream is fed by the chunk (`windlass.stores.FiBA`). With keys
there is a tree a key, all in one pool and the same for all aggregates, and a batch is one program (`per_event`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import LIMIT, greatest, located
from windlass.aggregates.partials import from_plain, to_plain
from windlass.aggregates.values import ValueType, to_arrow
from windlass.errors import CorruptSnapshot, InvalidArgument, Overflow
from windlass.exclusive import Exclusive, exclusive, reading, restoring
from windlass.formats.operator import FINE_GRAINED
from windlass.formats.record import as_corrupt_snapshot
from windlass.operator.asked import digests
from windlass.operator.events import Events, Reader
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import Lift, lowered
from windlass.operator.tuples import Tuples
from windlass.operator.widening import outgrown, size_of, widen
from windlass.slicing.instructions import ABSORB, FOLD
from windlass.slicing.per_event import Trees
from windlass.stateful import Stateful, copied
from windlass.stores import FiBA
from windlass.stores.bound import count_of

Array = np.ndarray[Any, Any]


class FineGrained(Exclusive):
    """A window per event.

    `aggregates`: by the names that the answers get. `time` and `key` name columns. One of `span` (a duration) and
    `window` (a number of distinct times) says what a window holds. With a span, an event older than the span is not
    added; its answer is that of the window as it is. With a number, a new time replaces the oldest one once the window
    holds `window` times, even if the new time is the earlier of the two. So out of order, a window need not hold the
    latest times.
    """

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate],
        *,
        time: str,
        key: str | Sequence[str] = (),
        span: Any = None,
        window: int | None = None,
    ) -> None:
        if not aggregates:
            raise InvalidArgument("give at least one aggregate, such as {'total': agg.sum('price')}")
        if (span is None) == (window is None):
            raise InvalidArgument("a window per event needs one of span= and window=")
        names = (key,) if isinstance(key, str) else tuple(key)
        taken = [name for name in aggregates if name in (time, *names)]
        if taken:
            raise InvalidArgument(f"{taken[0]!r} is a column of the stream; give the aggregate another name")
        for name, aggregate in aggregates.items():
            FiBA(aggregate)
            if any(column is None for column in aggregate.columns):
                raise InvalidArgument(f"{name!r}: {aggregate!r} names no column; write {aggregate.name}('column')")
        self.aggregates, self.span, self.window = dict(aggregates), span, window
        self._length = 0 if span is None else durations.parse(span, unit="us")
        self._size = 0 if window is None else count_of(window, "window")
        self._reader = Reader(time, names)
        self._windows: _Keyed | _Single = _Keyed(names) if names else _Single()

    @exclusive
    def process(self, batch: Any) -> pa.Table:
        """Take the events of a batch in the order they come. A row an event: its keys, its time, and every answer."""
        before, is_changing = self._windows, False
        try:
            columns = list(dict.fromkeys(c for a in self.aggregates.values() for c in a.columns if c is not None))
            events = self._reader.read(batch, columns)
            if events.time_type is not None and not pa.types.is_integer(events.time_type):
                durations.refuse_plain("span", self.span)
            given = {name: events.table[name] for name in (*self._reader.key, self._reader.time)}
            answers = {name: pa.nulls(0) for name in self.aggregates}
            if len(events):
                keys = self._windows.read_keys(events)
                before, is_changing = self._kept(events), True
                answers = self._windows.take(events, keys, self.aggregates, self._size, self._length)
            answered = pa.table(given | answers)
            self._reader.accept(events)
            return answered
        except BaseException as error:
            if is_changing and before is self._windows:
                self.unfinished(error)
            else:
                self._windows = before
                self.undone(error)
            raise

    def _kept(self, events: Events) -> _Keyed | _Single:
        """Return a copy of the windows if the batch may be refused, else the windows themselves.

        A batch may be refused if it is the first one, if a user's function may raise, or if an answer may overflow.
        """
        can_fail = any(a.definition for a in self.aggregates.values())
        if can_fail or self._windows.is_empty or self._windows.may_overflow(events, self.aggregates):
            return self._windows.copied()
        return self._windows

    @reading
    def snapshot(self) -> bytes:
        """The whole state, to go on from in another process. No code is in it, and damage is found when it is read."""
        return self._sealed()

    def _sealed(self) -> bytes:
        return FINE_GRAINED.seal({**self._asked(), "types": self._reader.schema, "windows": self._windows.record()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        make, arguments = self.__reduce__()
        return cast(Self, make(*arguments))

    @reading
    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made of a snapshot."""
        return _resumed, (self._arguments(), self._sealed())

    def _arguments(self) -> dict[str, Any]:
        reader = self._reader
        return {
            "aggregates": self.aggregates,
            "time": reader.time,
            "key": reader.key,
            "span": self.span,
            "window": self.window,
        }

    @restoring
    def restore(self, data: bytes) -> Self:
        """Continue from a snapshot of one made with the same arguments. If it does not fit, nothing changes."""
        other = FineGrained(**self._arguments())
        record = FINE_GRAINED.unseal(data, "the bytes of the snapshot")
        with as_corrupt_snapshot():
            for name, value in self._asked().items():
                if record[name] != value:
                    raise CorruptSnapshot(
                        f"the snapshot is of another window per event: its {name} is {record[name]}, here it is {value}"
                    )
            other._reader.restore(record["types"])
            kind, windows = record["windows"]
            if kind != other._windows.kind:
                raise CorruptSnapshot(
                    f"the snapshot has {kind} windows where there should be {other._windows.kind} ones"
                )
            other._windows.fill(windows, self.aggregates, other._reader.types)
        self.__dict__ = other.__dict__
        return self

    def _asked(self) -> dict[str, Any]:
        described = [
            {"name": name, "aggregate": repr(a), "functions": digests(a)} for name, a in self.aggregates.items()
        ]
        return {
            "aggregates": described,
            "time": self._reader.time,
            "key": list(self._reader.key),
            "span": self._length,
            "window": self._size,
        }

    def __repr__(self) -> str:
        reach = f"span={self.span!r}" if self.span is not None else f"window={self.window}"
        return f"<FineGrained {', '.join(self.aggregates)}, {reach}: {self._windows!r}>"


def _place(name: str, key: str, events: Events, row: int) -> str:
    """Describe the place of an answer for an error message."""
    assert events.time_type is not None
    time = pa.scalar(int(events.ts[row]), pa.int64()).cast(events.time_type)
    return ", ".join(part for part in (f"aggregate {name!r}", key, f"the window of the event at {time}") if part)


def _resumed(arguments: dict[str, Any], data: bytes) -> FineGrained:
    return FineGrained(**arguments).restore(data)


class _Single(Stateful):
    """The window of a stream without keys."""

    kind = "single"

    def __init__(self) -> None:
        self.stores: dict[str, FiBA] = {}

    def read_keys(self, events: Events) -> None:
        """There are no keys to check."""

    def take(
        self, events: Events, keys: None, aggregates: Mapping[str, Aggregate], window: int, span: int
    ) -> dict[str, pa.Array]:
        answers = {}
        for name, aggregate in aggregates.items():
            columns = [events.column(c) for c in aggregate.columns if c is not None]
            if name not in self.stores:
                self.stores[name] = FiBA(aggregate, dtype=[c.type for c in columns], nullable=True)
            values = [to_arrow(c.values, c.valid, c.type.arrow) for c in columns]
            given = (values[0] if len(values) == 1 else tuple(values)) if values else np.zeros(len(events), np.int64)
            try:
                found = self.stores[name].stream(events.ts, given, window=window or None, span=span or None)
            except Overflow as error:
                raise located(error, partial(_place, name, "", events)) from None
            answers[name] = found if isinstance(found, pa.Array) else pa.array(found)
        return answers

    @property
    def is_empty(self) -> bool:
        return not self.stores

    def may_overflow(self, events: Events, aggregates: Mapping[str, Aggregate]) -> bool:
        found = False
        for name, store in self.stores.items():
            columns = [events.column(c).values for c in aggregates[name].columns if c is not None]
            size = sum(greatest(values) for values in columns if values.dtype.kind in "iu") * len(events)
            found |= store.may_overflow(size)
        return found

    def copied(self) -> _Single:
        other = _Single()
        other.stores = {name: store.copied() for name, store in self.stores.items()}
        return other

    def record(self) -> tuple[str, Any]:
        return self.kind, {"stores": {name: store.snapshot() for name, store in self.stores.items()}}

    def fill(self, record: Any, aggregates: Mapping[str, Aggregate], types: Mapping[str, ValueType]) -> None:
        stores = record["stores"]
        if stores and stores.keys() != aggregates.keys():
            raise CorruptSnapshot("the windows of the snapshot are not those of these aggregates")
        self.stores = {name: FiBA(aggregates[name]).restore(data) for name, data in stores.items()}

    def __repr__(self) -> str:
        return f"{max(map(len, self.stores.values()), default=0)} times"


class _Keyed(Stateful):
    """The windows of all keys: one tree a key, and every aggregate's partials by its slots."""

    kind = "keyed"

    def __init__(self, names: Sequence[str]) -> None:
        self.keys, self.trees = KeyIndex(names), Trees()
        self.lifts: dict[str, Lift] = {}
        self.sizes: dict[int, int] = {}  # upper bound of Σ|x| by lift: see `widening`

    def read_keys(self, events: Events) -> Any:
        """Check the keys of a batch, and encode them."""
        return self.keys.read(events.keys, len(events))

    def take(
        self, events: Events, keys: Any, aggregates: Mapping[str, Aggregate], window: int, span: int
    ) -> dict[str, pa.Array]:
        if not self.lifts:
            types = {c: events.column(c).type for a in aggregates.values() for c in a.columns if c is not None}
            self.lifts = _lifts(aggregates, types)
        ids = self.keys.enter(keys, len(events))
        self.trees.add_keys(len(self.keys))
        order = np.argsort(ids, kind="stable")
        tuples = _tuples(events, aggregates)
        self._watch(tuples)
        outside = {name: lift.monoid.allocate(len(events)) for name, lift in self.lifts.items()}
        done = 0
        while done < len(order):
            done, program, pieces = self.trees.take(ids, events.ts, order, done, window, span)
            for name, lift in self.lifts.items():
                lift.run_pieces(program, tuples, pieces, self.trees.slots, self.trees.rows, outside[name])
        answers = {}
        for name, lift in self.lifts.items():
            try:
                answers[name] = lowered(lift.monoid, outside[name], len(events))
            except Overflow as error:
                raise located(error, partial(self._place, name, events, ids)) from None
        return answers

    def _place(self, name: str, events: Events, ids: Array, row: int) -> str:
        return _place(name, self.keys.shown(int(ids[row])), events, row)

    def _watch(self, tuples: Tuples) -> None:
        """Widen the sums that the coming events could overflow."""
        lifts = list(self.lifts.values())
        if which := outgrown(lifts, self.sizes, tuples):
            widen(which, lifts, [])

    @property
    def is_empty(self) -> bool:
        return len(self.keys) == 0

    def may_overflow(self, events: Events, aggregates: Mapping[str, Aggregate]) -> bool:
        tuples = _tuples(events, aggregates)
        return any(
            lift.monoid.may_not_fit
            or (lift.monoid.wide is not None and self.sizes.get(i, 0) + size_of(lift, i, tuples) >= LIMIT)
            for i, lift in enumerate(self.lifts.values())
        )

    def copied(self) -> _Keyed:
        return copied(self)

    def record(self) -> tuple[str, Any]:
        sizes, times, slots = self.trees.live()
        partials = {
            name: to_plain(lift.monoid, tuple(column[slots] for column in lift.pool))
            for name, lift in self.lifts.items()
        }
        return self.kind, {"keys": self.keys.record(), "sizes": sizes, "times": times, "partials": partials}

    def fill(self, record: Any, aggregates: Mapping[str, Aggregate], types: Mapping[str, ValueType]) -> None:
        """Put all times into trees again; the partials are absorbed instead of events."""
        self.keys = KeyIndex.restore(self.keys.names, record["keys"])
        sizes, times = record["sizes"], record["times"]
        if len(sizes) != len(self.keys):
            raise CorruptSnapshot("the windows of the snapshot do not add up")
        self.trees.add_keys(len(sizes))
        if not len(times):
            return
        self.lifts = _lifts(aggregates, types)
        partials: dict[str, Columns] = {}
        for name, lift in self.lifts.items():
            columns = record["partials"][name]
            if lift.monoid.wide is not None and len(columns) == len(lift.monoid.wide.fields):
                self.lifts[name] = Lift(lift.aggregate, lift.monoid.wide, None, False)
            partials[name] = from_plain(self.lifts[name].monoid, columns, len(times))
        none = np.empty(0, np.int64)
        self._watch(Tuples(none, times, none, none, partials=list(partials.values())))
        partials = {name: _as_wide(self.lifts[name].monoid, columns) for name, columns in partials.items()}
        ids, order, done = np.repeat(np.arange(len(sizes)), sizes), np.arange(len(times)), 0
        while done < len(order):
            done, program, pieces = self.trees.take(ids, times, order, done, 0, 0)
            program[program[:, 0] == FOLD, 0] = ABSORB
            for name, lift in self.lifts.items():
                lift.run_pieces(program, None, pieces, self.trees.slots, self.trees.rows, partials[name])
        live = self.trees.live()[1]
        if len(live) != len(times) or (live != times).any():  # np.array_equal takes a MemoryError for a difference
            raise CorruptSnapshot("the times of the snapshot do not ascend")

    def __repr__(self) -> str:
        return f"{len(self.keys)} keys, {len(self.trees)} times"


def _lifts(aggregates: Mapping[str, Aggregate], types: Mapping[str, ValueType]) -> dict[str, Lift]:
    return {
        name: Lift(a, a.monoid([types[c] for c in a.columns if c is not None]), None, False)
        for name, a in aggregates.items()
    }


def _tuples(events: Events, aggregates: Mapping[str, Aggregate]) -> Tuples:
    read = {c: events.column(c) for a in aggregates.values() for c in a.columns if c is not None}
    none = np.empty(0, np.int64)
    valid = {name: column.valid for name, column in read.items() if column.valid is not None}
    return Tuples(none, events.ts, none, none, {name: column.values for name, column in read.items()}, valid)


def _as_wide(m: Monoid, columns: Columns) -> Columns:
    """Convert partials to the fields of a monoid that may have just become wide."""
    return (columns[0], np.zeros(len(columns[0]), np.int64), *columns[1:]) if len(columns) < len(m.fields) else columns
