import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, assert_same, check, check_subtracting, interpret
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.aggregates.double import double_times, triple_plus, two_product
from windlass.errors import InvalidArgument, WrongType
from windlass.stores import SubtractOnEvict

values_ = st.one_of(st.sampled_from([0.0, 1.0, NAN, INF, -INF, 1e200, 1e-200, 1e15]), st.floats(-100, 100), st.none())
columns = st.lists(values_, max_size=10).map(lambda xs: pa.array(xs, pa.float64()))
MIXED = pa.array([2.0, None, 4.0, 4.0, NAN, 5.0, 5.0, 7.0, INF, 9.0, 1e200, 1.0, 1.0, -INF, None, 3.0, 8.5])


def exact_variance(values, ddof):
    """The definition, in fractions."""
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    return float(sum((v - mean) ** 2 for v in exact) / (len(exact) - ddof))


def moment(ddof, root=False):
    def oracle(values):
        if len(values) <= ddof:
            return None
        if not all(math.isfinite(v) for v in values):
            return NAN
        if any(abs(v) >= 2**450 for v in values):
            return INF if len(values) > 1 else 0.0
        value = exact_variance(values, ddof)
        return math.sqrt(value) if root else value

    return oracle


CASES = [
    (agg.var_samp(), moment(1)),
    (agg.var_pop(), moment(0)),
    (agg.stddev_samp(), moment(1, root=True)),
    (agg.stddev_pop(), moment(0, root=True)),
]


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_floats(aggregate, oracle):
    check(aggregate, oracle, MIXED, rel=1e-12, window=3 if aggregate.name == "var_samp" else None)
    check(aggregate, oracle, pa.array([2.0, 4.0, None, 4.0, 5.0]), rel=1e-12)
    for single in (2.5, 1e300, NAN, INF):
        check(aggregate, oracle, pa.array([single]))
    check(aggregate, oracle, pa.array([None, None], pa.float64()))
    check(aggregate, oracle, pa.array([], pa.float64()))


@pytest.mark.parametrize(("aggregate", "oracle"), CASES[:2])
@given(values=columns, seed=st.integers(0, 1000))
def test_any_floats_in_any_association(aggregate, oracle, values, seed):
    check(aggregate, oracle, values, rel=1e-9, seed=seed)


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_integers_and_decimals_give_floats(aggregate, oracle):
    for values in (
        [3, None, 9, 9],
        [Decimal("1.5"), None, Decimal("6.0")],
        [True, False],
        [2**53, 2**53 + 8],
    ):
        check(aggregate, oracle, pa.array(values), rel=1e-12, compiled=False)
    check(aggregate, oracle, pa.array([2**63, 2], pa.uint64()), rel=1e-12, compiled=False)
    decimals = pa.array([Decimal("1.5"), None, Decimal("6.0"), Decimal("0.0"), Decimal("2.5"), Decimal("2.0")])
    check(aggregate, oracle, decimals, rel=1e-12, window=2)


def test_far_from_zero_the_plain_form_cancels_nothing():
    values = [1e9 + v for v in (4.0, 7.0, 13.0, 16.0)]
    assert_same(agg.var_samp().of(values), 30.0, rel=1e-9)
    assert_same(interpret(agg.var_samp(), pa.array(values), seed=3), 30.0, rel=1e-9)


@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
def test_a_product_and_its_error_are_exact(a, b):
    if (a and abs(a) < 1e-100) or (b and abs(b) < 1e-100):
        return  # the error itself would underflow
    product, error = two_product(a, b)
    assert Fraction(product) + Fraction(error) == Fraction(a) * Fraction(b)


@given(st.lists(st.floats(-1e20, 1e20), max_size=20))
def test_three_floats_forget_what_was_taken_off(values):
    total = (1.0, 2.0**-60, 2.0**-120)
    for sign in (1, -1):
        for v in values:
            total = triple_plus(*total, sign * v, 0.0, 0.0)
    error = abs(sum(map(Fraction, total)) - (1 + Fraction(1, 2**60) + Fraction(1, 2**120)))
    assert error <= Fraction(len(values), 2**150) * int(1 + max(map(abs, values), default=0))


def test_double_doubles_multiply_to_twice_the_precision():
    third = (1 / 3, float(Fraction(1, 3) - Fraction(1 / 3)))
    hi, lo = double_times(*third, *third)
    assert abs(Fraction(hi) + Fraction(lo) - Fraction(1, 9)) < Fraction(1, 2**104)


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_nan_infinity_and_huge_values_leave_again(aggregate, oracle):
    for window in (1, 2, 3):
        check_subtracting(aggregate, oracle, MIXED, window=window, rel=1e-12)


@given(values=columns, window=st.integers(1, 4))
def test_subtracting_gives_the_definition(values, window):
    check_subtracting(agg.var_pop(), moment(0), values, window, rel=1e-9)


def test_a_million_slides_far_from_zero_do_not_drift():
    values = 1e9 + np.random.default_rng(7).normal(0.0, 0.01, 1_000_000)
    window = 1000
    answers = SubtractOnEvict(agg.var_samp()).slide(values, window=window)
    for end in [*range(window, len(values), 100_000), len(values)]:
        exact = exact_variance(values[end - window : end].tolist(), 1)
        assert math.isclose(answers[end - 1], exact, rel_tol=1e-9)


def test_outliers_that_leave_take_their_rounding_with_them():
    values = np.random.default_rng(7).normal(0.0, 1.0, 5000)
    values[1000] = 1e15
    values[2000] = NAN
    values[3000] = 1e300
    answers = SubtractOnEvict(agg.var_pop()).slide(values, window=100)
    for end in (900, 1500, 2500, 5000):
        exact = exact_variance(values[end - 100 : end].tolist(), 0)
        assert math.isclose(answers[end - 1], exact, rel_tol=1e-9)
    assert math.isnan(answers[2050]) and answers[3050] == INF


def test_parameter_and_names():
    values = pa.array([1.0, 2.0, 4.0])
    assert interpret(agg.variance(), values) == interpret(agg.var_samp(), values)
    assert interpret(agg.variance(sample=False), values) == interpret(agg.var_pop(), values)
    assert interpret(agg.stddev(), values) == interpret(agg.stddev_samp(), values)
    assert interpret(agg.stddev(sample=False), values) == interpret(agg.stddev_pop(), values)
    assert repr(agg.stddev("x")) == "stddev(x)"
    assert repr(agg.variance("x", sample=False)) == "variance(x, sample=False)"
    assert agg.variance("x") != agg.variance("x", sample=False)
    with pytest.raises(InvalidArgument, match="sample"):
        agg.variance(sample=1)


@pytest.mark.parametrize("aggregate", [a for a, _ in CASES], ids=repr)
def test_properties(aggregate):
    assert aggregate.kind == "algebraic"
    assert aggregate.commutative and aggregate.invertible and not aggregate.selective


@pytest.mark.parametrize("values", [["a"], pa.array([1], pa.timestamp("us")), pa.array([[1]])], ids=str)
def test_wrong_types(values):
    with pytest.raises(WrongType, match="stddev_pop needs numbers"):
        agg.stddev_pop().of(values)
