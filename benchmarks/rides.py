"""Streams for the wheel, generated to what µWheel 4.2 and 4.3 say about theirs, and the real samples where they are
at hand.

debs       100 events a second, 1.5 % out of order (DEBS 2012 Grand Challenge, 32 390 519 events); generated
citibike   0.6 events a second, 45.76 % out of order (New York Citi Bike, 8 010 578 events); generated
taxi       one ride a second for days, fares in cents: the paper generates it too
samples    170 s of DEBS 2012; Citi Bike Jersey City 2018, put in the order of arrival

Times are int64 microseconds. An event is out of order if one with a later time came before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.streams import Stream
from benchmarks.workloads import data_directory

SECOND = 1_000_000
START = int(np.datetime64("2023-10-01", "us").astype(np.int64))
DAY = 86_400
DELAY = {"debs": SECOND, "citibike": 60 * SECOND, "debs sample": 0, "citibike sample": 3600 * SECOND}


def debs(n: int, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    return _arriving(np.arange(n) * (SECOND // 100), rng.integers(0, 30_000, n), 0.0152, DELAY["debs"], rng)


def citibike(n: int, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, int(n / 0.6 * SECOND), n))
    return _arriving(ts, rng.integers(60, 3600, n), 0.453, DELAY["citibike"], rng)


def _arriving(ts: np.ndarray, values: np.ndarray, fraction: float, delay: int, rng: Any) -> Stream:
    """That fraction of the events arrives later, by up to `delay`."""
    late = rng.random(len(ts)) < fraction
    arrival = ts + np.where(late, rng.integers(delay // 5, delay, len(ts)), 0)
    order = np.argsort(arrival, kind="stable")
    return Stream(ts[order] + START, values[order])


def sample(name: str) -> Stream | None:
    directory = data_directory()
    file = {"debs sample": "debs2012_manufacturing_17k.parquet", "citibike sample": "citibike_jc_2018-08_12.parquet"}[
        name
    ]
    if directory is None or not (directory / file).is_file():
        return None
    table = pq.read_table(directory / file)
    ts, values = table["ts"].to_numpy().astype(np.int64), table["value"].to_numpy().astype(np.int64)
    if "arrival" in table.column_names:
        order = np.argsort(table["arrival"].to_numpy(), kind="stable")
        ts, values = ts[order], values[order]
    return Stream(ts, values)


def taxi(days: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from 0 on, and a fare each."""
    n = days * DAY
    return np.arange(n), np.random.default_rng(seed).integers(300, 10_000, n)


def disorder(stream: Stream) -> float:
    before = np.maximum.accumulate(stream.ts)
    return float(np.mean(stream.ts < before))


def seconds(call: Callable[[], Any], repetitions: int = 5) -> float:
    """Processor time, the median: others on the machine do not count."""
    times = []
    for _ in range(repetitions):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return float(np.median(times))


def latencies(call: Callable[[int], Any], n: int) -> np.ndarray:
    """Processor time of each of n calls, in microseconds."""
    clock = time.process_time_ns
    times = np.empty(n)
    for i in range(n):
        begin = clock()
        call(i)
        times[i] = clock() - begin
    empty = np.empty(1000)
    for i in range(1000):
        begin = clock()
        empty[i] = clock() - begin
    return (times - np.median(empty)) / 1e3
