"""200 mixed queries on Spark: the plan that buckets make for themselves against others, in one run.

Sums, maxima, means, deviations and sketches with slides of 1 s to 10 min and ranges of up to 60 of them, 5 keys, 1000
events a second, in batch over Parquet files. Partitions cut and fold events once, at the edges of all queries; plans
are about the state, in which slices are merged and windows answered. So there are two figures: seconds of the whole
job, most of which no plan changes, and processor time of the state's stage alone, over the same slices, in one
process. Jobs in turn, medians.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.cases import Scale, Table
from benchmarks.cases.sharing_operator import plans, queries
from benchmarks.results import Row
from windlass import Operator, Query
from windlass.operator.slicer import Slicer

TITLE = "200 mixed queries on Spark: the chosen plan and others"

SLIDES = (1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 300_000, 600_000)  # ms


def run(scale: Scale) -> Iterator[Row]:
    from benchmarks.spark import Events, Race, batch, compare
    from windlass.spark import shared_windows

    events = Events.of(scale.pick(1_000_000, 100_000), 5, scale.seed)
    asked = [_on_v(query) for query in queries(scale.pick(200, 8), scale.seed, SLIDES)]
    made = plans(asked)
    stages = _stages(asked, made, events, scale.pick(3, 1))
    scale.say(f"state: {stages}")

    def job(e: Events, options: dict[str, Any]) -> Any:
        return batch(e.rows, lambda: shared_windows(e.frame(), asked, time="ts", key="k", buckets=2, **options))

    scale.say(f"{len(made)} plans in turn")
    race = Race("plans", events, lambda e: {name: job(e, options) for name, options in made.items()})
    (jobs,) = compare(scale, race)
    for name, job_of_plan in jobs.items():
        yield {
            "plan": name,
            "events": events.rows,
            "rows": job_of_plan.rows_out.copy().pop(),
            "times": [round(t, 3) for t in job_of_plan.times],
            "state": stages[name],
        }


def _stages(asked: list[Query], made: dict[str, Any], events: Any, rounds: int) -> dict[str, list[float]]:
    """Processor seconds of the state's stage: slices of each file, then the end. The second of two runs counts."""
    files = [pq.read_table(path) for path in sorted(events.directory.glob("*.parquet"))]
    slicer = Slicer(asked, files[0].schema, time="ts", key="k")
    tables = []
    for file in files:
        slicer.process(file)
        tables.append(slicer.take())
    found: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, options in made.items():
            for _ in range(2):
                op = Operator(asked, time="ts", key="k", **options)
                op.bind(files[0].schema)
                before = time.process_time()
                for table in tables:
                    op.process_slices(table)
                op.finish()
                seconds = time.process_time() - before
            found[name].append(round(seconds, 4))
    return found


def _on_v(query: Query) -> Query:
    from dataclasses import replace

    return Query(query.name, query.window, *(replace(a, columns=("v",)) for a in query.aggregates))


def _median(row: Row, what: str = "times") -> float:
    return float(np.median(row[what]))


def tables(rows: list[Row]) -> list[Table]:
    best = {what: next(_median(r, what) for r in rows if r["plan"] == "chosen") for what in ("times", "state")}
    lines = [
        [r["plan"]]
        + [text for what in best for text in (f"{_median(r, what):.3g}", f"{_median(r, what) / best[what]:.2f}")]
        for r in sorted(rows, key=lambda r: _median(r, "state"))
    ]
    header = ["plan", "seconds of the job", "against the chosen", "of the state's stage", "against the chosen"]
    return [(f"{rows[0]['rows']:,} windows of {rows[0]['events']:,} events", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    found = []
    for what, of in (("times", "the whole job"), ("state", "the state's stage")):
        at = {r["plan"]: _median(r, what) for r in rows}
        shown = ", ".join(f"{name} {at[name] / at['chosen']:.2f}" for name in at if name != "chosen")
        found.append(f"{of}: time of the others against the chosen plan: {shown}")
    return found


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=4.2, height=3.8)
    for axes, what, title in zip(grid[0], ("times", "state"), ("the whole job", "the state's stage"), strict=True):
        shown = sorted(rows, key=lambda r: _median(r, what))
        colours = ["#D55E00" if r["plan"] == "chosen" else "#999999" for r in shown]
        axes.bar(range(len(shown)), [_median(r, what) for r in shown], 0.6, color=colours)
        axes.set_xticks(range(len(shown)), [r["plan"] for r in shown], rotation=30, ha="right")
        axes.set_title(title)
        axes.grid(axis="x", visible=False)
    grid[0][0].set_ylabel("seconds")
    return fig
