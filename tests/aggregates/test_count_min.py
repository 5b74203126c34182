from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import NAN, check_subtracting, interpret
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, WrongType
from windlass.stores import TwoStacks

INT = agg.values.value_type("int64")


@pytest.mark.parametrize(
    "column", [pa.array([5, 5, None, -3]), pa.array([NAN, NAN, 0.5]), pa.array(["a", "b", "a"])], ids=str
)
def test_few_values_are_counted_exactly_compiled_or_not(column):
    aggregate = agg.count_min(epsilon=0.01)
    sketch = aggregate.of(column)
    seen = [v for v in column.to_pylist() if v is not None]
    expected = [sum(v == w or (v != v and w != w) for w in seen) if v is not None else 0 for v in column.to_pylist()]
    assert agg.count_min_estimate(sketch, column).tolist() == expected
    assert interpret(aggregate, column) == sketch


def test_the_error_is_within_epsilon():
    values = np.random.default_rng(2).zipf(1.3, 20_000) % 5000
    sketch = agg.count_min(epsilon=0.01, delta=0.01).of(values)
    distinct, counts = np.unique(values, return_counts=True)
    over = agg.count_min_estimate(sketch, distinct) - counts
    assert over.min() >= 0
    assert (over > 0.01 * len(values)).mean() <= 0.01


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3), max_size=10))
def test_what_leaves_the_window_is_subtracted(values):
    oracle = lambda window: agg.count_min(epsilon=0.1).of(np.array(window, np.int64))  # noqa: E731
    check_subtracting(agg.count_min(epsilon=0.1), oracle, pa.array(values, pa.int64()), window=3)


def test_sliding():
    values = pa.array([1, 1, 2, None, 1])
    sketches = TwoStacks(agg.counted(agg.count_min(epsilon=0.1))[0]).slide(values, window=3).to_pylist()
    windows = [values.to_pylist()[max(0, i - 2) : i + 1] for i in range(5)]
    assert [agg.count_min_estimate(s, [1, 2]).tolist() for s in sketches] == [
        [Counter(w)[1], Counter(w)[2]] for w in windows
    ]


def test_nothing():
    empty = agg.count_min().of(pa.array([], pa.int64()))
    assert agg.count_min_estimate(empty, [1, None]).tolist() == [0, 0]


def test_properties_and_size():
    aggregate = agg.count_min("x")
    assert aggregate.commutative and aggregate.invertible and not aggregate.selective
    m = aggregate.monoid([INT])
    assert m.is_compiled and m.fields[0].shape == (5 * 2719,)


def test_wrong_types_and_parameters():
    with pytest.raises(WrongType, match="count_min needs"):
        agg.count_min().of([{"a": 1}])
    for bad in ({"epsilon": 0}, {"epsilon": 2}, {"delta": "a"}, {"delta": 1}, {"epsilon": 1e-9}):
        with pytest.raises(InvalidArgument):
            agg.count_min(**bad)
    with pytest.raises(InvalidArgument, match="not what count_min gives"):
        agg.count_min_estimate(b"WLCM" + bytes(9), [1])
