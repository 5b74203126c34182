"""What the public release of Scotty gets wrong, as explicit examples against the oracle.

Each of these loses a window, emits one twice or with wrong values there. The rows that have to come out are written
down, and `Twins` compares the operator with the oracle at each watermark. Events have ids in the order of arrival.
"""

from __future__ import annotations

from typing import Any

import pytest
from oracle import Row, Session, Sliding, Tumbling

from tests.operator.rows import Asked, Twins, event


def at(*times: int, ids: int = 0, **columns: Any) -> list[dict[str, Any]]:
    return [event(ts, id=ids + i, x=ts, **columns) for i, ts in enumerate(times)]


def said(rows: list[Row], *parts: str) -> list[tuple[Any, ...]]:
    """The named parts of rows, in order."""
    return sorted(tuple(getattr(row, part) for part in parts) for row in rows)


def test_a_time_and_a_count_query_together_under_disorder() -> None:
    # ids     0  1  2     3  4     5(ts 4)
    # ts      1  3  5     8  12    4          the last comes out of order, before the watermark
    #         |---- [0, 10) --|---- [10, 20)
    #         |-0 1-|-5 2-|-3 4-|             pairs, by time
    asked = [Asked("time", Tumbling(10), ("list", "sum")), Asked("count", Tumbling(2, measure="count"), ("list",))]
    twins = Twins(asked, allowed_lateness=100)
    twins.process(at(1, 3, 5, 8, 12), at(4, ids=5))
    rows = twins.advance(12)
    assert said(rows, "query", "values") == [
        ("count", ([0, 1],)),
        ("count", ([3, 4],)),
        ("count", ([5, 2],)),
        ("time", ([0, 1, 5, 2, 3], 21)),
    ]
    # One more event after the watermark: it shifts the pairs behind it and changes one window of time.
    rows = twins.process(at(2, ids=6)).advance(12)
    assert said(rows, "query", "revision", "values") == [
        ("count", 1, ([0, 6],)),
        ("count", 1, ([1, 5],)),
        ("count", 1, ([2, 3],)),
        ("time", 1, ([0, 6, 1, 5, 2, 3], 23)),
    ]
    twins.finish()


@pytest.mark.parametrize("aggregate", ["first", "last", "list", "digits"])
@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, 4), Session(5), Tumbling(3, measure="count")])
def test_aggregates_that_are_not_commutative_under_disorder(window: Any, aggregate: str) -> None:
    # arrival   7  2  9  2  4  1      order   1  2  2  4  7  9
    twins = Twins([Asked("q", window, (aggregate,))], allowed_lateness=20)
    twins.process(at(7, 2), at(9, 2, 4, 1, ids=2))
    twins.advance(6)
    twins.process(at(3, 8, ids=6)).advance(30)
    twins.process(at(0, 11, 12, ids=8)).advance(30)
    twins.finish()


def test_count_windows_with_equal_timestamps() -> None:
    # ts   5 5 5 5 5      events of one time keep the order of their arrival; no event is in two windows or in none
    twins = Twins([Asked("q", Tumbling(2, measure="count"))])
    twins.process(at(5, 5, 5))
    assert said(twins.advance(5), "low", "values") == [(0, ([0, 1],))]
    twins.process(at(5, 5, ids=3))
    assert said(twins.advance(5), "low", "values") == [(2, ([2, 3],))]
    assert twins.finish() == []


def test_no_window_is_lost_at_the_first_watermark() -> None:
    # |--a--|--b--|--c--|       the first watermark is far behind the first events
    twins = Twins([Asked("q", Tumbling(10)), Asked("s", Sliding(10, 5)), Asked("sessions", Session(3))])
    twins.process(at(1, 11, 21))
    rows = twins.advance(1000)
    assert said([row for row in rows if row.query == "q"], "low", "values") == [(0, ([0],)), (10, ([1],)), (20, ([2],))]
    assert len([row for row in rows if row.query == "s"]) == 6
    assert len([row for row in rows if row.query == "sessions"]) == 3


def test_nothing_comes_out_twice_at_an_equal_watermark() -> None:
    twins = Twins([Asked("q", Tumbling(10)), Asked("sessions", Session(3)), Asked("n", Tumbling(1, measure="count"))])
    twins.process(at(1, 5))
    assert len(twins.advance(10)) == 5
    assert twins.advance(10) == []
    assert twins.advance(9) == []
    assert len(twins.process(at(10, ids=2)).advance(10)) == 1  # the event at the watermark fills a count window
    assert twins.advance(10) == []
    assert len(twins.finish()) == 2


def test_a_late_event_inside_an_emitted_session() -> None:
    #  0    4    8        12       gap 5
    #  |--------------|            emitted at w = 14; then an event at 6, and one that stretches it back
    twins = Twins([Asked("q", Session(5), ("list", "sum"))], allowed_lateness=50)
    twins.process(at(0, 4, 8))
    assert said(twins.advance(14), "low", "high", "values") == [(0, 13, ([0, 1, 2], 12))]
    twins.process(at(6, ids=3))
    assert said(twins.advance(14), "low", "high", "revision", "values") == [(0, 13, 1, ([0, 1, 3, 2], 18))]
    twins.process(at(-3, ids=4))
    assert said(twins.advance(14), "low", "high", "revision", "retraction") == [(-3, 13, 0, False), (0, 13, 2, True)]
    twins.finish()


def test_a_late_event_in_a_past_window_that_was_empty() -> None:
    twins = Twins([Asked("q", Tumbling(10)), Asked("s", Sliding(20, 10))], allowed_lateness=100)
    twins.process(at(1, 35))
    assert said(twins.advance(40), "query", "low") == [("q", 0), ("q", 30), ("s", -10), ("s", 0), ("s", 20)]
    rows = twins.process(at(25, ids=2)).advance(40)
    assert said(rows, "query", "low", "revision") == [("q", 20, 0), ("s", 10, 0), ("s", 20, 1)]
    twins.finish()


def test_a_watermark_before_any_event() -> None:
    asked = [Asked("q", Tumbling(10)), Asked("s", Session(3)), Asked("n", Tumbling(2, measure="count"))]
    twins = Twins(asked, key=("k",))
    assert twins.advance(-1000) == []
    assert twins.advance(15) == []
    # 12 is late, but its window [10, 20) is not complete, nor is the session [12, 15). 3 is past correction everywhere.
    twins.process(at(12, 16, 3))
    rows = twins.advance(20)
    assert said(rows, "query", "low", "values") == [("q", 10, ([0, 1],)), ("s", 12, ([0],)), ("s", 16, ([1],))]
    twins.finish()


def test_a_slide_that_does_not_divide_the_length() -> None:
    # size 10, slide 3: slices of 1 and 2 in turn
    # |----------|
    #    |----------|
    #       |----------|
    twins = Twins([Asked("q", Sliding(10, 3), ("sum", "list"))], allowed_lateness=4)
    twins.process(at(*range(30)))
    rows = twins.advance(20)
    assert said(rows, "low", "high")[-1] == (9, 19)
    assert dict(said(rows, "low", "values"))[3] == (sum(range(3, 13)), list(range(3, 13)))
    twins.process(at(17, 16, 11, ids=30))
    assert said(twins.advance(21), "low", "revision") == [(9, 1)]
    twins.finish()
