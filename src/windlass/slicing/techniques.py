"""Where a stream in order is cut: at the edges of Cutty, of Pairs or of Panes (Cutty 6; MQO 2.1).

    range 10, slide 3      Cutty   │        │        │        │        begins of windows
                           Pairs   │  │     │  │     │  │     │        and their ends
                           Panes   │  │  │  │  │  │  │  │  │  │        every gcd of range and slide

Whichever it is, each window begins with a slice, so any of them gives the same answers. Cutty's slices are the fewest;
the other two are there to compare, and to cut as another system does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from windlass.slicing.cuts import pairs, panes
from windlass.slicing.edges import Integers, begins, ends, repeating, together
from windlass.windows.window import Periodic

__all__ = ["TECHNIQUES", "Technique", "cut_at"]

Technique = Literal["auto", "cutty", "pairs", "panes"]
TECHNIQUES: tuple[Technique, ...] = ("auto", "cutty", "pairs", "panes")


def cut_at(technique: Technique, windows: Sequence[Periodic]) -> Integers:
    """The progressions of all edges that slices lie between, if events come in order."""
    if technique in ("auto", "cutty"):
        return begins(windows)
    once = [w for w in windows if not w.period]  # a band or a landmark has no slide to cut
    again = [w for w in windows if w.period]
    if technique == "panes":
        cut = [p for w in again for p in panes(w.step, w.period, w.origin)]
        return together(begins(once), repeating(cut))
    growing = [w for w in again if w.ends != 1]  # of several lengths: cut where they end
    cut = [p for w in again if w.ends == 1 for p in pairs(w.step, w.period, w.origin)]
    return together(begins(once), begins(growing), ends(growing), repeating(cut))
