"""Snapshot windows: what lives at the same time.

    ·             ·
    |────────────────|                     an event lives for [ts, ts + lifetime)
                  |────────────────|
    |─────────────|──|─────────────|       a window a stretch in which the set of live events does not change

Edges are the beginnings and ends of lives. A window holds the events that live in it, whose times may lie before it.
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
from windlass.windows.open_windows import ManyOpen, begin, put_down, take_up
from windlass.windows.parameters import extent, in_unit
from windlass.windows.window import Array, Context, Run, Window, Windows

__all__ = ["Snapshot"]


@dataclass(frozen=True, repr=False)
class Snapshot(Window):
    """`Snapshot("8h")`: who is on shift together, from the beginnings of shifts."""

    context: ClassVar[Context] = "FCF"

    lifetime: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "lifetime", extent("the lifetime of Snapshot", self.lifetime))

    def bind(self, unit: str | None) -> Lives:
        return Lives(in_unit(f"the lifetime of {self}", self.lifetime, unit))


# The context of a key: the position after its last event, and the last edge that was passed.
_STOP, _EDGE = range(2)


@dataclass(frozen=True)
class Lives(ManyOpen):
    """Stretches between edges. The queue holds the times at which events live that are still alive."""

    lifetime: int
    width = 2
    closes_by = "end"

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        begins = np.zeros(len(run.ts), np.bool_)
        most = len(carry) + len(run.ts)
        queue, found = np.empty((most, 3), np.int64), room(2 * most)  # a window ends at most at each birth and death
        events = run.keys, run.offsets, run.first, run.ts
        n, left = _kernel()(self.lifetime, run.watermark, events, context, carry, queue, begins, found)
        return begins, Windows.of(found[:, :n]), queue[:left]

    @property
    def reach(self) -> int:
        return self.lifetime

    @property
    def doubt(self) -> int:
        return self.lifetime  # so long may an event live that was not seen

    def describe(self) -> str:
        return f"stretches with the same live events, which live for {self.lifetime}"


def _find_stretches(
    lifetime: Any, watermark: Any, events: Any, context: Any, carry: Any, queue: Any, begins: Any, found: Any
) -> Any:
    keys, offsets, positions, ts = events
    n = r = c = base = 0
    for key in range(len(context)):
        c, tail = take_up(carry, c, key, queue, base)
        head = base
        stop, edge = context[key, _STOP], context[key, _EDGE]
        if r < len(keys) and keys[r] == key:
            for i in range(offsets[r], offsets[r + 1]):
                at = positions[r] + i - offsets[r]
                n, head, edge = _bury(lifetime, ts[i], key, stop, edge, queue, head, tail, found, n)
                if head == tail or queue[tail - 1, 2] != ts[i]:
                    if head < tail and edge < ts[i]:
                        n = emit(found, n, key, queue[head, 1], stop, edge, ts[i])
                    tail, edge = begin(queue, tail, key, at, ts[i]), ts[i]
                    begins[i] = True
                stop = at + 1
            r += 1
        n, head, edge = _bury(lifetime, watermark, key, stop, edge, queue, head, tail, found, n)
        context[key, _STOP], context[key, _EDGE] = stop, edge
        base = put_down(queue, base, head, tail)
    return n, base


def _bury(
    lifetime: Any, now: Any, key: Any, stop: Any, edge: Any, queue: Any, head: Any, tail: Any, found: Any, n: Any
) -> Any:
    """The lives that end by now, oldest first; each end is an edge."""
    while head < tail and later(queue[head, 2], lifetime) <= now:
        end = later(queue[head, 2], lifetime)
        if edge < end:
            n = emit(found, n, key, queue[head, 1], stop, edge, end)
        edge = end
        head += 1
    return n, head, edge


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_stretches)
