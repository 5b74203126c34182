"""20 sliding windows over a bounded table, beside Polars and DuckDB with one thread each: seconds.

Windows of 1 to 20 s that slide by a second, sums. The peers see the whole table at once, and are asked naively, one
window after the other, and with the events of each second summed by hand first, which is what slicing does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import windlass
from benchmarks import driving, peers, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.measure import Entrant, race
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "20 sliding windows over a table, beside Polars and DuckDB"

NUMBER = 20


def run(scale: Scale) -> Iterator[Row]:
    stream = streams.football(scale.pick(1 << 20, 1 << 15), scale.seed)
    lengths = [k * SECOND for k in range(1, scale.pick(NUMBER, 5) + 1)]
    windows = Windows(tuple(Periodic(length, SECOND) for length in lengths))
    asked, (whole,) = driving.queries(windows, agg.sum("value")), stream.batches(len(stream))
    scale.say("comparing answers")
    calls = {"Windlass": lambda: driving.read(windlass.aggregate(whole, asked, time="ts"))}
    calls |= peers.windows(lengths, SECOND, stream.ts, stream.value)
    scale.say(f"racing {', '.join(calls)}")
    entrants = {name: Entrant(call, len(stream)) for name, call in calls.items()}
    race(entrants, repetitions=3)
    for name, entrant in entrants.items():
        yield {
            "technique": name,
            "windows": len(lengths),
            "events": len(stream),
            "seconds": round(entrant.seconds, 5),
            "events_per_second": round(entrant.rate),
        }


def tables(rows: list[Row]) -> list[Table]:
    first = rows[0]
    lines = [
        [
            r["technique"],
            f"{r['seconds'] * 1e3:,.4g}",
            f"{r['events_per_second'] / 1e6:.3g}",
            f"{r['seconds'] / first['seconds']:.3g}",
        ]
        for r in rows
    ]
    header = ["", "milliseconds", "million events/s", "time against Windlass"]
    return [(f"{first['windows']} sliding windows over {first['events']:,} events", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    mine = rows[0]["seconds"]
    ratios = [f"{r['technique']} {r['seconds'] / mine:.3g}" for r in rows[1:]]
    return [f"time against Windlass: {', '.join(ratios)}"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=6.5, height=3.4)
    axes = grid[0][0]
    names = [r["technique"] for r in rows]
    axes.barh(names, [r["seconds"] for r in rows], color=[style.COLOURS[name] for name in names])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds")
    axes.grid(axis="y", visible=False)
    axes.set_title(f"{rows[0]['windows']} sliding windows over {rows[0]['events']:,} events")
    return fig
