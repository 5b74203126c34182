"""Blocks: a table as one binary value, so that Spark moves few and large rows.

kind     holds
SLICES   slices of events, as `windlass.operator.slice_table` lays them out
EVENTS   the events themselves, the columns that the queries need
UNTIMED  events that no window can hold: their time is null
AHEAD    events whose time is too far in the future

What a block costs is its bytes: they are copied, compressed, written to disk and kept as state. So 64-bit integers
and times without nulls travel as what they are above the column's least, as narrow as that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import to_arrow
from windlass.errors import CorruptSnapshot

SLICES, EVENTS, UNTIMED, AHEAD = "slices", "events", "untimed", "ahead"

_KIND = b"windlass"
_LEAST, _TYPE = b"least", b"type"  # of a field that is narrowed


def packed(table: pa.Table, kind: str) -> bytes:
    columns, fields = [], []
    for field, column in zip(table.schema, table.combine_chunks().columns, strict=True):
        field, array = _narrowed(field, column.chunk(0) if column.num_chunks else pa.array([], field.type))
        columns.append(array)
        fields.append(field)
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, {_KIND: kind.encode()}))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(block: bytes | memoryview) -> tuple[str, Any]:
    """The kind of a block, and its table; what was not narrowed, in the block's own memory."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(block)).read_all()
        kind = (table.schema.metadata or {})[_KIND].decode()
        for i, field in enumerate(table.schema):
            if field.metadata and _LEAST in field.metadata:
                table = table.set_column(i, *_widened(field, table.column(i)))
        return kind, table
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise CorruptSnapshot(f"a block of events cannot be read: {error}") from error


def _is_word(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int64(type_) or pa.types.is_timestamp(type_))


def _narrowed(field: pa.Field, array: pa.Array) -> tuple[pa.Field, pa.Array]:
    if not _is_word(field.type) or array.null_count or not len(array):
        return field, array
    words = array.view(pa.int64()).to_numpy()
    least, range_ = int(words.min()), int(words.max()) - int(words.min())
    if range_ >= 1 << 32:
        return field, array
    narrow = (words - least).astype(np.min_scalar_type(range_))
    type_ = pa.schema([pa.field("", field.type)]).serialize().to_pybytes()
    note = {_LEAST: str(least).encode(), _TYPE: type_}
    narrow_type = pa.from_numpy_dtype(narrow.dtype)
    return pa.field(field.name, narrow_type, metadata=note), to_arrow(narrow, None, narrow_type)


def _widened(field: pa.Field, column: pa.ChunkedArray) -> tuple[pa.Field, pa.Array]:
    type_ = pa.ipc.read_schema(pa.py_buffer(field.metadata[_TYPE])).field(0).type
    narrow = column.chunk(0).to_numpy()
    words = narrow.astype(np.int64)
    words += int(field.metadata[_LEAST])
    return pa.field(field.name, type_), to_arrow(words, None, pa.int64()).view(type_)
