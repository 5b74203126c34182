"""Pairs: each slide is cut in two, where windows end and where they begin (Krishnamurthy et al.; MQO 2.1, Figure 3).

    range 14, slide 8      f2 = 14 % 8 = 6, f1 = 8 - 6 = 2

    │  6  │2│  6  │2│  6  │2│
    ├─────────────┤               a window: f2 f1 f2
            ├─────────────┤

A window is 2·⌊range / slide⌋ + 1 partials, or range / slide if that leaves no rest (f2 = 0). These are all begins and
ends of sliding windows, so general slicing cuts them alike; Cutty needs only the begins, where events come in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.errors import InvalidArgument
from windlass.slicing.edges import Integers, repeating
from windlass.slicing.fragments import refuse_single
from windlass.windows.window import Periodic

__all__ = ["pair", "pairs"]


def pair(window: Periodic) -> tuple[int, int]:
    """The lengths f1 and f2 of a slide's two fragments; f2 = 0: it is not cut."""
    f2 = window.step % window.period
    return window.period - f2, f2


def pairs(windows: Iterable[Periodic]) -> Integers:
    """The progressions of all edges of pairs."""
    return repeating(_edges(refuse_single("Pairs", windows)))


def _edges(windows: Iterable[Periodic]) -> Iterator[tuple[int, int]]:
    for w in windows:
        if w.ends != 1:
            raise InvalidArgument(
                f"Pairs are for windows of one length, not for {w.describe()}; cut at its begins and ends"
            )
        _, f2 = pair(w)
        yield w.origin, w.period
        yield w.origin + f2, w.period
