"""How much comes late, and how late (Scotty 6.3.1, Figure 12): events a second, 20 concurrent windows and a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "The share and the delay of late events (Scotty Figure 12)"

NUMBER = 20
OTHERS = ("Buckets", "Tuple buffer", "Aggregate tree")


def run(scale: Scale) -> Iterator[Row]:
    ordered = streams.football(scale.pick(1 << 20, 1 << 14), scale.seed)
    for fraction in scale.pick((0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), (0.0, 0.5)):
        scale.say(f"{fraction:.0%} late by up to 2 s")
        yield from _race(scale, ordered, "fraction", fraction, fraction, 2 * SECOND)
    for delay in scale.pick((SECOND // 100, SECOND // 10, SECOND // 2, SECOND, 2 * SECOND, 4 * SECOND), (SECOND,)):
        scale.say(f"20 % late by up to {delay / SECOND} s")
        yield from _race(scale, ordered, "delay", delay / SECOND, 0.2, delay)


def _race(
    scale: Scale, ordered: streams.Stream, varied: str, value: float, fraction: float, delay: int
) -> Iterator[Row]:
    stream = streams.disordered(ordered, fraction, (0, delay), scale.seed)
    options: dict[str, Any] = {"size": scale.pick(streams.BATCH, 1 << 12), "patience": scale.pick(0.5, 0.05)}
    options |= {"delay": delay, "every": SECOND}
    windows = Windows(tuple(Periodic(length, length) for length in streams.tumbling_lengths(NUMBER)), gap=SECOND)
    asked = driving.queries(windows, agg.sum("value"))
    courses = {
        f"Windlass {store}": driving.operator_course(stream, asked, store=store, **options)
        for store in ("lazy", "eager")
    }
    for name in OTHERS:
        courses[name] = driving.baseline_course(name, stream, windows, agg.sum("value"), **options)
    driving.race(courses)
    yield from driving.rows(courses, varied=varied, value=value)


def _part(rows: list[Row], varied: str) -> list[Row]:
    return [r for r in rows if r["varied"] == varied]


def tables(rows: list[Row]) -> list[Table]:
    return [
        rates.table(_part(rows, "fraction"), "value", "delays up to 2 s", "late", "{:.0%}".format),
        rates.table(_part(rows, "delay"), "value", "20 % of the events late", "delay up to, s", "{:g}".format),
    ]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for varied, what in (("fraction", "share of late events"), ("delay", "delay")):
        part = _part(rows, varied)
        low, high = part[0]["value"], part[-1]["value"]
        changes = [
            f"{name} {rates.rate(part, name, value=high) / rates.rate(part, name, value=low):.2g}"
            for name in rates.techniques(part)
        ]
        lines.append(f"rate at the greatest {what} / at the least: {', '.join(changes)}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.2, sharey=True)
    rates.lines(grid[0][0], _part(rows, "fraction"), "value", "share of events that are late", log=False)
    rates.lines(grid[0][1], _part(rows, "delay"), "value", "delays up to (s)")
    grid[0][0].set_title("delays up to 2 s")
    grid[0][1].set_title("20 % of the events late")
    style.shared_legend(fig, grid, columns=5)
    return fig
