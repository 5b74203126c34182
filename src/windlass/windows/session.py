"""Session windows: activity with no pause longer than `gap` (Scotty 2).

    · ··  ·      · ·    ·          gap ───
    |────────|   |─────|           [first, last + gap)
                     (an event at a distance of exactly `gap` still joins)

A session is complete when the watermark has passed its end, since an event at its end would still join it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from windlass.durations import Duration
from windlass.kernels import compiled
from windlass.windows.edges import emit, later, room
from windlass.windows.open_windows import FIRST, LAST, OPEN, START, STOP, OneOpen
from windlass.windows.parameters import extent, in_unit
from windlass.windows.window import FOREVER, Array, Context, Run, Window, Windows

__all__ = ["Session", "SessionGap"]


@dataclass(frozen=True, repr=False)
class Session(Window):
    """`Session("30m")`: visits that end after half an hour without an event."""

    context: ClassVar[Context] = "FCF"
    is_session: ClassVar[bool] = True

    gap: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", extent("the gap of Session", self.gap))

    def bind(self, unit: str | None) -> SessionGap:
        return SessionGap(in_unit(f"the gap of {self}", self.gap, unit))


@dataclass(frozen=True)
class SessionGap(OneOpen):
    """Sessions by their gap."""

    gap: int
    closes_by = "end"

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        begins = np.zeros(len(run.ts), np.bool_)
        found = room(len(run.ts) + len(context))  # each event ends at most one, and so does the watermark
        events = run.keys, run.offsets, run.positions, run.ts
        n = _kernel()(self.gap, run.watermark, events, context, begins, found)
        return begins, Windows.of(found[:, :n]), carry

    @property
    def reach(self) -> int:
        return self.gap + 1  # an event at its end would join it

    @property
    def doubt(self) -> int:
        return self.gap  # an event that was not seen may be as near as that

    def describe(self) -> str:
        return f"sessions with a gap of {self.gap}"


def _find_sessions(gap: Any, watermark: Any, events: Any, context: Any, begins: Any, found: Any) -> Any:
    keys, offsets, positions, ts = events
    n = r = 0
    for key in range(len(context)):
        is_open, first, stop = context[key, OPEN], context[key, FIRST], context[key, STOP]
        start, last = context[key, START], context[key, LAST]
        if r < len(keys) and keys[r] == key:
            for i in range(offsets[r], offsets[r + 1]):
                at = positions[i]
                if is_open and ts[i] > later(last, gap):
                    n = emit(found, n, key, first, stop, start, later(last, gap))
                    is_open = 0
                if not is_open:
                    is_open, first, start = 1, at, ts[i]
                    begins[i] = True
                last, stop = ts[i], at + 1
            r += 1
        elif not is_open:
            continue
        if is_open and (watermark > later(last, gap) or watermark == FOREVER):
            n = emit(found, n, key, first, stop, start, later(last, gap))
            is_open = 0
        context[key, OPEN], context[key, FIRST], context[key, STOP] = is_open, first, stop
        context[key, START], context[key, LAST] = start, last
    return n


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_sessions)
