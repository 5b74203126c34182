"""Partial aggregation: where the stream is cut for an ACQ (MQO 2.1, Figures 2 to 4, Table 1).

    range 14, slide 8            partials a window           r % s = 0      else
    Panes  │ │ │ │ │ │ │ │ │     every gcd(14, 8) = 2        r / s          r / gcd(r, s)
    Pairs  │     │ │     │ │     6 = 14 % 8, and the rest    r / s          2·⌊r / s⌋ + 1
    Cutty  │       │       │     where windows begin         r / s          ⌈r / s⌉

A cut is given by its edges: arithmetic progressions (residue, period), the points residue + k·period. Edges of
several ACQs put together repeat after the composite slide, the least common multiple of their periods.

Cutty answers in the middle of a partial, which takes one ⊕ more and events in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd, lcm
from typing import TYPE_CHECKING

from windlass.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.sharing.acq import ACQ

__all__ = ["FRAGMENTS", "Progression", "composite_slide", "cutty", "edges_of", "pair", "pairs", "panes"]

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


FRAGMENTS: dict[str, Callable[[int, int, int], list[Progression]]] = {"panes": panes, "pairs": pairs, "cutty": cutty}


def edges_of(acqs: Iterable[ACQ], fragments: str = "pairs") -> frozenset[Progression]:
    """The edges of several ACQs, put together."""
    if fragments not in FRAGMENTS:
        raise InvalidArgument(f"fragments are one of {', '.join(FRAGMENTS)}; got {fragments!r}")
    cut = FRAGMENTS[fragments]
    return frozenset(p for q in acqs for p in cut(q.range, q.slide, q.offset))


def composite_slide(progressions: Iterable[Progression]) -> int:
    """The time after which all edges repeat."""
    return lcm(*(period for _, period in progressions))
