"""Calls that would give more rows than `max_rows`: refused at exactly one row more, and nothing changes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operator.rows import Asked, table
from tests.operator.streams import Step, queries, streams
from windlass import (
    Band,
    Cumulate,
    Landmark,
    LastN,
    Operator,
    Query,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    Tumbling,
    Watermarks,
    agg,
    aggregate,
)
from windlass.errors import InvalidArgument, TooManyRows, WrongType
from windlass.operator.row_limit import MAX_ROWS, RowLimit

FIXED = ("time", "count", "column", "session")
TUPLES = (*FIXED, "punctuation", "frame", "slide by tuple", "last n", "snapshot", "deterministic", "non-deterministic")


def limited(op: Operator, most: int) -> Operator:
    other = copy.copy(op)
    other._max_rows = most
    return other


def waiting(op: Operator) -> int:
    return RowLimit(1, op._running).waiting


def exactly(op: Operator, call: Any, rows: Any) -> Any:
    """Call it with room for the rows it gives, and with room for one less."""
    plain = copy.copy(op)
    given = rows(plain, call(plain))
    before = op.snapshot()
    if given > 1 and given > waiting(op):
        short = limited(op, given - 1)
        with pytest.raises(TooManyRows, match=f"max_rows={given - 1:,}"):
            call(short)
        assert short.counters == op.counters and short.watermark == op.watermark
        assert short.snapshot() == before or rows is in_process  # which has made room for keys
        assert goes_on_as(short, op, call)
    enough = limited(op, max(1, given))
    assert rows(enough, call(enough)) == given
    return call(op)


def in_process(op: Operator, _: Any) -> int:
    return waiting(op)


def goes_on_as(short: Operator, op: Operator, call: Any) -> bool:
    """Whether an operator goes on after a refused call as if that had never been made."""
    ends = []
    for each in (limited(short, MAX_ROWS), copy.copy(op)):
        results = [call(each)]
        if not each._finished:
            results.append(each.finish())
        ends.append([r.to_arrow() for r in results if r is not None])
    return ends[0] == ends[1]


def run(op: Operator, steps: list[Step], added: list[Asked]) -> None:
    for i, step in enumerate(steps):
        for batch in step.batches:
            if batch:
                exactly(op, lambda o, batch=batch: o.process(table(batch)), in_process)
        if op.watermark is not None or not op._in_order:
            exactly(op, lambda o: o.peek(), lambda _, results: len(results))
        mark = () if op._in_order or op._watermarks is not None else (step.watermark,)
        exactly(copy.copy(op), lambda o: o.finish(), lambda _, results: len(results))
        exactly(op, lambda o, mark=mark: o.advance(*mark), lambda _, results: len(results))
        if i == 1:
            for asked in added:
                op.add(asked.for_operator())
    exactly(op, lambda o: o.finish(), lambda _, results: len(results))


@settings(max_examples=10)
@given(st.data())
@pytest.mark.parametrize("types", [FIXED, TUPLES], ids=["fixed", "tuples"])
@pytest.mark.parametrize("mode", ["out-of-order", "in-order", "watermarks"])
def test_the_limit_is_exact(mode: str, types: tuple[str, ...], data: st.DataObject) -> None:
    in_order = mode == "in-order"
    asked = data.draw(queries(types, 3))
    added = [Asked(f"new{i}", a.window, a.aggregates, a.where, a.emit_empty) for i, a in enumerate(asked[:1])]
    options: dict[str, Any] = {"key": data.draw(st.sampled_from([None, "k"]))}
    if not in_order:
        options["allowed_lateness"] = data.draw(st.sampled_from([0, 4, 20]))
    if mode == "watermarks":
        options["watermarks"] = Watermarks(3, 2)
    op = Operator(
        [a.for_operator() for a in asked], time="ts", order="in-order" if in_order else "out-of-order", **options
    )
    run(op, data.draw(streams(in_order)), added if data.draw(st.booleans()) else [])


# --------------------------------------------------------------------------- sizes that are too large

FAR = 10**10
WIDE = {
    "time": Query("q", Sliding(10**9, 1), agg.count()),
    "tuples": Query("q", Sliding(10**9, 1), agg.collect_list("x")),
    "column": Query("q", Sliding(10**9, 1, measure="x"), agg.count()),
    "empty": Query("q", Tumbling(1), agg.count(), emit_empty=True),
    "empty tuples": Query("q", Tumbling(1), agg.collect_list("x"), emit_empty=True),
}


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("which", WIDE)
def test_rows_are_counted_not_enumerated(which: str, key: str | None) -> None:
    op = Operator(WIDE[which], time="ts", key=key)
    op.process({"ts": [0, FAR], "x": [0, FAR], "k": [1, 1]})
    before = op.snapshot()
    for call in (op.peek, op.finish, lambda: op.advance(FAR + 10**9)):
        with pytest.raises(TooManyRows, match=r"query 'q' has [\d,]{13,} windows .* larger slide"):
            call()
        assert op.snapshot() == before and op.watermark is None
    if which in ("time", "column"):
        if which == "time":
            assert op.open_windows() == 2 * 10**9
        else:
            with pytest.raises(TooManyRows):
                op.open_windows()
    small = 100 if which != "column" else 0
    assert len(op.advance(100)) == small
    assert op.watermark == 100


@pytest.mark.parametrize("which", WIDE)
def test_in_order_a_batch_is_refused_and_smaller_ones_are_taken(which: str) -> None:
    op = Operator(WIDE[which], time="ts", order="in-order")
    with pytest.raises(TooManyRows, match="max_rows=100,000,000"):
        op.process({"ts": [0, FAR], "x": [0, FAR]})
    assert op.counters["events"] == 0 and op.watermark is None
    op.process({"ts": [0, 10], "x": [0.0, 10.0]})  # types are not fixed by what was refused
    assert len(op.advance()) == 10


def test_rows_of_earlier_batches_count_until_they_come_out() -> None:
    op = Operator(Query("q", Tumbling(1), agg.count()), time="ts", order="in-order", max_rows=5)
    op.process({"ts": [0, 1, 2, 3]})
    with pytest.raises(TooManyRows, match="3 rows, on top of 3 that wait for advance, more than max_rows=5"):
        op.process({"ts": [4, 5, 6]})
    assert len(op.advance()) == 3
    op.process({"ts": [4, 5, 6]})
    assert len(op.advance()) == 3


def test_watermarks_of_the_stream_complete_no_more_than_that() -> None:
    op = Operator(Query("q", Sliding(10**9, 1), agg.count()), time="ts", watermarks=Watermarks(0, 1))
    with pytest.raises(TooManyRows, match="query 'q' has 1,000,000,000 windows"):
        op.process({"ts": [0, 10**9, 5]})
    assert op.counters["events"] == 0 and op.watermark is None
    op.process({"ts": [0, 5]})
    assert len(op.advance()) == 5


def test_the_end_completes_what_the_watermark_of_the_stream_does_first() -> None:
    query = Query("q", Tumbling(1), agg.count(), emit_empty=True)
    op = Operator(query, time="ts", key="k", watermarks=Watermarks(0, 1))
    op.process({"ts": [0] * 30, "k": list(range(30))})
    op.process({"ts": [10**4], "k": [0]})  # the watermark completes empty windows of all keys, the end those of one
    for call in (Operator.finish, Operator.advance):
        with pytest.raises(TooManyRows, match="call would make 300,000 rows"):
            call(limited(op, 10**5))
    assert len(limited(op, 300_001).finish()) == 300_001


def test_rows_of_all_watermarks_of_a_batch_count() -> None:
    times = np.repeat(np.arange(1, 400) * 10**3, 2)
    times[1::2] -= 5  # late, so that the watermark rises before each of them
    op = Operator(Query("q", Sliding(10**9, 1), agg.count()), time="ts", watermarks=Watermarks(0, 1), max_rows=2500)
    with pytest.raises(TooManyRows, match="make 1,000 rows, on top of 2,000 that wait for advance"):
        op.process({"ts": times})


def test_cumulating_windows_of_many_keys() -> None:
    op = Operator(Query("q", Cumulate(1, 10**6), agg.sum("x")), time="ts", key="k")
    op.process({"ts": np.zeros(3000, np.int64), "k": np.arange(3000), "x": np.ones(3000, np.int64)})
    with pytest.raises(TooManyRows, match="query 'q' has 3,000,000,000 windows of Cumulate"):
        op.finish()
    assert len(op.advance(2)) == 6000


def test_the_rows_of_all_queries_count() -> None:
    three = [Query(name, Tumbling(size), agg.count()) for name, size in (("a", 1), ("b", 1), ("c", 2))]
    assert len(aggregate({"ts": [0, 1, 2, 3]}, three, time="ts", max_rows=10)) == 10
    with pytest.raises(TooManyRows, match=r"10 rows, more than max_rows=9: query 'a' \(and 1 more\) has 4 windows"):
        aggregate({"ts": [0, 1, 2, 3]}, three, time="ts", max_rows=9)
    others = [Query("s", Session(1), agg.count()), Query("n", LastN(2, 1), agg.count())]
    others += [Query("t", SlideByTuple(2), agg.count()), Query("l", Snapshot(2), agg.count())]
    others += [Query("b", Band(0, 9), agg.count()), Query("m", Landmark(0, 1), agg.count())]
    for query in others:
        rows = len(aggregate({"ts": [0, 3, 9]}, query, time="ts"))
        assert rows == len(aggregate({"ts": [0, 3, 9]}, query, time="ts", max_rows=rows))
        with pytest.raises(TooManyRows if rows > 1 else InvalidArgument, match="max_rows"):
            aggregate({"ts": [0, 3, 9]}, query, time="ts", max_rows=rows - 1)


def test_an_added_query_is_held_to_it_as_well() -> None:
    op = Operator(Query("q", Tumbling(10), agg.count()), time="ts", max_rows=100)
    op.process({"ts": [0]})
    op.add(Query("wide", Sliding(10**9, 1), agg.count()))
    op.process({"ts": [10**9]})
    with pytest.raises(TooManyRows, match="query 'wide' has 1,000,000,000 windows"):
        op.finish()
    op.remove("wide")
    assert len(op.finish()) == 2


@pytest.mark.parametrize("aggregate", [agg.count(), agg.collect_list("x")], ids=["slices", "tuples"])
@pytest.mark.parametrize("order", ["out-of-order", "in-order"])
@pytest.mark.parametrize(
    "window",
    [Tumbling(9, measure="x"), Sliding(9, 3), Cumulate(3, 9), Cumulate(3, 9, measure="x"), Band(0, 9)],
    ids=repr,
)
def test_windows_that_may_have_begun_before_their_query_do_not_count(window: Any, order: Any, aggregate: Any) -> None:
    op = Operator(Query("all", Tumbling(100), agg.count()), time="ts", order=order, max_rows=1)
    op.process({"ts": [0], "x": [0]})
    op.add(Query("added", window, aggregate))
    op.process({"ts": [1], "x": [28]})
    assert op.peek().to_arrow()["query"].to_pylist() == ["all"]
    assert op.finish(partial=True).to_arrow()["query"].to_pylist() == ["all"]


def test_late_events_alter_no_more_than_that() -> None:
    op = Operator(Query("q", Tumbling(1), agg.count(), emit_empty=True), time="ts", allowed_lateness=10**15)
    op.process({"ts": [10**14]})
    assert len(op.advance(10**14 + 1)) == 1
    op.process({"ts": [0]})
    with pytest.raises(TooManyRows, match="query 'q' has 100,000,000,000,000 windows"):
        op.advance(10**14 + 1)


@pytest.mark.parametrize("most", [0, -1, 1.5, None, True, "many"])
def test_the_limit_is_a_positive_integer(most: Any) -> None:
    with pytest.raises((InvalidArgument, WrongType), match="max_rows"):
        Operator(Query("q", Tumbling(1), agg.count()), time="ts", max_rows=most)


def test_another_limit_goes_on_from_the_same_state() -> None:
    query = Query("q", Tumbling(1), agg.count())
    op = Operator(query, time="ts", max_rows=2)
    op.process({"ts": [0, 1, 2]})
    with pytest.raises(TooManyRows):
        op.finish()
    assert len(Operator(query, time="ts", max_rows=3).restore(op.snapshot()).finish()) == 3
    assert len(Operator(query, time="ts").restore(op.snapshot()).finish()) == 3
    with pytest.raises(TooManyRows):
        copy.deepcopy(op).finish()


# --------------------------------------------------------------------------- windows that are refused at once


@pytest.mark.parametrize(
    "window", [lambda: Sliding("365d", "1ms"), lambda: Sliding(10**12, 1), lambda: Sliding(10**12, 1, measure="x")]
)
def test_more_than_a_billion_windows_an_event(window: Any) -> None:
    with pytest.raises(InvalidArgument, match="larger slide"):
        window()


def test_a_size_and_a_slide_that_only_a_stream_can_compare() -> None:
    window = Sliding("365d", 1000)
    with pytest.raises(InvalidArgument, match="31,536,000,000 windows"):
        Operator(Query("q", window, agg.count()), time="ts")


# --------------------------------------------------------------------------- one far event


@pytest.mark.parametrize("order", ["out-of-order", "in-order"])
@pytest.mark.parametrize(
    "window",
    [
        Tumbling(1),
        Sliding(10, 1),
        Cumulate(1, 10),
        Session(1),
        Snapshot(1),
        SlideByTuple(1),
        LastN(2, 1),
        Landmark(0, 1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("aggregate", [agg.count(), agg.collect_list("ts")], ids=["count", "list"])
def test_one_far_event_costs_nothing(order: Any, window: Any, aggregate: Any) -> None:
    op = Operator(Query("q", window, aggregate), time="ts", order=order)
    op.process({"ts": [0, 2**61]})
    held = op.counters
    assert held["slices"] <= 2 and held["tuples"] <= 2
    assert len(op.snapshot()) < 20_000
    assert 0 < len(op.finish()) <= 20
