"""Windows of a fixed duration that begin with events: every k-th event opens one.

    ·    ·  ·      ··        every = 2
    |────────|               [ts, ts + size)
            |────────|
                    |──── …

A window is an interval of time: it also holds events of its start's time that came before the one that opened it. So
events of one time that open windows open one and the same.
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
from windlass.windows.parameters import extent, in_unit, number
from windlass.windows.window import FOREVER, Array, Context, Run, Window, Windows

__all__ = ["SlideByTuple"]


@dataclass(frozen=True, repr=False)
class SlideByTuple(Window):
    """`SlideByTuple("10s", 100)`: ten seconds from each hundredth event on."""

    context: ClassVar[Context] = "FCF"

    size: Duration
    every: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", extent("the size of SlideByTuple", self.size))
        object.__setattr__(self, "every", number("`every` of SlideByTuple", self.every))

    @property
    def looks_back(self) -> bool:
        return True  # a window begins with the first event of its start's time

    def bind(self, unit: str | None) -> OpenedByEvents:
        return OpenedByEvents(in_unit(f"the size of {self}", self.size, unit), self.every)


# The context of a key: the position after its last event; how many there were, which differs where a query does not see
# all of them; the time of the last one; the position of the first event of that time.
_STOP, _COUNT, _LAST, _TIED = range(4)


@dataclass(frozen=True)
class OpenedByEvents(ManyOpen):
    """Windows [ts, ts + size) of the events number 0, every, 2·every, …"""

    size: int
    every: int
    width = 4
    closes_by = "end"

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        begins = np.zeros(len(run.ts), np.bool_)
        most = len(carry) + len(run.ts) // self.every + len(run.keys)
        queue, found = np.empty((most, 3), np.int64), room(most)
        events = run.keys, run.offsets, run.first, run.ts
        n, left = _kernel()(self.size, self.every, run.watermark, events, context, carry, queue, begins, found)
        return begins, Windows.of(found[:, :n]), queue[:left]

    def needed_from(self, context: Array, carry: Array) -> Array:
        # Another event of the last one's time may open a window that holds all of that time.
        tied = np.where(context[:, _COUNT] != 0, context[:, _TIED], FOREVER)
        return np.minimum(self.open_from(context, carry), tied)

    @property
    def reach(self) -> int:
        return self.size

    def describe(self) -> str:
        return f"[ts, ts + {self.size}) of every {f'{self.every} events' if self.every > 1 else 'event'}"


def _find_opened(
    size: Any, every: Any, watermark: Any, events: Any, context: Any, carry: Any, queue: Any, begins: Any, found: Any
) -> Any:
    keys, offsets, positions, ts = events
    n = r = c = base = 0
    for key in range(len(context)):
        c, tail = take_up(carry, c, key, queue, base)
        head = base
        stop = context[key, _STOP]
        if r < len(keys) and keys[r] == key:
            count, last, tied = context[key, _COUNT], context[key, _LAST], context[key, _TIED]
            ahead = offsets[r] - positions[r]  # from a position to the place in the run
            for i in range(offsets[r], offsets[r + 1]):
                if count == 0 or ts[i] != last:
                    tied, last = i - ahead, ts[i]
                while head < tail and later(queue[head, 2], size) <= last:
                    n = emit(found, n, key, queue[head, 1], stop, queue[head, 2], later(queue[head, 2], size))
                    head += 1
                if count % every == 0 and (head == tail or queue[tail - 1, 2] != last):
                    tail = begin(queue, tail, key, tied, last)
                    if tied >= positions[r]:
                        begins[tied + ahead] = True
                count += 1
                stop = i - ahead + 1
            if last >= watermark and tied >= positions[r]:
                begins[tied + ahead] = True  # an event of the same time may yet open a window that begins here
            context[key, _STOP], context[key, _COUNT], context[key, _LAST], context[key, _TIED] = (
                stop,
                count,
                last,
                tied,
            )
            r += 1
        while head < tail and later(queue[head, 2], size) <= watermark:
            n = emit(found, n, key, queue[head, 1], stop, queue[head, 2], later(queue[head, 2], size))
            head += 1
        base = put_down(queue, base, head, tail)
    return n, base


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_opened)
