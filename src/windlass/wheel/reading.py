"""Asking a wheel: ranges, landmarks, groups, and what the optimiser makes of them (µWheel 3.2, 3.4).

Whoever has a view of slots can be asked: the wheel itself, a reader in another thread, a reader in another process. A
view holds slots that no longer change, so no two askers, nor the writer, are in each other's way. Room for plans
belongs to the asker: one for each thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import located
from windlass.durations import Duration
from windlass.errors import InvalidArgument, Overflow, Unanswerable
from windlass.kernels import direct
from windlass.wheel import groups, plans
from windlass.wheel.explain import Explanation, explain
from windlass.wheel.hierarchy import Level
from windlass.wheel.keys import Keys
from windlass.wheel.packing import Packed, unpack_pieces
from windlass.wheel.plans import Desk
from windlass.wheel.queries import ALL_KEYS, run_kernel, run_keys_kernel
from windlass.wheel.slots import FROM, HEAD, START, STRIDE, WATERMARK, WIDTH
from windlass.wheel.ticks import Clock, Instant, to_ticks

Array = np.ndarray[Any, Any]
View = tuple[Any, ...]


class Readable:
    """What can be asked about the past. `start` and `end` are instants on a tick; ranges are half-open and clip at
    the watermark."""

    aggregate: Aggregate
    clock: Clock
    levels: tuple[Level, ...]
    keys: Keys | None

    def _set_up(self, hints: bool, simd_threshold: int, subtracts: bool) -> None:
        keyed = self.keys is not None
        self._desk = Desk(len(self.levels), [int(hints), simd_threshold, int(subtracts), int(keyed)])
        self._options = self._desk.options
        self._ready: tuple[Any, ...] = (None,)
        self._seen: tuple[Any, ...] = (None,) * 5  # the view of the last question, and how it was answered
        self._single = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._kernels: list[Any] = [(None, None, None)] * 2  # for partials, and for answers: the monoid, and what runs
        self._everybody = np.array([ALL_KEYS], np.int64)

    # ------------------------------------------------------------------ what the asker brings

    def _look(self) -> tuple[Monoid | None, View, tuple[Packed, ...]]:
        """The monoid (None before the first event), the view to read from, and what is packed."""
        raise NotImplementedError

    @property
    def watermark(self) -> Any:
        """Up to where the past is complete, and can be asked about."""
        return self._instant(int(self._look()[1][3][WATERMARK]))

    @property
    def start(self) -> Any:
        return self._instant(int(self._look()[1][3][START]))

    def _instant(self, tick: int) -> Any:
        time = tick * self.clock.tick
        return time if self.clock.plain else np.array(time, f"M8[{self.clock.unit}]")[()]

    # ------------------------------------------------------------------ one range

    def query(self, start: Instant, end: Instant, *, key: Any = None, keys: Sequence[Any] | None = None) -> Any:
        """The answer over [start, end); None if there is no event. With `key` or `keys`, over these keys only."""
        clock = self.clock
        a, b = clock.bound("start", start), clock.bound("end", end)
        if a > b:
            raise _backwards(start, end)
        return self._one(a, b, self._which(key, keys))

    def landmark(self, *, key: Any = None, keys: Sequence[Any] | None = None) -> Any:
        """The answer over everything up to the watermark."""
        return self._one(-(2**62), 2**62, self._which(key, keys))

    def interval(self, length: Duration, *, key: Any = None, keys: Sequence[Any] | None = None) -> Any:
        """The answer over the last so much before the watermark: `interval("3h")`."""
        ticks = self.clock.length("interval", length)
        end = int(self._look()[1][3][WATERMARK])
        return self._one(end - ticks, end, self._which(key, keys))

    def _one(self, start: int, end: int, keys: Array) -> Any:
        m, view, packed = self._look()
        if m is None:
            return self._nothing(1)[0].as_py()
        if self._ready[0] is not m:  # room for one answer, to be used again and again
            is_plain = m.finish is None and m.defined is None and m.result in _PLAIN
            self._ready = m, evaluation.empty_answers(m, 1), np.zeros(1, np.bool_), is_plain
        _, answers, full, is_plain = self._ready
        starts, ends = self._single
        starts[0], ends[0] = start, end
        seen, plan, run, slots, width = self._seen
        if seen is view and keys is self._everybody:  # nothing has changed since the last question
            words = self._desk.words
            if plan(view[3], view[4], starts, ends, 0, words) < 0:
                raise self._unanswerable(view[3], start, end)
            run(slots, width, 0, words, 1, keys, 0, answers, full)
        else:
            self._run(m, view, packed, starts, ends, keys, answers, full)
            if not packed:
                self._seen = view, *self._kernels[True][1:], _slots(view), int(view[3][WIDTH])
        if not full[0]:
            return evaluation.answer_of_nothing(m)
        if is_plain:
            return answers[0][0].item()
        try:
            return evaluation.finish(m, answers)[0].as_py()
        except Overflow as error:
            raise located(error, lambda _: self._range(start, end, keys)) from None

    # ------------------------------------------------------------------ many ranges

    def query_many(self, starts: Any, ends: Any, *, key: Any = None, keys: Sequence[Any] | None = None) -> pa.Array:
        """The answers over many ranges, as an Arrow array with nulls where there is no event."""
        first, last = self._bounds(starts, "start"), self._bounds(ends, "end")
        if len(first) == len(last) and (first > last).any():
            row = int(np.argmax(first > last))
            raise _backwards(self.clock.show(int(first[row])), self.clock.show(int(last[row])), f" {row}")
        return self._many(first, last, self._which(key, keys))

    def _bounds(self, data: Any, what: str) -> Array:
        """Instants of ranges as ticks."""
        times = self.clock.times(data)
        ticks = np.empty(len(times), np.int64)
        wrong = int(to_ticks()(times, self.clock.tick, ticks))
        if wrong >= 0:
            self.clock.bound(f"{what} {wrong},", int(times[wrong]))
        return ticks

    def _many(self, starts: Array, ends: Array, keys: Array) -> pa.Array:
        if len(starts) != len(ends):
            raise InvalidArgument(f"there are {len(starts)} starts and {len(ends)} ends; a range has one of each")
        m, view, packed = self._look()
        if m is None:
            return self._nothing(len(starts))
        answers, full = evaluation.empty_answers(m, len(starts)), np.zeros(len(starts), np.bool_)
        self._run(m, view, packed, starts, ends, keys, answers, full)
        try:
            return self._present(m, answers, full)
        except Overflow as error:
            raise located(error, lambda row: self._range(int(starts[row]), int(ends[row]), keys)) from None

    def _range(self, start: int, end: int, keys: Array) -> str:
        """Describe the range asked for, for an error message."""
        places = [] if keys is self._everybody or self.keys is None else [list(self.keys)[k] for k in keys.tolist()]
        named = "" if not places else f" key {places[0]!r}" if len(places) == 1 else f" keys {places!r}"
        header = self._look()[1][3]
        first, last = max(start, int(header[START])), min(end, int(header[WATERMARK]))
        return f"{self.aggregate!r} over [{self.clock.show(first)}, {self.clock.show(last)}){named}"

    def range(self, start: Instant, end: Instant, *, key: Any = None, keys: Sequence[Any] | None = None) -> pa.Table:
        """The slots of [start, end) one by one, as a table of start, end and the answer."""
        return self.group_by(start, end, self.clock.tick, key=key, keys=keys)

    def group_by(
        self,
        start: Instant,
        end: Instant,
        every: Duration,
        *,
        zone: str | None = None,
        origin: Instant | None = None,
        key: Any = None,
        keys: Sequence[Any] | None = None,
    ) -> pa.Table:
        """The answers over the groups of [start, end): `every` is a duration, or "day", "week", "month", "quarter" or
        "year" of the calendar of a time zone. The first and the last group are clipped at the range, and the range at
        the
        watermark."""
        clock = self.clock
        header = self._look()[1][3]
        a, b = self._from_to(start, end)
        a, b = max(a, int(header[START])), min(b, int(header[WATERMARK]))
        cut = groups.edges(clock, a, b, every, zone, origin)
        values = self._many(np.ascontiguousarray(cut[:-1]), np.ascontiguousarray(cut[1:]), self._which(key, keys))
        return pa.table(
            {"start": clock.to_arrow(cut[:-1]), "end": clock.to_arrow(cut[1:]), self.aggregate.output_name: values}
        )

    def by_key(self, start: Instant, end: Instant) -> pa.Table:
        """The answers over [start, end), of each key by itself."""
        if self.keys is None:
            raise InvalidArgument("this wheel has no keys; make one with keys=True")
        a, b = self._from_to(start, end)
        m, view, packed = self._look()
        names = self.keys.to_arrow()
        if m is None or len(names) == 0:
            return pa.table({"key": names, self.aggregate.output_name: self._nothing(len(names))})
        n = len(names)
        answers, full = evaluation.empty_answers(m, n), np.zeros(n, np.bool_)
        self._run_keys(m, view, a, b, answers, full)
        try:
            values = self._present(m, answers, full)
        except Overflow as error:
            raise located(error, lambda row: self._range(a, b, np.array([row]))) from None
        return pa.table({"key": names, self.aggregate.output_name: values})

    def explain(self, start: Instant, end: Instant) -> Explanation:
        """The plan for a range, what it costs in ⊕, and what the others would."""
        m, view, _ = self._look()
        a, b = self._from_to(start, end)
        return explain(self.clock, self.levels, view[3], view[4], self._options, a, b)

    def _from_to(self, start: Instant, end: Instant) -> tuple[int, int]:
        a, b = self.clock.bound("start", start), self.clock.bound("end", end)
        if a > b:
            raise _backwards(start, end)
        return a, b

    # ------------------------------------------------------------------ running plans

    def _run(
        self,
        m: Monoid,
        view: View,
        packed: tuple[Packed, ...],
        starts: Array,
        ends: Array,
        keys: Array,
        answers: Any,
        full: Array,
        lowers: bool = True,
    ) -> None:
        """Fill in lowered answers (or partials), and which of them have an event."""
        n, header = len(starts), view[3]
        if self.keys is not None and keys.max() >= header[WIDTH]:  # keys that came after this view was made
            keys = keys[keys < header[WIDTH]]
            if len(keys) == 0:
                starts, ends, keys = np.zeros(n, np.int64), np.zeros(n, np.int64), self._everybody
        kept, plan, run = self._kernels[lowers]
        if kept is not m:
            plan, run = plans.planner(), self._kernel(m, lowers)
        slots, width, words = _slots(view), int(header[WIDTH]), self._desk.words
        unpacked: Any = 0
        done = 0
        while done < n:
            planned = plan(header, view[4], starts, ends, done, words)
            if planned < 0:
                raise self._unanswerable(header, int(starts[-1 - planned]), int(ends[-1 - planned]))
            if packed:
                unpacked = unpack_pieces(m, packed, view, words, planned - done)
            run(slots, width, unpacked, words, planned - done, keys, done, answers, full)
            done = planned
        if kept is not m:  # it compiles, so from now on no error needs to be explained
            self._kernels[lowers] = m, direct(plan), direct(run)

    def _run_keys(self, m: Monoid, view: View, start: int, end: int, answers: Any, full: Array) -> None:
        """One plan, run for all keys at once: row by row, across the keys."""
        header, words = view[3], self._desk.words
        starts, ends = self._single
        starts[0], ends[0] = start, end
        if plans.planner()(header, view[4], starts, ends, 0, words) < 0:
            raise self._unanswerable(header, start, end)
        run = evaluation.kernel(m, lambda: run_keys_kernel(m), "wheel keys")
        width = int(header[WIDTH])
        accs = m.allocate(width)
        run(_slots(view), width, words, accs, answers, full)

    def _kernel(self, m: Monoid, lowers: bool) -> Any:
        keyed, packs = self.keys is not None, any(level.compressed for level in self.levels)
        return evaluation.kernel(m, lambda: run_kernel(m, keyed, lowers, packs), "wheel", keyed, lowers, packs)

    def _present(self, m: Monoid, answers: Any, full: Array) -> pa.Array:
        columns, defined = answers
        if m.answers_empty:
            return evaluation.finish(m, answers)
        mask = full if len(defined) == 0 else full & defined
        return m.answers(columns, None if mask.all() else mask)

    def _nothing(self, n: int) -> pa.Array:
        """Answers before the first event."""
        if self.aggregate.columns:
            return pa.nulls(n)
        m = self.aggregate.monoid([], nullable=False)
        return pa.array([evaluation.answer_of_nothing(m)] * n, m.result)

    def _which(self, key: Any, keys: Iterable[Any] | None) -> Array:
        if key is None and keys is None:
            return self._everybody
        if self.keys is None:
            raise InvalidArgument("this wheel has no keys; make one with keys=True")
        if key is not None and keys is not None:
            raise InvalidArgument("give either key= or keys=")
        chosen = [key] if keys is None else list(dict.fromkeys(keys))
        if not chosen:
            raise InvalidArgument("keys= is empty: over no key there is no answer")
        return np.array([self.keys.place(k) for k in chosen], np.int64)

    def _unanswerable(self, header: Array, start: int, end: int) -> Unanswerable:
        clock = self.clock
        a, b = max(start, int(header[START])), min(end, int(header[WATERMARK]))
        first = int(header[START])
        oldest = [int(header[HEAD + l * STRIDE + FROM]) * level.ticks for l, level in enumerate(self.levels)]
        kept = ", ".join(
            f"{level.name} since {clock.show(max(tick, first))}"
            for level, tick in zip(self.levels, oldest, strict=True)
        )
        return Unanswerable(
            f"[{clock.show(a)}, {clock.show(b)}) cannot be answered: slots that it needs are no longer retained. Kept "
            f"are {kept}. Ask for bounds that older slots have, or keep more (retention=)"
        )


_PLAIN = (pa.int64(), pa.float64(), pa.uint64(), pa.bool_())


def _backwards(start: Any, end: Any, which: str = "") -> InvalidArgument:
    return InvalidArgument(f"range{which} ends before it starts: start is {start} and end is {end}; swap them")


def _slots(view: View) -> tuple[Any, ...]:
    """What running a plan needs of a view."""
    return view[0], view[1], view[2], view[5], view[6]
