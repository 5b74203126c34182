"""Upper bounds on the number of windows, against windows that are listed one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windlass.slicing.rates import Rates
from windlass.slicing.specifications import COUNT, TIME

Window = tuple[int, int]


def bounds(origin: int, period: int, step: int, ends: int, first: int, last: int) -> list[Window]:
    """The windows that end in (first, last]."""
    size = step * ends
    starts = range(origin + (first - size - origin) // period * period, last, period) if period else (origin,)
    found = [(start, start + k * step) for start in starts for k in range(1, ends + 1)]
    return [window for window in found if first < window[1] <= last]


def rates(period: int, step: int, ends: int, emit_empty: bool = False, measure: int = TIME, asked: int = 1) -> Rates:
    return Rates(np.array([[0, period, step, ends, 0, measure, emit_empty]]), np.array([asked]))


shapes = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(1, 30), st.just(1)),  # tumbling, sliding, and with gaps
    st.tuples(st.integers(1, 5), st.integers(2, 6)).map(lambda c: (c[0] * c[1], *c)),  # cumulate
    st.tuples(st.just(0), st.integers(1, 30), st.just(1)),  # one band
)


@given(shape=shapes, times=st.lists(st.integers(0, 40), min_size=1, max_size=12), asked=st.integers(1, 3))
def test_windows_that_hold_an_event(shape: tuple[int, int, int], times: list[int], asked: int) -> None:
    first, last = min(times), 80
    found = [
        window for window in bounds(0, *shape, first, last) if any(window[0] <= time < window[1] for time in times)
    ]
    most = rates(*shape, asked=asked).most(len(times), 1, np.array([float(last - first)]))
    assert most >= asked * len(found)


@given(shape=shapes, first=st.integers(-30, 30), length=st.integers(0, 60), keys=st.integers(1, 4))
def test_empty_windows(shape: tuple[int, int, int], first: int, length: int, keys: int) -> None:
    found = bounds(0, *shape, first, first + length)
    if shape[0] == 0:
        return  # a single window is never emitted empty
    assert rates(*shape, emit_empty=True).most(1, keys, np.array([float(length)])) >= keys * len(found)


def test_nothing_gives_nothing() -> None:
    unknown = np.array([np.inf])
    assert rates(10, 10, 1).most(0, 0, unknown) == 0
    assert rates(10, 10, 1, asked=0).most(5, 5, unknown) == 0  # of a query that was removed
    assert rates(10, 10, 1, emit_empty=True).most(0, 0, unknown) == 0
    assert rates(10, 10, 1, emit_empty=True, measure=COUNT).most(1, 1, unknown) > 10**18
