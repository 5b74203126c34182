"""Many micro-batches with keys that come and go, late bursts and idle stretches: what is held does not grow."""

from __future__ import annotations

from random import Random

import pytest

from tests.spark.streams import BASE, MS, Files, events, run
from windlass import Query, Session, Sliding, Tumbling, agg

pytestmark = pytest.mark.xdist_group("spark")

BATCHES, ROWS, KEYS, PACE = 16, 600, 300, 20


def churning(batches=BATCHES):
    """Every micro-batch has keys of its own, which never come again; some bring events of long ago, two are empty."""
    random = Random(7)
    made = []
    for n in range(batches):
        times = [BASE + (n * PACE + random.randrange(PACE)) * MS for _ in range(ROWS)]
        if n % 5 == 4:
            times[::10] = [ts - 5 * PACE * MS for ts in times[::10]]
        rows = events(times, random, n * ROWS, [f"key {KEYS * n + i}" for i in range(KEYS)])
        made.append([] if n in (7, 8) else rows)
    return made


def test_state_stays_flat(spark, tmp_path):
    queries = [
        Query("tumbling", Tumbling("20ms"), agg.sum("x"), agg.count().alias("n")),
        Query("sliding", Sliding("30ms", "10ms"), agg.max("f")),
        Query("session", Session("5ms"), agg.count()),
    ]
    batches = churning()
    got = run(spark, Files(tmp_path / "in", batches), queries, tmp_path / "checkpoint", delay=0, key="k", buckets=1)
    assert len(got.figures) == BATCHES
    figures = [got.figures[n] for n in sorted(got.figures) if got.figures[n]["events"] is not None]  # if any
    fed = sum(map(len, batches))
    assert sum(f["events"] for f in figures) == fed
    counted = sum(row["n"] for row in got.mixed["tumbling"].to_pylist() if row is not None)
    open_ = [row for batch in batches for row in batch if row["ts"] >= BASE + (BATCHES - 1) * PACE * MS]
    too_late = sum(f["expired"] for f in figures)
    assert counted + len(open_) + too_late == fed and too_late > 0
    early, late = figures[2:9], figures[9:]
    # The log of a state grows to four times its snapshot before it starts anew.
    for name, times in (("slices", 1.5), ("tuples", 1.5), ("open_windows", 1.5), ("state_bytes", 2.5)):
        assert max(f[name] for f in late) <= times * max(f[name] for f in early), name
    # An operator drops keys that nobody needs a thousand at a time.
    assert max(f["keys"] for f in figures) <= 1000 + 4 * KEYS < (BATCHES - 2) * KEYS


@pytest.mark.faults
def test_two_hundred_micro_batches(spark):
    """The case of the benchmarks, on this session: state, memory and time of a batch in the last quarter are what they
    were in the second."""
    from benchmarks import spark as of_benchmarks
    from benchmarks.cases import spark_soak

    of_benchmarks.spark.cache_clear()
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        rows = spark_soak.soak(spark_soak.BATCHES, 1, print)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    assert len(rows) == spark_soak.BATCHES + 1
    assert sum(row["expired"] for row in rows) > 0 and sum(row["late"] for row in rows) > 1000
    for name in ("seconds", "state_bytes", "tuples", "slices", "keys", "workers_mib", "driver_mib", "heap_mib"):
        second, last = spark_soak.quarters(rows, name)
        assert last <= 1.5 * second, f"{name}: {second} and then {last}"
