"""Punctuation windows: events of a kind mark where one window ends and the next begins (Scotty 4.4).

    ·  ·  P  ·  ·  ·  P  P  ·          P: the predicate holds
    |─────|───────────|──|─── …

A punctuation closes the window before itself and belongs to the next. The first window begins with the first event.
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
from windlass.windows.predicate import Condition, Predicate
from windlass.windows.window import FOREVER, Array, Context, Run, Window, Windows

__all__ = ["Punctuation"]


@dataclass(frozen=True, repr=False, init=False)
class Punctuation(Window):
    """`Punctuation("is_closing")`, `Punctuation(pc.field("kind") == "flush")`."""

    context: ClassVar[Context] = "FCF"
    has_ordinals: ClassVar[bool] = True

    predicate: Predicate

    def __init__(self, predicate: Condition) -> None:
        object.__setattr__(self, "predicate", Predicate.of(predicate))

    def bind(self, unit: str | None) -> Punctuations:
        return Punctuations()


@dataclass(frozen=True)
class Punctuations(OneOpen):
    """Between two punctuations; `run.columns` is the mask of the predicate."""

    since: int = FOREVER  # if it joins a running stream, the last time before it did

    def joining(self, since: int) -> Punctuations:
        return Punctuations(since)

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        (met,) = run.columns
        begins = np.zeros(len(run.ts), np.bool_)
        found = room(int(np.count_nonzero(met)) + (len(context) if run.partial else 0))
        events = run.keys, run.offsets, run.first, run.ts, met
        n = _kernel()(run.partial, self.since, events, context, begins, found)
        return begins, Windows.of(found[:, :n]), carry

    def describe(self) -> str:
        return "from punctuation to punctuation"


def _find_punctuated(partial: Any, since: Any, events: Any, context: Any, begins: Any, found: Any) -> Any:
    keys, offsets, positions, ts, met = events
    n = r = 0
    for key in range(len(context)):
        if r < len(keys) and keys[r] == key:
            stop = context[key, STOP]
            for i in range(offsets[r], offsets[r + 1]):
                at = positions[r] + i - offsets[r]
                if context[key, OPEN] and met[i]:
                    n = emit(found, n, key, context[key, FIRST], stop, context[key, START], ts[i])
                    context[key, OPEN] = 0
                if not context[key, OPEN]:
                    context[key, OPEN], context[key, FIRST], context[key, START] = 1, at, ts[i]
                    begins[i] = True
                    if not met[i]:  # the first event there is, or that was seen
                        context[key, START] = min(since, ts[i])
                stop = at + 1
            context[key, STOP], context[key, LAST] = stop, ts[offsets[r + 1] - 1]
            r += 1
        if partial and context[key, OPEN]:
            end = later(context[key, LAST], 1)
            n = emit(found, n, key, context[key, FIRST], context[key, STOP], context[key, START], end)
    return n


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_punctuated)
