"""How the Spark pipeline scales: cores of one process, and executors that are processes of their own.

One sliding window of 60 s every 10 s over Parquet files, 100 keys, in batch. Each master is a Spark of its own, in
which each job runs for a while before its three runs are timed. `cores` says what the machine has, `processor_seconds`
what a run took of them, in the driver, the executors and Python together: over its seconds, that is how many cores were
busy. Where all are, more executors only share them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.cases import Scale, Table
from benchmarks.results import Row

TITLE = "Spark: cores and executors"

MASTERS = ("local[1]", "local[2]", "local-cluster[1,1,1024]", "local-cluster[2,1,1024]", "local-cluster[4,1,1024]")

_CHILD = """
import json, sys
from benchmarks import spark
from benchmarks.measure import timed
from windlass.spark import session
master, rows, seed, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
made = session(master=master)
spark.spark.cache_clear()
spark.spark = lambda: made
events, window = spark.Events.of(rows, 100, seed), spark.Periodic(60, 10)
jobs = {kind: spark.batch(rows, make) for kind, make in (
    ("Windlass, Parquet", lambda: spark.shared(events.parquet(), [window])),
    ("Windlass, DataFrame", lambda: spark.shared(events.frame(), [window])),
    ("native", lambda: window.native(events.frame())),
)}
def run(job):
    before = spark.processor_seconds()
    return timed(job.call), spark.processor_seconds() - before
def runs(job):
    spark.warmed(job, job, seconds)
    return [run(job) for _ in range(3)]
print("RESULT", json.dumps({kind: runs(job) for kind, job in jobs.items()}))
"""


def run(scale: Scale) -> Iterator[Row]:
    rows = scale.pick(20_000_000, 200_000)
    for master in scale.pick(MASTERS, MASTERS[:1]):
        scale.say(master)
        arguments = [sys.executable, "-c", _CHILD, master, *map(str, (rows, scale.seed, scale.pick(20, 0)))]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
        found = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
        if not found:
            raise RuntimeError(f"{master}: {done.stderr[-2000:]}")
        for technique, runs in json.loads(found[0].removeprefix("RESULT")).items():
            times = [seconds for seconds, _ in runs]
            seconds, processor = sorted(runs)[1]
            yield {
                "master": master,
                "technique": technique,
                "cores": os.cpu_count(),
                "rows": rows,
                "seconds": round(seconds, 4),
                "processor_seconds": round(processor, 2),
                "us_a_row": round(seconds / rows * 1e6, 4),
                "times": [round(t, 3) for t in times],
            }


def tables(rows: list[Row]) -> list[Table]:
    techniques = list(dict.fromkeys(r["technique"] for r in rows))
    seconds, busy = [], []
    for master in dict.fromkeys(r["master"] for r in rows):
        by = {r["technique"]: r for r in rows if r["master"] == master}
        seconds.append([master, *(f"{by[t]['seconds']:.2f}" for t in techniques)])
        busy.append([master, *(f"{by[t]['processor_seconds']:.1f} ({_busy(by[t]):.1f})" for t in techniques)])
    what = f"{rows[0]['rows']:,} rows on {rows[0]['cores']} cores"
    return [
        (f"{what}: seconds", ["master", *techniques], seconds),
        (f"{what}: processor seconds (cores busy)", ["master", *techniques], busy),
    ]


def _busy(row: Row) -> float:
    return float(row["processor_seconds"] / row["seconds"])


def findings(rows: list[Row]) -> list[str]:
    by = {(r["master"], r["technique"]): r for r in rows}
    found = []
    for few, many in (("local[1]", "local[2]"), ("local-cluster[1,1,1024]", "local-cluster[2,1,1024]")):
        if (many, "native") in by:
            techniques = dict.fromkeys(r["technique"] for r in rows)
            ratios = [
                f"{t} {by[few, t]['seconds'] / by[many, t]['seconds']:.2g} "
                f"(cores busy: {_busy(by[few, t]):.1f} and {_busy(by[many, t]):.1f})"
                for t in techniques
            ]
            found.append(f"{few} / {many}: {', '.join(ratios)} times as long")
    return found


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    masters = list(dict.fromkeys(r["master"] for r in rows))
    fig, grid = style.figure(1, 1, width=7.0, height=3.6)
    axes = grid[0][0]
    for technique in dict.fromkeys(r["technique"] for r in rows):
        axes.plot(masters, [r["seconds"] for r in rows if r["technique"] == technique], marker="o", label=technique)
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    axes.tick_params(axis="x", labelrotation=15)
    axes.legend(loc="center left", bbox_to_anchor=(0.0, 0.4))  # between the lines
    return fig
