"""Panes: slices of one length, the greatest that divides both range and slide (Li et al.; MQO 2.1, Figure 2).

    range 10, slide 3      ├─┼─┼─┼─┼─┼─┼─┼─┼─┼─┤     gcd(10, 3) = 1: ten partials a window
    range  6, slide 4      ├───┼───┼───┤             gcd( 6, 4) = 2: three

Begins and ends of windows are edges of panes, and so are many points at which nothing happens: where the range is no
multiple of the slide, `pairs` has fewer. Panes of several windows are put together; the paper has them for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from windlass.slicing.edges import Integers, repeating
from windlass.slicing.fragments import refuse_single
from windlass.windows.window import Periodic

__all__ = ["panes"]


def panes(windows: Iterable[Periodic]) -> Integers:
    """The progressions of all edges of panes. A window has range / gcd(range, slide) of them."""
    return repeating((w.origin, gcd(w.step, w.period)) for w in refuse_single("Panes", windows))
