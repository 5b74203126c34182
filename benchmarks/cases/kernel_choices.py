"""What each choice of windlass.kernels is worth: one taken back at a time, and what makes numba's cache hit.

Every variant runs in a process of its own with a cache of its own, interleaved; best of 40 runs of 65,536 rounds,
sum over int64, window 4096.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.cases import Scale, Table
from benchmarks.kernel_variant import CACHED, VARIANTS
from benchmarks.results import Row

TITLE = "Choices in the kernels: what each is worth"

TECHNIQUES = ("TwoStacks", "DABA", "FlatFIT", "FlatFAT")


def run(scale: Scale) -> Iterator[Row]:
    best: dict[str, dict[str, float]] = {variant: {} for variant in VARIANTS}
    for _ in range(scale.pick(3, 1)):
        for variant in VARIANTS:
            scale.say(variant)
            with tempfile.TemporaryDirectory() as cache:
                for technique, nanoseconds in _process(variant, cache).items():
                    best[variant][technique] = min(nanoseconds, best[variant].get(technique, nanoseconds))
    for variant, measured in best.items():
        for technique, nanoseconds in measured.items():
            yield {"variant": variant, "technique": technique, "nanoseconds_a_round": nanoseconds}
    for variant in CACHED:
        scale.say(variant)
        with tempfile.TemporaryDirectory() as cache:
            first, second = _process(variant, cache), _process(variant, cache)
            files = len(list(Path(cache).rglob("*.nbc")))
        yield {
            "variant": variant,
            "first_process_seconds": first["seconds"],
            "second_process_seconds": second["seconds"],
            "second_process_hits": second["hit"],
            "files_after_two": files,
        }


def _process(variant: str, cache: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernel_variant", variant],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{variant} failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _rounds(rows: list[Row], variant: str, technique: str) -> float:
    return next(
        float(r["nanoseconds_a_round"]) for r in rows if r["variant"] == variant and r.get("technique") == technique
    )


def tables(rows: list[Row]) -> list[Table]:
    lines = [[v, *(f"{_rounds(rows, v, t):.2f}" for t in TECHNIQUES)] for v in VARIANTS]
    cached = [
        [
            r["variant"],
            f"{r['first_process_seconds']:.3f}",
            f"{r['second_process_seconds']:.3f}",
            "hit" if r["second_process_hits"] else "compiled again",
            str(r["files_after_two"]),
        ]
        for r in rows
        if r["variant"] in CACHED
    ]
    return [
        ("Nanoseconds a round", ["variant", *TECHNIQUES], lines),
        ("First call of a cached kernel, seconds", ["kernel", "first process", "second", "cache", "files"], cached),
    ]


def findings(rows: list[Row]) -> list[str]:
    return [
        f"{t}: {_rounds(rows, 'none of the three', t) / _rounds(rows, 'as built', t):.1f} times as fast as with none "
        "of the three choices"
        for t in TECHNIQUES
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=8.0, height=4.0)
    axes = grid[0][0]
    width = 0.8 / len(VARIANTS)
    for k, variant in enumerate(VARIANTS):
        heights = [_rounds(rows, variant, t) for t in TECHNIQUES]
        axes.bar([i + k * width for i in range(len(TECHNIQUES))], heights, width, label=variant)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(TECHNIQUES))], TECHNIQUES)
    axes.set_ylabel("nanoseconds a round (less is better)")
    axes.legend(fontsize=8)
    return fig
