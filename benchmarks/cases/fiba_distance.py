"""Disorder of every depth (FiBA Figure 11): every event comes at the same distance from the youngest.

The window is full and every event evicts the oldest. `at most` is a stream whose events come at any distance up to x,
each at another place. A stream is fed in chunks of 1024 events to one live tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import fiba
from benchmarks.cases import Scale, Table
from benchmarks.results import Row

TITLE = "FiBA: throughput by out-of-order distance (FiBA Figure 11)"


def run(scale: Scale) -> Iterator[Row]:
    for aggregate, exponent, rounds in scale.pick(
        (("sum", 22, 1 << 18), ("geomean", 22, 1 << 17), ("bloom", 20, 1 << 14)),
        (("sum", 14, 1 << 13),),
    ):
        window = 1 << exponent
        deepest = 12 if aggregate == "bloom" else exponent - 2
        distances = [0, *(1 << k for k in range(4, deepest + 1, 4))]
        if exponent == 22:
            distances.append(1 << 20)
        for distance in distances:
            scale.say(f"{aggregate}, distance {distance}")
            yield from _race(scale, aggregate, window, distance, rounds)
        if aggregate == "sum":
            yield from _scattered(scale, window, distances[1:], rounds)


def _race(scale: Scale, aggregate: str, window: int, distance: int, rounds: int) -> Iterator[Row]:
    repetitions = scale.pick(3, 1)
    rates: dict[str, list[float]] = {}
    answers: dict[str, Any] = {}
    entrants = fiba.stores(scale.pick((16, 4), (16,)), classic=aggregate == "sum")
    made = {
        name: fiba.full(lambda make=make: make(aggregate), aggregate, window, distance)
        for name, make in entrants.items()
    }
    values = fiba.values_for(aggregate, rounds)
    begin = window - distance
    for repetition in range(-1, repetitions):
        times = begin + np.arange(rounds)
        begin += rounds
        for name, store in made.items():
            seconds = fiba.fed(store, times, values, window=window)
            if repetition >= 0:
                rates.setdefault(name, []).append(rounds / seconds)
            answers[name] = store.query()
        for arity in (4, 8) if repetition >= 0 else ():
            rate = fiba.cpp_stream(scale, arity, aggregate, window, distance)
            if rate is not None:
                rates.setdefault(f"C++ FiBA {arity}", []).append(rate)
    first = next(iter(answers.values()))
    assert all(np.allclose(a, first) if aggregate != "bloom" else a == first for a in answers.values()), answers
    if window <= 1 << 16:
        for store in made.values():
            store.check_invariants()
    for name, found in rates.items():
        yield fiba.row(f"{aggregate}, one distance", name, distance, found, window=window)


def _scattered(scale: Scale, window: int, distances: list[int], rounds: int) -> Iterator[Row]:
    rng = np.random.default_rng(scale.seed)
    values = fiba.values_for("sum", rounds)
    for distance in distances:
        scale.say(f"sum, at most {distance}")
        for name, make in fiba.stores((16, 4), classic=True).items():
            store = fiba.full(lambda make=make: make("sum"), "sum", window, 0)
            rates = []
            for repetition in range(scale.pick(3, 1) + 1):
                times = window + repetition * rounds + np.arange(rounds) - rng.integers(0, distance, rounds)
                seconds = fiba.fed(store, times, values, window=window)
                if repetition:
                    rates.append(rounds / seconds)
            yield fiba.row("sum, at most", name, distance, rates, window=window)


def tables(rows: list[Row]) -> list[Table]:
    return fiba.pivot(rows, "million rounds/s", "distance", lambda d: f"{d:,}")


def findings(rows: list[Row]) -> list[str]:
    return fiba.against_cpp(rows)


def draw(rows: list[Row]) -> Any:
    return fiba.lines_of(rows, "out-of-order distance", what="million rounds a second")
