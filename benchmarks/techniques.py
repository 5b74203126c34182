"""What takes part: the techniques by their paper's names, and the aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windlass import agg
from windlass.aggregates.aggregate import Aggregate
from windlass.stores import (
    DABA,
    BInt,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDeque,
    SubtractOnEvict,
    TwoStacks,
)

TECHNIQUES: dict[str, Callable[..., Any]] = {
    "Recompute": Recompute,
    "FlatFAT": FlatFAT,
    "B-Int": BInt,
    "FlatFIT": FlatFIT,
    "TwoStacks": TwoStacks,
    "DABA": DABA,
    "SubtractOnEvict": SubtractOnEvict,
    "SlickDeque": SlickDeque,
}
MULTI_QUERY = ("Recompute", "FlatFAT", "B-Int", "FlatFIT", "SlickDeque")


# Root mean square, as a user would define it: two fields, and an inverse.
rms = agg.define(
    "rms",
    lift=lambda x: (x * x, 1),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    inverse=lambda c, a: (c[0] - a[0], c[1] - a[1]),
    lower=lambda p: np.sqrt(p[0] / p[1]),
    identity=(0, 0),
    commutative=True,
)

AGGREGATES: dict[str, Callable[[], Aggregate]] = {"sum": agg.sum, "max": agg.max, "avg": agg.avg, "rms": rms}


def applicable(aggregate: Aggregate) -> list[str]:
    """The techniques that can serve it."""
    served = []
    for name in TECHNIQUES:
        if name == "SubtractOnEvict" and not aggregate.invertible:
            continue
        if name == "SlickDeque" and not (aggregate.invertible or aggregate.selective):
            continue
        served.append(name)
    return served
