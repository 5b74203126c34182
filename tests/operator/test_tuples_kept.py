"""Tuples are kept where Scotty's Figure 4 says so and nowhere else, and what is kept is dropped as time passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windlass import (
    Band,
    Cumulate,
    DataDriven,
    Deterministic,
    Landmark,
    LastN,
    NonDeterministic,
    Operator,
    Punctuation,
    Query,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
    agg,
)


def every_4(state: Any, ts: Any) -> Any:
    k = state[0]
    return (k + 1,), k % 4 == 0, k % 4 == 0 and k > 0


def last_3(state: Any, ts: Any) -> Any:
    evict = 1 if state[0] == 3 else 0
    return (state[0] + 1 - evict,), evict, ts % 5 == 0


def rule(ts: Any) -> Any:
    return (12, 4) if ts % 50 < 25 else (6, 3)


#                                             out of order               in order
#          window                             commutative  not           commutative  not
KEPT = [
    (Tumbling(10), "drop", "keep", "drop", "drop"),
    (Sliding(10, 3), "drop", "keep", "drop", "drop"),
    (Cumulate(2, 10), "drop", "keep", "drop", "drop"),
    (Band(100, 300), "drop", "keep", "drop", "drop"),
    (Landmark(100, 20), "drop", "keep", "drop", "drop"),
    (Session(3), "drop", "keep", "drop", "drop"),
    (Tumbling(10, measure="count"), "keep", "keep", "drop", "drop"),
    (Sliding(10, 3, measure="km"), "keep", "keep", "drop", "drop"),
    (Landmark(10, 20, measure="count"), "keep", "keep", "drop", "drop"),
    (Punctuation("flag"), "keep", "keep", "drop", "drop"),
    (ThresholdFrame("flag"), "keep", "keep", "drop", "drop"),
    (SlideByTuple(8, 2), "keep", "keep", "drop", "drop"),
    (Snapshot(4), "keep", "keep", "drop", "drop"),
    (DataDriven(rule), "keep", "keep", "drop", "drop"),
    (Deterministic(every_4), "keep", "keep", "drop", "drop"),
    (LastN(5, 7), "keep", "keep", "keep", "keep"),
    (NonDeterministic(last_3), "keep", "keep", "keep", "keep"),
]
CASES = [
    (window, order, aggregate, said[2 * (order == "in-order") + (aggregate == "first")])
    for window, *said in KEPT
    for order in ("out-of-order", "in-order")
    for aggregate in ("sum", "first")
]
AGGREGATES = {"sum": agg.sum("x"), "first": agg.first("x")}


def named(value: Any) -> str:
    return f"{type(value).__name__}-{value.measure}" if hasattr(value, "measure") else str(value)


def stream(low: int, high: int, rate: int = 1, seed: int = 0) -> dict[str, Any]:
    """`rate` events at each time, with gaps now and then."""
    ts = np.repeat(np.arange(low, high), rate)
    ts = ts[ts % 40 < 35]
    return {"ts": ts, "x": ts % 7, "km": ts * 2 // 3, "flag": (ts % 10) < 2, "k": ts % 2}


def operator_of(window: Any, order: str, aggregate: str, **options: Any) -> Operator:
    return Operator(Query("q", window, AGGREGATES[aggregate]), time="ts", order=order, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("window", "order", "aggregate", "said"), CASES, ids=named)
def test_tuples_are_kept_where_the_tree_says_so(window: Any, order: str, aggregate: str, said: str) -> None:
    operator = operator_of(window, order, aggregate, allowed_lateness=0 if order == "in-order" else 30)
    operator.process(stream(80, 110))
    before = operator.counters["tuples"]
    operator.advance(105)
    after = operator.counters["tuples"]
    if said == "drop":
        assert before == after == 0
    else:
        assert before == 30  # they wait until their place is final
        assert after > 0
    told = "kept" if said == "keep" else "dropped"
    assert f"  tuples     {told}: " in operator.explain()


@pytest.mark.parametrize(("window", "order", "aggregate", "said"), CASES, ids=named)
@pytest.mark.parametrize("key", [None, "k"], ids=["one key", "keys"])
def test_memory_is_bounded_as_time_passes(window: Any, order: str, aggregate: str, said: str, key: Any) -> None:
    operator = operator_of(window, order, aggregate, key=key, allowed_lateness=0 if order == "in-order" else 15)
    held = []
    for low in range(0, 1200, 40):
        operator.process(stream(low, low + 40))
        operator.advance(low + 37)
        counters = operator.counters
        held.append((counters["slices"], counters["tuples"], counters.get("correctable", 0)))
    slices, tuples, correctable = np.array(held[10:20]).max(axis=0)  # after the band has ended
    for later in held[20:]:
        if isinstance(window, Landmark) and said == "keep":
            break  # a late event changes all windows to come, wherever it falls
        assert later[0] <= slices
        assert later[1] <= tuples
        assert later[2] <= correctable + 1
    else:
        assert slices <= 80
        assert tuples <= (0 if said == "drop" else 240)


@pytest.mark.parametrize("measure", ["time", "count"])
def test_a_landmark_that_needs_tuples_needs_them_all(measure: str) -> None:
    window = Landmark(0, 20, measure=measure)
    operator = operator_of(window, "out-of-order", "first")
    operator.process(stream(0, 400))
    operator.advance(390)
    assert operator.counters["tuples"] == operator.counters["events"]


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_a_landmark_that_needs_none_keeps_a_slice_or_two(order: str) -> None:
    operator = operator_of(Landmark(0, 20), order, "sum")
    for low in range(0, 2000, 40):
        operator.process(stream(low, low + 40))
        operator.advance(low + 39)
        assert operator.counters["slices"] <= 4
    (last,) = operator.finish()["q"].to_pylist()[-1:]
    assert last["window"] == {"start": 0, "end": 2000}
    assert last["sum(x)"] == int(stream(0, 2000)["x"].sum())


def test_tuples_are_kept_no_longer_than_a_query_needs_them() -> None:
    """The landmark would need all of them, if it needed any."""
    queries = [Query("all", Landmark(0, 10), agg.sum("x")), Query("count", Tumbling(5, measure="count"), agg.sum("x"))]
    operator = Operator(queries, time="ts", allowed_lateness=5)
    operator.process(stream(0, 395))
    operator.advance(394)
    assert "tuples     kept: count:" in operator.explain()
    assert 0 < operator.counters["tuples"] <= 10
    operator.remove("count")
    assert "tuples     kept" not in operator.explain()
    assert operator.counters["tuples"] == 0


def test_the_rate_of_events_does_not_matter_where_tuples_are_dropped() -> None:
    held = []
    for rate in (1, 100):
        operator = operator_of(Sliding(20, 5), "out-of-order", "sum", allowed_lateness=50)
        operator.process(stream(0, 300, rate))
        operator.advance(290)
        held.append((operator.counters["slices"], operator.counters["tuples"]))
    assert held[0] == held[1]
    assert held[0][1] == 0


def test_late_events_wait_for_the_next_watermark_and_are_gone_then() -> None:
    operator = operator_of(Tumbling(10), "out-of-order", "sum", allowed_lateness=50)
    operator.process(stream(0, 30))
    operator.advance(30)
    operator.process(stream(5, 9))
    assert operator.counters["tuples"] == 4
    assert len(operator.advance(30)) == 1
    assert operator.counters["tuples"] == 0
