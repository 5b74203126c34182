"""Keys as dense integers: every distinct key row gets the next id when it first appears.

    user      id
    "ann"      0                 one table a column, one a pair of columns
    "bob"      1
    "ann"      0
    null       2

A table gives ids to words of 64 bits: the value itself (integers, times, floats as bits), the hash of the bytes
(strings), or two ids (the id of the columns so far and the id of one more column), so one table serves all of them.

Invariants
 1. ids are dense: 0 … len - 1, in order of first appearance.
 2. The youngest ids can be taken off again, without a trace (`truncate`).
 3. The ids of the columns that make up the first n keys are the first ids of each column; the same holds for pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.errors import CorruptSnapshot, InvalidArgument
from windlass.formats.record import as_corrupt_snapshot
from windlass.operator.key_columns import KeyColumn, Part
from windlass.operator.key_tables import NO_NULLS, BytesTable, Table, Words, read_only
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


class KeyIndex(Stateful):
    """The ids of the keys of a stream. With no key columns there is one key, 0.

    Types are fixed by the first batch that tells them. Null is a key like any other, NaN is one key, -0.0 is 0.0.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self._columns = [KeyColumn(name) for name in self.names]
        self._pairs = [Table() for _ in self.names[1:]]

    def __len__(self) -> int:
        return len(self._last) if self.names else 1

    def __repr__(self) -> str:
        return f"KeyIndex({', '.join(map(repr, self.names))}: {len(self)} key(s))"

    @property
    def _last(self) -> Table:
        return self._pairs[-1] if self._pairs else self._columns[0].table

    @property
    def types(self) -> list[pa.DataType]:
        """The Arrow types of the key columns; null for one whose type no batch has told yet."""
        return [pa.null() if c.type is None else c.type for c in self._columns]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in [*(c.table for c in self._columns), *self._pairs])

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], rows: int | None = None) -> Array:
        """The id of each row; keys that are new get the next ids. `rows` is needed only where there are no columns.

        If the columns are refused, nothing has changed. To remove the keys that it added, call `truncate` with the
        length before.
        """
        if rows is None:
            if not columns:
                raise InvalidArgument("say rows=")
            rows = len(columns[0])
        return self.enter(self.read(columns, rows), rows)

    def read(self, columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> list[list[Part]]:
        """Check the key columns and convert them for `enter`. Nothing changes."""
        if len(columns) != len(self.names):
            raise InvalidArgument(f"there are {len(self.names)} key column(s), got {len(columns)}")
        lengths = {len(c) for c in columns} | {rows}
        if len(lengths) != 1:
            raise InvalidArgument(f"the key columns differ in length: {sorted(lengths)}")
        return [column.read(array) for column, array in zip(self._columns, columns, strict=True)]

    def enter(self, read: list[list[Part]], rows: int) -> Array:
        """The id of each row of `read` columns. If this is interrupted, the index must be discarded."""
        if not self.names:
            return _zeros(rows)
        ids = np.empty(0, np.int64)
        for k, (column, parts) in enumerate(zip(self._columns, read, strict=True)):
            more = column.encode(parts, rows)
            ids = self._pairs[k - 1].encode(Words(read_only((ids << 32) | more), NO_NULLS)) if k else more
        return ids

    def shown(self, id: int) -> str:
        """A key in words: `key user='ann'`; empty where there are no key columns."""
        values = self.decode(np.array([id]))
        named = [f"{name}={column[0].as_py()!r}" for name, column in zip(self.names, values, strict=True)]
        return f"key {', '.join(named)}" if named else ""

    def truncate(self, n: int, types: Sequence[pa.DataType] | None = None) -> None:
        """Drop all keys but the first n. `types`: the column types of that time, if only nulls had fixed them."""
        if not 0 <= n <= len(self):
            raise InvalidArgument(f"cannot truncate {len(self)} key(s) to {n}")
        self._truncate(n)
        for column, type_ in zip(self._columns, types or (), strict=False):
            column.tell(None if pa.types.is_null(type_) else type_)

    def _truncate(self, n: int) -> None:
        for k in reversed(range(len(self._pairs))):
            self._pairs[k].truncate(n)
            words = self._pairs[k].words[:n]
            self._columns[k + 1].truncate(_least_length(words & 0xFFFFFFFF))
            n = _least_length(words >> 32)
        if self.names:
            self._columns[0].truncate(n)

    def keep(self, ids: Array) -> KeyIndex:
        """An index of these keys only, numbered in this order, of the same types. This one stays as it is: results
        that were given out read their keys from it."""
        index = KeyIndex(self.names)
        for column, known in zip(index._columns, self._columns, strict=True):
            column.settle(known.type)
        index.encode(self.decode(ids), len(ids))
        return index

    def decode(self, ids: Array) -> list[pa.Array]:
        """The key columns of these ids, in the types they came in (dictionaries as their values)."""
        ids = np.asarray(ids, np.int64)
        if len(ids) and not _are_ids(ids, len(self)):
            raise InvalidArgument(f"there are {len(self)} key(s); ids {ids.min()} to {ids.max()} were asked for")
        decoded: list[pa.Array] = []
        for column, pairs in zip(self._columns[:0:-1], self._pairs[::-1], strict=True):
            words = pairs.words[ids]
            decoded.append(column.decode(words & 0xFFFFFFFF))
            ids = words >> 32
        if self.names:
            decoded.append(self._columns[0].decode(ids))
        return decoded[::-1]

    def record(self) -> dict[str, Any]:
        """All keys, as a record has them."""
        types = pa.schema([pa.field(c.name, t) for c, t in zip(self._columns, self.types, strict=True)])
        columns = [("bytes" if isinstance(c.table, BytesTable) else "words", c.table.record()) for c in self._columns]
        pairs = [{"words": table.record()["words"]} for table in self._pairs]
        return {"count": len(self), "types": types, "columns": columns, "pairs": pairs}

    @classmethod
    def restore(cls, names: Sequence[str], record: Mapping[str, Any]) -> KeyIndex:
        """The index that a record is of; ids stay what they were."""
        index, types = cls(names), record["types"]
        with as_corrupt_snapshot("the snapshot's keys"):
            if tuple(types.names) != index.names:
                raise CorruptSnapshot(f"the snapshot's key columns are {types.names}, not {list(index.names)}")
            for column, type_, (kind, values) in zip(index._columns, types.types, record["columns"], strict=True):
                if not pa.types.is_null(type_):
                    column.settle(type_)
                if (kind == "bytes") != isinstance(column.table, BytesTable):
                    raise CorruptSnapshot(f"the snapshot's keys of {type_} cannot be {kind}")
                column.table.restore(values)
            for k, (table, pairs) in enumerate(zip(index._pairs, record["pairs"], strict=True)):
                table.restore(pairs)
                left, right = (index._pairs[k - 1] if k else index._columns[0].table), index._columns[k + 1].table
                words = table.words[: len(table)]
                if len(words) and not _are_ids(words >> 32, len(left)) & _are_ids(words & 0xFFFFFFFF, len(right)):
                    raise CorruptSnapshot("a key of the snapshot refers to a value that is not in it")
            if len(index) != record["count"]:
                raise CorruptSnapshot(f"the snapshot has {len(index)} keys, it says {record['count']}")
        return index


@lru_cache(maxsize=2)
def _zeros(rows: int) -> Array:
    """The ids of so many rows of the one key; nobody writes to them."""
    return np.zeros(rows, np.int64)


def _are_ids(ids: Array, length: int) -> bool:
    return bool(ids.min() >= 0 and ids.max() < length)


def _least_length(ids: Array) -> int:
    return int(ids.max()) + 1 if len(ids) else 0
