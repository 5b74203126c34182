"""A complete binary tree of partials over a row of leaves (FlatFAT without the ring), as kernels use it.

Node 1 is the root, node leaves + i is leaf i. Leaves that are not in use hold anything: ranges do not touch them, and
what the nodes above them hold is repaired when they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors


def setting(m: Monoid) -> Callable[..., Any]:
    """`set_leaf(tree, leaves, i, x) -> ⊕ calls`: write a leaf and repair the path above it."""
    combine = m.combine
    load, store = accessors(m.fields)

    def set_leaf(tree: Any, leaves: Any, i: Any, x: Any) -> Any:
        node, calls = leaves + i, 0
        store(tree, node, x)
        while node > 1:
            sibling = load(tree, node ^ 1)
            x = combine(sibling, x) if node & 1 else combine(x, sibling)
            node >>= 1
            store(tree, node, x)
            calls += 1
        return calls

    return set_leaf


def repairing(m: Monoid) -> Callable[..., Any]:
    """`repair(tree, leaves, lo, hi) -> ⊕ calls`: the nodes above leaves lo … hi, level by level."""
    combine = m.combine
    load, store = accessors(m.fields)

    def repair(tree: Any, leaves: Any, lo: Any, hi: Any) -> Any:
        left, right, calls = (leaves + lo) >> 1, (leaves + hi) >> 1, 0
        while left > 0:
            for node in range(left, right + 1):
                store(tree, node, combine(load(tree, 2 * node), load(tree, 2 * node + 1)))
            calls += right - left + 1
            left >>= 1
            right >>= 1
        return calls

    return repair


def covering(m: Monoid) -> Callable[..., Any]:
    """`cover(tree, leaves, lo, hi) -> (partial, ⊕ calls)`: leaves lo … hi - 1 in their order."""
    combine, identity = m.combine, m.identity
    load, _ = accessors(m.fields)

    def cover(tree: Any, leaves: Any, lo: Any, hi: Any) -> Any:
        left, right, nodes = leaves + lo, leaves + hi, 0
        older, younger = identity(), identity()
        while left < right:
            if left & 1:
                older = combine(older, load(tree, left))
                left += 1
                nodes += 1
            if right & 1:
                right -= 1
                younger = combine(load(tree, right), younger)
                nodes += 1
            left >>= 1
            right >>= 1
        return combine(older, younger), nodes - 1 if nodes > 0 else 0

    return cover
