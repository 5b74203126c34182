"""From ACQs to a plan: `plan`, and what changes when an ACQ comes or goes.

    ACQs ──► by aggregate ──► by edges ──► loads ──► woven ──► Plan

Only ACQs of equal aggregates share partials, so each aggregate is planned for itself.
"""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

from windlass.aggregates.aggregate import Aggregate
from windlass.errors import InvalidArgument, WrongType
from windlass.sharing.acq import ACQ
from windlass.sharing.cost import CostModel
from windlass.sharing.counters import Counter, counter_for
from windlass.sharing.fragments import FRAGMENTS, Progression, edges_of
from windlass.sharing.load import Load
from windlass.sharing.plan import Plan, Tree
from windlass.sharing.techniques import TECHNIQUES, serving
from windlass.sharing.weaving import Grown, exhaustive, joined, put_together, weave

__all__ = ["OPTIMIZERS", "alternatives", "plan", "priced", "with_acq", "without_acq"]

_MOST_EXHAUSTIVE = 12

Step = Callable[[Sequence[Grown], CostModel, Counter], list[Grown]]


def _none(trees: Sequence[Grown], model: CostModel, counter: Counter) -> list[Grown]:
    return list(trees)


def _all(trees: Sequence[Grown], model: CostModel, counter: Counter) -> list[Grown]:
    loads = [tree.load for tree in trees]
    while len(loads) > 1:  # two and two, so that none is copied often
        paired = [a.merged(b, counter) for a, b in zip(loads[::2], loads[1::2], strict=False)]
        loads = paired + loads[2 * len(paired) :]
    return [Grown([k for tree in trees for k in tree.members], loads[0], model.tree(loads[0]))]


def _exhaustive(trees: Sequence[Grown], model: CostModel, counter: Counter) -> list[Grown]:
    if len(trees) > _MOST_EXHAUSTIVE:
        raise InvalidArgument(f"the exhaustive optimiser is for up to {_MOST_EXHAUSTIVE} ACQs, got {len(trees)}")
    return exhaustive(trees, model, counter)


# What each does with trees of one group, whether groups are single ACQs, and whether trees share a first level.
_STEPS: dict[str, tuple[Step, bool, bool]] = {
    "weaveshare": (weave, False, False),
    "triweave": (weave, False, True),
    "no sharing": (_none, True, False),
    "maximum sharing": (_all, False, False),
    "exhaustive": (_exhaustive, True, False),
}
OPTIMIZERS = ("auto", *_STEPS)


class Settings(NamedTuple):
    """How a plan is made. Rates are by the unit of the ACQs' times."""

    rate: float
    optimizer: str
    technique: str
    fragments: str
    objective: str
    counting: str


def plan(
    acqs: Iterable[ACQ],
    *,
    rate: float = 1.0,
    optimizer: str = "auto",
    technique: str = "auto",
    fragments: str = "pairs",
    objective: str = "time",
    counting: str = "auto",
) -> Plan:
    """The cheapest plan that the optimiser finds.

    `rate`: events a second, if times are durations, else in a unit of time. `optimizer`: "weaveshare", "triweave",
    "exhaustive", "no sharing", "maximum sharing", or "auto": the cheapest of WeaveShare, TriWeave and maximum sharing.
    `technique` pins one for all trees. `fragments`: how the stream is cut. `objective`: minimise "time",
    "operations", or operations as the "paper" has them.
    """
    found = _checked(acqs)
    if optimizer not in OPTIMIZERS:
        raise InvalidArgument(f"an optimizer is one of {', '.join(OPTIMIZERS)}; got {optimizer!r}")
    if fragments not in FRAGMENTS:
        raise InvalidArgument(f"fragments are one of {', '.join(FRAGMENTS)}; got {fragments!r}")
    if not _is_positive(rate):
        raise InvalidArgument(f"the rate of events must be a positive number, got {rate!r}")
    settings = Settings(rate / _per_second(found), optimizer, technique, fragments, objective, counting)
    if optimizer != "auto":
        return _planned(found, settings)
    kinds = ("weaveshare", "triweave", "maximum sharing")
    known: dict[Aggregate, Lane] = {}  # edges and loads, which are the same for all of them
    return min((_planned(found, settings._replace(optimizer=kind), known) for kind in kinds), key=lambda p: p.cost)


def _is_positive(rate: Any) -> bool:
    if isinstance(rate, bool) or not isinstance(rate, Real):
        return False
    return 0 < float(rate) < float("inf")


def _checked(acqs: Iterable[ACQ]) -> list[ACQ]:
    found = list(acqs)
    if not found:
        raise InvalidArgument("a plan needs at least one ACQ")
    for q in found:
        if not isinstance(q, ACQ):
            raise WrongType(f"a plan is made of ACQs such as ACQ('5m', '10s'), got {q!r}")
    if len({q.is_time for q in found}) > 1:
        raise InvalidArgument("some ACQs have durations and some plain integers: give all of them in one unit")
    if len(set(found)) < len(found):
        twice = next(q for q, times in Counted(found).items() if times > 1)
        raise InvalidArgument(f"{twice!r} is there twice; give equal ACQs different names")
    return found


def _per_second(acqs: Sequence[ACQ]) -> float:
    return 1e6 if acqs[0].is_time else 1.0


def _planned(acqs: Sequence[ACQ], settings: Settings, known: dict[Aggregate, Lane] | None = None) -> Plan:
    trees: list[Tree] = []
    cost, countings = 0.0, set()
    scale = _per_second(acqs)
    known = {} if known is None else known
    for aggregate in dict.fromkeys(q.aggregate for q in acqs):
        if aggregate not in known:
            known[aggregate] = Lane([q for q in acqs if q.aggregate == aggregate], aggregate, settings)
        lane = known[aggregate].by(settings)
        woven = lane.step(lane.start(), lane.model, lane.counter)
        trees += lane.trees(woven, scale)
        cost += lane.cost(woven) * scale
        countings.add(lane.counting)
    head = settings.optimizer, settings.fragments, settings.rate * scale, settings.objective
    return Plan(tuple(trees), *head, cost, counting=", ".join(sorted(countings)))


class Lane:
    """The ACQs of one aggregate, as they are planned."""

    def __init__(self, acqs: Sequence[ACQ], aggregate: Aggregate, settings: Settings) -> None:
        self.aggregate, single = aggregate, _STEPS[settings.optimizer][1]
        cut = FRAGMENTS[settings.fragments]
        groups: dict[object, list[ACQ]] = {}
        edges: set[Progression] = set()
        for q in acqs:
            progressions = frozenset(cut(q.range, q.slide, q.offset))
            edges |= progressions
            groups.setdefault(q.identity if single else progressions, []).append(q)
        self.groups, self.edges = list(groups.values()), edges
        self.counter, self.counting = counter_for(edges, settings.counting)
        self._loads: dict[int, Load] = {}
        self._set(settings)

    def _set(self, settings: Settings) -> None:
        self.settings = settings
        self.step, _, is_shared = _STEPS[settings.optimizer]
        shared = self.counter.rate(self.counter.mark(self.edges)) if is_shared else None
        self.model = CostModel(settings.rate, serving(self.aggregate, settings.technique), settings.objective, shared)

    def by(self, settings: Settings) -> Lane:
        """The same ACQs, planned in another way that starts with the same groups."""
        other = copy(self)
        other._set(settings)
        return other

    def start(self) -> list[Grown]:
        """A tree for each group."""
        return [self.grown(k) for k in range(len(self.groups))]

    def grown(self, k: int) -> Grown:
        load = self._loads.get(k)
        if load is None:
            acqs, cutty = self.groups[k], self.settings.fragments == "cutty"
            load = Load.of(acqs, self.counter, edges_of(acqs, self.settings.fragments), cutty=cutty)
            self._loads[k] = load
        return Grown([k], load, self.model.tree(load))

    def cost(self, woven: Sequence[Grown]) -> float:
        return self.model.common + sum(tree.cost for tree in woven)

    def trees(self, woven: Sequence[Grown], scale: float) -> list[Tree]:
        found = []
        for tree in sorted(woven, key=lambda t: -t.load.edge_rate):
            acqs = tuple(q for k in sorted(tree.members) for q in self.groups[k])
            cost, technique, omega = tree.price
            found.append(Tree(acqs, technique, tree.load.edge_rate * scale, omega, cost * scale))
        return found


# ------------------------------------------------------------------ one more, one less


def with_acq(old: Plan, acq: ACQ, technique: str = "auto") -> Plan:
    """The plan with one more ACQ: it gets a tree of its own or joins others, whatever saves most; all else stays."""
    _checked([*old.acqs, acq])
    return _changed(old, [list(tree.acqs) for tree in old.trees if tree.acqs], acq, technique)


def without_acq(old: Plan, acq: ACQ, technique: str = "auto") -> Plan:
    """The plan without an ACQ. What is left of its tree joins others where that saves something; all else stays."""
    tree = old.tree_of(acq)
    if len(old.acqs) == 1:
        raise InvalidArgument(f"{acq!r} is the plan's only ACQ")
    others = [list(t.acqs) for t in old.trees if t is not tree]
    return _changed(old, others, None, technique, [q for q in tree.acqs if q != acq])


def _changed(old: Plan, parts: list[list[ACQ]], new: ACQ | None, technique: str, left: Sequence[ACQ] = ()) -> Plan:
    moving = [new] if new is not None else list(left)
    left_over = {q.aggregate for part in [*parts, moving] for q in part}
    aggregates = [a for a in dict.fromkeys(q.aggregate for q in [*old.acqs, *moving]) if a in left_over]
    scale = old.per_second
    settings = Settings(old.rate / scale, old.optimizer, technique, old.fragments, old.objective, "auto")
    trees: list[Tree] = []
    cost = 0.0
    for aggregate in aggregates:
        mine = [part for part in parts if part[0].aggregate == aggregate]
        moved = [q for q in moving if q.aggregate == aggregate]
        lane = Lane([q for part in [*mine, moved] for q in part], aggregate, settings)
        lane.groups = [*mine, *([moved] if moved else [])]
        grown = lane.start()
        if moved:
            grown = _rejoined(grown, lane, old.optimizer)
        trees += lane.trees(grown, scale)
        cost += lane.cost(grown) * scale
    return replace(old, trees=tuple(trees), cost=cost, alternatives=())


def _rejoined(grown: list[Grown], lane: Lane, optimizer: str) -> list[Grown]:
    *rest, one = grown
    if optimizer == "no sharing":
        return grown
    if optimizer == "maximum sharing":
        return [put_together(rest[0], one, lane.model, lane.counter)] if rest else [one]
    return joined(rest, one, lane.model, lane.counter)


def priced(chosen: Plan, objective: str) -> Plan:
    """The same trees on the same techniques, with what they cost by an objective."""
    scale, cost, trees = chosen.per_second, 0.0, []
    for aggregate in dict.fromkeys(tree.aggregate for tree in chosen.trees):
        mine = [tree for tree in chosen.trees if tree.aggregate == aggregate]
        settings = Settings(chosen.rate / scale, chosen.optimizer, "auto", chosen.fragments, objective, "auto")
        lane = Lane([q for tree in mine for q in tree.acqs], aggregate, settings)
        lane.groups = [list(tree.acqs) for tree in mine]
        grown = []
        for k, tree in enumerate(mine):
            lane.model = replace(lane.model, techniques=[tree.technique])
            grown.append(lane.grown(k))
        trees += lane.trees(grown, scale)
        cost += lane.cost(grown) * scale
    return replace(chosen, trees=tuple(trees), objective=objective, cost=cost, alternatives=())


# ------------------------------------------------------------------ what else could be done


def alternatives(chosen: Plan) -> tuple[tuple[str, float], ...]:
    """Other plans for the same ACQs, and what they would cost by the same objective."""
    acqs, costs = chosen.acqs, {}
    settings = Settings(
        chosen.rate / chosen.per_second, "weaveshare", "auto", chosen.fragments, chosen.objective, "auto"
    )
    for optimizer in ("weaveshare", "triweave", "maximum sharing", "no sharing"):
        costs[optimizer] = _planned(acqs, settings._replace(optimizer=optimizer)).cost
    for name, info in TECHNIQUES.items():
        if all(info.serves(q.aggregate) for q in acqs):
            costs[f"only {info.title}"] = _planned(acqs, settings._replace(technique=name)).cost
    return tuple(sorted(costs.items(), key=lambda item: item[1]))
