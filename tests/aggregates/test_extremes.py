import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from aggregates.checks import EDGES, INF, NAN, check, float_columns, floats, interpret, nan_last
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import UnsupportedAggregate, WrongType

MIXED = pa.array([3.0, None, 1.0, NAN, -INF, 1.0, None, 7.5, INF, INF, 2.0], pa.float64())
seeds = st.integers(0, 1000)


def least(values):
    return min(values, key=nan_last) if values else None


def greatest(values):
    return max(values, key=nan_last) if values else None


def min_max(values):
    return {"min": least(values), "max": greatest(values)} if values else None


def spread(values):
    return greatest(values) - least(values) if values else None


def equal(a, b):
    return a == b or (a != a and b != b)


def counted(extreme):
    def oracle(values):
        if not values:
            return None
        value = extreme(values)
        return {"value": value, "count": sum(equal(v, value) for v in values)}

    return oracle


def arg(extreme):
    def oracle(events):
        if not events:
            return None
        by = extreme([order for _, order in events])
        return least([x for x, order in events if equal(order, by)])

    return oracle


ONE_COLUMN = [
    (agg.min(), least),
    (agg.max(), greatest),
    (agg.min_max(), min_max),
    (agg.spread(), spread),
    (agg.min_count(), counted(least)),
    (agg.max_count(), counted(greatest)),
]
TWO_COLUMNS = [(agg.arg_min(by="y"), arg(least)), (agg.arg_max(by="y"), arg(greatest))]
names = {"ids": lambda x: repr(x) if not callable(x) else ""}


@pytest.mark.parametrize(("aggregate", "oracle"), ONE_COLUMN, **names)
def test_floats(aggregate, oracle):
    check(aggregate, oracle, MIXED, window=3 if aggregate.name == "max_count" else None)
    check(aggregate, oracle, pa.array([2.5]))
    check(aggregate, oracle, pa.array([None, NAN, None]))
    check(aggregate, oracle, pa.array([None, None], pa.float64()))
    check(aggregate, oracle, pa.array([], pa.float64()))


@pytest.mark.parametrize(("aggregate", "oracle"), ONE_COLUMN, **names)
@given(values=float_columns, seed=seeds)
def test_any_floats_in_any_association(aggregate, oracle, values, seed):
    check(aggregate, oracle, values, seed=seed, compiled=len(values) > 0)


@pytest.mark.parametrize(("aggregate", "oracle"), ONE_COLUMN, **names)
def test_big_integers_keep_every_digit(aggregate, oracle):
    check(aggregate, oracle, pa.array([2**62 + 1, None, 2**62 + 3, 2**62 + 1]), compiled=False)
    check(aggregate, oracle, pa.array([2**64 - 1, 2**63 + 1, None], pa.uint64()), compiled=False)


def test_unsigned_integers_stay_unsigned_when_compiled():
    check(agg.min_max(), min_max, pa.array([2**64 - 1, 2**63 + 1, None], pa.uint64()))
    check(agg.spread(), spread, pa.array([2**64 - 1, 1, None], pa.uint64()))
    check(agg.max_count(), counted(greatest), pa.array([2**64 - 1, 1, 2**64 - 1], pa.uint64()))
    check(
        agg.arg_max(by="y"),
        arg(greatest),
        pa.array([2**64 - 1, 5], pa.uint64()),
        pa.array([1, 2], pa.uint64()),
    )


@pytest.mark.parametrize(("aggregate", "oracle"), [case for case in ONE_COLUMN if case[0].name != "spread"], **names)
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", None, "a", "a", "c"]),
        pa.array([Decimal("1.50"), Decimal("-2.25"), None]),
        pa.array([b"b", b"a"]),
        pa.array([True, None, False]),
        pa.array([datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1)]),
        pa.array([datetime.time(3, 4), datetime.time(1, 2)], pa.time32("s")),
    ],
    ids=lambda a: str(a.type),
)
def test_other_types(aggregate, oracle, values):
    check(aggregate, oracle, values, compiled=False)
    if values.type == pa.string():
        check(aggregate, oracle, values, window=2)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (pa.array([7, None, 2], pa.timestamp("ms")), datetime.timedelta(milliseconds=5)),
        (pa.array([7, 2], pa.timestamp("us", "UTC")), datetime.timedelta(microseconds=5)),
        (pa.array([7, 2, None], pa.date32()), datetime.timedelta(days=5)),
        (pa.array([7 * 86_400_000, 0], pa.date64()), datetime.timedelta(days=7)),
        (pa.array([7, 2], pa.time32("s")), datetime.timedelta(seconds=5)),
        (pa.array([-7, 2], pa.duration("us")), datetime.timedelta(microseconds=9)),
        (pa.array([Decimal("1.50"), None, Decimal("-2.25")]), Decimal("3.75")),
        (pa.array([None, None], pa.date32()), None),
    ],
    ids=lambda a: str(getattr(a, "type", "")),
)
def test_spread_of_times_and_decimals(values, want):
    assert interpret(agg.spread(), values) == want


@pytest.mark.parametrize(("aggregate", "oracle"), TWO_COLUMNS, **names)
def test_argument_of_the_extreme(aggregate, oracle):
    arguments = pa.array([5.0, 4.0, None, 3.0, NAN, 1.0, 2.0, 9.0])
    orders = pa.array([2.0, 1.0, 0.0, 1.0, 1.0, None, NAN, NAN])
    check(aggregate, oracle, arguments, orders, window=3 if aggregate.name == "arg_max" else None)
    check(aggregate, oracle, pa.array([1.0]), pa.array([-INF]))
    check(aggregate, oracle, pa.array([None, 1.0]), pa.array([1.0, None]))
    check(aggregate, oracle, pa.array([], pa.float64()), pa.array([], pa.float64()))


@pytest.mark.parametrize(("aggregate", "oracle"), TWO_COLUMNS, **names)
@given(events=st.lists(st.tuples(floats, st.sampled_from([*EDGES, None])), min_size=1, max_size=10), seed=seeds)
def test_arguments_in_any_association(aggregate, oracle, events, seed):
    columns = [pa.array(c, pa.float64()) for c in zip(*events, strict=True)]
    check(aggregate, oracle, *columns, seed=seed)


@pytest.mark.parametrize(("aggregate", "oracle"), TWO_COLUMNS, **names)
def test_arguments_may_be_objects(aggregate, oracle):
    words = pa.array(["x", "c", None, "b", "a"])
    check(aggregate, oracle, words, pa.array([3, 1, 0, 1, 3]), window=2)
    check(aggregate, oracle, pa.array([1.5, 2.5, None, 0.5, 4.5]), words)


def test_ties_do_not_depend_on_the_order_of_arrival():
    events = [(3, 1), (1, 1), (2, 1)]
    for order in (events, events[::-1], events[1:] + events[:1]):
        x, y = (list(c) for c in zip(*order, strict=True))
        assert agg.arg_max(by="y").of((x, y)) == 1
        assert agg.arg_min(by="y").of((x, y)) == 1


@pytest.mark.parametrize("aggregate", [a for a, _ in ONE_COLUMN + TWO_COLUMNS], ids=repr)
def test_properties(aggregate):
    assert aggregate.commutative and not aggregate.invertible
    assert aggregate.selective == (aggregate.name in ("min", "max", "arg_min", "arg_max"))
    types = [pa.array([1]).type] * len(aggregate.columns)
    m = aggregate.monoid([agg.values.value_type(t) for t in types])
    assert (m.selects is not None) == aggregate.selective
    with pytest.raises(UnsupportedAggregate, match="no inverse"):
        aggregate.monoid(m.inputs, subtractable=True)


@given(
    x=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    y=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_selects_says_which_one_combine_gives(x, y):
    for aggregate in (agg.arg_min(by="y"), agg.arg_max(by="y"), agg.min(), agg.max()):
        width = len(aggregate.columns)
        m = aggregate.monoid([agg.values.value_type("int64")] * width)
        for a in (m.lift(*x[:width]), m.identity()):
            for b in (m.lift(*y[:width]), m.identity()):
                assert m.combine(a, b) == (b if m.selects(a, b) else a)


@pytest.mark.parametrize("name", ["min", "max", "min_max", "spread", "min_count", "max_count"])
def test_values_without_an_order_are_refused(name):
    with pytest.raises(WrongType, match=name):
        getattr(agg, name)().of(pa.array([{"a": 1}]))


def test_wrong_types():
    with pytest.raises(WrongType, match="spread needs numbers"):
        agg.spread().of(["a"])
    with pytest.raises(WrongType, match="spread needs numbers"):
        agg.spread().of(pa.array([True]))
    with pytest.raises(WrongType, match="arg_max needs"):
        agg.arg_max(by="y").of((pa.array([1]), pa.array([[1]])))


def test_table_columns_by_name():
    table = pa.table({"price": [3.0, 1.0, 2.0], "volume": [1, 5, 5]})
    assert agg.arg_max("price", by="volume").of(table) == 1.0
    assert repr(agg.arg_max("price", by="volume")) == "arg_max(price, by=volume)"
