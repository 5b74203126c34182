"""Expired events of many batches in one table, though a column may have a different type in each batch.

An operator checks the columns that its queries read; the others may differ in type between batches. Such a column gets
a type that holds the values of all batches: dictionaries and views are decoded, numbers and times are widened, and of
several time zones the first is used. A column without such a type becomes text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["concatenated"]


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of all rows. A column that a batch does not have is null there."""
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    return pa.table({name: _column(name, tables) for name in names})


def _column(name: str, tables: Iterable[pa.Table]) -> pa.ChunkedArray:
    parts = [_given(name, table) for table in tables]
    if len({part.type for part in parts}) > 1:
        parts = [_plain(part) for part in parts]
        parts = _cast(parts, _common_type([part.type for part in parts]))
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)


def _given(name: str, table: pa.Table) -> pa.ChunkedArray:
    return table[name] if name in table.column_names else pa.chunked_array([pa.nulls(len(table))])


def _plain(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode the values: each batch may encode them differently."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array


def _common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    found = [type_ for type_ in types if not pa.types.is_null(type_)] or [pa.null()]
    if all(pa.types.is_timestamp(type_) and type_.tz is not None for type_ in found):
        units = ["s", "ms", "us", "ns"]
        return pa.timestamp(max((type_.unit for type_ in found), key=units.index), found[0].tz)
    try:
        schemas = [pa.schema([pa.field("", type_)]) for type_ in found]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.string()


def _cast(parts: Sequence[pa.ChunkedArray], type_: pa.DataType) -> list[pa.ChunkedArray]:
    try:
        return [part if part.type == type_ else part.cast(type_) for part in parts]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a value does not fit, or the type has no text form
        return [pa.chunked_array([pa.array([_text(value) for value in part], pa.string())]) for part in parts]


def _text(value: Any) -> str | None:
    return str(value) if value.is_valid else None
