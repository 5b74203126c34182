"""A plan: which ACQs share a tree, and with which technique each tree is evaluated (MQO 3.1.1). Plans are data.

Times and rates are in the unit of the ACQs; where that is microseconds, rates and costs are shown by the second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from windlass.aggregates.aggregate import Aggregate
from windlass.errors import InvalidArgument
from windlass.sharing.acq import ACQ
from windlass.sharing.fragments import composite_slide, edges_of
from windlass.sharing.techniques import TECHNIQUES

if TYPE_CHECKING:
    from windlass.sharing.executor import PlanRun

__all__ = ["Plan", "Tree"]

_FORMAT = 1


@dataclass(frozen=True)
class Tree:
    """ACQs that share slices, and how they are evaluated."""

    acqs: tuple[ACQ, ...]
    technique: str
    edge_rate: float = field(compare=False)  # E: edges in a unit of time
    omega: float = field(compare=False)  # Ω: operations an edge
    cost: float = field(compare=False)  # its part of the plan's cost

    @property
    def aggregate(self) -> Aggregate:
        return self.acqs[0].aggregate

    def describe(self) -> str:
        return TECHNIQUES[self.technique].title


@dataclass(frozen=True)
class Plan:
    """Trees, and what they cost. Two plans are equal if they do the same, whatever they were thought to cost."""

    trees: tuple[Tree, ...]
    optimizer: str
    fragments: str
    rate: float = field(compare=False)  # λ: events in a unit of time
    objective: str = field(compare=False)
    cost: float = field(compare=False)
    counting: str = field(default="", compare=False)  # how edges were counted
    alternatives: tuple[tuple[str, float], ...] = field(default=(), compare=False)  # other plans, and their costs

    @property
    def acqs(self) -> tuple[ACQ, ...]:
        return tuple(q for tree in self.trees for q in tree.acqs)

    @property
    def per_second(self) -> float:
        """Units of time in a second, if it is known."""
        return 1e6 if self.trees and self.trees[0].acqs[0].is_time else 1.0

    def tree_of(self, acq: ACQ) -> Tree:
        for tree in self.trees:
            if acq in tree.acqs:
                return tree
        raise InvalidArgument(f"{acq!r} is not in this plan")

    def pinned(self, technique: str) -> Plan:
        """The same trees on one technique. Costs stay those of the plan it was made from."""
        if technique not in TECHNIQUES:
            raise InvalidArgument(f"techniques are {', '.join(TECHNIQUES)}; got {technique!r}")
        for tree in self.trees:
            TECHNIQUES[technique].check(tree.aggregate)
        return replace(self, trees=tuple(replace(tree, technique=technique) for tree in self.trees))

    def run(self) -> PlanRun:
        """A run of this plan over events in order."""
        from windlass.sharing.executor import PlanRun

        return PlanRun(self)

    # ------------------------------------------------------------------ as text

    def __str__(self) -> str:
        from windlass.sharing.showing import text

        return text(self)

    def explain(self) -> str:
        """The plan, the alternatives' costs, and why this one."""
        from windlass.sharing.showing import explained

        return explained(self)

    def _repr_html_(self) -> str:
        from windlass.sharing.showing import html

        return html(self)

    def draw(self, axes: Any = None) -> Any:
        """A picture of the plan, by matplotlib: the trees, with their edges over one composite slide."""
        from windlass.sharing.drawing import draw

        return draw(self, axes)

    def __repr__(self) -> str:
        n = len(self.trees)
        trees = f"{n} tree{'s' if n != 1 else ''}"
        return f"<Plan of {self.optimizer}: {len(self.acqs)} ACQs in {trees}, cost {self.cost:.6g}>"

    def composite_slide(self) -> int:
        """The time after which all edges of all trees repeat."""
        return composite_slide(edges_of(self.acqs, self.fragments))

    # ------------------------------------------------------------------ as JSON

    def to_json(self, indent: int | None = 2) -> str:
        """As text that `from_json` reads, with the aggregates by their names."""
        trees = [
            {
                "technique": tree.technique,
                "aggregate": repr(tree.aggregate),
                "edge_rate": tree.edge_rate,
                "omega": tree.omega,
                "cost": tree.cost,
                "acqs": [[q.name, q.range, q.slide, q.offset] for q in tree.acqs],
            }
            for tree in self.trees
        ]
        head = {
            name: getattr(self, name) for name in ("optimizer", "fragments", "rate", "objective", "cost", "counting")
        }
        is_time = bool(self.trees) and self.trees[0].acqs[0].is_time
        whole = {"windlass_plan": _FORMAT, "time": is_time, **head, "alternatives": self.alternatives, "trees": trees}
        return json.dumps(whole, indent=indent)

    @classmethod
    def from_json(cls, text: str, aggregates: Mapping[str, Aggregate]) -> Plan:
        """A plan from its JSON. `aggregates`: those it names, by what they are called there."""
        try:
            read = json.loads(text)
            if read["windlass_plan"] != _FORMAT:
                raise InvalidArgument(f"a plan of format {read['windlass_plan']}; this version reads {_FORMAT}")
            trees = tuple(_tree(tree, aggregates, read["time"]) for tree in read["trees"])
            head = {k: read[k] for k in ("optimizer", "fragments", "rate", "objective", "cost", "counting")}
            return cls(trees, **head, alternatives=tuple((str(a), float(c)) for a, c in read["alternatives"]))
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(f"this is not the JSON of a plan: {type(error).__name__}: {error}") from error


def _tree(read: Any, aggregates: Mapping[str, Aggregate], is_time: bool) -> Tree:
    name = read["aggregate"]
    if name not in aggregates:
        raise InvalidArgument(f"the plan has a tree of {name}; give aggregates={{{name!r}: …}}")
    acqs = []
    for called, length, slide, offset in read["acqs"]:
        q = ACQ(length, slide, aggregates[name], offset=offset, name=called)
        object.__setattr__(q, "is_time", is_time)
        acqs.append(q)
    if read["technique"] not in TECHNIQUES:
        raise InvalidArgument(f"techniques are {', '.join(TECHNIQUES)}; got {read['technique']!r}")
    TECHNIQUES[read["technique"]].check(aggregates[name])
    return Tree(tuple(acqs), read["technique"], read["edge_rate"], read["omega"], read["cost"])
