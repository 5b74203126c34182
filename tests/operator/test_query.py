"""Queries: what they accept, what they refuse and why, and how they compare."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow.compute as pc
import pytest

from windlass import agg, windows
from windlass.errors import InvalidArgument, WrongType
from windlass.operator.query import RESERVED, Query, check_queries
from windlass.windows.predicate import Predicate

MINUTE = windows.Tumbling("1m")


def large(table: Any) -> Any:
    return pc.greater(table["v"], 10)


def test_a_query_is_what_it_says():
    query = Query("q", MINUTE, agg.sum("v"), agg.avg("v").alias("mean"), where="paid", emit_empty=True)
    assert (query.name, query.window, query.emit_empty) == ("q", MINUTE, True)
    assert query.aggregates == (agg.sum("v"), agg.avg("v").alias("mean"))
    assert query.columns == ("sum(v)", "mean")
    assert query.where == Predicate.of("paid")
    assert query.on_time
    assert not Query("q", windows.Tumbling(3, measure="count"), agg.count()).on_time
    assert Query("q", MINUTE, agg.count()).where is None


def test_repr():
    query = Query("q", MINUTE, agg.sum("v"), agg.avg("v").alias("mean"), where="paid", emit_empty=True)
    assert repr(query) == "Query('q', Tumbling(1m), sum(v), avg(v).alias('mean'), where='paid', emit_empty=True)"
    assert repr(Query("q", MINUTE, agg.count())) == "Query('q', Tumbling(1m), count())"


def test_queries_are_values():
    a = Query("q", MINUTE, agg.sum("v"), where=pc.field("v") > 1)
    b = Query("q", windows.Tumbling("60s"), agg.sum("v"), where=pc.field("v") > 1)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Query("q", MINUTE, agg.sum("v"))
    assert a != Query("r", MINUTE, agg.sum("v"), where=pc.field("v") > 1)
    assert Query("q", MINUTE, agg.sum("v"), where=large) == Query("q", MINUTE, agg.sum("v"), where=large)
    with pytest.raises(AttributeError):
        a.name = "r"
    with pytest.raises(AttributeError):
        del a.name


@pytest.mark.parametrize("where", [None, "paid", large])
def test_queries_pickle(where):
    query = Query("q", MINUTE, agg.sum("v"), where=where)
    again = pickle.loads(pickle.dumps(query))
    assert again == query
    assert repr(again) == repr(query)


@pytest.mark.parametrize("name", [None, 3, b"q", ["q"]])
def test_names_are_text(name):
    with pytest.raises(WrongType, match="name is text"):
        Query(name, MINUTE, agg.count())


@pytest.mark.parametrize("name", ["", "  ", *RESERVED])
def test_names_that_cannot_be_used(name):
    with pytest.raises(InvalidArgument):
        Query(name, MINUTE, agg.count())


@pytest.mark.parametrize("window", [None, "1m", 60, agg.sum("v"), windows.Tumbling, object()])
def test_what_is_no_window(window):
    with pytest.raises(WrongType, match="query 'q' needs a window"):
        Query("q", window, agg.count())


def test_a_window_that_was_not_made():
    with pytest.raises(WrongType, match=r"call it: Tumbling"):
        Query("q", windows.Tumbling, agg.count())


@pytest.mark.parametrize(
    ("aggregate", "hint"),
    [
        (None, "None is not an"),
        ("sum", "'sum' is not an"),
        (agg.sum, "call it"),
        ([agg.sum("v")], "one by one"),
        (MINUTE, "not an aggregate"),
    ],
)
def test_what_is_no_aggregate(aggregate, hint):
    with pytest.raises(WrongType, match=hint):
        Query("q", MINUTE, aggregate)


def test_aggregates_that_cannot_be_used():
    with pytest.raises(InvalidArgument, match="no aggregates"):
        Query("q", MINUTE)
    with pytest.raises(InvalidArgument, match="does not say which column"):
        Query("q", MINUTE, agg.sum())
    with pytest.raises(InvalidArgument, match=r"two results named 'sum\(v\)'.*alias"):
        Query("q", MINUTE, agg.sum("v"), agg.sum("v"))
    with pytest.raises(InvalidArgument, match="two results named 'x'"):
        Query("q", MINUTE, agg.sum("v").alias("x"), agg.max("v").alias("x"))
    for name in RESERVED:
        with pytest.raises(InvalidArgument, match="another alias"):
            Query("q", MINUTE, agg.sum("v").alias(name))
    assert Query("q", MINUTE, agg.sum("v"), agg.sum("v").alias("again")).columns == ("sum(v)", "again")


@pytest.mark.parametrize("where", [3, ["paid"], object()])
def test_what_is_no_filter(where):
    with pytest.raises(WrongType, match="predicate"):
        Query("q", MINUTE, agg.count(), where=where)


@pytest.mark.parametrize(
    "window",
    [
        windows.Tumbling("1m"),
        windows.Tumbling("1ns"),
        windows.Tumbling("100000 weeks"),
        windows.Tumbling(5),
        windows.Sliding("1m", "7s"),
        windows.Cumulate("1m", "1h"),
        windows.Band("2024-01-01", "1h"),
        windows.Band(5, 10),
    ],
)
def test_windows_that_can_be_empty(window):
    assert Query("q", window, agg.count(), emit_empty=True).emit_empty


@pytest.mark.parametrize(
    "window",
    [
        windows.Tumbling(5, measure="count"),
        windows.Sliding(5, 2, measure="km"),
        windows.Landmark(0, "1m"),
        windows.Session("1m"),
    ],
)
def test_windows_that_cannot_be_empty(window):
    with pytest.raises(InvalidArgument, match="emit_empty needs"):
        Query("q", window, agg.count(), emit_empty=True)


def test_emit_empty_is_a_flag():
    with pytest.raises(WrongType, match="emit_empty"):
        Query("q", MINUTE, agg.count(), emit_empty="yes")


# --------------------------------------------------------------------------- several queries


def test_the_queries_of_an_operator():
    a, b = Query("a", MINUTE, agg.count()), Query("b", MINUTE, agg.count())
    assert check_queries(a) == (a,)
    assert check_queries([a, b], ["user"]) == (a, b)
    assert check_queries(iter([a, b])) == (a, b)
    assert check_queries([]) == ()


@pytest.mark.parametrize("queries", [None, "a", 3, MINUTE, ["a"], [None]])
def test_what_are_no_queries(queries):
    with pytest.raises(WrongType):
        check_queries(queries)


def test_names_that_collide():
    a = Query("a", MINUTE, agg.sum("v").alias("total"))
    with pytest.raises(InvalidArgument, match="two queries named 'a'"):
        check_queries([a, a])
    with pytest.raises(InvalidArgument, match=r"'a' is a key column.*rename the query"):
        check_queries([a], ["a"])
    with pytest.raises(InvalidArgument, match=r"'total' is a key column.*alias"):
        check_queries([a], ["user", "total"])
    with pytest.raises(InvalidArgument, match="key column cannot be named 'window'"):
        check_queries([a], ["window"])
