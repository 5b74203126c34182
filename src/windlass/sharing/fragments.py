"""The edges of several ACQs put together (MQO 3.1).

They repeat after the composite slide, the least common multiple of their periods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import lcm
from typing import TYPE_CHECKING

from windlass.errors import InvalidArgument
from windlass.slicing.cuts import Progression, cutty, pairs, panes

if TYPE_CHECKING:
    from windlass.sharing.acq import ACQ

__all__ = ["FRAGMENTS", "Progression", "composite_slide", "edges_of"]

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
