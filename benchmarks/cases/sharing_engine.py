"""Calibration of the engine: nanoseconds for each event, slice, ⊕ and answer of a tree, in the embedded operator.

One tree at a time, pinned to a technique, over random queries: slides, overlaps, aggregates, keys and batches differ;
for events in order without keys (Cutty) and in any order (general slicing). Processor times after the windows have
filled are fitted by least squares of relative errors, no constant below zero; what is counted is what the cost model
says. The result is `src/windlass/operator/costs.json`, which `python -m benchmarks.cases.sharing_engine` writes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import fitting, results
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import Operator, Query, Sliding, agg
from windlass.operator.costs import STORES, TITLES, Constants, Counts, Observed, features, flat, to_json
from windlass.operator.trees import Asked, Group

TITLE = "Calibration of the engine's costs, by technique"
TABLE = Path(__file__).resolve().parents[2] / "src" / "windlass" / "operator" / "costs.json"
ENGINES = {"in order": ("in-order", False), "general": ("out-of-order", False), "general, keys": ("out-of-order", True)}
AGGREGATES = {
    "sum": [agg.sum("x")],
    "four": [agg.sum("x"), agg.max("x"), agg.min("x"), agg.count("x")],
    "stddev": [agg.stddev("x")],
    "sketch": [agg.approx_count_distinct("x", precision=10)],
    "median": [agg.median("x")],
}


def queries(number: int, slides: list[int], overlap: int, kind: str, rng: np.random.Generator) -> list[Query]:
    found = []
    for k in range(number):
        slide = int(rng.choice(slides))
        length = slide * int(rng.integers(overlap // 2, overlap) + 1)
        found.append(Query(str(k), Sliding(length, slide), *AGGREGATES[kind]))
    return found


def run(scale: Scale) -> Iterator[Row]:
    rng = np.random.default_rng(scale.seed)
    grids = ([1], [2, 3], [5], [10, 25], [100], [200, 500], [1000, 4000])
    for k in range(scale.pick(48, 2)):
        kind = str(rng.choice(list(AGGREGATES), p=(0.4, 0.25, 0.1, 0.15, 0.1)))
        fine = kind in ("sum", "four", "stddev")
        grid = grids[int(rng.integers(0 if fine else 4, len(grids)))] if scale.pick(1, 0) else [50]
        n = scale.pick(1 << 17, 1 << 12) >> (0 if fine else 2)
        most = max(1, min(int(rng.choice((4, 64, 2048, 1 << 17))), n // grid[-1]))
        number = int(rng.choice((1, 1, 4, 16)))
        chosen = queries(number, grid, most, kind, rng)
        for engine, (order, keyed) in ENGINES.items():
            keys = int(rng.choice((10, 100, 1000))) if keyed else 1
            for technique in STORES:
                if technique == "blocks" and kind == "median":
                    continue  # the same as a tree
                row = measured(chosen, technique, order, keys if keyed else 0, n, int(rng.choice((1 << 12, 1 << 16))))
                if row:
                    yield {"engine": engine, "aggregates": kind, "queries": number, **row}
        scale.say(f"{k}: {number} queries of {kind}, slides {grid}, overlaps up to {most}")


def measured(chosen: list[Query], technique: str, order: Any, keys: int, n: int, batch: int) -> Row | None:
    """A tree over `n` events, one in a unit of time, after as many to fill its windows."""
    batch = min(batch, n // 2)
    asked = Asked(order == "in-order", keys > 0, "auto", "auto", technique, None)
    counts = Group(chosen, asked, Observed(1.0, max(1, keys), batch), {}).counts()
    if counts.operations[technique] * counts.partials > 500 or counts.answers > 20:
        return None
    rng = np.random.default_rng(n)
    table = pa.table(
        {
            "ts": np.arange(2 * n),
            "x": rng.integers(0, 1 << 20, 2 * n).astype(np.float64),
            "k": rng.integers(0, max(1, keys), 2 * n),
        }
    )
    op = Operator(
        chosen, time="ts", key="k" if keys else None, order=order, plan=[([q.name for q in chosen], technique)]
    )
    times = []
    for i in range(0, 2 * n, batch):
        part = table.slice(i, batch)
        before = time.process_time_ns()
        op.process(part)
        op.advance(None if order == "in-order" else i + batch)
        times.append(time.process_time_ns() - before)
    half = times[len(times) // 2 :]
    return {
        "technique": technique,
        "keyed": keys > 0,
        "events": n,
        "counts": counts._asdict() | {"operations": {technique: counts.operations[technique]}},
        "nanoseconds": float(np.median(half)) * len(half) / n,
    }


# --------------------------------------------------------------------------- the fit


def fitted(rows: list[Row]) -> dict[str, Constants]:
    """Of each engine, all constants at once: the ⊕ of techniques have columns of their own."""
    found, names = {}, list(STORES)
    for engine in ("in order", "general"):
        mine = [r for r in rows if r["engine"].split(",")[0] == engine]
        table = []
        for r in mine:
            *shared, operations = features(Counts(**r["counts"]), r["technique"], r["keyed"])
            table.append([*shared, *(operations if name == r["technique"] else 0.0 for name in names)])
        constants = fitting.constants(table, [r["nanoseconds"] for r in mine])
        own = constants[-len(names) :]
        found[engine] = Constants(*constants[: -len(names)], dict(zip(names, own, strict=True)))
    return found


def predicted(row: Row, found: dict[str, Constants]) -> float:
    x = features(Counts(**row["counts"]), row["technique"], row["keyed"])
    return float(np.dot(x, flat(found[row["engine"].split(",")[0]], row["technique"])))


def _off(rows: list[Row], found: dict[str, Constants]) -> float:
    return fitting.deviation([predicted(r, found) for r in rows], [r["nanoseconds"] for r in rows])


def tables(rows: list[Row]) -> list[Table]:
    found = fitted(rows)
    made = []
    for engine, c in found.items():
        named = [(f.name.replace("_", ", a "), getattr(c, f.name)) for f in fields(c)[:-1]]
        named += [(f"⊕ of {TITLES[name]}", value) for name, value in c.operation.items()]
        lines = [[name, f"{value:,g}"] for name, value in named]
        made.append((f"{engine}, for each", ["", "ns"], lines))
    header = ["technique", *found]
    lines = []
    for name in STORES:
        mine = [r for r in rows if r["technique"] == name]
        each = [[r for r in mine if r["engine"].split(",")[0] == engine] for engine in found]
        lines.append([TITLES[name], *(f"{_off(some, found):.0%}" for some in each)])
    made.append(("mean error of the fit", header, lines))
    return made


def findings(rows: list[Row]) -> list[str]:
    return [f"fitted times are off by {_off(rows, fitted(rows)):.0%} on average over {len(rows)} trees"]


def draw(rows: list[Row]) -> Any:
    found, points = fitted(rows), {}
    for name in STORES:
        mine = [r for r in rows if r["technique"] == name]
        points[TITLES[name]] = [predicted(r, found) for r in mine], [r["nanoseconds"] for r in mine]
    return fitting.draw(points, "ns an event", columns=3)


if __name__ == "__main__":
    read = results.read(results.ROOT / "results" / "sharing_engine.json")
    TABLE.write_text(to_json(fitted(read["rows"])))
