"""Many ranges answered at each slide from one store (MQO 2.2, Figure 12): slides a second.

`spread`: k ranges, evenly spaced up to a longest of 4096 events. `every`: the paper's max-multi-query
environment, all ranges 1 … n. And the ratio that sharing is about: SlickDeque with 16 ranges against 16
stores with one range each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import workloads
from benchmarks.cases import Scale, Table
from benchmarks.measure import Entrant, race
from benchmarks.results import Row
from benchmarks.techniques import AGGREGATES, MULTI_QUERY, TECHNIQUES

TITLE = "Multi-query: all ranges answered at each slide (MQO Figure 12)"

LONGEST = 4096
RECOMPUTE_BUDGET = 1 << 25  # ⊕ in one call
ANSWERS = 1 << 22  # in one call: rounds times ranges


def run(scale: Scale) -> Iterator[Row]:
    for aggregate in ("max", "sum"):
        for k in scale.pick((1, 2, 4, 8, 16, 32, 64), (1, 4, 16)):
            scale.say(f"{aggregate}, {k} ranges up to {LONGEST}")
            yield from _race(scale, aggregate, "spread", _spread(k))
        for n in scale.pick((1, 2, 4, 8, 16, 32, 64, 128, 256), (4, 16)):
            scale.say(f"{aggregate}, every range up to {n}")
            yield from _race(scale, aggregate, "every", list(range(1, n + 1)))
        scale.say(f"{aggregate}, 16 ranges shared and apart")
        yield from _shared_and_apart(scale, aggregate)


def _spread(k: int) -> list[int]:
    return [LONGEST * (q + 1) // k for q in range(k)]


def _race(scale: Scale, aggregate: str, kind: str, ranges: list[int]) -> Iterator[Row]:
    entrants, answers = {}, {}
    for technique in MULTI_QUERY:
        rounds = max(64, min(scale.pick(1 << 18, 1 << 15), ANSWERS // len(ranges)))
        if technique == "Recompute":
            rounds = max(64, min(rounds, RECOMPUTE_BUDGET // sum(ranges)))
        values = workloads.uniform(rounds, scale.seed)
        store = TECHNIQUES[technique](AGGREGATES[aggregate](), **_known_ranges(technique, ranges))
        store.insert_many(workloads.uniform(max(ranges), scale.seed + 1))
        answers[technique] = list(store.slide(values[:1], windows=ranges)[0])
        entrants[technique] = Entrant(lambda s=store, v=values: s.slide(v, windows=ranges), rounds)
    for technique, answer in answers.items():
        assert answer == answers["Recompute"], f"{technique} answers {answer}, Recompute {answers['Recompute']}"
    race(entrants, repetitions=scale.pick(9, 3), patience=scale.pick(1.0, 0.2))
    for technique, entrant in entrants.items():
        yield {
            "aggregate": aggregate,
            "kind": kind,
            "ranges": len(ranges),
            "longest": max(ranges),
            "technique": technique,
            "rounds": entrant.rounds,
            "slides_per_second": round(entrant.rate),
            "answers_per_second": round(entrant.rate * len(ranges)),
            "repetitions": len(entrant.times),
        }


def _known_ranges(technique: str, ranges: list[int]) -> dict[str, Any]:
    """SlickDeque (Inv) keeps a running aggregate for each range from the first event on."""
    return {"windows": ranges} if technique == "SlickDeque" else {}


def _shared_and_apart(scale: Scale, aggregate: str) -> Iterator[Row]:
    """One SlickDeque with 16 ranges; 16 stores with one range each, one after the other."""
    ranges = _spread(16)
    values = workloads.uniform(scale.pick(1 << 18, 1 << 15), scale.seed)

    def apart(technique: str) -> Entrant:
        stores = [TECHNIQUES[technique](AGGREGATES[aggregate]()) for _ in ranges]

        def call() -> None:
            for store, window in zip(stores, ranges, strict=True):
                store.slide(values, window=window)

        return Entrant(call, len(values))

    shared = TECHNIQUES["SlickDeque"](AGGREGATES[aggregate](), windows=ranges)
    entrants = {"SlickDeque, 16 ranges": Entrant(lambda: shared.slide(values, windows=ranges), len(values))}
    for technique in ("FlatFIT", "TwoStacks", "SlickDeque"):
        entrants[f"16 × {technique}"] = apart(technique)
    race(entrants, repetitions=scale.pick(7, 3), patience=scale.pick(3.0, 0.3))
    for name, entrant in entrants.items():
        yield {
            "aggregate": aggregate,
            "kind": "shared or apart",
            "ranges": 16,
            "longest": LONGEST,
            "technique": name,
            "rounds": entrant.rounds,
            "slides_per_second": round(entrant.rate),
            "answers_per_second": round(entrant.rate * 16),
            "shared_is_faster_by": round(entrant.seconds / entrants["SlickDeque, 16 ranges"].seconds, 3),
            "repetitions": len(entrant.times),
        }


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for aggregate, kind in dict.fromkeys((r["aggregate"], r["kind"]) for r in rows):
        mine = [r for r in rows if (r["aggregate"], r["kind"]) == (aggregate, kind)]
        if kind == "shared or apart":
            lines = [
                [r["technique"], f"{r['slides_per_second'] / 1e6:.3g}", f"{r['shared_is_faster_by']:.2f}"] for r in mine
            ]
            found.append(
                (
                    f"{aggregate}: 16 ranges up to {LONGEST}",
                    ["", "million slides/s", "time against SlickDeque's"],
                    lines,
                )
            )
            continue
        names = list(dict.fromkeys(r["technique"] for r in mine))
        lines = []
        for k in dict.fromkeys(r["ranges"] for r in mine):
            cells = {r["technique"]: r["slides_per_second"] / 1e6 for r in mine if r["ranges"] == k}
            lines.append([str(k), *(f"{cells[name]:.3g}" for name in names)])
        what = f"ranges evenly spaced up to {LONGEST}" if kind == "spread" else "every range 1 … n"
        found.append((f"{aggregate}, {what}: million slides/s", ["ranges", *names], lines))
    return found


def findings(rows: list[Row]) -> list[str]:
    lines = [
        f"{r['aggregate']}: 16 ranges, time of 16 single-query runs of FlatFIT / of one SlickDeque = "
        f"{r['shared_is_faster_by']:.1f}"
        for r in rows
        if r["technique"] == "16 × FlatFIT"
    ]
    for aggregate, kind in dict.fromkeys((r["aggregate"], r["kind"]) for r in rows):
        if kind == "shared or apart":
            continue
        mine = [r for r in rows if (r["aggregate"], r["kind"]) == (aggregate, kind)]
        most = max(r["ranges"] for r in mine)
        at = {r["technique"]: r["slides_per_second"] for r in mine if r["ranges"] == most}
        slick = at.pop("SlickDeque")
        best = max(at, key=lambda name: at[name])
        what = f"{aggregate}, {most} ranges ({kind})"
        lines.append(f"{what}: SlickDeque / {best} (the best other) = {slick / at[best]:.1f}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(2, 2, sharey="row")
    for line, aggregate in enumerate(("max", "sum")):
        for column, kind in enumerate(("spread", "every")):
            axes = grid[line][column]
            mine = [r for r in rows if (r["aggregate"], r["kind"]) == (aggregate, kind)]
            for name in dict.fromkeys(r["technique"] for r in mine):
                points = [(r["ranges"], r["slides_per_second"]) for r in mine if r["technique"] == name]
                style.line(axes, name, *zip(*points, strict=True))
            style.window_axis(axes, "ranges answered at each slide")
            axes.set_yscale("log")
            axes.set_ylabel("slides per second")
            what = f"ranges evenly spaced up to {LONGEST}" if kind == "spread" else "every range 1 … n"
            axes.set_title(f"{aggregate}, {what}")
    style.shared_legend(fig, grid)
    return fig
