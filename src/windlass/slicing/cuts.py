"""Partial aggregation: where the stream is cut for one window (MQO 2.1, Figures 2 to 4, Table 1).

    range 14, slide 8            partials a window           r % s = 0      else
    Panes  │ │ │ │ │ │ │ │ │     every gcd(14, 8) = 2        r / s          r / gcd(r, s)
    Pairs  │     │ │     │ │     6 = 14 % 8, and the rest    r / s          2·⌊r / s⌋ + 1
    Cutty  │       │       │     where windows begin         r / s          ⌈r / s⌉

A cut is given by its edges: arithmetic progressions (residue, period), the points residue + k·period.
Cutty answers in the middle of a partial, which takes one ⊕ more and events in order.
"""

from __future__ import annotations

from math import gcd

__all__ = ["Progression", "cutty", "pair", "pairs", "panes"]

Progression = tuple[int, int]


def panes(range: int, slide: int, offset: int = 0) -> list[Progression]:
    """Slices of one length, the greatest that divides range and slide."""
    length = gcd(range, slide)
    return [(offset % length, length)]


def pair(range: int, slide: int) -> tuple[int, int]:
    """The lengths f1 and f2 of a slide's two fragments; f2 = 0: it is not cut."""
    f2 = range % slide
    return slide - f2, f2


def pairs(range: int, slide: int, offset: int = 0) -> list[Progression]:
    """Each slide cut in two: where windows begin, and where they end."""
    _, f2 = pair(range, slide)
    begins, ends = offset % slide, (offset + f2) % slide
    return [(begins, slide)] if f2 == 0 else [(begins, slide), (ends, slide)]


def cutty(range: int, slide: int, offset: int = 0) -> list[Progression]:
    """Only where windows begin."""
    return [(offset % slide, slide)]
