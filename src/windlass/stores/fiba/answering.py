"""The answers of a chunk, from its plan: one an event, as it comes.

The leaves are combined by a small binary tree, which lies in cache; an event changes one leaf and the nodes above it.
The answer is the suffix of the zone that is still there, and the root. Where events follow each other into the same
leaf, which is to say in order, what is left and right of it is combined once, and each of them takes three ⊕, four if
there is something right of it.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, chooser
from windlass.stores.fiba.nodes import at
from windlass.stores.fiba.ranges import folding
from windlass.stores.fiba.staging import staging
from windlass.stores.fiba.survey import DEEP, LEAVES, ZONE


def answering(m: Monoid) -> Any:
    """`answer_chunk(state, events, begin, n, out, more, partials, answers)`"""
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)
    choose = chooser(m.fields)
    fold = folding(m)
    lift_all, event_at, answer_with, lower_all = staging(m)

    def grow(leaves: Any, width: Any, n: Any, starts: Any, pieces: Any, values: Any, aggregates: Any) -> Any:
        """The n leaves and all nodes above them."""
        for leaf in range(width):
            if leaf < n and at(starts, leaf) < at(starts, leaf + 1):
                store(leaves, width + leaf, fold(pieces, at(starts, leaf), at(starts, leaf + 1), values, aggregates))
            else:
                store(leaves, width + leaf, identity())
        covered = 1
        begin = width
        while begin > 1:
            begin, covered = begin >> 1, covered * 2
            for i in range(begin):
                node = begin + i
                x = load(leaves, 2 * node)
                if i * covered + (covered >> 1) < n:
                    x = combine(x, load(leaves, 2 * node + 1))
                store(leaves, node, x)

    def climb(leaves: Any, node: Any, x: Any) -> Any:
        """A leaf becomes x; which side it is on cannot be predicted, so values are chosen, not ways."""
        store(leaves, node, x)
        while node > 1:
            odd = node & 1 == 1
            other = load(leaves, node ^ 1)
            x = combine(choose(odd, other, x), choose(odd, x, other))
            node >>= 1
            store(leaves, node, x)

    def answer_chunk(
        state: Any, events: Any, begin: Any, n: Any, out: Any, more: Any, partials: Any, answers: Any
    ) -> Any:
        head, rows, values, aggregates = state
        suffixes, leaves, stages = partials
        order, ops, fronts, starts, pieces, times, slots, told = out
        drop_starts, drops = more[0], more[1]
        zone = at(told, ZONE)
        lift_all(events, begin, n, stages)
        if zone > 0:
            x = load(values, at(slots, zone - 1))
            store(suffixes, zone - 1, x)
            for k in range(zone - 2, -1, -1):
                x = combine(load(values, at(slots, k)), x)
                store(suffixes, k, x)
        width = 1
        while width < at(told, LEAVES):
            width *= 2
        grow(leaves, width, at(told, LEAVES), starts, pieces, values, aggregates)
        dropping = at(told, DEEP) != 0
        k = 0
        while k < n:
            leaf = at(ops, k)
            if dropping:
                for d in range(at(drop_starts, k), at(drop_starts, k + 1)):
                    climb(leaves, width + at(drops, d), identity())
            stop = k + 1
            if not dropping:
                while stop < n and at(ops, stop) == leaf:
                    stop += 1
            if stop > k + 2:
                left, right, some_right = identity(), identity(), False
                node = width + leaf
                while node > 1:
                    if node & 1 == 1:
                        left = combine(load(leaves, node ^ 1), left)
                    elif (node ^ 1) * (width // _power(node)) - width < at(told, LEAVES):
                        right, some_right = combine(right, load(leaves, node ^ 1)), True
                    node >>= 1
                x = load(leaves, width + leaf)
                left = combine(left, x)
                while k < stop:
                    event = event_at(events, begin, k, stages)
                    x, left = combine(x, event), combine(left, event)
                    y = combine(left, right) if some_right else left
                    front = at(fronts, k)
                    answer_with(answers, begin, k, stages, combine(load(suffixes, front), y) if front < zone else y)
                    k += 1
                if stop < n:
                    climb(leaves, width + leaf, x)
            else:
                if leaf >= 0:
                    climb(leaves, width + leaf, combine(load(leaves, width + leaf), event_at(events, begin, k, stages)))
                x = load(leaves, 1)
                front = at(fronts, k)
                answer_with(answers, begin, k, stages, combine(load(suffixes, front), x) if front < zone else x)
                k += 1
        lower_all(answers, begin, n, stages)

    return answer_chunk


def _power(node: Any) -> Any:
    """The first node of this node's level."""
    power = 1
    while power * 2 <= node:
        power *= 2
    return power
