"""Any DataFrame will do: the same events from CSV and JSON files give the same windows, in batch and as a stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import windlass
from windlass import agg
from windlass.spark import generate, results_of, shared_windows

QUERIES = [
    windlass.Query("slid", windlass.Sliding("4s", "1s"), agg.sum("value"), agg.count()),
    windlass.Query("hundred", windlass.Tumbling(100, measure="count"), agg.last("value")),
]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_files_of_other_formats(spark: SparkSession, tmp_path: Path, form: str) -> None:
    made = generate(0, 600, rows_per_second=50, keys=3, disorder=0.2)
    frame = spark.createDataFrame(made.to_pandas()).coalesce(1)
    frame.write.format(form).save(str(tmp_path / form))
    want = windlass.aggregate(made, QUERIES, time="ts", key="sensor")
    read = spark.read.schema(frame.schema).format(form).load(str(tmp_path / form))
    batch = shared_windows(read, QUERIES, time="ts", key="sensor")
    for name in ("slid", "hundred"):
        assert results_of(batch, name).count() == want[name].num_rows
    sums = {
        (row.sensor, row.window.start.timestamp()): row["sum(value)"] for row in results_of(batch, "slid").collect()
    }
    for row in want["slid"].to_pylist():
        assert sums[row["sensor"], row["window"]["start"].timestamp()] == row["sum(value)"]
    stream = (
        spark.readStream.schema(frame.schema).format(form).load(str(tmp_path / form)).withWatermark("ts", "1 second")
    )
    query = shared_windows(stream, QUERIES, time="ts", key="sensor", key_ttl="1 minute").writeStream.format("memory")
    query.queryName(f"from_{form}").trigger(availableNow=True).start().awaitTermination()
    streamed = results_of(spark.table(f"from_{form}"), "slid").collect()
    assert 0 < len(streamed) <= want["slid"].num_rows
    for row in streamed:
        assert sums[row.sensor, row.window.start.timestamp()] == row["sum(value)"]
