import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, check, check_subtracting, nan_last
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import WrongType
from windlass.stores import TwoStacks


def ranked(values):
    """The values in order; NaN equals itself, so there is one of each."""
    return sorted(values, key=nan_last)


def how_often(value, values):
    return sum(v == value or (v != v and value != value) for v in values)


def distinct(values):
    different = []
    for v in values:
        if how_often(v, different) == 0:
            different.append(v)
    return len(different)


def most_frequent(values):
    return max(ranked(values), key=lambda v: how_often(v, values)) if values else None


def _name(part):
    return getattr(part, "__name__", repr(part))


CASES = [(agg.count_distinct(), distinct), (agg.mode(), most_frequent)]
COLUMNS = [
    pa.array([3, 1, None, 3, 1, 2], pa.int32()),
    pa.array([2**64 - 1, 5, 2**64 - 1], pa.uint64()),
    pa.array([NAN, 1.0, NAN, INF, None, -INF]),
    pa.array(["b", "a", None, "b", "", "a"]),
    pa.array([b"x", b"", b"x"]),
    pa.array([True, False, None, False]),
    pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("1.50")]),
    pa.array([None, None], pa.string()),
    pa.array([], pa.int64()),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: f"{len(c)} {c.type}")
@pytest.mark.parametrize(("aggregate", "oracle"), CASES, ids=_name)
def test_any_type(aggregate, oracle, column):
    check(aggregate, oracle, column, window=2 if len(column) else None)
    check_subtracting(aggregate, oracle, column, window=2)


@pytest.mark.parametrize(("aggregate", "oracle"), CASES, ids=_name)
@given(
    values=st.lists(st.none() | st.integers(-2, 2) | st.integers(), max_size=12).filter(
        lambda v: all(x is None or -(2**63) <= x < 2**63 for x in v)
    ),
    seed=st.integers(0, 99),
)
def test_any_integers(aggregate, oracle, values, seed):
    check(aggregate, oracle, pa.array(values, pa.int64()), seed=seed, compiled=False)
    check_subtracting(aggregate, oracle, pa.array(values, pa.int64()), window=4)


def test_times_stay_times():
    days = pa.array([datetime.date(2024, 2, 29), datetime.date(2024, 2, 29), datetime.date(2023, 1, 1)])
    assert agg.mode().of(days) == datetime.date(2024, 2, 29)
    assert agg.count_distinct().of(days) == 2


def test_the_least_of_equally_frequent_values():
    assert agg.mode().of([5, 3, 5, 3, 9]) == 3
    assert agg.mode().of(["b", "a"]) == "a"


def test_snapshots_of_strings():
    store = TwoStacks(agg.mode())
    store.insert_many(["x", "é", None, "é"])
    assert TwoStacks(agg.mode()).restore(store.snapshot()).query() == "é"


def test_properties():
    for aggregate, _ in CASES:
        assert aggregate.kind == "holistic"
        assert aggregate.commutative and aggregate.invertible and not aggregate.selective


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}]], ids=str)
def test_values_without_an_order_are_refused(values):
    for aggregate, _ in CASES:
        with pytest.raises(WrongType, match="values that have an order"):
            aggregate.of(values)
