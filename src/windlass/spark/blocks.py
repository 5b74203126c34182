"""Blocks: a table as one binary value, so that Spark moves few and large rows.

kind     holds
SLICES   slices of events, as `windlass.operator.slice_table` lays them out
EVENTS   the events themselves, the columns that the queries need
UNTIMED  events that no window can hold: their time is null
AHEAD    events whose time is too far in the future
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windlass.errors import CorruptSnapshot

SLICES, EVENTS, UNTIMED, AHEAD = "slices", "events", "untimed", "ahead"

_KIND = b"windlass"


def packed(table: pa.Table, kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    table = table.combine_chunks().replace_schema_metadata({_KIND: kind.encode()})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(block: bytes | memoryview) -> tuple[str, Any]:
    """The kind of a block, and its table, in the block's own memory."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(block)).read_all()
        return (table.schema.metadata or {})[_KIND].decode(), table
    except (pa.ArrowException, KeyError, OSError) as error:
        raise CorruptSnapshot(f"a block of events cannot be read: {error}") from error
