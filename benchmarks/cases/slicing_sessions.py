"""Sessions with a gap of 1 s, in order and with a fifth of the events late, for one key and for many: events a second.

Beside buckets and the tuple buffer for one key, and Polars and DuckDB, which sort a table that is there as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import windlass
from benchmarks import driving, peers, rates, streams
from benchmarks.baselines import Windows
from benchmarks.cases import Scale, Table
from benchmarks.measure import Entrant, race
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "Sessions"

OTHERS = ("Buckets", "Tuple buffer", "Aggregate tree")


def run(scale: Scale) -> Iterator[Row]:
    n = scale.pick(1 << 20, 1 << 14)
    options: dict[str, Any] = {"size": scale.pick(streams.BATCH, 1 << 12), "patience": scale.pick(0.7, 0.05)}
    for order in ("in order", "20 % late"):
        watermarks = {} if order == "in order" else {"delay": 2 * SECOND, "every": SECOND}
        for keys in scale.pick((1, 1000, 100_000), (1, 100)):
            scale.say(f"{order}, {keys} keys")
            stream = streams.keyed(streams.football(n, scale.seed), keys, scale.seed)
            if watermarks:
                stream = streams.disordered(stream, seed=scale.seed)
            asked = [windlass.Query("q0", windlass.Session(SECOND), agg.sum("value"))]
            courses = {}
            if keys == 1:
                windows = Windows((), gap=SECOND)
                _compare(stream.head(1 << 14), windows, asked, watermarks)
                courses[driving.OPERATOR] = driving.operator_course(stream, asked, **options, **watermarks)
                for name in OTHERS:
                    courses[name] = driving.baseline_course(
                        name, stream, windows, agg.sum("value"), **options, **watermarks
                    )
            else:
                courses[driving.OPERATOR] = driving.operator_course(stream, asked, key="key", **options, **watermarks)
            driving.race(courses)
            labels = {"order": order, "keys": keys}
            yield from driving.rows(courses, **labels)
            calls = peers.keyed_sessions(SECOND, stream.ts, stream.columns["key"], stream.value)
            entrants = {name: Entrant(call, len(stream)) for name, call in calls.items()}
            race(entrants, repetitions=3, patience=0.5)
            for name, entrant in entrants.items():
                rate = round(entrant.rate)
                yield {
                    **labels,
                    "technique": name,
                    "events": len(stream),
                    "results": calls[name](),
                    "events_per_second": rate,
                }


def _compare(stream: streams.Stream, windows: Windows, asked: list[Any], watermarks: dict[str, int]) -> None:
    answers = {driving.OPERATOR: driving.operator_rows(stream, asked, **watermarks)}
    for name in OTHERS:
        answers[name] = driving.baseline_rows(name, stream, windows, agg.sum("value"), **watermarks)
    driving.agree(answers)


def _part(rows: list[Row], order: str) -> list[Row]:
    return [r for r in rows if r["order"] == order]


def _orders(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(r["order"] for r in rows))


def tables(rows: list[Row]) -> list[Table]:
    return [rates.table(_part(rows, o), "keys", f"sessions, {o}", "keys", "{:,}".format) for o in _orders(rows)]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for order in _orders(rows):
        part = _part(rows, order)
        for keys in (1, max(r["keys"] for r in part)):
            others = (*OTHERS, "Polars", "DuckDB")
            lines.append(f"{order}, {keys:,} keys: {rates.ratios(part, driving.OPERATOR, others, keys=keys)}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.0, sharey=True)
    for axes, order in zip(grid[0], _orders(rows), strict=True):
        rates.bars(axes, _part(rows, order), "keys")
        axes.set_xlabel("keys")
        axes.set_title(order)
    style.shared_legend(fig, grid)
    return fig
