"""Latency of a single answer (MQO 2.2, Figure 14): which techniques have slow rounds, and how slow.

A round takes a few nanoseconds, a call from Python a few microseconds, so the clock is inside the compiled
loop: the processor's time stamp counter is read after every round. The same run over the same events is
repeated, and each round keeps its fastest time: interruptions by the machine hit another round each time
and drop out, the technique's own slow rounds stay. The counter's own cost (some 10 ns) is in every figure;
a loop of nothing else is measured beside them as `clock`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.techniques import AGGREGATES, TECHNIQUES, applicable
from windlass import agg

TITLE = "Latency of an answer, round by round (MQO Figure 14)"

COUNTED_WINDOW = 1 << 8
SPIKE = 30  # times the median
PERCENTILES = {"min": 0, "p25": 25, "median": 50, "p75": 75, "p99": 99, "p99.9": 99.9, "max": 100}


def run(scale: Scale) -> Iterator[Row]:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        scale.say("latency reads the time stamp counter of x86-64, which this machine has not. Skipped.")
        return
    window, rounds = scale.pick(1 << 14, 1 << 10), scale.pick(1 << 18, 1 << 14)
    repetitions = scale.pick(9, 3)
    values = workloads.uniform(window + rounds, scale.seed)
    nanoseconds = _nanoseconds_a_tick()
    for aggregate in scale.pick(("max", "sum"), ("max",)):
        names = [n for n in applicable(AGGREGATES[aggregate]()) if n != "Recompute"]
        names = scale.pick(names, ["TwoStacks", "DABA", "SlickDeque"])  # each of them has to be compiled
        best: dict[str, np.ndarray] = {}
        for repetition in range(repetitions):
            scale.say(f"{aggregate}, window {window}, repetition {repetition + 1} of {repetitions}")
            for name in [*names, "clock"]:
                ticks = _ticks(name, aggregate, window, values)
                best[name] = np.minimum(best[name], ticks) if name in best else ticks
        for name, ticks in best.items():
            spread = {
                p: round(float(np.percentile(ticks, q)) * nanoseconds, 1) for p, q in PERCENTILES.items()
            }
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
    """Ticks of each round of a full window, from a new store."""
    rounds = len(values) - window
    ticks = np.zeros(rounds, np.int64)
    if name == "clock":
        _clock_loop()(ticks)
        return ticks
    store = TECHNIQUES[name](AGGREGATES[aggregate]())
    store.slide(values[:window], window=window)
    columns, valid, n, _ = store._read(values[window:])
    answers = store._answers(n)
    store._advance(_latency_kernel, n, lambda i: (columns, valid, i, n, answers, ticks))
    return ticks


def _latency_kernel(p: Any) -> Any:
    """The store's own round (evict, insert, query) with the counter read after each."""
    insert, evict, query, room = p.technique.insert, p.technique.evict, p.technique.query, p.technique.room
    begin, end, lift_at, answer_at = p.begin, p.end, p.lifted, p.answer
    counter = _counter()

    def slide_timed(header, slots, ring, links, values, valid, i, n, answers, ticks):  # type: ignore[no-untyped-def]
        h = begin(header, slots)
        before = counter()
        while i < n and room(ring, links, h):
            h = evict(ring, links, h)
            h = insert(ring, links, h, lift_at(values, valid, i))
            answer_at(answers, i, query(ring, links, h))
            now = counter()
            ticks[i] = now - before
            before = now
            i += 1
        end(header, slots, h)
        return i

    return slide_timed


def _clock_loop() -> Any:
    from numba import njit

    counter = _counter()

    @njit
    def loop(ticks):  # type: ignore[no-untyped-def]
        before = counter()
        for i in range(len(ticks)):
            now = counter()
            ticks[i] = now - before
            before = now

    return loop


def _counter() -> Any:
    """`counter()`: the time stamp counter, once everything before it is done (lfence; rdtsc)."""
    from llvmlite import binding, ir
    from numba import types
    from numba.extending import intrinsic

    binding.initialize_native_asmparser()

    @intrinsic
    def counter(typing_context):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            word = ir.IntType(64)
            code = "lfence; rdtsc; shlq $$32, %rdx; orq %rdx, %rax"
            assembly = ir.InlineAsm(
                ir.FunctionType(word, []),
                code,
                "={rax},~{rdx},~{memory},~{dirflag},~{fpsr},~{flags}",
                side_effect=True,
            )
            return builder.call(assembly, [])

        return types.int64(), generate

    return counter


def _nanoseconds_a_tick() -> float:
    from numba import njit

    counter = _counter()
    read = njit(lambda: counter())
    read()
    start, ticks = time.perf_counter_ns(), read()
    time.sleep(0.2)
    return float((time.perf_counter_ns() - start) / (read() - ticks))


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
        window = f"window {mine[0]['window']} (⊕: {COUNTED_WINDOW})"
        caption = f"{aggregate}, {window}: nanoseconds a round"
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
