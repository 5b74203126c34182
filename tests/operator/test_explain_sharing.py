"""What `explain(rate=…)` says about sharing."""

from __future__ import annotations

import pytest

from windlass import Operator, Query, Session, Sliding, Tumbling, agg
from windlass.errors import InvalidArgument
from windlass.operator.sharing import acqs_of, shared_plan
from windlass.sharing import ACQ


def test_queries_as_acqs() -> None:
    queries = [
        Query("minute", Sliding("1m", "5s"), agg.sum("x"), agg.avg("x").alias("mean")),
        Query("hour", Tumbling("1h"), agg.sum("x")),
        Query("paid", Tumbling("1h"), agg.sum("x"), where="is_paid"),
        Query("visit", Session("30m"), agg.sum("x")),
    ]
    found = acqs_of(queries)
    # The sum is read from the mean, whose partial holds it; the filtered one is kept apart.
    assert found[:2] == [ACQ("1m", "5s", agg.avg("x"), name="minute"), ACQ("1h", "1h", agg.avg("x"), name="hour")]
    assert [q.name for q in found] == ["minute", "hour", "paid"] and found[2].aggregate != agg.sum("x")
    assert len(shared_plan(queries, 1000).acqs) == 3


def test_explain_with_a_rate() -> None:
    queries = [
        Query("minute", Sliding("1m", "5s"), agg.sum("x")),
        Query("hour", Tumbling("1h"), agg.sum("x")),
        Query("visit", Session("30m"), agg.sum("x")),
    ]
    op = Operator(queries, time="ts")
    plain, text = op.explain(), op.explain(rate=1000)
    assert text.startswith(plain) and "sharing:" not in plain
    for part in ("2 ACQs in 1 tree", "minute (1m every 5s)", "no sharing", "not planned", "visit"):
        assert part in text
    with pytest.raises(InvalidArgument, match="nothing to plan"):
        Operator(Query("visit", Session("30m"), agg.sum("x")), time="ts").explain(rate=5)
    with pytest.raises(InvalidArgument, match="positive"):
        op.explain(rate=0)
