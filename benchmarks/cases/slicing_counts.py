"""Windows on positions as more events come late, and later: events a second, 20 concurrent windows.

An event that comes late changes the position of every event after it. What is not final is kept as tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.cases import Scale, Table
from benchmarks.cases.slicing_functions import windows_on
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "Windows on positions under disorder"

NUMBER = 20
OTHERS = ("Tuple buffer", "Aggregate tree")
AGGREGATES = {"sum": agg.sum, "max": agg.max}


def run(scale: Scale) -> Iterator[Row]:
    ordered = streams.football(scale.pick(1 << 20, 1 << 14), scale.seed)
    windows = windows_on("count", NUMBER)
    for aggregate in scale.pick(("sum", "max"), ("sum",)):
        for fraction in scale.pick((0.0, 0.05, 0.2, 0.5, 1.0), (0.2,)):
            for delay in scale.pick((2 * SECOND,) if aggregate == "max" else (SECOND // 5, 2 * SECOND), (2 * SECOND,)):
                scale.say(f"{aggregate}, {fraction:.0%} late by up to {delay / SECOND} s")
                stream = streams.disordered(ordered, fraction, (0, delay), scale.seed)
                options: dict[str, Any] = {"size": scale.pick(streams.BATCH, 1 << 12), "delay": delay, "every": SECOND}
                options["patience"] = scale.pick(0.5, 0.05)
                made = AGGREGATES[aggregate]("value")
                courses = {driving.OPERATOR: driving.operator_course(stream, driving.queries(windows, made), **options)}
                for name in OTHERS:
                    courses[name] = driving.baseline_course(name, stream, windows, made, **options)
                driving.race(courses)
                yield from driving.rows(courses, aggregate=aggregate, fraction=fraction, delay=delay / SECOND)


def _parts(rows: list[Row]) -> list[tuple[str, float]]:
    return list(dict.fromkeys((r["aggregate"], r["delay"]) for r in rows))


def _part(rows: list[Row], part: tuple[str, float]) -> list[Row]:
    return [r for r in rows if (r["aggregate"], r["delay"]) == part]


def tables(rows: list[Row]) -> list[Table]:
    return [
        rates.table(
            _part(rows, p), "fraction", f"{p[0]} on positions, late by up to {p[1]:g} s", "late", "{:.0%}".format
        )
        for p in _parts(rows)
    ]


def findings(rows: list[Row]) -> list[str]:
    return [
        f"{p[0]}, 20 % late by up to {p[1]:g} s: {rates.ratios(_part(rows, p), driving.OPERATOR, OTHERS, fraction=0.2)}"
        for p in _parts(rows)
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    parts = _parts(rows)
    fig, grid = style.figure(1, len(parts), width=5.0, height=4.0, sharey=True)
    for axes, part in zip(grid[0], parts, strict=True):
        rates.lines(axes, _part(rows, part), "fraction", "share of events that are late", log=False)
        axes.set_title(f"{part[0]}, late by up to {part[1]:g} s")
    style.shared_legend(fig, grid)
    return fig
