"""Spark Connect: the windows are the same, and what needs the JVM is refused with a word on what to do instead.

The server and its client are processes of their own, so this runs in one, and needs the packages of pyspark[connect].
"""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.spark.children import Child

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs pyspark[connect]"),
]

PROGRAM = """
import os, sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from windlass import Operator, Query, Tumbling, agg
from windlass.errors import InvalidArgument
from windlass.spark import *
from windlass.spark.java import java_home
from windlass.spark.session import PROVIDER, ROCKSDB

place = sys.argv[1]
os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
builder = SparkSession.builder.remote("local[1]").config(PROVIDER, ROCKSDB).config("spark.sql.shuffle.partitions", 1)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
os.mkdir(place + "/in")
for i in range(3):
    pq.write_table(generate(i * 2000, (i + 1) * 2000, rowsPerSecond=20, keys=4), f"{place}/in/{i}.parquet")
queries = [Query("minutes", Tumbling("1m"), agg.count().alias("n"), agg.sum("value").alias("total"))]
batch = spark.read.parquet(place + "/in")
operator = Operator(queries, time="ts", key="sensor")
operator.process(pq.read_table(place + "/in"))
due = sorted((r["sensor"], r["window"]["start"].timestamp(), r["n"]) for r in operator.finish()["minutes"].to_pylist())

def of(frame):
    rows = results_of(frame, "minutes").collect()
    return sorted((row.sensor, row.window.start.timestamp(), row.n) for row in rows)

os.environ["TZ"] = "UTC"
assert of(shared_windows(batch, queries, time="ts", key="sensor")) == due
print("batch", flush=True)
reader = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", 1)
stream = reader.parquet(place + "/in").withWatermark("ts", "10 seconds")
windows = shared_windows(stream, queries, time="ts", key="sensor")
writer = windows.writeStream.format("parquet").option("path", place + "/out")
run = writer.option("checkpointLocation", place + "/checkpoint").trigger(availableNow=True).start()
run.awaitTermination()
rest = remaining_windows(place + "/checkpoint", stream, queries, time="ts", key="sensor")
assert sorted(of(spark.read.parquet(place + "/out")) + of(rest)) == due
assert "windlass" in run.recentProgress[0].observedMetrics
print("stream", flush=True)
for refused in (lambda: parquet_events(spark, place + "/in"), lambda: read_upserted(spark, place + "/table")):
    try:
        refused()
    except InvalidArgument as error:
        assert "Spark Connect" in str(error)
    else:
        raise AssertionError
print("done", flush=True)
spark.stop()
"""


def test_spark_connect(tmp_path):
    child = Child(sys.executable, "-c", PROGRAM, str(tmp_path), log=tmp_path / "log")
    try:
        for step in ("batch", "stream", "done"):
            assert child.hear(step) is not None, child.failure()
    finally:
        child.clear()
