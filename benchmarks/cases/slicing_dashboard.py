"""A live dashboard: M4 over 80 concurrent windows, on one and on two cores (Scotty 6.4, Figure 17): events a second.

Each process is an operator instance with a stream of its own. They make ready, wait for each other, and run for the
same stream; the rate is all events over the slowest one's time. In order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import driving, rates, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg

TITLE = "A dashboard on one and two cores (Scotty Figure 17)"

NUMBER = 80
TECHNIQUES = (driving.OPERATOR, "Buckets")


def run(scale: Scale) -> Iterator[Row]:
    cores = os.cpu_count() or 1
    for processes in (p for p in (1, 2, 4, 8) if p <= scale.pick(min(cores, 8), 1)):
        for technique in TECHNIQUES:
            scale.say(f"{technique}, {processes} process(es)")
            # Buckets are slow: a shorter stream gives as good a rate.
            events = scale.pick(1 << (21 if technique == driving.OPERATOR else 18), 1 << 14)
            size = scale.pick(streams.BATCH, 1 << 12)
            laps = [_lap(technique, processes, events, size, scale.seed) for _ in range(scale.pick(3, 1))]
            yield {
                "technique": technique,
                "processes": processes,
                "windows": NUMBER,
                "events": processes * (events - size),
                "events_per_second": round(processes * (events - size) / median(laps)),
                "seconds": [round(lap, 4) for lap in laps],
            }


def _lap(technique: str, processes: int, events: int, size: int, seed: int) -> float:
    """Seconds until the last process is done, counted from the common start."""
    command = [sys.executable, "-m", "benchmarks.cases.slicing_dashboard", technique, str(events), str(size)]
    started = [
        subprocess.Popen(
            [*command, str(seed + k)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(processes)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n", f"{technique} did not start"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return max(float(json.loads(process.communicate()[0])["seconds"]) for process in started)


def worker(technique: str, events: int, size: int, seed: int) -> None:
    """One operator instance: warms up on the first batch, says so, waits, and times the rest."""
    stream = streams.football(events, seed)
    windows = Windows(tuple(Periodic(length, length) for length in streams.tumbling_lengths(NUMBER)))
    if technique == driving.OPERATOR:
        asked = driving.queries(windows, agg.m4("value"))
        course = driving.operator_course(stream, asked, size=size)
    else:
        course = driving.baseline_course(technique, stream, windows, agg.m4("value"), size=size)
    feed = course.make()
    feed(course.batches[0])
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    for batch in course.batches[1:]:
        feed(batch)
    print(json.dumps({"seconds": time.perf_counter() - start}))


def tables(rows: list[Row]) -> list[Table]:
    return [rates.table(rows, "processes", f"M4, {NUMBER} concurrent windows in each process", "processes")]


def findings(rows: list[Row]) -> list[str]:
    lines = [
        f"{p} process(es): {rates.ratios(rows, driving.OPERATOR, ('Buckets',), processes=p)}"
        for p in dict.fromkeys(r["processes"] for r in rows)
    ]
    most = max(r["processes"] for r in rows)
    if most > 1:
        scaled = [
            f"{name} {rates.rate(rows, name, processes=most) / rates.rate(rows, name, processes=1):.2f}"
            for name in rates.techniques(rows)
        ]
        lines.append(f"rate on {most} cores / on one: {', '.join(scaled)}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=5.5, height=3.8)
    rates.bars(grid[0][0], rows, "processes")
    grid[0][0].set_xlabel("processes")
    grid[0][0].set_title(f"M4, {NUMBER} concurrent windows in each process")
    style.shared_legend(fig, grid)
    return fig


if __name__ == "__main__":
    worker(sys.argv[1], *(int(argument) for argument in sys.argv[2:5]))
