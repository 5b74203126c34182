"""The columns of one aggregate out of whatever the user hands to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.values import Column, ValueType, column, is_plain_numpy
from windlass.errors import InvalidArgument, UnknownColumn, WrongType


class Read(NamedTuple):
    columns: list[Column]
    length: int
    may_be_null: bool  # NumPy has no nulls; anything else may bring one later
    arrow: bool  # the values came through Arrow, so should the answers


def read_columns(aggregate: Aggregate, values: Any, types: Sequence[ValueType] | None) -> Read:
    wanted = aggregate.columns
    arrow = not isinstance(values, np.ndarray | list | tuple | Mapping)
    if _is_table(values):
        table = values if isinstance(values, Mapping) else pa.table(values)
        arrays = [_named(table, name, aggregate) for name in wanted]
        length = len(next(iter(table.values()), ())) if isinstance(table, Mapping) else table.num_rows
    elif len(wanted) == 0:
        arrays, length = [], len(values)
    elif len(wanted) == 1:
        arrays, length = [values], -1
    else:
        if not isinstance(values, tuple | list) or len(values) != len(wanted):
            raise InvalidArgument(
                f"{aggregate!r} takes {len(wanted)} columns: pass a table, a dict, or a tuple of {len(wanted)} arrays"
            )
        arrays, length = list(values), -1
        arrow = not all(isinstance(a, np.ndarray | list) for a in arrays)
    columns = [column(a, types[k] if types else None) for k, a in enumerate(arrays)]
    lengths = {len(c) for c in columns}
    if len(lengths) > 1:
        raise InvalidArgument(f"the columns of {aggregate!r} differ in length: {sorted(lengths)}")
    for c in columns:
        if pa.types.is_null(c.type.arrow) and types is None:
            what = "there are no values" if len(c) == 0 else "all values are null"
            raise WrongType(f"{what}, so their type is unknown; construct the store with dtype=, such as dtype='int64'")
    may_be_null = not all(is_plain_numpy(a) for a in arrays)
    return Read(columns, lengths.pop() if lengths else length, may_be_null, arrow)


def _is_table(values: Any) -> bool:
    if isinstance(values, Mapping | pa.Table | pa.RecordBatch):
        return True
    return hasattr(values, "__arrow_c_stream__") and hasattr(values, "columns")


def _named(table: Any, name: str | None, aggregate: Aggregate) -> Any:
    names = list(table) if isinstance(table, Mapping) else table.column_names
    if name is None:
        if len(names) == 1:
            name = names[0]
        else:
            raise UnknownColumn(f"{aggregate!r} names no column; the table has {names}")
    if name not in names:
        raise UnknownColumn(f"{aggregate!r} needs column {name!r}; the table has {names}")
    return table[name]
