"""F1: how many distinct edges a composite slide has, computed and not counted (MQO 3.1.2, equation 2).

The printed formula is inclusion and exclusion over all groups of slides, n slides in 2^n terms:

    edges = LCM · Σ_i (-1)^(i+1) Σ_(groups of i slides) 1 / LCM(group)

It holds for edges at multiples of slides. For edges with an offset, a group counts only where its progressions meet at
all, which is where residues agree modulo gcds (the Chinese remainder theorem). And the sum can be put in an order in
which most terms never come up. With `free(P)` the share of points on no progression of P, and p one of them,

    free(P) = free(P - p) - 1/period(p) · free(P - p as seen from p)

Seen from p, the points of p are all points, numbered anew; another progression (b, q) is there one of period q /
gcd, or nothing, or everything. After each step what lies in something else is dropped; groups of coprime periods do not
know of each other, so their shares multiply; and what was seen once is remembered. Slides that are the divisors
of some number leave a handful of terms whatever their number, coprime ones one each.

Numbers are exact throughout, whatever the size of the composite slide. In the worst case (many slides that share small
factors in many ways) terms are still exponentially many; `budget` bounds them, and `TooManyTerms` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import gcd

from windlass.sharing.fragments import Progression, composite_slide

__all__ = ["TooManyTerms", "edge_rate", "f1", "pruned"]

_BUDGET = 100_000


class TooManyTerms(ArithmeticError):
    """F1 gave up: these slides share factors in too many ways."""


def f1(progressions: Iterable[Progression], budget: int = _BUDGET) -> int:
    """The number of distinct edges in a composite slide."""
    found = list(progressions)
    edges = edge_rate(found, budget) * composite_slide(found)
    assert edges.denominator == 1
    return edges.numerator


def edge_rate(progressions: Iterable[Progression], budget: int = _BUDGET) -> Fraction:
    """Edges in a unit of time: E of equation 1, exactly."""
    return 1 - _Shares(budget).free(pruned(progressions))


def pruned(progressions: Iterable[Progression]) -> tuple[Progression, ...]:
    """Without progressions that lie in another one, in the order of their periods."""
    kept: dict[int, set[int]] = {}
    for residue, period in sorted(set(progressions), key=lambda p: (p[1], p[0])):
        if not any(period % q == 0 and residue % q in residues for q, residues in kept.items()):
            kept.setdefault(period, set()).add(residue)
    return tuple((residue, period) for period, residues in kept.items() for residue in sorted(residues))


class _Shares:
    def __init__(self, budget: int) -> None:
        self.known: dict[tuple[Progression, ...], Fraction] = {}
        self.left = budget

    def free(self, progressions: tuple[Progression, ...]) -> Fraction:
        """The share of points on none of these (pruned) progressions."""
        if not progressions:
            return Fraction(1)
        if progressions[0][1] == 1:
            return Fraction(0)
        if len(progressions) == 1:
            return 1 - Fraction(1, progressions[0][1])
        if progressions not in self.known:
            self.left -= 1
            if self.left < 0:
                raise TooManyTerms(f"more than the budgeted terms for {len(progressions)} progressions")
            share = Fraction(1)
            for part in _coprime_parts(progressions):
                share *= self._connected(part)
            self.known[progressions] = share
        return self.known[progressions]

    def _connected(self, progressions: tuple[Progression, ...]) -> Fraction:
        *rest, p = progressions
        if not rest:
            return 1 - Fraction(1, p[1])
        return self.free(tuple(rest)) - Fraction(1, p[1]) * self.free(_seen_from(p, rest))


def _seen_from(p: Progression, others: list[Progression]) -> tuple[Progression, ...]:
    """The points of others on p, in p's own numbering: a + p·y ≡ b (mod q)."""
    a, period = p
    seen = set()
    for b, q in others:
        g = gcd(period, q)
        if (b - a) % g:
            continue  # they never meet
        m = q // g
        if m == 1:
            return ((0, 1),)
        seen.add(((b - a) // g * pow(period // g, -1, m) % m, m))
    return pruned(seen)


def _coprime_parts(progressions: tuple[Progression, ...]) -> list[tuple[Progression, ...]]:
    """Parts whose periods have no factor in common with those of another part."""
    parts: list[tuple[int, list[Progression]]] = []  # the product of the periods, and the progressions
    for p in progressions:
        product, members = p[1], [p]
        apart = []
        for part in parts:
            if gcd(part[0], p[1]) > 1:
                product *= part[0]
                members = part[1] + members
            else:
                apart.append(part)
        parts = [*apart, (product, members)]
    return [tuple(sorted(members, key=lambda p: (p[1], p[0]))) for _, members in parts]
