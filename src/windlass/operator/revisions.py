"""How often windows with fixed edges came out, of those that came out more than once and may do so again."""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]

KEY, HIGH, LAST = 1, 3, 4


class Revisions(Stateful):
    """(finding, key, low, high) → the number of the last row."""

    def __init__(self) -> None:
        self.table = np.empty((0, 5), np.int64)

    def next(self, windows: Array, known: Array) -> Array:
        """The numbers of the rows that windows (finding, key, low, high) come out with now; `known` came out before."""
        both = np.concatenate([self.table[:, :4], windows])
        order = np.lexsort(both.T[::-1])
        ordered = both[order]
        pairs = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        was, now = order[pairs], order[pairs + 1] - len(self.table)
        number = known.astype(np.int64)
        number[now] = self.table[was, LAST] + 1
        keep = np.ones(len(self.table), np.bool_)
        keep[was] = False
        again = number > 0
        self.table = np.concatenate([self.table[keep], np.column_stack([windows, number])[again]])
        return number

    def close(self, horizon: int) -> None:
        if len(self.table):
            self.table = self.table[self.table[:, HIGH] > horizon]

    def forget(self, gone: Array) -> None:
        """Forget the windows of keys; a mask by key."""
        self.table = self.table[~gone[self.table[:, KEY]]]

    def renumber(self, kept: Array) -> None:
        """Key kept[i] is key i from now on; there are windows of these only."""
        self.table = self.table.copy()
        self.table[:, KEY] = np.searchsorted(kept, self.table[:, KEY])
