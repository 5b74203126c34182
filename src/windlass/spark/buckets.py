"""Buckets: which part of the state a key belongs to, and what Spark is told to group by.

Keys are spread over B buckets by a hash of their own, and each bucket's keys live in one operator. Spark in turn
spreads groups over partitions by Murmur3 of what they are grouped by, and of small integers that is uneven: with two
buckets, both may end up in one partition. So a bucket goes by a *label*: the smallest number that Spark sends to
partition i if there are B of them (and, since remainders nest, evenly to any number of partitions that divides B).
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.operator.hashing import stable_hashes
from windlass.operator.keys import KeyIndex

Array = np.ndarray[Any, Any]


@cache
def labels(buckets: int) -> tuple[int, ...]:
    """What Spark is told to group each bucket by."""
    found: dict[int, int] = {}
    for n in count():
        found.setdefault(_murmur3(n) % buckets, n)
        if len(found) == buckets:
            return tuple(found[i] for i in range(buckets))
    raise AssertionError


def bucket_of(keys: list[pa.Array | pa.ChunkedArray], rows: int, buckets: int) -> Array:
    """The bucket of each row, by its key columns."""
    if buckets == 1 or not keys:
        return np.zeros(rows, np.int64)
    index = KeyIndex([str(i) for i in range(len(keys))])
    ids = index.encode(keys, rows)
    distinct = index.decode(np.arange(len(index)))
    numbers = len(distinct) == 1 and pa.types.is_integer(distinct[0].type)
    hashes = _multiples(distinct[0]) if numbers else stable_hashes(distinct, len(index))
    of_key = ((hashes >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)
    chosen: Array = of_key[ids]
    return chosen


def _multiples(numbers: pa.Array) -> Array:
    """Multiples of the golden ratio, what is behind the point of them: numbers in a row, or in steps, are spread as
    evenly as can be (Fibonacci hashing), which a hash leaves to chance."""
    return np.asarray(numbers.fill_null(0)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _murmur3(n: int) -> int:
    """Spark's hash of an integer column, signed as Java has it: Murmur3 x86 32 with seed 42."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = rotated(n * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotated(42 ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4  # the length in bytes
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
