"""The frame that comes out: its columns and types, figures about the stream, quiet keys, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracle import Session, Sliding, Tumbling
from pyspark.sql import functions as F
from pyspark.sql import types as T

import windlass
from tests.spark.streams import (
    BASE,
    MS,
    SCHEMA,
    Asked,
    Files,
    assert_like_the_oracle,
    events,
    expected,
    marked,
    read_stream,
    run,
    stream,
    table,
)
from windlass import Query, agg
from windlass.errors import InvalidArgument, UnknownColumn, WindlassError, WrongType
from windlass.spark import late_of, queries_of, results_of, shared_windows

pytestmark = pytest.mark.xdist_group("spark")

COUNT = Query("t", windlass.Tumbling("10ms"), agg.count().alias("n"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("layout"), stream(100, batches=2, size=40))


@pytest.fixture
def batch(spark, files):
    return spark.read.parquet(str(files.path))


@pytest.fixture
def streaming(spark, files):
    return read_stream(spark, files, 10)


# --------------------------------------------------------------------------- schema


def test_schema(batch, streaming):
    queries = [
        Query("a", windlass.Tumbling("10ms"), agg.sum("x"), agg.avg("f").alias("mean"), agg.m4("f")),
        Query("b c", windlass.Sliding(10, 5, measure="count"), agg.collect_list("s"), agg.last("k")),
    ]
    for frame in (batch, streaming):
        mixed = shared_windows(frame, queries, time="ts", key=["j", "flag"])
        assert mixed.isStreaming == frame.isStreaming
        types = {f.name: f.dataType.simpleString() for f in mixed.schema}
        assert types == {
            "j": "int",
            "flag": "boolean",
            "query": "string",
            "window": "struct<start:timestamp,end:timestamp>",
            "low": "bigint",
            "high": "bigint",
            "revision": "bigint",
            "retraction": "boolean",
            "a": "struct<sum(x):bigint,mean:double,m4(f):struct<min:double,max:double,first:double,last:double>>",
            "b c": "struct<collect_list(s):array<string>,last(k):string>",
            "late": types["late"],
        }
        late = mixed.schema["late"].dataType
        assert [(f.name, f.dataType.simpleString()) for f in late][:4] == [
            ("reason", "string"),
            ("events", "bigint"),
            ("first", "timestamp"),
            ("last", "timestamp"),
        ]
        assert queries_of(mixed) == ["a", "b c"]
        assert results_of(mixed, "b c").columns[:6] == ["j", "flag", "window", "low", "high", "revision"]
        with pytest.raises(UnknownColumn, match="no query 'c'"):
            results_of(mixed, "c")
        with pytest.raises(UnknownColumn, match="no query 'late'"):
            results_of(mixed, "late")
    for view in (results_of, late_of, queries_of):
        with pytest.raises(InvalidArgument, match="not a frame of shared_windows"):
            view(batch, "a") if view is results_of else view(batch)


KEYS = {
    "text": (pa.string(), ["a", None, "", "ä\0"]),
    "binary": (pa.binary(), [b"a", None, b"", b"\xff"]),
    "bool": (pa.bool_(), [True, None, False]),
    "tiny": (pa.int8(), [1, None, -128]),
    "big": (pa.int64(), [2**62, None, -1]),
    "float": (pa.float64(), [0.5, None, float("inf")]),
    "date": (pa.date32(), [pa.scalar(1, pa.date32()).as_py(), None]),
    "moment": (pa.timestamp("us", "UTC"), [pa.scalar(BASE, pa.timestamp("us", "UTC")).as_py(), None]),
    "decimal": (pa.decimal128(20, 3), [pa.scalar("1.250").cast(pa.decimal128(20, 3)).as_py(), None]),
}


def test_key_types(spark):
    """Whatever Spark can group by in a column, all in one key."""
    random = Random(1)
    rows = [{name: random.choice(values) for name, (_, values) in KEYS.items()} for _ in range(60)]
    columns = {name: pa.array([row[name] for row in rows], type_) for name, (type_, _) in KEYS.items()}
    times = pa.array([BASE + random.randrange(20) * MS for _ in rows], pa.timestamp("us", "UTC"))
    frame = spark.createDataFrame(pa.table({"ts": times, **columns}))
    names = list(KEYS)
    mixed = shared_windows(frame, COUNT, time="ts", key=names, buckets=3)
    ours = results_of(mixed, "t", history=False)
    native = frame.groupBy(*names, F.window("ts", "10 milliseconds")).agg(F.count(F.lit(1)).alias("n"))
    assert [f.dataType for f in ours.schema] == [f.dataType for f in native.schema]
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, native.collect()))


def test_names_with_dots_and_spaces(spark):
    frame = spark.createDataFrame(table(stream(101, batches=1, size=20)[0])).toDF(
        *["the time", "k.ey", "number j", *SCHEMA.names[3:]]
    )
    query = Query("a.b", windlass.Tumbling("10ms"), agg.sum("x").alias("x.y"), agg.max("number j"))
    mixed = shared_windows(frame, query, time="the time", key="k.ey")
    got = results_of(mixed, "a.b")
    assert got.columns == ["k.ey", "window", "revision", "retraction", "x.y", "max(number j)"]
    assert got.count() > 0
    assert late_of(mixed).columns == ["k.ey", "reason", "events", "first", "last", "row", "a.b"]


def test_empty_input(spark, tmp_path):
    frame = spark.createDataFrame(table([]))
    assert shared_windows(frame, COUNT, time="ts", key="k").count() == 0
    assert shared_windows(frame, COUNT, time="ts").count() == 0


# --------------------------------------------------------------------------- figures, quiet keys, null times


def test_figures(spark, tmp_path):
    batches = stream(110, batches=4, size=50, how_late=120)
    asked = [Asked("t", Sliding(10 * MS, 5 * MS), ("sum",)), Asked("s", Session(MS), ("list",))]
    files = Files(tmp_path / "in", batches)
    got = run(spark, files, [a.for_windlass() for a in asked], tmp_path / "checkpoint", delay=10, key="k", buckets=2)
    want = expected(batches, asked, delay=10, key=("k",))
    assert_like_the_oracle(got, asked, want, ("k",))
    assert sorted(got.figures) == list(range(4))
    held = ["slices", "tuples", "keys", "open_windows", "state_bytes"]
    for n, batch in enumerate(batches):
        figures = got.figures[n]
        assert figures["events"] == len(batch)
        assert figures["late"] == want.came_late[n]
        assert figures["expired"] == len(want.expired[n])
        assert figures["rows"] == got.tables[n].num_rows
        assert set(figures) == {"events", "late", "expired", "rows", "watermark", *held}
        assert figures["keys"] == len({row["k"] for b in batches[: n + 1] for row in b}) == 3
        assert figures["state_bytes"] > 0 and figures["open_windows"] > 0
    marks = [figures["watermark"] for _, figures in sorted(got.figures.items())]
    greatest = [max(row["ts"] for batch in batches[: n + 1] for row in batch) for n in range(4)]
    assert marks == [ts // MS - 10 for ts in greatest]
    assert all(figures["tuples"] > 0 for figures in got.figures.values())  # for the lists
    assert sum(want.came_late) >= sum(map(len, want.expired)) > 0


def test_figures_of_slices(spark, tmp_path):
    """Late events are counted as such where slices travel in their place."""
    batches = stream(111, batches=3, size=80, how_late=40)
    asked = [Asked("t", Sliding(10 * MS, 5 * MS), ("sum",)), Asked("l", Sliding(40 * MS, 20 * MS), ("events",))]
    files = Files(tmp_path / "in", batches)
    got = run(spark, files, [a.for_windlass() for a in asked], tmp_path / "checkpoint", delay=10, key="k", buckets=2)
    want = expected(batches, asked, delay=10, key=("k",))
    assert_like_the_oracle(got, asked, want, ("k",))
    figures = [got.figures[n] for n in sorted(got.figures)]
    assert [f["events"] for f in figures] == [80, 80, 80]
    assert [f["expired"] for f in figures] == [len(ids) for ids in want.expired]
    # A slice has come late if its last event has.
    came_late = [0]
    for batch, (_, before) in zip(batches[1:], marked(batches, 10), strict=False):
        slices = defaultdict(list)
        for row in batch:
            slices[row["k"], row["ts"] // (5 * MS)].append(row["ts"])
        came_late.append(sum(len(times) for times in slices.values() if max(times) < before))
    assert [f["late"] for f in figures] == came_late and sum(came_late) > 0
    assert all(f["tuples"] == 0 for f in figures)
    assert any(f["slices"] for f in figures)


def test_quiet_keys_and_null_times(spark, tmp_path):
    """A key with one early event emits when the watermark, which others move, has passed; also in a bucket where
    nothing happens any more. Events without a time are reported, and stop nothing."""
    random = Random(2)
    batches = [
        events([BASE + n * MS for n in range(8)], random, 0, [f"quiet {n}" for n in range(40)]),
        events([BASE + 8 * MS, BASE + 9 * MS], random, 100, ["loud"]),
        events([BASE + 30 * MS, BASE + 31 * MS], random, 200, ["loud"]),
        events([BASE + 60 * MS], random, 300, ["loud"]),
    ]
    for n, row in enumerate(batches[0]):
        row["k"] = f"quiet {n}"
    # The last of the session windows needs the watermark past its end.
    asked = [Asked("t", Tumbling(10 * MS), ("events",)), Asked("s", Session(5 * MS), ("events",))]
    timeless = [events([BASE], random, 1000 + n, [k])[0] | {"ts": None} for n, k in enumerate(["quiet 0", None, "new"])]
    files = Files(tmp_path / "in", [batches[0], [*batches[1], *timeless], *batches[2:]])
    options = {"key": "k", "buckets": 7}
    got = run(spark, files, [a.for_windlass() for a in asked], tmp_path / "checkpoint", delay=0, **options)
    want = expected(batches, asked, delay=0, key=("k",))
    for n, due in enumerate(want.rows):
        assert got.tables[n].num_rows - got.late(n).num_rows == len(due)
    quiet = {row.key: n for n, rows in enumerate(want.rows) for row in rows if row.key != ("loud",)}
    assert len(quiet) == 8
    late = got.late()
    assert late["reason"].to_pylist() == ["its time is null"] * 3
    assert sorted(str(row["k"]) for row in late["row"].to_pylist()) == ["None", "new", "quiet 0"]
    assert got.late(1).num_rows == 3
    assert got.figures[1]["events"] == 5 and got.figures[1]["expired"] == 3


def test_null_times_beside_slices(spark, tmp_path):
    rows = stream(120, batches=1, size=20)[0]
    timeless = [row | {"ts": None, "id": 500 + row["id"]} for row in rows[:3]]
    asked = Asked("t", Tumbling(10 * MS), ("events",))
    frame = spark.createDataFrame(table(rows + timeless))
    mixed = shared_windows(frame, asked.for_windlass(), time="ts", key="k").persist()
    assert late_of(mixed).count() == 3
    assert results_of(mixed, "t").agg(F.sum("events")).first()[0] == 20
    assert {r.reason for r in late_of(mixed).collect()} == {"its time is null"}
    mixed.unpersist()


# --------------------------------------------------------------------------- what is refused


def refused(frame, queries=COUNT, error=WindlassError, match=None, **options):
    with pytest.raises(error, match=match) as caught:
        shared_windows(frame, queries, **({"time": "ts", "key": "k"} | options))
    assert isinstance(caught.value, WindlassError)


def test_watermarks(spark, files, streaming):
    bare = spark.readStream.schema(streaming.schema).parquet(str(files.path))
    plain = T.StructType([T.StructField(f.name, f.dataType) for f in streaming.schema])
    bare = spark.readStream.schema(plain).parquet(str(files.path))
    refused(bare, match=r"no watermark on 'ts'.*watermark='10 seconds'")
    other = bare.withColumn("other", F.col("ts")).withWatermark("other", "1 second")
    refused(other, match="there is one on 'other'")
    refused(bare.withColumn("ts", F.col("id")), error=WrongType, match="a stream's time is a timestamp")


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_columns(kind, batch, streaming):
    frame = batch if kind == "batch" else streaming
    refused(frame, error=UnknownColumn, match="'when'", time="when")
    refused(frame, error=UnknownColumn, match="'who'", key="who")
    refused(frame, error=UnknownColumn, match="'who'", key=["k", "who"])
    refused(frame, error=UnknownColumn, match="'nth'", sequence="nth")
    tumbling = windlass.Tumbling("10ms")
    refused(frame, Query("q", tumbling, agg.sum("nope")), error=UnknownColumn, match="query 'q' reads 'nope'")
    refused(frame, Query("q", windlass.Tumbling(5, measure="nope"), agg.count()), error=UnknownColumn, match="nope")
    refused(frame, Query("q", tumbling, agg.count(), where="nope"), error=UnknownColumn, match="nope")
    refused(frame, Query("q", tumbling, agg.count(), where=pc.field("nope") > 1), error=UnknownColumn, match="nope")
    refused(frame, Query("q", windlass.Punctuation("nope"), agg.count()), error=UnknownColumn, match="nope")
    refused(frame, Query("q", tumbling, agg.sum("s")), error=WrongType, match="s")
    refused(frame, Query("q", windlass.Tumbling(5, measure="s"), agg.count()), error=WrongType, match="s")
    refused(frame, Query("q", tumbling, agg.count(), where="x"), error=WrongType)
    refused(frame, error=WrongType, match="sequence|'f'", sequence="f")


def test_keys(batch):
    nested = batch.withColumns({"nested": F.struct("k", "j"), "many": F.array("k"), "map": F.create_map("k", "j")})
    for key in ("nested", "many", "map"):
        refused(nested, error=WrongType, match=key, key=key)
    refused(batch.withColumnRenamed("k", "window"), match="window", key="window")
    refused(batch.withColumnRenamed("k", "late"), match="late", key="late")
    refused(batch.withColumnRenamed("k", "Query"), match="one name to Spark", key="Query")
    refused(batch, key=["k", "k"], match="k")


def test_queries(batch):
    tumbling = windlass.Tumbling("10ms")
    refused(batch, [COUNT, COUNT], match="two queries named 't'")
    refused(batch, Query("late", tumbling, agg.count()), match="late")
    refused(batch, Query("k", tumbling, agg.count()), match="'k' is a key column")
    refused(batch, [COUNT, Query("T", tumbling, agg.count())], match="one name to Spark")
    refused(batch, "t", error=WrongType)
    refused([1, 2], error=WrongType, match="Spark DataFrame")


def test_no_queries(batch):
    refused(batch, [], match="quer")


def test_aggregates_whose_names_differ_by_case(batch):
    """One name to Spark, which could not tell the columns of `results_of` apart."""
    query = Query("q", windlass.Tumbling("10ms"), agg.count().alias("n"), agg.sum("x").alias("N"))
    refused(batch, query, match="one name to Spark")


def test_options(batch):
    for buckets in (0, -1, 1.5, True, "2"):
        refused(batch, match="buckets", buckets=buckets)
    for late in ("drop", None, True):
        refused(batch, match="late", late=late)
    for lateness in (-1, "soon", -5.0):
        refused(batch, allowed_lateness=lateness)


# --------------------------------------------------------------------------- functions of a program

PROGRAM = """
import pyarrow as pa, pyarrow.compute as pc
import windlass
from windlass import agg
from windlass.spark import results_of, session, shared_windows

OFFSET = 10

def shifted(x):
    return x + OFFSET

def added(a, b):
    return a + b

def is_even(table):
    return pc.equal(pc.bit_wise_and(table["x"], 1), 0)

def three_at_a_time(state, ts):
    return (state[0] + 1,), 1 if state[0] % 3 == 0 else 0, 1 if state[0] and state[0] % 3 == 0 else 0

class Threshold:
    def __init__(self, least):
        self.least = least
    def __call__(self, table):
        return pc.greater_equal(table["x"], self.least)

if __name__ == "__main__":
    total = agg.define("total", lift=shifted, combine=added)
    spark = session(master="local[1]")
    frame = spark.createDataFrame(pa.table({
        "ts": pa.array(range(0, 12_000, 1000), pa.timestamp("us", "UTC")), "x": pa.array(range(12))}))
    queries = [
        windlass.Query("a", windlass.Tumbling("6ms"), total("x").alias("v"), where=is_even),
        windlass.Query("b", windlass.Deterministic(three_at_a_time), agg.collect_list("x").alias("v")),
        windlass.Query("c", windlass.Punctuation(Threshold(9)), agg.count().alias("v"),
                       where=lambda table: pc.less(table["x"], 100)),
    ]
    mixed = shared_windows(frame, queries, time="ts").persist()
    for name in "abc":
        print("RESULT", name, [row.v for row in results_of(mixed, name).orderBy("window").collect()])
"""


def test_functions_of_a_program(tmp_path):
    """Functions and classes of `__main__` run on the workers."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    source = str(Path(windlass.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    assert lines == [
        "RESULT a [36, 54]",
        "RESULT b [[0, 1, 2], [3, 4, 5], [6, 7, 8]]",
        "RESULT c [9, 1, 1]",
    ], ran.stderr[-3000:]
