"""Data-driven windows: range and slide change with the data (Cutty 1, Figure 1).

    rule          size 10, slide 5    |  size 5, slide 2
                  |───────────────────|                      at each event the rule says which size and slide hold now:
                            |─────────|                      a window ends that began `size` ago or longer,
                                      |─────────|            and one begins if the last began `slide` ago or longer
                                          |─────────|

Beginnings and ends are events, as in all deterministic windows: a window ends before the first event that finds it old
enough. Because the size that holds now is the size for all open windows, they end in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from windlass.kernels import compiled
from windlass.windows.edges import emit, later, room
from windlass.windows.open_windows import ManyOpen, begin, put_down, take_up
from windlass.windows.parameters import column_names, function
from windlass.windows.steps import Steps
from windlass.windows.window import Array, Context, Run, Window, Windows

__all__ = ["DataDriven"]


@dataclass(frozen=True, repr=False)
class DataDriven(Window):
    """`rule(ts, *values) -> (size, slide)`, in the stream's unit.

    The last ten minutes every five, but the last five every two while the price is low:

        DataDriven(lambda ts, price: (600, 300) if price > 10 else (300, 120), columns=("price",))
    """

    context: ClassVar[Context] = "FCF"
    can_fail: ClassVar[bool] = True

    rule: Callable[..., Any]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", function("the rule of DataDriven", self.rule))
        object.__setattr__(self, "columns", column_names("DataDriven", self.columns))

    def bind(self, unit: str | None) -> Ruled:
        return Ruled(Steps(self, self.rule, None, ("size", "slide"), least=1))


# The context of a key: the position after its last event; whether there was one; its time; the last beginning.
_STOP, _SEEN, _LAST, _BEGAN = range(4)


class Ruled(ManyOpen):
    """Windows of the size and slide that a rule gives."""

    width = 4

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        size, slide = self.steps.take(run, context, _SEEN, self.width)
        begins = np.zeros(len(run.ts), np.bool_)
        most = len(carry) + len(run.ts)
        queue, found = np.empty((most, 3), np.int64), room(most)
        events = run.keys, run.offsets, run.first, run.ts, size, slide
        n, left = _kernel()(run.partial, events, context, carry, queue, begins, found)
        return begins, Windows.of(found[:, :n]), queue[:left]

    def describe(self) -> str:
        return self.steps.describe()


def _find_ruled(partial: Any, events: Any, context: Any, carry: Any, queue: Any, begins: Any, found: Any) -> Any:
    keys, offsets, positions, ts, size, slide = events
    n = r = c = base = 0
    for key in range(len(context)):
        c, tail = take_up(carry, c, key, queue, base)
        head = base
        if r < len(keys) and keys[r] == key:
            stop = context[key, _STOP]
            for i in range(offsets[r], offsets[r + 1]):
                at = positions[r] + i - offsets[r]
                while head < tail and later(queue[head, 2], size[i]) <= ts[i]:
                    n = emit(found, n, key, queue[head, 1], stop, queue[head, 2], ts[i])
                    head += 1
                if not context[key, _SEEN] or ts[i] >= later(context[key, _BEGAN], slide[i]):
                    tail = begin(queue, tail, key, at, ts[i])
                    context[key, _SEEN], context[key, _BEGAN] = 1, ts[i]
                    begins[i] = True
                stop = at + 1
            context[key, _STOP], context[key, _LAST] = stop, ts[offsets[r + 1] - 1]
            r += 1
        if partial:
            for w in range(head, tail):
                n = emit(found, n, key, queue[w, 1], context[key, _STOP], queue[w, 2], later(context[key, _LAST], 1))
        base = put_down(queue, base, head, tail)
    return n, base


@cache
def _kernel() -> Callable[..., Any]:
    return compiled(_find_ruled)
