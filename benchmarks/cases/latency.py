"""Latency of a single answer (MQO 2.2, Figure 14): which techniques have slow rounds, and how slow.

A round takes a few nanoseconds, a call from Python a few microseconds, so the clock is inside the compiled loop:
every answer is the reading of the processor's time stamp counter when it was there. The same run over the same events
is repeated, and each round keeps its fastest time: interruptions by the machine hit other rounds each time and drop
out, the technique's own slow rounds stay. The counter's own cost is in every figure; a loop of nothing else is
measured beside them as `clock`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import clock, workloads
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.techniques import AGGREGATES, TECHNIQUES, applicable
from windlass import agg

TITLE = "Latency of an answer, round by round (MQO Figure 14)"

COUNTED_WINDOW = 1 << 8
SPIKE = 30  # times the median
PERCENTILES = {"min": 0, "p25": 25, "median": 50, "p75": 75, "p99": 99, "p99.9": 99.9, "max": 100}


def run(scale: Scale) -> Iterator[Row]:
    if not clock.AVAILABLE:
        scale.say("latency reads the time stamp counter of x86-64, which this machine has not. Skipped.")
        return
    window, rounds = scale.pick(1 << 14, 1 << 10), scale.pick(1 << 18, 1 << 14)
    repetitions = scale.pick(9, 3)
    values = workloads.uniform(window + rounds, scale.seed)
    nanoseconds = clock.nanoseconds_a_tick()
    for aggregate in scale.pick(("max", "sum"), ("max",)):
        names = [n for n in applicable(AGGREGATES[aggregate]()) if n != "Recompute"]
        names = scale.pick(names, ["TwoStacks", "DABA", "SlickDeque"])  # each of them has to be compiled
        best: dict[str, np.ndarray] = {}
        for repetition in range(repetitions):
            scale.say(f"{aggregate}, window {window}, repetition {repetition + 1} of {repetitions}")
            for name in [*names, "clock"]:
                ticks = _ticks(name, aggregate, window, values)
                best[name] = np.minimum(best.get(name, ticks), ticks)
        for name, ticks in best.items():
            spread = {p: round(float(np.percentile(ticks, q)) * nanoseconds, 1) for p, q in PERCENTILES.items()}
            average, worst = _combines(name, aggregate) if name != "clock" else (0.0, 0)
            yield {
                "aggregate": aggregate,
                "window": window,
                "technique": name,
                "rounds": rounds,
                "repetitions": repetitions,
                "nanoseconds": spread,
                "counted_window": COUNTED_WINDOW,
                "combines_per_round": average,
                "combines_in_worst_round": worst,
            }


def _ticks(name: str, aggregate: str, window: int, values: np.ndarray) -> np.ndarray:
    """Ticks of each round of a full window, from a new store with room for all it can ever hold."""
    if name == "clock":
        return np.diff(clock.only_stamps(np.zeros(len(values) - window, np.int64)))
    store = TECHNIQUES[name](clock.stamped(AGGREGATES[aggregate]()), capacity=window)
    store.slide(values[:window], window=window)
    return np.diff(store.slide(values[window:], window=window))


def _combines(technique: str, aggregate: str) -> tuple[float, int]:
    """⊕ a round on average and in the worst round, exact, over three cycles of a smaller window."""
    n = COUNTED_WINDOW
    values = workloads.uniform(4 * n)
    counted, calls = agg.counted(AGGREGATES[aggregate]())
    store = TECHNIQUES[technique](counted, dtype="int64", nullable=False)
    store.slide(values[:n], window=n)
    totals = [calls.total]
    for i in range(n, len(values)):
        store.slide(values[i : i + 1], window=n)
        totals.append(calls.total)
    each = np.diff(totals)
    return round(float(each.mean()), 3), int(each.max())


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for aggregate in dict.fromkeys(r["aggregate"] for r in rows):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        lines = [
            [
                r["technique"],
                *(f"{ns:,.0f}" for ns in r["nanoseconds"].values()),
                f"{r['combines_per_round']:.3g}",
                str(r["combines_in_worst_round"]),
            ]
            for r in mine
        ]
        header = ["technique", *PERCENTILES, "⊕ a round", "⊕ worst round"]
        window = f"window {mine[0]['window']}"
        caption = f"{aggregate}, {window}: nanoseconds a round (⊕ counted over a window of {COUNTED_WINDOW})"
        found.append((caption, header, lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for aggregate in dict.fromkeys(r["aggregate"] for r in rows):
        times = {r["technique"]: r["nanoseconds"] for r in rows if r["aggregate"] == aggregate}
        spiky = [name for name, ns in times.items() if ns["max"] > SPIKE * ns["median"]]
        ratio = times["TwoStacks"]["max"] / times["DABA"]["max"]
        lines.append(
            f"{aggregate}: worst round of TwoStacks / of DABA = {ratio:.0f}; "
            f"with spikes (worst round over {SPIKE} times the median): {', '.join(spiky) or 'none'}"
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    aggregates = list(dict.fromkeys(r["aggregate"] for r in rows))
    fig, grid = style.figure(1, len(aggregates), width=6.0, height=4.2, sharey=True)
    for axes, aggregate in zip(grid[0], aggregates, strict=True):
        mine = [r for r in rows if r["aggregate"] == aggregate]
        for place, row in enumerate(mine):
            ns, colour = row["nanoseconds"], style.COLOURS.get(row["technique"], "#444444")
            box = {
                "whislo": ns["min"],
                "q1": ns["p25"],
                "med": ns["median"],
                "q3": ns["p75"],
                "whishi": ns["max"],
            }
            axes.bxp(
                [box],
                positions=[place],
                widths=0.55,
                showfliers=False,
                patch_artist=True,
                boxprops={"facecolor": colour, "edgecolor": colour},
                medianprops={"color": "black", "linewidth": 1.5},
                whiskerprops={"color": colour, "linewidth": 1.6},
                capprops={"color": colour, "linewidth": 1.6},
            )
            axes.plot([place], [ns["p99"]], marker="_", markersize=14, color=colour, markeredgewidth=2)
            axes.annotate(
                f"{ns['max']:,.0f}",
                (place, ns["max"]),
                ha="center",
                va="bottom",
                fontsize=7,
                xytext=(0, 2),
                textcoords="offset points",
            )
        axes.set_yscale("log")
        axes.set_ylabel("nanoseconds a round\n(box p25 to p75, dash p99, whiskers min and max)")
        axes.set_xticks(range(len(mine)), [r["technique"] for r in mine], rotation=30, ha="right")
        axes.grid(axis="x", visible=False)
        axes.set_title(f"{aggregate}, window {mine[0]['window']}")
    return fig
