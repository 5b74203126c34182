"""A number for each key that is the same in every process, on every machine and in every version: who gets which key.

Ids will not do, they depend on who came first; nor will Python's own hash. Keys of the same type and value have the
same number; null is a value, NaN is one, -0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.kernels import compiled
from windlass.operator.key_columns import raw_bytes, raw_words
from windlass.operator.key_tables import hash_bytes

Array = np.ndarray[Any, Any]

_NULL = np.uint64(0x5851F42D4C957F2D)


def stable_hashes(columns: Sequence[pa.Array], rows: int) -> Array:
    """uint64, one a row of the key columns."""
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        values, valid = raw_words(column)
        if values is None:
            data, offsets, valid = raw_bytes(column)
            values = np.empty(rows, np.int64)
            _hash_all()(data, offsets, values)
        words = values.view(np.uint64)
        if len(valid):
            words = np.where(valid, words, _NULL)
        hashes = _mixed(hashes ^ _mixed(words))
    return hashes


def _mixed(x: Array) -> Array:
    """splitmix64: every bit of the word matters to every bit of the result."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed


@cache
def _hash_all() -> Any:
    def hash_all(data: Any, offsets: Any, out: Any) -> Any:
        for i in range(len(out)):
            out[i] = hash_bytes(data, offsets[i], offsets[i + 1] - offsets[i], 0)

    return compiled(hash_all)
