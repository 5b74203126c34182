"""Rows travel narrow, and are mixed by Spark: whatever their columns are called, and however many queries there are."""

import datetime
import re

import pyarrow as pa
import pytest

import windlass
from windlass import Query, agg
from windlass.spark import late_of, results_of, shared_windows
from windlass.spark.views import queries_of

pytestmark = pytest.mark.xdist_group("spark")

UTC = datetime.UTC


def at(second):
    return datetime.datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def events(spark, key="k"):
    times = pa.array([at(1), at(2), at(11), None], pa.timestamp("us", "UTC"))
    return spark.createDataFrame(pa.table({"ts": times, key: ["a", "b", "a", "a"], "v": [1, 2, 4, 8]}))


def test_queries_of_one_shape_and_of_others(spark):
    queries = [
        Query("one", windlass.Tumbling("10s"), agg.sum("v").alias("x")),
        Query("two", windlass.Tumbling("20s"), agg.sum("v").alias("x")),
        Query("another name", windlass.Tumbling("20s"), agg.sum("v").alias("y")),
        Query("another type", windlass.Tumbling("20s"), agg.avg("v").alias("x")),
        Query("counted", windlass.Tumbling(2, measure="count"), agg.count().alias("n")),
    ]
    frame = shared_windows(events(spark), queries, time="ts", key="k")
    found = {}
    for row in frame.where("query is not null").collect():
        filled = {name: row[name].asDict() for name in frame.columns[7:-1] if row[name] is not None}
        assert list(filled) == [row["query"]], "a row fills the struct of its query, and no other"
        assert row["late"] is None
        found.setdefault(row["query"], []).append((row["k"], row["low"], row["high"], filled[row["query"]]))
    assert {query: sorted(rows, key=str) for query, rows in found.items()} == {
        "one": [("a", None, None, {"x": 1}), ("a", None, None, {"x": 4}), ("b", None, None, {"x": 2})],
        "two": [("a", None, None, {"x": 5}), ("b", None, None, {"x": 2})],
        "another name": [("a", None, None, {"y": 5}), ("b", None, None, {"y": 2})],
        "another type": [("a", None, None, {"x": 2.5}), ("b", None, None, {"x": 2.0})],
        "counted": [("a", 0, 2, {"n": 2})],
    }
    [untimed] = late_of(frame).collect()
    assert (untimed["k"], untimed["row"]["v"], untimed["one"]) == ("a", 8, None)


def test_queries_keep_their_order(spark):
    """Whatever order a map of their names would have; whether rows travel narrow or not."""
    names = ["slid", "minutes", "b", "a", "10", "visits", "recent"]
    narrow = [Query(n, windlass.Tumbling("20s"), agg.sum("v").alias("x")) for n in names]
    wide = [Query(n, windlass.Tumbling("20s"), agg.sum("v").alias(f"x{i}")) for i, n in enumerate(names)]
    for queries in (narrow, wide):
        frame = shared_windows(events(spark), queries, time="ts", key="k")
        assert queries_of(frame) == names
        assert late_of(frame).columns[-len(names) :] == names


def test_a_query_of_any_name(spark):
    """Spark puts the values of its variables into texts that it reads; a name is not one."""
    names = ["${spark.app.name}", "it's", "a`b.c", "späť \\n"]
    queries = [Query(n, windlass.Tumbling("20s"), agg.sum("v").alias("x")) for n in names]
    frame = shared_windows(events(spark), queries, time="ts", key="k")
    for name in names:
        assert sorted(row["x"] for row in results_of(frame, name).collect()) == [2, 5]


@pytest.mark.parametrize("key", ["number", "key_0", "shown", "row", "a`b.c", "${spark.app.name}"])
def test_a_key_of_any_name(spark, key):
    queries = [Query(n, windlass.Tumbling("20s"), agg.sum("v").alias("shape_0")) for n in ("number of", "another")]
    frame = shared_windows(events(spark, key), queries, time="ts", key=key)
    windows = results_of(frame, "number of").where("revision = 0").collect()
    assert sorted((row[0], row[4]) for row in windows) == [("a", 5), ("b", 2)]
    assert [row["reason"] for row in late_of(frame).collect()] == ["its time is null"]


def test_a_view_reads_the_columns_of_its_query_only(spark):
    queries = [Query(f"q{n}", windlass.Tumbling(f"{n}s"), agg.sum("v")) for n in range(1, 6)]
    frame = shared_windows(events(spark), queries, time="ts", key="k")
    plan = results_of(frame, "q3")._jdf.queryExecution().optimizedPlan().toString()
    assert re.search(r"number#\d+ = 2", plan)
    assert not re.search(r"number#\d+ = 1", plan)
    assert "shown" not in plan


def test_java_can_compile_what_mixes_the_rows_of_many_queries(spark):
    """It leaves methods of 8000 bytes and more to its interpreter, which takes many times as long."""
    queries = [Query(f"q{n}", windlass.Tumbling(f"{n}s"), agg.sum("v")) for n in range(1, 36)]
    spark.conf.set("spark.sql.adaptive.enabled", False)  # its plans show no code before they run
    try:
        frame = shared_windows(events(spark), queries, time="ts", key="k")
        generated = frame._jdf.queryExecution().debug().codegenToSeq()
        sizes = [generated.apply(i)._3().maxMethodCodeSize() for i in range(generated.size())]
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert sizes
    assert max(sizes) < 8000


def test_queries_of_many_answers(spark):
    answers = [agg.quantile("v", p / 16).alias(f"p{p}") for p in range(17)]
    queries = [Query(f"q{n}", windlass.Tumbling(f"{20 * n}s"), *answers) for n in range(1, 5)]
    frame = shared_windows(events(spark), queries, time="ts", key="k")
    for n in range(1, 5):
        found = results_of(frame, f"q{n}").select("k", "p0", "p8", "p16").collect()
        assert sorted(map(tuple, found)) == [("a", 1.0, 2.5, 4.0), ("b", 2.0, 2.0, 2.0)]


@pytest.mark.parametrize("queries", [1, 2])
def test_rows_without_a_window_as_arrow(spark, queries):
    """Windows that are null have bounds that are; Arrow refuses those if they are said to be never null."""
    asked = [Query(f"q{n}", windlass.Tumbling("20s"), agg.sum("v")) for n in range(queries)]
    found = shared_windows(events(spark), asked, time="ts", key="k").toArrow()
    assert found["window"].null_count == 1
    assert all(field.nullable for field in found.schema.field("window").type)


def test_reserved_words(spark):
    spark.conf.set("spark.sql.ansi.enforceReservedKeywords", True)
    try:
        asked = [Query(n, windlass.Tumbling("20s"), agg.sum("v").alias("end")) for n in ("select", "from")]
        frame = shared_windows(events(spark), asked, time="ts", key="k")
        assert sorted(row["end"] for row in results_of(frame, "select").collect()) == [2, 5]
    finally:
        spark.conf.unset("spark.sql.ansi.enforceReservedKeywords")
