"""What a split costs (Scotty 6.3.3, Figure 15): the time to compute a slice's aggregates anew, by its size.

A punctuation that comes late falls into the middle of a slice of n events and cuts it in two. The call that takes it,
and the watermark that brings the windows out, are timed; the same for a late event that is no punctuation is
`without`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import windlass
from benchmarks.cases import Scale, Table
from benchmarks.measure import no_collection
from benchmarks.results import Row
from windlass import agg
from windlass.aggregates.aggregate import Aggregate

TITLE = "Computing anew after a split (Scotty Figure 15)"

AGGREGATES: dict[str, Callable[[str], Aggregate]] = {"sum": agg.sum, "median": agg.median}


def run(scale: Scale) -> Iterator[Row]:
    for aggregate, made in AGGREGATES.items():
        for size in scale.pick((10, 100, 1000, 10_000, 100_000), (10, 1000)):
            scale.say(f"{aggregate}, a slice of {size} events")
            rounds = max(5, min(scale.pick(31, 5), scale.pick(1_000_000, 10_000) // size))
            times: dict[bool, list[float]] = {True: [], False: []}
            with no_collection():
                for k in range(rounds + 1):
                    for split in (k % 2 == 0, k % 2 == 1):
                        seconds = _late(made("value"), size, scale.seed + k, split=split)
                        if k:
                            times[split].append(seconds)
            yield {
                "aggregate": aggregate,
                "size": size,
                "microseconds": round(median(times[True]) * 1e6, 2),
                "without_microseconds": round(median(times[False]) * 1e6, 2),
                "rounds": rounds,
            }


def _late(aggregate: Aggregate, size: int, seed: int, *, split: bool) -> float:
    """Seconds for one late event in the middle of a slice, and the watermark after it."""
    values = np.random.default_rng(seed).integers(0, 84_232, size)
    op = windlass.Operator(
        [windlass.Query("q0", windlass.Punctuation("mark"), aggregate)], time="ts", allowed_lateness=20 * size
    )

    def events(ts: Any, value: Any, mark: Any) -> pa.Table:
        return pa.table({"ts": np.asarray(ts), "value": np.asarray(value), "mark": np.asarray(mark, np.bool_)})

    op.process(events(10 * np.arange(size), values, np.zeros(size)))
    op.process(events([10 * size], [0], [True]))  # ends the window that the slice is
    assert len(op.advance(10 * size + 1)) == 1
    late = events([10 * (size // 2) + 5], [1], [split])
    start = time.perf_counter()
    op.process(late)
    results = op.advance(10 * size + 1)
    seconds = time.perf_counter() - start
    # The window is corrected; or it is retracted, and its two halves come out.
    assert len(results) == (3 if split else 1), f"{len(results)} rows came out"
    return seconds


def tables(rows: list[Row]) -> list[Table]:
    lines = [
        [
            r["aggregate"],
            f"{r['size']:,}",
            f"{r['microseconds']:,.4g}",
            f"{r['without_microseconds']:,.4g}",
            f"{r['microseconds'] - r['without_microseconds']:,.3g}",
        ]
        for r in rows
    ]
    header = ["aggregate", "events in the slice", "with a split, µs", "without, µs", "difference, µs"]
    return [("One late event in the middle of a slice, and the windows after it", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for aggregate in dict.fromkeys(r["aggregate"] for r in rows):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        first, last = mine[0], mine[-1]
        growth = last["microseconds"] / first["microseconds"]
        lines.append(f"{aggregate}: {last['size'] // first['size']:,} times the events take {growth:.3g} times as long")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=6.5, height=4.2)
    axes = grid[0][0]
    for aggregate, colour in (("sum", "#0072B2"), ("median", "#D55E00")):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        sizes = [r["size"] for r in mine]
        for field, dash, what in (("microseconds", "-", "a split"), ("without_microseconds", ":", "no split")):
            y = [r[field] for r in mine]
            style.line(axes, f"{aggregate}, {what}", sizes, y, color=colour, linestyle=dash, marker="o")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("events in the slice")
    axes.set_ylabel("microseconds for a late event")
    style.shared_legend(fig, grid, columns=4)
    return fig
