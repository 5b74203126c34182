"""A history on disk: slots of a stream, written by a job as its watermark goes on.

    history.json                                what it is: tick, keys, aggregates, buckets
    slots/0000000007-0000000007-00001.slots     bucket 1 of batch 7: keys │ slot │ version │ a partial an aggregate
    slots/0000000000-0000000063-00001.slots     batches 0 to 63 of it, put together

Idea. A file is known by what is in it, and appears whole, by renaming. A batch that is run again, by a retry, by
speculation, after a crash, has the same events and writes the same file over the other: nothing can be counted twice.
Every bucket writes one file for every batch, if only to tell its watermark, so a batch is complete when all of them are
there, and a reader takes complete batches only: what it sees is the stream as it was at one watermark.

Of a slot and key that is in several files, the highest version counts: a late event writes a newer version of its slot.
Files of batches that are done are put together in runs of 64, and runs in runs of runs, so there are few, however long
the stream is.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.definitions import aggregate_of, definition_of
from windlass.aggregates.values import ValueType, value_type
from windlass.errors import CorruptSnapshot, InvalidArgument, WindlassError
from windlass.formats.document import open_document, seal_document, write_document

__all__ = ["HistoryFiles", "Kept", "newest", "together"]

FILE = "history.json"
RUN = 64  # files that are put together
_NAME = re.compile(r"(\d{10})-(\d{10})-(\d{5})\.slots$")
_DIGEST = 16
_WATERMARK = b"watermark"


@dataclass(frozen=True)
class Kept:
    """What a history keeps: the partials of these aggregates, by key and tick."""

    tick: int
    time: pa.DataType
    key: pa.Schema
    aggregates: tuple[Aggregate, ...]
    types: pa.Schema  # of the columns that the aggregates read
    buckets: int

    def values(self, aggregate: Aggregate) -> list[ValueType]:
        return [value_type(self.types.field(name or "").type) for name in aggregate.columns]

    def described(self) -> dict[str, Any]:
        def definition(a: Aggregate) -> Any:
            try:
                return definition_of(a)
            except LookupError:
                return None

        schemas = {"time": pa.schema([("time", self.time)]), "key": self.key, "types": self.types}
        return {
            "tick": self.tick,
            "buckets": self.buckets,
            "aggregates": [[a.output_name, definition(a)] for a in self.aggregates],
            **{name: base64.b64encode(schema.serialize().to_pybytes()).decode() for name, schema in schemas.items()},
        }


class HistoryFiles:
    """The directory of a history."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    # ------------------------------------------------------------------ what it is

    def create(self, kept: Kept) -> None:
        """Make the directory, or see that it is one of just these slots."""
        (self.path / "slots").mkdir(parents=True, exist_ok=True)
        wanted = kept.described()
        if (self.path / FILE).exists():
            there = self._described()
            if there != wanted:
                differing = [name for name in wanted if there.get(name) != wanted[name]]
                raise InvalidArgument(
                    f"{self.path} is a history with other {' and '.join(differing)}; keep this one in another directory"
                )
            return
        write_document(self.path / FILE, seal_document(None, 1, wanted))

    def _described(self) -> dict[str, Any]:
        return open_document(self.path / FILE).content

    def kept(self, given: Sequence[Aggregate] = ()) -> Kept:
        if not (self.path / FILE).exists():
            raise CorruptSnapshot(f"there is no history in {self.path}: it has no {FILE}")
        there = self._described()
        time, key, types = (_schema(there[name]) for name in ("time", "key", "types"))
        mine = {a.output_name: a for a in given}
        aggregates = []
        for name, definition in there["aggregates"]:
            if definition is None and name not in mine:
                raise InvalidArgument(
                    f"{self.path} keeps {name!r}, which has functions of its own: open it with that aggregate, "
                    "History(path, aggregates=[…])"
                )
            try:
                aggregates.append(mine[name] if name in mine else aggregate_of(definition))
            except (LookupError, TypeError, WindlassError) as error:
                raise CorruptSnapshot(f"{self.path} keeps {name!r}, which this version does not know") from error
        return Kept(there["tick"], time.field(0).type, key, tuple(aggregates), types, there["buckets"])

    # ------------------------------------------------------------------ slots

    def write(self, batch: int, bucket: int, table: pa.Table, watermark: int | None) -> None:
        """The slots that a bucket has to say in a batch; the same again, if it is run again."""
        self._write((batch, batch, bucket), table, watermark)

    def has(self, batch: int, bucket: int) -> bool:
        return any(first <= batch <= last for first, last, b in self._names() if b == bucket)

    def compact(self, bucket: int, before: int) -> None:
        """Put files of a bucket together, of batches before this one: these are done for good."""
        size = RUN
        while size <= before:
            last = before // size * size - 1
            run = (last - size + 1, last, bucket)
            names = [n for n in self._names() if n[2] == bucket and run[0] <= n[0] and n[1] <= last]
            if run not in names and len(names) > 1:
                tables = [self.read(name) for name in sorted(names)]
                marks = [mark for _, mark in tables if mark is not None]
                whole = newest(together([table for table, _ in tables]), self._keys())
                self._write(run, whole, max(marks) if marks else None)
            for name in names:
                if name != run and run in self._names():
                    self._file(name).unlink(missing_ok=True)
            size *= RUN

    def complete(self, buckets: int) -> list[tuple[int, int, int]]:
        """The files to read: the widest of each batch and bucket, of all batches up to the first that lacks one."""
        chosen: list[tuple[int, int, int]] = []
        ends = []
        for bucket in range(buckets):
            upto = -1
            for first, last, b in sorted(self._names(), key=lambda n: (n[0], -n[1])):
                if b == bucket and first <= upto + 1 and last > upto:
                    chosen.append((first, last, b))
                    upto = last
            ends.append(upto)
        upto = min(ends, default=-1)
        return [name for name in chosen if name[1] <= upto]

    def read(self, name: tuple[int, int, int]) -> tuple[pa.Table, int | None]:
        """Slots, and the watermark at which they were written."""
        path = self._file(name)
        data = path.read_bytes()
        if hashlib.blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != data[-_DIGEST:]:
            raise CorruptSnapshot(f"{path} is damaged: its checksum does not match")
        try:
            table = pa.ipc.open_stream(pa.py_buffer(data)[:-_DIGEST]).read_all()
        except MemoryError:
            raise
        except pa.ArrowException as error:
            raise CorruptSnapshot(f"{path} cannot be read: {error}") from error
        mark = (table.schema.metadata or {}).get(_WATERMARK)
        return table.replace_schema_metadata(None), None if mark is None else int(mark)

    def _names(self) -> list[tuple[int, int, int]]:
        found = []
        for file in (self.path / "slots").iterdir():
            if match := _NAME.match(file.name):
                first, last, bucket = map(int, match.groups())
                found.append((first, last, bucket))
        return found

    def _file(self, name: tuple[int, int, int]) -> Path:
        return self.path / "slots" / "{:010d}-{:010d}-{:05d}.slots".format(*name)

    def _keys(self) -> list[str]:
        return list(_schema(self._described()["key"]).names)

    def _write(self, name: tuple[int, int, int], table: pa.Table, watermark: int | None) -> None:
        sink = pa.BufferOutputStream()
        if watermark is not None:
            table = table.replace_schema_metadata({_WATERMARK: str(watermark).encode()})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table.combine_chunks())
        data = sink.getvalue().to_pybytes()
        path = self._file(name)
        staged = path.with_name(f".{uuid.uuid4().hex}")
        with staged.open("wb") as file:
            file.write(data + hashlib.blake2b(data, digest_size=_DIGEST).digest())
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables of slots. Sums written before they had a second field get 0 there."""
    types = {
        field.name: max((t.schema.field(field.name).type for t in tables), key=lambda type_: type_.num_fields)
        for field in tables[0].schema
    }
    schema = pa.schema(list(types.items()))
    return pa.concat_tables(
        [pa.table([_as(table[name], type_) for name, type_ in types.items()], schema=schema) for table in tables]
    )


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted or column.type.num_fields == wanted.num_fields:
        return column
    return pa.chunked_array([_struct(chunk, wanted) for chunk in column.chunks], wanted)


def _struct(array: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    there = {field.name for field in array.type}
    fields = [
        array.field(field.name) if field.name in there else pa.repeat(pa.scalar(0, field.type), len(array))
        for field in wanted
    ]
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=array.is_null())


def newest(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row for each slot and key: that of the highest version."""
    if table.num_rows == 0:
        return table
    by = [(name, "ascending") for name in ("slot", *keys)]
    ordered = table.sort_by([*by, ("version", "ascending")])
    last = np.ones(ordered.num_rows, np.bool_)
    same = np.ones(ordered.num_rows - 1, np.bool_)
    for name in ("slot", *keys):
        column = ordered[name].combine_chunks()
        ids = column.dictionary_encode(null_encoding="encode").indices if name != "slot" else column
        numbers = ids.to_numpy(zero_copy_only=False)
        same &= numbers[1:] == numbers[:-1]
    last[:-1] = ~same
    return ordered.filter(pa.array(last))
