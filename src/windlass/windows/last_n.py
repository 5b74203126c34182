"""The last n events, every so often: a window on two measures (Scotty 4.4).

    every  |         |         |         |        n = 3
             · · · ·    ·                 ·
               |─────|
                 |─────────────|                  (nothing at an edge that had no event before it)

Where a window begins is known only when it ends, so the events have to be kept.
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
from windlass.windows.parameters import extent, in_unit, number
from windlass.windows.window import FOREVER, UNKNOWN, Array, Context, Discretizer, Run, Window, Windows

__all__ = ["LastN"]


@dataclass(frozen=True, repr=False)
class LastN(Window):
    """`LastN(10, "5s")`: the last ten events, every five seconds."""

    context: ClassVar[Context] = "FCA"

    n: int
    every: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", number("the n of LastN", self.n))
        object.__setattr__(self, "every", extent("`every` of LastN", self.every))

    @property
    def looks_back(self) -> bool:
        return True  # at an edge that a late event makes one

    def bind(self, unit: str | None) -> LastEvents:
        return LastEvents(self.n, in_unit(f"`every` of {self}", self.every, unit))


# The context of a key: the position after its last event; whether there was one; the position of the first one; whether
# an edge is due, and which.
_STOP, _SEEN, _FROM, _DUE, _EDGE = range(5)


@dataclass(frozen=True)
class LastEvents(Discretizer):
    """The last n events at each edge that had an event since the edge before."""

    n: int
    every: int
    since: int = FOREVER  # if it joins a running stream, the last time before it did
    width = 5
    closes_by = "end"
    splits = True

    def joining(self, since: int) -> LastEvents:
        return LastEvents(self.n, self.every, since)

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        found = room(len(run.ts) + len(context))
        events = run.keys, run.offsets, run.first, run.ts
        n = _kernel()(self.n, self.every, self.since, run.watermark, events, context, found)
        return np.zeros(len(run.ts), np.bool_), Windows.of(found[:, :n]), carry

    def open_from(self, context: Array, carry: Array) -> Array:
        # The last n events belong to a window to come, at whatever edge.
        return np.where(context[:, _SEEN] != 0, self._last(context, self.n), FOREVER)

    @property
    def reach(self) -> int:
        return self.every

    def describe(self) -> str:
        return f"the last {self.n} event{'s' if self.n > 1 else ''}, every {self.every}"

    @staticmethod
    def _last(context: Array, n: int) -> Array:
        last: Array = np.maximum(context[:, _STOP] - n, context[:, _FROM])
        return last


def _start(first: Any, stop: Any, last_n: Any, since: Any) -> Any:
    """To be looked up; but where there are fewer than n, there may have been more before."""
    return UNKNOWN if stop - first == last_n or since == FOREVER else since


def _find_last(last_n: Any, every: Any, since: Any, watermark: Any, events: Any, context: Any, found: Any) -> Any:
    keys, offsets, positions, ts = events
    n = r = 0
    for key in range(len(context)):
        if r < len(keys) and keys[r] == key:
            stop = context[key, _STOP]
            if not context[key, _SEEN]:
                context[key, _SEEN], context[key, _FROM] = 1, positions[r]
            for i in range(offsets[r], offsets[r + 1]):
                if context[key, _DUE] and ts[i] >= context[key, _EDGE]:
                    first = max(stop - last_n, context[key, _FROM])
                    n = emit(found, n, key, first, stop, _start(first, stop, last_n, since), context[key, _EDGE])
                    context[key, _DUE] = 0
                if not context[key, _DUE]:
                    context[key, _DUE], context[key, _EDGE] = 1, later(ts[i], every - ts[i] % every)
                stop = positions[r] + i - offsets[r] + 1
            context[key, _STOP] = stop
            r += 1
        if context[key, _DUE] and watermark >= context[key, _EDGE]:
            first = max(context[key, _STOP] - last_n, context[key, _FROM])
            start = _start(first, context[key, _STOP], last_n, since)
            n = emit(found, n, key, first, context[key, _STOP], start, context[key, _EDGE])
            context[key, _DUE] = 0
    return n


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_last)
