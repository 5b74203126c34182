"""Trees that are split while the stream runs: results do not show it, and it happens when it should."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator import test_trees
from tests.operator.rows import Asked, Twins
from tests.operator.streams import Step, queries, streams
from tests.operator.test_properties import keys, lateness, take, thoroughly
from tests.operator.test_slicer import rows
from tests.operator.test_trees import TECHNIQUES, plans
from windlass import Operator, Query, Sliding, Tumbling, agg
from windlass.operator import replanning
from windlass.operator.slicer import Slicer
from windlass.operator.trees import Tree

# ------------------------------------------------------------------ the oracle's rows, however trees are split


def split(twins: Twins, data: Any) -> None:
    """Any partition of each tree, each part on any technique."""
    op, made = twins.operator, []
    for branch in op._branches:
        if branch.engine is None or branch.plan.stores_tuples.yes:
            made.append(branch)
            continue
        parts = data.draw(plans([query.name for query in branch.queries]))
        trees = [Tree(tuple(names), technique) for names, technique in parts]
        made += op._planning.split(branch, trees, len(op._keys))
    op._replace(made)


def run_and_split(twins: Twins, steps: list[Step], at: set[int], data: Any) -> None:
    for i, step in enumerate(steps):
        take(twins, step)
        if i in at:
            split(twins, data)
    twins.finish()


@thoroughly(60)
@given(st.data(), queries(), keys, lateness, streams(interruptions=True), st.sets(st.integers(0, 4)))
def test_trees_are_split_anyhow(
    data: Any, asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], at: set[int]
) -> None:
    run_and_split(Twins(asked, key=key, allowed_lateness=lateness), steps, at, data)


@thoroughly(40)
@given(st.data(), queries(), keys, streams(in_order=True, interruptions=True), st.sets(st.integers(0, 4)))
def test_trees_are_split_anyhow_in_order(
    data: Any, asked: list[Asked], key: tuple[str, ...], steps: list[Step], at: set[int]
) -> None:
    run_and_split(Twins(asked, key=key, in_order=True), steps, at, data)


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@thoroughly(15)
@given(data=st.data())
def test_techniques_change_among_many_slices(order: Any, data: Any) -> None:
    asked = [Query("a", Sliding(300, 7), agg.sum("x")), Query("b", Sliding(500, 11), agg.max("x"))]
    one = Operator(asked, time="ts", order=order, plan=[(["a", "b"], "panes")])
    other = Operator(asked, time="ts", order=order, technique=data.draw(st.sampled_from(["panes", "blocks"])))
    for i in range(0, 2000, 200):
        batch = {"ts": np.arange(i, i + 200), "x": np.arange(i, i + 200) * 7919 % 1000}
        for op in (one, other):
            op.process(batch)
        upto = None if order == "in-order" else i + 200
        assert rows(one.advance(upto)) == rows(other.advance(upto))
        if data.draw(st.booleans()):
            (branch,) = other._branches
            other._planning.split(branch, [Tree(("a", "b"), data.draw(TECHNIQUES))], len(other._keys))
    assert rows(one.finish()) == rows(other.finish())


# ------------------------------------------------------------------ when


def fine_and_coarse() -> list[Query]:
    """Without the sketch: one in each slice of one tree is gigabytes."""
    return test_trees.fine_and_coarse()[:-1]


def trickle(op: Operator, n: int = 5) -> Operator:
    """A first batch so small that one tree is best."""
    op.process({"ts": np.arange(n), "x": np.arange(n)})
    assert len(op.plan) == 1
    return op


def told(op: Operator, results: Any) -> dict[str, tuple[Any, ...]]:
    """Of each query, how many rows there are and what they come to: there are too many to look at."""
    found = {}
    for query in op.queries:
        table = results[query.name]
        window = table["window"].combine_chunks()
        found[query.name] = len(table), *map(pc.sum, (*window.flatten(), table["revision"], table.columns[-1]))
    return found


def feed(op: Operator, batches: int, first: int = 5, n: int = 20_000) -> list[Any]:
    found = []
    for i in range(first, first + batches * n, n):
        op.process({"ts": np.arange(i, i + n), "x": np.arange(i, i + n) % 91})
        found.append(told(op, op.advance(i)))
    return found


def test_a_stream_that_is_more_than_its_first_batch() -> None:
    op, kept = trickle(Operator(fine_and_coarse(), time="ts")), Operator(fine_and_coarse(), time="ts")
    pinned = trickle(Operator(fine_and_coarse(), time="ts", plan=kept.plan))
    assert feed(op, 15) == feed(pinned, 15)
    assert len(op.plan) == 1, "what was seen once may pass"
    assert feed(op, 3, 300_005) == feed(pinned, 3, 300_005)
    by_query = {name: k for k, tree in enumerate(op.plan) for name in tree.queries}
    assert by_query["fine 0"] != by_query["coarse 0"]
    assert sorted(by_query) == sorted(query.name for query in fine_and_coarse())
    assert len(pinned.plan) == 1, "what was asked for stays"
    assert "planned as observed" in op.explain() and "batches of 16,384" in op.explain()
    assert op.counters["rows"] == pinned.counters["rows"]
    assert told(op, op.finish()) == told(pinned, pinned.finish())


def square(x: Any) -> Any:
    return x * x


def add(a: Any, b: Any) -> Any:
    return a + b


def test_a_split_tree_travels() -> None:
    """Also with functions of the user's own, which a part knows of queries that went to another one."""
    squares = agg.define("squares", lift=square, combine=add, commutative=True)
    asked = [*fine_and_coarse(), Query("own", Sliding(10_000_000, 100_000), squares("x"))]
    op = trickle(Operator(asked, time="ts"))
    feed(op, 18)
    assert len(op.plan) > 1
    other, again = pickle.loads(pickle.dumps(op)), Operator(asked, time="ts").restore(op.snapshot())
    assert other.plan == again.plan == op.plan
    for each in (other, again):
        each.remove("coarse 1")
    op.remove("coarse 1")
    assert feed(op, 2, 360_005) == feed(other, 2, 360_005) == feed(again, 2, 360_005)
    assert told(op, op.finish()) == told(other, other.finish()) == told(again, again.finish())


def test_slices_from_elsewhere_are_watched_too() -> None:
    asked = fine_and_coarse()
    op, schema = Operator(asked, time="ts"), pa.schema({"ts": pa.int64(), "x": pa.int64()})
    one = Operator(asked, time="ts", plan=op.plan)
    op.bind(schema)
    slicer = Slicer(asked, schema, time="ts")
    for i in range(19):
        n = 20_000 if i else 5
        batch = pa.table({"ts": np.arange(n) + i * 20_000, "x": np.arange(n) % 91})
        slicer.process(batch)
        one.process(batch)
        op.process_slices(slicer.take())
        assert told(op, op.advance(i * 20_000)) == told(one, one.advance(i * 20_000))
    assert len(op.plan) > 1
    assert told(op, op.finish()) == told(one, one.finish())


def test_what_is_worth_little_is_left() -> None:
    asked = [Query(str(i), Tumbling(1000 * i), agg.sum("x"), agg.max("x")) for i in range(1, 9)]
    op = trickle(Operator(asked, time="ts"))
    feed(op, 20)
    assert len(op.plan) == 1


def test_looks_are_few_and_need_time_to_pass() -> None:
    watched = replanning.Watched()
    watched.note(100, 0)
    for _ in range(3 * replanning._EVERY):
        watched.note(100, 0)
    assert watched.look(0, 1, None) is None, "no time has passed"
    assert watched.look(2400, 1, None) is None, "seen once"
    for _ in range(replanning._EVERY):
        watched.note(100, 0)
    seen = watched.look(3200, 1, None)
    assert seen is not None and (seen.rate, seen.keys, seen.batch) == (1.0, 1, 128)
    assert watched.look(4000, 1, None) is None, "nothing came since"
