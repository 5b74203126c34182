"""Late events deep among many slices: the operator's three stores, and the plan's choice of them.

One query has a window a slice, the other windows of many slices, four of which overlap. At each watermark every key has
an event in a new slice, and some have one that is late by a random number of slices, up to the depth, which corrects
the windows that hold it. The time is that of `advance`: settling late slices, and answering.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import Operator, Query, Sliding, Tumbling, agg

TITLE = "FiBA in the operator: late events deep among many slices"
STORES = ("lazy", "eager", "fiba", "auto")
KEYS = 16


def run(scale: Scale) -> Iterator[Row]:
    for slices in scale.pick((256, 4096, 65_536), (256,)):
        for share in scale.pick((0.05, 0.5), (0.5,)):
            for depth in scale.pick([d for d in (16, 256, 4096, 65_536) if d <= slices], (16, 256)):
                scale.say(f"{slices} slices, {share:.0%} late, by up to {depth}")
                yield from _race(scale, slices, share, depth)


def _race(scale: Scale, slices: int, share: float, depth: int) -> Iterator[Row]:
    operators = {store: _filled(store, slices, depth) for store in STORES}
    rng = np.random.default_rng(scale.seed)
    taken: dict[str, list[float]] = {store: [] for store in STORES}
    for r in range(scale.pick(192, 12)):
        now = 10 * (2 * slices + r)
        late = np.flatnonzero(rng.random(KEYS) < share)
        times = np.concatenate([np.full(KEYS, now), now - 10 * rng.integers(1, depth + 1, len(late))])
        batch = {"ts": times, "k": np.concatenate([np.arange(KEYS), late]), "x": times % 101}
        answers = []
        for store, operator in operators.items():
            operator.process(batch)
            begin = time.process_time()
            results = operator.advance(now)
            taken[store].append(time.process_time() - begin)
            answers.append(len(results))
        assert len(set(answers)) == 1, answers
    for store, seconds in taken.items():
        half = sorted(seconds[2 * len(seconds) // 3 :])  # when the choice has settled
        half = half[: len(half) - len(half) // 8]  # without what something else has held up
        yield {
            "slices": slices,
            "late": share,
            "depth": depth,
            "store": store,
            "us": round(1e6 * float(np.mean(half)), 1),
            "runs": len(half),
            "chosen": _chosen(operators[store]),
        }


def _chosen(operator: Operator) -> str:
    return next(line.split()[1].rstrip(":") for line in operator.explain().splitlines() if line.startswith("  store"))


def _filled(store: Any, slices: int, depth: int) -> Operator:
    queries = [
        Query("each", Tumbling(10), agg.sum("x")),
        Query("long", Sliding(10 * slices, 10 * slices // 4), agg.sum("x")),
    ]
    together = [(tuple(query.name for query in queries), "auto")]  # one tree: the stores are compared, not plans
    operator = Operator(queries, time="ts", key="k", store=store, allowed_lateness=10 * depth, plan=together)
    for part in np.array_split(np.arange(2 * slices), max(1, 2 * slices * KEYS >> 18)):
        times = np.repeat(10 * part, KEYS)
        operator.process({"ts": times, "k": np.tile(np.arange(KEYS), len(part)), "x": times % 101})
        operator.advance(int(times[-1]))
    return operator


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for slices, share in dict.fromkeys((r["slices"], r["late"]) for r in rows):
        mine = [r for r in rows if (r["slices"], r["late"]) == (slices, share)]
        lines = []
        for depth in dict.fromkeys(r["depth"] for r in mine):
            cells = {r["store"]: r for r in mine if r["depth"] == depth}
            lines.append([f"{depth:,}", *(f"{cells[s]['us']:,.0f}" for s in STORES), cells["auto"]["chosen"]])
        title = f"{slices:,} slices a window, {share:.0%} of the keys late: µs a watermark"
        found.append((title, ["late by up to", *STORES, "auto chose"], lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for slices, share in dict.fromkeys((r["slices"], r["late"]) for r in rows):
        mine = [r for r in rows if (r["slices"], r["late"]) == (slices, share)]
        deepest = max(r["depth"] for r in mine)
        us = {r["store"]: r["us"] for r in mine if r["depth"] == deepest}
        lines.append(
            f"{slices:,} slices, {share:.0%} late by up to {deepest:,}: "
            f"eager {us['eager'] / us['fiba']:.1f} and lazy {us['lazy'] / us['fiba']:.1f} times as long as fiba"
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    panels = list(dict.fromkeys((r["slices"], r["late"]) for r in rows))
    fig, grid = style.figure(1, len(panels))
    for axes, (slices, share) in zip(grid[0], panels, strict=True):
        for store, colour in zip(STORES, ("#E69F00", "#56B4E9", "#009E73", "#000000"), strict=True):
            mine = [r for r in rows if (r["slices"], r["late"], r["store"]) == (slices, share, store)]
            dash = "--" if store == "auto" else "-"
            x, y = [r["depth"] for r in mine], [r["us"] for r in mine]
            style.line(axes, store, x, y, color=colour, linestyle=dash, marker="o")
        axes.set_title(f"{slices:,} slices, {share:.0%} late")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("late by up to (slices)")
        axes.set_ylabel("µs a watermark")
    style.shared_legend(fig, grid)
    return fig
