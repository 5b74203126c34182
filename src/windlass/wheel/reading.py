"""Asking a wheel: ranges, landmarks, groups, and what the optimiser makes of them (µWheel 3.2, 3.4).

Whoever has a view of slots can be asked: the wheel itself, a reader in another thread, a reader in another process. A view holds slots that
no longer change, so no two askers, nor the writer, are in each other's way. Room for plans belongs to the asker: one for each thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.durations import Duration
from windlass.errors import InvalidArgument, Unanswerable
from windlass.wheel import groups, plans
from windlass.wheel.explain import Explanation, explain
from windlass.wheel.hierarchy import Level
from windlass.wheel.keys import Keys
from windlass.wheel.packing import Packed, unpack_pieces
from windlass.wheel.plans import HEADING
from windlass.wheel.queries import ALL_KEYS, run_kernel
from windlass.wheel.slots import FROM, HEAD, START, STRIDE, WATERMARK, WIDTH
from windlass.wheel.ticks import Clock, Instant

Array = np.ndarray[Any, Any]
View = tuple[Any, ...]

_STRIP = 256  # plans that are made, and run, at once


class Readable:
    """What can be asked about the past. `start` and `end` are instants on a tick; ranges are half-open and clip at the watermark."""

    aggregate: Aggregate
    clock: Clock
    levels: tuple[Level, ...]
    keys: Keys | None

    def _set_up(self, hints: bool, simd_threshold: int, subtracts: bool) -> None:
        count = len(self.levels)
        keyed = self.keys is not None
        self._options = np.array([hints, simd_threshold, subtracts, keyed], np.int64)
        wide = plans.widest(count)
        self._program = np.zeros(max(4 * wide, _STRIP * (HEADING + 4 * 2 * count)), np.int64)
        self._offsets = np.zeros(_STRIP, np.int64)
        self._spare, self._stack = np.zeros(wide, np.int64), np.zeros((2 * count + 4, 3), np.int64)
        self._plan, self._single = plans.planner(), (np.zeros(1, np.int64), np.zeros(1, np.int64))
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
        return time if self.clock.plain else np.datetime64(time, self.clock.unit)

    # ------------------------------------------------------------------ one range

    def query(self, start: Instant, end: Instant, *, key: Any = None, keys: Sequence[Any] | None = None) -> Any:
        """The answer over [start, end); None if there is no event. With `key` or `keys`, over these keys only."""
        clock = self.clock
        return self._one(clock.bound("start", start), clock.bound("end", end), self._which(key, keys))

    def landmark(self, *, key: Any = None, keys: Sequence[Any] | None = None) -> Any:
        """The answer over everything up to the watermark."""
        return self._one(-(2**62), 2**62, self._which(key, keys))

    def interval(self, length: Duration, *, key: Any = None, keys: Sequence[Any] | None = None) -> Any:
        """The answer over the last so much before the watermark: `interval("3h")`."""
        ticks = self.clock.length("interval", length)
        end = int(self._look()[1][3][WATERMARK])
        return self._one(end - ticks, end, self._which(key, keys))

    def _one(self, start: int, end: int, keys: Array) -> Any:
        starts, ends = self._single
        starts[0], ends[0] = start, end
        m, view, packed = self._look()
        if m is None:
            return self._nothing(1)[0].as_py()
        answers, full = self._run(m, view, packed, starts, ends, keys)
        if not full[0]:
            return evaluation.answer_of_nothing(m)
        if m.finish is None and len(answers[1]) == 0 and m.result in _PLAIN:
            return answers[0][0][0].item()
        return evaluation.finish(m, answers)[0].as_py()

    # ------------------------------------------------------------------ many ranges

    def query_many(self, starts: Any, ends: Any, *, key: Any = None, keys: Sequence[Any] | None = None) -> pa.Array:
        """The answers over many ranges, as an Arrow array with nulls where there is no event."""
        clock = self.clock
        return self._many(
            self._bounds(clock.times(starts), "start"), self._bounds(clock.times(ends), "end"), self._which(key, keys)
        )

    def _bounds(self, times: Array, what: str) -> Array:
        ticks = times // self.clock.tick if self.clock.tick != 1 else times
        wrong = np.flatnonzero(ticks * self.clock.tick != times)
        if len(wrong):
            self.clock.bound(f"{what} {wrong[0]},", int(times[wrong[0]]))
        return ticks

    def _many(self, starts: Array, ends: Array, keys: Array) -> pa.Array:
        if len(starts) != len(ends):
            raise InvalidArgument(f"there are {len(starts)} starts and {len(ends)} ends; a range has one of each")
        m, view, packed = self._look()
        if m is None:
            return self._nothing(len(starts))
        return self._present(m, *self._run(m, view, packed, starts, ends, keys))

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
        """The answers over the groups of [start, end): `every` is a duration, or "day", "week", "month", "quarter" or "year" of the
        calendar of a time zone. The first and the last group are clipped at the range, and the range at the watermark."""
        clock = self.clock
        header = self._look()[1][3]
        a = max(clock.bound("start", start), int(header[START]))
        b = min(clock.bound("end", end), int(header[WATERMARK]))
        cut = groups.edges(clock, a, b, every, zone, origin)
        values = self._many(np.ascontiguousarray(cut[:-1]), np.ascontiguousarray(cut[1:]), self._which(key, keys))
        return pa.table(
            {"start": clock.to_arrow(cut[:-1]), "end": clock.to_arrow(cut[1:]), self.aggregate.output_name: values}
        )

    def by_key(self, start: Instant, end: Instant) -> pa.Table:
        """The answers over [start, end), of each key by itself."""
        if self.keys is None:
            raise InvalidArgument("this wheel has no keys; make one with keys=True")
        a, b = self.clock.bound("start", start), self.clock.bound("end", end)
        m, view, packed = self._look()
        names = self.keys.to_arrow()
        if m is None or len(names) == 0:
            return pa.table({"key": names, self.aggregate.output_name: self._nothing(len(names))})
        parts = []
        for place in range(len(names)):
            answers, full = self._run(m, view, packed, np.array([a]), np.array([b]), np.array([place], np.int64))
            parts.append(self._present(m, answers, full))
        return pa.table({"key": names, self.aggregate.output_name: pa.concat_arrays(parts)})

    def explain(self, start: Instant, end: Instant) -> Explanation:
        """The plan for a range, what it costs in ⊕, and what the others would."""
        m, view, _ = self._look()
        a, b = self.clock.bound("start", start), self.clock.bound("end", end)
        return explain(self.clock, self.levels, view[3], view[4], self._options, a, b)

    # ------------------------------------------------------------------ running plans

    def _run(
        self,
        m: Monoid,
        view: View,
        packed: tuple[Packed, ...],
        starts: Array,
        ends: Array,
        keys: Array,
        lowers: bool = True,
    ) -> tuple[Any, Array]:
        """Lowered answers (or partials), and which of them have an event."""
        n, keyed = len(starts), self.keys is not None
        if keyed and keys.max() >= view[3][WIDTH]:  # keys that came after this view was made
            keys = keys[keys < view[3][WIDTH]]
            if len(keys) == 0:
                starts, ends, keys = np.zeros(n, np.int64), np.zeros(n, np.int64), self._everybody
        header, gaps, program, offsets = view[3], view[4], self._program, self._offsets
        answers: Any = evaluation.empty_answers(m, n) if lowers else (m.allocate(n), np.zeros(0, np.bool_))
        full = np.zeros(n, np.bool_)
        kernel = evaluation.kernel(m, lambda: run_kernel(m, keyed, lowers), "wheel", keyed, lowers)
        nothing_packed = (view[0], view[2])
        done = 0
        while done < n:
            planned = self._plan(
                header, gaps, starts, ends, done, self._options, program, offsets, self._spare, self._stack
            )
            if planned < 0:
                raise self._unanswerable(header, int(starts[-1 - planned]), int(ends[-1 - planned]))
            unpacked = unpack_pieces(m, packed, view, program, offsets[: planned - done]) if packed else nothing_packed
            kernel(view, unpacked, program, offsets, planned - done, keys, done, answers, full)
            done = int(planned)
        return answers, full

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
        kept = ", ".join(
            f"{level.name} since {clock.show(max(int(header[HEAD + l * STRIDE + FROM]) * level.ticks, int(header[START])))}"
            for l, level in enumerate(self.levels)
        )
        return Unanswerable(
            f"[{clock.show(a)}, {clock.show(b)}) cannot be answered: slots that it needs are no longer retained. Kept are "
            f"{kept}. Ask for bounds that older slots have, or keep more (retention=)"
        )


_PLAIN = (pa.int64(), pa.float64(), pa.uint64(), pa.bool_())
