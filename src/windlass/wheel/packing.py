"""Compressed wheels: old slots in blocks of 1024, each field packed into as few bits as its block needs (µWheel 6,
future work).

    block    1024 values  ──►  least value, width   +   1024 × width bits: value - least      (frame of reference)

Integers and booleans are packed as they are. Floats first become integers where they are decimals in disguise: prices
such as 12.25 are 1225 · 10⁻², if that gives back every float of the block bit by bit; otherwise their bits are
packed, which saves little. A block that is needed is unpacked whole, at about a nanosecond a value, and then read as
any other slots are.

The youngest blocks stay as they are, so the writer never touches a packed one. Which slots have seen events is kept
as bits. No library of codecs is among the dependencies; Arrow's general ones would unpack whole columns, and this is
a page of code."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import HIGH
from windlass.errors import UnsupportedAggregate
from windlass.kernels import compiled
from windlass.wheel.plans import HEADING, PIECES, UNPACKED, parts

Array = np.ndarray[Any, Any]

BLOCK = 1024
LEAST, BITS, WORD, SCALE = range(4)  # of a block and field: frame of reference, width, first word, power of ten
_RAW = -1  # as a scale: the bits of floats
_MOST_DIGITS = 9


def pack_bits(values: Any, least: Any, width: Any, words: Any, word: Any) -> Any:
    for i in range(len(values)):
        delta = values[i] - least
        at = i * width
        shift = at & 63
        words[word + (at >> 6)] |= delta << shift
        if shift + width > 64:
            words[word + (at >> 6) + 1] |= (delta >> (63 - shift) >> 1) & ((1 << (shift + width - 64)) - 1)


def unpack_bits(words: Any, table: Any, bits: Any, dropped: Any, wanted: Any, nothing: Any, out: Any) -> Any:
    """Slots from … to - 1 of each wanted (from, to, cell) into cells of `out`; `nothing` where there was no event."""
    for j in range(len(wanted)):
        cell = wanted[j, 2]
        for i in range(wanted[j, 0] - dropped, wanted[j, 1] - dropped):
            least, width, scale = table[i >> 10, 0], table[i >> 10, 1], table[i >> 10, 3]
            at = (i & 1023) * width
            word, shift = table[i >> 10, 2] + (at >> 6), at & 63
            value = 0
            if width > 0:
                value = words[word] >> shift
                if shift > 0:
                    value = (value & ((1 << (64 - shift)) - 1)) | (words[word + 1] << (64 - shift))
                if width < 64:
                    value &= (1 << width) - 1
            if (bits[i >> 3] >> (i & 7)) & 1 == 0:
                out[cell] = nothing
            elif scale > 0:
                out[cell] = (value + least) / 10.0**scale
            else:
                out[cell] = value + least
            cell += 1


def find_packed(desk: Any, plans: Any, found: Any) -> Any:
    """Where in the plans are pieces of packed slots: (position in the program, level, from, to); gives how many there
    are."""
    offsets, program = parts(desk)[2:]
    n = 0
    for j in range(plans):
        for p in range(program[offsets[j] + PIECES]):
            at = offsets[j] + HEADING + 4 * p
            if program[at] & UNPACKED and n < len(found):
                found[n, 0], found[n, 1], found[n, 2], found[n, 3] = (
                    at,
                    program[at + 1],
                    program[at + 2],
                    program[at + 3],
                )
                n += 1
    return n


@cache
def kernels() -> tuple[Any, Any, Any, Any]:
    return compiled(pack_bits), compiled(unpack_bits), compiled(find_packed), compiled(copy_bits)


class Packed:
    """The packed slots of one level."""

    def __init__(self, m: Monoid, level: int) -> None:
        for field in m.fields:
            if field.shape or field.dtype == object:
                raise UnsupportedAggregate(
                    f"a compressed level packs numbers, and the partials have {field.name}, "
                    f"{'an array' if field.shape else 'a Python object'}; leave out compressed="
                )
        self.monoid, self.level = m, level
        self.first = self.count = 0  # blocks that were dropped, and all blocks
        self.tables = [np.zeros((0, 4), np.int64) for _ in m.fields]
        self.words = [np.zeros(0, np.int64) for _ in m.fields]
        self.used = [0] * len(m.fields)
        self.bits = np.zeros(0, np.uint8)

    def widened(self, m: Monoid) -> Packed:
        """The same blocks in the wide form: the second field is 0 in all of them."""
        assert m.wide is not None
        other = self.frozen()
        other.monoid = m.wide
        k = [field.name for field in m.wide.fields].index(HIGH.name)
        other.tables.insert(k, np.zeros_like(self.tables[0]))  # width 0: takes no words
        other.words.insert(k, np.zeros(1, np.int64))
        other.used.insert(k, 0)
        return other

    def frozen(self) -> Packed:
        """The same blocks, for readers: what is added later does not change them."""
        other = Packed.__new__(Packed)
        other.__dict__.update(self.__dict__, tables=list(self.tables), words=list(self.words), used=list(self.used))
        return other

    @property
    def nbytes(self) -> int:
        blocks = self.count - self.first
        return blocks * (BLOCK // 8 + 32 * len(self.tables)) + 8 * sum(self.used)

    def append(self, columns: tuple[Array, ...], bits: Array) -> None:
        """Pack a block: 1024 values of each field, and their bits."""
        at = self.count - self.first
        seen = np.unpackbits(bits, bitorder="little").astype(np.bool_)
        for k, column in enumerate(columns):
            # Slots without events hold the identity, which may be far away from the others; their bits tell them apart.
            some = column[seen]
            values, scale = _as_integers(np.where(seen, column, some[0] if len(some) else column[0]))
            least = int(values.min())
            width = (int(values.max()) - least).bit_length()
            size = -(-BLOCK * width // 64)
            self.tables[k] = _room(self.tables[k], at + 1)
            self.words[k] = _room(self.words[k], self.used[k] + size + 1)  # one more, which unpacking may look at
            kernels()[0](values, least, width, self.words[k], self.used[k])
            self.tables[k][at] = least, width, self.used[k], scale
            self.used[k] += size
        self.bits = _room(self.bits, (at + 1) * BLOCK // 8)
        self.bits[at * BLOCK // 8 : (at + 1) * BLOCK // 8] = bits
        self.count += 1

    def drop_before(self, index: int) -> None:
        """Forget blocks that end before a slot, once they are half of all."""
        dropped = index // BLOCK - self.first
        if dropped <= (self.count - self.first) // 2:
            return
        for k, table in enumerate(self.tables):
            word = int(table[dropped, WORD]) if dropped < self.count - self.first else self.used[k]
            self.tables[k] = table[dropped : self.count - self.first].copy()
            self.tables[k][:, WORD] -= word
            self.words[k] = self.words[k][word : self.used[k] + 1].copy()
            self.used[k] -= word
        self.bits = self.bits[dropped * BLOCK // 8 : (self.count - self.first) * BLOCK // 8].copy()
        self.first += dropped

    def unpack(self, wanted: Array, columns: tuple[Array, ...], bits: Array) -> None:
        """Slots from … to - 1 of each wanted (from, to, cell) into these cells."""
        dropped = self.first * BLOCK
        for k, (column, field) in enumerate(zip(columns, self.monoid.fields, strict=True)):
            nothing, out = self.monoid.identity()[k], column
            raw = bool(len(self.tables[k])) and bool((self.tables[k][: self.count - self.first, SCALE] == _RAW).any())
            if field.dtype == np.uint64 or raw:
                self._unpack_bits(k, wanted, np.array([nothing], field.dtype).view(np.int64)[0], column.view(np.int64))
            else:
                self._unpack_bits(k, wanted, nothing, out)
        kernels()[3](self.bits, dropped, wanted, bits)

    def _unpack_bits(self, k: int, wanted: Array, nothing: Any, out: Array) -> None:
        kernels()[1](self.words[k], self.tables[k], self.bits, self.first * BLOCK, wanted, nothing, out)


def copy_bits(packed: Any, dropped: Any, wanted: Any, bits: Any) -> Any:
    for j in range(len(wanted)):
        cell = wanted[j, 2]
        for i in range(wanted[j, 0] - dropped, wanted[j, 1] - dropped):
            if (packed[i >> 3] >> (i & 7)) & 1 != 0:
                bits[cell >> 3] |= 1 << (cell & 7)
            cell += 1


def unpack_pieces(m: Monoid, packed: tuple[Packed, ...], view: Any, desk: Array, plans: int) -> tuple[Any, Array]:
    """Unpack what the plans need, and write into them where it lies now."""
    program = parts(desk)[3]
    found = np.empty((64 * plans, 4), np.int64)
    n = int(kernels()[2](desk, plans, found))
    if n == 0:
        return view[0], view[2]
    found = found[:n]
    sizes = found[:, 3] - found[:, 2]
    to = np.cumsum(sizes) - sizes
    cells = int(sizes.sum())
    columns = tuple(np.empty(cells, field.dtype) for field in m.fields)
    bits = np.zeros(cells // 8 + 1, np.uint8)
    for p in packed:
        mine = found[:, 1] == p.level
        if mine.any():
            p.unpack(np.column_stack((found[mine, 2:], to[mine])), columns, bits)
    program[found[:, 0] + 2] = to
    program[found[:, 0] + 3] = to + sizes
    return columns, bits


def _as_integers(values: Array) -> tuple[Array, int]:
    """Integers to pack, and how to get the values back."""
    if values.dtype == np.bool_:
        return values.astype(np.int64), 0
    if values.dtype != np.float64:
        return np.ascontiguousarray(values).view(np.int64), 0
    bits = np.ascontiguousarray(values).view(np.int64)
    with np.errstate(all="ignore"):
        for scale in range(_MOST_DIGITS + 1):
            scaled = np.rint(values * 10.0**scale)
            if not np.all(np.abs(scaled) < 2**53):
                break
            integers = scaled.astype(np.int64)
            if np.array_equal((integers / 10.0**scale).view(np.int64), bits):
                return integers, scale
    return bits, _RAW


def _room(array: Array, size: int) -> Array:
    if size <= len(array):
        return array
    longer = np.zeros((max(size, len(array) + len(array) // 2, 16), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
