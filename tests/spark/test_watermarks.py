"""What the watermark does at its edges.

A micro-batch moves it: process, then advance. So an event is judged by what was known before its batch, and windows
come out with the batch that completes them. Spark's own is one batch behind, and goes where it alone knows how far all
streams are.
"""

from __future__ import annotations

import datetime
from contextlib import contextmanager

import pyarrow as pa
import pytest
from oracle import Sliding, Tumbling

import windlass
from tests.spark.streams import (
    BASE,
    MS,
    Asked,
    Files,
    assert_like_the_oracle,
    expected,
    read_stream,
    rows_of,
    run,
    stream,
    table,
)
from windlass import errors
from windlass.spark import explain, parquet_events, shared_windows
from windlass.spark.greatest import is_seen, without_watermark

pytestmark = pytest.mark.xdist_group("spark")

COUNTED = Asked("n", Tumbling(10 * MS), ("events", "sum"))
FAR = BASE + 365 * 24 * 3600 * 1_000_000 * 40


def at(*times, first_id=0):
    """Events of one key at these milliseconds."""
    nothing = {"k": "a", "j": 0, "x": 1, "y": 0, "f": 0.0, "s": None, "flag": False, "km": 0}
    return [nothing | {"ts": BASE + t * MS, "id": first_id + i} for i, t in enumerate(times)]


@contextmanager
def setting(spark, name, value):
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def starts(got):
    found = [rows_of(got.tables[n], [COUNTED], ("k",)) for n in sorted(got.tables)]
    return [sorted((row.start - BASE) // MS for row in rows) for rows in found]


def test_a_batch_is_judged_by_the_watermark_before_it(spark, tmp_path):
    """The event at 5 comes in the same batch as one at 30: it is in time. The one at 6, in the next, is late."""
    batches = [at(1), at(30, 5), at(6, 45), at(7, 46)]
    got = run(spark, Files(tmp_path / "in", batches), COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k")
    assert starts(got) == [[], [0], [30], []]
    assert [got.late(n)["events"].to_pylist() for n in range(4)] == [[], [], [1], [1]]
    assert_like_the_oracle(got, [COUNTED], expected(batches, [COUNTED], delay=0, key=("k",)), ("k",))


@pytest.mark.parametrize("reader", ["Spark", "workers"])
def test_events_from_the_future(spark, tmp_path, reader):
    """They are late events with a reason, and the watermark does not move."""
    files = Files(tmp_path / "in", [at(1, 12), [at(3)[0] | {"ts": FAR, "id": 7}, *at(14)], at(5, 25), at(7, 26)])
    source = spark.readStream.schema(spark.read.parquet(str(files.path)).schema).option("maxFilesPerTrigger", 1)
    source = source.parquet(str(files.path))
    if reader == "workers":
        source = parquet_events(spark, str(files.path), streaming=True, maxFilesPerTrigger=1)
    query = COUNTED.for_windlass()
    options = {"key": "k", "watermark": "0 seconds", "allowed_lateness": "20ms"}
    got = run(spark, files, query, tmp_path / "c", delay=0, source=source, max_ahead="1 hour", **options)
    assert starts(got) == [[0], [], [0, 10], [0]]  # what came at 5 and 7 was still welcome
    late = got.late().to_pylist()
    assert [row["reason"] for row in late] == ["ahead: its time is more than 1 hour after the time at which it came"]
    assert late[0]["row"]["ts"] == datetime.datetime.fromtimestamp(FAR / 1e6, datetime.UTC)
    # Without the bound it is the last event there ever is.
    got = run(spark, files, query, tmp_path / "d", delay=0, source=source, **options)
    assert starts(got) == [[0], [10], [], []]
    assert sum(got.late()["events"].to_pylist()) == 4


def test_a_bound_comes_before_the_watermark(spark, tmp_path):
    files, query = Files(tmp_path / "in", [at(1)]), COUNTED.for_windlass()
    marked = read_stream(spark, files, 0)
    with pytest.raises(errors.InvalidArgument, match=r"leave out withWatermark, .*max_ahead='1h'"):
        shared_windows(marked, query, time="ts", max_ahead="1h")
    with pytest.raises(errors.InvalidArgument, match="has a watermark already, on 'ts'"):
        shared_windows(marked, query, time="ts", watermark="1 second")
    with pytest.raises(errors.InvalidArgument, match="max_ahead must not be negative"):
        shared_windows(spark.read.parquet(str(files.path)), query, time="ts", max_ahead="-1s")


@pytest.mark.parametrize("policy", ["min", "max"])
def test_a_union_of_streams(spark, tmp_path, policy):
    """Spark's watermark is that of the slowest stream, one that is idle too, or of the fastest, by its own setting."""
    fast = Files(tmp_path / "fast", [at(1, 12), at(31, first_id=10), at(52, first_id=20)])
    slow = Files(tmp_path / "slow", [at(2, first_id=30)])
    with setting(spark, "spark.sql.streaming.multipleWatermarkPolicy", policy):
        source = read_stream(spark, fast, 0).union(read_stream(spark, slow, 0))
        got = run(spark, fast, COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k", source=source)
    if policy == "min":
        assert starts(got) == [[], [], []]  # the slow stream stands at 2
    else:
        assert starts(got) == [[], [0], [10], [30]]


def test_a_stream_that_spark_alone_knows_the_watermark_of(spark, tmp_path):
    """Behind a stateful operator the times of rows do not tell it; Spark's comes one micro-batch later."""
    batches = stream(112, batches=4, size=40, disorder=8, late=0)
    asked = [Asked("w", Sliding(30 * MS, 10 * MS), ("sum", "events"))]
    files = Files(tmp_path / "in", batches)
    source = read_stream(spark, files, 10).dropDuplicatesWithinWatermark(["id"])
    got = run(spark, files, asked[0].for_windlass(), tmp_path / "c", delay=10, key="k", source=source)
    assert_like_the_oracle(got, asked, expected(batches, asked, delay=10, key=("k",), behind=True), ("k",))


def test_rows_that_are_dropped_after_it_count_for_the_watermark(spark, tmp_path):
    """Those that are left are seen at once, and Spark tells of the others one micro-batch later, or in one more."""
    files = Files(tmp_path / "in", [at(1, 12), at(31), at(14), at(51)])
    micros = "unix_micros(ts)"
    source = read_stream(spark, files, 0).where(f"{micros} % {10 * MS} != {MS} OR {micros} < {BASE + 10 * MS}")
    got = run(spark, files, COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k", source=source)
    assert starts(got) == [[0], [], [10], [], []]
    marks = [figures["watermark"] for _, figures in sorted(got.figures.items())]
    assert [mark and mark - BASE // MS for mark in marks] == [12, 12, 31, None, 51]  # where something was said


def test_what_is_due_by_rows_that_were_dropped_comes_out_when_the_input_pauses(spark, tmp_path):
    """In the micro-batch without data that Spark runs for its watermark: a timer has to be there, though the one before
    it had nothing to say."""
    files = Files(tmp_path / "in", [at(1, 12), at(31)])
    source = read_stream(spark, files, 0).where(f"unix_micros(ts) < {BASE + 30 * MS}")
    got = run(spark, files, COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k", source=source)
    assert starts(got) == [[0], [], [10]]


def test_microseconds_and_whole_milliseconds(spark, tmp_path):
    """The watermark is cut to milliseconds, as Spark's is: a window may wait for the next one, and is never early."""
    batches = [[row | {"ts": row["ts"] + 999} for row in at(9)], at(10), at(11, 5)]
    got = run(spark, Files(tmp_path / "in", batches), COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k")
    assert_like_the_oracle(got, [COUNTED], expected(batches, [COUNTED], delay=0, key=("k",)), ("k",))
    assert starts(got) == [[], [0], []]


def test_sessions_in_another_time_zone(spark, tmp_path):
    """A window begins at a multiple of its length since 1970 in UTC, whatever clock the session shows times on."""
    batches = stream(110, batches=3, size=30)
    asked = [Asked("w", Sliding(30 * MS, 10 * MS), ("sum", "events"))]
    with setting(spark, "spark.sql.session.timeZone", "America/St_Johns"):
        got = run(spark, Files(tmp_path / "in", batches), asked[0].for_windlass(), tmp_path / "c", delay=5, key="k")
    assert_like_the_oracle(got, asked, expected(batches, asked, delay=5, key=("k",)), ("k",))


def test_before_1970(spark, tmp_path):
    """The watermark starts at 1970, as Spark's does, and says nothing until it is past: older windows come out with the
    first watermark there is. In a batch there is none of that."""
    old = [
        [row | {"ts": row["ts"] - BASE - 100 * MS} for row in at(1, 12)],
        [row | {"ts": row["ts"] - BASE} for row in at(25)],
    ]
    files = Files(tmp_path / "in", [*old, at(2)])
    got = run(spark, files, COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k")
    assert [[row.start // MS for row in rows_of(got.tables[n], [COUNTED], ("k",))] for n in sorted(got.tables)] == [
        [],
        [-100, -90],
        [20],
    ]
    batch = shared_windows(spark.read.parquet(str(files.path)), COUNTED.for_windlass(), time="ts", key="k")
    found = rows_of(batch.toArrow(), [COUNTED], ("k",))
    assert sorted(row.start // MS for row in found) == [-100, -90, 20, BASE // MS]


def test_all_times_null(spark, tmp_path):
    """A whole batch without times goes to the late output; the stream lives on."""
    nothing = table(at(1, 2)).set_column(0, "ts", pa.nulls(2, pa.timestamp("us", "UTC")))
    files = Files(tmp_path / "in", [])
    files.add(nothing, at(3), at(40))
    got = run(spark, files, COUNTED.for_windlass(), tmp_path / "c", delay=0, key="k")
    assert got.late()["reason"].to_pylist() == ["its time is null"] * 2
    assert starts(got)[-1] == [0]


def test_a_watermark_that_is_missing(spark, tmp_path):
    files = Files(tmp_path / "in", [at(1)])
    source = spark.readStream.schema(spark.read.parquet(str(files.path)).schema).parquet(str(files.path))
    with pytest.raises(errors.InvalidArgument, match=r"no watermark on 'ts'; .*watermark='10 seconds'"):
        shared_windows(source, COUNTED.for_windlass(), time="ts")
    got = run(spark, files, COUNTED.for_windlass(), tmp_path / "c", delay=0, source=source, watermark="0 seconds")
    assert got.tables


def test_the_watermark_of_rows_is_made_where_they_are_cut(spark, tmp_path):
    """Not by Spark, which would look at every row; unless rows were dropped after it."""
    files = spark.readStream.schema("ts timestamp, k bigint, v double").parquet(str(tmp_path)).where("k > 0")
    marked = files.withWatermark("ts", "90 seconds")
    for seen in (marked, marked.selectExpr("v * 2 AS v", "ts AS at").select("at", "v"), marked.alias("a")):
        rows, delay = without_watermark(seen)
        assert rows.columns == seen.columns
        assert "EventTimeWatermark" not in rows._jdf.queryExecution().analyzed().toString()
        assert delay == "1 minutes 30 seconds"
        assert is_seen(seen)
    filtered = marked.where("v > 0")
    assert is_seen(filtered)
    for other in (filtered, files, marked.union(marked), marked.dropDuplicatesWithinWatermark(["k"])):
        assert without_watermark(other) == (other, None)
        assert other is filtered or not is_seen(other)
    with setting(spark, "spark.sql.streaming.multipleWatermarkPolicy", "max"):
        assert without_watermark(marked) == (marked, None), "another stream may move it further"
    told = {"with the micro-batch": marked, "rows are dropped": filtered, "one micro-batch after": marked.union(marked)}
    for words, stream_ in told.items():
        assert words in explain(stream_, windlass.Query("n", windlass.Tumbling("1s"), windlass.agg.count()), time="ts")
