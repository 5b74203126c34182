"""What a technique's edges cost: the fragments of a composite slide, and the partials of a window (MQO 2.1, 3.1).

    slide 4    │       │       │       │
    slide 6    │           │           │
    edges      │       │   │   │       │        composite slide lcm(4, 6) = 12: fragments 4 2 2 4
               0       4   6   8      12

Edges are progressions, as `edges` has them: `begins` is Cutty's technique, begins and ends `together` is general
slicing, and `panes` and `pairs` are in files of their own. All of them repeat after the composite slide.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

import numpy as np

from windlass.errors import InvalidArgument
from windlass.slicing.edges import Integers, between
from windlass.windows.window import Periodic

__all__ = ["composite_slide", "fragments", "partials", "refuse_single"]


def composite_slide(windows: Iterable[Periodic]) -> int:
    """The time after which the edges of all windows repeat."""
    return lcm(*(w.period for w in refuse_single("a composite slide", windows)))


def fragments(progressions: Integers, slide: int) -> Integers:
    """The lengths of the slices in one composite slide, from the first edge at or after 0 on. Their number is the edge
    rate, slices a composite slide, of MQO's equation 1."""
    edges = between(progressions, -1, slide - 1)
    if len(edges) == 0:
        return np.empty(0, np.int64)
    return np.diff(edges, append=edges[0] + slide)


def partials(progressions: Integers, low: int, high: int) -> int:
    """How many slices hold events of a window [low, high), if events are everywhere: the last may go on after it."""
    return len(between(progressions, low, high - 1)) + 1


def refuse_single(what: str, windows: Iterable[Periodic]) -> list[Periodic]:
    """Windows that come again and again; one that comes once has no slide."""
    found = list(windows)
    for w in found:
        if w.period == 0:
            raise InvalidArgument(f"there is no slide in {w.describe()}, so {what} cannot be had of it")
    return found
