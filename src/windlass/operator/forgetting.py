"""Forgetting keys: which of them have ended, and when it is worth while to look for those that nobody needs.

A key that no engine needs any more is as if it had never come, so it can be dropped and its id given to another one,
and nobody would know. Ids stay dense, so keys are dropped many at a time and the others numbered anew:

    held      a  b  c  d  e  f  g  h         needed: b, g
    id        0  1  2  3  4  5  6  7
                 │              │
    id then      0              1            b, g; the next new key is 2

At least half of the keys are dropped each time, so a key pays for itself: O(1). Some queries need a key for ever,
because they count its events or wait for one of them. With `key_ttl` it ends for them too, a while after its last
event: it is made as if it had never come, and dropped with the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.operator.ordered import wider
from windlass.slicing.edges import LONG_AGO
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]

FEW = 1000  # keys that are not worth dropping
A_LOOK = 4096  # keys that may be looked at for nothing at each watermark


class Lifetimes(Stateful):
    """When each key's last event was, if keys end; and how much was done since all of them were looked at."""

    def __init__(self) -> None:
        self.latest = np.empty(0, np.int64)  # the greatest event time; LONG_AGO: no event yet in this life
        self.credit = 0

    def note(self, key: Array, ts: Array, keys: int) -> None:
        """Events have come."""
        if keys > len(self.latest):
            more = max(keys, 2 * len(self.latest), 16) - len(self.latest)
            self.latest = wider(self.latest[np.newaxis], more, LONG_AGO)[0]
        np.maximum.at(self.latest, key, ts)

    def end(self, upto: int) -> Array:
        """The keys whose last event was at that time or before: they end now."""
        if upto <= LONG_AGO:
            return np.empty(0, np.int64)
        ended = np.flatnonzero((self.latest <= upto) & (self.latest != LONG_AGO))
        self.latest[ended] = LONG_AGO
        return ended

    def worth_a_look(self, keys: int) -> bool:
        """Whether enough has happened since the last look to pay for one at all keys."""
        self.credit += A_LOOK
        if keys < FEW or self.credit < keys:
            return False
        self.credit = 0
        return True

    def renumber(self, kept: Array) -> None:
        """Key kept[i] is key i from now on."""
        if len(self.latest):
            self.latest = self.latest[kept]


def worth_dropping(unneeded: int, keys: int) -> bool:
    return unneeded >= FEW and 2 * unneeded >= keys
