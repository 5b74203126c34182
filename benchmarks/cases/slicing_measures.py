"""Windows on time and on positions (Scotty 6.3.4, Figure 16): events a second, 20 % of the events late by up to 2 s.

On positions, a late event moves an event from every later slice into the next, and the more windows there are, the
smaller the slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.baselines import Windows
from benchmarks.cases import Scale, Table
from benchmarks.cases.slicing_functions import windows_on
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "Windows on time and on positions (Scotty Figure 16)"

OTHERS = {"time": ("Buckets", "Tuple buffer"), "count": ("Tuple buffer", "Aggregate tree")}
WATERMARKS = {"delay": 2 * SECOND, "every": SECOND}


def run(scale: Scale) -> Iterator[Row]:
    stream = streams.disordered(streams.football(scale.pick(1 << 20, 1 << 15), scale.seed), seed=scale.seed)
    options: dict[str, Any] = {"size": scale.pick(streams.BATCH, 1 << 12), "patience": scale.pick(0.5, 0.05)}
    options |= WATERMARKS
    for measure in ("time", "count"):
        for number in scale.pick((1, 10, 20, 40, 100, 200, 500, 1000), (1, 20)):
            scale.say(f"{measure}, {number} windows")
            windows = windows_on(measure, number)
            asked = driving.queries(windows, agg.sum("value"))
            if number <= 20:
                _compare(stream.head(1 << 16), measure, windows, asked)
            courses = {driving.OPERATOR: driving.operator_course(stream, asked, **options)}
            for name in OTHERS[measure]:
                courses[name] = driving.baseline_course(name, stream, windows, agg.sum("value"), **options)
            driving.race(courses)
            yield from driving.rows(courses, measure=measure, windows=number)


def _compare(stream: streams.Stream, measure: str, windows: Windows, asked: list[Any]) -> None:
    answers = {driving.OPERATOR: driving.operator_rows(stream, asked, **WATERMARKS)}
    for name in OTHERS[measure]:
        answers[name] = driving.baseline_rows(name, stream, windows, agg.sum("value"), **WATERMARKS)
    driving.agree(answers)


def _part(rows: list[Row], measure: str) -> list[Row]:
    return [r for r in rows if r["measure"] == measure]


def tables(rows: list[Row]) -> list[Table]:
    return [
        rates.table(_part(rows, m), "windows", f"windows on {what}, sum, 20 % late", "concurrent windows")
        for m, what in (("time", "time"), ("count", "positions"))
    ]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for measure in ("time", "count"):
        part = _part(rows, measure)
        most = max(r["windows"] for r in part)
        kept = rates.rate(part, driving.OPERATOR, windows=most) / rates.rate(part, driving.OPERATOR, windows=1)
        lines.append(
            f"{measure}, {most} windows: {rates.ratios(part, driving.OPERATOR, OTHERS[measure], windows=most)}; "
            f"rate / with one window = {kept:.2g}"
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.2, sharey=True)
    for axes, measure in zip(grid[0], ("time", "count"), strict=True):
        rates.lines(axes, _part(rows, measure), "windows", "concurrent windows")
        axes.set_title("windows on time" if measure == "time" else "windows on positions")
    style.shared_legend(fig, grid)
    return fig
