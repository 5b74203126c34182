"""Every built-in aggregate keeps the laws, and check_laws catches whoever does not."""

import inspect
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, LawViolation

NULLABLE_INTEGERS = st.none() | st.integers(-(2**40), 2**40)
SMALL = st.none() | st.integers(-5, 5)
FLOATS = st.none() | st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf")])
FINITE = st.none() | st.floats(-1e6, 1e6)
POSITIVE = st.none() | st.floats(1e-3, 1e3)
FACTORS = st.none() | st.integers(-3, 3)
BOOLS = st.none() | st.booleans()
TEXT = st.none() | st.text("abç", max_size=3)
DECIMALS = st.none() | st.decimals(-1000, 1000, places=2)
PAIRS = st.tuples(FINITE, FINITE)
WEIGHTED = st.tuples(FINITE, st.none() | st.floats(0.5, 100))
TIMED = st.tuples(st.none() | st.integers(-5, 5), st.none() | st.integers(0, 5))

# name in windlass.aggregates: [(aggregate, rows, type of the column)]
LAWFUL = {
    "sum": [(agg.sum(), NULLABLE_INTEGERS, "int64"), (agg.sum(), FLOATS, "float64"), (agg.sum(), DECIMALS, None)],
    "count": [(agg.count(), SMALL, None), (agg.count("x"), FLOATS, "float64")],
    "avg": [
        (agg.avg(), NULLABLE_INTEGERS, "int64"),
        (agg.avg(), FLOATS, "float64"),
        (agg.avg("x", weight="w"), WEIGHTED, "float64"),
    ],
    "min": [(agg.min(), NULLABLE_INTEGERS, "int64"), (agg.min(), FLOATS, "float64"), (agg.min(), TEXT, "string")],
    "max": [(agg.max(), NULLABLE_INTEGERS, "int64"), (agg.max(), FLOATS, "float64"), (agg.max(), TEXT, "string")],
    "min_max": [(agg.min_max(), FLOATS, "float64")],
    "spread": [(agg.spread(), SMALL, "int64"), (agg.spread(), FLOATS, "float64")],
    "arg_min": [(agg.arg_min("x", by="y"), TIMED, "int64")],
    "arg_max": [(agg.arg_max("x", by="y"), TIMED, "int64")],
    "min_count": [(agg.min_count(), SMALL, "int64"), (agg.min_count(), FLOATS, "float64")],
    "max_count": [(agg.max_count(), SMALL, "int64")],
    "first": [(agg.first(), FLOATS, "float64"), (agg.first(), TEXT, "string")],
    "last": [(agg.last(), FLOATS, "float64")],
    "collect_list": [(agg.collect_list(), SMALL, "int64"), (agg.collect_list(), TEXT, "string")],
    "concat": [(agg.concat(), TEXT, "string"), (agg.concat(separator="-"), TEXT, "string")],
    "ith_youngest": [(agg.ith_youngest(i=2), SMALL, "int64"), (agg.ith_youngest(i=2), TEXT, "string")],
    "top_n": [(agg.top_n(n=3), FLOATS, "float64"), (agg.top_n(n=2, largest=False), TEXT, "string")],
    "m4": [(agg.m4(), FLOATS, "float64"), (agg.m4("x", time="t"), TIMED, "int64")],
    "product": [(agg.product(), FACTORS, "int64"), (agg.product(), FINITE, "float64")],
    "geomean": [(agg.geomean(), POSITIVE, "float64")],
    "variance": [(agg.variance(), FINITE, "float64")],
    "stddev": [(agg.stddev(), SMALL, "int64")],
    "var_samp": [(agg.var_samp(), FINITE, "float64")],
    "var_pop": [(agg.var_pop(), FLOATS, "float64")],
    "stddev_samp": [(agg.stddev_samp(), SMALL, "int64")],
    "stddev_pop": [(agg.stddev_pop(), SMALL, "int64")],
    "bool_and": [(agg.bool_and(), BOOLS, "bool")],
    "bool_or": [(agg.bool_or(), BOOLS, "bool")],
    "median": [(agg.median(), SMALL, "int64"), (agg.median(), FLOATS, "float64"), (agg.median(), DECIMALS, None)],
    "percentile": [(agg.percentile("x", 90), FLOATS, "float64")],
    "quantile": [(agg.quantile("x", 0.25), NULLABLE_INTEGERS, "int64")],
    "count_distinct": [(agg.count_distinct(), FLOATS, "float64"), (agg.count_distinct(), TEXT, "string")],
    "mode": [(agg.mode(), SMALL, "int64"), (agg.mode(), TEXT, "string")],
    "bloom_filter": [
        (agg.bloom_filter(expected=10), FLOATS, "float64"),
        (agg.bloom_filter(expected=10), TEXT, "string"),
    ],
    "count_min": [(agg.count_min(epsilon=0.1), SMALL, "int64"), (agg.count_min(epsilon=0.1), TEXT, "string")],
    "approx_count_distinct": [(agg.approx_count_distinct(precision=6), NULLABLE_INTEGERS, "int64")],
    "approx_quantile": [(agg.approx_quantile("x", 0.5), FINITE, "float64")],
}
NOT_AGGREGATES = {"Aggregate", "Counter", "bloom_contains", "check_laws", "count_min_estimate", "counted", "define"}
CASES = [pytest.param(*case, id=f"{case[0]!r} of {case[2]}") for cases in LAWFUL.values() for case in cases]


def test_no_aggregate_is_missing_from_the_table():
    assert set(LAWFUL) == set(agg.__all__) - NOT_AGGREGATES - {"mean"}  # which is avg
    assert all(inspect.isfunction(getattr(agg, name)) for name in LAWFUL)


@pytest.mark.parametrize(("aggregate", "values", "dtype"), CASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_built_in_aggregates_are_lawful(aggregate, values, dtype, data):
    rows = data.draw(st.lists(values, min_size=1, max_size=6))
    if dtype is None and all(row is None for row in rows):
        rows = [Decimal("1.50")]
    agg.check_laws(aggregate, rows, dtype=dtype)


def broken(law, rows=(1.0, 2.0, 4.0, 8.0), dtype=None, **functions):
    parts = {"lift": lambda x: x, "combine": lambda a, b: a + b, "compile": False} | functions
    with pytest.raises(LawViolation, match=f"breaks {law}") as caught:
        agg.check_laws(agg.define("broken", **parts)(), rows, dtype=dtype)
    return str(caught.value)


def test_associativity():
    message = broken("associativity", combine=lambda a, b: (a + b) / 2)
    assert "(a ⊕ b) ⊕ c gives" in message and "a ⊕ (b ⊕ c) gives" in message
    assert "a of rows [1.0" in message  # the counterexample


@pytest.mark.parametrize("more", [0, 9, 500])
def test_more_rows_find_no_less(more):
    saturating = {"combine": lambda a, b: min(a + b, 10)}
    broken("associativity", rows=[9, 5, -6] + [0] * more, **saturating)
    broken("associativity", rows=[0] * more + [9, 5, -6] + [0] * more, **saturating)
    # Of single rows all is well.
    limited = {"lift": lambda x: (x, 1), "combine": lambda a, b: (a[0] + b[0] - (a[1] == 3), a[1] + b[1])}
    broken("associativity", rows=[1] * (8 + more), lower=lambda p: p[0], **limited)


def test_rounding_is_measured_by_the_answers():
    # The second field is large and has nothing to do with the answer.
    parts = {"lift": lambda x: (x, 1e12), "lower": lambda p: p[0]}
    broken("associativity", combine=lambda a, b: ((a[0] + b[0]) / 2, 1e12), **parts)
    # Nor has the second part of an answer anything to do with the first.
    broken("associativity", lift=lambda x: (x, 1e12), combine=lambda a, b: ((a[0] + b[0]) / 2, 1e12))
    naive = agg.define("naive", lift=lambda x: x, combine=lambda a, b: a + b, compile=False)
    agg.check_laws(naive(), [0.1, 0.2, 0.3, 1e16, -1e16, 0.7])


def test_identity():
    assert "e ⊕ a gives 2.0, a gives 1.0" in broken("identity", identity=1.0)
    assert "a ⊕ e" in broken("identity", combine=lambda a, b: b if a == 0 else a + b + 1, identity=0.0)


def test_inverse():
    broken("inverse", identity=0.0, inverse=lambda c, a: c)
    # Right by itself, but what is left does not combine on: the second field is wrong.
    parts = {
        "lift": lambda x: (x, 1),
        "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        "lower": lambda p: p[0] if p[1] < 3 else -p[0],
        "inverse": lambda c, a: (c[0] - a[0], max(c[1] - a[1], 2)),
    }
    assert "((a ⊕ b) ⊖ a) ⊕ a" in broken("inverse", rows=(1, 1), identity=(0, 0), **parts)


def test_commutativity():
    concat = agg.define("concat", lift=lambda x: x, combine=lambda a, b: a + b, compile=False)
    agg.check_laws(concat(), ["a", "b"])
    assert "gives 'ab', b ⊕ a gives 'ba'" in broken("commutativity", rows=["a", "b"], commutative=True)


def test_selectivity():
    assert "is neither" in broken("selectivity", selective=True)
    assert "selects(a, b) says a" in broken("selectivity", combine=lambda a, b: max(a, b), selects=lambda a, b: False)


def appending(a, b):
    a.extend(b)
    return a


def test_purity():
    assert "combine changed its first argument" in broken("purity", lift=lambda x: [x], combine=appending, rows=[1, 2])
    listing = {"lift": lambda x: [x], "combine": lambda a, b: a + b}
    assert "lower changed" in broken("purity", rows=[2, 1], lower=lambda p: p.sort() or p[0], result="int64", **listing)


def test_a_form_that_is_subtracted_is_checked_too():
    plain = agg.sum()
    wrong = agg.define(
        "wrong", lift=lambda x: x, combine=lambda a, b: a + b, identity=0.0, inverse=lambda c, a: c, compile=False
    )()
    mixed = agg.Aggregate("mixed", (None,), plain.build, invertible=True, build_invertible=wrong.build_invertible)
    with pytest.raises(LawViolation, match="the form that is subtracted"):
        agg.check_laws(mixed, [1.0, 2.0])


def test_rounding_is_no_violation_and_nan_equals_nan():
    agg.check_laws(agg.sum(), [0.1, 0.2, 0.3, 1e16, -1e16])
    agg.check_laws(agg.sum(), [float("nan"), float("inf"), 1.0])


def test_a_violation_is_an_assertion_and_survives_pickling():
    with pytest.raises(AssertionError) as caught:
        agg.check_laws(agg.define("m", lift=lambda x: x, combine=lambda a, b: a - b, compile=False)(), [1, 2, 3])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_several_columns_nulls_and_many_rows():
    agg.check_laws(agg.avg("x", weight="w"), [(1.0, 2.0), (None, 1.0), (3.0, None)])
    agg.check_laws(agg.count(), [None, None])
    agg.check_laws(agg.sum(), np.arange(1000))


def test_bad_rows():
    with pytest.raises(InvalidArgument, match="at least one"):
        agg.check_laws(agg.sum(), [])
    with pytest.raises(InvalidArgument, match="rows of 2 values"):
        agg.check_laws(agg.avg("x", weight="w"), [1.0])
