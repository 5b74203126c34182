"""One window, every technique (MQO 2.2, Figure 11): rounds a second over the window's size.

A round is evict, insert, query. The window is full before the clock starts and slides over at least as many
events as it holds, so that every flip and reset is paid for. ⊕ counts are exact, from an interpreted run
over the same window.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks import peers, workloads
from benchmarks.cases import Scale, Table
from benchmarks.measure import Entrant, race, timed
from benchmarks.results import Row
from benchmarks.techniques import AGGREGATES, TECHNIQUES, applicable
from windlass import agg

TITLE = "Single query: throughput of every technique (MQO Figure 11)"

RECOMPUTE_UP_TO = 1 << 10  # n - 1 ⊕ a round
COUNTED_UP_TO = 1 << 10  # interpreted
PEERS_UP_TO = 1 << 16


def run(scale: Scale) -> Iterator[Row]:
    exponents = scale.pick(range(4, 23, 2), (4, 8, 12))
    least = scale.pick(1 << 20, 1 << 16)
    aggregates = scale.pick(tuple(AGGREGATES), ("sum", "max"))
    yield from _sweep(scale, "uniform", aggregates, exponents, least, with_peers=True)
    for data in workloads.REAL:
        values = workloads.real(data)
        if values is None:
            scale.say(f"{data}: no such data; set WINDLASS_DATA to its directory. Skipped.")
            continue
        fitting = [e for e in exponents if 1 << e <= len(values)]
        yield from _sweep(scale, data, ("max",), fitting, least, with_peers=False)


def _sweep(
    scale: Scale, data: str, aggregates: tuple[str, ...], exponents: Any, least: int, *, with_peers: bool
) -> Iterator[Row]:
    for aggregate, exponent in product(aggregates, exponents):
        window = 1 << exponent
        scale.say(f"{data}, {aggregate}, window 2^{exponent}")
        rounds = max(least, window)
        make = workloads.SYNTHETIC.get(data)
        values = make(rounds, scale.seed) if make else workloads.repeated(workloads.real(data), rounds)
        yield from _race(scale, data, aggregate, window, values, with_peers)


def _race(scale: Scale, data: str, aggregate: str, window: int, values: np.ndarray, with_peers: bool) -> Iterator[Row]:
    entrants: dict[str, Entrant] = {}
    first: dict[str, float] = {}
    answers: dict[str, Any] = {}
    for technique in applicable(AGGREGATES[aggregate]()):
        if technique == "Recompute" and window > RECOMPUTE_UP_TO:
            continue
        store = TECHNIQUES[technique](AGGREGATES[aggregate]())
        first[technique] = timed(lambda store=store: store.slide(values[:2], window=window))
        store.slide(values[2:window], window=window)
        answers[technique] = store.query()
        mine = values[: max(window, (1 << 26) // window)] if technique == "Recompute" else values
        entrants[technique] = Entrant(lambda s=store, v=mine: s.slide(v, window=window), len(mine))
    _agree(answers)
    if with_peers and window <= PEERS_UP_TO:
        some = values[: max(1 << 18, 2 * window)]
        for peer, call in peers.rolling(aggregate, window, some).items():
            entrants[peer] = Entrant(call, len(some))
    race(entrants, repetitions=scale.pick(9, 3), patience=scale.pick(1.0, 0.2))
    for name, entrant in entrants.items():
        yield {
            "data": data,
            "aggregate": aggregate,
            "window": window,
            "technique": name,
            "rounds": entrant.rounds,
            "rounds_per_second": round(entrant.rate),
            "fastest_rounds_per_second": round(entrant.rounds / min(entrant.times)),
            "repetitions": len(entrant.times),
            "first_call_seconds": round(first[name], 6) if name in first else None,
            "combines_per_round": _combines(name, aggregate, window, values) if name in TECHNIQUES else None,
        }


def _combines(technique: str, aggregate: str, window: int, values: np.ndarray) -> float | None:
    """⊕, ⊖ and selections a round over whole cycles of the full window."""
    if window > COUNTED_UP_TO:
        return None
    counted, calls = agg.counted(AGGREGATES[aggregate]())
    store = TECHNIQUES[technique](counted, dtype="int64", nullable=False)
    store.insert_many(values[:window])
    calls.reset()
    rounds = 64 if technique == "Recompute" else max(window, 1 << 10)  # whole cycles: a flip is due every n rounds
    store.slide(workloads.repeated(values[window:], rounds), window=window)
    return round(calls.total / rounds, 3)


def _agree(answers: dict[str, Any]) -> None:
    """A fast wrong answer is no result."""
    first = next(iter(answers.values()))
    for technique, answer in answers.items():
        assert np.isclose(answer, first), f"{technique} answers {answer}, others {first}"


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for data, aggregate in dict.fromkeys((r["data"], r["aggregate"]) for r in rows):
        mine = [r for r in rows if (r["data"], r["aggregate"]) == (data, aggregate)]
        names = list(dict.fromkeys(r["technique"] for r in mine))
        lines = []
        for window in dict.fromkeys(r["window"] for r in mine):
            cells = {r["technique"]: r for r in mine if r["window"] == window}
            lines.append([f"2^{window.bit_length() - 1}", *(_cell(cells.get(name)) for name in names)])
        caption = f"{aggregate} over {workloads.ABOUT[data]}: million rounds/s (⊕ a round)"
        found.append((caption, ["window", *names], lines))
    return found


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    rate = row["rounds_per_second"] / 1e6
    text = f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"
    return text if row["combines_per_round"] is None else f"{text} ({row['combines_per_round']:.3g})"


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for data, aggregate in dict.fromkeys((r["data"], r["aggregate"]) for r in rows):
        windows = sorted({r["window"] for r in rows if r["data"] == data})
        window = min(windows, key=lambda w: abs(w.bit_length() - 1 - 14))
        at = {
            r["technique"]: r["rounds_per_second"]
            for r in rows
            if (r["data"], r["aggregate"], r["window"]) == (data, aggregate, window)
        }
        slick, others = at.pop("SlickDeque"), {n: r for n, r in at.items() if n in TECHNIQUES}
        best = max(others, key=lambda name: others[name])
        text = f"{aggregate}, {workloads.ABOUT[data]}, window {window}: "
        text += f"SlickDeque / {best} (the best other) = {slick / others[best]:.2f}"
        for peer in ("NumPy", "Polars", "DuckDB"):
            if peer in at:
                text += f"; best technique / {peer} = {max(slick, others[best]) / at[peer]:.1f}"
        lines.append(text)
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    panels = list(dict.fromkeys((r["data"], r["aggregate"]) for r in rows))
    columns = 2 if len(panels) <= 4 else 3
    fig, grid = style.figure(-(-len(panels) // columns), columns, sharey=True)
    for axes, (data, aggregate) in zip(grid.flat, panels, strict=False):
        mine = [r for r in rows if (r["data"], r["aggregate"]) == (data, aggregate)]
        for name in dict.fromkeys(r["technique"] for r in mine):
            points = [(r["window"], r["rounds_per_second"]) for r in mine if r["technique"] == name]
            style.line(axes, name, *zip(*points, strict=True))
        style.window_axis(axes)
        axes.set_yscale("log")
        axes.set_ylabel("rounds per second")
        axes.set_title(f"{aggregate}, {workloads.ABOUT[data]}")
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    style.shared_legend(fig, grid)
    return fig
