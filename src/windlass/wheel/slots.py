"""Where the slots of all levels lie: one array a field, a region of it for each level, timestamps implicit.

    rows     │ years │ weeks │ days │ hours │ minutes │ seconds  …  ┆ write-ahead │ free
                                                                    └ the watermark
    bits     1 where a slot has seen an event; the others hold the identity
    gaps     quiet times that are not stored:  from tick, to tick, slots left out so far at each level
    totals   of each level: what its current rotation has summed up, the paper's t
    header   the rest of the state, as integers

A slot has a number, its begin divided by its length. Slots are stored in the order of their numbers. Where nothing
happened for long the slots are left out, at all levels; as they would hold the identity, a range of slots is a range
of rows all the same. `place` turns a number into an index, which counts stored slots; the row is that, less what was
discarded, plus the region's offset.

Invariants
1. Rows below a level's `COUNT` never change. (Readers need no lock; the writer adds behind and then moves `COUNT`.)
2. A row whose bit is 0 holds the identity, if it is below `COUNT`; of those behind it only the bits are valid.
3. `NEXT` of a level is the number of its next slot: the watermark over its length, rounded down, once rolled up.
4. Slots from number `FROM` on are retained.

A wheel of many keys has a vector in each row: cell `row · WIDTH + key`.

Memory that was reserved and never written to is not taken from the machine, so arrays grow by doubling, and `nbytes`
counts what is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns, Monoid
from windlass.wheel.hierarchy import Level

Array = np.ndarray[Any, Any]

# The header: integers of the whole wheel, then a stretch for each level.
START, WATERMARK, GAPS, FIRST, LEVELS, WIDTH, AHEAD, SERIAL = range(8)
HEAD, STRIDE = 8, 12
SIZE, ROTATION, OFFSET, CAPACITY, SHIFT, BASE, NEXT, FROM, COUNT, DONE, PREFIXED, PACKED = range(STRIDE)

NEVER = 2**62  # as the tick of the first event: there was none
_ALIGNED = 64  # rows: bits of two regions never share a byte


def place(header: Any, gaps: Any, l: Any, n: Any) -> Any:
    """The index of slot n of level l: how many slots before it are stored."""
    at = HEAD + l * STRIDE
    i = n - header[at + BASE]
    if header[GAPS] > 0:
        size = header[at + SIZE]
        low, high, before = 0, header[GAPS], (n - 1) * size
        while low < high:  # gaps that leave out a slot before n, or might
            middle = (low + high) // 2
            if gaps[middle, 0] <= before:
                low = middle + 1
            else:
                high = middle
        if low > 0:
            i -= gaps[low - 1, 2 + l]
            i += max(gaps[low - 1, 1] // size - n, 0)  # the gap goes on after n
    return max(i, 0)


def number(header: Any, gaps: Any, l: Any, i: Any) -> Any:
    """The number of the slot at an index: `place` backwards."""
    at = HEAD + l * STRIDE
    low, high = 0, header[GAPS]
    while low < high:
        middle = (low + high) // 2
        begin = -(-gaps[middle, 0] // header[at + SIZE])
        left_out = gaps[middle - 1, 2 + l] if middle > 0 else 0
        if begin - header[at + BASE] - left_out <= i:
            low = middle + 1
        else:
            high = middle
    return i + header[at + BASE] + (gaps[low - 1, 2 + l] if low > 0 else 0)


def row_of(header: Any, l: Any, i: Any) -> Any:
    at = HEAD + l * STRIDE
    return header[at + OFFSET] + i - header[at + SHIFT]


def is_set(bits: Any, cell: Any) -> Any:
    return (bits[cell >> 3] >> (cell & 7)) & 1 != 0


def set_bit(bits: Any, cell: Any) -> Any:
    bits[cell >> 3] |= 1 << (cell & 7)


def any_set(bits: Any, first: Any, last: Any) -> Any:
    """Whether one of the cells first … last - 1 has seen an event. Few branches: short ranges are asked about often,
    and no processor guesses them."""
    if first >= last:
        return False
    byte, end = first >> 3, (last - 1) >> 3
    up_to = bits[end] & ((2 << ((last - 1) & 7)) - 1)
    if byte == end:
        return up_to >> (first & 7) != 0
    found = up_to | (bits[byte] >> (first & 7))
    for k in range(byte + 1, end):
        if found != 0:
            break
        found |= bits[k]
    return found != 0


class Memory:
    """Where arrays come from."""

    def begin(self) -> None:
        """A layout begins, whose arrays belong together."""

    def __call__(self, slots: int, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> Array:
        return np.empty((slots, *shape), dtype)


class Slots:
    """The arrays of one wheel, laid out anew to grow and to leave behind what is no longer retained."""

    def __init__(
        self,
        monoid: Monoid,
        levels: Sequence[Level],
        start: int,
        ahead: int,
        width: int = 1,
        allocate: Memory | None = None,
    ) -> None:
        self.monoid, self.levels, self.allocate = monoid, tuple(levels), allocate or Memory()
        self.has_prefix = any(level.prefix for level in levels)
        count = len(levels)
        self.header = np.zeros(HEAD + count * STRIDE, np.int64)
        self.header[:HEAD] = start, start, 0, NEVER, count, width, ahead, 0
        for l, level in enumerate(levels):
            base = start // level.ticks
            at = HEAD + l * STRIDE
            prefixed = 0 if level.prefix else -1
            self.header[at : at + STRIDE] = level.ticks, level.rotation, 0, 0, 0, base, base, base, 0, base, prefixed, 0
        self.gaps = np.zeros((0, 2 + count), np.int64)
        self.columns: Columns = ()
        self.prefix: Columns = ()
        self.bits = np.zeros(0, np.uint8)
        self.totals = identities(monoid, count * width)
        self.some = np.zeros(count * width, np.bool_)  # whether a level's total has seen an event
        self._lay_out([0] * count, width)

    def get(self, l: int, what: int) -> int:
        return int(self.header[HEAD + l * STRIDE + what])

    def put(self, l: int, what: int, value: int) -> None:
        self.header[HEAD + l * STRIDE + what] = value

    def state(self) -> tuple[Any, ...]:
        """What kernels that write are given."""
        return self.columns, self.prefix, self.bits, self.header, self.gaps, self.totals, self.some

    def view(self) -> tuple[Any, ...]:
        """What kernels that read are given: consistent for good, as it shares only rows that do not change."""
        totals = tuple(column.copy() for column in self.totals)
        return self.columns, self.prefix, self.bits, self.header.copy(), self.gaps, totals, self.some.copy()

    def room(self, ticks: int, unrolled: int = 0) -> None:
        """Make room for so many more ticks and the write-ahead slots behind them, and for rolling up `unrolled` ticks
        as well."""
        levels = self.header[HEAD:].reshape(-1, STRIDE)
        more = (ticks + unrolled) // levels[:, SIZE] + 2
        more[0] = ticks
        free = levels[:, CAPACITY] - levels[:, COUNT] + levels[:, SHIFT]
        free[0] -= self.header[AHEAD]
        if (more > free).any():
            self._lay_out([self._live(l) + extra for l, extra in enumerate(more.tolist())], int(self.header[WIDTH]))

    def widen(self, width: int) -> None:
        """Make room for so many keys."""
        if width > self.header[WIDTH]:
            self._lay_out([self._live(l) for l in range(len(self.levels))], width)

    def move(self, allocate: Memory) -> None:
        """Lay everything out anew, in other memory."""
        self.allocate = allocate
        self._lay_out([self._live(l) for l in range(len(self.levels))], int(self.header[WIDTH]))

    def add_gap(self, begin: int, end: int, left_out: Sequence[int]) -> None:
        count = int(self.header[GAPS])
        if count == len(self.gaps):
            more = np.zeros((max(16, 2 * count), self.gaps.shape[1]), np.int64)
            more[:count] = self.gaps[:count]
            self.gaps = more
        before = self.gaps[count - 1, 2:] if count else np.zeros(len(self.levels), np.int64)
        self.gaps[count] = [begin, end, *(before + left_out)]
        self.header[GAPS] = count + 1

    @property
    def nbytes(self) -> int:
        """Bytes in use: retained slots, write-ahead slots, bits, totals, gaps and header."""
        cells = sum(self._retained(l) for l in range(len(self.levels))) + int(self.header[AHEAD])
        cells *= int(self.header[WIDTH])
        partial = sum(f.nbytes for f in self.monoid.fields)
        prefixed = sum(self._retained(l) for l, level in enumerate(self.levels) if level.prefix) * self.header[WIDTH]
        rest = self.header.nbytes + int(self.header[GAPS]) * self.gaps.itemsize * self.gaps.shape[1]
        return int((cells + prefixed) * partial + -(-cells // 8) + len(self.some) * (partial + 1) + rest)

    # ------------------------------------------------------------------ laying out

    def _retained(self, l: int) -> int:
        oldest = max(int(place(self.header, self.gaps, l, self.get(l, FROM))), self.get(l, PACKED))
        return self.get(l, COUNT) - oldest

    def _kept_from(self, l: int) -> int:
        """The index of the oldest row to keep: one before the retained ones for prefixes, and on whole bytes of
        bits."""
        oldest = place(self.header, self.gaps, l, self.get(l, FROM)) - (1 if self.levels[l].prefix else 0)
        shift = self.get(l, SHIFT)
        oldest = max(int(oldest), self.get(l, PACKED), shift)
        return shift + (oldest - shift) // 8 * 8

    def _used(self, l: int) -> int:
        """Rows of a region in use, with those that are no longer retained."""
        return self.get(l, COUNT) - self.get(l, SHIFT) + (int(self.header[AHEAD]) if l == 0 else 0)

    def _live(self, l: int) -> int:
        return self._used(l) - (self._kept_from(l) - self.get(l, SHIFT))

    def _lay_out(self, needed: Sequence[int], width: int) -> None:
        old_columns, old_prefix, old_bits, old_width = self.columns, self.prefix, self.bits, int(self.header[WIDTH])
        live = [self._live(l) for l in range(len(self.levels))]
        capacities = [
            -(-max(need, min(2 * has, has + (1 << 22)), 64) // _ALIGNED) * _ALIGNED
            for need, has in zip(needed, live, strict=True)
        ]
        rows = sum(capacities)
        fields = self.monoid.fields
        self.allocate.begin()
        self.columns = tuple(self.allocate(rows * width, field.dtype, field.shape) for field in fields)
        self.prefix = self.columns
        if self.has_prefix:
            self.prefix = tuple(self.allocate(rows * width, field.dtype, field.shape) for field in fields)
        self.bits = self.allocate(rows * width // 8, np.dtype(np.uint8), ())
        self.bits[:] = 0
        offset = rows
        for l, capacity in enumerate(capacities):  # the highest level comes first, so the lowest can grow at the end
            offset -= capacity
            shift, kept = self.get(l, SHIFT), self._kept_from(l)
            begin = self.get(l, OFFSET) + kept - shift
            if old_columns and self.get(l, CAPACITY):
                end = min(begin + live[l], self.get(l, OFFSET) + self.get(l, CAPACITY))
                for new, old in zip(self.columns, old_columns, strict=True):
                    _copy(new, offset, width, old, begin, end, old_width)
                if self.has_prefix and self.levels[l].prefix:
                    for new, old in zip(self.prefix, old_prefix, strict=True):
                        _copy(new, offset, width, old, begin, end, old_width)
                _copy_bits(self.bits, offset, width, old_bits, begin, end, old_width)
            self.put(l, OFFSET, offset)
            self.put(l, CAPACITY, capacity)
            self.put(l, SHIFT, kept)
        if width != old_width:
            self._widen_totals(old_width, width)
            # A key that is new has the identity in every slot.
            for l in range(len(self.levels)):
                begin, count = self.get(l, OFFSET), self.get(l, COUNT) - self.get(l, SHIFT)
                for columns in (self.columns, self.prefix)[: 2 if self.levels[l].prefix else 1]:
                    fresh = tuple(_by_row(c, width)[begin : begin + count, old_width:] for c in columns)
                    clear(self.monoid, fresh)
        self.header[WIDTH] = width

    def _widen_totals(self, old_width: int, width: int) -> None:
        count = len(self.levels)
        totals, some = self.totals, self.some
        self.totals, self.some = identities(self.monoid, count * width), np.zeros(count * width, np.bool_)
        for new, old in zip(self.totals, totals, strict=True):
            _by_row(new, width)[:, :old_width] = _by_row(old, old_width)
        _by_row(self.some, width)[:, :old_width] = _by_row(some, old_width)


def identities(m: Monoid, cells: int) -> Columns:
    """Cells full of the identity."""
    found = tuple(np.empty((cells, *field.shape), field.dtype) for field in m.fields)
    clear(m, found)
    return found


def clear(m: Monoid, columns: Columns) -> None:
    """Overwrite with the identity. A Python object is put into each place by itself: it may be a list, which NumPy
    would spread."""
    for column, value in zip(columns, m.identity(), strict=True):
        if column.dtype == object:
            for at in np.ndindex(column.shape):
                column[at] = value
        else:
            column[...] = value


def _by_row(column: Array, width: int) -> Array:
    return column.reshape((len(column) // width, width, *column.shape[1:]))


def _copy(new: Array, at: int, width: int, old: Array, begin: int, end: int, old_width: int) -> None:
    _by_row(new, width)[at : at + end - begin, :old_width] = _by_row(old, old_width)[begin:end]


def _copy_bits(new: Array, at: int, width: int, old: Array, begin: int, end: int, old_width: int) -> None:
    if width == old_width:  # rows of one bit each, or of whole vectors: both begin on a byte
        size = -(-(end - begin) * width // 8)
        new[at * width // 8 : at * width // 8 + size] = old[begin * width // 8 : begin * width // 8 + size]
        return
    flags = np.unpackbits(old, bitorder="little", count=end * old_width)[begin * old_width :]
    wide = np.zeros((end - begin, width), np.uint8)
    wide[:, :old_width] = flags.reshape(-1, old_width)
    packed = np.packbits(wide.reshape(-1), bitorder="little")
    new[at * width // 8 : at * width // 8 + len(packed)] = packed
