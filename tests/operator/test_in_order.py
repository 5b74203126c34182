"""Streams that were promised to be in order: by time, and with a sequence column by that too."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass import agg
from windlass.errors import OutOfOrder

WINDOWS = {
    "time": windlass.Tumbling(5),  # dropped tuples
    "count": windlass.Tumbling(2, measure="count"),
    "last n": windlass.LastN(2, 5),  # tuples are kept
}


def batch(*rows: tuple[int, int], key: Any = 0) -> dict[str, Any]:
    keys = key if isinstance(key, list) else [key] * len(rows)
    return {"ts": [ts for ts, _ in rows], "seq": [n for _, n in rows], "k": keys, "x": [n for _, n in rows]}


def made(window: str, key: str | None, sequence: str | None = "seq") -> windlass.Operator:
    queries = [windlass.Query("q", WINDOWS[window], agg.collect_list("x"))]
    return windlass.Operator(queries, time="ts", key=key, sequence=sequence, order="in-order")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize(
    ("before", "rows", "row", "message"),
    [
        ([], [(7, 4), (7, 1), (7, 2)], 1, "seq 1 at time 7, after 4"),
        ([[(7, 4), (7, 4)]], [(7, 1)], 0, "seq 1 at time 7, after 4"),
        ([[(3, 9)], [(7, 1), (7, 2)], [(7, 2)]], [(7, 2), (7, 3), (7, 2)], 2, "seq 2 at time 7, after 3"),
        ([[(7, -5)]], [(7, -6), (8, 0)], 0, "seq -6 at time 7, after -5"),
        ([[(7, 4)]], [(6, 9)], 0, "time 6, earlier than 7"),
    ],
)
def test_an_event_out_of_order(
    window: str, key: Any, before: list[Any], rows: list[Any], row: int, message: str
) -> None:
    op, other = made(window, key), made(window, key)
    for some in before:
        op.process(batch(*some))
        other.process(batch(*some))
    with pytest.raises(OutOfOrder, match=f"row {row} of the batch has {message}"):
        op.process(batch(*rows))
    assert op.counters == other.counters
    for each in (op, other):  # nothing has changed
        each.process(batch((9, 0), (9, 0), (12, 1)))
    assert op.finish()["q"].equals(other.finish()["q"])


def test_nothing_is_late_in_order() -> None:
    op = windlass.Operator(
        windlass.Query("q", windlass.Tumbling(5), agg.count()), time="ts", sequence="seq", order="in-order"
    )
    op.process(batch((0, 2)))
    op.add(windlass.Query("more", windlass.LastN(2, 5), agg.count()))
    op.remove("q")
    op.process(batch((0, 3)))  # at the time of the watermark, and before the query that is left
    assert op.counters["late"] == 0


def test_the_order_is_that_of_the_whole_stream() -> None:
    with pytest.raises(OutOfOrder, match="row 1 of the batch has seq 1 at time 7, after 4"):
        made("count", "k").process(batch((7, 4), (7, 1), key=["a", "b"]))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("key", [None, "k"])
def test_events_of_one_time_in_order(window: str, key: Any) -> None:
    """However they are cut into batches, and with a restart between them."""
    rows = [(1, 3), (2, 1), (2, 1), (2, 5), (2, 5), (2, 8), (6, -1), (6, 0)]
    op = made(window, key)
    op.process(batch(*rows))
    want = op.finish()["q"].to_pylist()
    for cut in range(1, len(rows)):
        parts = made(window, key)
        parts.process(batch(*rows[:cut]))
        found = parts.advance()["q"].to_pylist()
        parts = made(window, key).restore(parts.snapshot())
        with pytest.raises(OutOfOrder):
            parts.process(batch((rows[cut - 1][0], rows[cut - 1][1] - 1)))
        parts.process(batch(*rows[cut:]))
        assert found + parts.finish()["q"].to_pylist() == want


def test_a_watermark_that_was_given_says_nothing_of_sequences() -> None:
    op = made("count", None)
    op.process(batch((1, 9)))
    op.advance(5)
    op.process(batch((5, -3), (5, -3)))
    with pytest.raises(OutOfOrder, match="seq -4"):
        op.process(batch((5, -4)))


def test_without_a_sequence_column_arrival_is_the_order() -> None:
    op = made("count", None, sequence=None)
    op.process(batch((7, 4), (7, 1), (7, 2)))
    op.process(batch((7, 0)))
    assert op.advance()["q"].column("collect_list(x)").to_pylist() == [[4, 1], [2, 0]]
