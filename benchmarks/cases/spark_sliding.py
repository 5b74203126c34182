"""One sliding window of 60 s every second on Spark, in batch: native Spark, in two levels by hand, Windlass.

Sums, 100 keys, 1000 events a second. Windlass reads any DataFrame, or the Parquet files themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.spark import Events, Job, Periodic, Race, batch, compare, shared

TITLE = "Spark: one sliding window, 60 s every second, in batch"

NATIVE, TWO_LEVEL, FRAME, PARQUET = "native", "native, two levels", "Windlass, DataFrame", "Windlass, Parquet"


def run(scale: Scale) -> Iterator[Row]:
    events = Events.of(scale.pick(20_000_000, 200_000), 100, scale.seed)
    window = Periodic(60, 1)
    scale.say("batch")
    yield from rows_of(
        scale,
        Race(
            "batch",
            events,
            lambda e: each_way(e, window) | {TWO_LEVEL: batch(e.rows, lambda: window.two_level(e.frame()))},
        ),
    )


def each_way(e: Events, window: Periodic) -> dict[str, Job]:
    """One window by native Spark, and by Windlass over a DataFrame and over the files."""
    return {
        NATIVE: batch(e.rows, lambda: window.native(e.frame())),
        FRAME: batch(e.rows, lambda: shared(e.frame(), [window])),
        PARQUET: batch(e.rows, lambda: shared(e.parquet(), [window])),
    }


def rows_of(scale: Scale, *races: Race) -> Iterator[Row]:
    """Run races, and tell what they took."""
    for race, jobs in zip(races, compare(scale, *races), strict=True):
        for name, job in jobs.items():
            yield row_of(race, name, job)


def row_of(race: Race, name: str, job: Job) -> Row:
    return {
        "kind": race.kind,
        "technique": name,
        "rows": race.events.rows,
        "rows_out": job.rows_out.copy().pop(),
        "seconds": round(job.seconds, 4),
        "us_a_row": round(job.seconds / race.events.rows * 1e6, 4),
        "times": [round(t, 3) for t in job.times],
    }


def tables(rows: list[Row]) -> list[Table]:
    made = []
    for kind in dict.fromkeys(r["kind"] for r in rows):
        mine = [r for r in rows if r["kind"] == kind]
        native = mine[0]["seconds"]
        lines = [
            [r["technique"], f"{r['seconds']:.2f}", f"{r['us_a_row']:.3g}", f"{native / r['seconds']:.3g}"]
            for r in mine
        ]
        made.append((f"{kind}: {mine[0]['rows']:,} rows", ["", "seconds", "µs a row", "times native"], lines))
    return made


def findings(rows: list[Row]) -> list[str]:
    return [
        f"{caption}: " + ", ".join(f"{line[0]} {line[3]} times native" for line in lines[1:])
        for caption, _, lines in tables(rows)
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    fig, grid = style.figure(len(kinds), 1, width=6.5, height=1.9)
    for axes, kind in zip((row[0] for row in grid), kinds, strict=True):
        mine = [r for r in rows if r["kind"] == kind]
        colours = ["#999999" if r["technique"].startswith("native") else "#0072B2" for r in mine]
        bars = axes.barh([r["technique"] for r in mine], [r["us_a_row"] for r in mine], color=colours)
        axes.bar_label(bars, fmt="%.3g", padding=3)
        axes.invert_yaxis()
        axes.set_xlabel("µs a row")
        axes.margins(x=0.15)
        axes.grid(axis="y", visible=False)
        axes.set_title(f"{kind}, {mine[0]['rows']:,} rows")
    return fig
