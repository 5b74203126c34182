import numpy as np
import pyarrow as pa
import pytest
from aggregates.checks import INF, NAN, check, interpret
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, WrongType
from windlass.stores import TwoStacks

COLUMNS = [
    pa.array([0, 0, None, -1, 2**62]),
    pa.array([NAN, NAN, 0.0, -0.0, INF]),
    pa.array(["a", None, "b", "a"]),
    pa.array([True, False, True]),
    pa.array([], pa.int64()),
    pa.array([None], pa.float64()),
]


def few(values):
    """Small counts are exact, but for collisions: 3 values in 4096 registers."""
    return len({"nan" if v != v else v for v in values})


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: f"{len(c)} {c.type}")
def test_few_values(column):
    check(agg.approx_count_distinct(), few, column)


@pytest.mark.parametrize("precision", [8, 12, 14])
@pytest.mark.parametrize("n", [100, 3_000, 12_000, 60_000])
def test_the_error_is_within_four_standard_errors(precision, n):
    """From far below the number of registers to far above, the old switch of estimators included."""
    aggregate = agg.approx_count_distinct(precision=precision)
    error = 1.04 / 2 ** (precision / 2)
    estimates = [aggregate.of(np.arange(n) + k * 10**7) for k in range(4)]
    assert abs(np.mean(estimates) / n - 1) <= 4 * error / 2
    assert all(abs(e / n - 1) <= 4 * error for e in estimates)


@settings(max_examples=25)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_compiled_and_interpreted_agree(values):
    column = pa.array(values, pa.int64())
    aggregate = agg.approx_count_distinct(precision=4)
    assert aggregate.of(column) == interpret(aggregate, column)


def test_repeated_values_count_once():
    values = np.tile(np.arange(50), 40)
    assert TwoStacks(agg.approx_count_distinct()).slide(values, window=200)[-1] == agg.approx_count_distinct().of(
        np.arange(50)
    )


def test_properties():
    aggregate = agg.approx_count_distinct("x")
    assert aggregate.commutative and not aggregate.invertible and not aggregate.selective
    m = aggregate.monoid([agg.values.value_type("int64")])
    assert m.is_compiled and m.partial_nbytes == 4096


def test_wrong_types_and_parameters():
    with pytest.raises(WrongType, match="approx_count_distinct needs"):
        agg.approx_count_distinct().of([[1]])
    for precision in (3, 19, 12.0, True, None):
        with pytest.raises(InvalidArgument, match="precision must be an integer from 4 to 18"):
            agg.approx_count_distinct(precision=precision)
