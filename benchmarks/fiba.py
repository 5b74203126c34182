"""What the cases about FiBA share: windows that are full, streams that are fed in chunks, and the paper's own program.

Times are of the processor, not of the wall, so that other work on the machine does not count. Where $WINDLASS_SWAG_CPP
names a directory with the drivers of the paper's C++ implementation (sliding-window-aggregators, -O3), they run in the
same race.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg
from windlass.stores import ClassicBTree, FiBA

CHUNK = 1024  # events: how much of its future a stream gets to see
AGGREGATES: dict[str, Callable[[], Any]] = {
    "sum": agg.sum,
    "geomean": agg.geomean,
    "bloom": lambda: agg.bloom_filter(expected=400),  # 4096 bits
}
CPP_ROUNDS = {"sum": 1 << 23, "geomean": 1 << 23, "bloom": 1 << 18}


def full(make: Callable[[], Any], aggregate: str, window: int, distance: int) -> Any:
    """A store whose window is full: the last `distance` of its times lie far ahead, as in the paper's load
    generator."""
    store = make()
    times = np.concatenate([np.arange(window - distance), (1 << 40) + np.arange(distance)])
    store.bulk_insert(times, values_for(aggregate, window))
    return store


def values_for(aggregate: str, n: int) -> Any:
    values = 1 + np.arange(n) % 101
    return values.astype(np.float64) if aggregate == "geomean" else values


def fed(store: Any, times: Any, values: Any, **window: Any) -> float:
    """Processor seconds to run a stream through, a chunk at a time."""
    start = time.process_time()
    for k in range(0, len(times), CHUNK):
        store.stream(times[k : k + CHUNK], values[k : k + CHUNK], **window)
    return time.process_time() - start


def stores(arities: tuple[int, ...] = (16, 8, 4), classic: bool = True) -> dict[str, Callable[[str], Any]]:
    found: dict[str, Callable[[str], Any]] = {
        f"FiBA {arity}": lambda aggregate, a=arity: FiBA(AGGREGATES[aggregate](), min_arity=a) for arity in arities
    }
    if classic:
        found["classic 8"] = lambda aggregate: ClassicBTree(AGGREGATES[aggregate](), min_arity=8)
    return found


def cpp_rate(driver: str, arguments: Callable[[int], list[str]], rounds: int, timeout: float = 120) -> float | None:
    """Rounds a second of a C++ driver: what it takes with these rounds, less what it takes with hardly any. None if
    that is so little that it cannot be told from noise."""
    directory = os.environ.get("WINDLASS_SWAG_CPP")
    if directory is None:
        return None
    program = Path(directory) / driver
    if not program.is_file():
        return None
    seconds = []
    for n in (1000, rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(program), *arguments(n)], capture_output=True, check=True, timeout=timeout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime)
    taken = seconds[1] - seconds[0]
    return (rounds - 1000) / taken if taken > 0.2 * seconds[0] else None


def cpp_stream(scale: Scale, arity: int, aggregate: str, window: int, distance: int) -> float | None:
    """Rounds a second of C++ FiBA: evict, insert at a distance, query."""

    def arguments(n: int) -> list[str]:
        return [f"bfinger{arity}", aggregate, str(window), str(distance), str(window + n)]

    rounds = max(window, CPP_ROUNDS[aggregate])  # fewer could not be told from filling the window
    return cpp_rate("ooo_benchmark_driver", arguments, scale.pick(rounds, 1 << 16))


def row(case: str, series: str, x: int, rates: list[float], **more: Any) -> Row:
    return {"panel": case, "series": series, "x": x, "per_second": round(median(rates)), "runs": len(rates), **more}


def pivot(rows: list[Row], caption: str, x: str, show: Callable[[int], str]) -> list[Table]:
    """A table a panel: million a second, a line for each x, a column for each series."""
    found = []
    for panel in dict.fromkeys(r["panel"] for r in rows):
        mine = [r for r in rows if r["panel"] == panel]
        names = list(dict.fromkeys(r["series"] for r in mine))
        lines = []
        for at in sorted({r["x"] for r in mine}):
            cells = {r["series"]: r["per_second"] for r in mine if r["x"] == at}
            lines.append([show(at), *(f"{cells[n] / 1e6:.3g}" if n in cells else "" for n in names)])
        found.append((f"{panel}: {caption}", [x, *names], lines))
    return found


def against_cpp(rows: list[Row]) -> list[str]:
    """The best arity of each, where both ran."""
    lines = []
    for panel in dict.fromkeys(r["panel"] for r in rows):
        ratios = []
        for at in sorted({r["x"] for r in rows if r["panel"] == panel}):
            best = {True: 0, False: 0}
            for r in rows:
                if (r["panel"], r["x"]) == (panel, at) and "FiBA" in r["series"]:
                    is_cpp = r["series"].startswith("C++")
                    best[is_cpp] = max(best[is_cpp], r["per_second"])
            if best[True] and best[False]:
                ratios.append(f"{best[False] / best[True]:.2f}")
        if ratios:
            lines.append(f"{panel}: best FiBA here over best FiBA in C++, from left to right: {', '.join(ratios)}")
    return lines


# Of Okabe and Ito, and darker ones where those are used up.
_SERIES = ("#E69F00", "#009E73", "#D55E00", "#CC79A7", "#8C510A", "#000000", "#117733", "#882255", "#44AA99", "#999933")


def lines_of(rows: list[Row], label: str, logarithmic: bool = True, what: str = "million a second") -> Any:
    from benchmarks import style

    panels = list(dict.fromkeys(r["panel"] for r in rows))
    series = list(dict.fromkeys(r["series"] for r in rows))  # one colour each, in all panels
    fig, grid = style.figure(1, len(panels))
    for axes, panel in zip(grid[0], panels, strict=True):
        mine = [r for r in rows if r["panel"] == panel]
        for name in dict.fromkeys(r["series"] for r in mine):
            points = sorted((r["x"], r["per_second"] / 1e6) for r in mine if r["series"] == name)
            colour = style.COLOURS.get(name) or _SERIES[series.index(name) % len(_SERIES)]
            dash = "--" if name.startswith("C++") else "-"
            x, y = [p[0] for p in points], [p[1] for p in points]
            style.line(axes, name, x, y, color=colour, linestyle=dash, marker="o")
        axes.set_title(panel)
        axes.set_xscale("symlog" if logarithmic else "linear", **({"base": 2} if logarithmic else {}))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(label)
        axes.set_ylabel(what)
    style.shared_legend(fig, grid, columns=3 if len(panels) == 1 else 6)
    return fig
