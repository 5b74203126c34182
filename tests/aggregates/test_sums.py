import decimal
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.aggregates.definitions import aggregate_of, definition_of
from windlass.aggregates.values import value_type
from windlass.errors import InvalidArgument, Overflow
from windlass.stores import SubtractOnEvict, TwoStacks

BIG = Decimal("1" + "0" * 33 + "1")


def test_decimals_add_exactly_in_any_context():
    values = pa.array([BIG, Decimal(1)], pa.decimal128(38, 0))
    with decimal.localcontext(prec=5):
        assert str(agg.sum().of(values)) == "1" + "0" * 33 + "2"
        assert str(agg.spread().of(values)) == "1" + "0" * 34
        assert str(agg.avg().of(values)) == "5" + "0" * 32 + "1.0000"
    assert SubtractOnEvict(agg.sum()).slide(values, window=1).to_pylist() == [BIG, Decimal(1)]


@pytest.mark.parametrize(
    ("texts", "mean"),
    [(["1.00", "1.00", "2.00"], "1.333333"), (["0.01", "0.02"], "0.015000"), (["-2", "-3"], "-2.5000")],
)
def test_the_mean_of_decimals_has_four_digits_more(texts, mean):
    assert str(agg.avg().of([Decimal(t) for t in texts])) == mean


def test_the_mean_of_decimals_rounds_half_to_even():
    values = pa.array([Decimal("1e-38"), Decimal(0)], pa.decimal128(38, 38))
    assert agg.avg().of(values) == 0


def test_decimals_that_need_too_many_digits_are_an_error():
    nines = [Decimal("9" * 38)] * 2
    with pytest.raises(
        Overflow, match=r"sum\(\) of 2 values: the answer is 19+8, which decimal128\(38, 0\) cannot hold"
    ):
        agg.sum().of(pa.array(nines, pa.decimal128(38, 0)))
    with pytest.raises(Overflow, match=r"avg\(\) of 2 values: .* cannot hold"):
        agg.avg().of(pa.array(nines, pa.decimal128(38, 0)))
    assert agg.sum(on_overflow="null").of(pa.array(nines, pa.decimal128(38, 0))) is None
    assert agg.sum(on_overflow="null").of(pa.array([*nines, Decimal("-" + "9" * 38)], pa.decimal128(38, 0))) == nines[0]
    with pytest.raises(InvalidArgument, match="cannot wrap"):
        agg.sum(on_overflow="wrap").of(pa.array(nines, pa.decimal128(38, 0)))
    assert agg.sum().of(pa.array(nines, pa.decimal256(40, 0))) == Decimal("1" + "9" * 37 + "8")


@pytest.mark.parametrize("aggregate", [agg.avg(), agg.counted(agg.avg())[0]], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("dtype", "choices"),
    [
        (np.int64, [2**63 - 1, -(2**63), 5]),
        (np.int64, [2**62]),
        (np.uint64, [2**64 - 1, 2**63, 7, 0]),
        (np.int32, [2**31 - 1, -(2**31)]),
    ],
)
def test_the_mean_of_integers_does_not_wrap(aggregate, dtype, choices):
    values = np.random.default_rng(1).choice(np.array(choices, dtype), 60)
    for window in (1, 3, 17):
        wanted = [sum(map(int, values[max(0, i + 1 - window) : i + 1])) / min(i + 1, window) for i in range(60)]
        subtracted = SubtractOnEvict(aggregate).slide(values, window=window)
        np.testing.assert_allclose(subtracted, wanted, rtol=5e-16)
        added = TwoStacks(aggregate).slide(values, window=window)
        np.testing.assert_allclose(added, wanted, rtol=1e-14, atol=1e-14 * float(max(map(abs, choices))))


@pytest.mark.parametrize(
    "outliers", [[1e30, 1e13, 0.1], [1e200, 1e100], [1e308, 1e31, 3.0], [-1e29, 1e-6], [1e300, -7e250]]
)
def test_outliers_leave_nothing_behind(outliers):
    values = np.array(outliers + [1.0] * 8)
    assert SubtractOnEvict(agg.sum()).slide(values, window=4)[-1] == 4.0
    assert SubtractOnEvict(agg.avg()).slide(values, window=4)[-1] == 1.0


def test_a_great_value_does_not_swallow_the_others():
    values = np.array([1.0, 1e200, -1e200, 2.0])
    assert SubtractOnEvict(agg.sum()).slide(values, window=4).tolist() == [1.0, 1e200, 1.0, 3.0]


def test_the_mean_of_decimals_slides():
    values = [Decimal("1.00"), Decimal("2.00"), Decimal("2.00")]
    for store in (TwoStacks(agg.avg()), SubtractOnEvict(agg.avg())):
        assert list(map(str, store.slide(values, window=2))) == ["1.000000", "1.500000", "2.000000"]


def test_mean_is_another_name_of_avg():
    assert agg.mean("x", weight="w") == agg.avg("x", weight="w")


BIG_INTEGERS = st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 1, 0, -1]) | st.integers(-(2**63), 2**63 - 1)


@given(values=st.lists(BIG_INTEGERS | st.none(), max_size=12))
def test_sums_of_integers_fit_are_null_or_wrap(values):
    some = [v for v in values if v is not None]
    total = sum(some)
    fits = -(2**63) <= total < 2**63
    array = pa.array(values, pa.int64())
    wrapped = (total + 2**63) % 2**64 - 2**63
    assert agg.sum(on_overflow="null").of(array) == (total if some and fits else None)
    assert agg.sum(on_overflow="wrap").of(array) == (wrapped if some else None)
    if fits:
        assert agg.sum().of(array) == (total if some else None)
    else:
        with pytest.raises(Overflow, match=f"the sum is {total}, which int64 cannot hold"):
            agg.sum().of(array)


@given(values=st.lists(BIG_INTEGERS, min_size=1, max_size=12))
def test_durations_and_unsigned_integers(values):
    total = sum(values)
    answer = SubtractOnEvict(agg.sum(on_overflow="null"), dtype=pa.duration("ns"), nullable=False)
    answer.insert_many(pa.array(values, pa.duration("ns")))
    found = answer.slide(pa.array([0], pa.duration("ns")), window=len(values) + 1).cast(pa.int64()).to_pylist()
    assert found == [total if -(2**63) <= total < 2**63 else None]
    sizes = [abs(v) for v in values]
    unsigned = agg.sum(on_overflow="null").of(pa.array(sizes, pa.uint64()))
    assert unsigned == (sum(sizes) if sum(sizes) < 2**64 else None)


@pytest.mark.parametrize("aggregate", ["sum", "spread"])
def test_what_comes_of_an_overflow_is_part_of_an_aggregate(aggregate):
    make = getattr(agg, aggregate)
    assert make("x") == make("x", on_overflow="raise") != make("x", on_overflow="null")
    assert repr(make("x", on_overflow="wrap")) == f"{aggregate}(x, on_overflow='wrap')"
    for mode in ("raise", "null", "wrap"):
        again = aggregate_of(json.loads(json.dumps(definition_of(make("x", on_overflow=mode)))))
        assert again == make("x", on_overflow=mode)
    with pytest.raises(InvalidArgument, match="on_overflow is 'raise', 'null' or 'wrap', got 'ignore'"):
        make("x", on_overflow="ignore")


@given(values=st.lists(BIG_INTEGERS, min_size=1, max_size=5))
def test_a_spread_that_does_not_fit(values):
    spread = max(values) - min(values)
    assert agg.spread(on_overflow="null").of(values) == (spread if spread < 2**63 else None)
    assert agg.spread(on_overflow="wrap").of(values) == (spread + 2**63) % 2**64 - 2**63
    if spread >= 2**63:
        with pytest.raises(Overflow, match=f"the spread is {spread}, which int64 cannot hold"):
            agg.spread().of(values)


def test_integers_of_few_bits_have_one_field_and_no_second_one():
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.bool_):
        assert agg.sum().monoid([value_type(dtype)], nullable=False).wide is None
    for arrow in (pa.int64(), pa.uint64(), pa.duration("us")):
        assert agg.sum().monoid([value_type(arrow)]).wide is not None
        assert agg.sum(on_overflow="wrap").monoid([value_type(arrow)]).wide is None
