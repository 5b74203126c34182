"""Ω estimated and counted: operations an edge of every technique, on random sets of ACQs (MQO 4.1).

Trees of 1 to 30 ACQs, with slides that divide 24 to 100, in three of ten cases ranges that are no multiples of
slides, run interpreted over aggregates that count ⊕, ⊖ and comparisons, from when their windows have filled. What
folding events into slices takes is not counted. The look-ups of SlickDeque (Non-Inv) are steps of binary search in
its deque.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.acqs import acqs, aggregate_for
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg
from windlass.sharing import ACQ, TECHNIQUES, Plan, Tree
from windlass.sharing.counters import counter_for
from windlass.sharing.fragments import edges_of
from windlass.sharing.load import Load
from windlass.sharing.omega import COUNTED, PAPER_OMEGA
from windlass.stores import SlickDequeNonInv

TITLE = "Operations an edge, estimated and counted (MQO 4.1)"


def run(scale: Scale) -> Iterator[Row]:
    rng = np.random.default_rng(scale.seed)
    for k in range(scale.pick(40, 3)):
        number, longest = int(rng.choice((1, 2, 5, 12, 30))), int(rng.choice((24, 36, 60, 100)))
        overlap, uneven = int(rng.choice((5, 20, 40))), bool(rng.random() < 0.3)
        scale.say(f"{k}: {number} ACQs, slides up to {longest}, overlaps up to {overlap}")
        chosen = acqs(number, longest, overlap, seed=scale.seed + k)
        if uneven:
            chosen = [ACQ(q.range + int(rng.integers(q.slide)), q.slide, name=q.name) for q in chosen]
        progressions = edges_of(chosen)
        load = Load.of(chosen, counter_for(progressions)[0], progressions)
        for technique in TECHNIQUES:
            found = counted(chosen, technique, scale.seed + k)
            if found > 0.05:  # windows of one slice take nothing
                estimates = {"estimated": COUNTED[technique](load), "paper": PAPER_OMEGA[technique](load)}
                yield {"technique": technique, "acqs": load.acqs, "uneven": uneven, "counted": found, **estimates}


def counted(chosen: list[ACQ], technique: str, seed: int) -> float:
    """Operations of final aggregation an edge."""
    aggregate, calls = agg.counted(aggregate_for(technique))
    mine = tuple(ACQ(q.range, q.slide, aggregate, name=q.name) for q in chosen)
    started = Plan((Tree(mine, technique, 0.0, 0.0, 0.0),), "weaveshare", "pairs", 1.0, "operations", 0.0).run()
    n = max(400, 2 * max(q.range for q in chosen))
    values = np.random.default_rng(seed).integers(0, 1 << 40, 2 * n)
    lookups = _counting_lookups()
    try:
        started.process(np.arange(n), values[:n])
        calls.reset()
        lookups[0], before = 0, started.slices
        started.process(np.arange(n, 2 * n), values[n:])
    finally:
        SlickDequeNonInv.technique = lookups[1]
    slices = started.slices - before
    return (calls.total - (n - slices) + lookups[0]) / slices


def _counting_lookups() -> list[Any]:
    """Count the steps of the deque's binary search: one to load an entry, and one for each halving."""
    original = SlickDequeNonInv.technique
    count: list[Any] = [0, staticmethod(original)]

    def technique(m: Any) -> Any:
        made = original(m)

        def suffix(ring: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
            count[0] += 1 + (int(h[2]) - 1).bit_length()
            return made.suffix(ring, links, h, q, r)

        return made._replace(suffix=suffix)

    SlickDequeNonInv.technique = staticmethod(technique)
    return count


def _off(rows: list[Row], technique: str, form: str) -> float:
    return float(np.mean([abs(r[form] / r["counted"] - 1) for r in rows if r["technique"] == technique]))


def tables(rows: list[Row]) -> list[Table]:
    lines = [
        [info.title, str(sum(r["technique"] == name for r in rows)), f"{_off(rows, name, 'estimated'):.1%}",
         f"{_off(rows, name, 'paper'):.1%}"]
        for name, info in TECHNIQUES.items()
    ]  # fmt: skip
    return [("mean deviation from the count", ["technique", "trees", "counted form", "as printed"], lines)]


def findings(rows: list[Row]) -> list[str]:
    off = float(np.mean([abs(r["estimated"] / r["counted"] - 1) for r in rows]))
    return [f"over all {len(rows)} trees, the counted form is off by {off:.1%} on average"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=4.8, height=4.2)
    for axes, form, title in zip(grid[0], ("estimated", "paper"), ("counted form", "as printed"), strict=True):
        for name, info in TECHNIQUES.items():
            mine = [r for r in rows if r["technique"] == name]
            style.line(axes, info.title, [r[form] for r in mine], [r["counted"] for r in mine], linestyle="", alpha=0.8)
        ends = [min(r["counted"] for r in rows), max(r["counted"] for r in rows)]
        axes.plot(ends, ends, color="#999999", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"estimated operations an edge, {title}")
        axes.set_ylabel("counted")
    style.shared_legend(fig, grid, columns=4)
    return fig
