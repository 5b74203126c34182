"""Stopping, restarting and the layout of the data change nothing."""

from __future__ import annotations

import oracle
import pytest
from oracle import Cumulate, Landmark, LastN, Punctuation, Session, Sliding, Snapshot, Tumbling
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.spark.streams import (
    BASE,
    MS,
    Asked,
    Files,
    Named,
    Run,
    assert_like_the_oracle,
    assert_same_rows,
    expected,
    fresh_workers,
    marked,
    read_stream,
    rows_of,
    run,
    stream,
)
from windlass.formats.spark import HEAD
from windlass.spark import parquet_events, remaining_windows

pytestmark = pytest.mark.xdist_group("spark")

SLICED = [
    Asked("tumbling", Tumbling(10 * MS), ("sum", "events", "avg", "stddev")),
    Asked("sliding", Sliding(40 * MS, 10 * MS), ("count", "max", "sum_f", "about"), where="flag"),
    Asked("cumulate", Cumulate(10 * MS, 40 * MS), ("spread", "max_count", "least_text"), where="y > 1"),
    Asked("landmark", Landmark(BASE, 20 * MS), ("sum", "min")),
]
EVENTS = [
    Asked("session", Session(3 * MS), ("events", "sum", "list")),
    Asked("counted", Sliding(10, 4, measure="count"), ("last", "avg"), where="odd"),
    Asked("punctuation", Punctuation(Named("flag")), ("list", "median")),
    Asked("last n", LastN(5, 8 * MS), ("list", "m4")),
    Asked("snapshot", Snapshot(3 * MS), ("events", "max")),
    Asked("distance", Tumbling(16, measure="km"), ("concat", "p90")),
]


def joined(*runs):
    tables, figures = {}, {}
    for part in runs:
        assert not tables.keys() & part.tables.keys()
        tables |= part.tables
        figures |= part.figures
    return Run(tables, figures)


def heads(spark, checkpoint):
    """What the state of each bucket is made of: bytes of its log, bytes of its snapshot."""
    read = spark.read.format("statestore").option("stateVarName", "head").load(str(checkpoint))
    found = [HEAD.unseal(bytes(row.value.seal)) for row in read.select("value").collect()]
    return [(head["log"], head["snapshot"]) for head in found]


@pytest.mark.parametrize(
    ("asked", "options", "size", "has_snapshot"),
    [
        (SLICED, {"allowed_lateness": "20ms"}, 60, False),
        (EVENTS, {"allowed_lateness": "20ms", "late": "rows"}, 1500, True),
    ],
    ids=["slices, from the log", "events, from a snapshot and the log"],
)
def test_restart(spark, tmp_path, asked, options, size, has_snapshot):
    batches = stream(60, batches=6, size=size, pace=size, how_late=200, keys=["a", None])
    first, second, third = batches[:3], batches[3:5], batches[5:]
    files, checkpoint = Files(tmp_path / "in", first), tmp_path / "checkpoint"
    queries = [a.for_windlass() for a in asked]

    def go_on(*batches):
        files.add(*batches)
        return run(spark, files, queries, checkpoint, delay=10, key="k", buckets=1, **options)

    runs = [go_on()]
    fresh_workers(spark)
    runs.append(go_on(*second))
    assert [snapshot > 0 for _, snapshot in heads(spark, checkpoint)] == [has_snapshot]
    if has_snapshot:
        fresh_workers(spark)  # else those of the run before may still be there, with its operators
    runs.append(go_on(*third))
    want = expected(batches, asked, delay=10, key=("k",), allowed_lateness=20 * MS)
    assert_like_the_oracle(joined(*runs), asked, want, ("k",))
    assert any(want.expired) or "landmark" in {a.name for a in asked}  # for which nothing is too late


@pytest.mark.parametrize(
    ("source", "buckets", "shuffle_partitions", "records"),
    [("one partition", 1, 2, 10_000), ("three partitions", 2, 1, 7), ("files", 7, 3, 50)],
)
def test_layouts(spark, settings, tmp_path, source, buckets, shuffle_partitions, records):
    """However the data lie: over partitions of the input, files that workers read, buckets, tasks, Arrow batches."""
    settings(spark_sql_shuffle_partitions=shuffle_partitions)
    settings(spark_sql_execution_arrow_maxRecordsPerBatch=records)
    asked = SLICED + EVENTS
    batches = stream(70, batches=3, size=80, how_late=150, keys=["a", "b", "c", None, "d"])
    files = Files(tmp_path / "in", batches)
    if source == "files":
        frame = parquet_events(spark, str(files.path), streaming=True, maxFilesPerTrigger=1)
        frame = frame.withWatermark("ts", "10 milliseconds")
    else:
        frame = read_stream(spark, files, 10)
        frame = frame.repartition(3) if source == "three partitions" else frame
    queries = [a.for_windlass() for a in asked]
    options = {"key": ["k", "j"], "sequence": "id", "buckets": buckets, "allowed_lateness": "5ms"}
    got = run(spark, files, queries, tmp_path / "checkpoint", delay=10, source=frame, **options)
    want = expected(batches, asked, delay=10, key=("k", "j"), sequence="id", allowed_lateness=5 * MS)
    assert_like_the_oracle(got, asked, want, ("k", "j"))
    # What is still open comes out of the checkpoint, as if the stream ended.
    rest = remaining_windows(tmp_path / "checkpoint", frame, queries, time="ts", **options)
    due = want.stream.finish()
    assert_same_rows(rows_of(rest.toArrow(), asked, ("k", "j")), due)


def test_one_micro_batch_or_many(spark, tmp_path):
    """Where nothing expires, how the stream was cut changes revisions only."""
    batches = stream(80, batches=4, size=40, late=0)
    whole = [[row for batch in batches for row in batch]]
    end = stream(81, batches=1, size=1, late=0)[0]
    end[0] |= {"ts": BASE + 10_000 * MS, "km": 10_000, "id": 9999, "k": "z"}
    found = []
    for i, cut in enumerate((whole, batches)):
        got = run(
            spark,
            Files(tmp_path / f"in {i}", [*cut, end]),
            [a.for_windlass() for a in SLICED],
            tmp_path / f"checkpoint {i}",
            delay=1000,  # nothing is complete before the end
            key="k",
        )
        assert got.late().num_rows == 0
        found.append(rows_of(got.mixed, SLICED, ("k",)))
    assert_same_rows(*found)
    assert found[0]


def test_a_checkpoint_of_something_else(spark, tmp_path):
    """It is refused, with a word on what differs, and is as good as before to who asks for the same."""
    files, checkpoint = Files(tmp_path / "in", stream(90, batches=1, size=10)), tmp_path / "checkpoint"
    asked = Asked("t", Tumbling(10 * MS), ("sum",))
    options = {"key": "k", "buckets": 2, "allowed_lateness": 0}

    def go_on(query=asked, **others):
        return run(spark, files, query.for_windlass(), checkpoint, delay=10, **(options | others))

    tables = go_on().tables
    files.add(*stream(91, batches=1, size=10))
    for message, query, others in [
        ("'t' was another one .* its window was .*10ms.* another name", Asked("t", Tumbling(20 * MS), ("sum",)), {}),
        ("of other queries: 't'", Asked("u", Tumbling(20 * MS), ("sum",)), {}),
        ("buckets was 2, now it is 1; give that number", asked, {"buckets": 1}),
        ("allowed_lateness was 0, now it is 5; give it as it was", asked, {"allowed_lateness": "5us"}),
        ("late was 'slices', now it is 'rows'", asked, {"late": "rows"}),
    ]:
        with pytest.raises(StreamingQueryException, match=f"(?s)written by another job: .*{message}"):
            go_on(query, **others)
    tables |= go_on().tables
    assert tables.keys() == {0, 1}


@pytest.mark.parametrize(
    ("kept", "removed", "added"),
    [
        (SLICED[:1], SLICED[1:3], [Asked("new", Sliding(20 * MS, 5 * MS), ("sum", "vwap"))]),
        (EVENTS[:2], EVENTS[2:4], [Asked("new", Tumbling(10 * MS), ("sum", "median"), where="flag")]),
        (SLICED[:1], SLICED[1:2], [Asked("new", Session(3 * MS), ("events",))]),
    ],
    ids=["slices", "events", "slices, then events"],
)
def test_queries_come_and_go(spark, tmp_path, kept, removed, added):
    """Between two runs; a third goes on with the same queries."""
    batches = stream(95, batches=6, size=60, pace=60, how_late=60, keys=["a", "b", None])
    files, checkpoint = Files(tmp_path / "in", batches[:2]), tmp_path / "checkpoint"

    def go_on(asked, *batches):
        files.add(*batches)
        options = {"key": "k", "buckets": 2, "allowed_lateness": "20ms"}
        return run(spark, files, [a.for_windlass() for a in asked], checkpoint, delay=10, **options)

    before, after = [*kept, *removed], [*added, *kept]
    runs = [go_on(before)]
    runs.append(go_on(after, *batches[2:4]))
    fresh_workers(spark)
    runs.append(go_on(after, *batches[4:]))
    changed = 2  # the first batch of the second run
    want = expected(batches, before, delay=10, key=("k",), allowed_lateness=20 * MS)
    # What is new sees the events after the greatest time before it, of all buckets, in whole milliseconds.
    since = (max(row["ts"] for batch in batches[:2] for row in batch) // MS + 1) * MS
    # Of sessions it gives those that cannot have begun before.
    whole_from = since + max(getattr(a.window, "gap", 0) for a in added)
    later = oracle.Stream([a.for_oracle() for a in added], key=("k",), allowed_lateness=20 * MS)
    whole, gone = joined(*runs), {a.name for a in removed}
    for n, (due, (batch, mark)) in enumerate(zip(want.rows, marked(batches, 10), strict=True)):
        if n >= changed:
            later.process([row for row in batch if row["ts"] > since])
            due = [row for row in due if row.query not in gone]
            due += [row for row in later.advance(mark) if row.start > whole_from]
        got = rows_of(whole.tables[n], before if n < changed else after, ("k",))
        assert_same_rows(got, due, f"micro-batch {n}")
    assert {row.query for row in rows_of(runs[-1].mixed, after, ("k",))} == {a.name for a in after}


def test_a_query_with_functions_that_went(spark, tmp_path):
    files, checkpoint = Files(tmp_path / "in", stream(96, batches=1, size=10)), tmp_path / "checkpoint"
    kept = Asked("t", Tumbling(10 * MS), ("sum",)).for_windlass()
    own = Asked("own", Punctuation(Named("odd")), ("sum",)).for_windlass()

    def go_on(*queries, **options):
        return run(spark, files, queries, checkpoint, delay=10, key="k", buckets=1, late="rows", **options)

    go_on(kept, own)
    files.add(*stream(97, batches=1, size=10))
    with pytest.raises(StreamingQueryException, match=r"windows of the query 'own', .*give the query once more"):
        go_on(kept)
    assert go_on(kept, removed=[own]).tables


def test_a_column_of_another_type(spark, tmp_path):
    files, checkpoint = Files(tmp_path / "in", stream(98, batches=1, size=10)), tmp_path / "checkpoint"
    query = Asked("t", Tumbling(10 * MS), ("sum",)).for_windlass()
    run(spark, files, query, checkpoint, delay=10, key="k")
    other = read_stream(spark, files, 10).withColumn("x", F.col("x").cast("double"))
    files.add(*stream(99, batches=1, size=10))
    with pytest.raises(StreamingQueryException, match="column 'x' was of int64, now it is of double; cast it"):
        run(spark, files, query, checkpoint, delay=10, key="k", source=other)
    assert run(spark, files, query, checkpoint, delay=10, key="k").tables
