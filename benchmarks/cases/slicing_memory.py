"""What is kept while events may still be late (Scotty 6.2.3, Figure 10): bytes over slices and over tuples.

The watermark lags behind by the whole stream, so nothing may be forgotten. Tumbling windows on time, for which slices
are enough, and on positions, for which late events make tuples necessary. The baselines count what they keep without
spare room; of the operator it is the size of its snapshot, which leaves spare room out as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import driving, streams
from benchmarks.baselines import BASELINES, Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "Memory for what may still change (Scotty Figure 10)"

TUPLES, SLICES = 50_000, 500
OTHERS = {"time": ("Buckets", "Tuple buffer", "Aggregate tree"), "count": ("Tuple buckets", "Tuple buffer")}


def run(scale: Scale) -> Iterator[Row]:
    tuples = scale.pick(TUPLES, 5_000)
    for measure in ("time", "count"):
        for slices in scale.pick((1, 10, 100, 500, 1000, 5000, 10_000), (10, 100)):
            scale.say(f"{measure}, {slices} slices, {tuples} tuples")
            yield from _kept(scale, measure, "slices", slices, tuples)
        for number in scale.pick((1000, 5000, 10_000, 50_000, 100_000, 500_000), (1000, 5000)):
            slices = scale.pick(SLICES, 50)
            scale.say(f"{measure}, {slices} slices, {number} tuples")
            yield from _kept(scale, measure, "tuples", slices, number)


def _kept(scale: Scale, measure: str, varied: str, slices: int, tuples: int) -> Iterator[Row]:
    ordered = streams.football(tuples, scale.seed, gaps=False)
    stream = streams.disordered(ordered, 0.2, (0, SECOND), scale.seed)
    span = int(ordered.ts[-1]) + 1
    watermarks = {"delay": 10 * span + SECOND, "every": SECOND}
    length = -(-(tuples if measure == "count" else span) // slices)
    windows = Windows((Periodic(length, length),), measure)

    kept: dict[str, int] = {}
    held: dict[str, Row] = {}
    for store in ("lazy", "eager"):
        op = driving.operator(driving.queries(windows, agg.sum("value")), store=store, **watermarks)
        for batch in stream.batches():
            op.process(batch)
            op.advance()
        kept[f"Windlass {store}"] = len(op.snapshot())
        held[f"Windlass {store}"] = {name: op.counters[name] for name in ("slices", "tuples")}
    for name in OTHERS[measure]:
        # Buckets cannot tell the positions of late events; windows on time that hold as many tuples take as much room.
        alike = Windows((Periodic(-(-span // slices), -(-span // slices)),)) if name == "Tuple buckets" else windows
        baseline = BASELINES[name](alike, agg.sum("value"), **watermarks)
        for arrays in stream.arrays():
            baseline.process(*arrays)
        kept[name] = baseline.nbytes
    for name, nbytes in kept.items():
        yield {
            "measure": measure,
            "varied": varied,
            "slices": slices,
            "tuples": tuples,
            "technique": name,
            "nbytes": nbytes,
            "held": held.get(name),
        }


def _part(rows: list[Row], measure: str, varied: str) -> list[Row]:
    return [r for r in rows if (r["measure"], r["varied"]) == (measure, varied)]


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for measure, varied in dict.fromkeys((r["measure"], r["varied"]) for r in rows):
        part = _part(rows, measure, varied)
        names = list(dict.fromkeys(r["technique"] for r in part))
        lines = []
        for value in dict.fromkeys(r[varied] for r in part):
            cells = {r["technique"]: r["nbytes"] / 1e3 for r in part if r[varied] == value}
            lines.append([f"{value:,}", *(f"{cells[name]:,.3g}" for name in names)])
        fixed = f"{part[0]['tuples']:,} tuples" if varied == "slices" else f"{part[0]['slices']:,} slices"
        found.append((f"windows on {measure}, {fixed}: kilobytes kept", [varied, *names], lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for measure in ("time", "count"):
        part = _part(rows, measure, "tuples")
        low, high = part[0]["tuples"], part[-1]["tuples"]
        growth = {
            name: _nbytes(part, name, high) / _nbytes(part, name, low)
            for name in dict.fromkeys(r["technique"] for r in part)
        }
        shown = ", ".join(f"{name} {factor:.3g}" for name, factor in growth.items())
        lines.append(f"{measure}: {high // low} times the tuples take so many times the bytes: {shown}")
    return lines


def _nbytes(part: list[Row], technique: str, tuples: int) -> int:
    (found,) = (r["nbytes"] for r in part if r["technique"] == technique and r["tuples"] == tuples)
    return int(found)


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(2, 2, sharey=True)
    for line, measure in enumerate(("time", "count")):
        for column, varied in enumerate(("slices", "tuples")):
            axes, part = grid[line][column], _part(rows, measure, varied)
            for name in dict.fromkeys(r["technique"] for r in part):
                points = [(r[varied], r["nbytes"]) for r in part if r["technique"] == name]
                style.line(axes, name, *zip(*points, strict=True))
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(varied)
            axes.set_ylabel("bytes kept")
            fixed = f"{part[0]['tuples']:,} tuples" if varied == "slices" else f"{part[0]['slices']:,} slices"
            axes.set_title(f"windows on {measure}, {fixed}")
    style.shared_legend(fig, grid, columns=3)
    return fig
