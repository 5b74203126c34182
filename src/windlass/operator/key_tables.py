"""A table of keys: distinct 64-bit words, or strings of bytes, get the next id when they first appear.

    slots  (word, id + 1)     found by hashing the word, linear probing
    words  the word of each id, in order of first appearance
    ends   where the bytes of each id end      (strings only)
    arena  the bytes of all of them            (strings only)

No entry was placed by a younger one: a table grows by entering all words again in order of their ids. So the youngest
ids can be taken off again by emptying their slots, without a trace (`truncate`).

Cost: one probe a row, most of them in one cache line; none where a row repeats the key of the row before. At most half
of the slots are taken, so a key costs 40 to 80 bytes, and a string 8 to 16 more and its own bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import to_arrow
from windlass.errors import CorruptSnapshot
from windlass.kernels import compiled, prefetch, unsigned
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]

_COUNT, _NULL, _SEED = range(3)  # the header of a table: ids given out, the id of null (-1: none), a random number
_SLOTS = 64  # of a new table
_AHEAD = 16  # rows, for slots that are prefetched
_CACHED = 1 << 12  # slots that stay in the cache, so that none need be fetched ahead
NO_NULLS = np.empty(0, np.bool_)  # no validity mask: nothing is null
NO_NULLS.flags.writeable = False


@dataclass(frozen=True)
class Words:
    values: Array  # int64, read-only: so every batch runs the same compiled kernel
    valid: Array  # bool, or empty if nothing is null


@dataclass(frozen=True)
class Bytes:
    data: Array
    offsets: Array
    valid: Array


def read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


class Table(Stateful):
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
        find, at = kernel(_find_words), 0
        while (at := find(rows.values, rows.valid, at, self.slots, self.words, self.header, ids)) < len(ids):
            self._grow()
        return ids

    def truncate(self, n: int) -> None:
        if n < len(self):
            kernel(_forget)(n, self.slots, self.words, self.header)

    def decode(self, ids: Array, type_: pa.DataType) -> pa.Array:
        values = self.words[ids]
        if pa.types.is_floating(type_):
            values = values.view(np.float64)
        elif pa.types.is_uint64(type_):
            values = values.view(np.uint64)
        return to_arrow(values, self._not_null(ids), type_)

    def record(self) -> dict[str, Any]:
        """All words, as a record has them."""
        return {"null": self.null, "words": self.words[: len(self)].copy()}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Enter all words again; they get the same ids."""
        words = record["words"]
        self._reenter(Words(read_only(words), self._saved_validity(record.get("null", -1), len(words))))

    def _saved_validity(self, null: int, length: int) -> Array:
        if not -1 <= null < length:
            raise CorruptSnapshot("the null key of the snapshot is not one of its keys")
        return NO_NULLS if null < 0 else read_only(np.arange(length) != null)

    def _reenter(self, rows: Any) -> None:
        ids = self.encode(rows)
        if (ids != np.arange(len(ids))).any():
            raise CorruptSnapshot("two keys of the snapshot are the same")

    def _not_null(self, ids: Array) -> Array | None:
        valid = ids != self.null
        return None if valid.all() else valid

    def _grow(self) -> None:
        if len(self) == len(self.words):
            self.words = _longer(self.words, 2 * len(self.words))
            few = 8 * len(self.words) <= _CACHED  # then there is room to find almost every word at the first look
            self.slots = np.zeros(((8 if few else 2) * len(self.words), 2), np.int64)
            kernel(_enter_again)(self.slots, self.words, self.header)


class BytesTable(Table):
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
        find, at = kernel(_find_bytes), 0
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

    def record(self) -> dict[str, Any]:
        ends = self.ends[: len(self) + 1].copy()
        return {"null": self.null, "ends": ends, "bytes": self.arena[: ends[-1]].copy()}

    def restore(self, record: Mapping[str, Any]) -> None:
        ends, arena = record["ends"], record["bytes"]
        if len(ends) == 0 or ends[0] != 0 or ends[-1] != len(arena) or (np.diff(ends) < 0).any():
            raise CorruptSnapshot("the bytes of the snapshot's keys do not add up")
        self._reenter(Bytes(read_only(arena), read_only(ends), self._saved_validity(record["null"], len(ends) - 1)))

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
def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
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
