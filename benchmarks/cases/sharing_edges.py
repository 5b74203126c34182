"""Planning with the bit set and with F1 (MQO 3.1.2, Figure 16): seconds to plan by WeaveShare, up to a million ACQs.

Slides are drawn from the divisors of 7 207 200, so the composite slide soon has millions of points, which the bit set
visits and F1 does not. Both give the same plans, which is checked. The bit set is not run beyond the number of
ACQs at which it took more than ten seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.acqs import acqs
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass.sharing import composite_slide, edges_of, plan

TITLE = "Planning with the bit set and with F1 (MQO Figure 16)"

SLIDE, OVERLAP, PATIENCE = 7_207_200, 100, 10.0
COUNTINGS = {"bit set": "bit set", "f1": "F1"}


def run(scale: Scale) -> Iterator[Row]:
    given_up: set[str] = set()
    for number in scale.pick((10, 30, 100, 300, 1000, 10_000, 100_000, 1_000_000), (10, 30)):
        chosen = acqs(number, SLIDE, OVERLAP, seed=scale.seed)
        plans = {}
        for counting in COUNTINGS:
            if counting in given_up:
                continue
            start = time.perf_counter()
            found = plan(chosen, optimizer="weaveshare", technique="flatfit", objective="paper", counting=counting)
            seconds = time.perf_counter() - start
            scale.say(f"{number} ACQs, {counting}: {seconds:.2f} s, {len(found.trees)} trees")
            plans[counting] = found
            yield {
                "acqs": number,
                "counting": counting,
                "seconds": seconds,
                "trees": len(found.trees),
                "points": composite_slide(edges_of(chosen)),
            }
            if seconds > PATIENCE:
                given_up.add(counting)
        if len(plans) == 2:
            assert {frozenset(t.acqs) for t in plans["f1"].trees} == {frozenset(t.acqs) for t in plans["bit set"].trees}


def tables(rows: list[Row]) -> list[Table]:
    lines = []
    for number in dict.fromkeys(r["acqs"] for r in rows):
        at = {r["counting"]: r for r in rows if r["acqs"] == number}
        cells = [f"{at[c]['seconds']:.3g}" if c in at else "" for c in COUNTINGS]
        one = next(iter(at.values()))
        lines.append([f"{number:,}", *cells, f"{one['points']:,}", str(one["trees"])])
    return [("seconds to plan", ["ACQs", *COUNTINGS.values(), "points of the composite slide", "trees"], lines)]


def findings(rows: list[Row]) -> list[str]:
    both = {(r["acqs"], r["counting"]): r["seconds"] for r in rows}
    ratios = [both[n, "bit set"] / s for (n, c), s in both.items() if c == "f1" and (n, "bit set") in both]
    most = max(r["acqs"] for r in rows)
    return [
        f"F1 is up to {max(ratios):,.0f} times as fast as the bit set",
        f"{most:,} ACQs are planned with F1 in {both[most, 'f1']:.1f} s",
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=6.0, height=3.8)
    axes = grid[0][0]
    for (counting, title), colour in zip(COUNTINGS.items(), ("#999999", "#D55E00"), strict=True):
        mine = [r for r in rows if r["counting"] == counting]
        style.line(axes, title, [r["acqs"] for r in mine], [r["seconds"] for r in mine], color=colour, marker="o")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("number of ACQs")
    axes.set_ylabel("seconds to plan")
    style.shared_legend(fig, grid)
    return fig
