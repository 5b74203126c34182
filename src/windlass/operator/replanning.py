"""Planning again, when the stream is not what its first batch was: trees that would now be better apart are split.

    first batch ──► plan        every few batches ──► what came since, in powers of two ──► seen twice, and another plan
                                                                                            costs much less: split

A tree can be split and lose nothing. The slices of a tree serve any of its queries; for some of them they are finer
than need be. So every part goes on with all slices there are, and cuts new ones at its own edges only: it is the tree
without the queries of the other parts. Slices that are finer than need be go as time goes on. In the same way a tree
can be answered by another technique, because what techniques keep is made from slices.

Trees are not put together: a coarse slice does not tell what it would be in parts, and a new tree beside the old ones
would double the work for as long as the longest window. So what is split stays split, and only what saves much is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windlass.aggregates.values import ValueType
from windlass.operator.branch import Branch
from windlass.operator.costs import Observed
from windlass.operator.query import Query
from windlass.operator.trees import Asked, Tree, observed, planned
from windlass.slicing.edges import LONG_AGO
from windlass.stateful import Stateful, copied

__all__ = ["Watched", "better", "part_of"]

_EVERY = 8  # batches
_WORTH = 0.75  # of what the running tree costs


class Watched(Stateful):
    """What has come since the last look at it."""

    def __init__(self) -> None:
        self.rows = self.batches = 0
        self.greatest = LONG_AGO  # event time, then
        self.seen: tuple[float, int, int] | None = None

    def note(self, rows: int, greatest: int) -> None:
        if self.greatest == LONG_AGO:  # the first batch, which the plan was made from
            self.greatest = greatest
            return
        self.rows += rows
        self.batches += 1

    def look(self, greatest: int, keys: int, unit: str | None) -> Observed | None:
        """What the stream is like, if it is time for a look and the last one has found the same."""
        if self.batches < _EVERY or greatest <= self.greatest:
            return None
        found = observed(self.rows, float(greatest - self.greatest), keys, unit, self.batches)
        before, self.seen = self.seen, (found.rate, found.keys, found.batch)
        self.rows, self.batches, self.greatest = 0, 0, greatest
        return found if before == self.seen else None


@lru_cache(maxsize=64)
def better(
    queries: tuple[Query, ...],
    technique: str,
    asked: Asked,
    seen: Observed,
    types: tuple[tuple[str, ValueType], ...],
) -> tuple[Tree, ...]:
    """The trees in which these queries, now in one, would cost much less; none, if there are no such. Remembered,
    because streams come back to what they were."""
    best = planned(queries, asked, seen, dict(types))
    now = best.instead([Tree(tuple(query.name for query in queries), technique)], queries, asked, dict(types))
    if not now.details or len(best.details) < len(best.trees):  # these are not planned
        return ()
    return tuple(best.trees) if best.cost <= _WORTH * now.cost else ()


def part_of(branch: Branch, gone: dict[str, str], keys: int) -> Branch:
    """A branch in the state of this one, without some queries, which are known by other names from now on."""
    engine = branch.running
    shared = [*vars(engine.slices).values(), *(c for lift in engine.lifts for c in (*lift.pool, *lift.nodes))]
    part = copied(branch, {id(array): array for array in shared if isinstance(array, np.ndarray)})
    for name, other in gone.items():
        part.remove(name, other)
    part.running.renumber(np.arange(keys))  # copies slices, and those partials that are still asked for
    return part
