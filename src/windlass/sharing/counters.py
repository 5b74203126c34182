"""Which way to count edges: a bit set where the composite slide is short, else F1, else a sample (MQO 3.1.2).

A counter makes something of the edges of a group of ACQs (`mark`), puts two of these together (`union`) and says how
many edges they have in a unit of time (`rate`): all that the planner needs to know of edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import lcm
from typing import Any, Protocol

from windlass.errors import InvalidArgument
from windlass.sharing.bit_set import BitSet, grain
from windlass.sharing.f1 import TooManyTerms, edge_rate, pruned
from windlass.sharing.fragments import Progression

__all__ = ["COUNTINGS", "F1", "Counter", "counter_for"]

_SHORT = 1 << 16  # points of a composite slide that are cheaper to mark than to compute
_LONG = 1 << 22  # points that can still be marked
_FEW, _TERMS = 100, 300  # progressions and terms for which F1 is quick, also for nearly all parts of them
_PATIENCE = 20_000  # terms

COUNTINGS = ("auto", "bit set", "f1", "sample")


class Counter(Protocol):
    def mark(self, progressions: Iterable[Progression], /) -> Any: ...
    def union(self, a: Any, b: Any, /) -> Any: ...
    def rate(self, edges: Any, /) -> float: ...


class F1:
    """Edges as the progressions themselves."""

    def mark(self, progressions: Iterable[Progression]) -> tuple[Progression, ...]:
        return pruned(progressions)

    def union(self, a: tuple[Progression, ...], b: tuple[Progression, ...]) -> tuple[Progression, ...]:
        return pruned(a + b)

    def rate(self, edges: tuple[Progression, ...]) -> float:
        return _rate(edges)


@lru_cache(maxsize=1 << 16)
def _rate(edges: tuple[Progression, ...]) -> float:
    try:
        return float(edge_rate(edges, _PATIENCE))
    except TooManyTerms:  # a part may have more terms than the whole, in which more is dropped
        sample = BitSet.sampled(edges)
        return sample.rate(sample.mark(edges))


def _is_quick(progressions: list[Progression]) -> bool:
    """Whether F1 is, for these and for any part of them."""
    if len(set(progressions)) > _FEW:
        return False
    try:
        edge_rate(progressions, _TERMS)
    except TooManyTerms:
        return False
    return True


def _points(progressions: list[Progression]) -> int:
    """Points of the composite slide, or some number that is too large."""
    unit, slide = grain(progressions)[1], 1
    for period in {period for _, period in progressions}:
        slide = lcm(slide, period)
        if slide > _LONG * unit:
            break
    return slide // unit


def counter_for(progressions: Iterable[Progression], counting: str = "auto") -> tuple[Counter, str]:
    """A counter for these edges and any part of them, and what it is: "bit set", "f1" or "sample"."""
    if counting not in COUNTINGS:
        raise InvalidArgument(f"counting is one of {', '.join(COUNTINGS)}; got {counting!r}")
    found = list(progressions)
    if counting == "auto":
        points = _points(found)
        counting = "bit set" if points <= _SHORT else "f1"
        if counting == "f1" and not _is_quick(found):
            counting = "bit set" if points <= _LONG else "sample"
    if counting == "f1":
        return F1(), counting
    return (BitSet.whole(found) if counting == "bit set" else BitSet.sampled(found)), counting
