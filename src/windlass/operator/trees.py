"""Which queries share slices: the operator's own plan (MQO 3.1, with this engine's costs).

    queries ──► windows, partials, edges ──► woven by what trees cost (costs.py) ──► trees: query names, a technique

Queries of one tree are a branch, with slices and partials of their own. One tree for all folds every event once; but
then every slice ends at every edge, holds every partial, and stays as long as the longest window needs it. So trees
of fine, short windows and of coarse, long ones are often worth folding events twice, and large partials (sketches,
sorted runs) worth slices of their own.

A plan is made of what is known when the first events come: the queries, the types of columns, how many events there
are in how much time, of how many keys, in how large a batch. Before that, see `assumed`. It is then kept, in snapshots
too, because slices cannot be taken from one tree to another; but a tree may be split later (`replanning`), and a query
that is added joins one if that pays and its windows allow it. Results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2
from typing import Any, NamedTuple

import numpy as np

from windlass.aggregates.sharing import carriers
from windlass.aggregates.values import ValueType
from windlass.errors import InvalidArgument, WrongType
from windlass.operator.costs import STORES, TITLES, Counts, EngineCost, EngineLoad, Observed, Weight, weight_of
from windlass.operator.plan import Plan, sharing
from windlass.operator.query import Query
from windlass.sharing.cost import Priced
from windlass.sharing.counters import Counter, counter_for
from windlass.sharing.fragments import FRAGMENTS, Progression
from windlass.sharing.plan import Plan as SharedPlan
from windlass.sharing.techniques import TECHNIQUES
from windlass.sharing.weaving import Grown, weave
from windlass.slicing.techniques import Technique
from windlass.windows.window import Periodic

__all__ = ["Asked", "Tree", "Trees", "assumed", "check_technique", "observed", "pinned", "planned"]

Array = np.ndarray[Any, Any]

_MANY = 300  # units


class Tree(NamedTuple):
    """Queries that share slices, and how their windows are answered from these ("auto": as is best for them)."""

    queries: tuple[str, ...]
    technique: str = "auto"


@dataclass(frozen=True)
class Asked:
    """What an operator is asked, besides its queries."""

    in_order: bool
    keyed: bool
    slicing: Technique
    store: str
    technique: str
    unit: str | None

    @property
    def techniques(self) -> list[str]:
        """Those that trees may be planned with."""
        if self.technique != "auto":
            return [self.technique]
        return [name for name, store in STORES.items() if self.store in ("auto", store)]


def assumed(unit: str | None) -> Observed:
    """Before there are events: a thousand a second, or one in a unit of time, without keys, in large batches."""
    return Observed(1.0 if unit is None else 1e-3, 1, 1 << 16)


# ------------------------------------------------------------------ what a user asks for


def check_technique(technique: Any) -> str:
    if technique != "auto" and technique not in STORES:
        known = technique in TECHNIQUES or technique == "slickdeque"
        why = (
            "the operator answers from slices that it keeps anyway, and does not run the others: "
            "windlass.sharing.PlanRun does"
            if known
            else "those that the operator runs"
        )
        raise InvalidArgument(
            f"technique is 'auto' or one of {', '.join(map(repr, STORES))} ({why}); got {technique!r}"
        )
    return str(technique)


def pinned(plan: Any, queries: Sequence[Query]) -> list[Tree]:
    """A plan as data: (query names, technique) of each tree, or a plan of `windlass.sharing`, once it is known to have
    each query once."""
    if isinstance(plan, SharedPlan):
        plan = [(dict.fromkeys(q.name for q in tree.acqs), tree.technique) for tree in plan.trees]
    if isinstance(plan, str | bytes) or not isinstance(plan, Iterable):
        raise WrongType(f"plan is a list of (query names, technique), got {plan!r}")
    trees, seen = [], set()
    names = {query.name for query in queries}
    for group in plan:
        if isinstance(group, str) or not isinstance(group, Sequence) or len(group) != 2 or isinstance(group[0], str):
            raise WrongType(
                f"a tree of a plan is (query names, technique), such as (['a', 'b'], 'blocks'); got {group!r}"
            )
        tree = Tree(tuple(group[0]), check_technique(group[1]))
        if not tree.queries:
            raise InvalidArgument("a tree of the plan has no queries; leave it out")
        for name in tree.queries:
            if name not in names:
                raise InvalidArgument(f"the plan has {name!r}, which is no query here; there are {sorted(names)}")
            if name in seen:
                raise InvalidArgument(f"the plan has query {name!r} twice; it can be in one tree only")
            seen.add(name)
        trees.append(tree)
    if missing := sorted(names - seen):
        raise InvalidArgument(f"the plan lacks {missing}; every query belongs to one of its trees")
    return trees


# ------------------------------------------------------------------ planning


@dataclass
class Trees:
    """A plan, what it was made from, and what others would cost (nanoseconds in a unit of time)."""

    trees: list[Tree]
    observed: Observed
    unit: str | None
    costs: dict[str, float]
    details: list[tuple[Tree, float, float, float]]  # cost, slices in a unit of time, and held, of each tree

    @property
    def cost(self) -> float:
        return sum(cost for _, cost, _, _ in self.details)

    def instead(
        self, trees: Sequence[Tree], queries: Sequence[Query], asked: Asked, types: Mapping[str, ValueType]
    ) -> Trees:
        """What is run in its place, with what that costs."""
        by_name = {query.name: query for query in queries}
        found = Trees(list(trees), self.observed, self.unit, dict(self.costs), [])
        for tree in trees:
            technique = tree.technique if tree.technique in STORES else asked.technique
            group = Group([by_name[n] for n in tree.queries], replace(asked, technique=technique), self.observed, types)
            if group.is_planned:
                grown = group.grown(range(len(group.units)))
                n = group.model.counts(grown.load)
                found.details.append((tree, grown.cost, n.slices, n.held))
        if sorted(tree.queries for tree in trees) != sorted(tree.queries for tree in self.trees):
            found.costs["what is planned"] = self.cost
        return found


class Group:
    """Queries that could share slices, as the planner sees them."""

    def __init__(
        self, queries: Sequence[Query], asked: Asked, observed: Observed, types: Mapping[str, ValueType]
    ) -> None:
        self.queries = list(queries)
        self.plan = Plan(self.queries, asked.unit, asked.in_order, asked.store, asked.keyed, asked.slicing)
        general = self.plan.general
        self.fragments = "pairs" if general else {"pairs": "pairs", "panes": "panes"}.get(asked.slicing, "cutty")
        self.is_planned = not self.plan.stores_tuples.yes and asked.store in ("auto", *STORES.values())
        weights = [weight_of(k.aggregate, dict(types)) for k in self.plan.kept]
        self.units = self._units(weights)
        every = {p for edges, _ in self.units for p in edges}
        self.counter: Counter = counter_for(every or {(0, 1)})[0]
        lengths, longest, slides = self._windows()
        self.model: Any = EngineCost(
            observed,
            lengths,
            longest,
            slides,
            weights,
            asked.techniques,
            "general" if general else "in order",
            asked.keyed,
        )

    def _windows(self) -> tuple[list[float], list[float], list[float]]:
        """Of each window its mean length, its greatest, and how often it is answered; of those whose edges are not
        fixed nothing is known, and it is the same in any tree."""
        found: list[tuple[float, float, float]] = []
        for f in self.plan.findings:
            b = f.bound
            if f.is_grid and isinstance(b, Periodic) and b.period:
                found.append((b.step * (b.ends + 1) / 2, b.step * b.ends, b.period / b.ends))
            else:
                found.append((0.0, 0.0, 1.0))
        lengths, longest, slides = zip(*found, strict=True)
        return list(lengths), list(longest), list(slides)

    def _edges(self, finding: int) -> frozenset[Progression]:
        f = self.plan.findings[finding]
        b = f.bound
        if not (f.is_grid and isinstance(b, Periodic) and b.period):
            return frozenset()
        if b.ends == 1:
            return frozenset(FRAGMENTS[self.fragments](b.step, b.period, b.origin))
        return frozenset({(b.origin % b.step, b.step)})

    def _units(self, weights: Sequence[Weight]) -> dict[tuple[frozenset[Progression], frozenset[int]], list[int]]:
        """Queries of the same edges and partials, which belong together."""
        at = {(k.aggregate, k.where): i for i, k in enumerate(self.plan.kept)}
        units: dict[tuple[frozenset[Progression], frozenset[int]], list[int]] = {}
        for q, query in enumerate(self.queries):
            where = None if query.where is None else self.plan.predicates.index(query.where)
            lifts = set()
            for a in query.aggregates:
                holders = [replace(a, output=None)]
                while (holders[0], where) not in at:  # what holds it may be held by another one in turn
                    holders += carriers(holders.pop(0))
                lifts.add(at[holders[0], where])
            edges = self._edges(self.plan.finding_of[q])
            units.setdefault((edges, frozenset(lifts)), []).append(q)
        return units

    def start(self) -> list[Grown]:
        """A tree for each unit; of many, one for those of the same partials and about the same edges."""
        units = list(self.units)
        together: dict[Any, list[int]] = {}
        for k, (edges, lifts) in enumerate(units):
            octave = round(log2(sum(1 / period for _, period in edges))) if edges else None
            together.setdefault((octave, lifts) if len(units) > _MANY else k, []).append(k)
        return [self.grown(members) for members in together.values()]

    def grown(self, members: Sequence[int]) -> Grown:
        """A tree of some units."""
        some = [list(self.units)[k] for k in members] if len(members) < len(self.units) else list(self.units)
        edges = frozenset(p for progressions, _ in some for p in progressions)
        windows = frozenset(self.plan.finding_of[q] for unit in some for q in self.units[unit])
        lifts = frozenset(i for _, mine in some for i in mine)
        load = self.load(windows, lifts, edges, any(not progressions for progressions, _ in some))
        return Grown(list(members), load, self.model.tree(load))

    def load(self, windows: frozenset[int], lifts: frozenset[int], edges: frozenset[Progression], is_open: bool) -> Any:
        marked = self.counter.mark(edges) if edges else None
        return EngineLoad(windows, lifts, marked, self.counter.rate(marked) if edges else 0.0, is_open)

    def counts(self) -> Counts:
        """What one tree of all of them does."""
        found: Counts = self.model.counts(self.grown(range(len(self.units))).load)
        return found

    def tree(self, grown: Grown) -> Tree:
        members = list(self.units.values())
        which = sorted(q for k in grown.members for q in members[k])
        return Tree(tuple(self.queries[q].name for q in which), grown.price.technique)

    def with_only(self, technique: str) -> Any:
        """The same model, for one technique."""
        model = object.__new__(EngineCost)
        model.__dict__ = {**vars(self.model), "techniques": [technique]}
        return model


def pays_together(
    some: Sequence[Query],
    others: Sequence[Query],
    asked: Asked,
    observed: Observed,
    types: Mapping[str, ValueType],
) -> bool:
    """Whether queries cost no more in one tree than some and others in two. What is not planned shares."""
    costs = []
    for queries in ([*some, *others], some, others):
        group = Group(queries, asked, observed, types)
        if not group.is_planned:
            return True
        costs.append(group.grown(range(len(group.units))).cost)
    return bool(costs[0] <= costs[1] + costs[2])


def planned(
    queries: Sequence[Query], asked: Asked, observed: Observed, types: Mapping[str, ValueType], others: bool = False
) -> Trees:
    """The cheapest trees that the optimiser finds. `others`: also what other plans would cost. Remembered, because all
    buckets of a stream ask for the same."""
    return _planned(tuple(queries), asked, observed, tuple(sorted(types.items())), others)


@lru_cache(maxsize=16)
def _planned(
    queries: tuple[Query, ...],
    asked: Asked,
    observed: Observed,
    types: tuple[tuple[str, ValueType], ...],
    others: bool,
) -> Trees:
    found = Trees([], observed, asked.unit, {}, [])
    for some in sharing(queries, asked.in_order):
        group = Group(some, asked, observed, dict(types))
        if not group.is_planned:
            found.trees.append(Tree(tuple(query.name for query in some)))
            continue
        start = group.start()
        best = [group.grown(range(len(group.units)))]
        if len(start) > 1:
            woven = weave(start, group.model, group.counter)
            best = min(best, woven, key=lambda trees: sum(t.cost for t in trees))
        for grown in sorted(best, key=lambda t: -t.load.edge_rate):
            tree = group.tree(grown)
            found.trees.append(tree)
            n = group.model.counts(grown.load)
            found.details.append((tree, grown.cost, n.slices, n.held))
        if others:
            for name, cost in _alternatives(group, start).items():
                found.costs[name] = found.costs.get(name, 0.0) + cost
    return found


def _alternatives(group: Group, start: list[Grown]) -> dict[str, float]:
    one = group.grown(range(len(group.units)))
    costs = {"maximum sharing": one.cost, "no sharing": sum(_alone(group, q) for q in range(len(group.queries)))}
    for technique in group.model.techniques if len(group.model.techniques) > 1 else ():
        model = group.with_only(technique)
        priced = [Grown(t.members, t.load, model.tree(t.load)) for t in start]
        woven = weave(priced, model, group.counter) if len(priced) > 1 else priced
        costs[f"only {TITLES[technique]}"] = min(sum(t.cost for t in woven), model.tree(one.load).cost)
    return costs


def _alone(group: Group, q: int) -> float:
    finding = group.plan.finding_of[q]
    edges, lifts = next(unit for unit, members in group.units.items() if q in members)
    price: Priced = group.model.tree(group.load(frozenset({finding}), lifts, edges, not edges))
    return price.cost


# ------------------------------------------------------------------ what is observed


def observed(rows: int, span: float, keys: int, unit: str | None, batches: int = 1) -> Observed:
    """From rows that came: how many, over what time, of how many keys, in how many batches. As powers of two, so that
    plans do not hang on one event."""
    rate = rows / span if span > 0 else assumed(unit).rate
    return Observed(2.0 ** round(log2(rate)), _power_of_two(keys), _power_of_two(rows / batches))


def _power_of_two(n: float) -> int:
    return 1 << max(0, round(log2(max(1, n))))
