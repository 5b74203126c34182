"""A bucket a window against shared slices, as windows overlap more and events come later (FiBA Figures 16 and 17, in
spirit): events a second.

FiBA puts its tree beside Flink's bucket for each window. Here the operator stands beside buckets: one sliding window
that slides by a second, from 1 s to 1024 s long; and one of 128 s with ever greater delays, up to half of it.
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

TITLE = "Against a bucket a window (FiBA Figures 16 and 17)"

OTHERS = ("Buckets", "Aggregate tree")
FIXED = 128  # s


def run(scale: Scale) -> Iterator[Row]:
    n = scale.pick(1 << 22, 1 << 15)  # 35 minutes, twice the longest window
    ordered = streams.football(n, scale.seed)
    for seconds in scale.pick((1, 4, 16, 64, 256, 1024), (1, 4)):
        scale.say(f"in order, a window of {seconds} s")
        yield from _race(scale, ordered, "window", seconds, seconds, None)
    for delay in scale.pick((0.25, 1, 4, 16, 64), (0.25, 1)):
        length = scale.pick(FIXED, 4)
        scale.say(f"a window of {length} s, half of the events late by up to {delay} s")
        yield from _race(scale, ordered, "delay", delay, length, int(delay * SECOND))


def _race(
    scale: Scale, ordered: streams.Stream, varied: str, value: float, length: int, delay: int | None
) -> Iterator[Row]:
    stream = ordered if delay is None else streams.disordered(ordered, 0.5, (0, delay), scale.seed)
    options: dict[str, Any] = {"size": scale.pick(streams.BATCH, 1 << 12), "patience": scale.pick(0.7, 0.05)}
    options |= {} if delay is None else {"delay": delay, "every": SECOND}
    windows = Windows((Periodic(length * SECOND, SECOND),))
    asked = driving.queries(windows, agg.sum("value"))
    courses = {
        f"Windlass {store}": driving.operator_course(stream, asked, store=store, **options)
        for store in ("lazy", "eager")
    }
    for name in OTHERS:
        # Each late event moves a tail of the tree of tuples: beyond a second that is all it does.
        if name == "Aggregate tree" and (delay or 0) > SECOND:
            continue
        courses[name] = driving.baseline_course(name, stream, windows, agg.sum("value"), **options)
    driving.race(courses)
    yield from driving.rows(courses, varied=varied, value=value)


def _part(rows: list[Row], varied: str) -> list[Row]:
    return [r for r in rows if r["varied"] == varied]


def tables(rows: list[Row]) -> list[Table]:
    caption = f"window of {FIXED} s, half of the events late"
    return [
        rates.table(_part(rows, "window"), "value", "in order, sliding by 1 s", "window, s"),
        rates.table(_part(rows, "delay"), "value", caption, "delay up to, s", "{:g}".format),
    ]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for varied, what in (("window", "longest window"), ("delay", "longest delay")):
        part = _part(rows, varied)
        most = part[-1]["value"]
        lines.append(f"{what}: {rates.ratios(part, 'Windlass lazy', ('Windlass eager', *OTHERS), value=most)}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.2, sharey=True)
    rates.lines(grid[0][0], _part(rows, "window"), "value", "window (s), sliding by 1 s")
    rates.lines(grid[0][1], _part(rows, "delay"), "value", "half of the events late by up to (s)")
    grid[0][0].set_title("in order")
    grid[0][1].set_title(f"window of {FIXED} s")
    style.shared_legend(fig, grid)
    return fig
