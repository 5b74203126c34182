"""The order of events, against NumPy's lexsort, which is stable as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.slicing.sorting import order_of

HUGE = 2**62 - 1
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = [
    st.integers(-3, 3),  # ties
    st.integers(-HUGE, HUGE),  # more digits than are sorted by
    st.integers(10**15, 10**15 + 5000),  # two digits, far from 0
    st.sampled_from([-HUGE, HUGE, 0]),
    st.integers(0, 2**54),  # the last range for which digits are used
    st.integers(0, 2**56),
]


def check(key: Any, ts: Any, seq: Any) -> None:
    key, ts, seq = (np.array(values, np.int64) for values in (key, ts, seq))
    before = key.copy(), ts.copy(), seq.copy()
    want = np.lexsort((seq, ts, key))
    got = order_of(key, ts, seq, int(key.max()) + 1 if len(key) else 0)
    if got is None:
        assert want.tolist() == list(range(len(key)))
    else:
        assert got.tolist() == want.tolist()
    for values, was in zip((key, ts, seq), before, strict=True):
        assert (values == was).all()


@pytest.mark.parametrize("times", TIMES, ids=["ties", "huge", "digits", "ends", "54 bits", "56 bits"])
@given(st.data())
def test_as_lexsort_does(times: Any, data: Any) -> None:
    event = st.tuples(st.integers(0, 3), times, st.integers(-2, 2) | st.integers(-HUGE, HUGE))
    events = data.draw(st.lists(event, max_size=40))
    check([e[0] for e in events], [e[1] for e in events], [e[2] for e in events])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50)), max_size=60))
def test_arrival_orders_events_of_one_time(events: list[tuple[int, int]]) -> None:
    check([k for k, _ in events], [t for _, t in events], range(len(events)))


@given(st.lists(INT64, min_size=2, max_size=20))
def test_any_sequence_of_64_bits(sequence: list[int]) -> None:
    check([0] * len(sequence), [5] * len(sequence), sequence)


@pytest.mark.parametrize("n", [2, 1000, 50_000])
@pytest.mark.parametrize("keys", [1, 7, 5000])
def test_many_events(n: int, keys: int) -> None:
    random = np.random.default_rng(n + keys)
    ts = np.arange(n) * 1000 + random.integers(-30_000, 30_000, n)
    check(random.integers(0, keys, n), ts, random.permutation(n))


def test_nothing_to_do_is_none() -> None:
    none = np.empty(0, np.int64)
    assert order_of(none, none, none, 0) is None
    one = np.array([5])
    assert order_of(one, one, one, 6) is None
    arrival = np.arange(4)
    assert order_of(np.array([0, 0, 1, 1]), np.array([3, 3, -9, 2]), arrival, 2) is None
    assert order_of(np.array([0, 1, 0]), np.array([1, 2, 3]), np.arange(3), 2) is not None
