"""Cells of events in no order, against a dictionary of (key, edge)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass import Cumulate, Landmark, Sliding, Tumbling, agg
from windlass.aggregates.counting import counted
from windlass.aggregates.values import value_type
from windlass.slicing import cells as module
from windlass.slicing.cells import cells, fold
from windlass.slicing.edges import begins, ends, together

WINDOWS = [Tumbling(5), Tumbling(4, offset=-1), Sliding(7, 3), Cumulate(2, 6), Landmark(2, 4), Sliding(1000, 999)]

events = st.lists(st.tuples(st.integers(0, 5), st.integers(-30, 60) | st.integers(-(10**15), 10**15)), max_size=60)


def edge_before(progressions: Any, t: int) -> int:
    """The last edge up to a time, from the definition."""
    found = [-(2**63)]
    for origin, period, lowest in progressions.tolist():
        edge = origin if period == 0 else origin + (t - origin) // period * period
        if lowest <= edge <= t:
            found.append(edge)
    return max(found)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=3), events, st.booleans())
@example([Tumbling(5)], [], False)
@example([Tumbling(5)], [(0, 3), (1, 3), (0, 12), (0, 4)], True)
def test_cells(windows: list[Any], events: list[tuple[int, int]], many_keys: bool) -> None:
    bounds = [window.bind(None) for window in windows]
    progressions = together(begins(bounds), ends(bounds))
    key, ts = (np.array([event[i] for event in events], np.int64) for i in (0, 1))
    x = np.arange(len(events))
    found = cells(key, ts, 10**9 if many_keys else 6, progressions)  # so many that they are hashed
    expected: dict[tuple[int, int], list[int]] = {}
    for i, (k, t) in enumerate(events):
        expected.setdefault((k, edge_before(progressions, t)), []).append(i)
    assert [np.flatnonzero(found.of == c).tolist() for c in range(len(found))] == list(expected.values())
    for c, members in enumerate(expected.values()):
        times = [events[i][1] for i in members]
        told = [int(column[c]) for column in (found.key, found.first, found.last, found.events)]
        assert told == [events[members[0]][0], min(times), max(times), len(members)]
    m = agg.sum("x").monoid([value_type(pa.int64())])
    for counts in (np.empty(0, np.bool_), x % 3 > 0):
        (sums, *_) = fold(m, ((x,), counts, len(x)), found)
        taken = [[i for i in members if not len(counts) or counts[i]] for members in expected.values()]
        assert sums.tolist() == [sum(members) for members in taken]


def test_one_combine_an_event() -> None:
    asked, calls = counted(agg.sum("x"))
    m = asked.monoid([value_type(pa.int64())])
    key, ts = np.array([0, 1, 0, 0]), np.array([1, 2, 3, 11])
    found = cells(key, ts, 2, begins([Tumbling(10).bind(None)]))
    assert len(found) == 3
    fold(m, ((np.arange(4),), np.empty(0, np.bool_), 4), found)
    assert calls.combine == 4


@pytest.mark.parametrize("keys", [1, 3, 10**9])
def test_no_events(keys: int) -> None:
    none = np.empty(0, np.int64)
    assert len(cells(none, none, keys, begins([Tumbling(10).bind(None)]))) == 0
    assert module.fold(agg.count().monoid([]), ((), np.empty(0, np.bool_), 0), cells(none, none, 1, none.reshape(0, 3)))
