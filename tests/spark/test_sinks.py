"""Sinks: each batch once, whole or not at all, wherever a batch is killed; revisions and retractions applied."""

import datetime
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F

from windlass.errors import InvalidArgument, UnknownColumn
from windlass.spark import sinks
from windlass.spark.generator import NAME
from windlass.spark.sinks import idempotent_parquet, read_upserted, upsert_parquet

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """`sen sor` string, query string, window struct<start: timestamp, end: timestamp>, low bigint, high bigint,
    revision bigint, retraction boolean, a struct<total: double>, b struct<n: bigint>, late struct<reason: string>"""


def window(key, query, minute, revision, value, *, retraction=False, low=None):
    start = datetime.datetime(2024, 1, 1, 0, minute, tzinfo=datetime.UTC)
    bounds = (start, start + datetime.timedelta(minutes=1))
    a = (float(value),) if query == "a" else None
    b = (value,) if query == "b" else None
    return (key, query, bounds, low, low, revision, retraction, a, b, None)


LATE = ("x", None, None, None, None, None, None, None, None, ("expired",))


@pytest.fixture
def frame(spark):
    return lambda rows: spark.createDataFrame(rows, SCHEMA)


def valid(spark, path):
    """The table's windows: (key, query, minute, low) to (revision, value)."""
    rows = read_upserted(spark, str(path)).collect()
    found = {
        (row["sen sor"], row.query, row.window.start.minute, row.low): (
            row.revision,
            row.a.total if row.query == "a" else row.b.n,
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def values(path):
    table = ds.dataset(str(path), partitioning="hive").to_table()
    return sorted(zip(table["batch"].to_pylist(), table["id"].to_pylist(), strict=True))


class Killed(BaseException):
    pass


def kill_at(monkeypatch, step):
    """Be killed before the `step`-th change of the file system from now on."""
    left = [step]

    def dying(method):
        def change(*arguments):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return method(*arguments)

        return change

    for name in ("_rename", "_delete", "stage"):
        monkeypatch.setattr(sinks._Table, name, dying(getattr(sinks._Table, name)))


def test_a_batch_that_runs_again_replaces_its_own_rows_only(spark, tmp_path):
    write = idempotent_parquet(str(tmp_path / "out"), compression="zstd")
    write(spark.range(0, 3), 0)
    write(spark.range(3, 5), 12)
    write(spark.range(7, 8), 12)
    write(spark.range(0), 13)
    assert values(tmp_path / "out") == [(0, 0), (0, 1), (0, 2), (12, 7)]
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == [
        "_writer",
        "batch=00000000",
        "batch=00000012",
    ]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4
    write(spark.range(0), 12)
    assert values(tmp_path / "out") == [(0, 0), (0, 1), (0, 2)]


def test_no_kill_shows_half_a_batch(spark, tmp_path, monkeypatch):
    path = tmp_path / "out"
    write = idempotent_parquet(str(path))
    write(spark.range(1), 0)
    old = spark.range(10, 14, numPartitions=2)
    new = spark.range(20, 24, numPartitions=2)
    before = [(0, 0)]
    states = [before, [*before, *((1, n) for n in range(10, 14))], [*before, *((1, n) for n in range(20, 24))]]
    step, done = 0, False
    while not done:
        write(old, 1)
        with monkeypatch.context() as patch:
            kill_at(patch, step)
            try:
                write(new, 1)
                done = True
            except Killed:
                pass
        assert values(path) in states
        write(new, 1)
        assert values(path) == states[2]
        step += 1
    assert step == 6  # begin, stage, out of the way, into place, end; and not killed


def test_revisions_and_retractions(spark, frame, tmp_path):
    path = tmp_path / "table"
    apply = upsert_parquet(str(path))
    with pytest.raises(InvalidArgument, match="there is no table at"):
        read_upserted(spark, str(path))
    apply(frame([LATE]), 0)
    with pytest.raises(InvalidArgument, match="no batch with rows"):
        read_upserted(spark, str(path))
    apply(frame([window("x", "a", 0, 0, 1), window("y", "a", 0, 0, 2), window(None, "b", 0, 0, 3), LATE]), 1)
    first = {("x", "a", 0, None): (0, 1.0), ("y", "a", 0, None): (0, 2.0), (None, "b", 0, None): (0, 3)}
    assert valid(spark, path) == first
    apply(frame([LATE]), 2)
    assert valid(spark, path) == first
    changes = [
        window("x", "a", 0, 1, 1, retraction=True),  # gone
        window("y", "a", 0, 2, 5),  # two corrections in one batch, in any order
        window("y", "a", 0, 1, 4),
        window(None, "b", 0, 1, 3, retraction=True),  # gone, and back within the batch
        window(None, "b", 0, 2, 9),
        window("x", "a", 1, 0, 7, low=0),  # same times, other bounds: two windows
        window("x", "a", 1, 0, 8, low=10),
    ]
    apply(frame(changes), 3)
    second = {
        ("y", "a", 0, None): (2, 5.0),
        (None, "b", 0, None): (2, 9),
        ("x", "a", 1, 0): (0, 7.0),
        ("x", "a", 1, 10): (0, 8.0),
    }
    assert valid(spark, path) == second
    apply(frame(changes), 3)  # runs again
    assert valid(spark, path) == second
    apply(frame([window("z", "a", 0, 0, 1)]), 1)  # from long before
    assert valid(spark, path) == second
    apply(frame([window("x", "a", 0, 2, 6)]), 4)  # back after it was retracted
    assert valid(spark, path) == second | {("x", "a", 0, None): (2, 6.0)}
    assert sorted(entry.name for entry in path.iterdir()) == ["_writer", "version=00000003", "version=00000004"]
    apply(frame([]), 4)  # runs again, and now says nothing
    assert valid(spark, path) == second


def test_queries_come_and_go(spark, frame, tmp_path):
    def noted(df):
        return df.select(*(F.col(f"`{c}`").alias(c, metadata={"of": c} if c in "ab" else {}) for c in df.columns))

    apply = upsert_parquet(str(tmp_path / "table"))
    apply(noted(frame([window("x", "a", 0, 0, 1)]).drop("b")), 0)
    apply(noted(frame([window("x", "b", 0, 0, 2)]).drop("a")), 1)
    assert valid(spark, tmp_path / "table") == {("x", "a", 0, None): (0, 1.0), ("x", "b", 0, None): (0, 2)}
    schema = read_upserted(spark, str(tmp_path / "table")).schema
    assert schema.names[:2] == ["sen sor", "query"]
    assert {field.name: field.metadata for field in schema if field.metadata} == {"a": {"of": "a"}, "b": {"of": "b"}}


def test_no_kill_shows_half_a_version(spark, frame, tmp_path, monkeypatch):
    path = tmp_path / "table"
    apply = upsert_parquet(str(path))
    apply(frame([window("x", "a", 0, 0, 0)]), 0)
    apply(frame([window("x", "a", 0, 1, 1)]), 1)
    step, done = 0, False
    states = [{("x", "a", 0, None): (1, 1.0)}, {("x", "a", 0, None): (2, 2.0), ("x", "a", 1, None): (0, 1.0)}]
    changes = frame([window("x", "a", 0, 2, 2), window("x", "a", 1, 0, 1)])
    while not done:
        with monkeypatch.context() as patch:
            kill_at(patch, step)
            try:
                apply(changes, 2)
                done = True
            except Killed:
                pass
        assert valid(spark, path) in states
        step += 1
    assert valid(spark, path) == states[1]


def test_what_cannot_be_done_is_refused(spark, tmp_path):
    with pytest.raises(InvalidArgument, match="at least 2 versions"):
        upsert_parquet(str(tmp_path), keep=1)
    with pytest.raises(UnknownColumn, match="there is no column 'query' in id"):
        upsert_parquet(str(tmp_path))(spark.range(1), 0)


def test_a_stream_is_replayed_and_another_is_refused(spark, tmp_path, checkpoint):
    path = tmp_path / "out"

    def run(where):
        stream = spark.readStream.format(NAME).options(rows=30, rowsPerBatch=10, partitions=1).load()
        writer = stream.selectExpr("seq as id").writeStream.foreachBatch(idempotent_parquet(str(path)))
        query = writer.option("checkpointLocation", where).trigger(availableNow=True).start()
        query.awaitTermination()

    run(checkpoint)
    expected = [(n // 10, n) for n in range(30)]
    assert values(path) == expected
    # Killed after the sink had written batch 2 and before Spark noted it.
    for note in (Path(checkpoint) / "commits").glob("*2*"):
        note.unlink()
    before = (path / "batch=00000002").stat().st_ino
    run(checkpoint)
    assert values(path) == expected
    assert (path / "batch=00000002").stat().st_ino != before
    with pytest.raises(Exception, match="has the results of another streaming query"):
        run(checkpoint + "-new")
    assert values(path) == expected
