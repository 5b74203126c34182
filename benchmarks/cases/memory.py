"""Bytes of state of each technique over the window's size, against the paper's formula (MQO Figure 13,
Table 2).

Windows that are not a power of two are there because two of the techniques round up. SlickDeque (Non-Inv)
keeps only what can still be an answer, so it is measured over random and over descending values, its best
and its worst case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import workloads
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.techniques import AGGREGATES, TECHNIQUES

TITLE = "Memory of the stores (MQO Figure 13, Table 2)"

PARTIAL = 8  # bytes: max and sum over int64

# Table 2, in partials for a window of n. For SlickDeque (Non-Inv) it has a lower and an upper bound.
FORMULAS = {
    "Recompute": ("n", 1),
    "FlatFAT": ("2n, or 3n", 2),
    "B-Int": ("2n, or 3n", 2),
    "FlatFIT": ("2n", 2),
    "TwoStacks": ("2n", 2),
    "DABA": ("2n", 2),
    "SubtractOnEvict": ("n", 1),
    "SlickDeque (Inv)": ("n", 1),
    "SlickDeque (Non-Inv), random": ("2 to 2n", None),
    "SlickDeque (Non-Inv), descending": ("2 to 2n", 2),
}


def run(scale: Scale) -> Iterator[Row]:
    for exponent in scale.pick(range(4, 23), range(4, 13, 2)):
        scale.say(f"window 2^{exponent}")
        for window in (1 << exponent, 3 << (exponent - 1)):
            for name, (formula, factor) in FORMULAS.items():
                nbytes = _nbytes(name, window)
                table = None if factor is None else _partials(name, factor, window) * PARTIAL
                yield {
                    "technique": name,
                    "window": window,
                    "nbytes": nbytes,
                    "formula": formula,
                    "formula_nbytes": table,
                    "partials_per_event": round(nbytes / PARTIAL / window, 7),
                }


def _partials(name: str, factor: int, window: int) -> int:
    rounded = name in ("FlatFAT", "B-Int") and window & (window - 1)
    return (3 if rounded else factor) * window


def _nbytes(name: str, window: int) -> int:
    technique, _, variant = name.partition(" ")
    aggregate = "sum" if technique == "SubtractOnEvict" or variant == "(Inv)" else "max"
    values = (workloads.descending if "descending" in variant else workloads.uniform)(2 * window)
    store = TECHNIQUES[technique](AGGREGATES[aggregate]())
    if technique == "Recompute":  # folding the window for answers that nobody needs would take hours
        store = TECHNIQUES[technique](AGGREGATES[aggregate](), capacity=window)
        store.insert_many(values[:window])
    else:
        store.slide(values, window=window)
    return int(store.nbytes)


def tables(rows: list[Row]) -> list[Table]:
    windows = sorted({r["window"] for r in rows})
    powers = [w for w in windows if w & (w - 1) == 0]
    shown = [w for w in (1 << 10, 3 << 9, powers[-1]) if w in windows]
    lines = []
    for name in FORMULAS:
        cells = {r["window"]: r for r in rows if r["technique"] == name}
        lines.append([name, FORMULAS[name][0], *(f"{cells[w]['partials_per_event']:.3g} n" for w in shown)])
    return [("State in partials of 8 bytes", ["technique", "Table 2", *(f"n = {w}" for w in shown)], lines)]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    most = max(r["window"] for r in rows if r["window"] & (r["window"] - 1) == 0)
    at = {r["technique"]: r for r in rows if r["window"] == most}
    above = [n for n, r in at.items() if r["formula_nbytes"] and r["nbytes"] > 1.01 * r["formula_nbytes"]]
    lines.append(f"window {most}: above Table 2's formula: {', '.join(above) or 'none'}")
    slick = at["SlickDeque (Non-Inv), random"]["nbytes"]
    stacks = at["TwoStacks"]["nbytes"]
    lines.append(f"window {most}, max over random values: SlickDeque keeps {slick} bytes, TwoStacks {stacks}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.2)
    total, relative = grid[0]
    for name in FORMULAS:
        mine = sorted((r for r in rows if r["technique"] == name), key=lambda r: r["window"])
        technique, _, variant = name.partition(" ")
        options: dict[str, Any] = {
            "color": style.COLOURS[technique],
            "marker": style.MARKERS[technique],
            "label": name,
        }
        if variant:
            options["linestyle"] = {"(Inv)": "-", "(Non-Inv), random": "--", "(Non-Inv), descending": ":"}[variant]
        powers = [r for r in mine if r["window"] & (r["window"] - 1) == 0]
        style.line(total, technique, [r["window"] for r in powers], [r["nbytes"] for r in powers], **options)
        style.line(
            relative,
            technique,
            [r["window"] for r in mine],
            [r["partials_per_event"] for r in mine],
            **options,
        )
    total.set_yscale("log", base=2)
    total.set_ylabel("state (bytes)")
    total.set_title("windows of a power of two")
    relative.set_ylim(0, 4.5)
    for factor, label in ((1, "n (Table 2)"), (2, "2n"), (3, "3n")):
        relative.axhline(factor, color="#bbbbbb", linewidth=5, alpha=0.5, zorder=0)
        relative.annotate(
            f" {label}", (1, factor), xycoords=("axes fraction", "data"), fontsize=7, ha="left", va="center"
        )
    relative.set_ylabel("state (partials for each event of the window)")
    relative.set_title("powers of two, and half-way between")
    for axes in (total, relative):
        style.window_axis(axes)
    style.shared_legend(fig, grid, columns=4)
    return fig
