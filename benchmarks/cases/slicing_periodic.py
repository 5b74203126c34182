"""Many periodic queries on positions (Cutty 7.2, Figure 8): ⊕ calls, partials kept, and events a second.

1 to 100 queries with ranges of 20 000 to 80 000 events and slides of 1000 to 20 000, multiples of 10, drawn evenly;
the mean of the machine stream, in order. ⊕ calls are split into those made when events arrive (update) and when
windows end (merge). They are exact: baselines count them, and the operator runs interpreted over an aggregate that
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import driving, rates, streams
from benchmarks.baselines import BASELINES, Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg

TITLE = "Periodic queries on positions (Cutty Figure 8)"

OTHERS = ("Cutty", "Pairs", "Pairs+", "RA", "Naive")
COUNTED_BATCH = 1000  # what is kept is looked at after each batch


def workload(queries: int, seed: int, shrink: int = 1) -> Windows:
    rng = np.random.default_rng(seed)
    ranges = rng.integers(2_000, 8_001, 100) * 10 // shrink
    slides = rng.integers(100, 2_001, 100) * 10 // shrink
    return Windows(tuple(Periodic(int(r), int(s)) for r, s in zip(ranges[:queries], slides, strict=False)), "count")


def run(scale: Scale) -> Iterator[Row]:
    shrink = scale.pick(1, 100)
    stream = streams.machine(scale.pick(1 << 21, 1 << 14), scale.seed)
    counted = stream.head(scale.pick(1 << 18, 1 << 12))
    size, patience = scale.pick(streams.BATCH, 1 << 12), scale.pick(0.5, 0.05)
    for number in scale.pick((1, 10, 20, 40, 60, 80, 100), (1, 10)):
        scale.say(f"{number} queries")
        windows = workload(number, scale.seed, shrink)
        asked = driving.queries(windows, agg.avg("value"))
        if number <= 10:
            answers = {driving.OPERATOR: driving.operator_rows(counted, asked)}
            for name in OTHERS:
                answers[name] = driving.baseline_rows(name, counted, windows, agg.avg("value"))
            driving.agree(answers)
        courses = {driving.OPERATOR: driving.operator_course(stream, asked, size=size, patience=patience)}
        for name in OTHERS:
            courses[name] = driving.baseline_course(
                name, stream, windows, agg.avg("value"), size=size, patience=patience
            )
        driving.race(courses)
        costs = {driving.OPERATOR: _operator_costs(counted, windows)}
        costs |= {name: _baseline_costs(name, counted, windows) for name in OTHERS}
        for row in driving.rows(courses, queries=number):
            yield {**row, "counted_events": len(counted), **costs[row["technique"]]}


def _baseline_costs(name: str, stream: streams.Stream, windows: Windows) -> Row:
    baseline = BASELINES[name](windows, agg.avg("value"))
    for arrays in stream.arrays(COUNTED_BATCH):
        baseline.process(*arrays)
    return {
        "updates": baseline.updates,
        "merges": baseline.merges,
        "calls": baseline.updates + baseline.merges,
        "kept": baseline.most_kept,
    }


def _operator_costs(stream: streams.Stream, windows: Windows) -> Row:
    counted, calls = agg.counted(agg.avg("value"))
    op = driving.operator(driving.queries(windows, counted))
    kept = 0
    for batch in stream.batches(COUNTED_BATCH):
        op.process(batch)
        driving.read(op.advance())
        kept = max(kept, op.counters["slices"])
    return {"calls": calls.total, "kept": kept}


def tables(rows: list[Row]) -> list[Table]:
    names, found = rates.techniques(rows), [rates.table(rows, "queries", "mean on positions, in order", "queries")]
    for field, what in (("calls", "⊕ calls an event"), ("kept", "most partials kept")):
        lines = []
        for number in dict.fromkeys(r["queries"] for r in rows):
            at = {r["technique"]: r for r in rows if r["queries"] == number}
            cells = [
                f"{at[n][field] / at[n]['counted_events']:.3g}" if field == "calls" else f"{at[n][field]:,}"
                for n in names
            ]
            lines.append([str(number), *cells])
        found.append((what, ["queries", *names], lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    most = max(r["queries"] for r in rows)
    calls = {r["technique"]: r["calls"] for r in rows if r["queries"] == most}
    mine = calls.pop(driving.OPERATOR)
    shown = ", ".join(f"{name} {c / mine:.3g}" for name, c in calls.items())
    return [
        f"{most} queries: {rates.ratios(rows, driving.OPERATOR, OTHERS, queries=most)}",
        f"{most} queries: ⊕ calls against the operator's: {shown}",
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 3, width=5.0, height=4.0)
    rates.lines(grid[0][0], rows, "queries", "queries", log=False)
    for axes, field, label in (
        (grid[0][1], "calls", "⊕ calls an event"),
        (grid[0][2], "kept", "most partials or tuples kept"),
    ):
        for name in rates.techniques(rows):
            mine = [r for r in rows if r["technique"] == name]
            y = [r[field] / (r["counted_events"] if field == "calls" else 1) for r in mine]
            style.line(axes, name, [r["queries"] for r in mine], y)
        axes.set_yscale("log")
        axes.set_xlabel("queries")
        axes.set_ylabel(label)
    style.shared_legend(fig, grid)
    return fig
