import math
from decimal import Decimal

import numpy as np
import oracle
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, check, check_subtracting, nan_last, same
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.aggregates.quantiles import interpolated, run_of
from windlass.aggregates.runs import Run, United, merged, without
from windlass.errors import InvalidArgument, WrongType
from windlass.stores import TwoStacks


def exact(q):
    """By the definition: sort, find the rank, interpolate."""

    def oracle(values):
        if not values:
            return None
        ranked = sorted(map(float, values), key=nan_last)
        rank = q * (len(ranked) - 1)
        low, high, part = ranked[math.floor(rank)], ranked[math.ceil(rank)], rank % 1
        return low if part == 0 or low == high else low * (1 - part) + high * part

    return oracle


CASES = [
    (agg.median(), 0.5),
    (agg.percentile("x", 90), 0.9),
    (agg.quantile("x", 0.25), 0.25),
    (agg.quantile("x", 1), 1),
]
FLOATS = st.none() | st.floats(-9, 9) | st.integers(-2, 2).map(float)


@pytest.mark.parametrize(("aggregate", "q"), CASES, ids=str)
def test_numbers(aggregate, q):
    check(aggregate, exact(q), pa.array([5, 3, None, 5, 9, -2, 5]), window=3)
    check(aggregate, exact(q), pa.array([0.5, NAN, -INF, INF, 2.5, None]), window=2)
    check(aggregate, exact(q), pa.array([2**64 - 1, 0, 7], pa.uint64()))
    check(aggregate, exact(q), pa.array([True, False, True]))
    check(aggregate, exact(q), pa.array([Decimal("1.5"), Decimal("2.25"), None]))
    for values in ([], [None], [7.0]):
        check(aggregate, exact(q), pa.array(values, pa.float64()))


@pytest.mark.parametrize(("aggregate", "q"), CASES, ids=str)
@given(values=st.lists(FLOATS, max_size=12), seed=st.integers(0, 99))
def test_any_floats(aggregate, q, values, seed):
    column = pa.array(values, pa.float64())
    check(aggregate, exact(q), column, rel=1e-12, seed=seed, compiled=False)
    check_subtracting(aggregate, exact(q), column, window=3, rel=1e-12)


@pytest.mark.parametrize("q", [0.0, 0.1, 1 / 3, 0.5, 0.93, 1.0])
def test_as_numpy(q):
    values = np.random.default_rng(1).normal(size=101).round(1)
    assert agg.quantile("x", q).of(values) == pytest.approx(np.quantile(values, q), rel=1e-14)
    assert agg.percentile("x", 100 * q).of(values) == pytest.approx(np.percentile(values, 100 * q), rel=1e-14)


def test_infinities_are_not_turned_into_nan():
    assert agg.median().of([1.0, INF]) == INF
    assert agg.median().of([-INF, 1.0]) == -INF
    assert agg.median().of([INF, INF]) == INF
    assert math.isnan(agg.median().of([-INF, INF]))


@given(st.lists(st.sampled_from([1.0, 2.0, -0.0, 0.0, NAN, INF]), max_size=9), st.integers(0, 9))
def test_runs_are_multisets(values, cut):
    whole, older, younger = (run_of(np.array(v)) for v in (values, values[:cut], values[cut:]))
    assert same_run(merged(older, younger), whole)
    assert same_run(without(whole, older), younger)


def same_run(a, b):
    return same(a.values.tolist(), b.values.tolist()) and a.counts.tolist() == b.counts.tolist()


def test_runs_of_objects_merge_too():
    run = lambda *pairs: Run(np.array([v for v, _ in pairs], object), np.array([n for _, n in pairs]))  # noqa: E731
    whole = merged(run(("a", 1), ("c", 2)), run(("b", 5), ("c", 1)))
    assert dict(zip(*whole, strict=True)) == {"a": 1, "b": 5, "c": 3}
    assert same_run(without(whole, run(("a", 1), ("c", 2))), run(("b", 5), ("c", 1)))


def test_snapshots():
    store = TwoStacks(agg.median())
    store.insert_many([3.0, NAN, 1.0, None, 2.0])
    assert TwoStacks(agg.median()).restore(store.snapshot()).query() == store.query() == 2.5


def test_properties():
    for aggregate, _ in CASES:
        assert aggregate.kind == "holistic"
        assert aggregate.commutative and aggregate.invertible and not aggregate.selective
    assert repr(agg.percentile("ms", 99)) == "percentile(ms, p=99)"


@pytest.mark.parametrize("values", [["a"], [b"a"], [[1.0]]], ids=str)
def test_wrong_types(values):
    with pytest.raises(WrongType, match="median needs numbers or decimals"):
        agg.median().of(values)


@pytest.mark.parametrize("p", [None, -1, 100.5, NAN, "50", True])
def test_bad_parameters(p):
    with pytest.raises(InvalidArgument, match="p must be a number from 0 to 100"):
        agg.percentile("x", p)
    with pytest.raises(InvalidArgument, match="q must be a number from 0 to 1"):
        agg.quantile("x", 2 if p is True else p)


@given(
    st.lists(
        st.lists(st.integers(0, 12) | st.sampled_from([math.nan, math.inf, -math.inf, 0.5]), min_size=1), min_size=2
    ),
    st.floats(0, 1),
)
def test_a_quantile_among_runs_is_that_of_the_merged_run(parts: list[list[float]], q: float) -> None:
    united = United([run_of(np.array(part, np.float64)) for part in parts])
    expected = oracle.quantile([float(x) for part in parts for x in part], q)
    assert oracle.same(interpolated(united, q), expected)
    assert "_merged" not in vars(united)  # nobody merged them
    assert oracle.same(interpolated(Run(*united), q), expected)
