"""Ordinals of windows that come out in order and are never corrected: the number of earlier windows with equal bounds.

Windows of a type that has ordinals end in the order in which they begin, or come out with ever later events. So windows
with the same bounds follow one another, and it is enough to know the last window of each finding and key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.slicing.edges import LONG_AGO
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


class Ordinals(Stateful):
    """The last window of each finding and key: its bounds and its ordinal."""

    def __init__(self, findings: int) -> None:
        self.last = np.empty((findings, 0, 3), np.int64)

    def add_keys(self, keys: int) -> None:
        more = keys - self.last.shape[1]
        if more > 0:
            self.last = np.concatenate([self.last, np.full((len(self.last), more, 3), LONG_AGO, np.int64)], axis=1)

    def next(self, finding: Array, key: Array, low: Array, high: Array) -> Array:
        """The ordinals of one or more windows, which are grouped by finding and key, and in order."""
        heads = np.ones(len(key), np.bool_)  # the first window of a finding and key
        heads[1:] = (finding[1:] != finding[:-1]) | (key[1:] != key[:-1])
        fresh = heads.copy()  # the first one with these bounds
        fresh[1:] |= (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        first = np.flatnonzero(heads)
        before = self.last[finding[first], key[first]]
        known = np.flatnonzero((before[:, 0] == low[first]) & (before[:, 1] == high[first]))
        ordinal = np.zeros(len(key), np.int64)
        if len(known) or not fresh.all():
            at = np.arange(len(key))
            begin = np.maximum.accumulate(np.where(fresh, at, 0))
            ordinal[first[known]] = before[known, 2] + 1
            ordinal = ordinal[begin] + at - begin
        last = np.append(first[1:], len(key)) - 1
        self.last[finding[last], key[last]] = np.stack([low[last], high[last], ordinal[last]], axis=1)
        return ordinal

    def forget(self, keys: Array) -> None:
        self.last[:, keys] = LONG_AGO

    def renumber(self, kept: Array) -> None:
        """Forget all keys but these: key kept[i] is key i from now on."""
        self.last = self.last[:, kept]
