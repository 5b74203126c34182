"""What Spark's own window functions answer, Windlass answers: row for row, in a batch and in a stream.

Nothing is converted but the order of rows. Where the two differ by design, a test of its own says how.
"""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import functions as F

from tests.spark.streams import BASE, MS, Files, assert_same_rows, events, read_stream, stream, to_the_end
from windlass import Query, Session, Sliding, Tumbling, agg
from windlass.spark import results_of, shared_windows

pytestmark = pytest.mark.xdist_group("spark")

AGGREGATES = [
    agg.count().alias("events"),
    agg.count("x").alias("n"),
    agg.sum("x").alias("sum"),
    agg.sum("f").alias("sum_f"),
    agg.avg("x").alias("avg"),
    agg.min("x").alias("min"),
    agg.max("f").alias("max"),
    agg.min("s").alias("text"),
    agg.stddev("f").alias("stddev"),
]


def native_aggregates():
    return [
        F.count(F.lit(1)).alias("events"),
        F.count("x").alias("n"),
        F.sum("x").alias("sum"),
        F.sum("f").alias("sum_f"),
        F.avg("x").alias("avg"),
        F.min("x").alias("min"),
        F.max("f").alias("max"),
        F.min("s").alias("text"),
        F.stddev("f").alias("stddev"),
    ]


WINDOWS = {
    "tumbling": (Tumbling("10ms"), lambda: F.window("ts", "10 milliseconds")),
    "tumbling, offset": (
        Tumbling("7ms", offset="2500us"),
        lambda: F.window("ts", "7 milliseconds", startTime="2500 microseconds"),
    ),
    "sliding": (
        Sliding("15ms", "4ms", offset="1500us"),
        lambda: F.window("ts", "15 milliseconds", "4 milliseconds", "1500 microseconds"),
    ),
    "session": (Session("2ms"), lambda: F.session_window("ts", "2 milliseconds")),
}
QUERIES = [Query(name, window, *AGGREGATES) for name, (window, _) in WINDOWS.items()]


def native(frame, name, *key):
    return frame.groupBy(*key, WINDOWS[name][1]().alias("window")).agg(*native_aggregates())


def plain(frame):
    """Its rows as tuples, times as numbers."""
    frame = frame.withColumns({"from": F.unix_micros("window.start"), "to": F.unix_micros("window.end")}).drop("window")
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def types(frame):
    return [(f.name, f.dataType.simpleString()) for f in frame.schema]


def off_the_millisecond(batches):
    """The same stream without times in whole milliseconds, as watermarks are: no session ends at a watermark."""
    return [[row | {"ts": row["ts"] // MS * MS + 1 + row["id"] % 3} for row in batch] for batch in batches]


@pytest.mark.parametrize("key", [(), ("k",), ("k", "j")], ids=str)
def test_batch(spark, tmp_path, key):
    batches = stream(40 + len(key), batches=3, size=150)
    batches[1][7]["ts"] = None  # no window has it, in either
    Files(tmp_path / "in", batches)
    frame = spark.read.parquet(str(tmp_path / "in"))
    mixed = shared_windows(frame, QUERIES, time="ts", key=list(key) or None).persist()
    for name in WINDOWS:
        ours, theirs = results_of(mixed, name, history=False), native(frame, name, *key)
        assert types(ours) == types(theirs)
        want = plain(theirs)
        assert_same_rows(plain(ours), want, name)
        assert want
        assert not key or any(row[0] is None for row in want)
    mixed.unpersist()


def streamed(spark, files, checkpoint, build, delay):
    """The rows of every micro-batch."""
    found = {}

    def keep(frame, n):
        found[n] = plain(frame)

    frame = build(read_stream(spark, files, delay))
    to_the_end(frame.writeStream.outputMode("append").foreachBatch(keep), checkpoint)
    return found


def both(spark, files, tmp_path, name, delay, *key):
    query = next(q for q in QUERIES if q.name == name)

    def ours(frame):
        return results_of(shared_windows(frame, query, time="ts", key=list(key) or None), name, history=False)

    def theirs(frame):
        return native(frame, name, *key)

    return (
        streamed(spark, files, tmp_path / f"{name} ours", ours, delay),
        streamed(spark, files, tmp_path / f"{name} theirs", theirs, delay),
    )


@pytest.mark.parametrize("name", ["tumbling", "sliding", "session"])
def test_append(spark, tmp_path, name):
    """The same rows, with the micro-batch that completes them; Spark has them in the next."""
    batches = stream(50, batches=4, size=60, disorder=8, late=0)
    if name == "session":
        batches = off_the_millisecond(batches)
    files = Files(tmp_path / "in", batches)
    ours, theirs = both(spark, files, tmp_path, name, 10, "k")
    assert (list(ours), list(theirs)) == (list(range(4)), list(range(5)))
    for n in ours:
        assert_same_rows(ours[n], theirs[n + 1], f"micro-batch {n}")
    assert not theirs[0]
    counted = sum(row[1] for rows in theirs.values() for row in rows)
    assert counted and any(row[0] is None for rows in theirs.values() for row in rows)


def of_keys(*batches):
    """A stream of (key, milliseconds)."""
    random = Random(0)
    return [
        [events([BASE + round(ms * MS)], random, 10 * i + j, (k,))[0] for j, (k, ms) in enumerate(batch)]
        for i, batch in enumerate(batches)
    ]


def sessions_of(found, key):
    """Extents in milliseconds and numbers of events."""
    rows = [row for rows in found.values() for row in rows if row[0] == key]
    return sorted(((row[-2] - BASE) / MS, (row[-1] - BASE) / MS, row[1]) for row in rows)


def test_a_late_row_within_the_gap_of_an_open_session(spark, tmp_path):
    """Spark judges a late row by the session that it would be alone. Windlass lets it join one that is still open."""
    # The watermark in force when 0.5 comes is 3, that of the micro-batch before. Alone it would be [0.5, 2.5).
    batches = of_keys([("a", 0), ("a", 1.2), ("a", 3)], [("a", 4.1)], [("a", 0.5)], [("b", 100)])
    ours, theirs = both(spark, Files(tmp_path / "in", batches), tmp_path, "session", 0, "k")
    assert sessions_of(ours, "a") == [(0, 6.1, 5)]
    assert sessions_of(theirs, "a") == [(0, 6.1, 4)]


def test_an_event_at_the_end_of_a_session_and_at_the_watermark(spark, tmp_path):
    """It is not late, and its distance to the session is the gap: Windlass has waited for it, Spark has not."""
    batches = of_keys([("a", 0)], [("b", 2)], [("b", 2.5)], [("a", 2)], [("b", 100)])
    ours, theirs = both(spark, Files(tmp_path / "in", batches), tmp_path, "session", 0, "k")
    assert sessions_of(ours, "a") == [(0, 4, 2)]
    assert sessions_of(theirs, "a") == [(0, 2, 1), (2, 4, 1)]
