"""Edges as arithmetic progressions, against enumeration by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kernels import compiled
from windlass.slicing import edges
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.windows.window import Periodic

HUGE = 2**62 - 1  # the latest time there is


def rows(progressions: Any) -> list[tuple[int, int, int]]:
    return [tuple(row) for row in progressions.tolist()]


def tumbling(size: int, offset: int = 0) -> Periodic:
    return Periodic(offset, size, size, 1)


def sliding(size: int, slide: int, offset: int = 0) -> Periodic:
    return Periodic(offset, slide, size, 1)


def cumulate(step: int, size: int, offset: int = 0) -> Periodic:
    return Periodic(offset, size, step, size // step)


def band(start: int, size: int) -> Periodic:
    return Periodic(start, 0, size, 1)


def landmark(start: int, slide: int) -> Periodic:
    return Periodic(start, 0, slide, 0, last_only=True)


def windows_of(w: Periodic, low: int, high: int) -> list[tuple[int, int]]:
    """All windows with an edge in low … high, one by one."""
    reach = range((low - w.origin) // w.period - 60, (high - w.origin) // w.period + 2) if w.period else [0]
    found = []
    for k in reach:
        s = w.origin + k * w.period
        found += [(s, s + j * w.step) for j in range(1, (w.ends or (high - s) // w.step + 1) + 1)]
    return found


periodic = st.one_of(
    st.builds(tumbling, st.integers(1, 12), st.integers(-9, 9)),
    st.builds(
        lambda slide, more, o: sliding(slide + more, slide, o),
        st.integers(1, 9),
        st.integers(0, 20),
        st.integers(-9, 9),
    ),
    st.builds(lambda step, n, o: cumulate(step, step * n, o), st.integers(1, 5), st.integers(1, 5), st.integers(-9, 9)),
    st.builds(band, st.integers(-30, 30), st.integers(1, 20)),
    st.builds(landmark, st.integers(-30, 30), st.integers(1, 9)),
)


# --------------------------------------------------------------------------- begins and ends


@given(st.lists(periodic, max_size=5), st.integers(-60, 60), st.integers(0, 80))
def test_begins_and_ends_are_those_of_the_windows(windows: list[Periodic], after: int, length: int) -> None:
    upto = after + length
    found = [edge for w in windows for edge in windows_of(w, after, upto)]
    begins = sorted({s for s, _ in found if after < s <= upto})
    ends = sorted({e for _, e in found if after < e <= upto})
    assert edges.between(edges.begins(windows), after, upto).tolist() == begins
    assert edges.between(edges.ends(windows), after, upto).tolist() == ends
    both = edges.together(edges.begins(windows), edges.ends(windows))
    assert edges.between(both, after, upto).tolist() == sorted({*begins, *ends})


@given(st.lists(periodic, min_size=1, max_size=5), st.integers(-80, 80))
def test_next_and_last_edge(windows: list[Periodic], value: int) -> None:
    both = edges.together(edges.begins(windows), edges.ends(windows))
    later, earlier = edges.between(both, value, value + 60), edges.between(both, value - 60, value)
    following, before = edges.next_edge(both, value), edges.last_edge(both, value)
    assert following > value >= before
    assert (following == later[0]) if len(later) else following in (NEVER, *edges.between(both, value, value + 200))
    assert (before == earlier[-1]) if len(earlier) else before in (LONG_AGO, *edges.between(both, value - 200, value))


def test_no_edges() -> None:
    none = edges.begins([])
    assert none.shape == (0, 3)
    assert edges.between(none, -10, 10).tolist() == []
    assert edges.next_edge(none, 0) == NEVER
    assert edges.last_edge(none, 0) == LONG_AGO
    assert edges.laid_out(none, 0, 10, 5) is None


def test_compiled_is_as_interpreted() -> None:
    both = edges.together(edges.begins([sliding(10, 3), band(5, 7)]), edges.ends([sliding(10, 3), landmark(-4, 5)]))
    following, before = compiled(edges.next_edge), compiled(edges.last_edge)
    for value in range(-30, 30):
        assert following(both, value) == edges.next_edge(both, value)
        assert before(both, value) == edges.last_edge(both, value)


# --------------------------------------------------------------------------- pruning


@pytest.mark.parametrize(
    ("windows", "kept"),
    [
        # twenty tumbling windows of 1 to 20 are the one progression of 1
        ([tumbling(n) for n in range(1, 21)], [(0, 1, LONG_AGO)]),
        ([tumbling(4), tumbling(6)], [(0, 4, LONG_AGO), (0, 6, LONG_AGO)]),
        ([tumbling(4), tumbling(8), tumbling(12, 4)], [(0, 4, LONG_AGO)]),
        ([tumbling(4), tumbling(8, 2)], [(0, 4, LONG_AGO), (2, 8, LONG_AGO)]),
        ([tumbling(4, 5), tumbling(4, -3), tumbling(4, 1)], [(1, 4, LONG_AGO)]),  # offsets that come to the same
        ([band(8, 3), tumbling(4)], [(0, 4, LONG_AGO)]),  # a single point on a progression
        ([band(9, 3), tumbling(4)], [(0, 4, LONG_AGO), (9, 0, LONG_AGO)]),
        ([band(9, 3), landmark(9, 1)], [(9, 0, LONG_AGO)]),
    ],
)
def test_a_progression_that_lies_in_another_is_dropped(
    windows: list[Periodic], kept: list[tuple[int, int, int]]
) -> None:
    assert rows(edges.begins(windows)) == kept


def test_a_landmark_has_no_edges_before_its_first_end() -> None:
    #   10     13     16     19          [10, 13), [10, 16), …
    ends = edges.ends([landmark(10, 3)])
    assert rows(ends) == [(10, 3, 13)]
    assert edges.between(ends, -100, 20).tolist() == [13, 16, 19]
    assert edges.next_edge(ends, -100) == 13
    assert edges.last_edge(ends, 12) == LONG_AGO
    assert edges.last_edge(ends, 13) == 13


def test_a_landmark_lies_in_a_progression_but_not_the_other_way_round() -> None:
    assert rows(edges.ends([landmark(0, 6), tumbling(3)])) == [(0, 3, LONG_AGO)]
    assert rows(edges.ends([landmark(0, 3), tumbling(6)])) == [(0, 3, 3), (0, 6, LONG_AGO)]
    assert rows(edges.ends([landmark(0, 3), landmark(6, 3), landmark(9, 6)])) == [(0, 3, 3)]


@given(st.lists(periodic, min_size=1, max_size=6))
def test_pruning_loses_no_edge(windows: list[Periodic]) -> None:
    one_by_one = np.unique(np.concatenate([edges.between(edges.ends([w]), -100, 100) for w in windows]))
    assert edges.between(edges.ends(windows), -100, 100).tolist() == one_by_one.tolist()


# --------------------------------------------------------------------------- laying out


def test_few_progressions_are_not_laid_out() -> None:
    assert edges.laid_out(edges.begins([tumbling(4), tumbling(6)]), 0, 100, 1000) is None


def test_many_progressions_are_laid_out_where_events_are_many() -> None:
    primes = [tumbling(p) for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)]
    progressions = edges.begins(primes)
    laid = edges.laid_out(progressions, -5, 100, 50)
    assert laid is not None
    assert laid.tolist() == [t for t in range(-4, 101) if any(t % w.period == 0 for w in primes)]
    # A second's windows over data that spans years: computed one by one.
    assert edges.laid_out(progressions, 0, 10**9, 50) is None


def test_equal_edges_are_counted_apart() -> None:
    progressions = edges.begins([tumbling(4), tumbling(6)])
    assert edges.count_between(progressions, 0, 12) == 5  # 4 8 12 and 6 12
    assert edges.between(progressions, 0, 12).tolist() == [4, 6, 8, 12]
    assert edges.count_between(progressions, 12, 0) == 0


# --------------------------------------------------------------------------- far away

FAR = [-HUGE, -HUGE + 1, -(2**53) - 1, -1, 0, 1, 2**53 + 1, HUGE - 1, HUGE]


@pytest.mark.parametrize("value", FAR)
@pytest.mark.parametrize(
    ("origin", "period"), [(0, 1), (-7, 10), (5, 86_400_000_000), (3, 2**61), (-HUGE, 7), (HUGE, 7)]
)
def test_far_from_the_origin(value: int, origin: int, period: int) -> None:
    progressions = edges.repeating([(origin, period)])
    exact = value - (value - origin) % period  # Python's integers have no end
    assert compiled(edges.last_edge)(progressions, value) == exact
    assert compiled(edges.next_edge)(progressions, value) == exact + period
    assert edges.between(progressions, exact, exact + period).tolist() == [exact + period]


@pytest.mark.parametrize("value", FAR)
def test_a_single_edge_far_away(value: int) -> None:
    progressions = edges.begins([band(value, 1)])
    assert compiled(edges.last_edge)(progressions, value) == value
    assert compiled(edges.next_edge)(progressions, value - 1) == value
    assert edges.between(progressions, value - 1, value).tolist() == [value]
