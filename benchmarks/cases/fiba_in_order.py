"""Streams in order (FiBA Figure 13), over the window's size; and with one event in a hundred out of order.

Fed in chunks of 1024 events to one live tree; TwoStacks and DABA, which know streams in order only, run the same
chunks. A Bloom filter costs so much to combine that trees of the smallest arity race.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import fiba
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass.stores import DABA, TwoStacks

TITLE = "FiBA: streams in order (FiBA Figure 13)"


def run(scale: Scale) -> Iterator[Row]:
    for aggregate, exponents, rounds in scale.pick(
        (
            ("sum", (10, 14, 18, 22), 1 << 18),
            ("geomean", (10, 14, 18, 22), 1 << 17),
            ("bloom", (10, 14, 18, 22), 1 << 14),
        ),
        (("sum", (10, 12), 1 << 13),),
    ):
        for exponent in exponents:
            scale.say(f"{aggregate}, window 2^{exponent}")
            yield from _race(scale, aggregate, 1 << exponent, rounds)


def _race(scale: Scale, aggregate: str, window: int, rounds: int) -> Iterator[Row]:
    rng = np.random.default_rng(scale.seed)
    rates: dict[str, list[float]] = {}
    arities = (2,) if aggregate == "bloom" else (16, 8)
    trees = {
        name: fiba.full(lambda make=make: make(aggregate), aggregate, window, 0)
        for name, make in fiba.stores(arities, classic=aggregate == "sum").items()
    }
    others = aggregate != "bloom" or window <= 1 << 18  # a window of 2^22 filters is 2 GiB
    first = f"FiBA {arities[0]}"
    if others:
        strays = fiba.full(lambda: fiba.stores(arities)[first](aggregate), aggregate, window, 0)
    queues = {kind.__name__: kind(fiba.AGGREGATES[aggregate]()) for kind in ((TwoStacks, DABA) if others else ())}
    for queue in queues.values():
        queue.slide(fiba.values_for(aggregate, window), window=window)
    values = fiba.values_for(aggregate, rounds)
    for repetition in range(scale.pick(3, 1) + 1):
        times = window + repetition * rounds + np.arange(rounds)
        seconds = {name: fiba.fed(tree, times, values, window=window) for name, tree in trees.items()}
        if others:
            late = times - np.where(rng.random(rounds) < 0.01, rng.integers(1, min(1000, window // 2), rounds), 0)
            seconds[f"{first}, 1 % late"] = fiba.fed(strays, late, values, window=window)
        seconds |= {name: fiba.fed(_InOrder(queue), times, values, window=window) for name, queue in queues.items()}
        if repetition:
            for name, taken in seconds.items():
                rates.setdefault(name, []).append(rounds / taken)
            for arity in (2,) if aggregate == "bloom" else (4, 8):
                rate = fiba.cpp_stream(scale, arity, aggregate, window, 0)
                if rate is not None:
                    rates.setdefault(f"C++ FiBA {arity}", []).append(rate)
    for name, found in rates.items():
        yield fiba.row(aggregate, name, window, found)


class _InOrder:
    """A queue's `slide` where a tree has `stream`."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def stream(self, times: Any, values: Any, window: int) -> Any:
        return self.queue.slide(values, window=window)


def tables(rows: list[Row]) -> list[Table]:
    return fiba.pivot(rows, "million rounds/s", "window", lambda w: f"2^{w.bit_length() - 1}")


def findings(rows: list[Row]) -> list[str]:
    return fiba.against_cpp([r for r in rows if "late" not in r["series"]])


def draw(rows: list[Row]) -> Any:
    return fiba.lines_of(rows, "window (times)", what="million rounds a second")
