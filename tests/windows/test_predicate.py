"""Conditions on events: the three ways to write one, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from windlass.errors import InvalidArgument, UnknownColumn, WindlassError, WrongType
from windlass.windows.predicate import Predicate

TABLE = pa.table({"price": [5.0, None, 20.0], "open": [True, None, False], "name": ["a", "b", "c"]})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("open", [True, False, False]),
        (pc.field("open"), [True, False, False]),
        (pc.field("price") < 10, [True, False, False]),
        (pc.field("price").is_null() | (pc.field("name") == "c"), [False, True, True]),
        (pc.scalar(True), [True, True, True]),
        (lambda table: pc.greater(table["price"], 10), [False, False, True]),
        (lambda table: np.array([False, True, True]), [False, True, True]),
        (lambda table: [None, True, False], [False, True, False]),
        (lambda table: table["price"].to_pandas() > 10, [False, False, True]),
        (lambda table: pa.nulls(3), [False, False, False]),
    ],
)
def test_mask(condition: Any, expected: list[bool]) -> None:
    mask = Predicate.of(condition).mask(TABLE)
    assert mask.dtype == np.bool_ and mask.tolist() == expected
    (batch,) = TABLE.to_batches()
    assert Predicate.of(condition).mask(batch).tolist() == expected


@pytest.mark.parametrize("condition", ["open", pc.field("price") < 10, lambda table: pc.less(table["price"], 10)])
def test_many_chunks_and_none(condition: Any) -> None:
    many = pa.concat_tables([TABLE] * 1000)
    assert np.array_equal(Predicate.of(condition).mask(many), np.tile(Predicate.of(condition).mask(TABLE), 1000))
    assert Predicate.of(condition).mask(TABLE.slice(0, 0)).tolist() == []
    assert Predicate.of(condition).mask(TABLE.schema.empty_table()).tolist() == []


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("closed", UnknownColumn, "'closed' does not exist; the columns are .*price"),
        ("name", WrongType, "predicate 'name' must give booleans, got string"),
        (pc.field("closed"), UnknownColumn, "names a column that does not exist; the columns are"),
        (pc.field("price"), WrongType, "must give booleans, got double"),
        (pc.field("name") > 5, WrongType, "cannot be evaluated"),
        (lambda table: [True], InvalidArgument, "gave 1 answers for 3 rows"),
        (lambda table: 5, WrongType, "must give an array of booleans, got int"),
        (lambda table: [1, 2, 3], WrongType, "must give booleans, got int64"),
        (lambda table: np.zeros((3, 1), bool), WrongType, "must give an array of booleans"),
    ],
)
def test_refused_by_the_table(condition: Any, error: type[WindlassError], message: str) -> None:
    with pytest.raises(error, match=message):
        Predicate.of(condition).mask(TABLE)


def test_a_column_that_is_there_twice() -> None:
    twice = pa.table([pa.array([True]), pa.array([False])], names=["open", "open"])
    with pytest.raises(UnknownColumn, match="more than once"):
        Predicate.of("open").mask(twice)


def test_an_error_of_the_function_is_its_own() -> None:
    with pytest.raises(KeyError):
        Predicate.of(lambda table: {}["x"]).mask(TABLE)


def test_equality() -> None:
    def is_open(table: pa.Table) -> Any:
        return table["open"]

    predicates = [
        Predicate.of("open"),
        Predicate.of("closed"),
        Predicate.of(pc.field("open")),
        Predicate.of(pc.field("price") < 10),
        Predicate.of(is_open),
        Predicate.of(lambda table: table["open"]),
    ]
    assert len(set(predicates)) == len(predicates)
    assert Predicate.of(pc.field("price") < 10) in set(predicates)
    assert Predicate.of(is_open) in set(predicates)
    assert Predicate.of(predicates[0]) is predicates[0]
    assert predicates[0] != "open"
    for predicate in predicates[:4]:
        again = pickle.loads(pickle.dumps(predicate))
        assert again == predicate and hash(again) == hash(predicate)


def test_what_it_reads() -> None:
    assert Predicate.of("open").columns == ("open",)
    assert Predicate.of(pc.field("open")).columns is None
    assert Predicate.of(len).columns is None
