"""Coarse-grained windows (FiBA Figure 18): answers are wanted every so many events only.

`FiBA` takes every event as it is and answers all of them; `FiBA, coarse` first rounds times down to the slide, so that
events that leave together share an entry. Window 2^13 events, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import fiba
from benchmarks.cases import Scale, Table
from benchmarks.results import Row

TITLE = "FiBA: coarse-grained sliding (FiBA Figure 18)"


def run(scale: Scale) -> Iterator[Row]:
    window, rounds = 1 << 13, scale.pick(1 << 19, 1 << 14)
    values = fiba.values_for("sum", rounds)
    for slide in scale.pick((1, 4, 16, 64, 256, 1024), (1, 16)):
        scale.say(f"slide {slide}")
        rates: dict[str, list[float]] = {}
        for repetition in range(scale.pick(5, 1) + 1):
            for name, coarse in (("FiBA", 1), ("FiBA, coarse", slide)):
                for arity in (16, 8):
                    store = fiba.stores((arity,), classic=False)[f"FiBA {arity}"]("sum")
                    times = np.arange(rounds) // coarse
                    seconds = fiba.fed(store, times, values, window=window // coarse)
                    if repetition:
                        rates.setdefault(f"{name} {arity}", []).append(rounds / seconds)
        for name, found in rates.items():
            yield fiba.row("sum", name, slide, found)


def tables(rows: list[Row]) -> list[Table]:
    return fiba.pivot(rows, "million events/s", "slide", lambda s: f"{s:,}")


def findings(rows: list[Row]) -> list[str]:
    mine = {(r["series"], r["x"]): r["per_second"] for r in rows}
    last = max(x for _, x in mine)
    return [f"at a slide of {last:,}: {mine['FiBA, coarse 16', last] / mine['FiBA 16', last]:.2f} times as fast coarse"]


def draw(rows: list[Row]) -> Any:
    return fiba.lines_of(rows, "slide (events)", what="million events a second")
