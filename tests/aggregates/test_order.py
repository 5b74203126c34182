import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, check, check_subtracting, float_columns, interpret, monoid
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, UnsupportedAggregate, WrongType

MIXED = pa.array([None, 3.0, NAN, None, -INF, 1.0, 7.5, None, None, None, 2.0])
seeds = st.integers(0, 1000)


def first(values):
    return values[0] if values else None


def last(values):
    return values[-1] if values else None


def third_youngest(values):
    return values[-3] if len(values) >= 3 else None


CASES = [
    (agg.first(), first),
    (agg.last(), last),
    (agg.collect_list(), list),
    (agg.ith_youngest(i=3), third_youngest),
]
OTHERS = [
    pa.array(["b", None, "a", "", "c"]),
    pa.array([Decimal("1.50"), Decimal("-2.25"), None]),
    pa.array([[1, None], None, [], [2]]),
    pa.array([{"a": 1}, {"a": None}, None]),
    pa.array([datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1)]),
    pa.array([1, 5, None], pa.timestamp("ms", "Europe/Paris")),
    pa.array([1.5, None], pa.float16()),
    pa.array(["a", "b", "a", None]).dictionary_encode(),
    pa.array([2**63 + 1, None, 5, 6, 7], pa.uint64()),
    pa.array([True, False, None, True]),
]


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_floats(aggregate, oracle):
    check(aggregate, oracle, MIXED, window=4 if aggregate.name in ("first", "collect_list") else None)
    check(aggregate, oracle, pa.array([2.5]))
    check(aggregate, oracle, pa.array([None, None], pa.float64()))
    check(aggregate, oracle, pa.array([], pa.float64()))


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
@given(values=float_columns, seed=seeds)
def test_any_floats_in_any_association(aggregate, oracle, values, seed):
    check(aggregate, oracle, values, seed=seed)


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
@pytest.mark.parametrize("values", OTHERS, ids=lambda a: str(a.type))
def test_other_types(aggregate, oracle, values):
    check(aggregate, oracle, values, compiled=False)
    if values.type in (pa.string(), pa.list_(pa.int64())):
        check(aggregate, oracle, values, window=2)


def test_unsigned_integers_stay_unsigned_when_compiled():
    values = pa.array([2**64 - 1, 2**63 + 1, 2**64 - 3], pa.uint64())
    check(agg.first(), first, values)
    check(agg.ith_youngest(i=3), third_youngest, values)


def test_numpy_values_have_no_nulls_to_mark():
    values = np.array([4.0, 5.0, 6.0, 7.0])
    assert agg.first().of(values) == 4.0
    assert agg.ith_youngest(i=2).of(values) == 6.0
    assert agg.ith_youngest(i=5).of(values) is None


@pytest.mark.parametrize("separator", ["", ", "])
def test_concat(separator):
    def oracle(values):
        return separator.join(values) if values else None

    aggregate = agg.concat(separator=separator)
    for values in (["a", None, "", "bc", "", "d"], ["x"], [""], [None, None], []):
        check(aggregate, oracle, pa.array(values, pa.string()), window=2)
        check(aggregate, oracle, pa.array(values, pa.large_string()))
        check_subtracting(aggregate, oracle, pa.array(values, pa.string()), window=2)


@given(words=st.lists(st.one_of(st.none(), st.text("ab,", max_size=2)), max_size=8), seed=seeds)
def test_concat_in_any_association(words, seed):
    def oracle(values):
        return ",".join(values) if values else None

    values = pa.array(words, pa.string())
    check(agg.concat(separator=","), oracle, values, seed=seed)
    check_subtracting(agg.concat(separator=","), oracle, values, window=3)


@given(values=float_columns, window=st.integers(1, 4))
def test_the_oldest_part_can_be_taken_off_a_list(values, window):
    check_subtracting(agg.collect_list(), list, values, window)


def test_lists_keep_their_element_type():
    assert agg.collect_list().monoid([agg.values.value_type(pa.date32())]).result == pa.list_(pa.date32())
    assert interpret(agg.collect_list(), pa.array([None], pa.float32())) == []


def test_partials_are_left_alone():
    m = monoid(agg.ith_youngest(i=3), pa.array([1]))
    a, b = m.combine(m.lift(1), m.lift(2)), m.lift(3)
    before = a[0].copy(), b[0].copy()
    c = m.combine(a, b)
    assert (a[0] == before[0]).all() and (b[0] == before[1]).all()
    assert c[0] is not a[0] and c[0] is not b[0]


def test_properties():
    for aggregate, _ in [*CASES, (agg.concat(), None)]:
        assert not aggregate.commutative
        assert aggregate.selective == (aggregate.name in ("first", "last"))
        assert aggregate.invertible == (aggregate.name in ("collect_list", "concat"))
        m = aggregate.monoid([agg.values.value_type("string")])
        assert not m.commutative and (m.selects is not None) == aggregate.selective
    assert agg.collect_list().kind == agg.concat().kind == "holistic"
    with pytest.raises(UnsupportedAggregate, match="no inverse"):
        agg.first().monoid([agg.values.value_type("int64")], subtractable=True)


@given(a=st.one_of(st.none(), st.integers(0, 3)), b=st.one_of(st.none(), st.integers(0, 3)))
def test_selects_says_which_one_combine_gives(a, b):
    for aggregate in (agg.first(), agg.last()):
        m = aggregate.monoid([agg.values.value_type("int64")])
        x, y = (m.identity() if v is None else m.lift(v) for v in (a, b))
        assert m.combine(x, y) == (y if m.selects(x, y) else x)


@pytest.mark.parametrize("i", [0, -1, 1.0, True, "2", None])
def test_bad_positions(i):
    with pytest.raises(InvalidArgument, match="ith_youngest: i must be"):
        agg.ith_youngest("x", i=i)


def test_bad_separator_and_types():
    with pytest.raises(InvalidArgument, match="separator"):
        agg.concat("x", separator=None)
    with pytest.raises(WrongType, match="concat needs strings"):
        agg.concat().of([1, 2])


def test_names():
    assert repr(agg.ith_youngest("x", 2)) == "ith_youngest(x, i=2)"
    assert repr(agg.concat("x", separator=";")) == "concat(x, separator=';')"
    assert agg.ith_youngest("x", 2) != agg.ith_youngest("x", 3)
