"""Seeded event values, and real ones where the data directory is present.

The directory is $WINDLASS_DATA, or ../shared/data beside the repository. Without it the cases that use real
data say so and go on.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

Values = np.ndarray

SEED = 20_240_601
LARGEST = 1 << 20  # keeps sums of squares over 2^22 events within 64 bits


def uniform(n: int, seed: int = SEED) -> Values:
    """Independent int64 values: a running maximum changes rarely, a deque stays short."""
    return np.random.default_rng(seed).integers(0, LARGEST, n)


def walk(n: int, seed: int = SEED) -> Values:
    """A random walk, reflected at 0 and 2^20: neighbours are alike, trends are long."""
    steps = np.random.default_rng(seed).integers(-64, 65, n)
    path = np.abs(np.cumsum(steps) + LARGEST // 2) % (2 * LARGEST)
    return np.minimum(path, 2 * LARGEST - 1 - path)


def sensor(n: int, seed: int = SEED) -> Values:
    """A power reading: plateaus of a machine that switches levels, a slow swing, noise, rare spikes."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 9, n // 500 + 1) * 10_000
    plateaus = np.repeat(levels, 500)[:n]
    swing = 2_000 * np.sin(np.arange(n) * (2 * np.pi / 100_000))
    spikes = np.where(rng.random(n) < 1e-4, 50_000, 0)
    return (plateaus + swing + rng.normal(0, 150, n) + spikes).clip(0).astype(np.int64)


def descending(n: int, seed: int = SEED) -> Values:
    """Every event stays a candidate for the maximum: the longest deque there can be."""
    return np.arange(n, 0, -1)


SYNTHETIC = {"uniform": uniform, "walk": walk, "sensor": sensor, "descending": descending}
REAL = {"equity": "us_equity_trades_2013-10-07_11.parquet", "debs": "debs2012_manufacturing_17k.parquet"}
ABOUT = {
    "uniform": "uniform random int64",
    "walk": "random walk",
    "sensor": "sensor-like plateaus",
    "descending": "descending values",
    "equity": "US equity trade prices",
    "debs": "DEBS 2012 manufacturing, mf01",
}


def data_directory() -> Path | None:
    named = os.environ.get("WINDLASS_DATA")
    directory = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return directory if directory.is_dir() else None


def real(name: str) -> Values | None:
    """The `value` column of a real stream in arrival order, or None where the file is absent."""
    directory = data_directory()
    if directory is None or not (directory / REAL[name]).is_file():
        return None
    column = pq.read_table(directory / REAL[name], columns=["value"])["value"]
    return column.to_numpy().astype(np.int64)


def repeated(values: Values, n: int) -> Values:
    """n events: the stream, played again from its beginning as often as needed."""
    return np.resize(values, n)
