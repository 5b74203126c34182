"""Going on from a snapshot with other queries: as if they had been added and removed at that moment."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from tests.operator.rows import SCHEMA, event, table
from windlass import Query, agg
from windlass.errors import CorruptSnapshot
from windlass.operator.slicer import Slicer

FIXED = [
    Query("five", windlass.Tumbling(5), agg.sum("x"), agg.avg("y")),
    Query("slide", windlass.Sliding(7, 3), agg.max("f"), agg.count()),
    Query("flagged", windlass.Sliding(6, 2), agg.sum("y"), where="flag"),
    Query("dear", windlass.Tumbling(4, offset=1), agg.sum("x"), where=pc.field("x") > 0),
    Query("late", windlass.Landmark(2, 4), agg.min("y")),
]
OTHERS = [
    Query("visits", windlass.Session(3), agg.sum("x")),
    Query("three", windlass.Tumbling(3, measure="count"), agg.last("y")),
    Query("frame", windlass.ThresholdFrame("flag"), agg.count()),
    Query("middle", windlass.Sliding(6, 3), agg.median("f")),
]


def rows(results: windlass.Results) -> Counter[str]:
    shown = []
    for row in results:
        values = {n: round(v, 9) if isinstance(v, float) else v for n, v in row.items() if v is not None}
        shown.append(repr(sorted(values.items())))
    return Counter(shown)


events = st.lists(
    st.builds(
        lambda ts, k, x, flag: event(ts, k=k, x=x, flag=flag),
        st.integers(-10, 40),
        st.sampled_from(["a", "b", None]),
        st.integers(-5, 5),
        st.booleans(),
    ),
    max_size=20,
)
steps = st.lists(st.tuples(events, st.integers(-10, 45)), min_size=1, max_size=4)


def some(of: list[Query]) -> st.SearchStrategy[list[Query]]:
    return st.lists(st.sampled_from(of), min_size=1, max_size=3, unique=True)


def changed(op: windlass.Operator, queries: list[Query]) -> None:
    """By hand what `restore` should do."""
    there = [query.name for query in op.queries]
    for query in queries:
        if query.name not in there:
            op.add(query)
    for name in there:
        if name not in [query.name for query in queries]:
            op.remove(name)


@settings(max_examples=60, deadline=None)
@given(some(FIXED + OTHERS), some(FIXED + OTHERS), st.sampled_from(FIXED + OTHERS), steps, steps, st.integers(0, 8))
def test_as_if_changed_by_hand(
    before: list[Query], after: list[Query], kept: Query, first: list[Any], then: list[Any], lateness: int
) -> None:
    before, after = list(dict.fromkeys([*before, kept])), list(dict.fromkeys([kept, *after]))
    options: dict[str, Any] = {"time": "ts", "key": "k", "allowed_lateness": lateness}
    by_hand = windlass.Operator(before, **options)
    for batch, watermark in first:
        by_hand.process(table(batch))
        by_hand.advance(watermark)
    restored = windlass.Operator(after, **options).restore(by_hand.snapshot())
    changed(by_hand, after)
    assert {query.name for query in restored.queries} == {query.name for query in after}
    for batch, watermark in then:
        for op in (by_hand, restored):
            op.process(table(batch))
        assert rows(restored.advance(watermark)) == rows(by_hand.advance(watermark))
        assert restored.late().num_rows == by_hand.late().num_rows
        restored = windlass.Operator(after, **options).restore(restored.snapshot())
    assert rows(restored.finish()) == rows(by_hand.finish())


@settings(max_examples=40, deadline=None)
@given(some(FIXED), some(FIXED), st.sampled_from(FIXED), steps, steps, st.integers(0, 8))
def test_slices_of_the_queries_that_are_left(
    before: list[Query], after: list[Query], kept: Query, first: list[Any], then: list[Any], lateness: int
) -> None:
    before, after = list(dict.fromkeys([*before, kept])), list(dict.fromkeys([*after, kept]))
    options: dict[str, Any] = {"time": "ts", "key": "k", "allowed_lateness": lateness}
    told, sliced = windlass.Operator(before, **options), windlass.Operator(before, **options)
    for op in (told, sliced):
        op.bind(SCHEMA)
    for part, queries in ((first, before), (then, after)):
        for op in (told, sliced):
            changed(op, queries)
            op.bind(SCHEMA)
        for batch, watermark in part:
            told.process(table(batch))
            slicer = Slicer(queries, SCHEMA, time="ts", key="k")
            slicer.process(table(batch))
            sliced.process_slices(slicer.take())
            assert rows(sliced.advance(watermark)) == rows(told.advance(watermark))
    assert rows(sliced.finish()) == rows(told.finish())


@pytest.mark.parametrize("gone", FIXED + OTHERS, ids=lambda query: query.name)
def test_columns_that_nobody_reads_any_more_need_not_come(gone: Query) -> None:
    query = Query("n", windlass.Tumbling(4), agg.count())
    op = windlass.Operator([query, gone], time="ts", key="k", allowed_lateness=5)
    op.process(table([event(1), event(3, flag=True), event(6)]))
    op.advance(4)
    op = windlass.Operator(query, time="ts", key="k", allowed_lateness=5).restore(op.snapshot())
    op.process(table([event(2), event(9)]).select(["ts", "k"]))
    found = {row["window"]["start"]: row["n"]["count()"] for row in op.finish().to_arrow().to_pylist()}
    assert found == {0: 3, 4: 1, 8: 1}


def test_queries_with_functions_are_given_once_more() -> None:
    kept = Query("n", windlass.Tumbling(4), agg.count())
    mine = Query("mine", windlass.Punctuation(lambda t: pc.equal(t["x"], 1)), agg.count())
    op = windlass.Operator([kept, mine], time="ts")
    op.process(table([event(1), event(6)]))
    with pytest.raises(CorruptSnapshot, match=r"windows of the query 'mine'.*functions.*give the query once more"):
        windlass.Operator(kept, time="ts").restore(op.snapshot())
    other = windlass.Operator(kept, time="ts").restore(op.snapshot(), removed=[mine])
    op.remove("mine")
    assert rows(other.finish()) == rows(op.finish())


def starts(state: Any, ts: Any) -> Any:
    return state, 1, 1


def half(x: Any) -> Any:
    return x / 2


HALF = agg.define("half", lift=half, combine=lambda a, b: a + b, lower=half)
KEPT = Query("n", windlass.Tumbling(3, measure="count"), agg.collect_list("x"))
OF_CODE = [
    Query("mine", windlass.Deterministic(starts), agg.count()),
    Query("mine", windlass.NonDeterministic(lambda state, ts, x: (state, 0, True), columns="x"), agg.count()),
    Query("mine", windlass.Punctuation(lambda t: pc.equal(t["x"], 1)), agg.max("y")),
    Query("mine", windlass.ThresholdFrame(lambda t: pc.equal(t["x"], 1)), agg.max("y"), where=lambda t: t["flag"]),
    Query("mine", windlass.Session(3), agg.last("y"), where=lambda t: pc.greater(t["x"], 1)),
    Query("mine", windlass.Tumbling(5), HALF("y").alias("h"), agg.sum("x")),
]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize("mine", OF_CODE, ids=lambda query: repr(query)[:24])
def test_a_query_removed_before_the_snapshot_is_not_asked_for(mine: Query, order: Any, key: str | None) -> None:
    """Nor does a snapshot of the restored operator ask for it. A query with the same functions goes on using them."""
    options: dict[str, Any] = {"time": "ts", "key": key, "order": order}
    beside = Query("beside", mine.window, *mine.aggregates, where=mine.where)
    op = windlass.Operator([mine, KEPT, beside], **options)
    op.process(table([event(1), event(2, flag=True), event(6), event(8, flag=True)]))
    op.advance(6)
    op.remove("mine")
    restored = windlass.Operator([KEPT, beside], **options).restore(op.snapshot())
    for one in (op, restored):
        one.process(table([event(9, flag=True), event(12), event(20)]))
        one.remove("beside")
    again = windlass.Operator(KEPT, **options).restore(restored.snapshot())
    again = windlass.Operator(KEPT, **options).restore(again.snapshot())
    assert rows(again.advance(12)) == rows(op.advance(12)) == rows(restored.advance(12))
    copied = pickle.loads(pickle.dumps(again))
    assert rows(again.finish()) == rows(op.finish()) == rows(copied.finish())


def test_an_expression_is_the_same_in_all_queries_that_are_gone() -> None:
    where = pc.field("x") > 2
    mine = Query("mine", windlass.Deterministic(starts), agg.count(), where=where)
    pairs = Query("pairs", windlass.Tumbling(2, measure="count"), agg.count(), where=where)
    op = windlass.Operator([KEPT, mine, pairs], time="ts")
    op.process(table([event(1), event(6), event(7)]))
    other = windlass.Operator(KEPT, time="ts").restore(op.snapshot(), removed=[mine])
    other.process(table([event(8)]))
    assert len(other.finish(partial=True)) == 2


def test_another_query_needs_another_name() -> None:
    op = windlass.Operator(Query("n", windlass.Tumbling(4), agg.count()), time="ts")
    op.process(table([event(1)]))
    with pytest.raises(CorruptSnapshot, match=r"'n' was another one.*tumbling.*another name"):
        windlass.Operator(Query("n", windlass.Tumbling(5), agg.count()), time="ts").restore(op.snapshot())
    with pytest.raises(CorruptSnapshot, match="other queries: 'n'"):
        windlass.Operator(Query("m", windlass.Tumbling(4), agg.count()), time="ts").restore(op.snapshot())
