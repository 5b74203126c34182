"""Watermarks that follow the stream: the same rows as a watermark after each event would give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windlass
from windlass import agg, errors

times = st.lists(st.integers(-20, 60), min_size=1, max_size=40)

WINDOWS = [
    windlass.Tumbling(5),
    windlass.Sliding(7, 3),
    windlass.Session(3),
    windlass.Tumbling(3, measure="count"),
]


def asked() -> list[windlass.Query]:
    return [windlass.Query(f"q{i}", window, agg.sum("x"), agg.last("x")) for i, window in enumerate(WINDOWS)]


def rows(results: windlass.Results) -> list[str]:
    return [repr(sorted(row.items())) for table in results.tables() for row in table.to_pylist()]


def table(ts: list[int], first: int) -> pa.Table:
    return pa.table({"ts": pa.array(ts, pa.int64()), "x": pa.array(range(first, first + len(ts)), pa.int64())})


@settings(max_examples=60, deadline=None)
@example([0, 1, 1, 0], 0, 1, 0, 1)  # the second 1 is final when it comes, and must wait for the next watermark
@given(times, st.integers(0, 10), st.integers(1, 7), st.integers(0, 9), st.integers(1, 12))
def test_as_if_a_watermark_came_after_each_event(
    ts: list[int], delay: int, every: int, lateness: int, size: int
) -> None:
    following = windlass.Operator(
        asked(), time="ts", allowed_lateness=lateness, watermarks=windlass.Watermarks(delay, every)
    )
    told = windlass.Operator(asked(), time="ts", allowed_lateness=lateness)
    want: list[str] = []
    watermark = None
    for i, t in enumerate(ts):
        told.process(table([t], i))
        reached = (max(ts[: i + 1]) - delay) // every * every
        if watermark is None or reached > watermark:  # one that does not rise is not sent again
            want += rows(told.advance(reached))
            watermark = reached
    for i in range(0, len(ts), size):
        following.process(table(ts[i : i + size], i))
    want += rows(told.finish())
    got = rows(following.finish())
    assert Counter(got) == Counter(want)
    assert following.counters["expired"] == told.counters["expired"]
    assert following.counters["late"] == told.counters["late"]


def test_a_watermark_may_be_given_as_well() -> None:
    op = windlass.Operator(
        windlass.Query("q", windlass.Tumbling(10), agg.count()), time="ts", watermarks=windlass.Watermarks(5)
    )
    op.process({"ts": [1, 12]})
    assert len(op.advance()) == 0
    assert len(op.advance(10)) == 1
    assert op.watermark == 10


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((-1,), errors.InvalidArgument), ((1, 0), errors.InvalidArgument), (("1 month",), errors.InvalidArgument)],
)
def test_bad_watermarks(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        windlass.Watermarks(*arguments)


def test_in_order_streams_have_their_own() -> None:
    with pytest.raises(errors.InvalidArgument, match="every event is one"):
        windlass.Operator(
            windlass.Query("q", windlass.Tumbling(10), agg.count()),
            time="ts",
            order="in-order",
            watermarks=windlass.Watermarks(5),
        )
