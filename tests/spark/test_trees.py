"""Plans of several trees on Spark: the oracle's rows whatever the plan, and state that knows its trees."""

from __future__ import annotations

import json

import pytest
from oracle import Cumulate, Sliding, Tumbling

from tests.spark.streams import (
    MS,
    Asked,
    Files,
    assert_like_the_oracle,
    expected,
    fresh_workers,
    run,
    stream,
)
from tests.spark.test_restart import joined
from windlass.errors import InvalidArgument
from windlass.spark import explain, shared_windows
from windlass.spark.asked import job_of

pytestmark = pytest.mark.xdist_group("spark")

ASKED = [
    Asked("tumbling", Tumbling(10 * MS), ("sum", "events")),
    Asked("mean", Tumbling(15 * MS), ("avg",)),  # which holds the sum
    Asked("sliding", Sliding(40 * MS, 10 * MS), ("count", "max"), where="flag"),
    Asked("cumulate", Cumulate(10 * MS, 40 * MS), ("spread", "min")),
]
APART = [(["tumbling", "cumulate"], "blocks"), (["mean"], "panes"), (["sliding"], "flatfat")]


def test_a_pinned_plan_goes_on_from_its_checkpoint(spark, tmp_path):
    """Stopped and restarted; then with another plan, which is for streams that begin: trees go on as they are."""
    batches = stream(31, batches=5, size=60, pace=60, how_late=200, keys=["a", "b", None])
    files, checkpoint = Files(tmp_path / "in", batches[:2]), tmp_path / "checkpoint"
    queries = [a.for_windlass() for a in ASKED]
    options = {"delay": 10, "key": "k", "buckets": 2, "allowed_lateness": "20ms"}
    runs = [run(spark, files, queries, checkpoint, plan=APART, **options)]
    fresh_workers(spark)
    files.add(*batches[2:4])
    runs.append(run(spark, files, queries, checkpoint, plan=APART, **options))
    fresh_workers(spark)
    files.add(*batches[4:])
    runs.append(run(spark, files, queries, checkpoint, plan=APART[::-1], **options))
    want = expected(batches, ASKED, delay=10, key=("k",), allowed_lateness=20 * MS)
    assert_like_the_oracle(joined(*runs), ASKED, want, ("k",))


def test_the_fingerprint_has_the_plan(spark, tmp_path):
    files = Files(tmp_path / "in", stream(1, batches=1, size=5))
    frame = spark.read.parquet(str(files.path))
    queries = [a.for_windlass() for a in ASKED]
    plain = job_of(frame, queries, time="ts", key="k")
    pinned = job_of(frame, queries, time="ts", key="k", plan=APART)
    other = job_of(frame, queries, time="ts", key="k", technique="panes")
    assert len({plain.fingerprint, pinned.fingerprint, other.fingerprint}) == 3
    assert json.loads(pinned.fingerprint)["asked"]["options"]["plan"] == [
        {"queries": list(n), "technique": t} for n, t in APART
    ]
    before = plain.before(pinned.fingerprint)  # goes on with the trees that there are
    assert [tuple(tree) for tree in before.operator().plan] == [(tuple(n), t) for n, t in APART]
    kept = job_of(frame, queries, time="ts", key="k", plan=APART, history=str(tmp_path / "history"))
    assert len(kept.operator().plan) == 4, "the history has a tree of its own"
    with pytest.raises(InvalidArgument, match="lacks"):
        shared_windows(frame, queries, time="ts", key="k", plan=APART[:2])
    assert "by FlatFAT" in explain(frame, queries, time="ts", key="k", plan=APART)
