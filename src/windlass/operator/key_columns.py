"""A key column: from Arrow's types to the words and bytes that tables know, and back.

A type is told by the first values that are not null; what it can hold may come as another type later. Of a dictionary
column only the entries that are used are looked up, once each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import to_arrow, value_type
from windlass.errors import InvalidArgument, WrongType
from windlass.operator.key_tables import NO_NULLS, Bytes, BytesTable, Table, Words, kernel, read_only
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Part:
    """A chunk of a column, or of a dictionary column: the entries that it uses, by first use, and where."""

    values: Words | Bytes
    places: Array | None  # the entry of each row, counted among the used ones; None: a row is an entry
    type: pa.DataType | None


class KeyColumn(Stateful):
    """One key column: its type, once known, and the table of its values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.type: pa.DataType | None = None
        self.settled: pa.DataType | None = None  # the type, if keys told it that may be forgotten by now
        self.table = Table()

    def settle(self, type_: pa.DataType | None) -> None:
        """Fix the type for good, whichever keys are left."""
        self.settled = type_
        self.bind(type_)

    def bind(self, type_: pa.DataType | None) -> None:
        """Fix the type, or forget it; nothing but null can be in the table."""
        table = BytesTable() if type_ is not None and _is_bytes(type_) else Table()
        if len(self.table):
            table.encode(_nulls(1, type_))
        self.type, self.table = type_, table

    def tell(self, type_: pa.DataType | None) -> None:
        """Adopt this type unless a value has already fixed one."""
        if self.type != type_:
            self.bind(type_)

    def read(self, array: pa.Array | pa.ChunkedArray) -> list[Part]:
        """Everything that can be wrong is found here, before any key is entered."""
        type_ = self._type_for(array.type)
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return [self._part(chunk, type_) for chunk in chunks if len(chunk)] or [Part(_nulls(0, type_), None, type_)]

    def encode(self, parts: list[Part], rows: int) -> Array:
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

    def _part(self, chunk: pa.Array, type_: pa.DataType | None) -> Part:
        places: Array | None = None
        if pa.types.is_dictionary(chunk.type):
            used, places = _used(chunk.indices, len(chunk.dictionary))
            chunk = _without_views(chunk.dictionary).take(used)
        return Part(self._values(chunk, type_), places, type_)

    def _values(self, array: pa.Array, type_: pa.DataType | None) -> Words | Bytes:
        if type_ is None or pa.types.is_null(array.type):
            return _nulls(len(array), type_)
        try:
            if _is_bytes(type_):
                return _bytes(array, type_)
            fitted = array if array.type == type_ else array.cast(type_)
            if pa.types.is_floating(array.type) and _narrowed(array, fitted):
                raise pa.ArrowInvalid("a number would be rounded")
            return _words(fitted)
        except MemoryError:  # Arrow's is an ArrowException, too
            raise
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


def _nulls(n: int, type_: pa.DataType | None) -> Words | Bytes:
    invalid = read_only(np.zeros(n, np.bool_))
    if type_ is not None and _is_bytes(type_):
        return Bytes(read_only(np.empty(0, np.uint8)), read_only(np.zeros(n + 1, np.int64)), invalid)
    return Words(read_only(np.zeros(n, np.int64)), invalid)


def _words(array: pa.Array) -> Words:
    type_ = array.type
    if pa.types.is_floating(type_):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
        values[np.isnan(values)] = np.nan
        return Words(read_only(values.view(np.int64)), _valid(array))
    if pa.types.is_boolean(type_):
        array = array.cast(pa.uint8())
    elif pa.types.is_temporal(type_):
        array = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    if array.type.bit_width < 64:
        array = array.cast(pa.int64())
    return Words(_buffer(array, 1, np.int64, len(array), array.offset), _valid(array))


def _bytes(array: pa.Array, type_: pa.DataType) -> Bytes:
    if pa.types.is_decimal(type_):
        array = array.cast(type_) if array.type != type_ else array
        array = pa.Array.from_buffers(pa.binary(type_.byte_width), len(array), array.buffers(), offset=array.offset)
    array = _without_views(array)
    if pa.types.is_fixed_size_binary(array.type):
        width, first = array.type.byte_width, array.offset
        offsets = np.arange(first, first + len(array) + 1, dtype=np.int64) * width
        return Bytes(_buffer(array, 1, np.uint8), read_only(offsets), _valid(array))
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = _buffer(array, 1, np.int64 if wide else np.int32, len(array) + 1, array.offset)
    if len(offsets) == 0:  # an empty array may come without offsets
        offsets = np.zeros(1, np.int64)
    return Bytes(_buffer(array, 2, np.uint8), read_only(offsets.astype(np.int64, copy=False)), _valid(array))


def raw_words(array: pa.Array) -> tuple[Array | None, Array]:
    """The values of a key column as words, and which are not null (empty: all); None if they are bytes."""
    if _is_bytes(array.type):
        return None, NO_NULLS
    words = _words(array) if not pa.types.is_null(array.type) else _nulls(len(array), None)
    assert isinstance(words, Words)
    return words.values, words.valid


def raw_bytes(array: pa.Array) -> tuple[Array, Array, Array]:
    """The bytes of a key column, where each value's begin and end, and which are not null."""
    found = _bytes(array, array.type)
    return found.data, found.offsets, found.valid


def _buffer(array: pa.Array, k: int, dtype: Any, count: int = -1, first: int = 0) -> Array:
    buffer = array.buffers()[k]
    if buffer is None or buffer.size == 0 or count == 0:
        return read_only(np.empty(0, dtype))
    values = np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)
    return values if values.flags.aligned else read_only(values.copy())


def _valid(array: pa.Array) -> Array:
    return NO_NULLS if array.null_count == 0 else read_only(array.is_valid().to_numpy(zero_copy_only=False))


def _used(indices: pa.Array, entries: int) -> tuple[pa.Array, Array]:
    """The entries of a dictionary that rows use, by first use (null last, for rows without one), and each row's."""
    given = _words(indices)
    places, used = np.empty(len(indices), np.int64), np.empty(min(entries, len(indices)) + 1, np.int64)
    count = kernel(_first_uses)(given.values, given.valid, np.zeros(entries + 1, np.int64), used, places)
    if count < 0:
        raise InvalidArgument("a dictionary-encoded key column has an index outside of its dictionary")
    used = used[:count]
    return to_arrow(used, used < entries, pa.int64()), places


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
