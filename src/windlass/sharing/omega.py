"""Ω: how many operations a technique takes for each edge of a tree, on average (MQO 4.1, equations 3 to 7).

Each technique has two forms. `paper` is the equation as printed. `counted` is what this implementation does, derived
in docs/sharing/README.md; it differs where the paper lets every ACQ answer at every edge (here only at its own, a
share f of them), and where an equation is an approximation or a slip. Operations are ⊕, ⊖, comparisons of
partials, and, for SlickDeque (Non-Inv), look-ups in its deque.

    technique      paper                                counted
    Panes          Σ r/s                                Σ f (P - 1)
    FlatFAT        Σ ⌊log₂(P-1)⌋ + (P-1)/2^⌊log₂ P⌋     log₂(leaves) + Σ f cover(P)
    B-Int          1 + Σ cover(P)                       1 + Σ f cover(P)
    FlatFIT        3 Q                                  3/2 (Σ f g + max g), g = (P-1)/(P+1)
    TwoStacks      3 Q                                  Σ over ranges 2 - 4/(P+1), and Σ f
    DABA           5 Q                                  Σ over ranges 3 - 6/P, and Σ f
    SlickDeque     Inv      2 · (distinct P)            2 · (distinct ranges)
                   Non-Inv  2 - 2/P + Q + Σ 1/i!        2 - 2/P + Σ f (1 + log₂ H(P))
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log, log2

import numpy as np

from windlass.sharing.load import Floats, Load

__all__ = ["COUNTED", "PAPER_OMEGA", "cover", "harmonic"]

_EULER = 0.5772156649015329
_E_MINUS_1 = 1.718281828459045  # Σ 1/i!, which is there after a dozen terms


def cover(partials: Floats) -> Floats:
    """⊕ to combine the dyadic intervals that make up P leaves at a random place: ⌊log₂ P⌋ + (P + 1)/2^⌊log₂ P⌋ - 2."""
    level = np.floor(np.log2(partials))
    return level + (partials + 1) / np.exp2(level) - 2


def harmonic(n: float) -> float:
    """H(n) = Σ 1/i: how many of n values in random order are greater than all after them."""
    return 1.0 if n <= 1 else log(n) + _EULER + 1 / (2 * n)


# ------------------------------------------------------------------ as printed


def _panes_paper(x: Load) -> float:
    return x.overlap  # (3)


def _flatfat_paper(x: Load) -> float:
    p = x.partials[x.partials > 1]  # a window of one partial takes no operation: (4) has log 0 there
    depth = np.floor(np.log2(np.maximum(p - 1, 1)))
    return float((depth + (p - 1) / np.exp2(np.floor(np.log2(p)))).sum())  # (4)


def _bint_paper(x: Load) -> float:
    return 1 + float(cover(x.partials).sum())


def _flatfit_paper(x: Load) -> float:
    return 3.0 * x.acqs  # (5)


def _two_stacks_paper(x: Load) -> float:
    return 3.0 * x.acqs


def _daba_paper(x: Load) -> float:
    return 5.0 * x.acqs


def _inv_paper(x: Load) -> float:
    rounded = np.rint(x.partials)
    return 2.0 * (1 + int(np.count_nonzero(np.diff(rounded))))  # (6); ranges are in order, so partials are


def _non_inv_paper(x: Load) -> float:
    return 2 - 2 / x.most_partials + x.acqs + _E_MINUS_1  # (7)


# ------------------------------------------------------------------ as counted here


def _panes(x: Load) -> float:
    return max(0.0, x.overlap - x.answers / x.edge_rate)


def _leaves_depth(x: Load) -> int:
    return ceil(log2(ceil(x.most_partials)))


def _flatfat(x: Load) -> float:
    return _leaves_depth(x) + float(x.answered @ cover(x.partials))


def _bint(x: Load) -> float:
    return 1 - 0.5 ** _leaves_depth(x) + float(x.answered @ cover(x.partials))


def _flatfit(x: Load) -> float:
    g = (x.partials - 1) / (x.partials + 1)
    return 1.5 * (float(x.answered @ g) + float(g[-1]))


def _two_stacks(x: Load) -> float:
    return float((2 - 4 / (x.distinct_partials + 1)).sum()) + x.answers / x.edge_rate


def _daba(x: Load) -> float:
    return float(np.maximum(3 - 6 / x.distinct_partials, 0).sum()) + x.answers / x.edge_rate


def _inv(x: Load) -> float:
    return 2.0 * x.distinct_ranges


def _non_inv(x: Load) -> float:
    most = x.most_partials
    return 2 - 2 / most + x.answers / x.edge_rate * (1 + log2(harmonic(most)))


Omega = Callable[[Load], float]

PAPER_OMEGA: dict[str, Omega] = {
    "panes": _panes_paper,
    "flatfat": _flatfat_paper,
    "bint": _bint_paper,
    "flatfit": _flatfit_paper,
    "two_stacks": _two_stacks_paper,
    "daba": _daba_paper,
    "slickdeque_inv": _inv_paper,
    "slickdeque_non_inv": _non_inv_paper,
}
COUNTED: dict[str, Omega] = {
    "panes": _panes,
    "flatfat": _flatfat,
    "bint": _bint,
    "flatfit": _flatfit,
    "two_stacks": _two_stacks,
    "daba": _daba,
    "slickdeque_inv": _inv,
    "slickdeque_non_inv": _non_inv,
}
