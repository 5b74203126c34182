"""A wheel: aggregates of a stream by time, for windows that slide on and for questions about any range (µWheel).

    events ──► writer ──── watermark ────► reader ──► query, group_by, landmark, …
               write-ahead, overflow   │   levels: seconds, minutes, hours, …
                                       └─► windows, sessions

One writes, many read. What is below the watermark is complete and does not change; nothing above it can be asked. The five functions of the
paper are `Wheel(…)`, `insert`, `window`, `advance_to` and `query`; bulk forms are `insert_many`, `ingest` and `query_many`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.input import read_columns, types_of
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import Column, ValueType, scalar
from windlass.durations import INT64_MIN, Duration
from windlass.errors import InvalidArgument, UnsupportedAggregate
from windlass.kernels import CannotCompile
from windlass.wheel.due import Batch, Due
from windlass.wheel.hierarchy import Level, Retention, levels_of
from windlass.wheel.keys import Keys
from windlass.wheel.overflow import NO_EARLIER, Overflow, earliest
from windlass.wheel.packing import BLOCK, Packed
from windlass.wheel.plans import INVERTIBLE
from windlass.wheel.reader import CUT, roll_up_kernel, skip_kernel
from windlass.wheel.reading import Readable, View
from windlass.wheel.sessions import Session
from windlass.wheel.slots import (
    COUNT,
    DONE,
    FROM,
    GAPS,
    HEAD,
    NEXT,
    PACKED,
    START,
    WATERMARK,
    WIDTH,
    Slots,
    place,
    row_of,
)
from windlass.wheel.ticks import Clock, Instant
from windlass.wheel.windows import Window
from windlass.wheel.writer import (
    DELAY,
    EVERY,
    LATE,
    PACE,
    SEEN,
    SINCE,
    TARGET,
    TICK,
    advance_kernel,
    head_row,
    ingest_kernel,
)
from windlass.windows.window import Periodic

if TYPE_CHECKING:
    from windlass.wheel.files import Form
    from windlass.wheel.readers import Publisher, Reader, SharedReader
    from windlass.wheel.settings import Settings

__all__ = ["Wheel"]

Array = np.ndarray[Any, Any]

WRITE_AHEAD = 64
SIMD_THRESHOLD = 512  # ⊕: below that, scanning one level beats a combined plan
_STEP = 1 << 16  # ticks that are rolled up at once
_BUFFER = 4096  # single events that wait to be inserted together


class Wheel(Readable):
    """The past of a stream as a hierarchy of wheels.

    aggregate       what to keep; commutative
    start           the first watermark: events before it are late
    tick            the length of the smallest slot
    levels          lengths of slots, or `Level`s, the lowest first; by default the paper's
    retention       "keep" (all), "drop" (a rotation) or how many slots each level keeps; or a dict by length
    prefix          levels keep prefixes, so that a range is one ⊖: twice the space, for invertible aggregates
    compressed      old slots are packed into few bits
    write_ahead     slots ahead of the watermark in which events are combined at once; later ones wait in the overflow wheel
    keys            True: every event has a key, and every slot is a vector over keys
    unit            of times that are given as integers: "s", "ms", "us" or "ns"
    hints           False: always the plan with the fewest ⊕; True: one level at once while that takes `simd_threshold` ⊕
    invertible      False: never subtract; True: keep partials that ⊖ can be applied to, also where these are larger (floats)
    dtype           the type of the values, where the first ones should not tell
    """

    def __init__(
        self,
        aggregate: Aggregate,
        start: Instant,
        *,
        tick: Duration = "1s",
        levels: Sequence[Level | Duration] | None = None,
        retention: Retention | Mapping[Any, Retention] = "keep",
        prefix: bool = False,
        compressed: bool = False,
        write_ahead: int = WRITE_AHEAD,
        keys: bool = False,
        unit: str = "us",
        hints: bool = True,
        simd_threshold: int = SIMD_THRESHOLD,
        invertible: bool | None = None,
        dtype: Any = None,
    ) -> None:
        _check_aggregate(aggregate, prefix, invertible)
        if isinstance(write_ahead, bool) or not isinstance(write_ahead, int) or write_ahead < 1:
            raise InvalidArgument(f"write_ahead is a number of slots, at least 1; got {write_ahead!r}")
        self.aggregate = aggregate
        self.clock = Clock(tick, unit, plain=isinstance(start, int | np.integer))
        self.levels = levels_of(levels, self.clock, retention, prefix, compressed)
        if any(level.prefix for level in self.levels):
            _check_aggregate(aggregate, True, invertible)
        self.keys = Keys() if keys else None
        if keys and any(level.compressed for level in self.levels):
            raise InvalidArgument(
                "a wheel of many keys cannot be compressed: its slots are vectors that grow with the keys"
            )
        self.write_ahead, self.hints, self.simd_threshold = write_ahead, hints, simd_threshold
        self.invertible = invertible
        self._watermark = self._start = self.clock.floor("start", start)
        self._late_before = self._watermark * self.clock.tick
        self.late = 0  # events that were rejected so far
        self._monoid: Monoid | None = None
        self._windows: list[Window | Session] = []
        self._due: list[Batch] = []
        self._buffer: tuple[list[Any], list[int], list[Any]] = ([], [], [])
        self._pace = np.zeros(PACE, np.int64)
        self._pace[[TICK, SEEN]] = self.clock.tick, INT64_MIN + self.clock.tick
        self._saved: dict[
            str, tuple[int, tuple[int, ...]]
        ] = {}  # by path: the last commit, and the slots that are in it
        self._publisher: Publisher | None = None
        self._set_up(hints, simd_threshold, False)
        self._published: tuple[Monoid | None, View, tuple[Packed, ...]] = (None, self._unbound_view(), ())
        types = types_of(aggregate, dtype)
        if types is not None or not aggregate.columns:
            self._bind(types or [])

    # ------------------------------------------------------------------ writing

    def insert(self, value: Any, t: Instant, key: Any = None) -> bool:
        """Insert one event; False if it is late, and then it is not in. For an aggregate of several columns, `value` is a tuple."""
        time = self.clock.time("the time of an event", t)
        if time < self._late_before:
            self.late += 1
            return False
        m = self._monoid
        if m is None or len(m.inputs) != 1:
            return len(self.insert_many(self._as_columns(value), [time], None if key is None else [key])) == 0
        if (key is None) != (self.keys is None):
            self._check_keys(key)
        values, times, keys = self._buffer
        item = scalar(value, m.inputs[0])
        values.append(item)
        times.append(time)
        if self.keys is not None:
            keys.append(key)
        if len(values) >= _BUFFER:
            self._flush()
        return True

    def insert_many(self, values: Any, times: Any, keys: Any = None) -> Array:
        """Insert events, in any order; the positions of those that are late, which are not in."""
        self._flush()
        events = self._read(values, times, keys)
        return self._ingest(*events, every=0, delay=0)

    def ingest(self, values: Any, times: Any, keys: Any = None, *, every: int = 100, delay: Duration = 0) -> Due:
        """Insert events and advance on the way: after every so many, to the latest time seen less `delay`.

        It is what a loop of `insert` and `advance_to` would do. Windows that became complete come back, with the positions of late events.
        """
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise InvalidArgument(f"every is a number of events, at least 1; got {every!r}")
        lag = 0 if delay == 0 else self.clock.length("delay", delay) * self.clock.tick
        self._flush()
        events = self._read(values, times, keys)
        late = self._ingest(*events, every=every, delay=lag)
        self._sync()
        return self._hand_out(late)

    def advance_to(self, t: Instant) -> Due:
        """No event before `t` will come any more: everything up to there is complete. Gives the windows that are, too.

        The watermark moves in whole ticks, rounded down, and never back.
        """
        to = self.clock.floor("the watermark", t)
        if to > self._watermark:
            self._flush()
            if self._monoid is None:
                self._move_unbound(to)
            else:
                self._advance(to)
                self._sync()
        return self._hand_out(np.zeros(0, np.int64))

    def window(
        self, range: Duration, slide: Duration | None = None, *, offset: Duration = 0, label: str | None = None
    ) -> str:
        """Have a window answered as time advances: `range` long, one every `slide` (default: tumbling). Gives its label.

        Windows of which the past is still retained come out whole; others start with those that begin now.
        """
        length = self.clock.length("range", range)
        step = length if slide is None else self.clock.length("slide", slide)
        if step > length:
            raise InvalidArgument(
                f"the slide {slide!r} is longer than the range {range!r}: events in between would be lost"
            )
        phase = 0 if offset == 0 else self.clock.length("offset", offset) % step
        name = label or f"{self.clock.span(length)}/{self.clock.span(step)}"
        self._check_label(name)
        window = Window(name, Periodic(phase, step, length, 1), self.aggregate, bool(self._options[INVERTIBLE]))
        self._flush()
        self._windows.append(window)
        self._start_window(window)
        return name

    def session(self, gap: Duration, *, label: str | None = None) -> str:
        """Have sessions answered: events at most `gap` apart, in whole ticks. Those that begin from now on come out."""
        ticks = self.clock.length("gap", gap)
        name = label or f"session {self.clock.span(ticks)}"
        self._check_label(name)
        self._flush()
        session = Session(name, ticks)
        session.reach(self._watermark)
        self._windows.append(session)
        return name

    # ------------------------------------------------------------------ looks

    def reader(self) -> Reader:
        """For another thread: asks this wheel while it is written to. Each thread needs one of its own."""
        from windlass.wheel.readers import Reader

        return Reader(self)

    def share(self, path: str | os.PathLike[str]) -> None:
        """Let other processes ask this wheel: `Wheel.attach(path, aggregate)`. From now on its slots lie in files under `path`."""
        from windlass.wheel import settings
        from windlass.wheel.readers import Publisher

        if self._packed:
            raise InvalidArgument("a compressed wheel cannot be shared between processes; leave out compressed=")
        if self._monoid is None:
            raise InvalidArgument(
                "a wheel that has seen no event and was given no dtype cannot be shared: its types are unknown"
            )
        publisher = Publisher(Path(path))
        settings.write(Path(path), self)
        self._slots.move(publisher)
        self._publisher = publisher
        self._publish()

    @staticmethod
    def attach(path: str | os.PathLike[str], aggregate: Aggregate) -> SharedReader:
        """Ask a wheel of another process, which shares it. `refresh()` takes the reader to the newest watermark."""
        from windlass.wheel.readers import SharedReader

        return SharedReader(path, aggregate)

    def merge(self, other: Wheel) -> Wheel:
        """The wheel over the events of both, which must be of disjoint parts of a stream. Both stay as they are."""
        from windlass.wheel.merge import merge

        return merge(self, other)

    def save(self, path: str | os.PathLike[str], form: Form = "parquet") -> int:
        """Save under a directory what is new since the last time; atomic. Windows are not saved."""
        from windlass.wheel.saving import save

        return save(self, path, form)

    @staticmethod
    def open(path: str | os.PathLike[str], aggregate: Aggregate, *, memory_map: bool = True) -> Wheel:
        """The wheel that was saved under a directory, to ask it and to go on writing."""
        from windlass.wheel.saving import restore

        return restore(path, aggregate, memory_map)

    @property
    def nbytes(self) -> int:
        """Bytes in use for slots, bits, totals, and events that wait."""
        if self._monoid is None:
            return 0
        return self._slots.nbytes + self._overflow.nbytes + sum(p.nbytes for p in self._packed)

    @property
    def mode(self) -> str:
        """`compiled`, or `interpreted: why`; `unbound` before the first value."""
        if self._monoid is None:
            return "unbound"
        return "compiled" if self._monoid.is_compiled else f"interpreted: {self._monoid.interpreted}"

    def __repr__(self) -> str:
        show = self.clock.show
        names = ", ".join(level.name for level in self.levels)
        keys = f", {len(self.keys)} keys" if self.keys is not None else ""
        return f"<Wheel {self.aggregate!r}: {show(self._start)} to {show(self._watermark)}, {names}{keys}; {self.mode}>"

    def check_invariants(self) -> None:
        """Assert what the files say of their state; for tests."""
        from windlass.wheel.checking import check_invariants

        if self._monoid is not None:
            check_invariants(self)

    @property
    def subtracts(self) -> bool:
        """Whether plans and windows may use ⊖."""
        return bool(self._options[INVERTIBLE])

    # ------------------------------------------------------------------ binding

    @classmethod
    def _from_settings(cls, found: Settings) -> Wheel:
        """An empty wheel of the same making."""
        time = found.start * found.clock.tick
        w = cls(
            found.aggregate,
            time if found.clock.plain else np.datetime64(time, found.clock.unit),
            tick=found.clock.tick,
            levels=[replace(level, ticks=0) for level in found.levels],
            write_ahead=found.write_ahead,
            keys=found.keyed,
            unit=found.clock.unit,
            hints=found.hints,
            simd_threshold=found.simd_threshold,
            invertible=found.subtracts,
        )
        w.invertible = found.invertible
        if w._monoid is None:
            w._bind(found.monoid.inputs)
        return w

    def _like(self, start: int) -> Wheel:
        from windlass.wheel.settings import Settings, describe

        return Wheel._from_settings(Settings(self.aggregate, describe(self) | {"start": start}))

    def _bind(self, types: Sequence[ValueType]) -> None:
        subtracts = self._wants_subtraction(types)
        m = self.aggregate.monoid(types, nullable=False, subtractable=subtracts)
        packed = tuple(Packed(m, l) for l, level in enumerate(self.levels) if level.compressed)
        self._slots = Slots(m, self.levels, self._start, self.write_ahead, max(1, len(self.keys or ())))
        self._overflow = Overflow(m)
        self._packed = packed
        self._monoid = m
        self._options[INVERTIBLE] = subtracts
        for window in self._windows:
            if isinstance(window, Window):
                window.use_inverse(subtracts)
        if self._watermark > self._start:
            to, self._watermark = self._watermark, self._start
            self._advance(to)
            self._sync()
        self._publish()

    def _wants_subtraction(self, types: Sequence[ValueType]) -> bool:
        """Whether partials are of the form that ⊖ may be applied to: if that costs nothing, or is asked for."""
        if not self.aggregate.invertible or self.invertible is False:
            return False
        if self.invertible or any(level.prefix for level in self.levels):
            return True
        plain = self.aggregate.monoid(types, nullable=False)
        return plain.fields == self.aggregate.monoid(types, nullable=False, subtractable=True).fields

    def _unbound_view(self) -> View:
        header = np.zeros(HEAD, np.int64)
        header[[START, WATERMARK]] = self._start, self._watermark
        return (), (), np.zeros(0, np.uint8), header, np.zeros((0, 2), np.int64), (), np.zeros(0, np.bool_)

    def _move_unbound(self, to: int) -> None:
        self._watermark = to
        self._late_before = to * self.clock.tick
        self._published = (None, self._unbound_view(), ())

    def _look(self) -> tuple[Monoid | None, View, tuple[Packed, ...]]:
        return self._published

    def _publish(self) -> None:
        """Let readers see the state: one assignment, so they see all of it or what was before."""
        self._watermark = int(self._slots.header[WATERMARK])
        self._late_before = self._watermark * self.clock.tick
        self._published = self._monoid, self._slots.view(), tuple(p.frozen() for p in self._packed)
        if self._publisher is not None:
            self._publisher.publish(self)

    # ------------------------------------------------------------------ events in

    def _read(self, values: Any, times: Any, keys: Any) -> tuple[Any, Array, Array]:
        """Everything is checked here, before anything changes."""
        at = self.clock.times(times)
        types = self._monoid.inputs if self._monoid is not None else None
        read = read_columns(self.aggregate, values, types)
        if read.length != len(at):
            raise InvalidArgument(f"there are {read.length} values and {len(at)} times; every event has one of each")
        self._check_keys(keys)
        places, new = (np.zeros(0, np.int64), []) if self.keys is None else self.keys.encode(keys, len(at))
        if self._monoid is None:
            self._bind([c.type for c in read.columns])
        assert self._monoid is not None
        self._add_keys(new)
        return evaluation.events_of(self._monoid, read.columns, read.length), at, places

    def _ingest(self, events: Any, times: Array, places: Array, every: int, delay: int) -> Array:
        m, keyed = self._bound, self.keys is not None
        kernel = evaluation.kernel(m, lambda: ingest_kernel(m, keyed), "wheel ingest", keyed)
        pace, n, done = self._pace, len(times), 0
        since = pace[SINCE]
        pace[[EVERY, DELAY, LATE]] = every, delay, 0
        late = np.empty(n, np.int64)
        if every and n:  # memory that is never written to costs nothing
            self._slots.room(min(max(int(times.max()) // self.clock.tick - self._watermark, 0), _STEP + 4 * n))
        else:
            self._slots.room(0)
        while True:
            overflow = self._overflow
            done = self._call(
                kernel, self._slots.state(), events, times, places, done, pace, late, overflow.wheel, overflow.partials
            )
            if pace[TARGET] > self._slots.header[WATERMARK]:
                self._advance(int(pace[TARGET]))
                self._sync()
                self._slots.room(min(n - done, _STEP))
            elif done < n:
                overflow.grow()
            else:
                break
        if not every:
            pace[SINCE] = since
        found = late[: int(pace[LATE])].copy()
        self.late += len(found)
        return found

    def _call(self, kernel: Any, *arguments: Any) -> int:
        try:
            return int(kernel(*arguments))
        except CannotCompile as error:  # nothing has run
            raise UnsupportedAggregate(f"numba cannot compile a wheel for {self.aggregate!r}: {error}") from error

    def _flush(self) -> None:
        """Insert the single events that wait."""
        values, times, keys = self._buffer
        if not times:
            return
        self._buffer = ([], [], [])
        m = self._bound
        type_ = m.inputs[0]
        valid = np.array([v is not None for v in values], np.bool_)
        array = np.empty(len(values), type_.dtype)
        for i, value in enumerate(values):
            if value is not None:
                array[i] = value
        read = Column(array, None if valid.all() else valid, type_)
        at = np.array(times, np.int64)
        places = np.zeros(0, np.int64)
        if self.keys is not None:
            places, new = self.keys.encode(keys, len(at))
            self._add_keys(new)
        self._ingest(evaluation.events_of(m, [read], len(at)), at, places, every=0, delay=0)

    def _as_columns(self, value: Any) -> Any:
        width = len(self.aggregate.columns)
        if width == 0:
            return [value]
        values = (value,) if width == 1 else value
        if not isinstance(values, tuple) or len(values) != width:
            raise InvalidArgument(f"{self.aggregate!r} takes {width} values an event, got {value!r}")
        if self._monoid is None and any(v is None for v in values):
            raise InvalidArgument("the first value is null, so its type is unknown; construct Wheel(…, dtype=…)")
        arrays = tuple([v] for v in values)
        return arrays[0] if width == 1 else arrays

    def _add_keys(self, new: list[Any]) -> None:
        if not new or self.keys is None:
            return
        width = int(self._slots.header[WIDTH])
        if len(self.keys) + len(new) > width:
            self._slots.widen(max(len(self.keys) + len(new), 2 * width))
            self._publish()
        for key in new:
            self.keys.places[key] = len(self.keys)

    def _check_keys(self, keys: Any) -> None:
        if keys is None and self.keys is not None:
            raise InvalidArgument("every event of this wheel has a key: give keys too")
        if keys is not None and self.keys is None:
            raise InvalidArgument("this wheel has no keys; make one with keys=True")

    def _check_label(self, label: str) -> None:
        if any(w.label == label for w in self._windows):
            raise InvalidArgument(f"there is a window {label!r} already; give another label")

    # ------------------------------------------------------------------ time

    @property
    def _bound(self) -> Monoid:
        assert self._monoid is not None
        return self._monoid

    def _advance(self, to: int) -> None:
        """Move the watermark: freeze slots, pass over quiet times, pour in what was too far ahead."""
        m, slots, overflow = self._bound, self._slots, self._overflow
        kernel = evaluation.kernel(m, lambda: advance_kernel(m), "wheel advance")
        while (now := int(slots.header[WATERMARK])) < to:
            quiet = self._quiet(min(to - now, NO_EARLIER))
            if quiet >= max(CUT, self.write_ahead):
                self._sync()
                self._skip(now, now + quiet)
                slots.room(0)
                kernel(slots.state(), now + quiet, overflow.wheel, overflow.partials)
                continue
            step = min(to - now, _STEP, self.write_ahead if len(overflow) else _STEP)
            slots.room(step)
            kernel(slots.state(), now + step, overflow.wheel, overflow.partials)
            if step == _STEP:
                self._sync()

    def _quiet(self, most: int) -> int:
        """For how many ticks from the watermark on, at most so many, there is no event yet."""
        if most < CUT:
            return 0
        slots = self._slots
        width, row = int(slots.header[WIDTH]), int(head_row(slots.header))
        first, last = row * width, (row + self.write_ahead) * width
        if slots.bits[first // 8 : -(-last // 8)].any():
            flags = np.unpackbits(slots.bits[first // 8 : -(-last // 8)], bitorder="little")[first % 8 :]
            found = np.flatnonzero(flags[: last - first])
            if len(found):
                return min(int(found[0]) // width, most)
        _, begin = earliest(self._overflow.wheel)
        if begin == NO_EARLIER:
            return most
        return min(int(begin) + self._start - int(slots.header[WATERMARK]), most)

    def _skip(self, now: int, to: int) -> None:
        """Pass over a quiet time, of which nothing is stored."""
        m, slots = self._bound, self._slots
        slots.room(0)
        evaluation.kernel(m, lambda: skip_kernel(m), "wheel skip")(slots.state(), to)
        left_out = [max(to // level.ticks - -(-now // level.ticks), 0) for level in self.levels]
        slots.add_gap(now, to, left_out)
        self._follow(to, quiet=True)

    def _sync(self) -> None:
        """Roll up, follow the windows, forget what is not retained, pack, and let readers see it."""
        m, slots = self._bound, self._slots
        slots.room(0, int(slots.header[WATERMARK]) - slots.get(0, DONE))
        evaluation.kernel(m, lambda: roll_up_kernel(m), "wheel roll up")(slots.state())
        self._follow(int(slots.header[WATERMARK]), quiet=False)
        for l, level in enumerate(self.levels):
            if level.limit >= 0:
                slots.put(l, FROM, max(slots.get(l, FROM), slots.get(l, NEXT) - level.limit))
        for packed in self._packed:
            self._pack(packed)
        self._publish()

    def _pack(self, packed: Packed) -> None:
        slots, l = self._slots, packed.level
        while slots.get(l, COUNT) - slots.get(l, PACKED) >= 2 * BLOCK:
            row = int(row_of(slots.header, l, slots.get(l, PACKED)))
            columns = tuple(column[row : row + BLOCK] for column in slots.columns)
            packed.append(columns, slots.bits[row // 8 : (row + BLOCK) // 8])
            slots.put(l, PACKED, slots.get(l, PACKED) + BLOCK)
        packed.drop_before(int(place(slots.header, slots.gaps, l, slots.get(l, FROM))))

    def _follow(self, to: int, quiet: bool) -> None:
        """Have all windows reach a tick."""
        m, state = self._bound, self._slots.state()
        keys: list[Any] = [None] if self.keys is None else list(self.keys)
        for window in self._windows:
            for k, key in enumerate(keys):
                if isinstance(window, Window):
                    done = window.advance(m, state, k, self.keys is not None, to, quiet)
                    if done is not None:
                        self._due.append(Batch(window.label, key, done[0], done[0] + window.length, done[1]))
                else:
                    found = window.advance(m, state, k, to, quiet)
                    if found is not None:
                        bounds = found[0]
                        self._due.append(Batch(window.label, key, bounds[:, 0].copy(), bounds[:, 1].copy(), found[1]))
            window.reach(to)

    def _start_window(self, window: Window) -> None:
        """A new window sees what is retained of the past, back to its own length, without handing it out again."""
        now = self._watermark
        window.start(now, -NO_EARLIER)
        if self._monoid is None:
            return
        slots = self._slots
        begin, covered = max(now - window.length, self._start), -NO_EARLIER
        unpacked = now - (slots.get(0, COUNT) - slots.get(0, PACKED)) if slots.get(0, PACKED) else self._start
        if max(slots.get(0, FROM), unpacked) > begin:
            begin = covered = max(slots.get(0, FROM), unpacked)
        for quiet_from, quiet_to in slots.gaps[: int(slots.header[GAPS]), :2].tolist():
            if quiet_to > begin:  # what is before the gap is not followed, unless it is nothing
                covered = covered if quiet_from <= begin else quiet_from
                begin = quiet_to
        window.start(begin, covered)
        for k in range(1 if self.keys is None else len(self.keys)):
            window.advance(self._bound, slots.state(), k, self.keys is not None, now, False)
        window.reach(now)

    def _hand_out(self, late: Array) -> Due:
        batches, self._due = self._due, []
        return Due(self.clock, self.aggregate.output_name, self._monoid, batches, self.keys is not None, late)


def _check_aggregate(aggregate: Any, prefix: bool, invertible: bool | None) -> None:
    if not isinstance(aggregate, Aggregate):
        raise UnsupportedAggregate(
            f"a wheel needs an aggregate such as agg.sum('fare'), got {type(aggregate).__name__}"
        )
    if not aggregate.commutative:
        raise UnsupportedAggregate(
            f"a wheel needs a commutative aggregate, and {aggregate!r} is not: events are combined as they arrive, within a slot in any "
            "order. Use an Operator, which keeps event order"
        )
    if (prefix or invertible) and not aggregate.invertible:
        raise UnsupportedAggregate(
            f"{'prefixes need' if prefix else 'invertible=True needs'} an inverse, to take the older part off, and {aggregate!r} has none"
        )
