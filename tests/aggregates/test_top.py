import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, check, float_columns, monoid, nan_last
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, UnsupportedAggregate, WrongType


def best(n, largest):
    return lambda values: sorted(values, key=nan_last, reverse=largest)[:n]


CASES = [(agg.top_n(n=3), best(3, True)), (agg.top_n(n=2, largest=False), best(2, False))]


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_floats(aggregate, oracle):
    mixed = pa.array([None, 3.0, 1.0, NAN, 7.0, None, -INF, INF, NAN, 4.0, 4.0])
    check(aggregate, oracle, mixed, window=4 if aggregate is CASES[0][0] else None)
    check(aggregate, oracle, pa.array([2.5]))
    check(aggregate, oracle, pa.array([None, None], pa.float64()))
    check(aggregate, oracle, pa.array([], pa.float64()))


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
@given(values=float_columns, seed=st.integers(0, 1000))
def test_any_floats_in_any_association(aggregate, oracle, values, seed):
    check(aggregate, oracle, values, seed=seed)


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", None, "a", "b", "c"]),
        pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00")]),
        pa.array([2**62 + 1, None, 2**62 + 3, 2**62 + 2]),
        pa.array([2**64 - 1, None, 2**63 + 1, 1], pa.uint64()),
        pa.array([True, None, False, True]),
        pa.array([datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1)]),
        pa.array([1, 5, None, 3], pa.timestamp("ms", "UTC")),
    ],
    ids=lambda a: str(a.type),
)
def test_other_types(aggregate, oracle, values):
    check(aggregate, oracle, values, compiled=False)
    if values.type == pa.string():
        check(aggregate, oracle, values, window=2)


def test_unsigned_integers_stay_unsigned_when_compiled():
    check(*CASES[0], pa.array([2**64 - 1, 2**63 + 1, None, 3, 2**64 - 2], pa.uint64()))


def test_many_values_of_numpy():
    values = np.random.default_rng(5).integers(0, 1000, 2000)
    assert agg.top_n(n=50).of(values) == sorted(values.tolist(), reverse=True)[:50]


def test_partials_are_left_alone():
    m = monoid(agg.top_n(n=2), pa.array([1]))
    a, b = m.combine(m.lift(1), m.lift(2)), m.lift(3)
    before = a[0].copy(), b[0].copy()
    c = m.combine(a, b)
    assert (a[0] == before[0]).all() and (b[0] == before[1]).all()
    assert c[0] is not a[0] and c[0] is not b[0]


def test_properties_and_names():
    for aggregate, _ in CASES:
        assert aggregate.commutative and not aggregate.invertible and not aggregate.selective
        assert aggregate.kind == "algebraic"
    assert repr(agg.top_n("x", 3)) == "top_n(x, n=3)"
    assert repr(agg.top_n("x", 3, largest=False)) == "top_n(x, n=3, largest=False)"
    with pytest.raises(UnsupportedAggregate, match="no inverse"):
        agg.top_n().monoid([agg.values.value_type("int64")], subtractable=True)


@pytest.mark.parametrize("n", [0, -1, 1.0, True, "2", None])
def test_bad_sizes(n):
    with pytest.raises(InvalidArgument, match="top_n: n must be"):
        agg.top_n("x", n)


def test_bad_direction_and_types():
    with pytest.raises(InvalidArgument, match="largest"):
        agg.top_n("x", 2, largest=None)
    with pytest.raises(WrongType, match="top_n needs values with an order"):
        agg.top_n().of(pa.array([[1]]))
