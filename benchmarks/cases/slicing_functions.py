"""Aggregate functions, on time and on positions (Scotty 6.3.2, Figure 13): events a second of the operator.

20 concurrent windows, 20 % of the events late by up to 2 s. On positions a late event moves others from slice to
slice: where ⊕ has an inverse they are subtracted, extremes are computed anew only if the extreme left, and the sum
without its inverse shows what any other aggregate pays. The functions are those of Tangwongsan et al., and two
holistic ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg
from windlass.aggregates.aggregate import Aggregate

TITLE = "Aggregate functions, on time and on positions (Scotty Figure 13)"

NUMBER = 20

sum_without_inverse = agg.define(
    "sum_without_inverse",
    lift=lambda x: (x,),
    combine=lambda a, b: (a[0] + b[0],),
    lower=lambda p: p[0],
    identity=(0,),
    commutative=True,
)

FUNCTIONS: dict[str, Callable[[], Aggregate]] = {
    "count": lambda: agg.count(),
    "sum": lambda: agg.sum("value"),
    "sum w/o inverse": lambda: sum_without_inverse("value"),
    "avg": lambda: agg.avg("value"),
    "stddev": lambda: agg.stddev("value"),
    "geomean": lambda: agg.geomean("value"),
    "min": lambda: agg.min("value"),
    "max": lambda: agg.max("value"),
    "min_count": lambda: agg.min_count("value"),
    "max_count": lambda: agg.max_count("value"),
    "arg_min": lambda: agg.arg_min("ts", by="value"),
    "arg_max": lambda: agg.arg_max("ts", by="value"),
    "m4": lambda: agg.m4("value"),
    "median": lambda: agg.median("value"),
    "90th percentile": lambda: agg.percentile("value", 90),
}


def run(scale: Scale) -> Iterator[Row]:
    stream = streams.disordered(streams.football(scale.pick(1 << 20, 1 << 14), scale.seed), seed=scale.seed)
    size, patience = scale.pick(streams.BATCH, 1 << 12), scale.pick(1.0, 0.05)
    for measure in ("time", "count"):
        windows = windows_on(measure, NUMBER)
        for name in scale.pick(tuple(FUNCTIONS), ("sum", "median")):
            scale.say(f"{measure}: {name}")
            course = driving.operator_course(
                stream,
                driving.queries(windows, FUNCTIONS[name]()),
                size=size,
                patience=patience,
                delay=2 * SECOND,
                every=SECOND,
            )
            driving.race({driving.OPERATOR: course})
            yield from driving.rows({driving.OPERATOR: course}, function=name, measure=measure)


def windows_on(measure: str, number: int) -> Windows:
    """Tumbling windows of 1 to 20 s, or of as many events as come in that time."""
    lengths = streams.tumbling_lengths(number)
    if measure == "count":
        lengths = [length * streams.RATE["football"] // SECOND for length in lengths]
    return Windows(tuple(Periodic(length, length) for length in lengths), measure)


def tables(rows: list[Row]) -> list[Table]:
    lines = []
    for name in dict.fromkeys(r["function"] for r in rows):
        at = {r["measure"]: r["events_per_second"] / 1e6 for r in rows if r["function"] == name}
        lines.append([name, f"{at['time']:.3g}", f"{at['count']:.3g}", f"{at['count'] / at['time']:.2g}"])
    header = ["function", "on time", "on positions", "ratio"]
    return [(f"{NUMBER} concurrent windows, 20 % late: million events/s of the operator", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    at = {(r["measure"], r["function"]): r["events_per_second"] for r in rows}
    lines = []
    for measure in ("time", "count"):
        holistic = [at[measure, f] for f in ("median", "90th percentile") if (measure, f) in at]
        others = {f: v for (m, f), v in at.items() if m == measure and v not in holistic}
        lines.append(
            f"{measure}: slowest / fastest of the others = {min(others.values()) / max(others.values()):.2g}; "
            f"median / sum = {at[measure, 'median'] / at[measure, 'sum']:.2g}"
        )
    if ("count", "sum w/o inverse") in at:
        lost = at["count", "sum w/o inverse"] / at["count", "sum"]
        lines.append(f"on positions: sum without its inverse / sum = {lost:.2g}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=9.0, height=4.2)
    axes, names = grid[0][0], list(dict.fromkeys(r["function"] for r in rows))
    for k, (measure, colour) in enumerate((("time", "#0072B2"), ("count", "#E69F00"))):
        heights = [rates.rate(rows, driving.OPERATOR, function=name, measure=measure) for name in names]
        label = "windows on time" if measure == "time" else "windows on positions"
        axes.bar([i + (k - 0.5) * 0.4 for i in range(len(names))], heights, 0.38, color=colour, label=label)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yscale("log")
    axes.set_ylabel("events per second")
    axes.grid(axis="x", visible=False)
    style.shared_legend(fig, grid)
    return fig
