"""What compilation costs: the first use of each store in a fresh process, with an empty and with a warm
cache.

Budget: a store with a new user-defined aggregate under 3 s, with a warm cache under 50 ms. Importing
windlass and starting numba (its import, and what it sets up for any first function) are listed apart: they
are paid once a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from benchmarks.techniques import TECHNIQUES

TITLE = "Compile time: the first use of a store in a fresh process"

COLD_BUDGET, WARM_BUDGET = 3.0, 0.050
BUILT_IN = ("TwoStacks", "SlickDeque")


def run(scale: Scale) -> Iterator[Row]:
    pairs = [(technique, "rms") for technique in scale.pick(tuple(TECHNIQUES), ("TwoStacks",))]
    pairs += [
        (t, a) for t in scale.pick(BUILT_IN, ("SlickDeque",)) for a in scale.pick(("sum", "max", "avg"), ("max",))
    ]
    for technique, aggregate in pairs:
        scale.say(f"{technique}, {aggregate}")
        with tempfile.TemporaryDirectory() as cache:
            cold = _first_use(technique, aggregate, cache)
            warm = [_first_use(technique, aggregate, cache) for _ in range(scale.pick(3, 1))]
        yield {
            "technique": technique,
            "aggregate": aggregate,
            "user_defined": aggregate == "rms",
            "cold_seconds": cold["first_use"],
            "cold_processor_seconds": cold["first_use_processor"],
            "warm_seconds": median(w["first_use"] for w in warm),
            "warm_processor_seconds": median(w["first_use_processor"] for w in warm),
            "import_windlass_seconds": median(w["import_windlass"] for w in warm),
            "start_numba_seconds": median(w["start_numba"] for w in warm),
        }


def _first_use(technique: str, aggregate: str, cache: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_use", technique, aggregate],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{technique} with {aggregate} failed:\n{done.stderr}")
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _verdict(seconds: float, budget: float) -> str:
    return "pass" if seconds < budget else "FAIL"


def tables(rows: list[Row]) -> list[Table]:
    lines = [
        [
            r["technique"],
            r["aggregate"] + (" (user-defined)" if r["user_defined"] else ""),
            f"{r['cold_seconds']:.2f}",
            _verdict(r["cold_seconds"], COLD_BUDGET),
            f"{r['warm_seconds'] * 1e3:.1f}",
            _verdict(r["warm_seconds"], WARM_BUDGET),
        ]
        for r in rows
    ]
    header = [
        "technique",
        "aggregate",
        "cold, s",
        f"< {COLD_BUDGET:.0f} s",
        "warm, ms",
        f"< {WARM_BUDGET * 1e3:.0f} ms",
    ]
    return [("First use in a fresh process, imports and the start of numba apart", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    windlass = median(r["import_windlass_seconds"] for r in rows)
    numba = median(r["start_numba_seconds"] for r in rows)
    failed = [
        f"{r['technique']} {r['aggregate']}"
        for r in rows
        if r["cold_seconds"] >= COLD_BUDGET or r["warm_seconds"] >= WARM_BUDGET
    ]
    return [
        f"import windlass {windlass * 1e3:.0f} ms, starting numba {numba * 1e3:.0f} ms",
        f"over budget: {', '.join(failed) or 'none'} of {len(rows)}",
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=6.0, height=4.4, sharey=True)
    labels = [f"{r['technique']}, {r['aggregate']}" for r in rows]
    for axes, field, factor, budget, unit in (
        (grid[0][0], "cold_seconds", 1, COLD_BUDGET, "seconds"),
        (grid[0][1], "warm_seconds", 1e3, WARM_BUDGET * 1e3, "milliseconds"),
    ):
        colours = [style.COLOURS[r["technique"]] for r in rows]
        axes.barh(labels, [r[field] * factor for r in rows], color=colours)
        axes.axvline(budget, color="black", linestyle="--", linewidth=1)
        axes.annotate(" budget", (budget, 1), xycoords=("data", "axes fraction"), fontsize=8, va="top")
        axes.set_xlabel(unit)
        axes.grid(axis="y", visible=False)
        axes.set_title("empty cache" if field == "cold_seconds" else "warm cache")
    grid[0][0].invert_yaxis()
    return fig
