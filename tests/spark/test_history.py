"""A job that keeps its history: any range of it, asked from outside, is what the events say."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Sliding
from pyspark.sql import functions as F

from tests.spark.streams import BASE, MS, Asked, Files, run, stream
from tests.spark.test_restart import fresh_workers
from windlass import History, agg
from windlass.errors import InvalidArgument, UnsupportedAggregate, WrongType
from windlass.spark import keep_history, shared_windows

pytestmark = pytest.mark.xdist_group("spark")

ASKED = Asked("w", Sliding(40 * MS, 10 * MS), ("sum", "max"))
AGGREGATES = [agg.sum("x"), agg.count()]


def told(history, rows, start, end, key=None):
    """What it says of a range, and what the events say."""
    upto = min(end, int(history.watermark.timestamp() * 1000) * MS // (5 * MS) * 5 * MS)
    inside = [r for r in rows if start <= r["ts"] < upto and (key is None or r["k"] == key)]
    values = [r["x"] for r in inside if r["x"] is not None]
    got = [history.wheel(a).query(*(_at(t) for t in (start, end)), key=key) for a in ("sum(x)", "count()")]
    return got, [sum(values) if values else None, len(inside)]


def _at(t):
    return np.datetime64(t, "us")


def test_a_stream_and_its_history(spark, tmp_path):
    batches = stream(120, batches=6, size=60, pace=60, how_late=150, keys=["a", "b"])
    files, checkpoint = Files(tmp_path / "in", batches[:3]), tmp_path / "checkpoint"
    keep = keep_history(str(tmp_path / "history"), tick="5ms", aggregates=AGGREGATES)
    options = {"delay": 10, "key": "k", "buckets": 2, "allowed_lateness": "1s", "history": keep}
    first = run(spark, files, ASKED.for_windlass(), checkpoint, **options)
    assert set(first.mixed["query"].to_pylist()) <= {"w", None}
    history = History(tmp_path / "history")
    fresh_workers(spark)
    files.add(*batches[3:])
    run(spark, files, ASKED.for_windlass(), checkpoint, **options)
    assert history.refresh() and not history.refresh()
    seen = [row for batch in batches for row in batch]
    for start in range(-200, 400, 35):
        for key in (None, "a", "b"):
            got, want = told(history, seen, BASE + start // 5 * 5 * MS, BASE + (start + 90) // 5 * 5 * MS, key)
            assert got == want, (start, key)
    table = spark.read.format("windlass-history").option("every", "10 ms").load(str(tmp_path / "history"))
    assert table.columns == ["k", "start", "end", "sum(x)", "count()"]
    upto = int(history.watermark.timestamp() * 1000) // 10 * 10 * MS
    assert table.agg(F.sum("count()")).first()[0] == len([r for r in seen if r["ts"] < upto])


def test_a_table_and_its_history(spark, tmp_path):
    rows = [row for batch in stream(121, batches=3, size=50, keys=["a", "b", None]) for row in batch]
    files = Files(tmp_path / "in", [rows])
    frame = shared_windows(
        spark.read.parquet(str(files.path)), ASKED.for_windlass(), time="ts", key="k", history=str(tmp_path / "h")
    )
    assert frame.count() > 0
    history = History(tmp_path / "h")
    assert history.aggregates == ["sum", "max"] and history.tick == 10 * MS
    values = [row["x"] for row in rows if row["x"] is not None]
    assert history.wheel("sum").landmark() == sum(values)
    assert history.by_key(_at(BASE - 10**9), _at(BASE + 10**9), aggregate="max")["max"].null_count == 0


def test_what_a_history_cannot_keep(spark, tmp_path):
    with pytest.raises(UnsupportedAggregate, match="order of events"):
        keep_history("h", aggregates=[agg.first("x")])
    with pytest.raises(WrongType, match="keeps aggregates such as"):
        keep_history("h", aggregates=["sum"])
    frame = spark.read.parquet(str(Files(tmp_path / "in", stream(122, batches=1, size=5)).path))
    query = Asked("m", Sliding(10 * MS, 10 * MS), ("median",)).for_windlass()
    with pytest.raises(InvalidArgument, match="say which: keep_history"):
        shared_windows(frame, query, time="ts", history=str(tmp_path / "h"))
    with pytest.raises(WrongType, match="history is a path"):
        shared_windows(frame, query, time="ts", history=3)
