import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, assert_same, check, check_subtracting, interpret
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import UnsupportedAggregate, WrongType

factors = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, NAN, INF, -INF, 1e308, 1e-308, 5e-324]), st.floats(-100, 100), st.none()
)
columns = st.lists(factors, max_size=10).map(lambda xs: pa.array(xs, pa.float64()))
ORDINARY = pa.array([2.0, None, 4.0, 0.5, 8.0, None, 16.0])
MIXED = pa.array([2.0, 0.0, 3.0, 5.0, INF, 7.0, 2.0, NAN, 1.0, -3.0, 4.0, 6.0, 0.0, INF, 2.0, 2.0, 3.0])


def product(values):
    if not values:
        return None
    if not all(math.isfinite(v) for v in values):
        return math.prod(float(np.sign(float(v))) if math.isfinite(v) else v for v in values)
    exact = math.prod(Fraction(v) for v in values)
    if abs(exact) > Fraction(sys.float_info.max):
        return INF if exact > 0 else -INF
    return float(exact)


def geomean(values):
    if not values:
        return None
    if any(v != v or v < 0 for v in values) or (0 in values and INF in values):
        return NAN
    if 0 in values:
        return 0.0
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


CASES = [(agg.product(), product), (agg.geomean(), geomean)]


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_floats(aggregate, oracle):
    check(aggregate, oracle, ORDINARY, rel=1e-12)
    check(aggregate, oracle, MIXED, rel=1e-12, window=3 if aggregate.name == "geomean" else None)
    check(aggregate, oracle, pa.array([2.5]), rel=1e-12)
    check(aggregate, oracle, pa.array([None, None], pa.float64()))
    check(aggregate, oracle, pa.array([], pa.float64()))


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
@given(values=columns, seed=st.integers(0, 1000))
def test_any_floats_in_any_association(aggregate, oracle, values, seed):
    check(aggregate, oracle, values, rel=1e-9, seed=seed)


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_integers_and_decimals_give_floats(aggregate, oracle):
    for values in ([3, None, 9], [Decimal("1.5"), None, Decimal("6.0")], [True, False], [2**62, 4]):
        check(aggregate, oracle, pa.array(values), rel=1e-12, compiled=False)
    check(aggregate, oracle, pa.array([2**63, 2], pa.uint64()), rel=1e-12, compiled=False)
    decimals = pa.array([Decimal("1.5"), None, Decimal("6.0"), Decimal("0.0"), Decimal("2.5"), Decimal("2.0")])
    check(aggregate, oracle, decimals, rel=1e-12, window=2)


def test_products_overflow_only_at_the_end():
    for values in ([1e200, 1e200], [-1e200, 1e200], [1e-200, 1e-200], [1e200, 1e200, 1e-300], [5e-324, 2.0]):
        check(agg.product(), product, pa.array(values), rel=1e-12)
    assert interpret(agg.product(), pa.array([Decimal("1e37"), Decimal("1e37")] * 5)) == INF


@pytest.mark.parametrize("value", [1.7976931348623157e308, 1e-308])
def test_geomean_does_not_overflow(value):
    for n in range(1, 12):
        assert_same(agg.geomean().of(pa.array([value] * n)), value, rel=1e-12)
        assert_same(interpret(agg.geomean(), pa.array([value] * n)), value, rel=1e-12)


def test_zeros_negatives_and_infinities_leave_a_geomean_again():
    check_subtracting(agg.geomean(), geomean, MIXED, window=2, rel=1e-12)
    check_subtracting(agg.geomean(), geomean, pa.array([0, 3, None, -1, 5, 7]), window=2, rel=1e-12)


def test_properties():
    assert agg.product().kind == "distributive" and not agg.product().invertible
    assert agg.geomean().kind == "algebraic" and agg.geomean().invertible
    for aggregate, _ in CASES:
        assert aggregate.commutative and not aggregate.selective
    with pytest.raises(UnsupportedAggregate, match="no inverse"):
        agg.product().monoid([agg.values.value_type("float64")], subtractable=True)


@pytest.mark.parametrize("values", [["a"], pa.array([1], pa.timestamp("us")), pa.array([[1]])], ids=str)
@pytest.mark.parametrize("name", ["product", "geomean"])
def test_wrong_types(name, values):
    with pytest.raises(WrongType, match=f"{name} needs numbers"):
        getattr(agg, name)().of(values)
