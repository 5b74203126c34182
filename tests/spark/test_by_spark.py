"""Slices that Spark's own aggregation makes are those that Python makes."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import windlass
from windlass import agg
from windlass.errors import InvalidArgument
from windlass.spark import explain, late_of, shared_windows
from windlass.spark.asked import job_of
from windlass.spark.by_spark import choose

pytestmark = pytest.mark.xdist_group("spark")

BIG = agg.sum("l", on_overflow="null")
QUERIES = [
    windlass.Query(
        "sums",
        windlass.Sliding("20s", "5s"),
        agg.sum("i"),
        BIG,
        agg.sum("l", on_overflow="wrap"),
        agg.sum("d"),
        agg.avg("m"),
    ),
    windlass.Query("counts", windlass.Tumbling("15s", offset="3s"), agg.count(), agg.count("d"), agg.avg("i")),
    windlass.Query("extremes", windlass.Tumbling("10s"), agg.min("d"), agg.max("d"), agg.min("l"), agg.max("i")),
]


def events(spark, rows=900, seed=0):
    """Hostile values: nulls in all columns, times before 1970, NaN and infinities, sums that do not fit."""
    rng = np.random.default_rng(seed)

    def some(values, share=0.1):
        return [None if rng.random() < share else v for v in values]

    times = rng.integers(-90_000_000, 90_000_000, rows)
    return spark.createDataFrame(
        pa.table(
            {
                "ts": pa.array(some(times.tolist(), 0.02), pa.timestamp("us", "UTC")),
                "k": pa.array(some(rng.choice(["a", "b", "ü"], rows).tolist()), pa.string()),
                "n": pa.array(some(rng.integers(0, 3, rows).tolist()), pa.int32()),
                "i": pa.array(some(rng.integers(-(2**31), 2**31, rows).tolist()), pa.int32()),
                "l": pa.array(some(rng.choice([2**62, -(2**63), 2**63 - 1, -5, 7], rows).tolist()), pa.int64()),
                "m": pa.array(some(rng.integers(-1000, 1000, rows).tolist()), pa.int64()),
                "d": pa.array(some(rng.choice([np.nan, np.inf, 0.5, -0.25, 4.0], rows).tolist()), pa.float64()),
            }
        )
    )


def rows(frame):
    return sorted(map(str, (row.asDict(recursive=True) for row in frame.collect())))


@pytest.mark.parametrize("key", [None, "k", ["k", "n"]])
def test_the_same_rows_as_by_python(spark, key):
    given = events(spark)
    found = {cut: shared_windows(given, QUERIES, time="ts", key=key, cut=cut) for cut in ("spark", "python")}
    assert rows(found["spark"]) == rows(found["python"])
    untimed = rows(late_of(found["spark"]))
    assert untimed == rows(late_of(found["python"]))
    assert len(untimed) == given.where("ts is null").count() > 0


@pytest.mark.parametrize("cut", ["spark", "python"])
def test_sums_that_do_not_fit_are_refused_and_others_are_right(spark, cut):
    top = 2**63 - 1
    given = spark.createDataFrame(
        pa.table(
            {
                "ts": pa.array([1, 2, 3, 4, 5, 11, 12], pa.int64()),
                "x": pa.array([top, top, -top, -top, 3, 2**62, 2**62], pa.int64()),
            }
        )
    )
    query = windlass.Query("q", windlass.Tumbling(10), agg.sum("x").alias("s"))
    fits = shared_windows(given.where("ts < 10"), query, time="ts", cut=cut)
    assert [row["q"]["s"] for row in fits.collect()] == [3]
    with pytest.raises(Exception, match=r"query 'q', window \[10, 20\), sum\(x\): the sum is 9223372036854775808"):
        shared_windows(given, query, time="ts", cut=cut).collect()
    null = windlass.Query("q", windlass.Tumbling(10), agg.sum("x", on_overflow="null").alias("s"))
    found = shared_windows(given, null, time="ts", cut=cut).collect()
    assert sorted([row["q"]["s"] for row in found], key=str) == [3, None]


def test_times_that_are_numbers(spark):
    given = events(spark).select(F.unix_seconds("ts").alias("t"), "k", "i").where("t is not null")
    query = windlass.Query("n", windlass.Sliding(20, 5), agg.sum("i"), agg.count())
    found = {cut: shared_windows(given, query, time="t", key="k", cut=cut) for cut in ("spark", "python")}
    assert rows(found["spark"]) == rows(found["python"])


def test_nothing(spark):
    given = events(spark).where("k = 'z'")
    assert rows(shared_windows(given, QUERIES, time="ts", key="k", cut="spark")) == []


def reason(given, queries, time="ts", key=None, **options):
    job = job_of(given, queries, time=time, key=key, **options)
    return choose(given, job, "auto")


def test_who_cuts_is_chosen_by_the_first_rows(spark):
    given = events(spark)
    dense = reason(given, windlass.Query("q", windlass.Tumbling("1h"), agg.count()))
    assert dense.by_spark
    assert "events a slice among the first rows, 128 or more are worth it" in dense.reason
    fine = reason(given, windlass.Query("q", windlass.Tumbling("1ms"), agg.count()), key="k")
    assert not fine.by_spark
    assert "1.03 events a slice" in fine.reason
    assert "by Spark itself: asked for" in explain(given, QUERIES, time="ts", cut="spark")
    assert "by Python: asked for" in explain(given, QUERIES, time="ts", cut="python")
    assert not reason(given.where("k = 'z'"), QUERIES).by_spark


def test_where_spark_measures_its_batches_it_cuts_sooner(spark, settings):
    given = events(spark)
    assert not reason(given, QUERIES).by_spark
    assert "measured at every row" not in explain(given, QUERIES, time="ts")
    settings(spark_sql_execution_arrow_maxBytesPerBatch=1 << 26)
    assert "5.03 events a slice among the first rows, 4 or more are worth it" in reason(given, QUERIES).reason
    told = explain(given, QUERIES, time="ts")
    assert "measured at every row (set spark.sql.execution.arrow.maxBytesPerBatch to 2147483647" in told
    assert "by Spark itself: " in told


@pytest.mark.parametrize(
    ("query", "options", "why"),
    [
        (windlass.Query("q", windlass.Tumbling("1s"), agg.variance("d")), {}, "not one of sum, count"),
        (windlass.Query("q", windlass.Tumbling("1s"), agg.count("k")), {}, "'k' is of string"),
        (windlass.Query("q", windlass.Tumbling("1s"), agg.count()), {"key": "d"}, "the key 'd' is of double"),
        (windlass.Query("q", windlass.Session("1s"), agg.count()), {}, "the events themselves"),
        (windlass.Query("q", windlass.Landmark("2000-01-01", "1s"), agg.count()), {}, "no common grid"),
        (
            windlass.Query("q", windlass.Sliding("7s", "5s"), agg.count()),
            {"time": "wall"},
            "times are of timestamp_ntz",
        ),
    ],
)
def test_what_spark_cannot_cut(spark, query, options, why):
    given = events(spark).withColumn("wall", F.col("ts").cast("timestamp_ntz"))
    chosen = reason(given, query, **options)
    assert not chosen.by_spark
    assert why in chosen.reason
    with pytest.raises(InvalidArgument, match="Spark cannot cut these events"):
        shared_windows(given, query, **{"time": "ts", **options}, cut="spark")


def test_rows_that_take_work_are_not_looked_at(spark):
    given = events(spark)
    chosen = reason(
        given.groupBy("ts", "k").agg(F.sum("d").alias("d")), windlass.Query("q", windlass.Tumbling("1s"), agg.sum("d"))
    )
    assert not chosen.by_spark
    assert "without working out" in chosen.reason


def test_streams_and_nonsense(spark):
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    query = windlass.Query("q", windlass.Tumbling("1s"), agg.count())
    assert "it is a stream" in reason(stream, query, time="timestamp").reason
    with pytest.raises(InvalidArgument, match="'auto', 'spark' or 'python'"):
        shared_windows(events(spark), query, time="ts", cut="fast")


def test_a_history_is_kept(spark, tmp_path):
    given = events(spark).where("ts is not null")
    query = windlass.Query("q", windlass.Tumbling("5s"), agg.sum("i"))
    found = {}
    for cut in ("spark", "python"):
        path = str(tmp_path / cut)
        shared_windows(given, query, time="ts", key="k", history=path, cut=cut).write.format("noop").mode(
            "overwrite"
        ).save()
        past = windlass.History(path)
        start = datetime.datetime(1969, 12, 31, 23, 59, tzinfo=datetime.UTC)
        found[cut] = str(past.query(start, start + datetime.timedelta(minutes=2)))
    assert found["spark"] == found["python"]
