"""How long one round takes (FiBA Figure 12): insert, evict, query, one event at a time from Python.

A call from Python costs more than the work in it, for both trees alike; so beside the times stand the nodes that a
round visits and repairs, which is what the fingers save.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import fiba
from benchmarks.cases import Scale, Table
from benchmarks.measure import no_collection
from benchmarks.results import Row

TITLE = "FiBA: latency of single rounds (FiBA Figure 12)"


def run(scale: Scale) -> Iterator[Row]:
    window, rounds = scale.pick((1 << 22, 20_000), (1 << 12, 500))
    for distance in (0, window // 4):
        for name, make in fiba.stores((2, 4, 8, 16)).items():
            scale.say(f"distance {distance}, {name}")
            store = fiba.full(lambda make=make: make("sum"), "sum", window, distance)
            before, taken = store.counts, []
            with no_collection():
                for k in range(rounds):
                    t = window - distance + k
                    start = time.perf_counter_ns()
                    store.evict(k)
                    store.insert(t, 1)
                    store.query()
                    taken.append(time.perf_counter_ns() - start)
            quantiles = {f"p{q}": float(np.percentile(taken, q)) / 1000 for q in (50, 99, 99.9)}
            done = {k: (v - before[k]) / rounds for k, v in store.counts.items()}
            yield {"distance": distance, "series": name, "rounds": rounds, "window": window} | quantiles | done


def tables(rows: list[Row]) -> list[Table]:
    header = ["distance", "tree", "median, µs", "99 %", "99.9 %", "nodes visited", "repaired"]
    lines = [
        [
            f"{r['distance']:,}",
            r["series"],
            *(f"{r[q]:.3g}" for q in ("p50", "p99", "p99.9")),
            f"{r['visits']:.3g}",
            f"{r['repairs']:.3g}",
        ]
        for r in rows
    ]
    return [("A round of evict, insert and query from Python, sum", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    fiba_, classic = (next(r for r in rows if r["series"] == name) for name in ("FiBA 8", "classic 8"))
    return [f"in order, FiBA 8 repairs {fiba_['repairs']:.3g} nodes a round, the classic tree {classic['repairs']:.3g}"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2)
    for axes, distance in zip(grid[0], dict.fromkeys(r["distance"] for r in rows), strict=True):
        mine = [r for r in rows if r["distance"] == distance]
        at = range(len(mine))
        for q, marker in (("p50", "_"), ("p99", "o"), ("p99.9", "^")):
            axes.plot(at, [r[q] for r in mine], linestyle="", marker=marker, markersize=9, label=q)
        axes.set_xticks(list(at), [r["series"] for r in mine], rotation=30)
        axes.set_yscale("log")
        axes.set_title(f"distance {distance:,}")
        axes.set_ylabel("µs a round")
    style.shared_legend(fig, grid)
    return fig
