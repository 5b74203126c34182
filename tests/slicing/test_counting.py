"""Windows counted by arithmetic, against windows that are listed one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windlass.slicing.counting import added, windows_in, windows_with
from windlass.slicing.edges import NEVER

origins = st.integers(-20, 20)
periodic = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(1, 30), st.just(1)),  # tumbling, sliding, and with gaps
    st.tuples(st.integers(1, 5), st.integers(2, 6)).map(lambda c: (c[0] * c[1], *c)),  # cumulate
)
bands = st.tuples(st.just(0), st.integers(1, 30), st.just(1))


def listed(origin: int, period: int, step: int, ends: int, first: int) -> list[tuple[int, int]]:
    """All windows from number `first` on that lie near the values of these tests."""
    numbers = range(first, 200) if period else (0,)
    starts = [origin + number * period for number in numbers]
    return [(start, start + k * step) for start in starts for k in range(1, ends + 1)]


@given(
    origin=origins,
    shape=periodic | bands,
    values=st.lists(st.integers(-40, 60), max_size=15).map(sorted),
    shift=st.integers(0, 5),
    first=st.integers(-60, 5),
    after=st.integers(-60, 60),
    length=st.integers(0, 100),
    last_start=st.just(NEVER) | st.integers(-60, 90),
)
def test_windows_that_hold_a_value(
    origin: int,
    shape: tuple[int, int, int],
    values: list[int],
    shift: int,
    first: int,
    after: int,
    length: int,
    last_start: int,
) -> None:
    period, step, ends = shape
    first = first if period else 0
    if ends == 1:  # the first one that ends after `after`, as callers give it
        first = max(first, (after - step - origin) // period + 1) if period else 0
        if not period and origin + step <= after:
            return
    upto = after + length
    expected = [
        (start, end)
        for start, end in listed(origin, period, step, ends, first)
        if after < end <= upto and start <= last_start and any(start <= value - shift < end for value in values)
    ]
    found = windows_with(
        np.array(values, np.int64), 0, len(values), shift, origin, period, step, ends, first, after, upto, last_start
    )
    assert found == len(expected)


@given(
    origin=origins,
    shape=periodic,
    after=st.integers(-60, 60),
    length=st.integers(0, 100),
    last_start=st.just(NEVER) | st.integers(-60, 90),
)
def test_windows_whether_or_not_they_hold_a_value(
    origin: int, shape: tuple[int, int, int], after: int, length: int, last_start: int
) -> None:
    period, step, ends = shape
    first = (after - step * ends - origin) // period + 1  # the first one that may end later
    expected = [
        (start, end)
        for start, end in listed(origin, period, step, ends, first)
        if after < end <= after + length and start <= last_start
    ]
    assert windows_in(origin, period, step, ends, first, after, after + length, last_start) == len(expected)


def test_counts_that_do_not_fit_stop_at_the_greatest() -> None:
    assert added(3, 4) == 7
    assert added(NEVER - 1, 4) == NEVER
    assert added(NEVER, 1) == NEVER
