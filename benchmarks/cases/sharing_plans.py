"""Plan costs against the parameters of the workload (MQO experiments 1 to 5, Table 4, Figures 17 to 21).

Costs are those of the paper's equations. Each point is the mean of ten sets of ACQs. The number of execution trees
is the mean over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.acqs import TITLES, acqs, aggregate_for
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass.sharing import plan

TITLE = "Plan costs by technique (MQO Figures 17 to 21)"

OPTIMIZERS = {"weaveshare": "WeaveShare", "triweave": "TriWeave"}
EXPERIMENTS: dict[str, tuple[float, ...]] = {
    "number of ACQs": (1, 10, 100, 1000, 10_000),
    "maximum slide": (10, 100, 1000, 10_000, 100_000),
    "maximum overlap": (100, 1000, 10_000, 100_000, 1_000_000),
    "input rate": (0.01, 0.1, 1, 10, 100),
    "Zipf skew": (-1, -0.5, 0, 0.5, 1),
}


def parameters(experiment: str, value: float) -> dict[str, Any]:
    found: dict[str, Any] = {"number": 100, "longest_slide": 1000, "most_overlap": 10_000, "skew": 0.0}
    names = dict(zip(EXPERIMENTS, ("number", "longest_slide", "most_overlap", "rate", "skew"), strict=True))
    return found | {names[experiment]: value if names[experiment] in ("rate", "skew") else int(value)}


def run(scale: Scale) -> Iterator[Row]:
    for experiment, values in EXPERIMENTS.items():
        scale.say(experiment)
        for value in scale.pick(values, values[:2]):
            given = parameters(experiment, value)
            rate = given.pop("rate", 1.0)
            for technique in TITLES:
                for optimizer in OPTIMIZERS:
                    plans = [
                        plan(
                            acqs(**given, seed=scale.seed + k, aggregate=aggregate_for(technique)),
                            rate=rate,
                            optimizer=optimizer,
                            technique=technique,
                            objective="paper",
                        )
                        for k in range(scale.pick(10, 2))
                    ]
                    yield {
                        "experiment": experiment,
                        "value": value,
                        "technique": technique,
                        "optimizer": optimizer,
                        "cost": float(np.mean([p.cost for p in plans])),
                        "trees": float(np.mean([len(p.trees) for p in plans])),
                    }


def _ratios(rows: list[Row], experiment: str) -> float:
    """By how much the dearest technique exceeds the cheapest, at most."""
    best = 0.0
    for value in {r["value"] for r in rows if r["experiment"] == experiment}:
        costs = [
            r["cost"]
            for r in rows
            if r["experiment"] == experiment and r["value"] == value and r["optimizer"] == "weaveshare"
        ]
        best = max(best, max(costs) / min(costs))
    return best


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for experiment in dict.fromkeys(r["experiment"] for r in rows):
        mine = [r for r in rows if r["experiment"] == experiment and r["optimizer"] == "weaveshare"]
        lines = []
        for value in dict.fromkeys(r["value"] for r in mine):
            at = {r["technique"]: r["cost"] for r in mine if r["value"] == value}
            lines.append([f"{value:,}", *(f"{at[t]:.3g}" for t in TITLES)])
        found.append((f"WeaveShare, cost by {experiment}", [experiment, *TITLES.values()], lines))
    trees = [
        [OPTIMIZERS[o], *(f"{_trees(rows, t, o):.1f}" for t in TITLES)] for o in OPTIMIZERS
    ]  # fmt: skip
    return [*found, ("mean number of execution trees", ["optimiser", *TITLES.values()], trees)]


def _trees(rows: list[Row], technique: str, optimizer: str) -> float:
    return float(np.mean([r["trees"] for r in rows if (r["technique"], r["optimizer"]) == (technique, optimizer)]))


def findings(rows: list[Row]) -> list[str]:
    lines = [
        f"{experiment}: the dearest technique costs up to {_ratios(rows, experiment):,.0f} times the cheapest"
        for experiment in dict.fromkeys(r["experiment"] for r in rows)
    ]
    cost = {(r["experiment"], r["value"], r["technique"], r["optimizer"]): r["cost"] for r in rows}
    apart = [abs(cost[(*k[:3], "triweave")] / c - 1) for k, c in cost.items() if k[3] == "weaveshare"]
    return [
        *lines,
        f"TriWeave's costs differ from WeaveShare's by {np.mean(apart):.1%} on average, {max(apart):.0%} at most",
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    experiments = list(dict.fromkeys(r["experiment"] for r in rows))
    fig, grid = style.figure(len(experiments), 2, width=4.6, height=2.6)
    for line, experiment in zip(grid, experiments, strict=True):
        for axes, optimizer in zip(line, OPTIMIZERS, strict=True):
            for technique, title in TITLES.items():
                mine = [
                    r
                    for r in rows
                    if (r["experiment"], r["technique"], r["optimizer"]) == (experiment, technique, optimizer)
                ]
                style.line(axes, title, [r["value"] for r in mine], [r["cost"] for r in mine])
            if experiment != "Zipf skew":
                axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(f"{experiment} ({OPTIMIZERS[optimizer]})")
            axes.set_ylabel("plan cost")
    style.shared_legend(fig, grid, columns=5)
    return fig
