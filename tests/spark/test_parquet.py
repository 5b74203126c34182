"""Parquet files that the workers read: the same rows as from Spark's own reader, whatever the files look like."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import windlass
from windlass import agg, errors
from windlass.spark import explain, parquet_events, results_of, shared_windows
from windlass.spark.footer import schema_of

QUERIES = [
    windlass.Query("slid", windlass.Sliding("2s", "1s"), agg.sum("v"), agg.count()),
    windlass.Query("visits", windlass.Session("100ms"), agg.max("v")),
]
START = 1_700_000_000_000_000


def rows(results: Any) -> list[str]:
    return sorted(map(repr, results.drop("late").collect()))


def events(n: int, seed: int, **columns: Any) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = START + rng.integers(0, 20_000_000, n)
    made = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": rng.integers(0, 4, n), "v": rng.integers(0, 99, n)}
    return pa.table(made | columns)


def same_as_spark(spark: SparkSession, path: Path, key: Any, where: Any = None, condition: str | None = None) -> int:
    """How many rows there are."""
    frame = spark.read.parquet(str(path))
    if condition is not None:
        frame = frame.where(condition)
    want = rows(shared_windows(frame, QUERIES, time="ts", key=key))
    got = rows(shared_windows(parquet_events(spark, str(path), where=where), QUERIES, time="ts", key=key))
    assert got == want
    return len(want)


def test_filters_partition_columns_and_columns_that_some_files_lack(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        for part in range(2):
            made = events(200, part, other=pa.array(["x"] * 200))
            if part:
                made = made.drop_columns(["v"]) if day.endswith("2") else made
            (tmp_path / f"day={day}").mkdir(exist_ok=True)
            pq.write_table(made, tmp_path / f"day={day}" / f"{part}.parquet")
    assert same_as_spark(spark, tmp_path, ["day", "k"]) > 50
    assert same_as_spark(spark, tmp_path, "k", pc.field("v") >= 50, "v >= 50") > 20
    first = pc.field("day") == datetime.date(2024, 1, 1)
    assert same_as_spark(spark, tmp_path, "k", first & (pc.field("v") < 50), "day = '2024-01-01' and v < 50") > 20


def test_int96_and_times_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    made = events(300, 1)
    pq.write_table(made, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    assert same_as_spark(spark, tmp_path, "k") > 20
    naive = made.set_column(0, "ts", made["ts"].cast(pa.timestamp("us")))
    other = tmp_path / "naive"
    other.mkdir()
    pq.write_table(naive, other / "0.parquet")
    assert same_as_spark(spark, other, "k") > 20
    window = shared_windows(parquet_events(spark, str(other)), QUERIES, time="ts", key="k").schema["window"].dataType
    assert window.simpleString() == "struct<start:timestamp_ntz,end:timestamp_ntz>"


def test_names_with_spaces_and_signs(spark: SparkSession, tmp_path: Path) -> None:
    odd = tmp_path / "a b%20c" / "d=1"
    odd.mkdir(parents=True)
    pq.write_table(events(50, 1), odd / "x y%.parquet")
    for path in (odd, odd.parent):  # as a file by number, and as one with a partition column
        assert same_as_spark(spark, path, "k") > 0


def test_a_stream_of_files(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint, out = tmp_path / "in", str(tmp_path / "checkpoint"), str(tmp_path / "out")
    (source / "site=a").mkdir(parents=True)
    whole = events(400, 3)
    ordered = whole.take(pc.sort_indices(whole, sort_keys=[("ts", "ascending")]))
    for i in range(4):
        path = source / "site=a" / f"{i}.parquet"
        pq.write_table(ordered.slice(100 * i, 100), path)
        os.utime(path, (i, i))  # files come in the order of their age
    files = parquet_events(spark, str(source), streaming=True, maxFilesPerTrigger=2)
    with pytest.raises(errors.InvalidArgument, match="no watermark on 'ts'"):
        shared_windows(files, QUERIES, time="ts", key=["site", "k"])
    marked = files.withWatermark("ts", "1 second")
    results = shared_windows(marked, QUERIES, time="ts", key=["site", "k"])
    query = results.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    got = results_of(spark.read.parquet(out), "slid").collect()
    assert {row.site for row in got} == {"a"}
    last = max(ordered["ts"].to_pylist()) - datetime.timedelta(seconds=1)
    want = windlass.aggregate(ordered, QUERIES, time="ts", key="k")["slid"].to_pylist()
    assert len(got) == len([row for row in want if row["window"]["end"] <= last])


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(events(10, 1), tmp_path / "0.parquet")
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(errors.InvalidArgument, match="Delta table"):
        parquet_events(spark, str(tmp_path))
    with pytest.raises(errors.WrongType, match="Expression"):
        parquet_events(spark, str(tmp_path / "0.parquet"), where="v > 3")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="give parquet_events a schema"):
        _ = parquet_events(spark, str(tmp_path / "nothing")).schema
    with pytest.raises(errors.UnknownColumn, match="no column 'time'"):
        parquet_events(spark, str(tmp_path / "0.parquet"), streaming=True).withWatermark("time", "1 second")


def test_explain_says_who_reads_and_what_is_shipped(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(events(10, 1), tmp_path / "0.parquet")
    told = explain(parquet_events(spark, str(tmp_path)), QUERIES[:1], time="ts", key="k", buckets=2)
    assert "read by    the workers, with Arrow: ts, k, v (of 3 columns)" in told
    assert "shipped    slices" in told
    assert "2 buckets" in told
    told = explain(spark.read.parquet(str(tmp_path)), QUERIES, time="ts", key="k")
    assert "read by    Spark" in told
    assert "shipped    events: an event comes too late for a session by its own time" in told
    with pytest.raises(TypeError, match="unexpected keyword argument 'lateness'"):
        explain(spark.read.parquet(str(tmp_path)), QUERIES, time="ts", lateness=3)


# --------------------------------------------------------------------------- footers

PLAIN = {
    "small": pa.array([1], pa.int8()),
    "text": pa.array(["x"]),
    "coded": pa.array(["x"]).dictionary_encode(),
    "when": pa.array([1], pa.timestamp("us", "UTC")),
    "coarse": pa.array([1], pa.timestamp("ms", "UTC")),
    "day": pa.array([1], pa.date32()),
    "x": pa.array([1.5]),
    "narrow": pa.array([1.5], pa.float32()),
    "flag": pa.array([True]),
    "a.b": pa.array([1]),
}
NOT_PLAIN = {
    "unsigned": pa.array([1], pa.uint32()),
    "bytes": pa.array([b"x"]),
    "local": pa.array([1], pa.timestamp("us")),
    "fine": pa.array([1], pa.timestamp("ns", "UTC")),
    "list": pa.array([[1]]),
    "struct": pa.array([{"x": 1}]),
    "nothing": pa.nulls(1),
}


def test_a_footer_says_what_spark_would_find(spark, tmp_path):
    pq.write_table(pa.table(PLAIN), tmp_path / "plain.parquet")
    spark.range(1).selectExpr("id", "timestamp_ntz'2024-01-01' AS local", "1.5BD AS exact").write.parquet(
        str(tmp_path / "spark")
    )
    written = next((tmp_path / "spark").glob("*.parquet"))
    for path in (tmp_path / "plain.parquet", written):
        found = schema_of(path.as_uri())
        assert found is not None and found == spark.read.parquet(str(path)).schema
    pq.write_table(
        pa.table({"old": pa.array([1], pa.timestamp("us"))}),
        tmp_path / "old.parquet",
        use_deprecated_int96_timestamps=True,
    )
    assert schema_of((tmp_path / "old.parquet").as_uri()) == spark.read.parquet(str(tmp_path / "old.parquet")).schema


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_where_it_is_not_plain_spark_is_asked(spark, tmp_path, name):
    pq.write_table(pa.table({"ts": [1], name: NOT_PLAIN[name]}), tmp_path / "one.parquet")
    assert schema_of((tmp_path / "one.parquet").as_uri()) is None
    if name not in ("fine", "nothing"):  # which Spark refuses
        assert parquet_events(spark, str(tmp_path)).schema == spark.read.parquet(str(tmp_path)).schema
    (tmp_path / "no.parquet").write_bytes(b"nothing of that kind")
    assert schema_of((tmp_path / "no.parquet").as_uri()) is None


def test_columns_that_are_merged_are_found_by_spark(spark, tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "2.parquet")
    assert parquet_events(spark, str(tmp_path), mergeSchema=True).columns == ["a", "b"]
    assert parquet_events(spark, str(tmp_path)).columns == ["a"]
