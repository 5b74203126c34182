import numpy as np
import pyarrow as pa
import pytest

import windlass.aggregates as agg
from windlass.aggregates.counting import counted
from windlass.aggregates.values import value_type
from windlass.stores import SubtractOnEvict, TwoStacks

INT = [value_type("int64")]


def test_a_fold_of_n_costs_n_minus_one():
    aggregate, calls = counted(agg.sum("x"))
    assert aggregate.of(np.arange(10)) == 45
    assert (calls.combine, calls.inverse, calls.selects, calls.total) == (9, 0, 0, 9)
    calls.reset()
    assert calls.total == 0


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("subtractable", [False, True])
def test_every_form(nullable, subtractable):
    aggregate, calls = counted(agg.sum())
    m = aggregate.monoid([value_type("float64")], nullable=nullable, subtractable=subtractable)
    ab = m.combine(m.lift(1.0), m.lift(2.0))
    m.inverse(ab, m.lift(1.0))
    assert (calls.combine, calls.inverse, calls.total) == (1, 1, 2)
    assert m.interpreted == "its ⊕ calls are counted"


@pytest.mark.parametrize("nullable", [False, True])
def test_a_comparison_within_a_combine_is_part_of_it(nullable):
    aggregate, calls = counted(agg.max())
    m = aggregate.monoid(INT, nullable=nullable)
    m.combine(m.lift(1), m.lift(2))
    assert (calls.combine, calls.selects) == (1, 0)
    m.selects(m.identity(), m.lift(2))  # counted even where a null decides it
    assert (calls.combine, calls.selects, calls.total) == (1, 1, 2)


def test_what_is_not_there_stays_absent():
    m = counted(agg.max())[0].monoid(INT)
    assert m.inverse is None and counted(agg.sum())[0].monoid(INT).selects is None


def test_the_aggregate_stays_what_it_was():
    original = agg.percentile("x", 90).alias("p90")
    aggregate, _ = counted(original)
    assert (aggregate.name, aggregate.columns, aggregate.output_name) == ("percentile", ("x",), "p90")
    assert (aggregate.kind, aggregate.commutative, aggregate.invertible) == ("holistic", True, True)
    assert aggregate.of([1.0, 2.0, 3.0]) == original.of([1.0, 2.0, 3.0])
    assert counted(agg.sum())[0].alias("s").of([1, 2]) == 3


def test_two_counters_do_not_mix():
    (one, first), (two, second) = counted(agg.sum()), counted(agg.sum())
    one.of(np.arange(5))
    two.of(np.arange(3))
    one.of(np.arange(5))
    assert (first.total, second.total) == (8, 2)


def test_two_stacks_costs_three_a_round():
    aggregate, calls = counted(agg.sum())
    n = 1000
    TwoStacks(aggregate).slide(pa.array(range(n)), window=32)
    assert 2 * n < calls.total <= 3 * n


@pytest.mark.parametrize(("dtype", "value"), [("int64", 2**62), ("int64", -(2**63)), ("uint64", 2**63 + 1)])
def test_integers_wrap_around_as_they_do_compiled(dtype, value):
    values = np.array([value, value, value, value, 5], dtype)
    wrapping = agg.define("total", lift=lambda x: x, combine=lambda a, b: a + b, inverse=lambda c, a: c - a)()
    for aggregate in (wrapping, agg.sum(on_overflow="wrap")):
        expected = TwoStacks(aggregate).slide(values, window=3).tolist()
        assert TwoStacks(counted(aggregate)[0]).slide(values, window=3).tolist() == expected
    expected = SubtractOnEvict(wrapping).slide(values, window=3).tolist()
    assert SubtractOnEvict(counted(wrapping)[0]).slide(values, window=3).tolist() == expected
