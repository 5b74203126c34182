"""Closed windows stay closed, and what one query refuses does not reach it by way of another."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import Cumulate, Deterministic, Punctuation, ThresholdFrame, Tumbling

from tests.operator.rows import Asked, Named, Twins, event
from tests.operator.streams import NON_DETERMINISTIC


def at(*times: int, first: int = 0, **columns: Any) -> list[dict[str, Any]]:
    """Events at these times. A column is one value for all, or a list of one value each; ids count from `first`."""
    given = [{k: v[i] if isinstance(v, list) else v for k, v in columns.items()} for i in range(len(times))]
    return [event(ts, id=first + i, **given[i]) for i, ts in enumerate(times)]


def every_event(state: Any, ts: Any, flag: Any) -> Any:
    """A window begins with every event; the oldest ends before an even one that has the flag."""
    n = state[0] + 1
    return (n,), 1, flag and n % 2 == 0


@pytest.mark.parametrize("others", [[], [Asked("c", Tumbling(9, measure="count"))]])
@pytest.mark.parametrize("restart", [True, False])
def test_a_closed_window_does_not_come_again(others: list[Asked], restart: bool) -> None:
    twins = Twins([Asked("q", Deterministic(every_event, ("flag",))), *others])
    twins.process(at(0, 1, 2, 4, flag=[False, False, False, True]))
    assert [(r.low, r.high) for r in twins.advance(5)] == [(0, 4)]
    twins.process(at(3, first=4, flag=False))  # the window that ended before the fourth event would not end now
    assert twins.advance(5) == []
    if restart:
        twins.restart()
    twins.process(at(6, first=5, flag=True))
    assert twins.advance(6) == []  # it does, and was closed long before
    twins.process(at(7, 8, first=6, flag=[False, True]))
    assert [(r.low, r.high) for r in twins.advance(8)] == [(1, 8)]
    twins.process(at(0, first=8))  # and nothing is accepted for its sake
    twins.finish(partial=True)


def test_a_run_that_was_too_short_takes_no_event_that_its_query_refused() -> None:
    # The count windows take the event at -20, and the frames do not: their run was closed at -17.
    twins = Twins([Asked("c", Cumulate(3, 3, measure="count")), Asked("f", ThresholdFrame(Named("flag"), 3))])
    twins.process(at(-22, -17, -17, flag=[True, True, False]))
    assert [r.query for r in twins.advance(-17)] == ["c"]
    twins.process(at(-20, first=3, flag=True))
    assert [r.query for r in twins.finish()] == ["c"]


def test_a_run_that_was_too_short_is_closed() -> None:
    twins = Twins([Asked("f", ThresholdFrame(Named("flag"), 2))], sequence="seq")
    twins.process(at(5, 5, flag=[True, False], seq=[0, 5]))
    assert twins.advance(5) == []
    twins.process(at(5, first=2, flag=True, seq=2))  # in time for what comes at 5, not for the run that ended there
    assert twins.advance(6) == []
    twins.finish()


def test_what_is_left_of_a_run_that_was_closed() -> None:
    # Only the event at 5 is read again. It was the second of its run, and stays it.
    twins = Twins([Asked("f", ThresholdFrame(Named("flag"), 3))], sequence="seq")
    twins.process(at(3, 5, 5, flag=[True, True, False], seq=[0, 1, 9]))
    assert twins.advance(5) == []
    twins.process(at(5, 5, first=3, flag=True, seq=[2, 3]))
    assert twins.advance(5) == []
    twins.process(at(5, 5, 5, 6, first=5, flag=[True, True, True, False], seq=[10, 11, 12, 0]))
    assert [r.values for r in twins.advance(6)] == [([5, 6, 7],)]
    twins.finish()


def test_a_run_that_is_too_short_may_grow_until_it_is_closed() -> None:
    twins = Twins([Asked("f", ThresholdFrame(Named("flag"), 2))], allowed_lateness=3)
    twins.process(at(1, 4, flag=[True, False]))
    assert twins.advance(6) == []
    twins.process(at(2, first=2, flag=True))
    assert [(r.low, r.high, r.revision) for r in twins.advance(6)] == [(1, 4, 0)]
    twins.finish()


def test_a_punctuation_at_the_time_of_a_closed_window() -> None:
    twins = Twins([Asked("p", Punctuation(Named("flag")))], sequence="seq")
    twins.process(at(38, 38, flag=True, seq=[1, 5]))
    assert [r.values for r in twins.advance(38)] == [([0],)]
    twins.process(at(38, first=2, flag=True, seq=3))  # begins a window that no one has closed
    assert [(r.values, r.ordinal) for r in twins.advance(38)] == [(([2],), 1)]
    twins.finish()


def test_the_events_that_are_kept_come_out_at_the_end_though_a_later_window_is_closed() -> None:
    twins = Twins([Asked("q", NON_DETERMINISTIC[2])])
    twins.process(at(-12, -6, y=[3, 0]), at(-10, first=2, y=2))
    twins.advance(-2)
    twins.process(at(-8, first=3, y=0))
    assert [r.values for r in twins.finish(partial=True)] == [([3, 1],)]
