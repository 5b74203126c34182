"""200 mixed queries: the chosen plan against maximum sharing, no sharing, and every single technique, in one run.

A hundred sums and a hundred maxima with the slides that people write (100 ms to 1 min) and ranges of up to 100 of them,
a fifth of them uneven, over the machine stream, 100 readings a second. "least operations" is the plan that minimises
operations and not time: where the two objectives disagree, it shows what that costs. Processor time, plans in turn,
medians of rounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import streams
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg
from windlass.sharing import ACQ, TECHNIQUES, Plan, plan

TITLE = "200 mixed queries: the chosen plan and others"

SLIDES = (100, 200, 250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)  # ms


def queries(number: int, seed: int, longest: int) -> list[ACQ]:
    rng = np.random.default_rng(seed)
    found = []
    for k in range(number):
        slide = int(rng.choice([s for s in SLIDES if s <= longest]))
        length = slide * int(rng.integers(1, 101)) + (int(rng.integers(slide)) if rng.random() < 0.2 else 0)
        aggregate = agg.sum("value") if k % 2 else agg.max("value")
        found.append(ACQ(f"{length}ms", f"{slide}ms", aggregate, name=str(k)))
    return found


def plans(chosen: list[ACQ], rate: float) -> dict[str, Plan]:
    found = {
        "chosen": plan(chosen, rate=rate),
        "least operations": plan(chosen, rate=rate, objective="operations"),
        "maximum sharing": plan(chosen, rate=rate, optimizer="maximum sharing"),
        "no sharing": plan(chosen, rate=rate, optimizer="no sharing"),
    }
    for name, info in TECHNIQUES.items():
        if not info.needs:
            found[f"only {info.title}"] = plan(chosen, rate=rate, technique=name)
    return {**found, "only SlickDeque": plan(chosen, rate=rate, technique="slickdeque")}


def run(scale: Scale) -> Iterator[Row]:
    rate = streams.RATE["machine"]
    stream = streams.machine(scale.pick(1 << 21, 1 << 13), scale.seed)
    chosen = queries(scale.pick(200, 8), scale.seed, scale.pick(60_000, 200))
    made = plans(chosen, rate)
    batch, times, answers = scale.pick(1 << 18, 1 << 12), {name: [] for name in made}, {}
    for k in range(scale.pick(5, 1)):
        for name, found in made.items():
            seconds, answers[name] = _once(found, stream, batch)
            times[name].append(seconds)
            scale.say(f"round {k}, {name}: {seconds:.2f} s")
    assert len(set(answers.values())) == 1, "all plans give the same answers"
    for name, found in made.items():
        yield {
            "plan": name,
            "optimizer": found.optimizer,
            "trees": len(found.trees),
            "events": len(stream),
            "seconds": times[name],
            "estimated": found.cost,
        }


def _once(found: Plan, stream: streams.Stream, batch: int) -> tuple[float, int]:
    """Seconds, after a first batch that compiles; and a checksum of the answers."""
    started, total, seconds = found.run(), 0, 0.0
    for k, (ts, value) in enumerate(stream.arrays(batch)):
        begin = time.process_time()
        answered = started.process(ts, value)
        seconds += (time.process_time() - begin) if k else 0.0
        total += sum(int(np.asarray(a.value).sum()) + int(a.end.sum()) for a in answered.values())
    return seconds, total % (1 << 61)


def _median(row: Row) -> float:
    return float(np.median(row["seconds"]))


def tables(rows: list[Row]) -> list[Table]:
    best = next(_median(r) for r in rows if r["plan"] == "chosen")
    lines = [
        [
            r["plan"],
            r["optimizer"],
            str(r["trees"]),
            f"{r['events'] / _median(r) / 1e6:.3g}",
            f"{_median(r) / best:.2f}",
        ]
        for r in sorted(rows, key=_median)
    ]
    return [("200 mixed queries", ["plan", "by", "trees", "million events/s", "time against the chosen"], lines)]


def findings(rows: list[Row]) -> list[str]:
    at = {r["plan"]: _median(r) for r in rows}
    slowest = {name: at[name] / at["chosen"] for name in at if name != "chosen"}
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in slowest.items())
    return [f"time of the others against the chosen plan: {shown}"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=7.0, height=3.8)
    shown = sorted(rows, key=_median)
    heights = [r["events"] / _median(r) / 1e6 for r in shown]
    colours = ["#D55E00" if r["plan"] == "chosen" else "#999999" for r in shown]
    grid[0][0].bar(range(len(shown)), heights, 0.6, color=colours)
    grid[0][0].set_xticks(range(len(shown)), [r["plan"] for r in shown], rotation=30, ha="right")
    grid[0][0].set_ylabel("million events per second")
    grid[0][0].grid(axis="x", visible=False)
    return fig
