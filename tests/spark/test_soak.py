"""Many micro-batches with keys that come and go: what is held does not grow."""

from __future__ import annotations

from random import Random

import pytest

from tests.spark.streams import BASE, MS, Files, events, run
from windlass import Query, Session, Sliding, Tumbling, agg

pytestmark = pytest.mark.xdist_group("spark")

BATCHES, ROWS, KEYS, PACE = 50, 200, 100, 20


def churning(batches=BATCHES):
    """Every micro-batch has keys of its own, which never come again."""
    random = Random(7)
    made = []
    for n in range(batches):
        times = [BASE + (n * PACE + random.randrange(PACE)) * MS for _ in range(ROWS)]
        rows = events(times, random, n * ROWS, [f"key {KEYS * n + i}" for i in range(KEYS)])
        made.append(rows)
    return made


def test_state_stays_flat(spark, tmp_path):
    queries = [
        Query("tumbling", Tumbling("20ms"), agg.sum("x"), agg.count().alias("n")),
        Query("sliding", Sliding("30ms", "10ms"), agg.max("f")),
        Query("session", Session("5ms"), agg.count()),
    ]
    batches = churning()
    got = run(spark, Files(tmp_path / "in", batches), queries, tmp_path / "checkpoint", delay=0, key="k", buckets=2)
    figures = [got.figures[n] for n in sorted(got.figures)]
    assert len(figures) == BATCHES + 1
    assert sum(f["events"] for f in figures) == BATCHES * ROWS
    counted = sum(row["n"] for row in got.mixed["tumbling"].to_pylist() if row is not None)
    open_ = [row for batch in batches for row in batch if row["ts"] >= BASE + (BATCHES - 1) * PACE * MS]
    assert counted + len(open_) == BATCHES * ROWS
    early, late = figures[5:28], figures[28:]
    for name in ("slices", "tuples", "open_windows", "state_bytes", "keys"):
        assert max(f[name] for f in late) <= 1.5 * max(f[name] for f in early), name
    # An operator drops keys that nobody needs a thousand at a time.
    assert max(f["keys"] for f in figures) <= 2 * (1000 + 3 * KEYS) < BATCHES * KEYS
