import pyarrow as pa
import pytest
from aggregates.checks import check, check_subtracting
from hypothesis import given
from hypothesis import strategies as st

import windlass.aggregates as agg
from windlass.errors import WrongType


def every(values):
    return all(values) if values else None


def some(values):
    return any(values) if values else None


CASES = [(agg.bool_and(), every), (agg.bool_or(), some)]


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
def test_booleans(aggregate, oracle):
    check(aggregate, oracle, pa.array([True, None, True, False, False, None, None, True]))
    for values in ([True], [False], [None, None], [], [True, True], [False, None]):
        check(aggregate, oracle, pa.array(values, pa.bool_()))


@pytest.mark.parametrize(("aggregate", "oracle"), CASES)
@given(values=st.lists(st.sampled_from([True, False, None]), max_size=10), seed=st.integers(0, 1000))
def test_any_booleans(aggregate, oracle, values, seed):
    check(aggregate, oracle, pa.array(values, pa.bool_()), seed=seed)
    check_subtracting(aggregate, oracle, pa.array(values, pa.bool_()), window=2)


def test_the_two_share_their_partials():
    a, b = (x.monoid([agg.values.value_type("bool")]) for x, _ in CASES)
    assert a.fields == b.fields and a.lift(True) == b.lift(True)


@pytest.mark.parametrize("aggregate", [a for a, _ in CASES], ids=repr)
def test_properties(aggregate):
    assert aggregate.kind == "algebraic"
    assert aggregate.commutative and aggregate.invertible and not aggregate.selective


@pytest.mark.parametrize("values", [[1, 0], [1.0], ["true"]], ids=str)
@pytest.mark.parametrize("name", ["bool_and", "bool_or"])
def test_wrong_types(name, values):
    with pytest.raises(WrongType, match=f"{name} needs booleans"):
        getattr(agg, name)().of(values)
