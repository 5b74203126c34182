"""Estimated and actual throughput of plans (MQO experiments 6 and 7, Figures 22 and 23).

A plan for each technique by WeaveShare and by TriWeave, for 100 ACQs with slides that divide 1000, run over the
machine stream, one reading a unit of time. Overlaps are up to 200 where the paper has 10 000: windows must have
filled before anything is measured. The estimate is the inverse of the plan's cost, by operations and by calibrated
time; both are scaled so that the largest equals the largest measured one, as in the paper. Processor time is measured.
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

TITLE = "Estimated and actual throughput of plans (MQO Figures 22 and 23)"

OPTIMIZERS = {"weaveshare": "WeaveShare", "triweave": "TriWeave"}
FORMS = {"operations": "by operations", "time": "by calibrated time"}


def run(scale: Scale) -> Iterator[Row]:
    overlap, batch = scale.pick(200, 5), scale.pick(1 << 18, 1 << 12)
    stream = streams.machine(1000 * overlap + 3 * batch, scale.seed)
    for optimizer in OPTIMIZERS:
        for technique in TITLES:
            chosen = acqs(100, 1000, overlap, seed=scale.seed, aggregate=aggregate_for(technique))
            plans = {
                form: plan(chosen, optimizer=optimizer, technique=technique, objective=form)
                for form in ("operations", "time")
            }
            results, seconds = _measured(plans["operations"], stream.value, 1000 * overlap, batch)
            scale.say(f"{optimizer}, {technique}: {results / seconds:,.0f} results/s")
            # The same trees, by their time.
            timed = _cost(plans["operations"], "time")
            yield {
                "optimizer": optimizer,
                "technique": technique,
                "trees": len(plans["operations"].trees),
                "operations": 1 / plans["operations"].cost,
                "time": 1 / timed,
                "actual": results / seconds,
            }


def _cost(found: Plan, objective: str) -> float:
    """What these trees cost by another objective."""
    from windlass.sharing.planning import priced

    return priced(found, objective).cost


def _measured(found: Plan, values: Any, warm: int, batch: int) -> tuple[int, float]:
    started = found.run()
    started.process(np.arange(warm), values[:warm])
    times, before = [], started.answers
    for start in range(warm, len(values) - batch + 1, batch):
        begin = time.process_time()
        started.process(np.arange(start, start + batch), values[start : start + batch])
        times.append(time.process_time() - begin)
    return (started.answers - before) // len(times), float(np.median(times))


def scaled(rows: list[Row], optimizer: str, form: str) -> dict[str, tuple[float, float]]:
    """By technique the estimate and the measurement, both against their largest."""
    mine = [r for r in rows if r["optimizer"] == optimizer]
    most = max(r[form] for r in mine), max(r["actual"] for r in mine)
    return {r["technique"]: (r[form] / most[0], r["actual"] / most[1]) for r in mine}


def deviation(rows: list[Row], optimizer: str, form: str) -> float:
    return float(np.mean([abs(e - a) / max(e, a) for e, a in scaled(rows, optimizer, form).values()]))


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
