"""How long a window that ends takes to come out (Scotty 6.2.4, Figure 11): over the entries kept, for sum and median.

A tumbling window over n events, one a tick, beside one of a single tick, which cuts a slice at every event. The event
that ends the long window is handed in alone: the time of that call, answers in hand, is the latency. Every technique
pays for a call from Python, the operator also for its Arrow columns; what the call costs when only the short window
ends, just before, is listed beside it as `without`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

from benchmarks import driving, streams
from benchmarks.baselines import BASELINES, Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.measure import no_collection
from benchmarks.results import Row
from windlass import agg
from windlass.aggregates.aggregate import Aggregate

TITLE = "Output latency (Scotty Figure 11)"

AGGREGATES: dict[str, Callable[[str], Aggregate]] = {"sum": agg.sum, "median": agg.median}
OTHERS = {"sum": ("Buckets", "Tuple buffer", "Aggregate tree"), "median": ("Tuple buckets", "Tuple buffer")}


def run(scale: Scale) -> Iterator[Row]:
    for aggregate, made in AGGREGATES.items():
        for entries in scale.pick((10, 100, 1000, 10_000, 100_000), (10, 1000)):
            scale.say(f"{aggregate}, {entries} entries")
            windows = Windows((Periodic(entries, entries), Periodic(1, 1)))
            names = ("Windlass lazy", "Windlass eager", *OTHERS[aggregate])
            for name in names:
                feed = _feed(name, windows, made("value"), operator=name.startswith("Windlass"))
                rounds = max(3, min(scale.pick(41, 5), scale.pick(300_000, 10_000) // entries))
                last, before = _latencies(feed, entries, rounds, scale.seed)
                yield {
                    "aggregate": aggregate,
                    "entries": entries,
                    "technique": name,
                    "microseconds": round(last * 1e6, 2),
                    "without_microseconds": round(before * 1e6, 2),
                    "rounds": rounds,
                }


def _feed(name: str, windows: Windows, aggregate: Aggregate, *, operator: bool) -> Callable[[streams.Stream], int]:
    """Takes events and has the answers in hand when it returns."""
    if not operator:
        baseline = BASELINES[name](windows, aggregate)
        return lambda stream: len(baseline.process(stream.ts, stream.value))
    op = driving.operator(driving.queries(windows, aggregate), store=name.removeprefix("Windlass "))

    def feed(stream: streams.Stream) -> int:
        for batch in stream.batches():
            op.process(batch)
        return driving.read(op.advance())

    return feed


def _latencies(feed: Callable[[streams.Stream], int], entries: int, rounds: int, seed: int) -> tuple[float, float]:
    """Medians of the calls that end the long window, and of those just before; the first round warms up."""
    values = np.random.default_rng(seed).integers(0, 1000, (rounds + 1) * entries + 1)
    ts = np.arange(len(values))

    def timed(a: int, b: int, expected: int) -> float:
        stream = streams.Stream(ts[a:b], values[a:b])
        start = time.perf_counter()
        got = feed(stream)
        seconds = time.perf_counter() - start
        assert got == expected, f"{got} windows came out of a call that ends {expected}"
        return seconds

    ending, before = [], []
    with no_collection():
        timed(0, 1, 0)
        for k in range(rounds + 1):
            a = k * entries + 1
            timed(a, a + entries - 3, entries - 3)
            timed(a + entries - 3, a + entries - 2, 1)  # a small call, so that the next finds caches as they would be
            before.append(timed(a + entries - 2, a + entries - 1, 1))
            ending.append(timed(a + entries - 1, a + entries, 2))
    return median(ending[1:]), median(before[1:])


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for aggregate in dict.fromkeys(r["aggregate"] for r in rows):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        names = list(dict.fromkeys(r["technique"] for r in mine))
        lines = []
        for entries in dict.fromkeys(r["entries"] for r in mine):
            at = {r["technique"]: r for r in mine if r["entries"] == entries}
            cells = [f"{at[n]['microseconds']:,.3g} ({at[n]['without_microseconds']:,.3g})" for n in names]
            lines.append([f"{entries:,}", *cells])
        found.append((f"{aggregate}: microseconds until the window is out (without it)", ["entries", *names], lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for aggregate in dict.fromkeys(r["aggregate"] for r in rows):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        most = max(r["entries"] for r in mine)
        at = {r["technique"]: r["microseconds"] - r["without_microseconds"] for r in mine if r["entries"] == most}
        shown = ", ".join(f"{name} {max(us, 0):,.3g} µs" for name, us in at.items())
        lines.append(f"{aggregate}, {most:,} entries: what the window adds to the call: {shown}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    aggregates = list(dict.fromkeys(r["aggregate"] for r in rows))
    fig, grid = style.figure(1, len(aggregates), width=6.0, height=4.2, sharey=True)
    for axes, aggregate in zip(grid[0], aggregates, strict=True):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        for name in dict.fromkeys(r["technique"] for r in mine):
            points = [(r["entries"], r["microseconds"]) for r in mine if r["technique"] == name]
            style.line(axes, name, *zip(*points, strict=True))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("entries: slices or tuples in the window")
        axes.set_ylabel("microseconds until the window is out")
        axes.set_title(aggregate)
    style.shared_legend(fig, grid, columns=4)
    return fig
