"""SlickDeque: the technique that fits the aggregate (MQO 2.2; Shein, Chrysanthis, Labrinidis, EDBT 2018).

SlickDeque treats aggregates by what they can do. Invertible ones keep running aggregates (slick_deque_inv.py),
selective ones a deque of the events that can still be an answer (slick_deque_non_inv.py). Both take at most two ⊕ a
round on average, and both answer for many ranges from one structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.aggregates.aggregate import Aggregate
from windlass.errors import UnsupportedAggregate
from windlass.stores.slick_deque_inv import SlickDequeInv
from windlass.stores.slick_deque_non_inv import SlickDequeNonInv


def SlickDeque(
    aggregate: Aggregate, *, windows: Sequence[int] | None = None, **options: Any
) -> SlickDequeInv | SlickDequeNonInv:
    """A store for invertible or selective aggregates; `windows`: the ranges that will be asked for, if several."""
    if getattr(aggregate, "invertible", True):  # what is no aggregate is refused there
        return SlickDequeInv(aggregate, windows=windows, **options)
    if aggregate.selective:
        return SlickDequeNonInv(aggregate, windows=windows, **options)
    raise UnsupportedAggregate(
        f"SlickDeque needs an aggregate that is invertible or selective (a ⊕ b is a or b), and {aggregate!r} is "
        "neither; use FlatFIT, FlatFAT or TwoStacks"
    )
