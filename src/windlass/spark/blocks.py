"""Blocks: a table as one binary value, so that Spark moves few and large rows.

kind     holds
SLICES   slices of events, as `windlass.operator.slice_table` lays them out
EVENTS   the events themselves, the columns that the queries need
UNTIMED  events that no window can hold: their time is null
AHEAD    events whose time is too far in the future

What a block costs is its bytes: they are copied, compressed, written to disk and kept as state. So columns travel as
narrow as they can: 64-bit integers and times as what they are above the column's least, texts that repeat themselves by
number, and nulls, where there is nothing else, not at all. Of structs that goes for each field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windlass.aggregates.values import to_arrow
from windlass.formats.record import as_corrupt_snapshot
from windlass.formats.spark import BLOCK

SLICES, EVENTS, UNTIMED, AHEAD = "slices", "events", "untimed", "ahead"

_LEAST, _TYPE = b"least", b"type"  # of a field that is narrowed
_LOOK, _FEW = 1024, 64  # texts that are looked at, and different ones among them that promise repetition


def encode_block(table: pa.Table, kind: str) -> bytes:
    """A table as a block."""
    whole = table.combine_chunks()
    columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in whole.columns]
    narrow = [_narrowed(field, column) for field, column in zip(whole.schema, columns, strict=True)]
    rows = pa.Table.from_arrays([array for _, array in narrow], schema=pa.schema([field for field, _ in narrow]))
    return BLOCK.seal({"kind": kind, "rows": rows})


def decode_block(block: bytes | memoryview) -> tuple[str, Any]:
    """The kind of a block, and its table; what was not narrowed, in the block's own memory."""
    found = BLOCK.unseal(block, "the bytes of a block of events")
    with as_corrupt_snapshot("a block of events"):
        rows = found["rows"].combine_chunks()
        columns = [
            _widened(field, column.chunk(0) if column.num_chunks else pa.array([], field.type))
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        schema = pa.schema([field for field, _ in columns])
        return found["kind"], pa.table([array for _, array in columns], schema=schema)


def _narrowed(field: pa.Field, array: pa.Array) -> tuple[pa.Field, pa.Array]:
    narrow, note = array, {}
    if not len(array) or pa.types.is_null(field.type):
        return field, array
    if array.null_count == len(array):
        narrow = pa.nulls(len(array))
    elif pa.types.is_struct(field.type) and not array.null_count:
        parts = [_narrowed(*part) for part in zip(field.type, array.flatten(), strict=True)]
        narrow = pa.StructArray.from_arrays([part for _, part in parts], fields=[own for own, _ in parts])
        return field.with_type(narrow.type), narrow
    elif _is_word(field.type) and not array.null_count:
        words = array.view(pa.int64()).to_numpy()
        least, range_ = int(words.min()), int(words.max()) - int(words.min())
        if range_ < 1 << 32:
            above = (words - least).astype(np.min_scalar_type(range_))
            narrow = to_arrow(above, None, pa.from_numpy_dtype(above.dtype))
            note[_LEAST] = str(least).encode()
    elif pa.types.is_string(field.type) and len(array) > _LOOK and _repeats_itself(array[:_LOOK]):
        coded = array.dictionary_encode()
        if len(coded.dictionary) <= 1 << 8:
            narrow = pa.DictionaryArray.from_arrays(coded.indices.cast(pa.uint8()), coded.dictionary)
    if narrow is array:
        return field, array
    note[_TYPE] = pa.schema([pa.field("", field.type)]).serialize().to_pybytes()
    return field.with_type(narrow.type).with_metadata(note), narrow


def _widened(field: pa.Field, array: pa.Array) -> tuple[pa.Field, pa.Array]:
    note = field.metadata or {}
    if _TYPE not in note:
        if not pa.types.is_struct(field.type) or array.null_count:
            return field, array
        parts = [_widened(*part) for part in zip(field.type, array.flatten(), strict=True)]
        wide = pa.StructArray.from_arrays([part for _, part in parts], fields=[own for own, _ in parts])
        return field.with_type(wide.type), wide
    type_ = pa.ipc.read_schema(pa.py_buffer(note[_TYPE])).field(0).type
    if _LEAST in note:
        words = array.to_numpy().astype(np.int64)
        words += int(note[_LEAST])
        wide = to_arrow(words, None, pa.int64()).view(type_)
    else:
        wide = pa.nulls(len(array), type_) if pa.types.is_null(field.type) else array.cast(type_)
    return pa.field(field.name, type_, field.nullable), wide


def _is_word(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int64(type_) or pa.types.is_timestamp(type_))


def _repeats_itself(texts: pa.Array) -> bool:
    return bool(pc.count_distinct(texts).as_py() <= _FEW)
