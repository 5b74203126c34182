"""Bulk eviction and insertion (after the 2023 follow-up): runs of events go out and come in, without answers.

Each step is one `bulk_evict` and one `bulk_insert` of as many events, in order or at a distance of 1024. The C++
program's steps have one query each besides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import fiba
from benchmarks.cases import Scale, Table
from benchmarks.results import Row

TITLE = "FiBA: bulk eviction and insertion"


def run(scale: Scale) -> Iterator[Row]:
    window = scale.pick(1 << 22, 1 << 14)
    for distance in (0, 1024):
        for size in scale.pick((16, 256, 4096, 65_536), (16, 256)):
            scale.say(f"runs of {size}, distance {distance}")
            for name, make in fiba.stores((16, 8), classic=False).items():
                store = fiba.full(lambda make=make: make("sum"), "sum", window, distance)
                steps = max(3, scale.pick(1 << 20, 1 << 12) // max(size, 1024))
                rates = [_steps(store, window, distance, size, steps) for _ in range(scale.pick(4, 2))]
                yield fiba.row(_panel(distance), name, size, rates[1:])
            for arity in (4, 8):
                rounds = scale.pick(1 << 23, 1 << 16)
                cpp = [_cpp(arity, window, distance, size, rounds) for _ in range(scale.pick(3, 1))]
                known = [rate for rate in cpp if rate is not None]
                if known:
                    yield fiba.row(_panel(distance), f"C++ FiBA {arity}", size, known)


def _panel(distance: int) -> str:
    return "in order" if distance == 0 else f"at distance {distance}"


def _cpp(arity: int, window: int, distance: int, size: int, rounds: int) -> float | None:
    def arguments(n: int) -> list[str]:
        n += -n % size
        return [f"bfinger{arity}", "sum", str(window), str(distance), str(size), str(window + n)]

    return fiba.cpp_rate("bulk_evict_insert_benchmark_driver", arguments, rounds)


def _steps(store: Any, window: int, distance: int, size: int, steps: int) -> float:
    """Events a second."""
    begin = store.oldest()
    values = fiba.values_for("sum", size)
    runs = [begin + window - distance + k * size + np.arange(size) for k in range(steps)]
    ends = [begin + (k + 1) * size for k in range(steps)]
    start = time.process_time()
    for times, end in zip(runs, ends, strict=True):
        store.bulk_evict(end)
        store.bulk_insert(times, values)
    seconds = time.process_time() - start
    assert len(store) == window
    return steps * size / seconds


def tables(rows: list[Row]) -> list[Table]:
    return fiba.pivot(rows, "million events/s, evicted and inserted", "run", lambda n: f"{n:,}")


def findings(rows: list[Row]) -> list[str]:
    mine = [r for r in rows if r["series"] == "FiBA 16" and r["x"] >= 256]
    lines = [f"{r['panel']}, runs of {r['x']:,}: {r['per_second'] / 1e6:.3g} million events/s" for r in mine]
    return lines + fiba.against_cpp(rows)


def draw(rows: list[Row]) -> Any:
    return fiba.lines_of(rows, "events in a run", what="million events a second")
