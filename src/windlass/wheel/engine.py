"""The moving parts of a wheel: binding to types, events in, time, and what readers see.

    _read ──► _ingest ──► slots, overflow                 events
    _advance ──► freeze, or _skip a quiet time            time
    _sync ──► roll up, follow windows, forget, pack, publish

`Wheel` is the class that users see; this is what its methods are made of. All is checked before anything changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.input import read_columns
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import LIMIT, greatest, widened
from windlass.aggregates.values import Column, ValueType
from windlass.errors import InvalidArgument, UnsupportedAggregate
from windlass.exclusive import Exclusive
from windlass.kernels import CannotCompile
from windlass.wheel.due import Batch, Due
from windlass.wheel.overflow import NO_EARLIER, Overflow, earliest
from windlass.wheel.packing import BLOCK, Packed
from windlass.wheel.plans import INVERTIBLE
from windlass.wheel.reader import CUT, roll_up_kernel, skip_kernel
from windlass.wheel.reading import Readable, View
from windlass.wheel.sessions import Session
from windlass.wheel.sharing import Pieces, edges_of, pays, pieces
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
from windlass.wheel.windows import Window
from windlass.wheel.writer import DELAY, EVERY, LATE, SINCE, TARGET, advance_kernel, head_row, ingest_kernel

if TYPE_CHECKING:
    from windlass.wheel.readers import Publisher

Array = np.ndarray[Any, Any]

_STEP = 1 << 16  # ticks that are rolled up at once
_SPARSE = 256  # ticks an event to make room for, at most


class Engine(Readable, Exclusive):
    """What a wheel does, without its public interface.

    Nothing is undone: once slots are written to, any exception breaks the wheel.
    """

    _mend = "open it from where it was saved, or make another"

    write_ahead: int
    invertible: bool | None
    late: int
    _monoid: Monoid | None
    _plain: Monoid  # the monoid as bound; `_monoid` may be its wide form
    _size: int  # upper bound of Σ|x|: see `aggregates.overflow`
    _slots: Slots
    _overflow: Overflow
    _packed: tuple[Packed, ...]
    _windows: list[Window | Session]
    _due: list[Batch]
    _buffer: tuple[list[Any], list[int], list[Any]]
    _pace: Array
    _start: int
    _watermark: int
    _late_before: int
    _publisher: Publisher | None
    _published: tuple[Monoid | None, View, tuple[Packed, ...]]

    def _bind(self, types: Sequence[ValueType]) -> None:
        subtracts = self._wants_subtraction(types)
        m = self.aggregate.monoid(types, nullable=False, subtractable=subtracts)
        packed = tuple(Packed(m, l) for l, level in enumerate(self.levels) if level.compressed)
        self._slots = Slots(m, self.levels, self._start, self.write_ahead, max(1, len(self.keys or ())))
        self._overflow = Overflow(m)
        self._packed = packed
        self._monoid = self._plain = m
        self._size = 0
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
        try:
            at = self.clock.times(times)
            types = self._monoid.inputs if self._monoid is not None else None
            read = read_columns(self.aggregate, values, types)
            if read.length != len(at):
                raise InvalidArgument(
                    f"there are {read.length} values and {len(at)} times; every event has one of each"
                )
            self._check_keys(keys)
            places, new = (np.zeros(0, np.int64), []) if self.keys is None else self.keys.encode(keys, len(at))
        except BaseException as error:
            self.undone(error)
            raise
        if self._monoid is None:
            self._bind([c.type for c in read.columns])
        assert self._monoid is not None
        self._add_keys(new)
        self._watch(read.columns)
        return evaluation.events_of(self._monoid, read.columns, read.length), at, places

    def _watch(self, columns: Sequence[Column]) -> None:
        """Widen the sums if the coming events could overflow 64 bits."""
        if self._bound.wide is not None:
            self._make_sure(greatest(columns[0].values) * len(columns[0]))

    def _make_sure(self, size: int) -> None:
        """Widen the sums to 128 bits if more values with Σ|x| <= `size` could overflow 64."""
        self._size += size
        if self._size >= LIMIT and self._bound.wide is not None:
            try:
                self._widen()
            except BaseException as error:
                self.unfinished(error)
                raise

    def _widen(self) -> None:
        """Give all partials their second field, which starts at 0. Readers keep the old arrays."""
        m = self._bound
        assert m.wide is not None
        slots = self._slots
        columns, totals = widened(m, slots.columns), widened(m, slots.totals)
        prefix = widened(m, slots.prefix) if slots.has_prefix else columns
        waiting = widened(m, self._overflow.partials)
        packed = tuple(p.widened(m) for p in self._packed)
        due = [b._replace(answers=(widened(m, b.answers[0], results=True), b.answers[1])) for b in self._due]
        slots.monoid, slots.columns, slots.prefix, slots.totals = m.wide, columns, prefix, totals
        self._overflow.monoid, self._overflow.partials = m.wide, waiting
        for window in self._windows:
            window.widen(m)
        self._packed, self._due, self._monoid = packed, due, m.wide
        if self._publisher is not None:
            slots.move(self._publisher)
        self._publish()

    def _ingest(self, events: Any, times: Array, places: Array, every: int, delay: int) -> Array:
        try:
            return self._take_in(events, times, places, every, delay)
        except BaseException as error:
            self.unfinished(error)
            raise

    def _take_in(self, events: Any, times: Array, places: Array, every: int, delay: int) -> Array:
        m, keyed = self._bound, self.keys is not None
        kernel = evaluation.kernel(m, lambda: ingest_kernel(m, keyed), "wheel ingest", keyed)
        pace, n, done = self._pace, len(times), 0
        since = pace[SINCE]
        pace[[EVERY, DELAY, LATE]] = every, delay, 0
        late = np.empty(n, np.int64)
        latest = int(times.max()) // self.clock.tick if every and n else self._watermark
        self._slots.room(self._ticks_until(latest, n))
        while True:
            overflow = self._overflow
            done = self._call(
                kernel, self._slots.state(), events, times, places, done, pace, late, overflow.wheel, overflow.partials
            )
            if pace[TARGET] > self._slots.header[WATERMARK]:
                self._advance(int(pace[TARGET]))
                self._sync()
                self._slots.room(self._ticks_until(latest, n - done))
            elif done < n:
                overflow.grow()
            else:
                break
        if not every:
            pace[SINCE] = since
        found = late[: int(pace[LATE])].copy()
        self.late += len(found)
        return found

    def _ticks_until(self, latest: int, events: int) -> int:
        """Ticks to make room for, so that events up to `latest` need no more: memory that is never written to costs
        nothing. But one event may be years ahead."""
        return min(max(latest - self._watermark, 0), _STEP + _SPARSE * events)

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
        self._watch([read])
        self._ingest(evaluation.events_of(self._bound, [read], len(at)), at, places, every=0, delay=0)
        self._buffer = ([], [], [])

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
        self.keys.add(new)

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

    def _complete(self, to: int) -> None:
        """Move the watermark, and update everything that depends on it."""
        try:
            self._advance(to)
            self._sync()
        except BaseException as error:
            self.unfinished(error)
            raise

    def _advance(self, to: int) -> None:
        """Move the watermark: freeze slots, pass over quiet times, pour in what was too far ahead."""
        m, slots, overflow = self._bound, self._slots, self._overflow
        kernel = evaluation.kernel(m, lambda: advance_kernel(m), "wheel advance")
        cut = max(CUT, self.write_ahead)
        while (now := int(slots.header[WATERMARK])) < to:
            quiet = self._quiet(min(to - now, NO_EARLIER))
            if quiet >= cut:
                self._roll_up()
                self._skip(now, now + quiet)
            step = min(to - int(slots.header[WATERMARK]), _STEP)
            slots.room(step)
            self._call(kernel, slots.state(), int(slots.header[WATERMARK]) + step, overflow.wheel, overflow.partials)
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
        slots = self._slots
        self._roll_up()
        for l, level in enumerate(self.levels):
            if level.limit >= 0:
                slots.put(l, FROM, max(slots.get(l, FROM), slots.get(l, NEXT) - level.limit))
        for packed in self._packed:
            self._pack(packed)
        self._publish()

    def _roll_up(self) -> None:
        m, slots = self._bound, self._slots
        slots.room(0, int(slots.header[WATERMARK]) - slots.get(0, DONE))
        evaluation.kernel(m, lambda: roll_up_kernel(m), "wheel roll up")(slots.state())
        self._follow(int(slots.header[WATERMARK]), quiet=False)

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
        shared = {} if quiet else self._pieces(to, len(keys))
        for window in self._windows:
            for k, key in enumerate(keys):
                if isinstance(window, Window):
                    done = window.advance(m, state, k, self.keys is not None, to, quiet, shared.get(k))
                    if done is not None:
                        self._due.append(Batch(window.label, key, done[0], window.length, done[1]))
                else:
                    found = window.advance(m, state, k, to, quiet)
                    if found is not None:
                        bounds = found[0]
                        self._due.append(Batch(window.label, key, bounds[:, 0].copy(), bounds[:, 1].copy(), found[1]))
            window.reach(to)

    def _pieces(self, to: int, keys: int) -> dict[int, Pieces]:
        """Slots folded once for all periodic windows, by key; nothing where each does that for itself."""
        windows = [w for w in self._windows if isinstance(w, Window)]
        if len(windows) < 2 or windows[0].position == to:
            return {}
        after = windows[0].position
        if any(w.position != after for w in windows) or not pays(windows, to - after):
            return {}
        m, state, keyed, progressions = self._bound, self._slots.state(), self.keys is not None, edges_of(windows)
        return {k: pieces(m, state, progressions, k, keyed, after, to) for k in range(keys)}

    def _start_window(self, window: Window) -> None:
        """A new window sees what is retained of the past, back to its own length, without handing it out again."""
        now = self._watermark
        window.start(now, -NO_EARLIER)
        if self._monoid is None:
            window.reserve()
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
