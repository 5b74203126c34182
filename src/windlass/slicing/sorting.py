"""Putting events in order: by key, then time, then sequence; stable, and free if they already are.

Times of a batch lie close together, so they are sorted by their digits (radix sort, least significant first): a few
passes over the batch, whatever its disorder.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled, unsigned

Array = np.ndarray[Any, Any]
_BITS = 11


def order_of(key: Array, ts: Array, seq: Array, keys: int) -> Array | None:
    """The permutation that sorts by (key, ts, seq); None if there is nothing to do.

    `seq` is only looked at where it does not ascend; empty, it does.
    """
    if len(ts) < 2 or (is_ascending(ts) if keys == 1 and len(seq) == 0 else _sorted()(key, ts, seq)):
        return None
    order = np.arange(len(ts))
    if not is_ascending(seq):
        order = by(seq, order)
    if keys == 1 and len(order) == len(ts) and is_ascending(seq):
        return _nearly_sorted(ts)
    if not is_ascending(ts[order]):
        order = by(ts, order)
    if keys > 1 and not is_ascending(key[order]):
        order = by(key, order)
    return order


def _nearly_sorted(ts: Array) -> Array:
    """The order of times most of which ascend: the few that do not are sorted by themselves, then both are merged."""
    ahead, behind = np.empty(len(ts), np.int64), np.empty(len(ts), np.int64)
    late = int(_part()(ts, ahead, behind))
    if late > len(ts) // 2:
        return by(ts, np.arange(len(ts)))
    out = np.empty(len(ts), np.int64)
    _merge()(ts, ahead[: len(ts) - late], sorted_rows(ts, behind[:late]), out)
    return out


def sorted_rows(values: Array, rows: Array) -> Array:
    """Some rows by their values, equal ones as they are."""
    return rows[by(values[rows], np.arange(len(rows)))] if len(rows) else rows


def distinct_pairs(first: Array, second: Array) -> Array:
    """The distinct pairs, sorted, as rows."""
    order = np.lexsort((second, first))
    pairs = np.column_stack([first[order], second[order]])
    is_new = np.ones(len(pairs), np.bool_)
    is_new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    return np.asarray(pairs[is_new])


def is_ascending(values: Array) -> bool:
    return bool(_is_ascending()(values))


def by(values: Array, order: Array) -> Array:
    """Sort an order of all values further by these, keeping it among equal ones."""
    least = int(values.min())
    bits = int(values.max() - least).bit_length() if int(values.max()) - least < 2**63 else 64
    if bits > 5 * _BITS:
        return order[np.argsort(values[order], kind="stable")]
    other, counts = np.empty_like(order), np.empty(1 << _BITS, np.int64)
    for shift in range(0, bits, _BITS):
        _radix_pass()(values, least, shift, order, other, counts)
        order, other = other, order
    return order


def extent(values: Array) -> tuple[int, int, bool]:
    """The least and the greatest value, and whether they ascend, in one pass."""
    least, greatest, ascending = _extent()(values)
    return int(least), int(greatest), bool(ascending)


@cache
def _extent() -> Any:
    def extent(values: Any) -> Any:
        least = greatest = values[0]
        descents = 0  # counted, not looked for: so that a step of the loop takes several values
        for i in range(1, len(values)):
            value = values[unsigned(i)]
            least, greatest = min(least, value), max(greatest, value)
            descents += value < values[unsigned(i - 1)]
        return least, greatest, descents == 0

    return compiled(extent)


@cache
def _sorted() -> Any:
    def in_order(key: Any, ts: Any, seq: Any) -> Any:
        for i in range(1, len(ts)):
            if key[i] != key[i - 1]:
                if key[i] < key[i - 1]:
                    return False
            elif ts[i] < ts[i - 1] or (len(seq) > 0 and ts[i] == ts[i - 1] and seq[i] < seq[i - 1]):
                return False
        return True

    return compiled(in_order)


@cache
def _is_ascending() -> Any:
    def ascending(values: Any) -> Any:
        descents = 0
        for i in range(1, len(values)):
            descents += values[unsigned(i)] < values[unsigned(i - 1)]
        return descents == 0

    return compiled(ascending)


@cache
def _radix_pass() -> Any:
    def radix_pass(values: Any, least: Any, shift: Any, order: Any, out: Any, counts: Any) -> Any:
        counts[:] = 0
        mask = len(counts) - 1
        for i in range(len(order)):
            counts[((values[i] - least) >> shift) & mask] += 1
        total = 0
        for digit in range(len(counts)):
            count = counts[digit]
            counts[digit] = total
            total += count
        for i in range(len(order)):
            digit = ((values[order[i]] - least) >> shift) & mask
            out[counts[digit]] = order[i]
            counts[digit] += 1

    return compiled(radix_pass)


@cache
def _part() -> Any:
    """`part(ts, ahead, behind)`: rows that are not before any earlier one, and the others. Returns how many the
    latter are."""

    def part(ts: Any, ahead: Any, behind: Any) -> Any:
        n = late = 0
        highest = ts[0]
        for i in range(len(ts)):
            if ts[i] >= highest:
                highest = ts[i]
                ahead[n] = i
                n += 1
            else:
                behind[late] = i
                late += 1
        return late

    return compiled(part)


@cache
def _merge() -> Any:
    def merge(ts: Any, a: Any, b: Any, out: Any) -> Any:
        i = j = 0
        for n in range(len(out)):
            if j == len(b) or (i < len(a) and (ts[a[i]] < ts[b[j]] or (ts[a[i]] == ts[b[j]] and a[i] < b[j]))):
                out[n] = a[i]
                i += 1
            else:
                out[n] = b[j]
                j += 1

    return compiled(merge)
