"""WeaveShare and TriWeave: put together the two trees that save most, as long as any two do (MQO 3.1.1).

    start    {a} {b} {c} {d}     a tree for each ACQ
             {a b} {c} {d}       the pair whose union costs least compared to the two
             {a b} {c d}         … until every union would cost more

Which of the two optimisers it is, only the cost model knows. The savings are at least a quarter of the best possible
ones in practice (Chung et al.); tests compare with `exhaustive`.

Departures. ACQs of equal edges start in one tree. They belong together: where Ω is a sum over ACQs (Panes, FlatFIT, …),
of two trees that hold some of them the one with fewer edges is the better place for all of them; where it is less
than the sum (SlickDeque), even more so. And beyond 48 distinct sets of edges, trees are first grown, a hundred
sets at a time, each joining the tree where it costs least; what has grown is woven. That is n·m unions of small
trees in place of n² of large ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from windlass.sharing.cost import CostModel, Priced
from windlass.sharing.counters import Counter
from windlass.sharing.load import Load

__all__ = ["Grown", "exhaustive", "joined", "weave"]

_MANY, _BLOCK = 48, 100


@dataclass
class Grown:
    """A tree while a plan is made: which groups of ACQs it has."""

    members: list[int]
    load: Load
    price: Priced = field(repr=False)

    @property
    def cost(self) -> float:
        return self.price.cost


def weave(trees: Sequence[Grown], model: CostModel, counter: Counter) -> list[Grown]:
    """The greedy plan from these trees on."""
    if len(trees) > _MANY:
        trees = _grow(trees, model, counter)
    alive = dict(enumerate(trees))
    number = len(alive)
    heap: list[tuple[float, int, int, Grown]] = []
    for j in alive:
        for i in range(j):
            _consider(heap, i, j, alive, model, counter)
    while heap:
        _, i, j, union = heapq.heappop(heap)
        if i not in alive or j not in alive:
            continue
        del alive[i], alive[j]
        alive[number] = union
        for other in list(alive)[:-1]:
            _consider(heap, other, number, alive, model, counter)
        number += 1
    return list(alive.values())


def _consider(
    heap: list[tuple[float, int, int, Grown]],
    i: int,
    j: int,
    alive: dict[int, Grown],
    model: CostModel,
    counter: Counter,
) -> None:
    """Remember the union of two trees if it saves something."""
    union = put_together(alive[i], alive[j], model, counter)
    saving = alive[i].cost + alive[j].cost - union.cost
    if saving > 0:
        heapq.heappush(heap, (-saving, i, j, union))


def put_together(a: Grown, b: Grown, model: CostModel, counter: Counter) -> Grown:
    load = a.load.merged(b.load, counter)
    return Grown(a.members + b.members, load, model.tree(load))


def _grow(trees: Sequence[Grown], model: CostModel, counter: Counter) -> list[Grown]:
    """Trees with many edges first: what comes later finds its edges there already."""
    order = sorted(trees, key=lambda t: -t.load.edge_rate)
    while len(order) > _BLOCK:
        blocks = [order[k : k + _BLOCK] for k in range(0, len(order), _BLOCK)]
        grown = [tree for block in blocks for tree in _grow(block, model, counter)]
        if len(grown) > 0.9 * len(order):  # they do not want to
            return grown
        order = sorted(grown, key=lambda t: -t.load.edge_rate)
    grown = []
    for tree in order:
        place, union = _best_place(grown, tree, model, counter)
        if union is None:
            grown.append(tree)
        else:
            grown[place] = union
    return grown


def _best_place(trees: Sequence[Grown], one: Grown, model: CostModel, counter: Counter) -> tuple[int, Grown | None]:
    """The tree that one more joins with the greatest saving; None if it is better alone."""
    best, place, found = 0.0, -1, None
    for k, tree in enumerate(trees):
        union = put_together(tree, one, model, counter)
        saving = tree.cost + one.cost - union.cost
        if saving > best:
            best, place, found = saving, k, union
    return place, found


def joined(trees: Sequence[Grown], one: Grown, model: CostModel, counter: Counter) -> list[Grown]:
    """Trees and one more, which joins others as long as that saves something; the others stay as they are."""
    rest = list(trees)
    while True:
        place, union = _best_place(rest, one, model, counter)
        if union is None:
            return [*rest, one]
        del rest[place]
        one = union


def exhaustive(trees: Sequence[Grown], model: CostModel, counter: Counter) -> list[Grown]:
    """The cheapest plan of all, by looking at every set of trees: 2^n unions and 3^n comparisons."""
    n = len(trees)
    unions: list[Grown | None] = [None] * (1 << n)
    best: list[tuple[float, int]] = [(0.0, 0)] * (1 << n)  # the cost of the best plan for a set, and its first tree
    for chosen in range(1, 1 << n):
        low = chosen & -chosen
        tree, rest = trees[low.bit_length() - 1], unions[chosen ^ low]
        unions[chosen] = tree if rest is None else put_together(tree, rest, model, counter)
    for chosen in range(1, 1 << n):
        low, part, cheapest = chosen & -chosen, chosen, (float("inf"), 0)
        while part:
            union = unions[part]
            if part & low and union is not None:
                cheapest = min(cheapest, (union.cost + best[chosen ^ part][0], part))
            part = (part - 1) & chosen
        best[chosen] = cheapest
    plan, left = [], (1 << n) - 1
    while left:
        chosen_tree = unions[best[left][1]]
        assert chosen_tree is not None
        plan.append(chosen_tree)
        left ^= best[left][1]
    return plan
