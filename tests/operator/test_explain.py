"""explain says what was decided, and why."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import (
    LastN,
    Operator,
    Punctuation,
    Query,
    Session,
    SlideByTuple,
    Sliding,
    ThresholdFrame,
    Tumbling,
    agg,
)


def explained(*queries: Query, **options: Any) -> str:
    return Operator(list(queries), time="ts", **options).explain()


def line(text: str, what: str) -> str:
    (found,) = [row.strip() for row in text.splitlines() if row.strip().startswith(what + " ")]
    return found.removeprefix(what).strip()


GRID = Query("grid", Tumbling(10), agg.sum("x"))
COUNT = Query("count", Tumbling(10, measure="count"), agg.sum("x"))
FIRST = Query("firsts", Tumbling(10), agg.first("x"))
MARKS = Query("marks", Punctuation("flag"), agg.sum("x"))
LAST = Query("latest", LastN(3, 10), agg.sum("x"))
FRAME = Query("frames", ThresholdFrame("flag", 2), agg.sum("x"))
FRAMES_AGAIN = Query("again", ThresholdFrame("flag", 2), agg.max("x"))
BY_TUPLE = Query("by tuple", SlideByTuple(5, 2), agg.sum("x"))
BY_TUPLE_AGAIN = Query("opened", SlideByTuple(5, 2), agg.max("x"))
NAMES = ("grid", "count", "firsts", "marks", "latest", "frames", "again", "by tuple", "opened")


@pytest.mark.parametrize(
    ("queries", "order", "slicing", "tuples", "splits"),
    [
        # queries          order           slicing       tuples                          splits
        ([GRID], "out-of-order", "general", "dropped: each event is folded", "never"),
        ([GRID, Query("s", Session(5), agg.sum("x"))], "out-of-order", "sessions", "dropped", "never"),
        ([COUNT], "out-of-order", "in order", "kept: count: a late event moves", "never"),
        ([COUNT, FIRST], "out-of-order", "in order", "kept: count: a late event moves", "never"),
        ([FIRST], "out-of-order", "in order", "kept: firsts: an aggregate is not commutative", "never"),
        ([MARKS], "out-of-order", "in order", "kept: marks: a late event may move edges", "possible: marks"),
        ([LAST], "out-of-order", "in order", "kept: latest", "possible: latest"),
        ([GRID, COUNT, FIRST, MARKS], "in-order", "Cutty: slices begin where windows begin", "dropped", "never"),
        ([LAST], "in-order", "Cutty", "kept: latest: its window is forward context aware", "possible: latest"),
    ],
)
def test_decisions_and_their_reasons(queries: list[Query], order: str, slicing: str, tuples: str, splits: str) -> None:
    text = explained(*queries, order=order)
    assert slicing in line(text, "slicing")
    assert line(text, "tuples").startswith(tuples)
    assert line(text, "splits").startswith(splits)
    assert line(text, "order").startswith(order)


@pytest.mark.parametrize(
    ("queries", "order", "parts"),
    [
        ([GRID, COUNT, FIRST], "out-of-order", [["grid"], ["count", "firsts"]]),
        ([MARKS, GRID], "out-of-order", [["marks"], ["grid"]]),
        ([LAST, GRID, COUNT], "in-order", [["latest"], ["grid", "count"]]),
        (
            [COUNT, FRAME, BY_TUPLE, FRAMES_AGAIN, BY_TUPLE_AGAIN],
            "out-of-order",
            [["count", "frames", "again"], ["by tuple", "opened"]],
        ),
        ([COUNT, FRAME, BY_TUPLE], "in-order", [["count", "frames", "by tuple"]]),
    ],
)
def test_queries_share_slices_with_those_that_need_as_much(queries: list[Query], order: str, parts: Any) -> None:
    """Tuples are kept for those that need them, and one that may look back over events it refused is by itself."""
    text = explained(*queries, order=order)
    told = [part.split("  partials")[0] for part in text.split("  windows")[1:]]
    assert [[name for name in NAMES if f" {name}" in part] for part in told] == parts


@pytest.mark.parametrize(
    ("aggregate", "how"), [(agg.sum("x"), "subtract"), (agg.max("x"), "unless extreme"), (agg.m4("x"), "recompute")]
)
def test_how_tuples_leave_slices(aggregate: Any, how: str) -> None:
    query = Query("q", Tumbling(10, measure="count"), aggregate)
    assert line(explained(query), "removal").endswith(f"(Figure 6: {how})")
    assert "removal" not in explained(query, order="in-order")
    assert "removal" not in explained(Query("q", Tumbling(10), aggregate))


def test_what_is_shared() -> None:
    text = explained(
        Query("a", Tumbling("1m"), agg.sum("x"), agg.count("x")),
        Query("b", Tumbling("60s"), agg.avg("x")),
        Query("c", Sliding("5m", "1m"), agg.avg("x"), where="flag"),
    )
    assert text.startswith("3 queries over 2 distinct windows; 4 aggregates from 2 partials a slice")
    assert "Tumbling(1m) (CF)  ← a, b" in text
    assert "avg(x)  ← a, b" in text
    assert "avg(x) where 'flag'  ← c" in text


def test_many_queries_are_told_in_short() -> None:
    text = explained(*(Query(f"q{i}", Tumbling(10), agg.sum("x")) for i in range(40)))
    assert len(text.splitlines()) < 15
    assert "q0, q1, q2, q3 and 36 more" in text


@pytest.mark.parametrize("store", ["lazy", "eager", "fiba"])
def test_the_store_that_was_asked_for(store: str) -> None:
    assert line(explained(GRID, store=store), "store").startswith(store)


def test_the_store_that_pays() -> None:
    assert line(explained(Query("q", Tumbling(10), agg.sum("x"))), "store").startswith("lazy")
    assert line(explained(Query("q", Sliding(100_000, 1), agg.sum("x"))), "store").startswith("eager")


def test_where_slices_come_in_order_there_are_no_trees() -> None:
    for asked, options in ((GRID, {"order": "in-order"}), (COUNT, {})):
        told = line(explained(asked, store="fiba", **options), "store")
        assert told.startswith("eager") and "FiBA is for general slicing" in told


def test_before_and_after_the_first_batch_and_with_other_queries() -> None:
    operator = Operator([GRID, COUNT], time="ts")
    before = operator.explain().split("\nsharing: ")[0]
    operator.process({"ts": [1, 2], "x": [1.5, 2.5]})
    assert operator.explain().split("\nsharing: ")[0] == before
    assert all(row.strip() for row in operator.explain().splitlines())
