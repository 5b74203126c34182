"""The pipeline says what the oracle says: every type of window and aggregate, stream and batch, whatever the key.

A stream is compared micro-batch by micro-batch. Functions of these queries are defined in this file, as in a user's
program, and run on the workers.
"""

from __future__ import annotations

import sys
from random import Random

import oracle
import pyarrow.compute as pc
import pytest
from oracle import (
    Band,
    Cumulate,
    DataDriven,
    Deterministic,
    Landmark,
    LastN,
    NonDeterministic,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)
from pyspark import cloudpickle

import windlass
from tests.spark.streams import (
    AGGREGATES,
    BASE,
    MS,
    Asked,
    Files,
    Named,
    assert_like_the_oracle,
    assert_same_rows,
    collapsed,
    events,
    expected,
    key_option,
    of_batch,
    read_stream,
    rows_of,
    run,
    stages,
    stream,
    table,
    to_the_end,
)
from windlass import agg
from windlass.spark import (
    late_of,
    queries_of,
    read_upserted,
    remaining_windows,
    results_of,
    shared_windows,
    upsert_parquet,
)

pytestmark = pytest.mark.xdist_group("spark")

# Functions of this file travel as those of a program that is run; workers cannot import a file of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# --------------------------------------------------------------------------- functions of a user

PRIME = 1_000_003

# Non-commutative: the base-7 digits of a number, oldest first, modulo a prime.
digits = agg.define(
    "digits",
    lift=lambda x: (x % PRIME, 7),
    combine=lambda a, b: ((a[0] * b[1] + b[0]) % PRIME, a[1] * b[1] % PRIME),
    lower=lambda p: p[0],
)


def lifted(x):
    return x, 1


def added(a, b):
    return a[0] + b[0], a[1] + b[1]


def taken_off(c, a):
    return c[0] - a[0], c[1] - a[1]


# Commutative and invertible, of functions that have names.
total = agg.define(
    "total", lift=lifted, combine=added, inverse=taken_off, lower=lambda p: p[0] * 100 + p[1], commutative=True
)


def digits_of(window):
    xs, number = oracle.values(window), 0
    for x in xs:
        number = (number * 7 + x % PRIME) % PRIME
    return number if xs else None


def total_of(window):
    xs = oracle.values(window)
    return sum(xs) * 100 + len(xs) if xs else None


def is_high(t):
    return pc.greater_equal(t["y"], 3)


MORE = {
    "digits": (digits("x"), oracle.Asked(digits_of, ("x",))),
    "total": (total("y"), oracle.Asked(total_of, ("y",))),
    "high": (is_high, lambda columns: columns["y"] >= 3),
}


def four_every_two(state, ts):
    k = state[0]
    return (k + 1,), 1 if k % 2 == 0 else 0, 1 if k >= 4 and k % 2 == 0 else 0


def last_few(state, ts, y):
    """The last three events whenever y is odd."""
    evict = 1 if state[0] == 3 else 0
    return (state[0] + 1 - evict,), evict, y % 2 == 1


def low_or_high(ts, y):
    return (5000, 2000) if y < 2 else (10000, 5000)


# --------------------------------------------------------------------------- queries

# Windows with fixed edges on time: their events are cut into slices before the exchange.
SLICED = [
    Asked(
        "tumbling",
        Tumbling(10 * MS),
        ("sum", "events", "avg", "stddev", "least_number"),
        more={"least_number": AGGREGATES["min"]},
    ),
    Asked("sliding", Sliding(15 * MS, 4 * MS, 1500), ("count", "max", "sum_f", "vwap", "var_pop"), where="flag"),
    Asked("cumulate", Cumulate(5 * MS, 20 * MS), ("spread", "max_count", "any", "total"), where="y > 1", more=MORE),
    Asked("band", Band(BASE + 7 * MS, 60 * MS), ("arg_max", "top_n", "about")),
    Asked("landmark", Landmark(BASE, 12 * MS), ("sum", "count_min", "bloom"), where="odd"),
    Asked("empty", Tumbling(6 * MS, -1 * MS), ("events", "avg"), where="high", emit_empty=True, more=MORE),
]

# The others, which need the events themselves, and aggregates that do.
OTHERS = [
    Asked("holistic", Tumbling(9 * MS), ("median", "p90", "distinct", "mode")),
    Asked("ordered", Sliding(12 * MS, 6 * MS), ("first", "last", "list", "concat", "m4", "digits"), more=MORE),
    Asked("session", Session(2 * MS), ("events", "sum", "list")),
    Asked("filtered session", Session(1 * MS), ("events", "digits", "about"), where="high", more=MORE),
    Asked("counted", Tumbling(7, measure="count"), ("sum", "list", "median")),
    Asked("counted, sliding", Sliding(10, 4, 1, measure="count"), ("max", "avg", "last"), where="y > 1"),
    Asked("by distance", Sliding(16, 8, measure="km"), ("events", "list", "stddev")),
    Asked("distance so far", Landmark(0, 20, measure="km"), ("sum", "total"), more=MORE),
    Asked("punctuation", Punctuation(Named("flag")), ("list", "min")),
    Asked("punctuation by function", Punctuation(Named("high")), ("events", "digits"), more=MORE),
    Asked("frame", ThresholdFrame(Named("y > 1")), ("events", "sum", "last")),
    Asked("last n", LastN(5, 8 * MS), ("list", "sum_f")),
    Asked("snapshot", Snapshot(3 * MS), ("events", "max"), where="odd"),
    Asked("data-driven", DataDriven(low_or_high, ("y",)), ("list", "avg")),
    Asked("deterministic", Deterministic(four_every_two), ("list", "count")),
]

# Windows that look back before their frontier may see what only another query accepted: each of these is alone.
LOOKING_BACK = [
    Asked("by tuple", SlideByTuple(6 * MS, 2), ("list", "max", "sum")),
    Asked("non-deterministic", NonDeterministic(last_few, ("y",)), ("list", "avg")),
    Asked("long frames", ThresholdFrame(Named("odd"), 2), ("list", "digits"), more=MORE),
]


def check_stream(spark, tmp_path, batches, asked, *, key=(), delay=10, lateness=0, sequence=None, **options):
    queries = [a.for_windlass() for a in asked]
    got = run(
        spark,
        Files(tmp_path / "in", batches),
        queries,
        tmp_path / "checkpoint",
        delay=delay,
        key=key_option(key),
        allowed_lateness=f"{lateness}us",
        sequence=sequence,
        **options,
    )
    want = expected(batches, asked, delay=delay, key=key, sequence=sequence, allowed_lateness=lateness)
    assert_like_the_oracle(got, asked, want, key)
    emitted = {row.query for rows in want.rows for row in rows}
    assert emitted == {a.name for a in asked}, "every query has something to say"
    return got, want


# --------------------------------------------------------------------------- the two stages by themselves


def check_stages(batches, asked, *, key=(), delay=10, lateness=0, sequence=None, **options):
    shared = {"delay": delay, "key": key, "sequence": sequence, "allowed_lateness": lateness}
    got = stages(batches, [a.for_windlass() for a in asked], **shared, **options)
    want = expected(batches, asked, **shared)
    assert_like_the_oracle(got, asked, want, key)
    return got, want


@pytest.mark.parametrize("seed", range(16))
def test_stages(seed):
    """Without Spark, so that there is time for many streams: any queries, keys, partitions, buckets and restarts."""
    random = Random(seed)
    endless = ("landmark", "distance so far")  # for which hardly anything is too late
    queries = [a for a in SLICED + (OTHERS if seed % 2 else []) if a.name not in endless or seed % 3 == 0]
    lateness = random.choice([0, 500, 5 * MS, 30 * MS])
    asked = [random.choice(LOOKING_BACK)] if seed % 5 == 4 else queries
    partitions = random.choice([1, 1, 3])
    batches = stream(
        seed,
        batches=random.randrange(3, 6),
        size=random.choice([5, 30, 50]),
        pace=random.choice([5, 25]),
        disorder=random.choice([0, 8, 15]),
        late=random.choice([0, 0.1, 0.3]),
        how_late=random.choice([20, 80, 200]),
    )
    batches.insert(random.randrange(len(batches)), [])
    check_stages(
        batches,
        asked,
        key=random.choice([(), ("k",), ("j",), ("k", "j"), ("flag", "k")]),
        delay=random.choice([0, 3, 10]),
        lateness=lateness,
        sequence="id" if partitions > 1 else random.choice([None, None, "y"]),
        partitions=partitions,
        buckets=random.choice([1, 2, 7]),
        late=random.choice(["slices", "rows"]),
        restarts={1: "log", 3: "snapshot", 4: "log"} if seed % 4 else {},
    )


def test_a_session_over_an_event_that_it_did_not_accept():
    """`ordered` accepts 160 and keeps it. The session, which later events extend over it, may see it too, but none of
    its own gets lost."""
    asked = [a for a in OTHERS if a.name in ("session", "ordered")]
    times = [{74: -3000, 94: -1740, 105: -5000}, {142: 240, 160: -8000, 167: -7000}, {238: -9000}]
    operator = windlass.Operator([a.for_windlass() for a in asked], time="ts", allowed_lateness="5ms")
    for batch, mark in zip(times, (1000, 6000, 21000), strict=True):
        operator.process(table([events([BASE + ts], Random(i), i)[0] for i, ts in batch.items()]))
        rows = operator.advance(BASE + mark)["session"].to_pylist()
    [row] = [row for row in rows if not row["retraction"]]
    assert {238, 167, 105, 74, 94, 142} <= set(row["list"]) <= {238, 160, 167, 105, 74, 94, 142}
    assert row["events"] == len(row["list"])


@pytest.mark.parametrize("window", [Tumbling(10 * MS), Sliding(20 * MS, 20 * MS)], ids=str)
def test_late_events_of_slices(window):
    """What is expired is exact. `late` counts slices of which all events are late: a slicer knows no watermark."""
    batches = stream(3, late=0.2, how_late=120)
    got, want = check_stages(batches, [Asked("q", window, ("events", "sum"))], key=("k",), lateness=5 * MS)
    figures = [got.figures[n] for n in sorted(got.figures)]
    assert [f["expired"] for f in figures] == [len(ids) for ids in want.expired]
    counted = [f["late"] for f in figures]
    assert any(counted)
    assert all(n <= came for n, came in zip(counted, want.came_late, strict=True))


# --------------------------------------------------------------------------- streams


@pytest.mark.parametrize(
    ("seed", "key", "lateness", "options"),
    [
        (1, ("k",), 0, {}),
        (2, ("j", "k"), 30 * MS, {"buckets": 3}),
    ],
    ids=["no lateness", "lateness"],
)
def test_slices(spark, tmp_path, seed, key, lateness, options):
    batches = stream(seed, batches=5, late=0.15, how_late=120)
    asked = [a for a in SLICED if a.name != "landmark"]  # for which nothing is too late
    got, want = check_stream(spark, tmp_path, batches, asked, key=key, lateness=lateness, **options)
    assert any(want.expired)
    assert got.late()["row"].null_count == got.late().num_rows  # as slices
    if lateness:
        assert any(row.revision for rows in want.rows for row in rows)


@pytest.mark.parametrize(
    ("seed", "key", "lateness", "options"),
    [
        (3, ("k",), 25 * MS, {"late": "rows"}),
        (4, (), 0, {}),
        (5, ("j",), 0, {"late": "rows", "buckets": 2, "sequence": "y"}),
    ],
    ids=["text key, lateness", "no key", "number key, sequence"],
)
def test_events(spark, tmp_path, seed, key, lateness, options):
    batches = stream(seed, batches=4, size=70, how_late=150)
    got, want = check_stream(spark, tmp_path, batches, SLICED + OTHERS, key=key, lateness=lateness, **options)
    assert any(want.expired)
    assert got.late()["row"].null_count == 0  # as they came
    if lateness:
        assert any(row.retraction for rows in want.rows for row in rows)


@pytest.mark.parametrize("query", LOOKING_BACK, ids=lambda a: a.name)
def test_windows_that_look_back(spark, tmp_path, query):
    batches = stream(6, batches=3, how_late=60)
    _, want = check_stream(spark, tmp_path, batches, [query], key=("k",), lateness=8 * MS)
    assert any(want.expired)


# --------------------------------------------------------------------------- batch


@pytest.mark.parametrize("key", [(), ("k",), ("j",), ("k", "j"), ("flag", "k")], ids=str)
def test_batch(spark, tmp_path, key):
    """Events in several files, which Spark reads in any order and in several partitions: a sequence column orders
    them."""
    asked = SLICED + OTHERS + LOOKING_BACK
    batches = stream(10 + len(key), batches=5, size=60)
    Files(tmp_path / "in", batches)
    frame = spark.read.parquet(str(tmp_path / "in")).repartition(3)
    queries = [a.for_windlass() for a in asked]
    mixed = shared_windows(frame, queries, time="ts", key=key_option(key), sequence="id")
    assert set(queries_of(mixed)) == {a.name for a in asked}
    rows = [row for batch in batches for row in batch]
    want = of_batch(rows, asked, key=key, sequence="id")
    assert_same_rows(rows_of(mixed.toArrow(), asked, key), want)
    assert {row.query for row in want} == {a.name for a in asked}


def test_batch_and_stream_agree(spark, tmp_path):
    """Where nothing expired, a stream's rows, and what is left in its checkpoint, come down to those of a batch when
    corrections and retractions are applied."""
    batches = stream(20, batches=4, size=60, how_late=60)
    asked = [a for a in SLICED + OTHERS if not a.emit_empty]  # empty windows go on to the watermark, or to the end
    files, queries = Files(tmp_path / "in", batches), [a.for_windlass() for a in asked]
    options = {"key": "k", "sequence": "id"}
    frame, in_stream = read_stream(spark, files, 0), options | {"allowed_lateness": "1 hour"}
    streamed = run(spark, files, queries, tmp_path / "checkpoint", delay=0, source=frame, **in_stream)
    assert streamed.late().num_rows == 0
    rows = rows_of(streamed.mixed, asked, ("k",))
    assert any(row.retraction for row in rows) and any(row.revision for row in rows)
    left = remaining_windows(tmp_path / "checkpoint", frame, queries, time="ts", **in_stream)
    rows += rows_of(left.toArrow(), asked, ("k",))
    frame = spark.read.parquet(str(files.path))
    at_once = rows_of(shared_windows(frame, queries, time="ts", **options).toArrow(), asked, ("k",))
    assert_same_rows(collapsed(rows), collapsed(at_once))
    assert any(row.ordinal for row in collapsed(rows))
    assert {row.query for row in collapsed(rows)} == {a.name for a in asked}


def test_upserted_table(spark, tmp_path):
    """The table that `upsert_parquet` keeps has the latest revision of each window, also where its times have moved."""
    asked = [
        Asked("tumbling", Tumbling(10 * MS), ("events", "sum")),
        Asked("session", Session(2 * MS), ("events",)),
        Asked("counted", Tumbling(3, measure="count"), ("list",)),
        Asked("by distance", Tumbling(16, measure="km"), ("list",)),
        Asked("marked", Punctuation(Named("y > 1")), ("list",)),
    ]
    batches = stream(22, batches=3, size=60, pace=8, late=0.2, how_late=60)
    files = Files(tmp_path / "in", batches)
    mixed = shared_windows(
        read_stream(spark, files, 0),
        [a.for_windlass() for a in asked],
        time="ts",
        key="k",
        allowed_lateness="1 hour",
    )
    path = str(tmp_path / "table")
    to_the_end(mixed.writeStream.foreachBatch(upsert_parquet(path)), tmp_path / "checkpoint")
    want = expected(batches, asked, delay=0, key=("k",), allowed_lateness=3_600_000 * MS)
    rows = [row for rows in want.rows for row in rows]
    assert any(row.retraction for row in rows) and any(row.revision for row in rows if row.query == "counted")
    assert any(row.ordinal for row in collapsed(rows))
    got = rows_of(read_upserted(spark, path).toArrow(), asked, ("k",))
    assert_same_rows([row._replace(revision=-1) for row in got], collapsed(rows))


def test_views(spark, tmp_path):
    """`results_of` and `late_of` on what a stream has written."""
    batches = stream(30, batches=4)
    files = Files(tmp_path / "in", batches)
    asked = [SLICED[0], Asked("counted", Tumbling(7, measure="count"), ("sum",))]
    mixed = shared_windows(
        read_stream(spark, files, 10), [a.for_windlass() for a in asked], time="ts", key="k", late="rows"
    )
    to_the_end(mixed.writeStream.format("parquet").option("path", str(tmp_path / "out")), tmp_path / "checkpoint")
    written = spark.read.parquet(str(tmp_path / "out"))
    assert queries_of(written) == ["tumbling", "counted"]
    want = expected(batches, asked, delay=10, key=("k",))
    values = ["sum", "events", "avg", "stddev", "least_number"]
    assert results_of(written, "tumbling").columns == ["k", "window", "revision", "retraction", *values]
    assert results_of(written, "tumbling", history=False).columns == ["k", "window", *values]
    assert results_of(written, "counted").columns == ["k", "window", "low", "high", "revision", "retraction", "sum"]
    due = [row for rows in want.rows for row in rows]
    for name in ("tumbling", "counted"):
        got = results_of(written, name).select("k", "window.start", "revision", *([values[0]])).toArrow()
        got = got.set_column(1, "start", got["start"].cast("int64")).to_pylist()
        assert_same_rows(
            [tuple(row.values()) for row in got],
            [(*row.key, row.start, row.revision, row.values[0]) for row in due if row.query == name],
        )
    late = late_of(written)
    assert late.columns == ["k", "reason", "events", "first", "last", "row", "tumbling", "counted"]
    expired = sorted(i for ids in want.expired for i in ids)
    assert sorted(r.row.id for r in late.collect()) == expired != []
