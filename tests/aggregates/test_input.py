import numpy as np
import pyarrow as pa
import pytest

import windlass.aggregates as agg
from windlass.errors import InvalidArgument, WrongType
from windlass.stores import TwoStacks


def test_only_the_columns_asked_for_are_read():
    pandas = pytest.importorskip("pandas")
    assert agg.sum("x").of(pandas.DataFrame({"x": [1, 2], "junk": [1, "a"]})) == 3
    assert agg.count().of(pandas.DataFrame({"x": [1, 2], "junk": [1, "a"]})) == 2
    assert agg.sum("x").of({"x": [1, 2], "junk": 5}) == 3


def test_an_index_is_no_column():
    pandas = pytest.importorskip("pandas")
    assert agg.sum().of(pandas.DataFrame({"x": [1, 2]}, index=[5, 7])) == 3


def test_polars_categories():
    polars = pytest.importorskip("polars")
    series = polars.Series("x", ["a", "b", None], dtype=polars.Categorical)
    assert agg.max().of(series) == "b"
    assert TwoStacks(agg.max("x")).slide(polars.DataFrame({"x": series}), window=1).to_pylist() == ["a", "b", None]


@pytest.mark.parametrize("aggregate", [agg.count(), agg.sum()], ids=repr)
@pytest.mark.parametrize("values", [5, (i for i in [1]), None], ids=["number", "generator", "none"])
def test_what_is_no_array_is_refused(aggregate, values):
    with pytest.raises(WrongType, match="expected an array"):
        aggregate.of(values)


def test_what_is_no_column_is_refused():
    with pytest.raises(WrongType, match="expected an array"):
        agg.sum("x").of({"x": 5})
    with pytest.raises(InvalidArgument, match="differ in length"):
        agg.count().of({"x": [1], "y": [1, 2]})


def test_a_list_of_rows_is_not_a_tuple_of_columns():
    with pytest.raises(InvalidArgument, match="tuple of 2 arrays"):
        agg.avg("p", weight="w").of([(10.0, 1.0), (20.0, 3.0)])
    assert agg.avg("p", weight="w").of(([10.0, 20.0], [1.0, 3.0])) == 17.5


def test_a_dtype_where_the_values_do_not_tell():
    with pytest.raises(WrongType, match="dtype="):
        agg.sum().of([])
    assert agg.sum().of([], dtype="int64") is None
    assert agg.max().of([None], dtype="int64") is None
    assert agg.avg("p", weight="w").of(([], []), dtype=("float64", "int64")) is None
    assert agg.sum().of(np.array([1, 2], np.int8), dtype=pa.int64()) == 3
    with pytest.raises(InvalidArgument, match="dtype"):
        agg.sum().of([1], dtype=("int64", "int64"))
