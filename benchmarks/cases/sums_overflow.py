"""What it costs that sums of int64 do not wrap: one field that wraps, one field that is watched, two fields.

Each technique slides a window of 4096 (Recompute of 256) over values in three forms of one sum:

    wraps      `on_overflow="wrap"`: one field, and the values are not watched
    watched    the default over small values: one field, and max |x| of each batch is computed
    wide       the default over values that 64 bits might not hold: a second field counts the wraps

An operator and a wheel are given the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import windlass
from benchmarks.cases import Scale, Table
from benchmarks.measure import Entrant, race
from benchmarks.results import Row
from benchmarks.techniques import TECHNIQUES, applicable
from windlass import Query, Sliding, agg
from windlass.wheel.wheel import Wheel

TITLE = "Sums that do not wrap: what watching and a second field cost"

FORMS = ("wraps", "watched", "wide")
WINDOW, RECOMPUTE_WINDOW = 4096, 256
OPERATOR, WHEEL = "Operator, 10 windows", "Wheel, inserts"


def run(scale: Scale) -> Iterator[Row]:
    rounds = scale.pick(1 << 18, 1 << 14)
    random = np.random.default_rng(scale.seed)
    small = random.integers(-1000, 1000, rounds)
    large = (2**58 + small) * np.where(np.arange(rounds) % 2, -1, 1)  # 64 bits might not hold sums, but they do
    for technique in [*applicable(agg.sum()), OPERATOR, WHEEL]:
        scale.say(technique)
        entrants = {}
        for form in FORMS:
            values = large if form == "wide" else small
            total = agg.sum("x", on_overflow="wrap" if form == "wraps" else "raise")
            entrants[form] = Entrant(_call(technique, total, values), _rounds(technique, rounds))
        race(entrants, repetitions=scale.pick(25, 3), patience=scale.pick(4.0, 0.2))
        for form, entrant in entrants.items():
            yield {
                "technique": technique,
                "form": form,
                "rounds": entrant.rounds,
                "nanoseconds_a_round": round(min(entrant.times) / entrant.rounds * 1e9, 4),
                "repetitions": len(entrant.times),
            }


def _rounds(technique: str, rounds: int) -> int:
    return rounds // 16 if technique == "Recompute" else rounds


def _call(technique: str, total: Any, values: np.ndarray) -> Callable[[], Any]:
    rounds = _rounds(technique, len(values))
    mine = values[:rounds]
    if technique == OPERATOR:
        return lambda: _operated(total, mine)
    if technique == WHEEL:
        return lambda: _wheeled(total, mine)
    window = RECOMPUTE_WINDOW if technique == "Recompute" else WINDOW
    store = TECHNIQUES[technique](total, dtype="int64")
    store.slide(mine[:window], window=window)
    return lambda: store.slide(mine, window=window)


def _operated(total: Any, values: np.ndarray) -> Any:
    asked = [Query(f"q{i}", Sliding(1000 * i, 100), total) for i in range(1, 11)]
    operator = windlass.Operator(asked, time="ts")
    ts = np.arange(len(values))
    for begin in range(0, len(values), 8192):
        operator.process({"ts": ts[begin : begin + 8192], "x": values[begin : begin + 8192]})
        operator.advance(begin)
    return operator


def _wheeled(total: Any, values: np.ndarray) -> Any:
    wheel = Wheel(total, 0, tick=1, unit="s", dtype="int64")
    ts = np.arange(len(values)) // 4
    for begin in range(0, len(values), 8192):
        wheel.insert_many(values[begin : begin + 8192], ts[begin : begin + 8192])
        wheel.advance_to(int(ts[begin]))
    return wheel


def _nanoseconds(rows: list[Row]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(str(row["technique"]), {})[str(row["form"])] = float(row["nanoseconds_a_round"])
    return found


def tables(rows: list[Row]) -> list[Table]:
    lines = [
        [name, f"{by['wraps']:.2f}", f"{by['watched'] / by['wraps']:.2f}", f"{by['wide'] / by['wraps']:.2f}"]
        for name, by in _nanoseconds(rows).items()
    ]
    header = ["", "one field that wraps, ns", "watched, ratio", "two fields, ratio"]
    return [("Time per event; ratios against one field that wraps", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    measured = _nanoseconds(rows)
    watched = {name: by["watched"] / by["wraps"] for name, by in measured.items()}
    wide = {name: by["wide"] / by["wraps"] for name, by in measured.items()}
    return [
        f"{what}: {min(by.values()):.2f} to {max(by.values()):.2f} times as long ({max(by, key=by.__getitem__)})"
        for what, by in (("watched", watched), ("two fields", wide))
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=8.0, height=4.0)
    axes = grid[0][0]
    measured = _nanoseconds(rows)
    for k, form in enumerate(FORMS[1:]):
        heights = [by[form] / by["wraps"] for by in measured.values()]
        axes.bar([i + k * 0.4 for i in range(len(measured))], heights, 0.4, label=form)
    axes.set_xticks([i + 0.2 for i in range(len(measured))], list(measured), rotation=30, ha="right", fontsize=8)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_ylabel("time against one field that wraps")
    axes.legend(fontsize=8)
    return fig
