"""Threshold frames: as long as a condition holds.

    ·  ×  ×  ×  ·  ·  ×  ·  ×  ×       ×: the predicate holds;  min_size = 2
       |────────|           |─── …     closed by the next event for which it does not hold

A frame is known to count only once it has `min_size` events, but where it would begin is known at once. So every run of
such events is marked, and frames need no event that comes after them to be cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from windlass.kernels import compiled
from windlass.windows.edges import emit, later, room
from windlass.windows.open_windows import FIRST, LAST, OPEN, START, STOP, OneOpen
from windlass.windows.parameters import number
from windlass.windows.predicate import Condition, Predicate
from windlass.windows.window import FOREVER, Array, Context, Run, Window, Windows

__all__ = ["ThresholdFrame"]


@dataclass(frozen=True, repr=False, init=False)
class ThresholdFrame(Window):
    """`ThresholdFrame(pc.field("speed") > 120, min_size=10)`."""

    context: ClassVar[Context] = "FCF"
    has_ordinals: ClassVar[bool] = True

    predicate: Predicate
    min_size: int = 1

    def __init__(self, predicate: Condition, min_size: int = 1) -> None:
        object.__setattr__(self, "predicate", Predicate.of(predicate))
        object.__setattr__(self, "min_size", number("the min_size of ThresholdFrame", min_size))

    def bind(self, unit: str | None) -> Frames:
        return Frames(self.min_size)


@dataclass(frozen=True)
class Frames(OneOpen):
    """Runs of events that meet the condition; `run.columns` is the mask of the predicate."""

    min_size: int
    since: int = FOREVER  # if it joins a running stream, the last time before it did

    def joining(self, since: int) -> Frames:
        return Frames(self.min_size, since)

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        (met,) = run.columns
        begins = np.zeros(len(run.ts), np.bool_)
        closings = len(met) - int(np.count_nonzero(met))
        found = room(closings + (len(context) if run.partial else 0))
        short = room(closings if self.min_size > 1 else 0)
        events = run.keys, run.offsets, run.first, run.ts, met
        n, m = _kernel()(self.min_size, self.since, run.partial, events, context, begins, found, short)
        return begins, Windows.of(found[:, :n], Windows.of(short[:, :m]) if m else None), carry

    def describe(self) -> str:
        return f"frames of at least {self.min_size} event{'s' if self.min_size > 1 else ''} that meet the condition"


def _find_frames(
    min_size: Any, since: Any, partial: Any, events: Any, context: Any, begins: Any, found: Any, short: Any
) -> Any:
    keys, offsets, positions, ts, met = events
    n = m = r = 0
    for key in range(len(context)):
        if r < len(keys) and keys[r] == key:
            stop = context[key, STOP]
            for i in range(offsets[r], offsets[r + 1]):
                at = positions[r] + i - offsets[r]
                if met[i] and not context[key, OPEN]:
                    context[key, OPEN], context[key, FIRST], context[key, START] = 1, at, ts[i]
                    begins[i] = True
                    if stop == 0:  # the first event there is, or that was seen
                        context[key, START] = min(since, ts[i])
                elif not met[i] and context[key, OPEN]:
                    if stop - context[key, FIRST] >= min_size:
                        n = emit(found, n, key, context[key, FIRST], stop, context[key, START], ts[i])
                    else:
                        m = emit(short, m, key, context[key, FIRST], stop, context[key, START], ts[i])
                    context[key, OPEN] = 0
                stop = at + 1
            context[key, STOP], context[key, LAST] = stop, ts[offsets[r + 1] - 1]
            r += 1
        if partial and context[key, OPEN] and context[key, STOP] - context[key, FIRST] >= min_size:
            end = later(context[key, LAST], 1)
            n = emit(found, n, key, context[key, FIRST], context[key, STOP], context[key, START], end)
    return n, m


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_frames)
