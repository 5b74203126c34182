"""200 mixed queries in the operator: the plan it makes for itself against others, in one run.

Sums, maxima, means, deviations and sketches with the slides that people write (100 ms to 10 min) and ranges of up to 60
of them, a fifth of them uneven, over the football stream, 2000 positions a second; in order, and in any order.
"maximum sharing" is one tree, "no sharing" one for each query, both on the technique that suits each tree; "only …" is
planned with one technique, and is the chosen plan where that is best. Processor time of the second of two runs, plans
in turn, medians of rounds; results are compared.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import streams
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import Operator, Query, Sliding, agg
from windlass.operator.costs import STORES, TITLES

TITLE = "200 mixed queries in the operator: its own plan and others"

SLIDES = (100, 200, 250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000)  # ms
AGGREGATES = [agg.sum("value"), agg.max("value"), agg.avg("value"), agg.stddev("value")]
SKETCH = agg.approx_count_distinct("value", precision=9)


def queries(number: int, seed: int, slides: tuple[int, ...] = SLIDES, sketches: bool = True) -> list[Query]:
    rng = np.random.default_rng(seed)
    found = []
    for k in range(number):
        slide = int(rng.choice(slides))
        length = slide * int(rng.integers(1, 61)) + (int(rng.integers(slide)) // 10 * 10 if rng.random() < 0.2 else 0)
        aggregate = AGGREGATES[int(rng.choice(4, p=(0.4, 0.3, 0.2, 0.1)))]
        if sketches and slide >= 60_000 and k % 2:
            aggregate = SKETCH
        found.append(Query(f"q{k}", Sliding(f"{length}ms", f"{slide}ms"), aggregate))
    return found


def plans(asked: list[Query]) -> dict[str, dict[str, Any]]:
    """Options of an operator, by plan."""
    names = [query.name for query in asked]
    return {
        "chosen": {},
        "maximum sharing": {"plan": [(names, "auto")]},
        "no sharing": {"plan": [([name], "auto") for name in names]},
        **{f"only {TITLES[name]}": {"technique": name} for name in STORES},
    }


def run(scale: Scale) -> Iterator[Row]:
    stream = streams.football(scale.pick(1 << 21, 1 << 13), scale.seed)
    asked = queries(scale.pick(200, 8), scale.seed, scale.pick(SLIDES, SLIDES[:4]))
    table = pa.table(stream.columns).cast(pa.schema({"ts": pa.timestamp("us"), "value": pa.int64()}))
    for order in ("in-order", "out-of-order"):
        made = plans(asked)
        times: dict[str, list[float]] = {name: [] for name in made}
        answers, trees = {}, {}
        for k in range(scale.pick(3, 1)):
            for name, options in made.items():
                batch = scale.pick(1 << 17, 1 << 12)
                for _ in range(2):  # twice, and the second counts: the first has the memory that another one left
                    seconds, answers[name], trees[name] = _once(asked, options, table, order, batch)
                times[name].append(seconds)
                scale.say(f"{order}, round {k}, {name}: {seconds:.2f} s, {len(trees[name])} trees")
        assert len(set(answers.values())) == 1, f"all plans give the same answers: {answers}"
        for name in made:
            yield {
                "order": order,
                "plan": name,
                "trees": len(trees[name]),
                "is_chosen": sorted(trees[name]) == sorted(trees["chosen"]),
                "events": len(stream),
                "rows": answers[name][0],
                "seconds": times[name],
            }


def _once(asked: list[Query], options: Any, table: pa.Table, order: Any, batch: int) -> tuple[float, Any, Any]:
    """Seconds, after a first batch that compiles and plans; and a checksum of the answers that are integers."""
    op = Operator(asked, time="ts", order=order, **options)
    gc.collect()
    seconds, rows, total = 0.0, 0, 0
    for k, i in enumerate(range(0, len(table), batch)):
        part = table.slice(i, batch)
        before = time.process_time()
        op.process(part)
        results = op.advance(None if order == "in-order" else part["ts"][-1].as_py())
        seconds += time.process_time() - before if k else 0.0
        rows += len(results)
        if i + batch >= len(table):  # the answers of the last batch, too
            for query in asked:
                for column in results[query.name].columns[-1:]:
                    total += int(pc.sum(pc.round(column.cast(pa.float64()), 3)).as_py() or 0)
    return seconds, (rows, total), op.plan


def _median(row: Row) -> float:
    return float(np.median(row["seconds"]))


def _named(row: Row) -> str:
    return f"{row['plan']} (the chosen one)" if row["is_chosen"] and row["plan"] != "chosen" else str(row["plan"])


def tables(rows: list[Row]) -> list[Table]:
    made = []
    for order in dict.fromkeys(r["order"] for r in rows):
        mine = [r for r in rows if r["order"] == order]
        best = next(_median(r) for r in mine if r["plan"] == "chosen")
        lines = [
            [_named(r), str(r["trees"]), f"{r['events'] / _median(r) / 1e6:.3g}", f"{_median(r) / best:.2f}"]
            for r in sorted(mine, key=_median)
        ]
        made.append((f"{order}", ["plan", "trees", "million events/s", "time against the chosen"], lines))
    return made


def findings(rows: list[Row]) -> list[str]:
    found = []
    for order in dict.fromkeys(r["order"] for r in rows):
        at = {r["plan"]: _median(r) for r in rows if r["order"] == order}
        same = [r["plan"] for r in rows if r["order"] == order and r["is_chosen"] and r["plan"] != "chosen"]
        shown = ", ".join(f"{name} {at[name] / at['chosen']:.2f}" for name in at if name not in ("chosen", *same))
        shown += "".join(f"; {name} is the chosen plan ({at[name] / at['chosen']:.2f})" for name in same)
        found.append(f"{order}: time of the others against the chosen plan: {shown}")
    return found


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    orders = list(dict.fromkeys(r["order"] for r in rows))
    fig, grid = style.figure(1, len(orders), width=4.2, height=3.8)
    for axes, order in zip(grid[0], orders, strict=True):
        shown = sorted((r for r in rows if r["order"] == order), key=_median)
        heights = [r["events"] / _median(r) / 1e6 for r in shown]
        colours = ["#D55E00" if r["plan"] == "chosen" else "#999999" for r in shown]
        axes.bar(range(len(shown)), heights, 0.6, color=colours)
        axes.set_xticks(range(len(shown)), [r["plan"] for r in shown], rotation=30, ha="right")
        axes.set_title(order)
        axes.grid(axis="x", visible=False)
    grid[0][0].set_ylabel("million events per second")
    return fig
