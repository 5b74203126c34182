import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import windlass.aggregates as agg
from windlass.errors import WrongType
from windlass.stores import TwoStacks

NOON = dt.datetime(2024, 5, 1, 12)
NOON_UTC = NOON.replace(tzinfo=dt.UTC)


def inserted(aggregate, dtype, *values):
    store = TwoStacks(aggregate, dtype=dtype)
    for value in values:
        store.insert(value)
    return store.query()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", 300),
        ("int8", np.int64(300)),
        ("uint8", -1),
        ("uint64", -1),
        ("int64", 2**63),
        ("float32", 1e300),
        ("float16", 1e6),
        (pa.duration("s"), np.timedelta64(1500, "ms")),
        (pa.time32("s"), dt.time(1, 2, 3, 500)),
        (pa.timestamp("s"), NOON_UTC),
        (pa.timestamp("s", "UTC"), NOON),
        (pa.decimal128(5, 2), Decimal("1.001")),
        ("string", b"bytes"),
        ("string", Decimal(1)),
        ("binary", "text"),
        ("int64", 1.0),
        ("int64", True),
    ],
)
def test_values_that_would_change_are_refused(dtype, value):
    store = TwoStacks(agg.max(), dtype=dtype)
    with pytest.raises(WrongType):
        store.insert(value)
    with pytest.raises(WrongType):
        store.slide([value], window=1)
    assert len(store) == 0


def test_the_width_of_the_first_value_holds():
    store = TwoStacks(agg.max())
    store.insert(np.int8(3))
    with pytest.raises(WrongType, match="300"):
        store.insert(300)
    with pytest.raises(WrongType, match="300"):
        store.slide(pa.array([300, 5]), window=2)


@pytest.mark.parametrize(
    ("dtype", "value", "answer"),
    [
        ("int8", np.int64(-128), -128),
        ("uint64", 1, 1),
        ("uint64", 2**63, 2**63),
        ("float32", float("inf"), float("inf")),
        ("float32", 1.5, 1.5),
        (pa.duration("ms"), np.timedelta64(5, "s"), dt.timedelta(seconds=5)),
        (pa.duration("s"), dt.timedelta(seconds=5), dt.timedelta(seconds=5)),
        (pa.time32("s"), dt.time(1, 2, 3), dt.time(1, 2, 3)),
        (pa.date64(), dt.date(2024, 5, 1), dt.date(2024, 5, 1)),
        (pa.timestamp("s"), NOON, NOON),
        (pa.decimal128(5, 2), Decimal("10.5"), Decimal("10.50")),
        (pa.decimal128(5, 2), 3, Decimal("3.00")),
        ("large_string", "text", "text"),
    ],
)
def test_values_that_stay_the_same_are_taken(dtype, value, answer):
    assert inserted(agg.max(), dtype, value) == answer
    store = TwoStacks(agg.max(), dtype=dtype)
    store.insert_many([value])
    assert store.query() == answer


def test_unsigned_integers():
    assert agg.max().of([2**63]) == 2**63
    assert TwoStacks(agg.sum(), dtype="uint64").slide([1, 2], window=1).tolist() == [1, 2]
    assert inserted(agg.sum(), "uint64", 1, 2**63) == 2**63 + 1


@pytest.mark.parametrize("aggregate", [agg.sum(), agg.max(), agg.avg(), agg.last()], ids=repr)
def test_decimals_of_any_number_of_digits(aggregate):
    values = [Decimal("9.99"), Decimal("10.00"), 3, Decimal("1234567.1")]
    wanted = {"sum": "1234590.09", "max": "1234567.10", "avg": "308647.522500", "last": "1234567.10"}
    assert str(inserted(aggregate, None, *values)) in (wanted[aggregate.name], wanted[aggregate.name].rstrip("0"))


def test_strings_of_other_layouts():
    store = TwoStacks(agg.max(), dtype="string")
    for layout in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert store.slide(pa.array(["a", "b"]).cast(layout), window=1).to_pylist() == ["a", "b"]
