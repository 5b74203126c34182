"""200 mixed queries on Spark: the plan that buckets make for themselves against others, in one run.

Sums, maxima, means and deviations with slides of 1 s to 10 min and ranges of up to 60 of them, 20 keys, 1000 events a
second, in batch over Parquet files. Partitions cut and fold events once, at the edges of all queries; plans are about
the state, in which slices are merged and windows answered. Jobs in turn, medians.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Scale, Table
from benchmarks.cases.sharing_operator import plans, queries
from benchmarks.results import Row
from windlass import Query

TITLE = "200 mixed queries on Spark: the chosen plan and others"

SLIDES = (1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 300_000, 600_000)  # ms


def run(scale: Scale) -> Iterator[Row]:
    from benchmarks.spark import Events, batch, compare
    from windlass.spark import shared_windows

    events = Events.of(scale.pick(2_000_000, 100_000), 20, scale.seed)
    asked = [_on_v(query) for query in queries(scale.pick(200, 8), scale.seed, SLIDES, sketches=False)]
    jobs = {
        name: batch(
            events.rows,
            lambda o=options: shared_windows(events.frame(), asked, time="ts", key="k", buckets=2, **o),  # type: ignore[misc]
        )
        for name, options in plans(asked).items()
    }
    scale.say(f"{len(jobs)} plans in turn")
    compare(jobs, scale.pick(3, 1))
    for name, job in jobs.items():
        yield {
            "plan": name,
            "events": events.rows,
            "rows": job.rows_out.copy().pop(),
            "times": [round(t, 3) for t in job.times],
        }


def _on_v(query: Query) -> Query:
    from dataclasses import replace

    return Query(query.name, query.window, *(replace(a, columns=("v",)) for a in query.aggregates))


def _median(row: Row) -> float:
    return float(np.median(row["times"]))


def tables(rows: list[Row]) -> list[Table]:
    best = next(_median(r) for r in rows if r["plan"] == "chosen")
    lines = [
        [r["plan"], f"{_median(r):.2f}", f"{r['events'] / _median(r) / 1e6:.3g}", f"{_median(r) / best:.2f}"]
        for r in sorted(rows, key=_median)
    ]
    header = ["plan", "seconds", "million events/s", "time against the chosen"]
    return [(f"{rows[0]['rows']:,} windows of {rows[0]['events']:,} events", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    at = {r["plan"]: _median(r) for r in rows}
    shown = ", ".join(f"{name} {at[name] / at['chosen']:.2f}" for name in at if name != "chosen")
    return [f"time of the others against the chosen plan: {shown}"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=5.4, height=3.8)
    shown = sorted(rows, key=_median)
    heights = [r["events"] / _median(r) / 1e6 for r in shown]
    grid[0][0].bar(
        range(len(shown)), heights, 0.6, color=["#D55E00" if r["plan"] == "chosen" else "#999999" for r in shown]
    )
    grid[0][0].set_xticks(range(len(shown)), [r["plan"] for r in shown], rotation=30, ha="right")
    grid[0][0].set_ylabel("million events per second")
    grid[0][0].grid(axis="x", visible=False)
    return fig
