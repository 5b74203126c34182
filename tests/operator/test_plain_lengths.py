"""Plain integers as lengths over timestamps: refused, with what to write instead."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from windlass import (
    Band,
    Cumulate,
    FineGrained,
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
)
from windlass.errors import InvalidArgument, WrongType

AT = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
EVENTS = pa.table({"ts": [AT, AT + datetime.timedelta(seconds=90)], "x": [1, 2]})
MINUTE = datetime.timedelta(minutes=1)


@pytest.mark.parametrize(
    "window, fix",
    [
        (Tumbling(60), "Tumbling('60s')"),
        (Sliding(60, 1), "Sliding('60s', '1s')"),
        (Sliding("1m", 5), "Sliding('1m', '5s')"),
        (Sliding("1m", "5s", offset=3), "Sliding('1m', '5s', offset='3s')"),
        (Cumulate(10, 60), "Cumulate('10s', '60s')"),
        (Band("2024-05-01", 60), "Band('2024-05-01T00:00:00', '60s')"),
        (Landmark("2024-05-01", 60), "Landmark('2024-05-01T00:00:00', '60s')"),
        (Session(5), "Session('5s')"),
        (SlideByTuple(5, 2), "SlideByTuple('5s', 2)"),
        (LastN(10, 5), "LastN(10, '5s')"),
        (Snapshot(8), "Snapshot('8s')"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("order", ["out-of-order", "in-order"])
def test_windows(window: Any, fix: str, order: Any) -> None:
    query = Query("q", window, agg.sum("x"))
    op = Operator(query, time="ts", order=order)
    with pytest.raises(WrongType) as refused:
        op.process(EVENTS)
    assert f"write {fix}" in str(refused.value) and "query 'q'" in str(refused.value)
    assert f"'{next(n for n in (3, 8, 5, 10, 60) if f'{n}us' in str(refused.value))}us'" in str(refused.value)
    assert op.counters["events"] == 0
    with pytest.raises(WrongType):
        op.bind(EVENTS.schema)
    if not any(isinstance(value, str) for value in vars(window).values() if value != "time"):
        op.process({"ts": [0, 90], "x": [1, 2]})  # its times may still be integers


@pytest.mark.parametrize("measure", ["count", "x"])
def test_on_other_measures_integers_are_what_they_are(measure: str) -> None:
    op = Operator(Query("q", Sliding(2, 1, measure=measure), agg.sum("x")), time="ts")
    op.process(EVENTS)
    assert len(op.finish()) >= 1


@pytest.mark.parametrize(
    "options, what",
    [
        ({"allowed_lateness": 5}, "allowed_lateness is the plain integer 5.*'5s' for seconds.*'5us'"),
        ({"key_ttl": 10**9}, "key_ttl is the plain integer 1000000000"),
        ({"watermarks": Watermarks(2)}, "`delay` of Watermarks is the plain integer 2"),
        ({"watermarks": Watermarks("2s", 3)}, "`every` of Watermarks is the plain integer 3"),
    ],
    ids=["allowed_lateness", "key_ttl", "delay", "every"],
)
def test_options(options: dict[str, Any], what: str) -> None:
    op = Operator(Query("q", Tumbling("1m"), agg.sum("x")), time="ts", **options)
    for call in (lambda: op.process(EVENTS), lambda: op.bind(EVENTS.schema)):
        with pytest.raises(WrongType, match=what):
            call()
    assert op.counters["events"] == 0


def test_a_plain_key_ttl_that_is_too_short_names_both_units() -> None:
    with pytest.raises(InvalidArgument, match=r"key_ttl=600 .* at least '1m', or to 60000000 if times are integers"):
        Operator(Query("q", Tumbling("1m"), agg.sum("x")), time="ts", key="k", key_ttl=600)


def test_zero_is_zero_in_any_unit() -> None:
    options: dict[str, Any] = {"allowed_lateness": 0, "watermarks": Watermarks(0)}
    op = Operator(Query("q", Tumbling("1m", offset=0), agg.sum("x")), time="ts", **options)
    op.process(EVENTS)
    assert len(op.finish()) == 2


def test_an_added_query() -> None:
    op = Operator(Query("q", Tumbling(MINUTE), agg.sum("x")), time="ts")
    op.process(EVENTS)
    with pytest.raises(WrongType, match=r"query 'r': `size` of Tumbling\(60\)"):
        op.add(Query("r", Tumbling(60), agg.sum("x")))
    assert [query.name for query in op.queries] == ["q"]


def test_a_state_goes_on() -> None:
    op = Operator(Query("q", Tumbling(MINUTE), agg.sum("x")), time="ts", allowed_lateness="5s", key_ttl="1h")
    op.process(EVENTS)
    again = Operator(op.queries, time="ts", allowed_lateness="5s", key_ttl="1h").restore(op.snapshot())
    again.process(EVENTS)
    assert len(again.finish()) == 2


def test_a_window_an_event() -> None:
    given = FineGrained({"s": agg.sum("x")}, time="ts", span=60)
    with pytest.raises(WrongType, match=r"span is the plain integer 60.*'60s'"):
        given.process(EVENTS)
    assert given.process({"ts": [0, 90], "x": [1, 2]}).num_rows == 2
