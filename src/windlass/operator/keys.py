"""Keys as dense integers: every distinct key row gets the next id when it first appears.

    user      id                 one table a column, one a pair of columns
    "ann"      0
    "bob"      1                 slots  (word, id + 1)     found by hashing the word, linear probing
    "ann"      0                 words  the word of each id, in order of first appearance
    null       2                 ends   where the bytes of each id end      (strings only)
                                 arena  the bytes of all of them            (strings only)

A word is 64 bits: the value itself (integers, times, floats as bits), the hash of the bytes (strings), or two ids
(the id of the columns so far and the id of one more column), so one table serves all of them.

Invariants
 1. ids are dense: 0 … len - 1, in order of first appearance.
 2. No entry was placed by a younger one: a table grows by entering all words again in order of their ids.
    So the youngest ids can be taken off again by emptying their slots, without a trace (`truncate`).
 3. The ids of the columns that make up the first n keys are the first ids of each column; the same holds for pairs.

Cost: one probe a row, most of them in one cache line; none where a row repeats the key of the row before. At most half
of the slots are taken, so a key costs 40 to 80 bytes, and a string 8 to 16 more and its own bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import to_arrow, value_type
from windlass.errors import CorruptSnapshot, InvalidArgument, WrongType
from windlass.kernels import compiled, prefetch, unsigned

Array = np.ndarray[Any, Any]

_COUNT, _NULL, _SEED = range(3)  # the header of a table: ids given out, the id of null (-1: none), a random number
_SLOTS = 64  # of a new table
_AHEAD = 16  # rows, for slots that are prefetched
_CACHED = 1 << 12  # slots that stay in the cache, so that none need be fetched ahead
_NONE = np.empty(0, np.bool_)  # no validity mask: nothing is null
_NONE.flags.writeable = False


class KeyIndex:
    """The ids of the keys of a stream. With no key columns there is one key, 0.

    Types are fixed by the first batch that tells them. Null is a key like any other, NaN is one key, -0.0 is 0.0.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self._columns = [_Column(name) for name in self.names]
        self._pairs = [_Table() for _ in self.names[1:]]

    def __len__(self) -> int:
        return len(self._last) if self.names else 1

    def __repr__(self) -> str:
        return f"KeyIndex({', '.join(map(repr, self.names))}: {len(self)} key(s))"

    @property
    def _last(self) -> _Table:
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

        If it raises, nothing has changed. To take back what it added, call `truncate` with the length before.
        """
        if len(columns) != len(self.names):
            raise InvalidArgument(f"there are {len(self.names)} key column(s), got {len(columns)}")
        lengths = {len(c) for c in columns} | (set() if rows is None else {rows})
        if len(lengths) != 1:
            raise InvalidArgument(f"the key columns differ in length: {sorted(lengths)}" if lengths else "say rows=")
        (rows,) = lengths
        if not self.names:
            return _zeros(rows)
        read = [column.read(array) for column, array in zip(self._columns, columns, strict=True)]
        ids = np.empty(0, np.int64)
        before = len(self)
        try:
            for k, (column, parts) in enumerate(zip(self._columns, read, strict=True)):
                more = column.encode(parts, rows)
                ids = self._pairs[k - 1].encode(_Words(_read_only((ids << 32) | more), _NONE)) if k else more
        except BaseException:
            self.truncate(before)
            raise
        return ids

    def truncate(self, n: int) -> None:
        """Forget all keys but the first n."""
        if not 0 <= n <= len(self):
            raise InvalidArgument(f"cannot truncate {len(self)} key(s) to {n}")
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

    def snapshot(self) -> dict[str, Any]:
        """All keys as plain arrays and bytes."""
        schema = pa.schema([pa.field(c.name, t) for c, t in zip(self._columns, self.types, strict=True)])
        state: dict[str, Any] = {"schema": schema.serialize().to_pybytes()}
        tables = {f"column {k}": c.table for k, c in enumerate(self._columns)}
        tables |= {f"pairs {k}": table for k, table in enumerate(self._pairs)}
        for name, table in tables.items():
            state |= {f"{name} {part}": array for part, array in table.snapshot().items()}
        return state

    @classmethod
    def restore(cls, names: Sequence[str], state: Mapping[str, Any]) -> KeyIndex:
        """The index that `snapshot` was taken of; ids stay what they were."""
        index = cls(names)
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(state["schema"]))
            if tuple(schema.names) != index.names:
                raise CorruptSnapshot(f"the snapshot's key columns are {schema.names}, not {list(index.names)}")
            for k, column in enumerate(index._columns):
                if not pa.types.is_null(schema.types[k]):
                    column.settle(schema.types[k])
                column.table.restore(_parts(state, f"column {k} "))
            for k, table in enumerate(index._pairs):
                table.restore(_parts(state, f"pairs {k} "))
                left, right = (index._pairs[k - 1] if k else index._columns[0].table), index._columns[k + 1].table
                words = table.words[: len(table)]
                if len(words) and not _are_ids(words >> 32, len(left)) & _are_ids(words & 0xFFFFFFFF, len(right)):
                    raise CorruptSnapshot("a key of the snapshot refers to a value that is not in it")
        except CorruptSnapshot:
            raise
        except (KeyError, ValueError, TypeError, IndexError, OverflowError, pa.ArrowException) as error:
            raise CorruptSnapshot(f"the snapshot's keys cannot be read: {type(error).__name__}: {error}") from error
        return index


@lru_cache(maxsize=2)
def _zeros(rows: int) -> Array:
    """The ids of so many rows of the one key; nobody writes to them."""
    return np.zeros(rows, np.int64)


def _parts(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}


def _are_ids(ids: Array, length: int) -> bool:
    return bool(ids.min() >= 0 and ids.max() < length)


def _least_length(ids: Array) -> int:
    return int(ids.max()) + 1 if len(ids) else 0


# --------------------------------------------------------------------------- columns: from Arrow to words and bytes


@dataclass(frozen=True)
class _Words:
    values: Array  # int64, read-only: so every batch runs the same compiled kernel
    valid: Array  # bool, or empty if nothing is null


@dataclass(frozen=True)
class _Bytes:
    data: Array
    offsets: Array
    valid: Array


@dataclass(frozen=True)
class _Part:
    """A chunk of a column, or of a dictionary column: the entries that it uses, by first use, and where."""

    values: _Words | _Bytes
    places: Array | None  # the entry of each row, counted among the used ones; None: a row is an entry
    type: pa.DataType | None


class _Column:
    """One key column: its type, once known, and the table of its values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.type: pa.DataType | None = None
        self.settled: pa.DataType | None = None  # the type, if keys told it that may be forgotten by now
        self.table = _Table()

    def settle(self, type_: pa.DataType | None) -> None:
        """Fix the type for good, whichever keys are left."""
        self.settled = type_
        self.bind(type_)

    def bind(self, type_: pa.DataType | None) -> None:
        """Fix the type, or forget it; nothing but null can be in the table."""
        table = _BytesTable() if type_ is not None and _is_bytes(type_) else _Table()
        if len(self.table):
            table.encode(_nulls(1, type_))
        self.type, self.table = type_, table

    def read(self, array: pa.Array | pa.ChunkedArray) -> list[_Part]:
        """Everything that can be wrong is found here, before any key is entered."""
        type_ = self._type_for(array.type)
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return [self._part(chunk, type_) for chunk in chunks if len(chunk)] or [_Part(_nulls(0, type_), None, type_)]

    def encode(self, parts: list[_Part], rows: int) -> Array:
        if self.type is None and parts[0].type is not None:
            self.bind(parts[0].type)
        if len(parts) == 1 and parts[0].places is None:
            return self.table.encode(parts[0].values)
        ids, at = np.empty(rows, np.int64), 0
        for part in parts:
            found = self.table.encode(part.values)
            found = found if part.places is None else found[part.places]
            ids[at : at + len(found)] = found
            at += len(found)
        return ids

    def truncate(self, n: int) -> None:
        self.table.truncate(n)
        if n == 0 or (n == 1 and self.table.null == 0):  # no value is left that tells the type
            self.bind(self.settled)

    def decode(self, ids: Array) -> pa.Array:
        if self.type is None:
            return pa.nulls(len(ids))
        return self.table.decode(ids, self.type)

    def _type_for(self, given: pa.DataType) -> pa.DataType | None:
        natural = _plain(given)
        if pa.types.is_null(natural):
            return self.type
        if not (_is_words(natural) or _is_bytes(natural)):
            raise WrongType(
                f"key column {self.name!r} is of {given}; a key is an integer, a string, bytes, a boolean, a number, "
                "a date or a time"
            )
        bound = self.type or natural
        have, want = value_type(natural).family, value_type(bound).family
        fixed = pa.types.is_fixed_size_binary(bound) and natural != bound
        if fixed or not (have == want or (have == "integer" and want == "floating")):
            raise WrongType(f"key column {self.name!r} is of {bound} since the first batch, now it is of {given}")
        return bound

    def _part(self, chunk: pa.Array, type_: pa.DataType | None) -> _Part:
        places: Array | None = None
        if pa.types.is_dictionary(chunk.type):
            used, places = _used(chunk.indices, len(chunk.dictionary))
            chunk = _without_views(chunk.dictionary).take(used)
        return _Part(self._values(chunk, type_), places, type_)

    def _values(self, array: pa.Array, type_: pa.DataType | None) -> _Words | _Bytes:
        if type_ is None or pa.types.is_null(array.type):
            return _nulls(len(array), type_)
        try:
            if _is_bytes(type_):
                return _bytes(array, type_)
            fitted = array if array.type == type_ else array.cast(type_)
            if pa.types.is_floating(array.type) and _narrowed(array, fitted):
                raise pa.ArrowInvalid("a number would be rounded")
            return _words(fitted)
        except (pa.ArrowException, NotImplementedError) as error:
            raise WrongType(
                f"key column {self.name!r} is of {type_} since the first batch, "
                f"and these values of {array.type} do not fit: {error}"
            ) from error


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type of the values themselves, of which there may be several encodings."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(type_, type_)


def _without_views(array: pa.Array) -> pa.Array:
    """Few of Arrow's functions take views."""
    if array.type == _plain(array.type):
        return array
    return array.cast(pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary())


def _is_words(type_: pa.DataType) -> bool:
    t = pa.types
    is_time = t.is_temporal(type_) and not t.is_interval(type_)
    return bool(t.is_integer(type_) or t.is_boolean(type_) or t.is_floating(type_) or is_time)


def _is_bytes(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_string(type_)
        or t.is_large_string(type_)
        or t.is_binary(type_)
        or t.is_large_binary(type_)
        or t.is_fixed_size_binary(type_)
        or t.is_decimal(type_)
    )


def _narrowed(wide: pa.Array, narrow: pa.Array) -> bool:
    """Whether a cast of floats, which Arrow never refuses, changed one of them."""
    if wide.type.bit_width <= narrow.type.bit_width:
        return False
    a, b = (x.to_numpy(zero_copy_only=False).astype(np.float64) for x in (wide, narrow))
    return not np.array_equal(a, b, equal_nan=True)


def _nulls(n: int, type_: pa.DataType | None) -> _Words | _Bytes:
    invalid = _read_only(np.zeros(n, np.bool_))
    if type_ is not None and _is_bytes(type_):
        return _Bytes(_read_only(np.empty(0, np.uint8)), _read_only(np.zeros(n + 1, np.int64)), invalid)
    return _Words(_read_only(np.zeros(n, np.int64)), invalid)


def _words(array: pa.Array) -> _Words:
    type_ = array.type
    if pa.types.is_floating(type_):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
        values[np.isnan(values)] = np.nan
        return _Words(_read_only(values.view(np.int64)), _valid(array))
    if pa.types.is_boolean(type_):
        array = array.cast(pa.uint8())
    elif pa.types.is_temporal(type_):
        array = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    if array.type.bit_width < 64:
        array = array.cast(pa.int64())
    return _Words(_buffer(array, 1, np.int64, len(array), array.offset), _valid(array))


def _bytes(array: pa.Array, type_: pa.DataType) -> _Bytes:
    if pa.types.is_decimal(type_):
        array = array.cast(type_) if array.type != type_ else array
        array = pa.Array.from_buffers(pa.binary(type_.byte_width), len(array), array.buffers(), offset=array.offset)
    array = _without_views(array)
    if pa.types.is_fixed_size_binary(array.type):
        width, first = array.type.byte_width, array.offset
        offsets = np.arange(first, first + len(array) + 1, dtype=np.int64) * width
        return _Bytes(_buffer(array, 1, np.uint8), _read_only(offsets), _valid(array))
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = _buffer(array, 1, np.int64 if wide else np.int32, len(array) + 1, array.offset)
    if len(offsets) == 0:  # an empty array may come without offsets
        offsets = np.zeros(1, np.int64)
    return _Bytes(_buffer(array, 2, np.uint8), _read_only(offsets.astype(np.int64, copy=False)), _valid(array))


def raw_words(array: pa.Array) -> tuple[Array | None, Array]:
    """The values of a key column as words, and which are not null (empty: all); None if they are bytes."""
    if _is_bytes(array.type):
        return None, _NONE
    words = _words(array) if not pa.types.is_null(array.type) else _nulls(len(array), None)
    assert isinstance(words, _Words)
    return words.values, words.valid


def raw_bytes(array: pa.Array) -> tuple[Array, Array, Array]:
    """The bytes of a key column, where each value's begin and end, and which are not null."""
    found = _bytes(array, array.type)
    return found.data, found.offsets, found.valid


def _buffer(array: pa.Array, k: int, dtype: Any, count: int = -1, first: int = 0) -> Array:
    buffer = array.buffers()[k]
    if buffer is None or buffer.size == 0 or count == 0:
        return _read_only(np.empty(0, dtype))
    values = np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)
    return values if values.flags.aligned else _read_only(values.copy())


def _valid(array: pa.Array) -> Array:
    return _NONE if array.null_count == 0 else _read_only(array.is_valid().to_numpy(zero_copy_only=False))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _used(indices: pa.Array, entries: int) -> tuple[pa.Array, Array]:
    """The entries of a dictionary that rows use, by first use (null last, for rows without one), and each row's."""
    given = _words(indices)
    places, used = np.empty(len(indices), np.int64), np.empty(min(entries, len(indices)) + 1, np.int64)
    count = _kernel(_first_uses)(given.values, given.valid, np.zeros(entries + 1, np.int64), used, places)
    if count < 0:
        raise InvalidArgument("a dictionary-encoded key column has an index outside of its dictionary")
    used = used[:count]
    return to_arrow(used, used < entries, pa.int64()), places


# --------------------------------------------------------------------------- tables: from words and bytes to ids


class _Table:
    """Ids of 64-bit words."""

    def __init__(self) -> None:
        self.header = np.array([0, -1, int.from_bytes(os.urandom(7), "little")], np.int64)
        self.slots = np.zeros((_SLOTS, 2), np.int64)
        self.words = np.empty(_SLOTS // 2, np.int64)

    def __len__(self) -> int:
        return int(self.header[_COUNT])

    @property
    def null(self) -> int:
        return int(self.header[_NULL])

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.words.nbytes

    def encode(self, rows: Any) -> Array:
        ids = np.empty(len(rows.values), np.int64)
        find, at = _kernel(_find_words), 0
        while (at := find(rows.values, rows.valid, at, self.slots, self.words, self.header, ids)) < len(ids):
            self._grow()
        return ids

    def truncate(self, n: int) -> None:
        if n < len(self):
            _kernel(_forget)(n, self.slots, self.words, self.header)

    def decode(self, ids: Array, type_: pa.DataType) -> pa.Array:
        values = self.words[ids]
        if pa.types.is_floating(type_):
            values = values.view(np.float64)
        elif pa.types.is_uint64(type_):
            values = values.view(np.uint64)
        return to_arrow(values, self._not_null(ids), type_)

    def snapshot(self) -> dict[str, Any]:
        return {"null": self.header[_NULL : _NULL + 1].copy(), "words": self.words[: len(self)].copy()}

    def restore(self, parts: Mapping[str, Any]) -> None:
        words = np.array(parts["words"], np.int64)
        self._reenter(_Words(_read_only(words), self._saved_validity(parts, len(words))))

    def _saved_validity(self, parts: Mapping[str, Any], length: int) -> Array:
        (null,) = np.asarray(parts["null"], np.int64)
        if not -1 <= null < length:
            raise CorruptSnapshot("the null key of the snapshot is not one of its keys")
        return _NONE if null < 0 else _read_only(np.arange(length) != null)

    def _reenter(self, rows: Any) -> None:
        ids = self.encode(rows)
        if not np.array_equal(ids, np.arange(len(ids))):
            raise CorruptSnapshot("two keys of the snapshot are the same")

    def _not_null(self, ids: Array) -> Array | None:
        valid = ids != self.null
        return None if valid.all() else valid

    def _grow(self) -> None:
        if len(self) == len(self.words):
            self.words = _longer(self.words, 2 * len(self.words))
            few = 8 * len(self.words) <= _CACHED  # then there is room to find almost every word at the first look
            self.slots = np.zeros(((8 if few else 2) * len(self.words), 2), np.int64)
            _kernel(_enter_again)(self.slots, self.words, self.header)


class _BytesTable(_Table):
    """Ids of byte strings. Their words are hashes, seeded anew in every table."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = np.zeros(len(self.words) + 1, np.int64)
        self.arena = np.empty(16 * len(self.words), np.uint8)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.ends.nbytes + self.arena.nbytes

    def encode(self, rows: Any) -> Array:
        offsets = rows.offsets
        ids = np.empty(len(offsets) - 1, np.int64)
        find, at = _kernel(_find_bytes), 0
        given = (rows.data, offsets, rows.valid)
        while (at := find(given, at, self.slots, self.words, (self.ends, self.arena), self.header, ids)) < len(ids):
            self._grow()
            needed = int(self.ends[len(self)] + offsets[at + 1] - offsets[at])
            if needed > len(self.arena):
                self.arena = _longer(self.arena, max(needed, 2 * len(self.arena)))
        return ids

    def decode(self, ids: Array, type_: pa.DataType) -> pa.Array:
        n = len(self)
        stored = pa.Array.from_buffers(pa.large_binary(), n, [None, pa.py_buffer(self.ends), pa.py_buffer(self.arena)])
        valid = self._not_null(ids)
        taken = stored.take(to_arrow(ids, valid, pa.int64()))
        if pa.types.is_decimal(type_):
            fixed = taken.cast(pa.binary(type_.byte_width))
            return pa.Array.from_buffers(type_, len(fixed), fixed.buffers(), offset=fixed.offset)
        if pa.types.is_string(type_) or pa.types.is_large_string(type_):
            taken = taken.view(pa.large_string())  # a cast from bytes would check the text again
        return taken.cast(type_)

    def snapshot(self) -> dict[str, Any]:
        ends = self.ends[: len(self) + 1].copy()
        return {"null": super().snapshot()["null"], "ends": ends, "arena": self.arena[: ends[-1]].copy()}

    def restore(self, parts: Mapping[str, Any]) -> None:
        ends, arena = np.array(parts["ends"], np.int64), np.array(parts["arena"], np.uint8)
        if len(ends) == 0 or ends[0] != 0 or ends[-1] != len(arena) or (np.diff(ends) < 0).any():
            raise CorruptSnapshot("the bytes of the snapshot's keys do not add up")
        self._reenter(_Bytes(_read_only(arena), _read_only(ends), self._saved_validity(parts, len(ends) - 1)))

    def _grow(self) -> None:
        super()._grow()
        if len(self.ends) <= len(self.words):
            self.ends = _longer(self.ends, len(self.words) + 1)


def _longer(array: Array, length: int) -> Array:
    """A copy with room for more. Results that are read later may still look at the old one."""
    longer = np.empty(length, array.dtype)
    longer[: len(array)] = array
    return longer


# --------------------------------------------------------------------------- kernels


@cache
def _kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(function)


def _home(word: Any, seed: Any) -> Any:
    """Where to look first, before it is cut to the number of slots."""
    h = unsigned(word ^ seed)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


def _find_words(rows: Any, valid: Any, begin: Any, slots: Any, words: Any, header: Any, ids: Any) -> Any:
    """The ids of rows from `begin`; new words are entered. Returns the row for which there was no room, or the end."""
    count, null, seed = header[0], header[1], header[2]
    mask, one = unsigned(len(slots) - 1), np.uint64(1)
    nullable = len(valid) > 0
    far = len(slots) > _CACHED
    last_word, last_id = np.int64(0), np.int64(-1)
    i = begin
    while i < len(rows):
        if nullable and not valid[i]:
            if null < 0:
                if count == len(words):
                    break
                null = count
                words[unsigned(count)] = 0
                count += 1
            ids[unsigned(i)] = null
            i += 1
            continue
        word = rows[unsigned(i)]
        if far and i + _AHEAD < len(rows):
            prefetch(slots, _home(rows[unsigned(i + _AHEAD)], seed) & mask)
        if word != last_word or last_id < 0:
            at = _home(word, seed) & mask
            while slots[at, 1] != 0 and slots[at, 0] != word:
                at = (at + one) & mask
            if slots[at, 1] == 0:
                if count == len(words):
                    break
                words[unsigned(count)] = word
                count += 1
                slots[at, 0] = word
                slots[at, 1] = count
            last_word, last_id = word, slots[at, 1] - 1
        ids[unsigned(i)] = last_id
        i += 1
    header[0], header[1] = count, null
    return i


def _find_bytes(given: Any, begin: Any, slots: Any, words: Any, stored: Any, header: Any, ids: Any) -> Any:
    """The same for byte strings, whose words are their hashes."""
    data, offsets, valid = given
    ends, arena = stored
    count, null, seed = header[0], header[1], header[2]
    mask, one = unsigned(len(slots) - 1), np.uint64(1)
    nullable = len(valid) > 0
    last, last_id = np.int64(0), np.int64(-1)
    i = begin
    while i < len(ids):
        if nullable and not valid[i]:
            if null < 0:
                if count == len(words):
                    break
                null = count
                words[unsigned(count)] = 0
                ends[unsigned(count + 1)] = ends[unsigned(count)]
                count += 1
            ids[unsigned(i)] = null
            i += 1
            continue
        first = offsets[unsigned(i)]
        length = offsets[unsigned(i + 1)] - first
        repeated = last_id >= 0 and offsets[unsigned(last + 1)] - offsets[unsigned(last)] == length
        if not (repeated and _same(data, first, data, offsets[unsigned(last)], length)):
            word = hash_bytes(data, first, length, seed)
            at = _home(word, seed) & mask
            while slots[at, 1] != 0:
                if slots[at, 0] == word:
                    start = ends[unsigned(slots[at, 1] - 1)]
                    stop = ends[unsigned(slots[at, 1])]
                    if stop - start == length and _same(data, first, arena, start, length):
                        break
                at = (at + one) & mask
            if slots[at, 1] == 0:
                start = ends[unsigned(count)]
                if count == len(words) or start + length > len(arena):
                    break
                for k in range(length):
                    arena[unsigned(start + k)] = data[unsigned(first + k)]
                ends[unsigned(count + 1)] = start + length
                words[unsigned(count)] = word
                count += 1
                slots[at, 0] = word
                slots[at, 1] = count
            last, last_id = i, slots[at, 1] - 1
        ids[unsigned(i)] = last_id
        i += 1
    header[0], header[1] = count, null
    return i


def _eight(data: Any, i: Any) -> Any:
    """Eight bytes as one word; the compiler makes one load of it."""
    w = np.uint64(data[unsigned(i)])
    for k in range(1, 8):
        w |= np.uint64(data[unsigned(i + k)]) << np.uint64(8 * k)
    return w


def hash_bytes(data: Any, first: Any, length: Any, seed: Any) -> Any:
    h = unsigned(seed) ^ (unsigned(length) * np.uint64(0x9E3779B97F4A7C15))
    i = first
    while i + 8 <= first + length:
        h = (h ^ _eight(data, i)) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
        i += 8
    tail, shift = np.uint64(0), np.uint64(0)
    while i < first + length:
        tail |= np.uint64(data[unsigned(i)]) << shift
        shift += np.uint64(8)
        i += 1
    h = (h ^ tail) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(h ^ (h >> np.uint64(32)))


def _same(a: Any, i: Any, b: Any, j: Any, length: Any) -> Any:
    k = 0
    while k + 8 <= length:
        if _eight(a, i + k) != _eight(b, j + k):
            return False
        k += 8
    while k < length:
        if a[unsigned(i + k)] != b[unsigned(j + k)]:
            return False
        k += 1
    return True


def _enter_again(slots: Any, words: Any, header: Any) -> Any:
    """Fill empty slots with all words, oldest first."""
    mask, one = unsigned(len(slots) - 1), np.uint64(1)
    for i in range(header[0]):
        if i != header[1]:
            word = words[unsigned(i)]
            at = _home(word, header[2]) & mask
            while slots[at, 1] != 0:
                at = (at + one) & mask
            slots[at, 0] = word
            slots[at, 1] = i + 1


def _forget(n: Any, slots: Any, words: Any, header: Any) -> Any:
    """Empty the slots of the youngest ids, youngest first, until n are left."""
    mask, one = unsigned(len(slots) - 1), np.uint64(1)
    for i in range(header[0] - 1, n - 1, -1):
        if i == header[1]:
            header[1] = -1
        else:
            at = _home(words[unsigned(i)], header[2]) & mask
            while slots[at, 1] != i + 1:
                at = (at + one) & mask
            slots[at, 1] = 0
    header[0] = n


def _first_uses(indices: Any, valid: Any, seen: Any, used: Any, places: Any) -> Any:
    """Number the distinct indices by first use; a null is the last index. `seen` is zero, one for each index."""
    count, null = 0, len(seen) - 1
    nullable = len(valid) > 0
    for i in range(len(indices)):
        index = null if nullable and not valid[i] else indices[i]
        if not 0 <= index <= null:
            return -1
        if seen[index] == 0:
            used[count] = index
            count += 1
            seen[index] = count
        places[i] = seen[index] - 1
    return count
