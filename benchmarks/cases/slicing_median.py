"""The median over 84 232 and over 37 distinct values (Scotty 6.3.2, Figure 14): events a second.

Sorted runs with run-length encoding are shared by the windows that overlap; buckets and the tuple buffer select in each
window anew. 20 % of the events are late by up to 2 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "The median (Scotty Figure 14)"

OTHERS = ("Tuple buckets", "Tuple buffer")
WATERMARKS = {"delay": 2 * SECOND, "every": SECOND}


def run(scale: Scale) -> Iterator[Row]:
    n, size, patience = scale.pick(1 << 19, 1 << 14), scale.pick(streams.BATCH, 1 << 12), scale.pick(0.7, 0.05)
    datasets = {"football": streams.football(n, scale.seed), "machine": streams.machine(n, scale.seed, rate=2000)}
    for data, ordered in datasets.items():
        stream = streams.disordered(ordered, seed=scale.seed)
        for number in scale.pick((1, 5, 10, 20, 50, 100), (5,)):
            scale.say(f"{data}, {number} windows")
            windows = Windows(tuple(Periodic(length, length) for length in streams.tumbling_lengths(number)))
            asked = driving.queries(windows, agg.median("value"))
            if number == 5:
                _compare(stream.head(1 << 13), windows, asked)
            courses = {
                driving.OPERATOR: driving.operator_course(stream, asked, size=size, patience=patience, **WATERMARKS)
            }
            for name in OTHERS:
                courses[name] = driving.baseline_course(
                    name, stream, windows, agg.median("value"), size=size, patience=patience, **WATERMARKS
                )
            driving.race(courses)
            yield from driving.rows(courses, data=data, windows=number)


def _compare(stream: streams.Stream, windows: Windows, asked: list[Any]) -> None:
    answers = {driving.OPERATOR: driving.operator_rows(stream, asked, **WATERMARKS)}
    for name in OTHERS:
        answers[name] = driving.baseline_rows(name, stream, windows, agg.median("value"), **WATERMARKS)
    driving.agree(answers)


def _part(rows: list[Row], data: str) -> list[Row]:
    return [r for r in rows if r["data"] == data]


def tables(rows: list[Row]) -> list[Table]:
    return [
        rates.table(_part(rows, d), "windows", f"median over the {d} stream, 20 % late", "concurrent windows")
        for d in ("football", "machine")
    ]


def findings(rows: list[Row]) -> list[str]:
    most = max(r["windows"] for r in rows)
    return [
        f"{d}, {most} windows: {rates.ratios(_part(rows, d), driving.OPERATOR, OTHERS, windows=most)}"
        for d in ("football", "machine")
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.2, sharey=True)
    for axes, data in zip(grid[0], ("football", "machine"), strict=True):
        rates.lines(axes, _part(rows, data), "windows", "concurrent windows")
        axes.set_title(f"{data}: {streams.DISTINCT[data]:,} distinct values")
    style.shared_legend(fig, grid)
    return fig
