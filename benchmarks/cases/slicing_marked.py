"""Many queries whose windows the data ends (Cutty 7.3, Figure 9): ⊕ calls, partials kept, and events a second.

Each query follows a binary sensor of the machine stream: a change ends the open window and begins the next. The
sensors change at rates from once in 2 s to once in 5 min. In order. For Cutty and RA the changes are found with NumPy,
a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import windlass
from benchmarks import driving, rates, streams
from benchmarks.baselines import BASELINES
from benchmarks.baselines.schedule import Marked
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg
from windlass.aggregates.aggregate import Aggregate

TITLE = "Windows that the data ends (Cutty Figure 9)"

OTHERS = ("Cutty", "RA")
COUNTED_BATCH = 1000


def run(scale: Scale) -> Iterator[Row]:
    size, patience = scale.pick(streams.BATCH, 1 << 12), scale.pick(0.7, 0.05)
    for number in scale.pick((1, 5, 10, 20, 40, 60, 80, 100), (1, 5)):
        scale.say(f"{number} queries")
        stream = streams.with_sensors(streams.machine(scale.pick(1 << 19, 1 << 14), scale.seed), number, scale.seed)
        changes = [f"change_{k}" for k in range(number)]
        counted = stream.head(scale.pick(1 << 17, 1 << 12))
        if number <= 10:
            _compare(counted, number, changes)
        courses = {
            driving.OPERATOR: driving.operator_course(
                stream, _queries(number, agg.avg("value")), size=size, patience=patience
            )
        }
        for name in OTHERS:
            courses[name] = driving.baseline_course(
                name, stream, lambda n=number: Marked(n), agg.avg("value"), size=size, patience=patience, extra=changes
            )
        driving.race(courses)
        costs = {driving.OPERATOR: _operator_costs(counted, number)}
        costs |= {name: _baseline(name, counted, number, changes)[1] for name in OTHERS}
        for row in driving.rows(courses, queries=number):
            yield {**row, "counted_events": len(counted), **costs[row["technique"]]}


def _queries(number: int, aggregate: Aggregate) -> list[Any]:
    return [windlass.Query(f"q{k}", windlass.Punctuation(f"change_{k}"), aggregate) for k in range(number)]


def _compare(stream: streams.Stream, number: int, changes: list[str]) -> None:
    """The bounds differ, times there and positions here, but the values must be the same."""
    values = {}
    for name in OTHERS:
        values[name] = sorted((q, round(v, 9)) for q, _, _, v in _baseline(name, stream, number, changes)[0])
    mine = driving.operator_rows(stream, _queries(number, agg.avg("value")))
    values[driving.OPERATOR] = sorted((q, round(v, 9)) for q, _, _, v in mine)
    for name, found in values.items():
        assert found == values["RA"], f"{name} gives {len(found)} answers other than those of RA, {len(values['RA'])}"


def _baseline(name: str, stream: streams.Stream, number: int, changes: list[str]) -> tuple[list[Any], Row]:
    baseline, found = BASELINES[name](Marked(number), agg.avg("value")), []
    columns = [stream.ts, stream.value, *(stream.columns[change] for change in changes)]
    for start in range(0, len(stream), COUNTED_BATCH):
        found += baseline.process(*(c[start : start + COUNTED_BATCH] for c in columns)).rows()
    return found, {"calls": baseline.updates + baseline.merges, "kept": baseline.most_kept}


def _operator_costs(stream: streams.Stream, number: int) -> Row:
    counted, calls = agg.counted(agg.avg("value"))
    op, kept = driving.operator(_queries(number, counted)), 0
    for batch in stream.batches(COUNTED_BATCH):
        op.process(batch)
        driving.read(op.advance())
        kept = max(kept, op.counters["slices"])
    return {"calls": calls.total, "kept": kept}


def tables(rows: list[Row]) -> list[Table]:
    names, found = rates.techniques(rows), [rates.table(rows, "queries", "mean between changes, in order", "queries")]
    for field, what in (("calls", "⊕ calls an event"), ("kept", "most partials or tuples kept")):
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
    lines = []
    for number in (1, max(r["queries"] for r in rows)):
        calls = {r["technique"]: r["calls"] for r in rows if r["queries"] == number}
        lines.append(
            f"{number} queries: {rates.ratios(rows, driving.OPERATOR, OTHERS, queries=number)}; "
            f"⊕ calls of RA / of the operator = {calls['RA'] / calls[driving.OPERATOR]:.3g}"
        )
    return lines


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
