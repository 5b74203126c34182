"""Streams with so many slices that a bucket is left on the shelf, for whichever worker is given it next."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from windlass import Query, Tumbling, agg
from windlass.spark import parquet_events, results_of, shared_windows

SECOND = 1_000_000
ROWS, KEYS, DELAY = 120_000, 500, 60
START = 1_700_000_000 * SECOND


def events(rng, file):
    """Some minutes, out of order by up to five seconds; few events a slice."""
    ts = START + (file * ROWS + np.arange(ROWS)) * 1000 + rng.integers(-5 * SECOND, 0, ROWS)
    return {"ts": ts, "k": rng.integers(0, KEYS, ROWS), "v": rng.integers(-100, 100, ROWS)}


def expected(files):
    """Sums and counts by key and second, of the seconds that the watermark has passed."""
    ts, k, v = (np.concatenate([file[name] for file in files]) for name in ("ts", "k", "v"))
    second = ts // SECOND
    found = {}
    for key, at, value in zip(k.tolist(), second.tolist(), v.tolist(), strict=True):
        total, count = found.get((key, at), (0, 0))
        found[key, at] = total + value, count + 1
    watermark = ts.max() // 1000 * 1000 - DELAY * SECOND
    return {window: answer for window, answer in found.items() if (window[1] + 1) * SECOND <= watermark}


@pytest.mark.parametrize("read", ["frame", "parquet"])
def test_whoever_has_a_bucket_has_all_of_it(spark, tmp_path, checkpoint, read):
    rng = np.random.default_rng(7)
    source, sink = tmp_path / "events", tmp_path / "windows"
    source.mkdir()
    files = []

    def run(some):
        for _ in range(some):
            files.append(events(rng, len(files)))
            columns = dict(files[-1], ts=pa.array(files[-1]["ts"], pa.timestamp("us", "UTC")))
            pq.write_table(pa.table(columns), source / f"{len(files)}.parquet")
        if read == "parquet":
            stream = parquet_events(spark, str(source), streaming=True, maxFilesPerTrigger=1)
        else:
            reader = spark.readStream.schema("ts timestamp, k bigint, v bigint").option("maxFilesPerTrigger", 1)
            stream = reader.parquet(str(source))
        query = Query("second", Tumbling("1s"), agg.sum("v").alias("total"), agg.count().alias("n"))
        windows = shared_windows(stream.withWatermark("ts", f"{DELAY} seconds"), query, time="ts", key="k")
        writer = results_of(windows, "second").writeStream.format("parquet").option("path", str(sink))
        started = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        started.awaitTermination()
        return [p.observedMetrics["windlass"] for p in started.recentProgress if "windlass" in p.observedMetrics]

    reports = run(3)
    assert max(report["state_bytes"] for report in reports) > 1 << 21  # so that there is something to leave
    assert [report["events"] for report in reports[:3]] == [ROWS] * 3
    assert sum(report["events"] or 0 for report in reports[3:]) == 0
    reports = run(2)
    assert [report["events"] for report in reports[:2]] == [ROWS] * 2
    table = ds.dataset(sink).to_table()
    starts = [int(at["start"].timestamp()) for at in table["window"].to_pylist()]
    got = list(zip(table["k"].to_pylist(), starts, table["total"].to_pylist(), table["n"].to_pylist(), strict=True))
    assert len({(k, at) for k, at, *_ in got}) == len(got)
    assert {(k, at): (total, n) for k, at, total, n in got} == expected(files)
