"""The generated stream: the same rows however it is cut, disorder as declared, options checked, in Spark as without."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import InvalidArgument
from windlass.spark import generator
from windlass.spark.generator import NAME, Options, generate

pytestmark = pytest.mark.xdist_group("spark")

UNRULY = {
    "disorder": 0.3,
    "maxDelay": "2 seconds",
    "burstEvery": "1 minute",
    "burstLength": "5s",
    "burstDelay": "30s",
    "seed": 7,
}

PINNED = [
    ("2024-01-12 13:46:39.772824+00:00", "sensor-5", 67.359375, 1000000000),
    ("2024-01-12 13:46:40.001000+00:00", "sensor-1", 74.734375, 1000000001),
]


def times(table):
    return table["ts"].cast(pa.int64()).to_numpy()


def test_columns_and_the_first_row():
    table = generate(0, 3, rowsPerSecond=2, start="2026-01-01")
    assert table.schema == pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("sensor", pa.string()), ("value", pa.float64()), ("seq", pa.int64())]
    )
    assert [str(ts.as_py()) for ts in table["ts"]] == [
        "2026-01-01 00:00:00+00:00",
        "2026-01-01 00:00:00.500000+00:00",
        "2026-01-01 00:00:01+00:00",
    ]
    assert generate(0, 3, keyType="int").column_names == ["ts", "key", "value", "seq"]


def test_these_rows_never_change():
    """What was generated yesterday is what a checkpoint of yesterday replays."""
    rows = generate(10**9, 10**9 + 2, **UNRULY).to_pylist()
    assert [(str(row["ts"]), row["sensor"], row["value"], row["seq"]) for row in rows] == PINNED


@given(st.lists(st.integers(0, 3000), min_size=2, max_size=6), st.integers(0, 5))
def test_rows_are_the_same_however_they_are_cut(cuts, seed):
    cuts = sorted(cuts)
    options = UNRULY | {"seed": seed}
    pieces = [generate(a, b, **options) for a, b in pairwise(cuts)]
    assert pa.concat_tables(pieces).equals(generate(cuts[0], cuts[-1], **options))


def test_chunks_do_not_show(monkeypatch):
    whole = generate(0, 1000, **UNRULY)
    monkeypatch.setattr(generator, "_CHUNK", 7)  # more keys than that too: names written rather than looked up
    assert generate(0, 1000, **UNRULY).combine_chunks().equals(whole)


def test_disorder_is_what_was_asked_for():
    calm, unruly = generate(0, 50_000), generate(0, 50_000, disorder=0.3, maxDelay="2s")
    delay = times(calm) - times(unruly)
    assert abs(np.count_nonzero(delay) / 50_000 - 0.3) < 0.01
    assert delay.min() == 0 and 1_990_000 < delay.max() <= 2_000_000
    assert np.array_equal(generate(0, 9, disorder=1)["seq"].to_numpy(), np.arange(9))
    assert np.all(np.diff(times(calm)) == 1000)


def test_bursts():
    calm, unruly = generate(0, 20_000), generate(0, 20_000, burstEvery="10s", burstLength="1s", burstDelay="1m")
    late = np.flatnonzero(times(calm) - times(unruly))
    assert np.array_equal(late, np.r_[9000:10000, 19000:20000])
    assert set((times(calm) - times(unruly))[late]) == {60_000_000}


def test_keys_and_values():
    table = generate(0, 60_000, keys=7)
    counts = pc.value_counts(table["sensor"]).to_pylist()
    assert {count["values"] for count in counts} == {f"sensor-{k}" for k in range(7)}
    assert all(abs(count["counts"] - 60_000 / 7) < 500 for count in counts)
    values = table["value"].to_numpy()
    assert values.min() >= 0 and values.max() <= 100
    assert np.array_equal(values * 64, np.round(values * 64))
    assert generate(0, 100, seed=1) != generate(0, 100, seed=2)
    assert pc.max(generate(0, 1000, keys=10**12, keyType="int")["key"]).as_py() > 10**11


def test_slow_fast_and_far_rates():
    assert list(np.diff(times(generate(0, 3, rowsPerSecond="0.5")))) == [2_000_000, 2_000_000]
    assert times(generate(0, 1_001, rowsPerSecond=10**9))[-1] - times(generate(0, 1))[0] == 1
    far = generate(10**15, 10**15 + 1, rowsPerSecond=10**6)
    assert times(far)[0] == times(generate(0, 1))[0] + 10**15


def test_rows_end_the_stream():
    assert generate(5, 100, rows=8)["seq"].to_pylist() == [5, 6, 7]
    assert len(generate(10, 100, rows=8)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rowsPerSecs": 1}, "has no option 'rowsPerSecs'; did you mean 'rowsPerSecond'?"),
        ({"path": "x"}, "has no option 'path'. It has rowsPerSecond, rows,"),
        ({"rows": "-1"}, "option rows of windlass-generator is a whole number, 0 or more, got '-1'"),
        ({"rows": "1.5"}, "whole number"),
        ({"rowsPerSecond": 0}, "option rowsPerSecond of windlass-generator is a number from"),
        ({"rowsPerSecond": "inf"}, "is a number from"),
        ({"rowsPerBatch": 0}, "1 or more"),
        ({"keys": "many"}, "1 or more, got 'many'"),
        ({"keyType": "uuid"}, "'string' or 'int', got 'uuid'"),
        ({"disorder": 1.1}, "a share from 0 to 1"),
        ({"disorder": "nan"}, "a share from 0 to 1"),
        ({"maxDelay": "2"}, "option maxDelay of windlass-generator: duration '2' has no unit"),
        ({"start": "soon"}, "a date and time such as"),
        ({"burstEvery": "1s"}, "burstLength, burstDelay are not set"),
        ({"burstEvery": "1s", "burstLength": "2s", "burstDelay": "1s"}, "longer than burstEvery"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidArgument) as error:
        Options.read(options)
    assert message in str(error.value)


def test_options_in_either_spelling():
    assert Options.read({"rows_per_second": 5, "MAXDELAY": "1s"}) == Options.read(
        {"rowsPerSecond": "5", "max_delay": "1s"}
    )
    with pytest.raises(InvalidArgument, match="begin <= end"):
        generate(3, 2)


def test_the_clock_paces_a_stream_with_a_speed(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(generator.time, "monotonic", lambda: now[0])
    reader = generator._StreamReader(Options.read({"speed": 2, "rowsPerSecond": 10, "rowsPerBatch": 50, "rows": 1000}))
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset({"row": 40}, limit) == {"row": 40}  # a restart at row 40: the clock starts there
    now[0] += 1.5
    assert reader.latestOffset({"row": 40}, limit) == {"row": 70}
    now[0] += 100
    assert reader.latestOffset({"row": 70}, limit) == {"row": 120}  # rowsPerBatch
    assert reader.latestOffset({"row": 990}, limit) == {"row": 1000}
    assert reader.latestOffset({"row": 1000}, limit) == {"row": 1000}


def test_batch_read(spark):
    frame = spark.read.format(NAME).options(rows=2500, partitions=3, **UNRULY).load()
    assert frame.rdd.getNumPartitions() == 3
    assert frame.orderBy("seq").toArrow().equals(generate(0, 2500, **UNRULY))


def test_errors_reach_the_user(spark):
    with pytest.raises(Exception, match="without the option rows has no end: set it, or read a stream"):
        spark.read.format(NAME).load().count()
    with pytest.raises(Exception, match="a schema cannot be given"):
        spark.read.format(NAME).schema("a int").options(rows=1).load().count()
    with pytest.raises(Exception, match="did you mean 'keys'"):
        spark.read.format(NAME).options(rows=1, kees=2).load()


def test_a_stream_restarts_with_the_same_rows_and_ends(spark, checkpoint):
    batches = {}

    def run(**options):
        stream = spark.readStream.format(NAME).options(rows=2500, partitions=2, **UNRULY, **options).load()
        writer = stream.writeStream.foreachBatch(lambda df, batch: batches.update({batch: df.toArrow()}))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    run(rowsPerBatch=1000)
    assert [len(batches[batch]) for batch in sorted(batches)] == [1000, 1000, 500]
    run(rowsPerBatch=1000)  # nothing is left
    rows = pa.concat_tables(batches.values()).sort_by("seq")
    assert rows.combine_chunks().equals(generate(0, 2500, **UNRULY).combine_chunks())


def test_available_now_needs_an_end(spark, checkpoint):
    stream = spark.readStream.format(NAME).load().writeStream.format("noop")
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="availableNow would not: set it"):
        query.awaitTermination()
