"""What edges cost: the slices of a composite slide, and the partials of a window (MQO 2.1, 3.1).

    slide 4    │       │       │       │
    slide 6    │           │           │
    edges      │       │   │   │       │        composite slide lcm(4, 6) = 12: fragments 4 2 2 4
               0       4   6   8      12

Edges are progressions, as `edges` has them: `begins` is Cutty's technique, begins and ends `together` is general
slicing. Panes and Pairs are in `cuts`. All of them repeat after the composite slide.
"""

from __future__ import annotations

import numpy as np

from windlass.slicing.edges import Integers, between

__all__ = ["fragments", "partials"]


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
