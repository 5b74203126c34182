"""Slices that were cut elsewhere: the same rows, late events and counters as if the events themselves had come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windlass
from tests.operator.rows import SCHEMA, event, table
from windlass import agg, errors
from windlass.aggregates.partials import partial
from windlass.operator.slicer import Slicer, refusal

GRID = [
    windlass.Tumbling(5),
    windlass.Tumbling(4, offset=-1),
    windlass.Sliding(7, 3),
    windlass.Cumulate(2, 6),
    windlass.Band(3, 9),
    windlass.Landmark(2, 4),
]
KEPT = [agg.sum("x"), agg.avg("y"), agg.max("f"), agg.count(), agg.stddev("f"), agg.approx_count_distinct("x")]


def asked(windows: list[Any], filtered: bool, empty: bool) -> list[windlass.Query]:
    queries = []
    for i, window in enumerate(windows):
        can_be_empty = empty and not isinstance(window, windlass.Landmark)
        where = "flag" if filtered and i % 2 else None
        queries.append(windlass.Query(f"q{i}", window, *KEPT[i % 3 :: 2], where=where, emit_empty=can_be_empty))
    return queries


def rows(results: windlass.Results) -> Counter[str]:
    """Floats but for the last digits: a deviation depends on the order in which parts are combined."""
    return Counter(
        repr({name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()})
        for row in results
    )


events = st.lists(
    st.builds(
        lambda ts, k, x, flag: event(ts, k=k, x=x, flag=flag),
        st.integers(-10, 40),
        st.sampled_from(["a", "b", None]),
        st.integers(-5, 5),
        st.booleans(),
    ),
    max_size=25,
)
steps = st.lists(st.tuples(events, st.integers(-10, 45), st.integers(1, 9)), max_size=6)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(GRID), min_size=1, max_size=4, unique=True), steps, st.integers(0, 12), st.data())
@example([windlass.Tumbling(5)], [([event(1)], 10, 1), ([event(2)], 10, 1)], 0, None)  # a slice that is expired
def test_slices_are_as_good_as_their_events(windows: list[Any], steps: list[Any], lateness: int, data: Any) -> None:
    filtered, empty = (data.draw(st.booleans()), data.draw(st.booleans())) if data else (False, False)
    queries = asked(windows, filtered, empty)
    # An event that no window would hold is late by itself, but not with a slice that is not.
    everywhere = any(not isinstance(window, windlass.Band | windlass.Landmark) for window in windows)
    options: dict[str, Any] = {"time": "ts", "key": "k", "allowed_lateness": lateness}
    told, given_slices = windlass.Operator(queries, **options), windlass.Operator(queries, **options)
    given_slices.bind(SCHEMA)
    for batch, watermark, cut in steps:
        told.process(table(batch))
        for i in range(0, len(batch), cut):
            slicer = Slicer(queries, SCHEMA, time="ts", key="k")
            slicer.process(table(batch[i : i + cut]))
            given_slices.process_slices(slicer.take())
        if batch and data and data.draw(st.booleans()):
            given_slices = windlass.Operator(queries, **options).restore(given_slices.snapshot())
        assert rows(given_slices.advance(watermark)) == rows(told.advance(watermark))
        late, expired = given_slices.late(), told.late()
        in_slices = sum(part["events"] for part in late["slice"].to_pylist()) if late.num_rows else 0
        if everywhere:
            assert in_slices == expired.num_rows
    assert rows(given_slices.finish()) == rows(told.finish())
    if everywhere:
        assert given_slices.counters["expired"] == told.counters["expired"]
    assert given_slices.counters["events"] == told.counters["events"]


def test_an_expired_slice_says_what_each_query_would_have_answered() -> None:
    queries = [
        windlass.Query("sum", windlass.Tumbling(5), agg.sum("x")),
        windlass.Query("mean", windlass.Sliding(4, 2), agg.avg("x")),
        windlass.Query("kept", windlass.Tumbling(5), partial(agg.sum("x")).alias("x")),
    ]
    op = windlass.Operator(queries, time="ts", key="k")
    op.bind(SCHEMA)
    op.advance(20)
    slicer = Slicer(queries, SCHEMA, time="ts", key="k")
    slicer.process(table([event(6, k="a", x=1), event(7, k="a", x=2), event(30, k="a", x=9)]))
    assert slicer.events == 3
    slices = slicer.take()
    assert slices.num_rows == 2
    op.process_slices(slices)
    assert (slicer.events, slicer.take().num_rows) == (0, 0)
    (late,) = op.late().to_pylist()
    assert late["k"] == "a"
    assert late["slice"] == {"first": 6, "last": 7, "events": 2}
    assert (late["sum"], late["mean"]) == ({"sum(x)": 3}, {"avg(x)": 1.5})
    assert late["kept"]["x"]["sum"] == 3
    assert late["reason"].startswith("late: the watermark is 20")
    assert (op.counters["events"], op.counters["expired"]) == (3, 2)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (windlass.Query("q", windlass.Session(3), agg.sum("x")), "session"),
        (windlass.Query("q", windlass.Tumbling(3, measure="count"), agg.sum("x")), ""),
        (windlass.Query("q", windlass.Tumbling(3), agg.first("x")), ""),
        (windlass.Query("q", windlass.Tumbling(3), agg.median("x")), "grow with its events"),
        (windlass.Query("q", windlass.LastN(3, 5), agg.sum("x")), ""),
    ],
)
def test_what_cannot_be_cut_before_is_refused(query: windlass.Query, why: str) -> None:
    op = windlass.Operator(query, time="ts", key="k")
    op.bind(SCHEMA)
    reason = refusal(op)
    assert reason is not None and why in reason
    with pytest.raises(errors.InvalidArgument, match="cannot be answered from slices alone"):
        Slicer(query, SCHEMA, time="ts", key="k")


def test_slices_of_other_queries_are_refused_and_nothing_changes() -> None:
    one = windlass.Query("q", windlass.Tumbling(5), agg.sum("x"))
    other = windlass.Query("q", windlass.Tumbling(5), agg.stddev("x"))
    slicer = Slicer(other, SCHEMA, time="ts", key="k")
    slicer.process(table([event(1, k="a")]))
    op = windlass.Operator(one, time="ts", key="k")
    op.bind(SCHEMA)
    before = op.snapshot()
    with pytest.raises(errors.InvalidArgument, match="queries"):
        op.process_slices(slicer.take())
    assert op.snapshot() == before


def test_a_query_that_was_added_later_finds_its_partials() -> None:
    first = windlass.Query("sum", windlass.Tumbling(5), agg.sum("x"))
    second = windlass.Query("most", windlass.Sliding(6, 3), agg.max("x"), agg.sum("x"))
    told, given_slices = (windlass.Operator(first, time="ts", key="k") for _ in range(2))
    start = [event(t, k="a", x=t) for t in range(10)]
    for op in (told, given_slices):
        op.process(table(start))
        op.add(second)
    given_slices.bind(SCHEMA)
    more = table([event(t, k=k, x=-t) for t in range(8, 40) for k in ("a", "b")])
    slicer = Slicer([first, second], SCHEMA, time="ts", key="k")
    slicer.process(more)
    told.process(more)
    given_slices.process_slices(slicer.take())
    assert rows(given_slices.finish()) == rows(told.finish())


def test_bound_types_are_those_of_results_from_the_start() -> None:
    op = windlass.Operator(windlass.Query("q", windlass.Tumbling("5s"), agg.sum("x")), time="ts", key="k")
    op.bind(pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.int32())]))
    schema = op.finish().schema
    assert schema.field("k").type == pa.string()
    assert schema.field("window").type.field("start").type == pa.timestamp("us", "UTC")
    assert schema.field("q").type.field("sum(x)").type == pa.int64()
