from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, interpret
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, WrongType
from windlass.stores import TwoStacks

COLUMNS = [
    pa.array([1, -1, 0, None, 2**63 - 1, -(2**63)]),
    pa.array([0, 2**64 - 1], pa.uint64()),
    pa.array([0.5, -0.0, NAN, INF, -INF, 1e300, 3.0, None]),
    pa.array([True, None, True]),
    pa.array(["a", "", None, "é"]),
    pa.array([b"a", b"\0"]),
    pa.array([Decimal("1.50"), Decimal("-2.00")]),
    pa.array([0, 10**15], pa.timestamp("us")),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: str(c.type))
def test_what_was_seen_is_found_compiled_or_not(column):
    aggregate = agg.bloom_filter(expected=100)
    bits = aggregate.of(column)
    assert agg.bloom_contains(bits, column).tolist() == column.is_valid().to_pylist()
    assert interpret(aggregate, column) == bits


def test_a_window_forgets():
    windows = TwoStacks(agg.bloom_filter(expected=100)).slide(pa.array([1, 2, 3, 4]), window=2).to_pylist()
    assert [agg.bloom_contains(w, [1, 2, 3, 4]).tolist() for w in windows] == [
        [True, False, False, False],
        [True, True, False, False],
        [False, True, True, False],
        [False, False, True, True],
    ]


@pytest.mark.parametrize("rate", [0.1, 0.01])
def test_the_rate_of_false_positives(rate):
    bits = agg.bloom_filter(expected=1000, false_positives=rate).of(np.arange(1000))
    assert agg.bloom_contains(bits, np.arange(1000, 101_000)).mean() <= 1.1 * rate


def test_the_size_is_a_power_of_two():
    for expected, rate, size in [(1000, 0.01, 2**14), (1, 0.5, 64), (10**5, 0.001, 2**21)]:
        (field,) = agg.bloom_filter(expected=expected, false_positives=rate).monoid([INT], nullable=True).fields
        assert field.nbytes * 8 == size


INT = agg.values.value_type("int64")


def test_equal_numbers_of_different_types():
    bits = agg.bloom_filter().of([3.0, -7.0, 0.5])
    assert agg.bloom_contains(bits, [3, -7, 5]).tolist() == [True, True, False]
    assert agg.bloom_contains(agg.bloom_filter().of([1, 0]), [True, False]).all()


TWINS = [
    (np.array([2**63], np.uint64), [float(2**63)]),
    (np.array([2**64 - 2048], np.uint64), [float(2**64 - 2048)]),
    ([Decimal("3.00")], [3]),
    ([Decimal("-3")], [-3.0]),
    ([Decimal("0.50")], [0.5]),
    ([Decimal(2**63)], np.array([2**63], np.uint64)),
    ([Decimal("1" + "0" * 22)], [1e22]),
    ([Decimal("0.10")], [Decimal("0.1")]),
    (np.array([7], np.uint64), [7]),
]


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_equal_numbers_hash_alike(one, other):
    assert agg.bloom_contains(agg.bloom_filter().of(one), other).all()
    assert agg.bloom_contains(agg.bloom_filter().of(other), one).all()
    assert interpret(agg.bloom_filter(), pa.array(one)) == agg.bloom_filter().of(other)


def test_great_numbers_are_not_negative_ones():
    great, negative = np.array([2**64 - 1], np.uint64), [-1]
    assert not agg.bloom_contains(agg.bloom_filter().of(great), negative).any()
    assert not agg.bloom_contains(agg.bloom_filter().of(negative), great).any()


def test_decimals_of_many_digits_stay_apart():
    bits = agg.bloom_filter().of([Decimal("0." + "1" * 37 + "2")])
    assert agg.bloom_contains(bits, [Decimal("0." + "1" * 37 + "2"), Decimal("0." + "1" * 37 + "3")]).tolist() == [1, 0]


def test_extreme_rates():
    bits = agg.bloom_filter(expected=1, false_positives=0.9).of([1])
    assert agg.bloom_contains(bits, [1]).all()
    with pytest.raises(InvalidArgument, match="false_positives"):
        agg.bloom_filter(false_positives=1e-100)


def test_nothing():
    for empty in (pa.array([], pa.int64()), pa.array([None], pa.int64())):
        assert not agg.bloom_contains(agg.bloom_filter().of(empty), [0, 1]).any()


@given(st.lists(st.floats(), max_size=20))
def test_any_floats(values):
    bits = agg.bloom_filter(expected=20).of(np.array(values, np.float64))
    assert agg.bloom_contains(bits, np.array(values, np.float64)).all()


def test_properties():
    aggregate = agg.bloom_filter("x")
    assert aggregate.commutative and not aggregate.invertible and not aggregate.selective
    assert aggregate.monoid([INT]).is_compiled
    assert repr(aggregate) == "bloom_filter(x, expected=1000, false_positives=0.01)"


def test_wrong_types_and_parameters():
    with pytest.raises(WrongType, match="bloom_filter needs numbers, times, strings"):
        agg.bloom_filter().of([[1], [2]])
    for bad in (
        {"expected": 0},
        {"expected": 1.5},
        {"false_positives": 0},
        {"false_positives": 1.0},
        {"expected": 10**12},
    ):
        with pytest.raises(InvalidArgument):
            agg.bloom_filter(**bad)
    with pytest.raises(InvalidArgument, match="not what bloom_filter gives"):
        agg.bloom_contains(b"abc", [1])
    with pytest.raises(InvalidArgument, match="not what bloom_filter gives"):
        agg.bloom_contains(agg.count_min(epsilon=0.1).of([1]), [1])
    with pytest.raises(WrongType, match="bytes"):
        agg.bloom_contains(None, [1])
