"""Results: both views hold the same rows, nothing is copied without need, the schema does not depend on the rows."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import agg, aggregate, windows
from windlass.errors import InvalidArgument, UnknownColumn, WrongType
from windlass.operator.keys import KeyIndex
from windlass.operator.query import Query
from windlass.operator.results import Group, Results

A = Query("a", windows.Tumbling(10), agg.sum("v"), agg.count())
B = Query("b", windows.Tumbling(20), agg.sum("v"), agg.count())
C = Query("c", windows.Tumbling(3, measure="count"), agg.collect_list("s").alias("texts"))
ZONED = pa.timestamp("us", "UTC")


def users(*names: Any) -> KeyIndex:
    index = KeyIndex(("user",))
    index.encode([pa.array(names, pa.string())])
    return index


def group(queries: list[Query], rows: list[tuple[int, ...]], values: list[pa.Array]) -> Group:
    """Rows (query, key, start, end[, revision, retraction]); own bounds are a tenth of the times."""
    table = np.array([(*row, 0, 0)[:6] for row in rows], np.int64).reshape(-1, 6)
    query, key, start, end, revision, retraction = table.T.copy()
    return Group(
        queries,
        query.astype(np.int32),
        key,
        start // 10,
        end // 10,
        start,
        end,
        revision,
        retraction.astype(np.bool_),
        values,
    )


def sample(time_type: pa.DataType = pa.int64()) -> Results:  # noqa: B008
    first = group(
        [A, B],
        [(0, 0, 0, 10), (0, 1, 0, 10), (0, 1, 10, 20, 1, 1), (1, 1, 0, 20)],
        [pa.array([1.5, 2.5, None, 4.0]), pa.array([1, 2, 0, 3])],
    )
    second = group([C], [(0, 2, 30, 60)], [pa.array([["x", None]], pa.list_(pa.string()))])
    return Results([first, second], users("ann", "bob", None), time_type)


# --------------------------------------------------------------------------- one query


def test_the_rows_of_one_query():
    results = sample()
    assert len(results) == 5
    assert results.queries == ("a", "b", "c")
    assert "a" in results
    assert "z" not in results
    assert results["a"].to_pylist() == [
        {"user": "ann", "window": {"start": 0, "end": 10}, "revision": 0, "retraction": False}
        | {"sum(v)": 1.5, "count()": 1},
        {"user": "bob", "window": {"start": 0, "end": 10}, "revision": 0, "retraction": False}
        | {"sum(v)": 2.5, "count()": 2},
        {"user": "bob", "window": {"start": 10, "end": 20}, "revision": 1, "retraction": True}
        | {"sum(v)": None, "count()": 0},
    ]
    assert results["b"]["sum(v)"].to_pylist() == [4.0]


def test_windows_on_another_measure_report_their_own_bounds():
    assert sample()["c"].to_pylist() == [
        {"user": None, "window": {"start": 30, "end": 60}, "low": 3, "high": 6}
        | {"revision": 0, "retraction": False, "texts": ["x", None]}
    ]


def test_window_bounds_have_the_type_of_the_time():
    table = sample(ZONED)["a"]
    assert table.schema.field("window").type == pa.struct([("start", ZONED), ("end", ZONED)])
    assert table["window"][0].as_py()["end"] == dt.datetime(1970, 1, 1, 0, 0, 0, 10, tzinfo=dt.UTC)


def test_unknown_queries_say_what_there_is():
    with pytest.raises(UnknownColumn, match=r"no query 'z'; there are \['a', 'b', 'c'\]"):
        sample()["z"]
    with pytest.raises(KeyError):
        sample().schema_of("z")


def test_values_and_bounds_are_not_copied():
    revision = np.arange(4)
    values = pa.array([1.0, 2.0, 3.0, 4.0])
    none = np.zeros(4, np.int64)
    made = Group(
        [A, B], np.array([0, 0, 1, 1], np.int32), none, none, none, none, none, revision, none > 0, [values] * 2
    )
    table = Results([made], KeyIndex(), pa.int64())["b"]
    assert table["revision"].chunk(0).buffers()[1].address == revision.ctypes.data + 16
    assert table["sum(v)"].chunk(0).buffers()[1].address == values.buffers()[1].address
    assert table["sum(v)"].to_pylist() == [3.0, 4.0]


def test_only_the_keys_that_are_asked_for_are_decoded(monkeypatch):
    results = sample()
    decoded = []
    decode = KeyIndex.decode
    monkeypatch.setattr(KeyIndex, "decode", lambda self, ids: decoded.append(len(ids)) or decode(self, ids))
    assert len(results) == 5
    assert decoded == []
    assert results["b"].num_rows == 1
    assert results["b"].num_rows == 1
    assert decoded == [1]


def test_keys_that_come_later_change_nothing():
    keys = users("ann")
    results = Results([group([A], [(0, 0, 0, 10)], [pa.array([1.0]), pa.array([1])])], keys, pa.int64())
    keys.encode([pa.array([f"user {i}" for i in range(1000)])])
    assert results["a"]["user"].to_pylist() == ["ann"]


# --------------------------------------------------------------------------- all queries


def test_the_mixed_table():
    table = sample().to_arrow()
    table.validate(full=True)
    names = ["user", "query", "window", "low", "high", "revision", "retraction", "a", "b", "c"]
    assert table.column_names == names
    assert table["query"].to_pylist() == ["a", "a", "a", "b", "c"]
    assert table["user"].to_pylist() == ["ann", "bob", "bob", "bob", None]
    assert table["low"].to_pylist() == [None, None, None, None, 3]
    assert table["high"].to_pylist() == [None, None, None, None, 6]
    assert table["a"].to_pylist()[2:] == [{"sum(v)": None, "count()": 0}, None, None]
    assert table["b"].to_pylist() == [None, None, None, {"sum(v)": 4.0, "count()": 3}, None]
    assert table["c"].to_pylist() == [None] * 4 + [{"texts": ["x", None]}]
    assert table["a"].null_count == 2


VALUE_TYPES = {
    "int8": pa.array([1], pa.int8()),
    "bool": pa.array([True]),
    "double": pa.array([1.5]),
    "string": pa.array(["x"]),
    "large_string": pa.array(["x"], pa.large_string()),
    "large_binary": pa.array([b"x"], pa.large_binary()),
    "fixed": pa.array([b"xy"], pa.binary(2)),
    "decimal": pa.array([1], pa.decimal256(50, 2)),
    "timestamp": pa.array([1], ZONED),
    "list": pa.array([[1, 2]]),
    "strings": pa.array([["x"]]),
    "struct": pa.array([{"a": 1, "b": ["x"], "c": {"d": None}}]),
    "null": pa.nulls(1),
    "dictionary": pa.array(["x"]).dictionary_encode(),
}


@pytest.mark.parametrize("name", VALUE_TYPES)
def test_answers_of_any_type_leave_the_other_rows_null(name):
    x = Query("x", windows.Tumbling(1), agg.last("v"))
    many = group([A], [(0, 0, t, t + 10) for t in range(100)], [pa.array([1.0] * 100), pa.array([1] * 100)])
    one = group([x], [(0, 0, 0, 1)], [VALUE_TYPES[name]])
    results = Results([many, one, many], users("ann"), pa.int64())
    table = results.to_arrow()
    table.validate(full=True)
    expected = VALUE_TYPES[name].to_pylist()[0]
    assert table["x"].to_pylist() == [None] * 100 + [{"last(v)": expected}] + [None] * 100
    again = pa.table(results)
    assert again.equals(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().equals(table)


def test_a_thousand_queries_cost_no_more_memory_than_their_answers():
    queries = [Query(f"q{i}", windows.Tumbling(10), agg.sum("v")) for i in range(1000)]
    n = 100_000
    none, whose = np.zeros(n, np.int64), np.repeat(np.arange(1000, dtype=np.int32), n // 1000)
    made = Group(queries, whose, none, none, none, none, none, none, none > 0, [pa.array(np.arange(n))])
    before = pa.total_allocated_bytes()
    table = Results([made], KeyIndex(), pa.int64()).to_arrow()
    assert pa.total_allocated_bytes() - before < 50 * 2**20  # 8 bytes of nulls a row and query would be 800 MB
    assert table["q500"].drop_null().to_pylist() == [{"sum(v)": v} for v in range(50_000, 50_100)]


def test_rows_as_dicts():
    rows = list(sample())
    assert len(rows) == 5
    assert rows[0] == {
        "user": "ann",
        "query": "a",
        "window": {"start": 0, "end": 10},
        "revision": 0,
        "retraction": False,
        "sum(v)": 1.5,
        "count()": 1,
    }
    assert list(rows[0])[:2] == ["user", "query"]
    assert rows[-1]["query"] == "c"


def test_pandas_and_polars():
    results = sample(ZONED)
    assert results.to_pandas()["query"].tolist() == ["a", "a", "a", "b", "c"]
    assert results.to_pandas("a")["count()"].tolist() == [1, 2, 0]
    assert results.to_polars()["query"].to_list() == ["a", "a", "a", "b", "c"]
    assert results.to_polars("a")["count()"].to_list() == [1, 2, 0]
    assert pl.DataFrame(results).height == 5
    with pytest.raises(UnknownColumn):
        results.to_pandas("z")


def test_frames_have_plain_columns_for_windows():
    results = sample(ZONED)
    for name in (None, "a", "c"):
        pandas, polars = results.to_pandas(name), results.to_polars(name)
        table = results.to_arrow() if name is None else results[name]
        at = table.column_names.index("window")
        names = [*table.column_names[:at], "start", "end", *table.column_names[at + 1 :]]
        assert list(pandas.columns) == names == polars.columns
        for i, bound in enumerate(("start", "end")):
            times = table["window"].combine_chunks().flatten()[i]
            assert pandas[bound].tolist() == times.to_pandas().tolist()
            assert str(pandas[bound].dtype) == str(times.to_pandas().dtype)
            assert polars[bound].to_list() == times.to_pylist()
    numbers = sample(pa.int64()).to_pandas("a")
    assert numbers["start"].dtype == numbers["end"].dtype == "int64"
    none = Results.empty([A, C], KeyIndex(("user",)))
    assert list(none.to_pandas("a").columns)[:3] == ["user", "start", "end"]


def test_names_of_window_columns_never_collide():
    query = Query("q", windows.Tumbling(10), agg.count().alias("end"))
    frame = aggregate({"start": ["a"], "ts": [3]}, query, time="ts", key="start").to_pandas("q")
    assert list(frame.columns) == ["start", "window.start", "window.end", "revision", "retraction", "end"]
    assert frame.iloc[0].tolist() == ["a", 0, 10, 0, False, 1]


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_what_is_not_installed_is_named(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"needs {module}"):
        getattr(sample(), f"to_{module}")()


# --------------------------------------------------------------------------- nothing


def test_the_schema_does_not_depend_on_the_rows():
    results = sample(ZONED)
    none = Results(
        [
            Group.empty([A, B], [pa.float64(), pa.int64()]),
            Group.empty([C], [pa.list_(pa.string())]),
        ],
        users("ann"),
        ZONED,
    )
    assert len(none) == 0
    assert none.schema == results.schema == results.to_arrow().schema == none.to_arrow().schema
    for name in results.queries:
        assert none[name].schema == results[name].schema == none.schema_of(name)
        assert none[name].num_rows == 0
    assert list(none) == []


def test_before_anything_is_known():
    none = Results.empty([A, C], KeyIndex(("user",)))
    assert len(none) == 0
    assert none.queries == ("a", "c")
    assert none.to_arrow().num_rows == 0
    assert none["c"].column_names == ["user", "window", "low", "high", "revision", "retraction", "texts"]
    assert none.to_pandas().empty
    assert none.to_polars().height == 0
    assert repr(none) == "Results: 0 rows of 2 queries"
    assert (none + sample(ZONED)).queries == ("a", "c", "b")
    assert (none + sample(ZONED))["a"].schema == sample(ZONED)["a"].schema


def test_no_queries_at_all():
    none = Results([], KeyIndex(), None)
    assert len(none) == 0
    assert none.to_arrow().column_names == ["query", "window", "low", "high", "revision", "retraction"]
    assert list(none) == []
    assert repr(none) == "Results: 0 rows of 0 queries"


# --------------------------------------------------------------------------- together


def test_concatenation():
    one, two = sample(), sample()
    both = one + two
    assert len(both) == 10
    assert both["a"].equals(pa.concat_tables([one["a"], two["a"]]))
    assert both.to_arrow().equals(pa.concat_tables([one.to_arrow(), two.to_arrow()]))
    assert Results.concat([one]).to_arrow().equals(one.to_arrow())
    assert sum([two], one).to_arrow().equals(both.to_arrow())


def test_concatenation_of_operators_with_their_own_ids():
    a = Results([group([A], [(0, 0, 0, 10)], [pa.array([1.0]), pa.array([1])])], users("ann"), pa.int64())
    b = Results([group([A], [(0, 0, 0, 10)], [pa.array([1.0]), pa.array([1])])], users("bob"), pa.int64())
    assert (a + b)["a"]["user"].to_pylist() == (a + b).to_arrow()["user"].to_pylist() == ["ann", "bob"]


def test_what_was_not_known_is_filled_in():
    early = Results([group([A], [(0, 0, 0, 10)], [pa.nulls(1), pa.array([0])])], users("ann"), pa.int64())
    both = early + sample()
    assert both["a"]["sum(v)"].to_pylist() == [None, 1.5, 2.5, None]
    assert both.to_arrow()["a"][0].as_py() == {"sum(v)": None, "count()": 0}
    nothing = Results.empty([A, B, C], KeyIndex(("user",)))
    assert (nothing + sample(ZONED)).to_arrow().equals(sample(ZONED).to_arrow())


def test_what_does_not_fit_together():
    other_key = Results.empty([A], KeyIndex(("account",)))
    other_aggregates = Results.empty([Query("a", windows.Tumbling(1), agg.max("v"))], KeyIndex(("user",)))
    other_values = Results([group([A], [], [pa.array([], pa.int64()), pa.array([], pa.int64())])], users("ann"), None)
    for other in (other_key, other_aggregates, other_values, sample(ZONED)):
        with pytest.raises(InvalidArgument):
            sample() + other
    with pytest.raises(TypeError):
        sample() + 3
    with pytest.raises(WrongType):
        Results.concat([sample(), None])
    with pytest.raises(InvalidArgument):
        Results.concat([])


rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-50, 50)), max_size=30)


@given(st.lists(rows, max_size=4))
def test_the_mixed_table_holds_the_rows_of_all_queries(batches):
    queries = [Query(f"q{i}", windows.Tumbling(10), agg.sum("v")) for i in range(3)]
    keys = users("ann", "bob", None, "")
    parts = []
    for batch in batches:
        ordered = sorted(batch)
        values = pa.array([v for *_, v in ordered], pa.int64())
        made = group(queries, [(q, k, v, v + 10) for q, k, v in ordered], [values])
        parts.append(Results([made], keys, pa.int64()))
    results = Results.concat(parts) if parts else Results.empty(queries, keys, pa.int64())
    table = results.to_arrow()
    table.validate(full=True)
    assert table.num_rows == len(results) == sum(map(len, batches))
    for name in results.queries:
        own = table.filter(pa.compute.equal(table["query"], name))
        assert own["user"].to_pylist() == results[name]["user"].to_pylist()
        assert [row and row["sum(v)"] for row in own[name].to_pylist()] == results[name]["sum(v)"].to_pylist()
        assert own["window"].to_pylist() == results[name]["window"].to_pylist()
        assert table[name].null_count == len(results) - own.num_rows


# --------------------------------------------------------------------------- to read


def test_repr_is_a_small_table():
    assert repr(sample()) == "\n".join(
        [
            "Results: 5 rows of 3 queries",
            "a: 3 rows",
            "  user  start  end  revision  retraction  sum(v)  count()",
            "  ann   0      10   0         False       1.5     1",
            "  bob   0      10   0         False       2.5     2",
            "  bob   10     20   1         True        None    0",
            "b: 1 row",
            "  user  start  end  sum(v)  count()",
            "  bob   0      20   4.0     3",
            "c: 1 row",
            "  user  start  end  low  high  texts",
            "  None  30     60   3    6     ['x', None]",
        ]
    )


def test_repr_stays_small():
    queries = [Query(f"q{i}", windows.Tumbling(10), agg.last("s")) for i in range(50)]
    many = [(q, 0, t, t + 10) for q in range(50) for t in range(100)]
    values = pa.array(["long\ntext " * 100] * len(many))
    shown = repr(Results([group(queries, many, [values])], users("ann"), pa.int64()))
    assert "… 95 more" in shown
    assert "and 44 more queries" in shown
    assert len(shown.splitlines()) < 60
    assert max(map(len, shown.splitlines())) < 120


def test_times_that_python_does_not_have_are_shown():
    far = group([A], [(0, 0, 2**61, 2**61 + 1)], [pa.array([1.0]), pa.array([1])])
    assert "2305843009213693952" in repr(Results([far], users("ann"), pa.int64()))
    assert "2305843009213693952" in repr(Results([far], users("ann"), ZONED))


def test_html_is_escaped():
    query = Query("<script>", windows.Tumbling(10), agg.last("s").alias("<b>"))
    shown = Results([group([query], [(0, 0, 0, 10)], [pa.array(["<i>"])])], users("<u>"), pa.int64())._repr_html_()
    for tag in ("<script>", "<b>", "<i>", "<u>"):
        assert tag not in shown
    assert "&lt;i&gt;" in shown
    assert "<table>" in shown


# --------------------------------------------------------------------------- groups


def test_groups_that_contradict_themselves():
    with pytest.raises(InvalidArgument, match="sorted by query"):
        group([A, B], [(1, 0, 0, 10), (0, 0, 0, 10)], [pa.array([1.0, 2.0]), pa.array([1, 2])])
    with pytest.raises(InvalidArgument, match="length"):
        group([A], [(0, 0, 0, 10)], [pa.array([1.0, 2.0]), pa.array([1])])
    with pytest.raises(InvalidArgument, match="1 results"):
        group([A], [(0, 0, 0, 10)], [pa.array([1.0])])
