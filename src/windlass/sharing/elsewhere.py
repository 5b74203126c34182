"""Ω of what is no technique of a tree, but answers windows as well: FiBA, and queries to a wheel.

A tree evaluates events in order, so it never needs FiBA, whose point is that partials come late; and a wheel answers
ranges that nobody has announced. These say what either would take for the windows of a tree, in ⊕ an edge, so that they
can be compared with techniques. Derived in docs/sharing/README.md.

    FiBA, of arity μ     (3μ/2 + 2) + (2μ - 1)·log_μ d      an insert, d partials behind the youngest
                         3μ - 3/2                           an evict
                         Σ f·min(P - 1, 2(μ - 1)·log_μ P)   a window of P partials
    wheel, of levels l   Σ 1/l                              rolling up a tick
                         Σ f·(Σ (lᵢ₊₁/lᵢ - 1) + (r + 1)/l - 2)   a window of r ticks: slots of all levels that fit, and
                                                            of the coarsest, l
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

import numpy as np

from windlass.errors import InvalidArgument
from windlass.sharing.load import Load

__all__ = ["fiba_omega", "wheel_cover", "wheel_omega"]


def fiba_omega(load: Load, *, arity: int = 16, distance: float = 0.0) -> float:
    """⊕ an edge if the partials of a tree were kept in a FiBA, each coming `distance` partials late."""
    if arity < 2 or distance < 0:
        raise InvalidArgument(f"an arity is at least 2 and a distance not negative, got {arity} and {distance}")
    insert = 1.5 * arity + 2 + (2 * arity - 1) * max(0.0, log(max(distance, 1.0), arity))
    evict = 3 * arity - 1.5
    p = load.partials
    lookups = np.minimum(p - 1, 2 * (arity - 1) * np.log(p) / log(arity))
    return insert + evict + float(load.answered @ lookups)


def wheel_cover(ticks: int, levels: Sequence[int]) -> float:
    """⊕ that a range of so many ticks takes at a random place, from slots of these lengths, without ⊖."""
    lengths = list(levels)
    if not lengths or lengths[0] != 1 or any(b % a or b <= a for a, b in pairwise(lengths)):
        raise InvalidArgument(f"levels are slot lengths in ticks, 1 first, each a multiple of the last; got {lengths}")
    if ticks < 1:
        raise InvalidArgument(f"a range has at least one tick, got {ticks}")
    slots, coarsest = 0.0, 1
    for shorter, longer in pairwise(lengths):
        if ticks + 1 <= longer:
            break
        slots += longer / shorter - 1  # of this level, at both ends together
        coarsest = longer
    return slots + (ticks - coarsest + 1) / coarsest - 1


def wheel_omega(load: Load, levels: Sequence[int]) -> float:
    """⊕ an edge if the windows of a tree were asked of a wheel, with an edge a tick."""
    rolled_up = sum(1 / length for length in levels[:-1])  # each slot, into the one of the next level
    covers = [wheel_cover(max(1, round(p)), levels) for p in load.partials.tolist()]
    return rolled_up + float(load.answered @ np.array(covers))
