import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, check
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, MissingExtra, WrongType
from windlass.stores import TwoStacks

pytest.importorskip("datasketches")


def nearest(q):
    """The value of rank q, not interpolated; NaN is skipped."""

    def oracle(values):
        ranked = sorted(float(v) for v in values if v == v)
        return ranked[min(int(q * len(ranked)), len(ranked) - 1)] if ranked else None

    return oracle


@pytest.mark.parametrize("q", [0, 0.25, 0.5, 1])
def test_few_values_are_exact(q):
    aggregate = agg.approx_quantile("x", q)
    check(aggregate, nearest(q), pa.array([5.0, NAN, None, -INF, 2.5, 2.5, INF]), window=3)
    check(aggregate, nearest(q), pa.array([7, 3, None, 9]), window=2)
    for values in ([], [None], [NAN], [1.5]):
        check(aggregate, nearest(q), pa.array(values, pa.float64()))
    assert agg.approx_quantile("x", q).of([Decimal("2.5")]) == 2.5


@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.integers(0, 99))
def test_any_floats(values, seed):
    check(agg.approx_quantile("x", 0.5), nearest(0.5), pa.array(values, pa.float64()), seed=seed)


def test_the_rank_is_right_within_the_error():
    values = np.random.default_rng(3).permutation(20_000).astype(float)
    for q in (0.01, 0.5, 0.99):
        assert abs(agg.approx_quantile("x", q).of(values) / len(values) - q) < 0.03


def test_only_nan_is_no_value_even_where_nulls_cannot_be():
    assert agg.approx_quantile("x", 0.5).of(np.array([NAN])) is None


def test_snapshots():
    aggregate = agg.approx_quantile("x", 0.5)
    store = TwoStacks(aggregate)
    store.insert_many([5.0, 1.0, 3.0])
    store.evict()
    restored = TwoStacks(aggregate).restore(store.snapshot())
    restored.insert(2.0)
    assert restored.query() == 2.0


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingExtra, match=r"approx_quantile needs the 'sketches' extra"):
        agg.approx_quantile("x", 0.5).of([1.0])


def test_properties():
    aggregate = agg.approx_quantile("x", 0.5)
    assert aggregate.kind == "algebraic"
    assert aggregate.commutative and not aggregate.invertible and not aggregate.selective
    assert "DataSketches" in aggregate.monoid([agg.values.value_type("float64")]).interpreted


def test_wrong_types_and_parameters():
    with pytest.raises(WrongType, match="approx_quantile needs numbers"):
        agg.approx_quantile("x", 0.5).of(["a"])
    for bad in ({}, {"q": -0.1}, {"q": "a"}, {"q": 0.5, "k": 7}, {"q": 0.5, "k": 70000}, {"q": 0.5, "k": 200.0}):
        with pytest.raises(InvalidArgument):
            agg.approx_quantile("x", **bad)
