"""The techniques a tree can be evaluated with, and what they need of an aggregate (MQO 2.2, 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.aggregates.aggregate import Aggregate
from windlass.errors import InvalidArgument, UnsupportedAggregate

__all__ = ["PAPER", "TECHNIQUES", "TechniqueInfo", "serving"]


@dataclass(frozen=True)
class TechniqueInfo:
    title: str
    needs: str = ""  # "invertible", "selective", or nothing

    def serves(self, aggregate: Aggregate) -> bool:
        return not self.needs or bool(getattr(aggregate, self.needs))

    def check(self, aggregate: Aggregate) -> None:
        if not self.serves(aggregate):
            reason = "has no inverse" if self.needs == "invertible" else "is not selective (a ⊕ b is a or b)"
            raise UnsupportedAggregate(
                f"{self.title} cannot serve {aggregate!r}, which {reason}; use {_other(aggregate)}"
            )


TECHNIQUES = {
    "panes": TechniqueInfo("Panes"),
    "flatfat": TechniqueInfo("FlatFAT"),
    "bint": TechniqueInfo("B-Int"),
    "flatfit": TechniqueInfo("FlatFIT"),
    "two_stacks": TechniqueInfo("TwoStacks"),
    "daba": TechniqueInfo("DABA"),
    "slickdeque_inv": TechniqueInfo("SlickDeque (Inv)", "invertible"),
    "slickdeque_non_inv": TechniqueInfo("SlickDeque (Non-Inv)", "selective"),
}

# Those that the paper plans with (5.1).
PAPER = ("panes", "flatfat", "flatfit", "slickdeque_inv", "slickdeque_non_inv")


def serving(aggregate: Aggregate, technique: str = "auto") -> list[str]:
    """The techniques that can evaluate this aggregate, or the one that was asked for if it can. "slickdeque" is
    the one of its two forms that fits."""
    if technique == "auto":
        return [name for name, info in TECHNIQUES.items() if info.serves(aggregate)]
    if technique == "slickdeque":
        technique = "slickdeque_inv" if aggregate.invertible else "slickdeque_non_inv"
    if technique not in TECHNIQUES:
        raise InvalidArgument(
            f"a technique is 'auto', 'slickdeque' or one of {', '.join(TECHNIQUES)}; got {technique!r}"
        )
    TECHNIQUES[technique].check(aggregate)
    return [technique]


def _other(aggregate: Aggregate) -> str:
    return ", ".join(TECHNIQUES[name].title for name in serving(aggregate))
