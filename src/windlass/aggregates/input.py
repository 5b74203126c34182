"""The columns of one aggregate out of whatever the user hands to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.values import Column, ValueType, column, is_plain_numpy, value_type
from windlass.errors import InvalidArgument, UnknownColumn, WrongType


class Read(NamedTuple):
    columns: list[Column]
    length: int
    may_be_null: bool  # NumPy has no nulls; anything else may bring one later
    arrow: bool  # the values came through Arrow, so should the answers


def read_columns(aggregate: Aggregate, values: Any, types: Sequence[ValueType] | None) -> Read:
    wanted = aggregate.columns
    arrow = not isinstance(values, np.ndarray | list | tuple | Mapping)
    length = -1
    if _is_table(values):
        table = _table(values)
        arrays = [_named(table, name, aggregate) for name in wanted]
        length = _rows(table) if not wanted else -1
    elif len(wanted) == 0:
        arrays, length = [], _length(values)
    elif len(wanted) == 1:
        arrays = [values]
    else:
        if not isinstance(values, tuple) or len(values) != len(wanted):
            raise InvalidArgument(
                f"{aggregate!r} takes {len(wanted)} columns: pass a table, a dict, or a tuple of {len(wanted)} arrays"
            )
        arrays = list(values)
        arrow = not all(isinstance(a, np.ndarray | list) for a in arrays)
    columns = [column(a, types[k] if types else None) for k, a in enumerate(arrays)]
    lengths = {len(c) for c in columns}
    if len(lengths) > 1:
        raise InvalidArgument(f"the columns of {aggregate!r} differ in length: {sorted(lengths)}")
    for c in columns:
        if pa.types.is_null(c.type.arrow) and types is None:
            what = "there are no values" if len(c) == 0 else "all values are null"
            raise WrongType(f"{what}, so their type is unknown; say it with dtype=, such as dtype='int64'")
    may_be_null = not all(is_plain_numpy(a) for a in arrays)
    return Read(columns, lengths.pop() if lengths else length, may_be_null, arrow)


def types_of(aggregate: Aggregate, dtype: Any) -> list[ValueType] | None:
    """What `dtype=` says: one type for all columns, or a tuple of one each."""
    if dtype is None:
        return None
    given = list(dtype) if isinstance(dtype, tuple | list) else [dtype] * len(aggregate.columns)
    if len(given) != len(aggregate.columns):
        raise InvalidArgument(f"{aggregate!r} takes {len(aggregate.columns)} column(s), dtype names {len(given)}")
    return [value_type(t) for t in given]


def _is_table(values: Any) -> bool:
    if isinstance(values, Mapping | pa.Table | pa.RecordBatch):
        return True
    return hasattr(values, "__arrow_c_stream__") and hasattr(values, "columns")


def _table(values: Any) -> Any:
    """A table to take columns from. Pandas gives them one by one: another column may not even fit Arrow."""
    is_one = isinstance(values, Mapping | pa.Table | pa.RecordBatch) or hasattr(values, "iloc")
    return values if is_one else pa.table(values)


def _rows(table: Any) -> int:
    if not isinstance(table, Mapping):
        return len(table) if hasattr(table, "iloc") else int(table.num_rows)
    lengths = {_length(array) for array in table.values()}
    if len(lengths) > 1:
        raise InvalidArgument(f"the columns differ in length: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def _length(values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        raise WrongType(f"expected an array of values, got {type(values).__name__}") from None


def _named(table: Any, name: str | None, aggregate: Aggregate) -> Any:
    """One column; the others are not looked at, so whatever they hold does not matter."""
    names = table.column_names if isinstance(table, pa.Table | pa.RecordBatch) else list(table)
    if name is None:
        if len(names) == 1:
            name = names[0]
        else:
            raise UnknownColumn(f"{aggregate!r} names no column; the table has {names}")
    if name not in names:
        raise UnknownColumn(f"{aggregate!r} needs column {name!r}; the table has {names}")
    return table[name]
