"""Estimated and actual throughput of plans (MQO experiments 6 and 7, Figures 22 and 23).

A plan for each technique by WeaveShare and by TriWeave, for the paper's load (100 ACQs, slides that divide 1000,
overlaps up to 10 000, one event a unit of time), run over the machine stream. The paper ran each tree for half an hour;
here a few batches are timed once all windows have filled, ten million events later. The estimate is the inverse of the
plan's cost, by operations and by calibrated time; both are scaled so that the largest equals the largest measured one,
as in the paper. Batches are of the size that the cost model assumes. Processor time is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import streams
from benchmarks.acqs import TITLES, acqs, aggregate_for
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass.sharing import Plan, plan
from windlass.sharing.calibration import BATCH
from windlass.sharing.planning import priced

TITLE = "Estimated and actual throughput of plans (MQO Figures 22 and 23)"

OPTIMIZERS = {"weaveshare": "WeaveShare", "triweave": "TriWeave"}
FORMS = {"operations": "by operations", "time": "by calibrated time"}


def run(scale: Scale) -> Iterator[Row]:
    overlap, batch = scale.pick(10_000, 5), scale.pick(BATCH, 1 << 12)
    warm = -(-1000 * overlap // batch)  # batches
    stream = streams.machine((warm + scale.pick(15, 3)) * batch, scale.seed)
    for optimizer in OPTIMIZERS:
        for technique in TITLES:
            chosen = acqs(100, 1000, overlap, seed=scale.seed, aggregate=aggregate_for(technique))
            found = plan(chosen, optimizer=optimizer, technique=technique, objective="operations")
            results, seconds = _measured(found, stream.value, warm, batch)
            scale.say(f"{optimizer}, {technique}: {results / seconds:,.0f} results/s")
            yield {
                "optimizer": optimizer,
                "technique": technique,
                "trees": len(found.trees),
                "operations": 1 / found.cost,
                "time": 1 / priced(found, "time").cost,  # of the same trees
                "actual": results / seconds,
            }


def _measured(found: Plan, values: Any, warm: int, batch: int) -> tuple[int, float]:
    """Results of a batch and seconds that it takes, once so many batches have filled the windows."""
    started, times, before = found.run(), [], 0
    for k in range(len(values) // batch):
        before = started.answers if k == warm else before
        part = slice(k * batch, (k + 1) * batch)
        begin = time.process_time()
        started.process(np.arange(part.start, part.stop), values[part])
        times.append(time.process_time() - begin)
    return (started.answers - before) // (len(times) - warm), float(np.median(times[warm:]))


def scaled(rows: list[Row], optimizer: str, form: str) -> dict[str, tuple[float, float]]:
    """By technique the estimate and the measurement, both against their largest."""
    mine = [r for r in rows if r["optimizer"] == optimizer]
    most = max(r[form] for r in mine), max(r["actual"] for r in mine)
    return {r["technique"]: (r[form] / most[0], r["actual"] / most[1]) for r in mine}


def deviation(rows: list[Row], optimizer: str, form: str) -> float:
    return float(np.mean([abs(e - a) / a for e, a in scaled(rows, optimizer, form).values()]))


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for optimizer, title in OPTIMIZERS.items():
        forms = {form: scaled(rows, optimizer, form) for form in FORMS}
        actual = {r["technique"]: r["actual"] for r in rows if r["optimizer"] == optimizer}
        lines = [
            [name, *(f"{forms[f][t][0]:.3g}" for f in FORMS), f"{forms['time'][t][1]:.3g}", f"{actual[t]:,.0f}"]
            for t, name in TITLES.items()
        ]
        header = ["technique", *(f"estimated {f}" for f in FORMS.values()), "actual", "results/s"]
        found.append((f"{title}: throughput against the largest", header, lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    return [
        f"{title}: estimates {name} deviate by {deviation(rows, optimizer, form):.0%} on average"
        for optimizer, title in OPTIMIZERS.items()
        for form, name in FORMS.items()
    ] + [
        f"both optimisers, {name}: {np.mean([deviation(rows, o, form) for o in OPTIMIZERS]):.0%}"
        for form, name in FORMS.items()
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=5.2, height=3.6)
    for axes, (optimizer, title) in zip(grid[0], OPTIMIZERS.items(), strict=True):
        shown = {
            "by operations": scaled(rows, optimizer, "operations"),
            "by calibrated time": scaled(rows, optimizer, "time"),
        }
        bars = {f"estimated {name}": [v[0] for v in values.values()] for name, values in shown.items()}
        bars["actual"] = [v[1] for v in shown["by calibrated time"].values()]
        for k, ((name, heights), colour) in enumerate(
            zip(bars.items(), ("#999999", "#56B4E9", "#D55E00"), strict=True)
        ):
            axes.bar([i + (k - 1) * 0.27 for i in range(len(heights))], heights, 0.25, color=colour, label=name)
        axes.set_xticks(range(len(TITLES)), TITLES.values(), rotation=20, ha="right")
        axes.set_ylabel("throughput against the largest")
        axes.set_xlabel(title)
        axes.grid(axis="x", visible=False)
    style.shared_legend(fig, grid)
    return fig
