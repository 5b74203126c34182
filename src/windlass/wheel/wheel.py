"""A wheel: aggregates of a stream by time, for windows that slide on and for questions about any range (µWheel).

    events ──► writer ──── watermark ────► reader ──► query, group_by, landmark, …
               write-ahead, overflow   │   levels: seconds, minutes, hours, …
                                       └─► windows, sessions

One writes, many read. What is below the watermark is complete and does not change; nothing above it can be asked. The
five functions of the paper are `Wheel(…)`, `insert`, `window`, `advance_to` and `query`; bulk forms are
`insert_many`, `ingest` and `query_many`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.input import types_of
from windlass.aggregates.values import scalar
from windlass.durations import INT64_MIN, Duration, refuse_plain
from windlass.errors import InvalidArgument, UnsupportedAggregate
from windlass.exclusive import exclusive, reading
from windlass.wheel.due import Due
from windlass.wheel.engine import Engine
from windlass.wheel.hierarchy import Level, Retention, levels_of
from windlass.wheel.keys import Keys
from windlass.wheel.plans import INVERTIBLE
from windlass.wheel.reading import Readable
from windlass.wheel.sessions import Session
from windlass.wheel.slots import Memory
from windlass.wheel.ticks import Clock, Instant
from windlass.wheel.windows import Window
from windlass.wheel.writer import PACE, SEEN, TICK
from windlass.windows.parameters import number
from windlass.windows.window import Periodic

if TYPE_CHECKING:
    from windlass.wheel.contents import Cells, Contents
    from windlass.wheel.files import Form
    from windlass.wheel.readers import Reader, SharedReader
    from windlass.wheel.settings import Settings

__all__ = ["Wheel"]

Array = np.ndarray[Any, Any]

WRITE_AHEAD = 64
SIMD_THRESHOLD = 512  # ⊕: below that, scanning one level beats a combined plan
_BUFFER = 4096  # single events that wait to be inserted together
_TOO_MANY_SLIDES = 10**9  # of one window, which keeps a partial for each


class Wheel(Engine):
    """The past of a stream as a hierarchy of wheels.

    aggregate       what to keep; commutative
    start           the first watermark: events before it are late
    tick            the length of the smallest slot
    levels          lengths of slots, or `Level`s, the lowest first; by default the paper's
    retention       "keep" (all), "drop" (a rotation) or how many slots each level keeps; or a dict by length
    prefix          levels keep prefixes, so that a range is one ⊖: twice the space, for invertible aggregates
    compressed      old slots are packed into few bits
    write_ahead     slots ahead of the watermark in which events are combined at once; later ones wait
    keys            True: every event has a key, and every slot is a vector over keys
    unit            of times that are given as integers: "s", "ms", "us" or "ns"
    hints           False: always the plan with the fewest ⊕. True: one level at once, up to `simd_threshold` ⊕
    invertible      False: never subtract. True: keep partials that ⊖ can be applied to, even if larger (floats)
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
        write_ahead = number("write_ahead", write_ahead)
        self.aggregate = aggregate
        plain = isinstance(start, int | np.integer)
        if not plain:
            refuse_plain("the tick of the wheel", tick)
        self.clock = Clock(tick, unit, plain)
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
        self._monoid = None
        self._windows, self._due, self._buffer, self._packed = [], [], ([], [], []), ()
        self._pace = np.zeros(PACE, np.int64)
        self._pace[[TICK, SEEN]] = self.clock.tick, INT64_MIN + self.clock.tick
        self._saved: dict[
            str, tuple[int, tuple[int, ...]]
        ] = {}  # by path: the last commit, and the slots that are in it
        self._saving: dict[str, int] = {}  # by path: the number of a commit that has begun and not ended
        self._publisher = None
        self._set_up(hints, simd_threshold, False)
        self._published = (None, self._unbound_view(), ())
        types = types_of(aggregate, dtype)
        if types is not None or not aggregate.columns:
            self._bind(types or [])

    # ------------------------------------------------------------------ writing

    @exclusive
    def insert(self, value: Any, t: Instant, key: Any = None) -> bool:
        """Insert one event; False if it is late, and then it is not in. For an aggregate of several columns, `value`
        is a tuple."""
        time = self.clock.time("the time of an event", t)
        if time < self._late_before:
            self.late += 1
            return False
        m = self._monoid
        if m is None or len(m.inputs) != 1:
            return len(self._insert_many(self._as_columns(value), [time], None if key is None else [key])) == 0
        if (key is None) != (self.keys is None):
            self._check_keys(key)
        item = scalar(value, m.inputs[0])
        # The buffer holds only keys that can be inserted, so any other key is refused here.
        if self.keys is not None and not self.keys.accepts(key):
            _, new = self.keys.encode([key], 1)
            self._add_keys(new)
        values, times, keys = self._buffer
        values.append(item)
        times.append(time)
        if self.keys is not None:
            keys.append(key)
        if len(values) >= _BUFFER:
            self._flush()
        return True

    @exclusive
    def insert_many(self, values: Any, times: Any, keys: Any = None) -> Array:
        """Insert events, in any order; the positions of those that are late, which are not in."""
        return self._insert_many(values, times, keys)

    def _insert_many(self, values: Any, times: Any, keys: Any) -> Array:
        self._flush()
        events = self._read(values, times, keys)
        return self._ingest(*events, every=0, delay=0)

    @exclusive
    def ingest(self, values: Any, times: Any, keys: Any = None, *, every: int = 100, delay: Duration = 0) -> Due:
        """Insert events and advance on the way: after every so many, to the latest time seen less `delay`.

        It is what a loop of `insert` and `advance_to` would do. Windows that became complete come back, with the
        positions of late events.
        """
        every = number("every", every)
        lag = 0 if delay == 0 else self.clock.length("delay", delay) * self.clock.tick
        self._flush()
        events = self._read(values, times, keys)
        late = self._ingest(*events, every=every, delay=lag)
        self._complete(self._watermark)
        return self._hand_out(late)

    @exclusive
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
                self._complete(to)
        return self._hand_out(np.zeros(0, np.int64))

    @exclusive
    def window(
        self, range: Duration, slide: Duration | None = None, *, offset: Duration = 0, label: str | None = None
    ) -> str:
        """Have a window answered as time advances: `range` long, one every `slide` (default: tumbling). Gives its
        label.

        Windows of which the past is still retained come out whole; others start with those that begin now.
        """
        length = self.clock.length("range", range)
        step = length if slide is None else self.clock.length("slide", slide)
        if step > length:
            raise InvalidArgument(
                f"the slide {slide!r} is longer than the range {range!r}: events in between would be lost"
            )
        if length // step >= _TOO_MANY_SLIDES:
            raise InvalidArgument(
                f"range {range!r} holds {length // step:,} slides of {slide!r}, and a window keeps a partial for each: "
                f"choose a longer slide, so that there are fewer than {_TOO_MANY_SLIDES:,}"
            )
        phase = 0 if offset == 0 else self.clock.length("offset", offset) % step
        name = label or f"{self.clock.span(length)}/{self.clock.span(step)}"
        self._check_label(name)
        self._flush()
        try:
            window = Window(name, Periodic(phase, step, length, 1), self.aggregate, bool(self._options[INVERTIBLE]))
            self._start_window(window)
        except BaseException as error:
            self.undone(error)  # it is not registered yet
            raise
        self._windows.append(window)
        return name

    @exclusive
    def session(self, gap: Duration, *, label: str | None = None) -> str:
        """Have sessions answered: events at most `gap` apart, in whole ticks. Those that begin from now on come out."""
        ticks = self.clock.length("gap", gap)
        name = label or f"session {self.clock.span(ticks)}"
        self._check_label(name)
        self._flush()
        try:
            session = Session(name, ticks)
            session.reach(self._watermark)
        except BaseException as error:
            self.undone(error)  # it is not registered yet
            raise
        self._windows.append(session)
        return name

    @reading
    def explain_windows(self) -> str:
        """What periodic windows share, how each one is evaluated, and what else it could be, in ⊕."""
        from windlass.wheel.sharing import explained

        windows = [w for w in self._windows if isinstance(w, Window)]
        return explained(windows, self.subtracts, self.clock)

    # ------------------------------------------------------------------ looks

    # Queries to the wheel itself exclude writes. A reader does not.
    query = reading(Readable.query)
    query_many = reading(Readable.query_many)
    landmark = reading(Readable.landmark)
    interval = reading(Readable.interval)
    group_by = reading(Readable.group_by)
    by_key = reading(Readable.by_key)
    explain = reading(Readable.explain)

    def reader(self) -> Reader:
        """For another thread: asks this wheel while it is written to. Each thread needs one of its own."""
        from windlass.wheel.readers import Reader

        return Reader(self)

    @exclusive
    def share(self, path: str | os.PathLike[str]) -> None:
        """Let other processes ask this wheel: `Wheel.attach(path, aggregate)`. From now on its slots lie in files
        under `path`."""
        from windlass.wheel import settings
        from windlass.wheel.readers import Publisher

        if self._packed:
            raise InvalidArgument("a compressed wheel cannot be shared between processes; leave out compressed=")
        if self._monoid is None:
            raise InvalidArgument(
                "a wheel that has seen no event and was given no dtype cannot be shared: its types are unknown"
            )
        try:
            publisher = Publisher(Path(path), self._monoid)
            settings.write(Path(path), self)
        except BaseException as error:
            self.undone(error)
            raise
        self._slots.move(publisher)
        self._publisher = publisher
        self._publish()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that shares no state. It is not shared with other processes: the files stay those of this wheel."""
        if (publisher := self._publisher) is not None:
            memo[id(publisher)] = Memory()
        made = super().__deepcopy__(memo)
        made._publisher = None
        return made

    @staticmethod
    def attach(path: str | os.PathLike[str], aggregate: Aggregate) -> SharedReader:
        """Ask a wheel of another process, which shares it. `refresh()` takes the reader to the newest watermark."""
        from windlass.wheel.readers import SharedReader

        return SharedReader(path, aggregate)

    @exclusive
    def merge(self, other: Wheel) -> Wheel:
        """The wheel over the events of both, which must be of disjoint parts of a stream. Both stay as they are."""
        from windlass.wheel.merge import merge

        return merge(self, other)

    @exclusive
    def _contents(self) -> Contents:
        """The whole contents, for a merge."""
        from windlass.wheel.contents import contents

        self._flush()
        try:
            return contents(self)
        except BaseException as error:
            self.undone(error)
            raise

    @exclusive
    def _revise(self, cells: Cells, keys: list[Any], upto: int) -> None:
        """Take new and corrected slots, and advance to a tick. Called by a history on its wheels."""
        from windlass.wheel.revising import revise

        self._add_keys(keys)
        revise(self, cells, upto)

    @exclusive
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

    @reading
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
        start: Any = time if found.clock.plain else np.array(time, f"M8[{found.clock.unit}]")[()]
        w = cls(
            found.aggregate,
            start,
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


def _check_aggregate(aggregate: Any, prefix: bool, invertible: bool | None) -> None:
    if not isinstance(aggregate, Aggregate):
        raise UnsupportedAggregate(
            f"a wheel needs an aggregate such as agg.sum('fare'), got {type(aggregate).__name__}"
        )
    if not aggregate.commutative:
        raise UnsupportedAggregate(
            f"a wheel needs a commutative aggregate, and {aggregate!r} is not: events are combined as they arrive, in "
            "any order within a slot. Use an Operator, which keeps event order"
        )
    if (prefix or invertible) and not aggregate.invertible:
        what = "prefixes need" if prefix else "invertible=True needs"
        raise UnsupportedAggregate(f"{what} an inverse, to take the older part off, and {aggregate!r} has none")
