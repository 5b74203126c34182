"""Trees of queries: results do not depend on the plan, whichever it is, and plans are what the cost model says."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.operator.rows import SCHEMA, Asked, Twins, event, table
from tests.operator.streams import Step, queries, streams
from tests.operator.test_properties import keys, lateness, run, thoroughly
from tests.operator.test_slicer import rows, steps
from windlass import Operator, Query, Session, Sliding, Tumbling, agg
from windlass.aggregates.counting import counted
from windlass.aggregates.partials import partial
from windlass.errors import InvalidArgument, WrongType
from windlass.operator import costs, trees
from windlass.operator.costs import STORES, Observed
from windlass.operator.slicer import Slicer
from windlass.operator.trees import Asked as Options
from windlass.operator.trees import Group, Tree, planned
from windlass.sharing import ACQ
from windlass.sharing import plan as shared

TECHNIQUES = st.sampled_from([*STORES, "auto"])


@st.composite
def plans(draw: Any, names: list[str]) -> list[tuple[list[str], str]]:
    """Any partition of the queries, each part on any technique."""
    at = [draw(st.integers(0, len(names) - 1)) for _ in names]
    groups = [[name for name, place in zip(names, at, strict=True) if place == k] for k in range(len(names))]
    return [(group, draw(TECHNIQUES)) for group in groups if group]


# ------------------------------------------------------------------ the oracle's rows, whatever the plan


@thoroughly(60)
@given(st.data(), queries(), keys, lateness, streams(interruptions=True), st.booleans())
def test_any_plan(
    data: Any, asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    plan = data.draw(plans([q.name for q in asked]))
    run(Twins(asked, key=key, allowed_lateness=lateness, plan=plan), steps, partial)


@thoroughly(40)
@given(st.data(), queries(), keys, streams(in_order=True, interruptions=True))
def test_any_plan_in_order(data: Any, asked: list[Asked], key: tuple[str, ...], steps: list[Step]) -> None:
    plan = data.draw(plans([q.name for q in asked]))
    run(Twins(asked, key=key, in_order=True, plan=plan), steps, partial=False)


@pytest.mark.parametrize("technique", STORES)
@thoroughly(15)
@given(queries(), keys, lateness, streams())
def test_any_technique(
    technique: str, asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step]
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness, technique=technique), steps, partial=False)


@thoroughly(20)
@given(st.data(), queries(("time", "session")), queries(("time",), most=2), keys, lateness, streams(), st.booleans())
def test_queries_come_and_go(
    data: Any,
    asked: list[Asked],
    more: list[Asked],
    key: tuple[str, ...],
    lateness: int,
    steps: list[Step],
    removed: bool,
) -> None:
    twins = Twins(asked, key=key, allowed_lateness=lateness, plan=data.draw(plans([q.name for q in asked])))
    for i, step in enumerate(steps):
        twins.process(*step.batches[:1])
        if i < len(more):
            twins.add(replace(more[i], name=f"more {i}"))
        if i == 2 and removed and len(twins.asked) > 1:
            twins.remove(twins.asked[0].name)
        twins.process(*step.batches[1:])
        twins.advance(step.watermark)
    assert sorted(n for tree in twins.operator.plan for n in tree.queries) == sorted(q.name for q in twins.asked)
    twins.finish()


@pytest.fixture
def split_eagerly(monkeypatch: Any) -> Any:
    """Costs by which small streams are worth many trees: a batch costs nothing, what is held a lot."""
    known = costs.constants
    cheap = {engine: replace(known(engine), batch=0.0, event=0.01, far=1e6) for engine in ("in order", "general")}
    monkeypatch.setattr(costs, "constants", cheap.__getitem__)
    trees._planned.cache_clear()
    yield
    trees._planned.cache_clear()


@pytest.mark.usefixtures("split_eagerly")
@thoroughly(40)
@given(queries(("time", "session", "count")), keys, lateness, streams(interruptions=True), st.booleans())
def test_plans_of_its_own(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness), steps, partial)


@pytest.mark.usefixtures("split_eagerly")
def test_that_they_are_several() -> None:
    asked = [Query(str(i), Tumbling(7 * 4**i), agg.sum("x") if i % 2 else agg.median("x")) for i in range(4)]
    assert len(fed(Operator(asked, time="ts"), 50).plan) > 1


def test_a_pinned_plan_travels() -> None:
    asked = [Query("a", Tumbling(5), agg.sum("x")), Query("b", Tumbling(7), agg.sum("x"))]
    op = fed(Operator(asked, time="ts", plan=[(["a"], "panes"), (["b"], "blocks")]), 30)
    op.add(Query("c", Tumbling(3), agg.count()))
    op.remove("a")
    other = pickle.loads(pickle.dumps(op))
    assert other.plan == op.plan and [tree.queries for tree in op.plan] == [("b",), ("c",)]
    again = Operator(op.queries, time="ts", plan=[(["b"], "panes"), (["c"], "panes")]).restore(op.snapshot())
    assert again.plan == op.plan, "trees go on as they are"
    twice = pickle.loads(pickle.dumps(again))
    assert rows(twice.finish()) == rows(other.finish()) == rows(op.finish())


@pytest.mark.parametrize("technique", STORES)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_compiled_techniques_agree_on_many_slices(technique: str, order: Any) -> None:
    """Windows of hundreds of slices, a batch at a time, against sums and maxima of the events themselves."""
    rng = np.random.default_rng(1)
    n = 6000
    ts, x = np.sort(rng.integers(0, 4 * n, n)), rng.integers(-9, 9, n)
    asked = [
        Query("a", Sliding(3000, 7), agg.sum("x").alias("v")),
        Query("b", Sliding(5000, 11), agg.max("x").alias("v")),
    ]
    op = Operator(asked, time="ts", order=order, plan=[(["a", "b"], technique)])
    parts = []
    for i in range(0, n, 700):
        op.process({"ts": ts[i : i + 700], "x": x[i : i + 700]})
        parts.append(op.advance(None if order == "in-order" else int(ts[min(i + 699, n - 1)])))
    parts.append(op.finish())
    for name, of in (("a", np.sum), ("b", np.max)):
        found = [row for part in parts for row in part[name].to_pylist()]
        assert len(found) > 2000
        for row in found[::29]:
            window = row["window"]
            assert row["v"] == of(x[(ts >= window["start"]) & (ts < window["end"])])


# ------------------------------------------------------------------ slices that come from elsewhere


@thoroughly(40)
@given(steps, st.integers(0, 12), st.data())
def test_slices_from_elsewhere(given_steps: Any, lateness: int, data: Any) -> None:
    """A sum of one tree is read from the mean that another one, and so the slicer, keeps."""
    asked = [
        Query("a", Tumbling(5), agg.sum("x")),
        Query("b", Sliding(7, 3), agg.avg("x"), agg.max("f")),
        Query("c", Tumbling(4), agg.count("x"), agg.min("f"), where="flag"),
        Query("d", Tumbling(10), agg.avg("x"), agg.spread("f"), where="flag"),
    ]
    plan = data.draw(plans(["a", "b", "c", "d"]))
    options: dict[str, Any] = {"time": "ts", "key": "k", "allowed_lateness": lateness}
    one, other = Operator(asked, **options), Operator(asked, plan=plan, **options)
    other.bind(SCHEMA)
    slicer = Slicer(asked, SCHEMA, time="ts", key="k")
    for events, watermark, _ in given_steps:
        one.process(table(events))
        slicer.process(table(events))
        other.process_slices(slicer.take())
        assert rows(one.advance(watermark)) == rows(other.advance(watermark))
    assert rows(one.finish()) == rows(other.finish())
    assert len(other.plan) == len(plan)


def test_trees_are_planned_from_slices_too() -> None:
    asked = fine_and_coarse()
    one, other = (Operator(asked, time="ts") for _ in range(2))
    batch = pa.table({"ts": np.arange(20_000), "x": np.arange(20_000) % 91})
    other.bind(batch.schema)
    slicer = Slicer(asked, batch.schema, time="ts")
    slicer.process(batch)
    one.process(batch)
    other.process_slices(slicer.take())
    assert len(other.plan) > 1
    assert rows(one.advance(20_000)) == rows(other.advance(20_000))
    again = Operator(asked, time="ts")
    again.bind(batch.schema)
    assert again.restore(other.snapshot()).plan == other.plan


# ------------------------------------------------------------------ what is planned


def fine_and_coarse() -> list[Query]:
    fine = [Query(f"fine {i}", Sliding(50 + i, 1), agg.sum("x")) for i in range(3)]
    coarse = [Query(f"coarse {i}", Sliding(10_000_000 * (i + 1), 100_000), agg.sum("x")) for i in range(3)]
    return [*fine, *coarse, Query("sketch", Tumbling(50_000), agg.approx_count_distinct("x"))]


def fed(op: Operator, n: int = 20_000) -> Operator:
    op.process({"ts": np.arange(n), "x": np.arange(n) % 91})
    return op


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_what_does_not_go_together_is_apart(order: Any) -> None:
    op = fed(Operator(fine_and_coarse(), time="ts", order=order))
    by_query = {name: k for k, tree in enumerate(op.plan) for name in tree.queries}
    assert len({by_query[f"fine {i}"] for i in range(3)}) == 1, "the fine ones share their slices"
    assert by_query["fine 0"] != by_query["sketch"], "no sketch in each of their slices"
    assert by_query["fine 0"] != by_query["coarse 0"], "nor are so many of these kept for the long ones"


def test_what_goes_together_is_one_tree() -> None:
    asked = [Query(str(i), Tumbling(1000 * i), agg.sum("x"), agg.max("x")) for i in range(1, 9)]
    assert len(fed(Operator(asked, time="ts")).plan) == 1
    # Small batches, so that a tree is mostly the calls it takes.
    op = Operator(fine_and_coarse(), time="ts")
    op.process({"ts": np.arange(5), "x": np.arange(5)})
    assert len(op.plan) == 1


def test_a_plan_depends_on_what_was_seen_alone() -> None:
    ops = [fed(Operator(fine_and_coarse(), time="ts")) for _ in range(2)]
    assert ops[0].plan == ops[1].plan
    before = ops[0].plan
    fed_more = ops[0]
    fed_more.advance(10)
    fed_more.process({"ts": [20_001], "x": [5]})
    assert fed_more.plan == before, "it is kept"


def test_a_snapshot_keeps_the_plan() -> None:
    op = fed(Operator(fine_and_coarse(), time="ts"))
    other = Operator(fine_and_coarse(), time="ts").restore(op.snapshot())
    assert other.plan == op.plan and other.explain() == op.explain()
    assert rows(other.finish()) == rows(op.finish())


def test_greedy_trees_are_no_worse_than_one_or_all_apart() -> None:
    rng = np.random.default_rng(3)
    options = Options(False, False, "auto", "auto", "auto", None)
    for k in range(20):
        asked = [
            Query(
                str(i), Sliding(int(s) * int(rng.integers(1, 200)), int(s)), agg.sum("x") if i % 2 else agg.median("x")
            )
            for i, s in enumerate(rng.choice([1, 2, 5, 7, 10, 100, 1000], 8))
        ]
        found = planned(asked, options, Observed(2.0 ** int(rng.integers(-6, 6)), 1, 1 << 16), {}, others=True)
        assert sorted(n for tree in found.trees for n in tree.queries) == sorted(q.name for q in asked)
        assert found.cost <= found.costs["maximum sharing"] * (1 + 1e-12), k
        assert found.cost <= found.costs["no sharing"] * (1 + 1e-12), k
        assert all(found.cost <= cost * 1.1 for cost in found.costs.values()), (k, found.costs)


def test_thousands_of_queries_are_planned_in_a_moment() -> None:
    rng = np.random.default_rng(5)
    asked = [
        Query(str(i), Sliding(int(s) * 7 + int(rng.integers(s)), int(s)), agg.sum("x"))
        for i, s in enumerate(rng.integers(60, 3600, 1500))
    ]
    found = planned(asked, Options(False, False, "auto", "auto", "auto", None), Observed(1.0, 1, 1 << 16), {})
    assert sum(len(tree.queries) for tree in found.trees) == 1500


@pytest.mark.parametrize("technique", STORES)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_operations_are_as_estimated(technique: str, order: Any) -> None:
    """⊕ that are counted, of folding apart, against the cost model's: within a quarter, on average."""
    rng = np.random.default_rng(7)
    off = []
    for _ in range(8):
        aggregate, calls = counted(agg.max("x"))
        slides = rng.choice([1, 2, 5, 10, 20], int(rng.integers(1, 5)))
        asked = [Query(str(i), Sliding(int(s * rng.integers(2, 60)), int(s)), aggregate) for i, s in enumerate(slides)]
        options = Options(order == "in-order", False, "auto", "auto", technique, None)
        n, batch = 6000, 1000
        estimated = Group(asked, options, Observed(1.0, 1, batch), {}).counts()
        op = Operator(asked, time="ts", order=order, plan=[([q.name for q in asked], technique)])
        for i in range(0, n, batch):
            if i == n // 2:
                before = calls.combine
            op.process({"ts": np.arange(i, i + batch), "x": np.arange(i, i + batch) % 7})
            op.advance(None if order == "in-order" else i + batch)
        folding = 1 - estimated.slices
        counted_ones = (calls.combine - before) / (n / 2) - folding
        off.append(abs(estimated.operations[technique] / counted_ones - 1))
    assert np.mean(off) < 0.25, off


# ------------------------------------------------------------------ what a user may ask for


def test_a_pinned_plan_is_run() -> None:
    names = [q.name for q in fine_and_coarse()]
    plan = [(names[:3], "blocks"), (names[3:], "flatfat")]
    op = Operator(fine_and_coarse(), time="ts", plan=plan)
    assert op.plan == [Tree(tuple(group), technique) for group, technique in plan]
    assert fed(op).plan == [Tree(tuple(group), technique) for group, technique in plan]
    assert "as was asked" in op.explain() and "by FlatFAT" in op.explain()
    again = Operator(fine_and_coarse(), time="ts", plan=op.plan)  # a plan is data
    assert rows(fed(again).finish()) == rows(op.finish())
    table_ = pa.table({"ts": np.arange(300), "x": np.arange(300)})
    short = [Query("a", Tumbling(10), agg.sum("x")), Query("b", Tumbling(7), agg.sum("x"))]
    apart = windlass.aggregate(table_, short, time="ts", plan=[(["a"], "panes"), (["b"], "panes")])
    assert rows(apart) == rows(windlass.aggregate(table_, short, time="ts"))


def test_a_plan_of_acqs_is_taken() -> None:
    acqs = [ACQ(10, 2, name="a"), ACQ(14, 7, name="b")]
    plan = shared(acqs, rate=1.0, technique="panes", optimizer="no sharing")
    asked = [Query("a", Sliding(10, 2), agg.sum("x")), Query("b", Sliding(14, 7), agg.sum("x"))]
    assert sorted(Operator(asked, time="ts", plan=plan).plan) == [Tree(("a",), "panes"), Tree(("b",), "panes")]
    with pytest.raises(InvalidArgument, match="'slickdeque_inv'"):
        Operator(asked, time="ts", plan=shared(acqs, technique="slickdeque_inv"))


def test_a_plan_with_sessions_and_counts() -> None:
    asked = [
        Query("a", Tumbling(5), agg.sum("x")),
        Query("b", Session(3), agg.median("x")),
        Query("c", Tumbling(4, measure="count"), agg.last("x")),
    ]
    op = Operator(asked, time="ts", plan=[(["a", "b", "c"], "blocks")])
    assert len(op.plan) == 2, "those that need tuples are apart, whatever the plan says"


@pytest.mark.parametrize(
    ("plan", "error", "text"),
    [
        ([(["a"], "panes")], InvalidArgument, r"lacks \['b'\]"),
        ([(["a", "b"], "panes"), (["a"], "panes")], InvalidArgument, "'a' twice"),
        ([(["a", "b", "c"], "panes")], InvalidArgument, "'c', which is no query"),
        ([(["a", "b"], "daba")], InvalidArgument, "PlanRun"),
        ([(["a", "b"], "magic")], InvalidArgument, "'blocks'"),
        ([([], "panes"), (["a", "b"], "panes")], InvalidArgument, "no queries"),
        (["a", "b"], WrongType, r"\(query names, technique\)"),
        ([("a", "panes"), ("b", "panes")], WrongType, r"\(query names, technique\)"),
        (5, WrongType, "list"),
    ],
)
def test_bad_plans_are_refused(plan: Any, error: Any, text: str) -> None:
    asked = [Query("a", Tumbling(5), agg.sum("x")), Query("b", Tumbling(7), agg.sum("x"))]
    with pytest.raises(error, match=text):
        Operator(asked, time="ts", plan=plan)


def test_techniques_that_are_not_run_are_refused() -> None:
    query = Query("a", Tumbling(5), agg.sum("x"))
    with pytest.raises(InvalidArgument, match=r"'panes', 'flatfat', 'blocks' .*PlanRun"):
        Operator(query, time="ts", technique="flatfit")
    with pytest.raises(InvalidArgument, match="give one of them"):
        Operator(query, time="ts", technique="panes", store="eager")
    with pytest.raises(InvalidArgument, match="give one of them"):
        Operator(query, time="ts", technique="panes", plan=[(["a"], "panes")])


def test_a_technique_is_an_option_of_the_snapshot_and_a_plan_is_not() -> None:
    asked = [Query("a", Tumbling(5), agg.sum("x")), Query("b", Tumbling(7), agg.sum("x"))]
    op = fed(Operator(asked, time="ts", plan=[(["a"], "panes"), (["b"], "blocks")]))
    other = Operator(asked, time="ts").restore(op.snapshot())
    assert other.plan == op.plan, "trees go on as they are"
    assert rows(other.finish()) == rows(op.finish())
    with pytest.raises(windlass.errors.CorruptSnapshot, match="technique"):
        Operator(asked, time="ts", technique="panes").restore(op.snapshot())


def test_a_batch_that_is_refused_leaves_no_plan() -> None:
    op = Operator(fine_and_coarse(), time="ts")
    before = op.plan
    with pytest.raises(WrongType):
        op.process({"ts": np.arange(20_000), "x": ["a"] * 20_000})
    assert op.plan == before and op.explain() == Operator(fine_and_coarse(), time="ts").explain()
    assert len(fed(op).plan) > 1


def test_explain_says_what_is_shared_and_why() -> None:
    op = Operator(fine_and_coarse(), time="ts")
    assert "as it is assumed now (1,000 events a second, 1 key" in op.explain()
    text = fed(op).explain()
    for part in ("7 queries in", "planned as observed", "maximum sharing", "no sharing", "only Panes", "because"):
        assert part in text, text
    assert "1,000 events a unit of time" in op.explain(rate=1000)
    with pytest.raises(InvalidArgument, match="positive"):
        op.explain(rate=0)
    assert "sharing" not in Operator(Query("a", Tumbling(5), agg.sum("x")), time="ts").explain()


def test_events_of_one_time_are_no_rate() -> None:
    op = Operator([Query("a", Tumbling(5), agg.sum("x")), Query("b", Tumbling(7), agg.sum("x"))], time="ts")
    op.process(table([event(3), event(3)]))
    assert "2 queries in 1 tree" in op.explain()


def test_a_partial_that_is_held_by_one_that_is_held_itself() -> None:
    """The partial of a sum is a sum, and a sum is part of a mean: only the mean is kept."""
    asked = [
        Query("means", Tumbling(10), agg.sum("x"), agg.count(), agg.avg("x")),
        Query("parts", Tumbling(5), partial(agg.sum("x")).alias("sum"), partial(agg.count()).alias("n")),
    ]
    operator = Operator(asked, time="ts", key="k")
    operator.process({"ts": np.arange(100), "k": np.arange(100) % 2, "x": np.arange(100)})
    results = operator.finish()
    parts = {(r["k"], r["window"]["start"]): r for r in results["parts"].to_pylist()}
    assert len(parts) == 40
    for (k, start), row in parts.items():
        assert row["sum"]["sum"] == sum(x for x in range(start, start + 5) if x % 2 == k)
    assert sum(r["n"]["count"] for r in parts.values()) == sum(results["means"]["count()"].to_pylist()) == 100
