"""Widen the sums of an operator that may leave 64 bits.

A branch keeps an upper bound of Σ|x| by lift (`aggregates.overflow` says why that is enough). Before a batch raises it
to 2^63, the lift is widened: every partial in its slices, its nodes and the rows that wait or may be corrected gets a
second field, which starts at 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from windlass.aggregates.monoid import Columns
from windlass.aggregates.overflow import LIMIT, greatest, widened
from windlass.operator.lift import Lift
from windlass.operator.plan import Plan
from windlass.operator.tuples import Tuples

__all__ = ["outgrown", "size_of", "widen"]

_PACKAGE = "windlass.operator."


def outgrown(lifts: Sequence[Lift], sizes: dict[int, int], tuples: Tuples) -> list[int]:
    """Add the batch to the magnitude bound of each lift. Return the lifts whose sums may now exceed 64 bits."""
    found = []
    for i, lift in enumerate(lifts):
        if lift.monoid.wide is not None:
            sizes[i] = sizes.get(i, 0) + size_of(lift, i, tuples)
            if sizes[i] >= LIMIT:
                found.append(i)
    return found


def size_of(lift: Lift, i: int, tuples: Tuples) -> int:
    """Upper bound of Σ|x| over the values that a lift is about to take."""
    if not tuples.partials:
        return greatest(tuples.columns[lift.aggregate.columns[0] or ""]) * len(tuples)
    names = [field.name for field in lift.monoid.fields]
    return greatest(tuples.partials[i][names.index("sum")]) * len(tuples)


def widen(which: Collection[int], lifts: Sequence[Lift], holders: Iterable[Any]) -> None:
    """Give all partials of these lifts their second field: in the lifts themselves and in the holders."""
    changes: list[tuple[list[Columns], int, Columns]] = []
    for held in _held(holders, set()):
        changes += [(held, i, widened(lifts[i].monoid, held[i])) for i in which]
    grown = [(lift, widened(lift.monoid, lift.pool), widened(lift.monoid, lift.nodes)) for lift in _of(which, lifts)]
    for held, i, columns in changes:
        held[i] = columns
    for lift, pool, nodes in grown:
        assert lift.monoid.wide is not None
        lift.monoid, lift.pool, lift.nodes = lift.monoid.wide, pool, nodes
        for cached in ("no_events", "no_answers"):
            lift.__dict__.pop(cached, None)


def _of(which: Collection[int], lifts: Sequence[Lift]) -> list[Lift]:
    return [lifts[i] for i in which]


def _held(value: Any, seen: set[int]) -> Iterator[list[Columns]]:
    """Find the lists of partials, one entry a lift, that objects of the operator hold."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple | set):
        for item in value:
            yield from _held(item, seen)
    elif isinstance(value, dict):
        yield from _held(list(value.values()), seen)
    elif type(value).__module__.startswith(_PACKAGE) and not isinstance(value, Lift | Plan):
        for name, item in vars(value).items():
            if name == "partials" and item:
                yield item
            else:
                yield from _held(item, seen)
