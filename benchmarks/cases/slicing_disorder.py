"""Concurrent windows and a session, a fifth of the events late (Scotty 6.2.2, Figure 9): events a second.

Tumbling windows of 1 to 20 s, a session with a gap of 1 s, 20 % of the events delayed by up to 2 s, a watermark each
second that lags 2 s behind: no event comes after its watermark. Football and machine data.
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

TITLE = "A fifth of the events late, with sessions (Scotty Figure 9)"

OTHERS = ("Buckets", "Tuple buffer", "Aggregate tree")
WATERMARKS = {"delay": 2 * SECOND, "every": SECOND}


def run(scale: Scale) -> Iterator[Row]:
    n = scale.pick(1 << 20, 1 << 14)
    size, patience = scale.pick(streams.BATCH, 1 << 12), scale.pick(0.5, 0.05)
    datasets = {"football": streams.football(n, scale.seed), "machine": streams.machine(n, scale.seed, rate=2000)}
    for data, ordered in datasets.items():
        stream = streams.disordered(ordered, seed=scale.seed)
        for number in scale.pick((1, 10, 20, 50, 100, 200, 500, 1000), (1, 20)):
            if data == "machine" and number not in scale.pick((20, 1000), (20,)):
                continue
            scale.say(f"{data}, {number} windows and a session")
            windows = Windows(
                tuple(Periodic(length, length) for length in streams.tumbling_lengths(number)), gap=SECOND
            )
            asked = driving.queries(windows, agg.sum("value"))
            if number <= 20:
                _compare(stream.head(size), windows, asked)
            courses = {
                f"Windlass {store}": driving.operator_course(
                    stream, asked, size=size, patience=patience, store=store, **WATERMARKS
                )
                for store in ("lazy", "eager")
            }
            for name in OTHERS:
                courses[name] = driving.baseline_course(
                    name, stream, windows, agg.sum("value"), size=size, patience=patience, **WATERMARKS
                )
            driving.race(courses)
            yield from driving.rows(courses, data=data, windows=number)


def _compare(stream: streams.Stream, windows: Windows, asked: list[Any]) -> None:
    answers = {driving.OPERATOR: driving.operator_rows(stream, asked, **WATERMARKS)}
    answers |= {name: driving.baseline_rows(name, stream, windows, agg.sum("value"), **WATERMARKS) for name in OTHERS}
    driving.agree(answers)


def tables(rows: list[Row]) -> list[Table]:
    return [
        rates.table(
            [r for r in rows if r["data"] == data],
            "windows",
            f"sum over the {data} stream, 20 % late by up to 2 s, with a session",
            "concurrent windows",
        )
        for data in dict.fromkeys(r["data"] for r in rows)
    ]


def findings(rows: list[Row]) -> list[str]:
    football = [r for r in rows if r["data"] == "football"]
    numbers = list(dict.fromkeys(r["windows"] for r in football))
    lines = [
        f"{n} windows: {rates.ratios(football, 'Windlass lazy', ('Windlass eager', *OTHERS), windows=n)}"
        for n in (numbers[0], numbers[-1])
    ]
    kept = rates.rate(football, "Windlass lazy", windows=numbers[-1])
    return [
        *lines,
        f"rate of Windlass lazy with {numbers[-1]} windows / with one = "
        f"{kept / rates.rate(football, 'Windlass lazy', windows=1):.2g}",
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=7.0, height=4.4)
    rates.lines(grid[0][0], [r for r in rows if r["data"] == "football"], "windows", "concurrent windows")
    grid[0][0].set_title("tumbling windows of 1 to 20 s and a session, football stream, 20 % late by up to 2 s")
    style.shared_legend(fig, grid, columns=3)
    return fig
