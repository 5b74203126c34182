"""What a tree costs, and a plan (MQO 3.1.1, equation 1), for three objectives.

    WeaveShare   C = m·λ + Σ E·Ω                every tree folds all events for itself
    TriWeave     C = λ + Σ (E_c + E·Ω)          events are folded once, at the E_c edges of all trees together; a tree
                                                folds those E_c partials into its own, unless they are its own

The second is not printed in the paper; it follows from what TriWeave does. Either is a constant and a sum over
trees, so a planner can compare trees alone.

| objective | |
|---|---|
| paper | operations, by the equations as printed |
| operations | operations as this implementation takes them; slices without events are none |
| time | nanoseconds, by constants that were measured (calibration.py) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from windlass.errors import InvalidArgument
from windlass.sharing.calibration import BATCH, Calibration, calibration
from windlass.sharing.load import Load
from windlass.sharing.omega import COUNTED, PAPER_OMEGA

__all__ = ["OBJECTIVES", "CostModel", "Priced"]

OBJECTIVES = ("paper", "operations", "time")


class Priced(NamedTuple):
    """A tree's part of the cost, the technique that makes it so, and its Ω."""

    cost: float
    technique: str
    omega: float


@dataclass(frozen=True)
class CostModel:
    """Costs in a unit of time, at `rate` events in it. `shared_rate`: E_c of TriWeave; None for WeaveShare."""

    rate: float
    techniques: Sequence[str]
    objective: str = "operations"
    shared_rate: float | None = None
    constants: Calibration = field(default_factory=calibration)

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InvalidArgument(f"an objective is one of {', '.join(OBJECTIVES)}; got {self.objective!r}")
        if not self.rate > 0:
            raise InvalidArgument(f"the rate of events must be positive, got {self.rate!r}")

    @property
    def common(self) -> float:
        """What a plan costs before its first tree: under TriWeave, folding the events."""
        if self.shared_rate is None:
            return 0.0
        if self.objective != "time":
            return self.rate
        return self.rate * self.constants.event + min(self.shared_rate, self.rate) * self.constants.slice

    def tree(self, load: Load) -> Priced:
        """With the technique that is cheapest for it."""
        final = self._cheapest(load)
        return Priced(self._partial(load) + final.cost, final.technique, final.omega)

    def _cheapest(self, load: Load) -> Priced:
        """Of final aggregation, which is the same for either optimiser."""
        key = self.rate, self.objective, tuple(self.techniques)
        known: Priced | None = load.priced.get(key)
        if known is not None:
            return known
        if self.objective == "paper":
            omegas, final = PAPER_OMEGA, load
        else:
            omegas, final = COUNTED, load.thinned(self.rate)
        best = Priced(float("inf"), "", 0.0)
        for technique in self.techniques:
            omega = omegas[technique](final)
            cost = self._final(final, technique, omega)
            if cost < best.cost or not best.technique:
                best = Priced(cost, technique, omega)
        load.priced[key] = best
        return best

    def _partial(self, load: Load) -> float:
        """Partial aggregation: events, or under TriWeave ready partials, folded into the slices of a tree."""
        if self.shared_rate is None:
            folded, each = self.rate, self.constants.event
        else:
            folded, each = self.shared_rate, self.constants.partial
            if load.edge_rate >= self.shared_rate * (1 - 1e-12):
                folded = 0.0  # they are its own
            elif self.objective != "paper":
                folded = min(folded, self.rate)
        return folded * each + self.rate / BATCH * self.constants.batch if self.objective == "time" else folded

    def _final(self, load: Load, technique: str, omega: float) -> float:
        """Final aggregation: E·Ω."""
        if self.objective == "paper":
            return load.edge_rate * omega
        operations = load.edge_rate * omega + load.inside
        if self.objective == "operations":
            return operations
        c = self.constants.techniques[technique]
        return operations * c.operation + load.edge_rate * c.edge + load.answers * c.answer
