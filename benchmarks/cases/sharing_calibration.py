"""Calibration of the cost model: nanoseconds for each event, slice, operation, edge and answer.

Trees of random ACQs are run with every technique over random integers, one event a unit of time, in batches of the
size that the cost model assumes, after their windows have filled. Processor times are fitted by least squares of
relative errors, no constant below zero. What is found is the package's table,
`src/windlass/sharing/calibration.json`, which `python -m benchmarks.cases.sharing_calibration` writes from the results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fitting, results
from benchmarks.acqs import acqs, aggregate_for
from benchmarks.cases import Scale, Table
from benchmarks.fitting import constants
from benchmarks.results import Row
from windlass.sharing import TECHNIQUES, Plan, Tree
from windlass.sharing.calibration import BATCH, Calibration, Constants
from windlass.sharing.counters import counter_for
from windlass.sharing.fragments import edges_of
from windlass.sharing.load import Load
from windlass.sharing.omega import COUNTED

TITLE = "Calibration of the cost model, by technique"
TABLE = Path(__file__).resolve().parents[2] / "src" / "windlass" / "sharing" / "calibration.json"


def run(scale: Scale) -> Iterator[Row]:
    rng = np.random.default_rng(scale.seed)
    n = scale.pick(1 << 18, 1 << 13)
    for slide in scale.pick((1, 2, 4, 10, 50, 1000), (1, 50)):
        for k in range(scale.pick(3, 1)):
            yield {"technique": "cut", "edges": n / slide, **_cut(n, slide, scale.seed + k)}
    for number in scale.pick((1, 2, 5, 10, 20, 50), (1, 5)):
        yield {"technique": "batch", "acqs": number, "nanoseconds": _batch(number, scale.seed)}
    for number in scale.pick((2, 5, 10, 20), (2, 5)):
        yield {"technique": "call", "windows": number, "nanoseconds": _call(number)}
    batch = scale.pick(BATCH, 1 << 13)
    for k in range(scale.pick(30, 2)):
        number = int(rng.choice((1, 3, 10, 30, 100)))
        longest = int(rng.choice((4, 20, 100, 1000)))
        overlap = min(int(rng.choice((8, 128, 2048, 32_768))), scale.pick(1 << 20, 1 << 13) // longest)
        skew = float(rng.choice((-1, 0, 1)))
        scale.say(f"{k}: {number} ACQs, slides up to {longest}, overlaps up to {overlap}")
        for technique in TECHNIQUES:
            row = _tree(technique, number, longest, overlap, skew, batch, scale.seed + k)
            if row:
                yield row


def _cut(n: int, slide: int, seed: int) -> Row:
    """Partial aggregation alone, and again from partials of single events."""
    from windlass import agg
    from windlass.aggregates.evaluation import events_of
    from windlass.aggregates.values import column
    from windlass.sharing.cutting import Edges, fold_events, fold_partials

    values = column(np.random.default_rng(seed).integers(0, 1 << 40, n), None)
    m = agg.sum("x").monoid([values.type], nullable=False)
    events, ts, edges = events_of(m, [values], n), np.arange(n), Edges([(0, slide)])
    singles = fold_events(m, events, np.arange(n + 1), np.ones(n, np.bool_), m.allocate(1))

    def once(fold: Any, x: Any) -> float:
        start = time.process_time_ns()
        starts, rows = edges.cut(ts)
        fold(m, x, rows, np.diff(starts, prepend=-1) != 0, m.allocate(1))
        return time.process_time_ns() - start

    found = {}
    for name, fold, x in (("nanoseconds", fold_events, events), ("again", fold_partials, singles)):
        found[name] = float(np.median([once(fold, x) for _ in range(9)][2:]))
    return {"events": n, **found}


def _batch(number: int, seed: int) -> float:
    """A tree and batches of so few events that nothing else takes time."""
    chosen = acqs(number, 20, 20, 0.0, seed)
    started = Plan(
        (Tree(tuple(chosen), "slickdeque_inv", 0.0, 0.0, 0.0),), "weaveshare", "pairs", 1.0, "time", 0.0
    ).run()
    times = []
    for k in range(60):
        before = time.process_time_ns()
        started.process(np.arange(20 * k, 20 * k + 20), np.ones(20, np.int64))
        times.append(time.process_time_ns() - before)
    return float(np.median(times[20:]))


def _call(number: int) -> float:
    """One fold for all windows over a wheel, of so few ticks that nothing else takes time: laying out edges, a call."""
    from windlass import Wheel, agg
    from windlass.wheel.sharing import edges_of, pieces
    from windlass.wheel.windows import Window

    w = Wheel(agg.sum("x"), 0, tick=1, dtype=np.int64)
    for i in range(1, number + 1):
        w.window(3600 * i, 600 * i)
    w.insert_many(np.ones(1000, np.int64), np.arange(1000))
    w.advance_to(1000)
    progressions = edges_of([window for window in w._windows if isinstance(window, Window)])
    times = []
    for _ in range(220):
        before = time.process_time_ns()
        pieces(w._bound, w._slots.state(), progressions, 0, False, 990, 1000)
        times.append(time.process_time_ns() - before)
    return float(np.median(times[20:]))


def _tree(technique: str, number: int, longest: int, overlap: int, skew: float, n: int, seed: int) -> Row | None:
    aggregate = aggregate_for(technique)
    chosen = acqs(number, longest, overlap, skew, seed, aggregate)
    progressions = edges_of(chosen)
    counter, _ = counter_for(progressions)
    load = Load.of(chosen, counter, progressions)
    operations = n * load.edge_rate * COUNTED[technique](load)
    if operations > 2e9:
        return None
    plan = Plan((Tree(tuple(chosen), technique, 0.0, 0.0, 0.0),), "weaveshare", "pairs", 1.0, "operations", 0.0)
    rng, started, times = np.random.default_rng(seed), plan.run(), []
    filled = 1 + int(load.ranges[-1]) // n  # batches
    for k in range(filled + 7):
        ts, values = np.arange(k * n, (k + 1) * n), rng.integers(0, 1 << 40, n)
        before = time.process_time_ns()
        started.process(ts, values)
        times.append(time.process_time_ns() - before)
    return {
        "technique": technique,
        "acqs": number,
        "events": n,
        "edges": n * load.edge_rate,
        "operations": operations,
        "answers": n * load.answers,
        "nanoseconds": float(np.median(times[filled:])),
    }


# --------------------------------------------------------------------------- the fit


def fitted(rows: list[Row]) -> Calibration:
    cuts = [r for r in rows if r["technique"] == "cut"]
    event, slice_ = constants([[r["events"], r["edges"]] for r in cuts], [r["nanoseconds"] for r in cuts])
    again = constants([[r["events"], r["edges"]] for r in cuts], [r["again"] for r in cuts])
    calls = [r for r in rows if r["technique"] == "batch"]
    batch = constants([[1.0, r["acqs"]] for r in calls], [r["nanoseconds"] for r in calls])[0]
    call = float(f"{np.mean([r['nanoseconds'] for r in rows if r['technique'] == 'call']):.3g}")
    techniques = {}
    for name in TECHNIQUES:
        mine = [r for r in rows if r["technique"] == name]
        table = [[r["operations"], r["edges"], r["answers"]] for r in mine]
        left = [max(r["nanoseconds"] - event * r["events"] - batch, 0.05 * r["nanoseconds"]) for r in mine]
        techniques[name] = Constants(*constants(table, left))
    return Calibration(batch, event, slice_, again[0], call, techniques)


def predicted(row: Row, c: Calibration) -> float:
    t = c.techniques[row["technique"]]
    final = row["operations"] * t.operation + row["edges"] * t.edge + row["answers"] * t.answer
    return c.batch + row["events"] * c.event + final


def _off(rows: list[Row], c: Calibration) -> float:
    return fitting.deviation([predicted(r, c) for r in rows], [r["nanoseconds"] for r in rows])


def tables(rows: list[Row]) -> list[Table]:
    c = fitted(rows)
    lines = []
    for name, info in TECHNIQUES.items():
        mine = [r for r in rows if r["technique"] == name]
        t = c.techniques[name]
        lines.append([info.title, f"{t.operation:g}", f"{t.edge:g}", f"{t.answer:g}", f"{_off(mine, c):.0%}"])
    caption = (
        f"ns; a batch {c.batch:,.0f} a tree, an event {c.event:g}, a slice {c.slice:g}, "
        f"a partial folded again {c.partial:g}, a fold for all windows over a wheel {c.call:,.0f} a call"
    )
    return [(caption, ["technique", "operation", "edge", "answer", "mean error of the fit"], lines)]


def findings(rows: list[Row]) -> list[str]:
    trees = [r for r in rows if r["technique"] in TECHNIQUES]
    return [f"fitted times are off by {_off(trees, fitted(rows)):.0%} on average over {len(trees)} trees"]


def draw(rows: list[Row]) -> Any:
    c, points = fitted(rows), {}
    for name, info in TECHNIQUES.items():
        mine = [r for r in rows if r["technique"] == name]
        points[info.title] = [predicted(r, c) / 1e6 for r in mine], [r["nanoseconds"] / 1e6 for r in mine]
    return fitting.draw(points, "ms", columns=4)


if __name__ == "__main__":
    found = results.read(results.ROOT / "results" / "sharing_calibration.json")
    TABLE.write_text(fitted(found["rows"]).to_json())
