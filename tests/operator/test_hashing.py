"""Hashes of keys: the same for equal keys, in every process and version, and well spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windlass.operator.hashing import stable_hashes


def hashes(*columns: Any) -> list[int]:
    arrays = [pa.array(c) if isinstance(c, list) else c for c in columns]
    found: list[int] = stable_hashes(arrays, len(arrays[0])).tolist()
    return found


def test_they_are_what_they_have_always_been() -> None:
    # Keys of a running stream are in the buckets that these numbers say: they must never change.
    assert hashes([0, 1, -1, None]) == [
        12035550249420947055,
        6791897765849424158,
        6755974106381971767,
        13824480848720109111,
    ]
    assert hashes(["", "a", "sensor-12345", None]) == [
        12035550249420947055,
        9671451064024449356,
        17996721567581985588,
        13824480848720109111,
    ]


@pytest.mark.parametrize("type_", [pa.int64(), pa.string(), pa.float64(), pa.date32(), pa.binary()])
def test_equal_keys_hash_equal_wherever_they_lie_in_memory(type_: pa.DataType) -> None:
    values = pa.array([str(i) for i in range(50)]).cast(type_) if type_ not in (pa.float64(), pa.date32()) else None
    if values is None:
        values = pa.array(np.arange(50, dtype=np.int32)).cast(type_)
    assert hashes(values)[10:20] == hashes(values.slice(10, 10))
    assert hashes(values)[7:8] == hashes(pa.concat_arrays([values.slice(7, 1)]))


def test_one_zero_and_one_nan() -> None:
    zero, minus, nan, other = hashes(pa.array([0.0, -0.0, np.nan, np.float64.fromhex("-0x1.8p1") * np.nan]))
    assert zero == minus
    assert nan == other


def test_the_place_of_a_column_matters() -> None:
    assert hashes([1, 2], [2, 1])[0] != hashes([1, 2], [2, 1])[1]
    assert hashes([None, 1], [1, None])[0] != hashes([None, 1], [1, None])[1]


def test_buckets_are_even() -> None:
    found = stable_hashes([pa.array([f"sensor-{i}" for i in range(20_000)])], 20_000)
    counts = np.bincount((found % np.uint64(16)).astype(np.int64), minlength=16)
    assert counts.min() > 1100 and counts.max() < 1400
