import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from aggregates.checks import EDGES, INF, NAN, check, float_columns, floats, nan_last
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import WrongType


def m4(values):
    if not values:
        return None
    low, high = min(values, key=nan_last), max(values, key=nan_last)
    return {"min": low, "max": high, "first": values[0], "last": values[-1]}


def m4_timed(events):
    if not events:
        return None
    earliest = sorted(events, key=lambda e: nan_last(e[1]))  # stable: events of one time keep their order
    lows = sorted(earliest, key=lambda e: nan_last(e[0]))
    highs = sorted(earliest, key=lambda e: nan_last(e[0]), reverse=True)
    points = {"min": lows[0], "max": highs[0], "first": earliest[0], "last": earliest[-1]}
    return {k: x for k, (x, _) in points.items()} | {f"{k}_time": t for k, (_, t) in points.items()}


def test_in_event_order():
    check(agg.m4(), m4, pa.array([None, 3.0, 1.0, NAN, 7.0, None, -INF, INF, 2.0, 4.0]), window=3)
    check(agg.m4(), m4, pa.array([2.5]))
    check(agg.m4(), m4, pa.array([None, None], pa.float64()))
    check(agg.m4(), m4, pa.array([], pa.float64()))


@given(values=float_columns, seed=st.integers(0, 1000))
def test_any_floats_in_any_association(values, seed):
    check(agg.m4(), m4, values, seed=seed)


def test_by_a_time_column():
    values = pa.array([3.0, 1.0, None, 5.0, 1.0, 9.0, 5.0, NAN, 2.0])
    times = pa.array([30, 20, 10, 20, 20, None, 10, 40, 40], pa.timestamp("us"))
    check(agg.m4(time="t"), m4_timed, values, times)
    check(agg.m4(time="t"), m4_timed, values[:1], times[:1])
    check(agg.m4(time="t"), m4_timed, values[2:3], times[2:3])
    check(agg.m4(time="t"), m4_timed, values[:0], times[:0])


@given(
    events=st.lists(st.tuples(floats, st.sampled_from([*range(5), None])), min_size=1, max_size=10),
    seed=st.integers(0, 1000),
)
def test_any_times_in_any_association(events, seed):
    values, times = zip(*events, strict=True)
    columns = pa.array(values, pa.float64()), pa.array(times, pa.timestamp("us"))
    check(agg.m4(time="t"), m4_timed, *columns, seed=seed)


@given(events=st.lists(st.tuples(floats, st.sampled_from(EDGES)), min_size=1, max_size=6))
def test_times_may_be_any_measure(events):
    check(
        agg.m4(time="t"),
        m4_timed,
        *(pa.array(c, pa.float64()) for c in zip(*events, strict=True)),
        compiled=False,
    )


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", None, "a", "c"]),
        pa.array([Decimal("1.5"), None, Decimal("-2.5"), Decimal("0.0")]),
        pa.array([2**62 + 1, None, 2**62 + 3, 2**62 + 2]),
        pa.array([2**64 - 1, None, 2**63 + 1, 1], pa.uint64()),
        pa.array([True, None, False, True]),
        pa.array([datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1), datetime.date(2000, 1, 1)]),
    ],
    ids=lambda a: str(a.type),
)
def test_other_types(values):
    times = pa.array([1, 2, 3, 3])
    check(agg.m4(), m4, values, compiled=False)
    check(agg.m4(time="t"), m4_timed, values, times, compiled=False)
    if values.type == pa.string():
        check(agg.m4(), m4, values, window=2)
        check(agg.m4(time="t"), m4_timed, values, times, window=2)


def test_properties_and_columns():
    for aggregate in (agg.m4("x"), agg.m4("x", time="t")):
        assert aggregate.kind == "algebraic"
        assert not (aggregate.commutative or aggregate.invertible or aggregate.selective)
    table = pa.table({"t": [2, 1], "x": ["b", "a"]})
    assert agg.m4("x", time="t").of(table)["first"] == "a"
    assert repr(agg.m4("x", time="t")) == "m4(x, time=t)"


def test_wrong_types():
    with pytest.raises(WrongType, match="m4 needs values with an order"):
        agg.m4().of(pa.array([[1]]))
    with pytest.raises(WrongType, match="as its time"):
        agg.m4(time="t").of((pa.array([1.0]), pa.array(["noon"])))
