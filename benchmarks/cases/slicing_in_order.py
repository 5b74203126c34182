"""Concurrent tumbling windows of 1 to 20 s over a stream in order (Scotty 6.2.1, Figure 8): events a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg

TITLE = "In order, context free windows (Scotty Figure 8)"

OTHERS = ("Pairs", "Cutty", "Buckets", "Tuple buffer", "Aggregate tree", "Naive")


def run(scale: Scale) -> Iterator[Row]:
    stream = streams.football(scale.pick(1 << 21, 1 << 14), scale.seed)
    size, patience = scale.pick(streams.BATCH, 1 << 12), scale.pick(0.5, 0.05)
    for number in scale.pick((1, 10, 20, 50, 100, 200, 500, 1000), (1, 20)):
        scale.say(f"{number} windows")
        windows = Windows(tuple(Periodic(length, length) for length in streams.tumbling_lengths(number)))
        asked = driving.queries(windows, agg.sum("value"))
        if number <= 20:
            _compare(stream.head(size), windows, asked)
        courses = {
            f"Windlass {store}": driving.operator_course(stream, asked, size=size, patience=patience, store=store)
            for store in ("lazy", "eager", "auto")
        }
        for name in OTHERS:
            courses[name] = driving.baseline_course(
                name, stream, windows, agg.sum("value"), size=size, patience=patience
            )
        driving.race(courses, repetitions=scale.pick(7, 3))  # laps are short, and some are disturbed
        yield from driving.rows(courses, windows=number)


def _compare(stream: streams.Stream, windows: Windows, asked: list[Any]) -> None:
    answers = {driving.OPERATOR: driving.operator_rows(stream, asked)}
    answers |= {name: driving.baseline_rows(name, stream, windows, agg.sum("value")) for name in OTHERS}
    driving.agree(answers)


def tables(rows: list[Row]) -> list[Table]:
    return [rates.table(rows, "windows", "sum over the football stream, in order", "concurrent windows")]


def findings(rows: list[Row]) -> list[str]:
    numbers = list(dict.fromkeys(r["windows"] for r in rows))
    lines = [
        f"{n} windows: {rates.ratios(rows, 'Windlass lazy', OTHERS, windows=n)}" for n in (numbers[0], numbers[-1])
    ]
    for name in ("Windlass lazy", "Windlass auto"):
        most, some, one = (rates.rate(rows, name, windows=n) for n in (numbers[-1], 20, numbers[0]))
        lines.append(
            f"rate of {name} with {numbers[-1]} windows / with 20 = {most / some:.2g}, with one = {most / one:.2g}"
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=7.0, height=4.4)
    rates.lines(grid[0][0], rows, "windows", "concurrent windows")
    grid[0][0].set_title("tumbling windows of 1 to 20 s, sum, in order")
    style.shared_legend(fig, grid, columns=4)
    return fig
