"""Queries that are removed: whatever they asked for, the others go on as if they had been alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import windlass
from windlass import agg


def begins_and_ends(state: Any, ts: Any) -> Any:
    return state, 1, 1


def keeps_all(state: Any, ts: Any) -> Any:
    return state, 0, True


WINDOWS = [
    windlass.Tumbling(7),
    windlass.Landmark(0, 5),
    windlass.Tumbling(3, measure="count"),
    windlass.Sliding(6, 2, measure="km"),
    windlass.Session(2),
    windlass.Punctuation("p"),
    windlass.ThresholdFrame("p", 2),
    windlass.SlideByTuple(4, 2),
    windlass.LastN(3, 4),
    windlass.Snapshot(3),
    windlass.Deterministic(begins_and_ends),
    windlass.NonDeterministic(keeps_all),
]


def batch(*ts: int) -> pa.Table:
    return pa.table({"ts": ts, "x": [3 * t % 7 for t in ts], "p": [t % 3 == 0 for t in ts], "km": [t // 2 for t in ts]})


@pytest.mark.parametrize("key", [None, "x"])
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize("kept", [windlass.Tumbling(5), windlass.Session(3), windlass.Tumbling(2, measure="count")])
@pytest.mark.parametrize("removed", WINDOWS, ids=lambda window: type(window).__name__)
def test_a_removed_query_leaves_no_trace(removed: Any, kept: Any, order: Any, key: Any) -> None:
    stays = windlass.Query("stays", kept, agg.sum("x"), agg.last("x"))
    goes = windlass.Query("goes", removed, agg.count(), agg.max("x"))
    both = windlass.Operator([stays, goes], time="ts", key=key, order=order)
    alone = windlass.Operator([stays], time="ts", key=key, order=order)
    for w, ts in ((4, (1, 2, 3, 4)), (11, (6, 6, 9, 11)), (20, (12, 17, 18, 20))):
        for operator in (both, alone):
            operator.process(batch(*ts))
        assert both.advance(w)["stays"].to_pylist() == alone.advance(w)["stays"].to_pylist()
        if w == 4:
            both.remove("goes")
    assert both.finish()["stays"].to_pylist() == alone.finish()["stays"].to_pylist()
    assert [query.name for query in both.queries] == ["stays"]


def test_queries_that_are_added_at_one_moment_share_slices() -> None:
    operator = windlass.Operator([windlass.Query("first", windlass.Tumbling(7), agg.sum("x"))], time="ts")
    operator.add(windlass.Query("before the first event", windlass.Tumbling(5), agg.sum("x")))
    assert operator.explain().count("  slicing ") == 1
    operator.process(batch(1, 2, 3, 4))
    for i in range(5):
        operator.add(windlass.Query(f"q{i}", windlass.Sliding(4, 1 + i % 2), agg.sum("x")))
    operator.add(windlass.Query("pairs", windlass.Tumbling(2, measure="count"), agg.sum("x")))
    assert operator.explain().count("added at 4: ") == operator.explain().count("  slicing ") - 1 == 2
    operator.process(batch(5, 6, 9, 12))
    results = operator.finish()
    assert [row["sum(x)"] for row in results["first"].to_pylist()] == [21, 7]
    sums = {t: 3 * t % 7 for t in (5, 6, 9, 12)}
    for i in range(5):
        for row in results[f"q{i}"].to_pylist():
            start, end = row["window"]["start"], row["window"]["end"]
            assert start > 4
            assert row["sum(x)"] == sum(x for t, x in sums.items() if start <= t < end)
    assert [row["sum(x)"] for row in results["pairs"].to_pylist()] == [sums[5] + sums[6], sums[9] + sums[12]]
