"""Which store answers windows, learned from what came: lazily, from blocks, or from trees (Scotty's aggregate store).

How deep late events fall is in no query, so it is seen as it comes. After each watermark the three are charged what it
took, or would have taken them; the unit is a slice that blocks combine again.

    lazy     each slice of each window
    blocks   every slice behind the first that was changed late, of each key; and a few for each window
    trees    a way up the tree for each slice that was changed late, and a range query for each window

What was long ago counts less and less. Another store takes over when it would have cost less than half, all of them are
made from the slices alone.
"""

from __future__ import annotations

from windlass.stateful import Stateful

LAZY, EAGER, FIBA = STORES = ("lazy", "eager", "fiba")

# Rough, for a sum: timed part by part while this was written. What they choose is measured by the case fiba_operator.
_SCANNED = 0.2
_COVERED = 1.2
_TOUCHED, _RANGE = 125.0, 90.0
_FADES = 0.9  # a watermark
_WORTH = 20_000.0  # what must be at stake


class Choice(Stateful):
    """The store in use; `learns` if it may become another."""

    def __init__(self, store: str, learns: bool) -> None:
        self.store, self.learns = store, learns
        self.costs = dict.fromkeys(STORES, 0.0)

    def note(self, windows: int, scanned: int, touched: int, behind: int) -> bool:
        """At a watermark, so many windows of so many slices in all were answered; late events touched so many slices,
        which have so many behind them. Returns whether another store takes over."""
        costs = self.costs
        costs[LAZY] = _FADES * costs[LAZY] + _SCANNED * scanned
        costs[EAGER] = _FADES * costs[EAGER] + behind + _COVERED * windows
        costs[FIBA] = _FADES * costs[FIBA] + _TOUCHED * touched + _RANGE * windows
        best = min(STORES, key=lambda store: costs[store])
        if 2 * costs[best] > costs[self.store] or costs[self.store] - costs[best] < _WORTH:
            return False
        self.store = best
        return True

    def explain(self) -> str:
        """What the stores would have cost lately; empty if nothing was learned yet."""
        least = min(self.costs.values())
        if not self.learns or least == 0:
            return ""
        return "lately, " + ", ".join(f"{store} {cost / least:.1f}" for store, cost in self.costs.items())
