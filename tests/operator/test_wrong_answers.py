"""Streams whose answers were wrong once: the operator has to agree with the oracle, and with answers by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from oracle import Band, Cumulate, Landmark, LastN, Session, Sliding, Tumbling

import windlass
from tests.operator.rows import Asked, Twins, event
from tests.operator.streams import NON_DETERMINISTIC, STEPS
from windlass import Operator, Query, agg
from windlass.errors import InvalidArgument, OutOfOrder, TooManyRows
from windlass.operator.slicer import Slicer


def reason(twins: Twins) -> str:
    """The reason of the last expired event, which stays in `late()`."""
    return str(twins.operator._expired[-1]["reason"][-1])


def bounds(results: windlass.Results, name: str) -> list[tuple[int, int]]:
    """The bounds of windows in their own measure, as they came out."""
    rows = results[name].to_pylist()
    return [(row.get("low", row["window"]["start"]), row.get("high", row["window"]["end"])) for row in rows]


# --------------------------------------------------------------------------- columns that no window reads


def test_a_column_is_no_measure_once_its_query_is_removed() -> None:
    twins = Twins([Asked("a", Tumbling(4, measure="count")), Asked("b", Tumbling(4, measure="miles"))])
    twins.process([event(54, miles=60.75)])
    twins.remove("b")
    twins.process([event(50, miles=57.75)])
    twins.advance(54)
    twins.process([event(56, miles=float("nan")), event(57, miles=1.0)])
    twins.finish(partial=True)


def test_a_column_may_decrease_once_only_aggregates_read_it() -> None:
    counted, driven = (
        Query("a", windlass.Tumbling(2, measure="count"), agg.max("km")),
        windlass.Tumbling(4, measure="km"),
    )
    for order in ("in-order", "out-of-order"):
        op = Operator([counted, Query("b", driven, agg.count())], time="ts", order=order)
        op.process({"ts": [1], "km": [60]})
        op.remove("b")
        op.process({"ts": [2, 3, 4], "km": [50, None, 40]})
        assert [row["max(km)"] for row in op.finish()["a"].to_pylist()] == [60, 40]


def test_columns_of_a_function_may_be_null_once_its_query_is_removed() -> None:
    def step(state: Any, ts: Any, y: Any) -> Any:
        return state, 1, 1

    read = Query("b", windlass.Deterministic(step, columns="y"), agg.count())
    op = Operator([Query("a", windlass.Tumbling(2, measure="count"), agg.collect_list("y")), read], time="ts")
    op.process({"ts": [1], "y": [1]})
    op.remove("b")
    op.process({"ts": [2], "y": [None]})
    assert op.finish()["a"]["collect_list(y)"].to_pylist() == [[1]]


# --------------------------------------------------------------------------- measures that do not fit


def test_an_event_too_late_for_all_may_have_any_measure() -> None:
    op = Operator(Query("q", windlass.Tumbling(4, measure="km"), agg.count()), time="ts")
    op.process({"ts": [1, 5, 9], "km": [0, 5, 9]})
    op.advance(9)
    op.process({"ts": [3, 10], "km": [99, 10]})
    assert op.late()["ts"].to_pylist() == [3]
    with pytest.raises(OutOfOrder, match="'km' decreases from 10 to 9 at time 11"):
        op.process({"ts": [11], "km": [9]})
    for value in (float("nan"), float("inf"), None):
        with pytest.raises(InvalidArgument, match="the measure column 'km'"):
            op.process({"ts": [3], "km": pa.array([value], pa.float64())})
    assert bounds(op.finish(partial=True), "q") == [(8, 12)]
    assert op.counters["expired"] == 1


def test_a_window_on_a_column_that_was_not_due_is_not_closed() -> None:
    asked = [Asked("all", Landmark(6, 4, measure="km")), Asked("pairs", Tumbling(2, measure="km"))]
    twins = Twins(asked)
    twins.process([event(1, id=0, km=7), event(9, id=1, km=20), event(9, id=2, km=22)])
    assert [(row.low, row.high) for row in twins.advance(12)] == [(6, 10), (6, 22), (6, 8), (20, 22)]
    twins.process([event(5, id=3, km=15)])  # `pairs` has closed [20, 22), and `all` has closed [6, 22)
    assert twins.advance(13) == []
    twins.finish()


def test_a_landmark_has_no_window_where_its_last_slide_is_empty() -> None:
    twins = Twins([Asked("all", Landmark(6, 4, measure="km"))])
    twins.process([event(1, id=0, km=7), event(9, id=1, km=20)])
    assert [(row.low, row.high) for row in twins.advance(12)] == [(6, 10)]
    twins.process([event(5, id=2, km=15)])
    assert [(row.low, row.high, row.values) for row in twins.advance(13)] == [(6, 18, ([0, 2],))]
    twins.finish()


def test_a_measure_matters_to_the_queries_on_it_only() -> None:
    """An event may have any value if it is too late for the query on the column, but not for the one beside it."""
    twins = Twins(
        [Asked("km", Tumbling(2, measure="km")), Asked("n", Tumbling(4, measure="count"))], allowed_lateness=3
    )
    twins.process([event(0, id=0, km=0), event(1, id=1, km=2), event(20, id=2, km=20)])
    twins.advance(20)
    twins.process([event(2, id=3, km=90), event(3, id=4, km=-8)])
    twins.advance(21)
    twins.process([event(22, id=5, km=22)], [event(19, id=6, km=18)])
    twins.advance(23)
    twins.process([event(24, id=7, km=21)])  # that one is refused
    twins.finish(partial=True)


def test_what_was_too_late_for_a_query_does_not_matter_once_that_is_removed() -> None:
    asked = [Asked("miles", Cumulate(4, 16, 4, measure="miles")), Asked("km", Band(-1, 4, measure="km"))]
    twins = Twins(asked, watermarks=(2, 1))
    twins.process([event(27, km=70, miles=30.0)], [event(35, km=80, miles=34.3), event(27, km=70, miles=30.0)])
    twins.advance()
    twins.remove("km")
    twins.process([event(44, km=90, miles=38.6)], [event(46, km=90, miles=38.6), event(39, km=87, miles=36.4)])
    twins.finish()


def test_a_measure_that_does_not_fit_may_be_too_late_by_a_watermark_of_its_batch() -> None:
    query = Query("q", windlass.Tumbling(4, measure="km"), agg.count())
    op = Operator(query, time="ts", watermarks=windlass.Watermarks(0, 1))
    op.process({"ts": [1, 5, 9, 3], "km": [0, 5, 9, 99]})
    assert op.late()["ts"].to_pylist() == [3]
    with pytest.raises(OutOfOrder, match="'km' decreases"):
        op.process({"ts": [10, 2, 11], "km": [10, 99, 8]})
    assert (op.counters["events"], op.late().num_rows, op.watermark) == (4, 0, 9)
    assert bounds(op.advance(), "q") == [(0, 4), (4, 8)]


def test_a_first_batch_that_is_refused_leaves_nothing() -> None:
    """Not even the types of its columns."""
    asked = [
        Query("km", windlass.Tumbling(2, measure="km"), agg.max("x")),
        Query("x", windlass.Tumbling(5), agg.sum("x")),
    ]
    op = Operator(asked, time="ts", key="k", watermarks=windlass.Watermarks(5, 4))
    with pytest.raises(OutOfOrder, match="'km' decreases"):
        op.process({"ts": [62, 58], "km": [95, 99], "x": [1.5, 2.5], "k": ["a", "a"]})
    assert (len(op.advance()), op.counters["keys"], op.watermark) == (0, 0, None)
    op = Operator(asked, time="ts", key="k", watermarks=windlass.Watermarks(5, 4)).restore(op.snapshot())
    op.process({"ts": [62, 58], "km": [99, 95], "x": [7, 8], "k": ["b", "b"]})
    assert [row["sum(x)"] for row in op.finish()["x"].to_pylist()] == [8, 7]


def test_a_function_that_raises_at_the_first_batch_leaves_nothing() -> None:
    def step(state: Any, ts: Any, y: Any) -> Any:
        if y == 4:
            raise ValueError("four")
        return state, 1, 1

    asked = [Query("own", windlass.Deterministic(step, columns="y"), agg.max("y"))]
    op = Operator(asked, time="ts", key="k", order="in-order")
    with pytest.raises(ValueError, match="four"):
        op.process({"ts": [1, 2], "y": [3.5, 4.0], "k": ["a", "b"]})
    assert (len(op.advance()), op.counters["keys"]) == (0, 0)
    op.process({"ts": [1, 2], "y": [3, 5], "k": [7, 7]})
    assert op.finish()["own"]["max(y)"].to_pylist() == [3]


@pytest.mark.parametrize("window", [Sliding(8, 8, 5), Cumulate(1, 4), Session(8)])
def test_windows_of_late_events_are_open(window: Any) -> None:
    twins = Twins([Asked("q", window, ("max",))], allowed_lateness=1)
    twins.advance(10)
    twins.process([event(9)])
    twins.peek()
    assert twins.operator.open_windows() > 0
    twins.finish()


@pytest.mark.parametrize("window", [Sliding(8, 8, 5), Session(2)])
def test_a_window_of_two_queries_is_open_for_both(window: Any) -> None:
    twins = Twins([Asked("a", window, ("events",)), Asked("b", window, ("min",))])
    twins.process([event(8)])
    twins.peek()
    assert twins.operator.open_windows() == 2
    twins.remove("a")
    twins.peek()


# --------------------------------------------------------------------------- windows from before a query was added

ADDED = [Cumulate(3, 12, -3), Band(2, 20), Landmark(2, 4), Session(3), Sliding(8, 3), Cumulate(2, 6, measure="km")]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("aggregate", ["sum", "list"])  # from slices, and with tuples
@pytest.mark.parametrize("window", ADDED)
def test_windows_that_began_before_a_query_was_added_do_not_count(window: Any, aggregate: str, in_order: bool) -> None:
    """They are no open windows, and no rows that a limit would refuse."""
    can_be_empty = isinstance(window, Cumulate | Sliding) and window.measure == "time"
    asked = Asked("added", window, (aggregate,), emit_empty=can_be_empty)

    def made(max_rows: int) -> Twins:
        twins = Twins([Asked("there", Sliding(8, 3), (aggregate,))], in_order=in_order, max_rows=max_rows)
        twins.process([event(4)])
        twins.add(asked)
        twins.process([event(6, id=1), event(21, id=2)])
        return twins

    twins = made(1000)
    twins.peek()
    most = len(twins.finish())
    made(most).finish()
    with pytest.raises(TooManyRows):
        made(most - 1).operator.finish()


# --------------------------------------------------------------------------- the end, and watermarks that follow


def test_finish_gives_what_the_watermark_had_brought() -> None:
    query = Query("q", windlass.Tumbling(5), agg.count(), emit_empty=True)
    op = Operator(query, time="ts", key="k", watermarks=windlass.Watermarks(0, 1))
    op.process({"ts": [0, 20], "k": ["a", "b"]})
    assert op.watermark == 20
    assert "watermark 20" in repr(op)
    assert op.open_windows() == 1
    assert bounds(op.peek(), "q") == [(20, 25)]
    got = [(row["k"], row["window"]["start"]) for row in op.finish()["q"].to_pylist()]
    assert sorted(got) == [("a", 0), ("a", 5), ("a", 10), ("a", 15), ("b", 20)]


@pytest.mark.parametrize("aggregate", ["sum", "list"])  # from slices, and with tuples
def test_empty_windows_after_a_late_first_event_come_at_the_end(aggregate: str) -> None:
    twins = Twins([Asked("q", Sliding(10, 7, -4), (aggregate,), emit_empty=True)], allowed_lateness=12)
    twins.process([])
    twins.advance(-6)
    twins.process([event(-19)])
    assert [(row.low, row.high) for row in twins.finish()] == [(-25, -15), (-18, -8)]


@pytest.mark.parametrize("calls", range(4))
def test_empty_windows_of_a_new_key_do_not_depend_on_calls(calls: int) -> None:
    twins = Twins([Asked("q", Cumulate(2, 8), emit_empty=True)], key=("k",), in_order=True)
    for n, (ts, key) in enumerate([(1, "a"), (3, "a"), (5, "b"), (5, "longer"), (14, "a"), (15, None)]):
        twins.process([event(ts, k=key, id=n)])
        if n == calls:
            twins.advance()
    got = {(row.key[0], row.low, row.high) for row in twins.finish() if row.key[0] == "b"}
    assert {(low, high) for _, low, high in got if low == 0} <= {(0, 4), (0, 6), (0, 8)}


@pytest.mark.parametrize("aggregate", ["sum", "list"])
def test_empty_windows_of_a_new_key_do_not_depend_on_where_watermarks_fall_in_a_batch(aggregate: str) -> None:
    """As if each event were followed by a watermark: with it, [2, 6) was closed before the first event came."""
    for batches in (1, 2):
        twins = Twins([Asked("q", Cumulate(4, 8, 2), (aggregate,), emit_empty=True)], key=("k",), watermarks=(1, 1))
        events = [event(7, k="a", id=0), event(8, k="b", id=1), event(30, k="a", id=2)]
        twins.process(*([events] if batches == 1 else [events[:2], events[2:]]))
        rows = twins.advance()
        assert [(row.low, row.high) for row in rows if row.key == ("b",) and row.low == 2] == [(2, 10)]


# --------------------------------------------------------------------------- queries that were added


def test_a_late_event_may_tell_that_a_window_is_whole() -> None:
    for early in (True, False):
        twins = Twins([Asked("there", Tumbling(5))], allowed_lateness=1000)
        twins.process([event(0, km=10)])
        twins.add(Asked("added", Tumbling(2, measure="km")))
        twins.process([event(5, km=21, id=1)])
        if early:
            twins.process([event(10, km=30, id=2)])
        twins.advance(10 if early else 5)
        twins.process([event(1, km=15, id=3)])
        twins.process([event(11, km=31, id=4)])
        rows = [row for row in twins.finish() if row.query == "added"]
        assert [(row.low, row.high, row.revision) for row in rows if row.low == 20] == [(20, 22, 0)]


@pytest.mark.parametrize("in_order", [True, False])
def test_events_before_all_queries_expire(in_order: bool) -> None:
    twins = Twins([Asked("a", Tumbling(5))], in_order=in_order)
    twins.process([event(10, id=1)])
    twins.add(Asked("b", Tumbling(5)))
    twins.remove("a")
    twins.process([event(10, id=2), event(12, id=3)] if in_order else [event(12, id=3), event(7, id=2)])
    assert reason(twins) == "early: all queries were added later, and see the events after 10"
    twins.finish()
    assert twins.oracle.expired == 1


def test_events_before_queries_that_share_older_slices_expire() -> None:
    twins = Twins([Asked("a", Tumbling(5), ("sum",))])
    twins.process([event(10, id=1)])
    twins.add(Asked("b", Tumbling(5), ("sum",)))
    twins.process([event(11, id=2)])
    assert len(twins.operator.plan) == 1  # b shares the slices of a
    twins.remove("a")
    twins.process([event(9, id=3), event(16, id=4)])
    twins.advance(3)
    twins.process([event(10, id=5), event(2, id=6), event(4, id=7), event(17, id=8)])
    twins.finish()
    assert twins.oracle.expired == 4


# --------------------------------------------------------------------------- the reason


def test_an_event_inside_of_a_correctable_window_may_be_too_late() -> None:
    twins = Twins([Asked("q", LastN(2, 10))], allowed_lateness=10)
    twins.process([event(30, id=1), event(52, id=2), event(55, id=3)])
    twins.advance(56)
    twins.process([event(47, id=4)])
    assert [(row.low, row.high) for row in twins.advance(58)] == [(30, 50)]
    twins.process([event(46, id=5)])  # in [30, 50), which may still be corrected
    assert "no query accepts events of this time" in reason(twins)
    twins.process([event(47, id=6)])  # it is not before the one that was accepted
    twins.finish()
    assert twins.oracle.expired == 1


def test_queries_come_and_go_after_the_only_one_with_empty_windows_was_removed() -> None:
    twins = Twins([Asked("long", Landmark(-1, 5)), Asked("empty", Tumbling(1), emit_empty=True)])
    twins.process([event(-15)])
    twins.add(Asked("more", Tumbling(2)))
    twins.remove("empty")
    twins.process([event(-23, id=1), event(3, id=2)])
    twins.remove("long")
    twins.process([event(4, id=3)])
    twins.advance(5)
    twins.finish()


# --------------------------------------------------------------------------- windows with functions that were removed


def test_a_window_of_a_removed_function_leaves_its_ordinals_behind() -> None:
    twins = Twins([Asked("counts", Landmark(2, 11, measure="count")), Asked("marks", STEPS[4])], in_order=True)
    twins.process([event(4, id=7)])
    twins.exchange(["counts"], Asked("visits", Session(5)))
    twins.exchange(["counts", "visits"])
    twins.process([event(5, id=8), event(20, id=9)])
    twins.finish()


def test_a_snapshot_after_a_query_with_empty_windows_made_way_for_one_that_shares_its_slices() -> None:
    kept, empty = Asked("kept", Band(-6, 12), ("min",)), Asked("empty", Sliding(7, 5), ("events",), emit_empty=True)
    twins = Twins([empty, kept])
    twins.process([event(-16, id=1)])
    twins.remove("empty")
    twins.add(Asked("added", Sliding(10, 1), ("min",)))
    twins.process([event(-12, id=2)])
    assert len(twins.operator.plan) == 1
    twins.restart()
    twins.exchange(["added", "kept"])
    twins.process([event(-3, id=3), event(9, id=4)])
    twins.finish()


def test_finish_applies_the_watermark_that_was_reached_before_the_last_one() -> None:
    twins = Twins([Asked("q", NON_DETERMINISTIC[2], ("list",))])
    twins.process([event(5, id=1, y=2), event(4, id=2, y=3)])
    twins.advance(7)
    twins.process([event(7, id=3, y=4)])
    assert [(row.low, row.high, row.revision) for row in twins.advance(7)] == [(4, 8, 0)]
    twins.process([event(4, id=4)])
    rows = [row for row in twins.finish(partial=True) if (row.low, row.high) == (4, 8)]
    assert sorted((row.revision, row.retraction) for row in rows) == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("left", "gone"),
    [(agg.count("x"), agg.avg("x")), (agg.sum("x"), agg.avg("x")), (agg.max("x"), agg.min_max("x"))],
    ids=["count", "sum", "max"],
)
def test_slices_after_a_query_that_shared_its_partial_was_removed(left: Any, gone: Any) -> None:
    batch = pa.table({"ts": [1, 2], "x": pa.array([3, 5], pa.int32())})
    queries = [Query("left", windlass.Tumbling(20), left), Query("gone", windlass.Tumbling(20), gone)]
    op = Operator(queries, time="ts")
    op.process(batch)
    op.remove("gone")
    slicer = Slicer(queries[:1], batch.schema, time="ts")
    slicer.process(batch)
    op.process_slices(slicer.take())
    twice = Operator(queries[0], time="ts")
    twice.process(batch)
    twice.process(batch)
    assert op.finish()["left"].equals(twice.finish()["left"])
