"""Rates of several techniques over one variable: as a table, as lines of a plot, and as ratios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.cases import Table
from benchmarks.results import Row

Shown = Callable[[Any], str]


def techniques(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(r["technique"] for r in rows))


def table(rows: list[Row], x: str, caption: str, label: str = "", shown: Shown = str) -> Table:
    """Million events a second, a line for each value of x."""
    names = techniques(rows)
    lines = []
    for value in dict.fromkeys(r[x] for r in rows):
        cells = {r["technique"]: r["events_per_second"] / 1e6 for r in rows if r[x] == value}
        lines.append([shown(value), *(f"{cells[name]:.3g}" if name in cells else "" for name in names)])
    return f"{caption}: million events/s", [label or x, *names], lines


def lines(axes: Any, rows: list[Row], x: str, label: str, *, log: bool = True) -> None:
    from benchmarks import style

    for name in techniques(rows):
        points = [(r[x], r["events_per_second"]) for r in rows if r["technique"] == name]
        style.line(axes, name, *zip(*points, strict=True))
    if log:
        axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("events per second")


def bars(axes: Any, rows: list[Row], group: str) -> None:
    """For values of x that are names: a group of bars each."""
    from benchmarks import style

    groups, names = list(dict.fromkeys(r[group] for r in rows)), techniques(rows)
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        mine = {r[group]: r["events_per_second"] for r in rows if r["technique"] == name}
        places = [i + (k - (len(names) - 1) / 2) * width for i, g in enumerate(groups) if g in mine]
        heights = [mine[g] for g in groups if g in mine]
        axes.bar(places, heights, width * 0.95, label=name, color=style.COLOURS.get(name, "#444444"))
    axes.set_xticks(range(len(groups)), [str(g) for g in groups], rotation=30, ha="right")
    axes.set_yscale("log")
    axes.set_ylabel("events per second")
    axes.grid(axis="x", visible=False)


def rate(rows: list[Row], technique: str, **labels: Any) -> float:
    """The one row of that technique with these labels."""
    (found,) = (
        r["events_per_second"]
        for r in rows
        if r["technique"] == technique and all(r[name] == value for name, value in labels.items())
    )
    return float(found)


def ratios(rows: list[Row], technique: str, others: tuple[str, ...], **labels: Any) -> str:
    """`technique / other = …` for those of the others that took part."""
    mine = rate(rows, technique, **labels)
    present = techniques([r for r in rows if all(r[name] == value for name, value in labels.items())])
    return "; ".join(f"{technique} / {o} = {mine / rate(rows, o, **labels):.2g}" for o in others if o in present)
