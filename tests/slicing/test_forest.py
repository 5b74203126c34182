"""Trees over the slices of keys: what the invariants of B-trees say, whatever slices come, change, merge and go.

The slices are those of an operator, and each watermark's answers are checked against sums over its events. What the
trees look like is checked from their roots down, with what the rows of slices say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass import Landmark, Operator, Query, Session, Sliding, Tumbling, agg
from windlass.aggregates.counting import counted
from windlass.operator.sliced import Sliced
from windlass.slicing import forest, tending
from windlass.slicing.slices import BASE, FIRST, HI, LAST, LO, SLOT
from windlass.stores.fiba import nodes as words

QUERIES = {
    "grids": [Query("q", Sliding(60, 2), agg.sum("x")), Query("r", Tumbling(7), agg.sum("x"))],
    "sessions": [Query("q", Sliding(60, 2), agg.sum("x")), Query("r", Session(3), agg.sum("x"))],
    "landmarks": [Query("q", Landmark(0, 5), agg.sum("x")), Query("r", Session(4), agg.sum("x"))],
}
steps = st.lists(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(1, 9)), max_size=12), min_size=4, max_size=14
)


@pytest.fixture(autouse=True)
def trees_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "FEW", 1)


def sliced(operator: Operator) -> Sliced:
    return operator._branches[0].engine.sliced  # type: ignore[union-attr]


def check(state: Sliced) -> int:
    """Assert what must hold of all trees, once they are settled; returns how many there are."""
    trees, s = state.forest, state.slices
    trees.prepare(np.empty((0, 8), np.int64), 0, s)
    stride, used = words.stride_of(tending.MIN_ARITY), []
    node = int(trees.heads[0, words.FREE_NODE])
    while node != words.NONE:
        used.append(node)
        node = int(trees.nodes[node + words.NEXT])
    planted = np.flatnonzero(trees.tree_of)
    for k in planted:
        head = trees.heads[trees.tree_of[k]]
        run = s.rows[s.directory[k, BASE] + s.directory[k, LO] : s.directory[k, BASE] + s.directory[k, HI]]
        run = run[run[:, FIRST] <= head[tending.COVERED]]
        entries = list(_entries(trees, head, int(head[words.ROOT]), int(head[words.HEIGHT]), used))
        assert len(entries) == head[words.SIZE] == len(run)
        assert [slot for _, slot in entries] == run[:, SLOT].tolist()
        assert all(first <= t <= last for (t, _), (first, last) in zip(entries, run[:, [FIRST, LAST]], strict=True))
    assert sorted(used) == [row * stride for row in range(int(trees.heads[0, words.FRESH_NODE]))], "a node was lost"
    return len(planted)


def _entries(trees: Any, head: Any, node: int, level: int, used: list[int]) -> Any:
    used.append(node)
    n = int(trees.nodes[node + words.ENTRIES])
    assert int(trees.nodes[node + words.MARK]) == words.CLEAN
    least = 1 if node == head[words.ROOT] else tending.MIN_ARITY - 1
    assert least <= n < 2 * tending.MIN_ARITY
    slots, children = node + words.slots_of(head), node + words.children_of(head)
    for i in range(n + 1):
        if level > 0:
            child = int(trees.nodes[children + i])
            assert int(trees.nodes[child + words.PARENT]) == node
            yield from _entries(trees, head, child, level - 1, used)
        if i < n:
            yield int(trees.nodes[node + words.TIMES + i]), int(trees.nodes[slots + i])


@pytest.mark.parametrize("which", QUERIES)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps, st.sampled_from([0, 20, 1000]))
def test_one_entry_for_each_slice_up_to_the_watermark(which: str, steps: Any, lateness: int) -> None:
    operators = [
        Operator(QUERIES[which], time="ts", key="k", store=store, allowed_lateness=lateness)
        for store in ("fiba", "lazy")
    ]
    for i, step in enumerate(steps):
        rows = [[], []]  # type: list[list[Any]]
        for operator, out in zip(operators, rows, strict=True):
            if step:
                ts, k, x = zip(*step, strict=True)
                operator.process({"ts": [20 * i + t - 40 for t in ts], "k": list(k), "x": list(x)})
            out += [table.to_pylist() for table in operator.advance(20 * i).tables()]
        assert rows[0] == rows[1]
        if operators[0]._branches[0].engine is not None:
            check(sliced(operators[0]))


def filled(slices: int, lateness: int, aggregate: Any, store: Any) -> Operator:
    queries = [Query("each", Tumbling(1), aggregate), Query("all", Tumbling(slices), aggregate)]
    operator = Operator(queries, time="ts", store=store, allowed_lateness=lateness)
    operator.process({"ts": np.arange(slices), "x": np.arange(slices) % 7})
    operator.advance(slices)
    return operator


@pytest.mark.parametrize("depth", [1, 10, 100, 1000, 4000])
def test_a_late_slice_costs_the_logarithm_of_its_depth_and_a_window_that_of_its_slices(depth: int) -> None:
    slices, most = 4096, 4 * tending.MIN_ARITY
    aggregate, calls = counted(agg.max("x"))
    operator = filled(slices, slices, aggregate, "fiba")
    calls.reset()
    operator.process({"ts": [slices - depth], "x": [9]})
    assert len(operator.advance(slices)) == 2
    levels = np.ceil(np.log(min(depth, slices - depth) + 1) / np.log(tending.MIN_ARITY)) + 1
    whole = 2 * (np.ceil(np.log(slices) / np.log(tending.MIN_ARITY)) + 1)
    assert calls.combine <= 1 + most * levels + most * whole
    eager_aggregate, eager = counted(agg.max("x"))
    blocks = filled(slices, slices, eager_aggregate, "eager")
    eager.reset()
    blocks.process({"ts": [slices - depth], "x": [9]})
    blocks.advance(slices)
    assert eager.combine >= depth
    if depth >= 1000:
        assert calls.combine < eager.combine / 5


def test_events_that_are_not_late_change_no_tree_and_no_block() -> None:
    """However much out of order: slices that no window has taken are in neither."""
    for store in ("fiba", "eager"):
        aggregate, calls = counted(agg.max("x"))
        query = Query("q", Sliding(1000, 1), aggregate)
        operator = Operator(query, time="ts", store=store)  # type: ignore[arg-type]
        operator.process({"ts": np.arange(3000), "x": np.arange(3000) % 7})
        operator.advance(2000)
        calls.reset()
        operator.process({"ts": [2100], "x": [9]})
        operator.advance(2000)
        assert calls.combine == 1  # into its slice
        assert len(operator.advance(2001)) == 1
        assert calls.combine < 200


def test_trees_end_with_their_slices() -> None:
    operator = Operator(QUERIES["grids"], time="ts", key="k", store="fiba")
    for i in range(60):
        ts = np.arange(100 * i, 100 * i + 100)
        operator.process({"ts": ts, "k": ts % 3 + 10 * (i // 20), "x": ts})
        operator.advance(100 * i + 80)
        assert check(sliced(operator)) <= 6
    assert sliced(operator).forest.heads[0, tending.TREES] <= 8
    assert sliced(operator).forest.rows < 1000
