"""Sets of ACQs, generated as MQO does (5.1): slides are drawn from the divisors of the longest, by Zipf's law,
ranges are slides times an overlap factor drawn evenly from 1 … O_max.
"""

from __future__ import annotations

import numpy as np

from benchmarks.workloads import SEED
from windlass.aggregates.aggregate import Aggregate
from windlass.sharing import ACQ
from windlass.sharing.acq import INVERTIBLE, SELECTIVE

# MQO 5.1: sum stands for invertible aggregates, max for the others.
AGGREGATE = {"slickdeque_non_inv": SELECTIVE}
TITLES = {
    "panes": "Panes",
    "flatfat": "FlatFAT",
    "flatfit": "FlatFIT",
    "slickdeque_inv": "SlickDeque (Inv)",
    "slickdeque_non_inv": "SlickDeque (Non-Inv)",
}


def acqs(
    number: int,
    longest_slide: int = 1000,
    most_overlap: int = 10_000,
    skew: float = 0.0,
    seed: int = SEED,
    aggregate: Aggregate = INVERTIBLE,
) -> list[ACQ]:
    """A skew above 0 prefers long slides."""
    rng = np.random.default_rng(seed)
    divisors = np.array([d for d in range(1, longest_slide + 1) if longest_slide % d == 0])
    weights = np.arange(1, len(divisors) + 1) ** float(skew)
    slides = rng.choice(divisors, number, p=weights / weights.sum())
    overlaps = rng.integers(1, most_overlap + 1, number)
    pairs = zip(slides.tolist(), (slides * overlaps).tolist(), strict=True)
    return [ACQ(r, s, aggregate, name=str(k)) for k, (s, r) in enumerate(pairs)]


def aggregate_for(technique: str) -> Aggregate:
    return AGGREGATE.get(technique, INVERTIBLE)
