"""Results go on into Spark's own operators, and into a second `shared_windows`.

What comes out at the far end is compared with brute force over the oracle's rows of the first windows.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from oracle import Session, Tumbling
from pyspark.sql import functions as F

from tests.spark.streams import BASE, MS, Asked, Files, assert_same_rows, expected, read_stream, stream, to_the_end
from windlass import Query, agg, windows
from windlass.errors import InvalidArgument
from windlass.spark import late_of, results_of, shared_windows

pytestmark = pytest.mark.xdist_group("spark")

ASKED = [Asked("small", Tumbling(10 * MS), ("events", "sum")), Asked("session", Session(2 * MS), ("events",))]
DELAY, LARGE = 10, 40 * MS


@pytest.fixture(scope="module")
def batches():
    return stream(40, batches=5, size=40, pace=60, late=0.1, how_late=40, keys=["a", "b"])


def first_windows(spark, path, batches, **options):
    files = Files(path / "in", batches)
    queries = [a.for_windlass() for a in ASKED]
    return shared_windows(read_stream(spark, files, DELAY), queries, time="ts", key="k", buckets=1, **options)


def collected(frame, path):
    """All rows of a stream, as they come."""
    tables = []
    to_the_end(frame.writeStream.foreachBatch(lambda part, n: tables.append(part.toArrow())), path / "checkpoint")
    return pa.concat_tables(tables)


def due(batches, query):
    """The rows that the oracle has for a query, and the last watermark."""
    want = expected(batches, ASKED, delay=DELAY, key=("k",))
    last = max(row["ts"] for batch in batches for row in batch) // MS - DELAY
    return [row for rows in want.rows for row in rows if row.query == query], last * MS


def in_large_windows(rows, last, *, moment):
    """(start, windows, events) of the large windows that are complete at the last watermark."""
    found = defaultdict(lambda: [0, 0])
    for row in rows:
        start = moment(row) // LARGE * LARGE
        if start + LARGE <= last:
            found[row.key[0], start][0] += 1
            found[row.key[0], start][1] += row.values[0]
    assert len(found) > 4
    return [(key, start, *counted) for (key, start), counted in found.items()]


def flat(table, *names):
    start = table["window"].combine_chunks().field("start").cast("int64").to_pylist()
    return list(zip(table["k"].to_pylist(), start, *(table[name].to_pylist() for name in names), strict=True))


def last_moment(row):
    return row.end - 1


def after_its_end(row):
    return row.end + 1


def test_a_join_and_an_aggregation_of_spark(spark, tmp_path, batches):
    """A table beside it, and Spark's own window over the results, in append mode."""
    rooms = spark.createDataFrame([("a", "kitchen"), ("b", "hall")], "k string, room string")
    small = results_of(first_windows(spark, tmp_path, batches), "small", history=False, time="at")
    joined = small.join(rooms, "k")
    large = joined.groupBy("k", "room", F.window("at", f"{LARGE // MS} milliseconds")).agg(
        F.count("*").alias("windows"), F.sum("events").alias("events")
    )
    got = collected(large, tmp_path)
    rows, last = due(batches, "small")
    assert_same_rows(flat(got, "windows", "events"), in_large_windows(rows, last, moment=last_moment))
    assert set(zip(got["k"].to_pylist(), got["room"].to_pylist(), strict=True)) == {("a", "kitchen"), ("b", "hall")}


@pytest.mark.parametrize(
    ("query", "moment"), [("session", after_its_end), pytest.param("small", last_moment, marks=pytest.mark.faults)]
)
def test_a_second_shared_windows(spark, tmp_path, batches, query, moment):
    results = results_of(first_windows(spark, tmp_path, batches), query, history=False, time="at")
    assert results.columns[:3] == ["k", "window", "at"]
    queries = Query(
        "large", windows.Tumbling(f"{LARGE}us"), agg.count().alias("windows"), agg.sum("events").alias("events")
    )
    second = shared_windows(results, queries, time="at", key="k", buckets=1, name="second")
    got = collected(second, tmp_path)
    assert got["late"].null_count == got.num_rows  # nothing was late on the way
    large = pa.Table.from_struct_array(got["large"].combine_chunks()).append_column("window", got["window"])
    rows, last = due(batches, query)
    got = flat(large.append_column("k", got["k"]), "windows", "events")
    assert_same_rows(got, in_large_windows(rows, last, moment=moment))


@pytest.mark.faults
def test_a_join_with_another_stream(spark, tmp_path):
    """Each window with the events of the 20 ms after it; nothing is late."""
    batches = stream(41, batches=5, size=40, pace=60, disorder=5, late=0, keys=["a", "b"])
    small = results_of(first_windows(spark, tmp_path, batches), "small", history=False, time="at")
    others = read_stream(spark, Files(tmp_path / "in"), DELAY).select(F.col("k").alias("j"), "ts", "id")
    follows = F.expr("k = j AND ts > at AND ts <= at + INTERVAL 20 MILLISECONDS")
    got = collected(small.dropDuplicates(["k", "at"]).join(others, follows), tmp_path)
    rows, _ = due(batches, "small")
    events = [event for batch in batches for event in batch]
    pairs = [
        (row.key[0], row.start, event["id"])
        for row in rows
        for event in events
        if event["k"] == row.key[0] and 0 < event["ts"] - last_moment(row) <= 20 * MS
    ]
    assert len(pairs) > 100
    assert_same_rows(flat(got, "id"), pairs)


def test_a_session_that_ends_at_the_watermark_is_not_late_behind_it(spark, tmp_path):
    """It is complete when the watermark is past its end. Spark takes what is at the watermark for late."""
    nothing = {"j": 0, "x": 1, "y": 0, "f": 0.0, "s": None, "flag": False, "km": 0}
    times = [[("a", 0)], [("b", 2)], [("b", 40)]]
    events = [[nothing | {"ts": t * MS, "k": k, "id": i} for k, t in batch] for i, batch in enumerate(times)]
    files = Files(tmp_path / "in", [[row | {"ts": row["ts"] + BASE} for row in batch] for batch in events])
    found = shared_windows(read_stream(spark, files, 0), ASKED[1].for_windlass(), time="ts", key="k", buckets=1)
    once = results_of(found, "session", history=False, time="at").dropDuplicates(["k", "at"])
    assert sorted(collected(once, tmp_path)["k"].to_pylist()) == ["a", "b"]


def test_batches_are_chained_too(spark, tmp_path, batches):
    """In a batch there is no watermark, and nothing to be refused but columns of the same name."""
    Files(tmp_path / "in", batches)
    events = spark.read.parquet(str(tmp_path / "in"))
    first = shared_windows(events, [a.for_windlass() for a in ASKED], time="ts", key="k", buckets=1)
    results = results_of(first, "small", history=False, time="at")
    query = Query("all", windows.Tumbling("1 hour"), agg.sum("events").alias("events"))
    second = results_of(shared_windows(results, query, time="at", buckets=1), "all")
    assert [row.events for row in second.collect()] == [sum(len(batch) for batch in batches)]
    with pytest.raises(InvalidArgument, match="there is a column 'sum' already"):
        results_of(first, "small", time="sum")


def test_what_cannot_be_chained_is_refused(spark, tmp_path, batches):
    corrected = first_windows(spark, tmp_path, batches, allowed_lateness="1 second")
    with pytest.raises(InvalidArgument, match=r"count them twice\. Leave allowed_lateness at 0 .*upsert_parquet"):
        results_of(corrected, "small", time="at")
    files = read_stream(spark, Files(tmp_path / "more", batches[:1]), DELAY)
    counted = Query("counted", windows.Tumbling(7, measure="count"), agg.sum("x"))
    with pytest.raises(InvalidArgument, match=r"are ended by 'count'.*as a stream of their own"):
        results_of(shared_windows(files, counted, time="ts"), "counted", time="at")
    # A late one would end a window of long ago.
    marked = Query("marked", windows.Punctuation(lambda t: t["flag"]), agg.sum("x"))
    with pytest.raises(InvalidArgument, match=r"'marked' are ended by events, also by late ones"):
        results_of(shared_windows(files, marked, time="ts"), "marked", time="at")
    # Without an event time there is nothing to tell a second one when its windows are complete.
    plain = results_of(first_windows(spark, tmp_path, batches), "small").withColumn("end", F.col("window.end"))
    with pytest.raises(InvalidArgument, match=r"no watermark on 'end'.*results_of\(…, time='end'\)"):
        shared_windows(plain, counted, time="end")
    marked = plain.withWatermark("end", "0 seconds")
    with pytest.raises(InvalidArgument, match=r"two watermarks.*results_of\(…, time=…\)"):
        shared_windows(marked, counted, time="end")
    assert late_of(corrected).isStreaming
