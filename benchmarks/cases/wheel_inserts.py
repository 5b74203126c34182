"""Single inserts into a wheel (µWheel Figure 8): the p95 of one call, over the windows of the low ratio.

`insert` is called for every event and `advance_to` for every 100; only `insert` is timed. Processor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import rides
from benchmarks.cases import Scale, Table
from benchmarks.cases.wheel_windows import LOW
from benchmarks.results import Row
from windlass import agg
from windlass.wheel.wheel import Wheel

TITLE = "Single inserts into a wheel (µWheel Figure 8)"


def run(scale: Scale) -> Iterator[Row]:
    n = scale.pick(100_000, 5_000)
    for data, stream in (("debs", rides.debs(n, scale.seed)), ("citibike", rides.citibike(n, scale.seed))):
        for window in LOW:
            for ahead in (64, 512):
                w = Wheel(
                    agg.sum(), np.datetime64(rides.START, "us"), write_ahead=ahead, invertible=False, dtype="int64"
                )
                w.window(*window)
                times, values = stream.ts.tolist(), stream.value.tolist()
                latest = np.maximum.accumulate(stream.ts).tolist()
                delay, taken = rides.DELAY[data], np.empty(n)
                for begin in range(0, n, 100):
                    count = min(100, n - begin)
                    taken[begin : begin + count] = rides.latencies(
                        lambda i, w=w, values=values, times=times, begin=begin: w.insert(
                            values[begin + i], times[begin + i]
                        ),
                        count,
                    )
                    w.advance_to(latest[begin + count - 1] - delay)
                yield {
                    "data": data,
                    "technique": f"wheel, {ahead} ahead",
                    "window": "/".join(window),
                    "p50": round(float(np.percentile(taken, 50)), 3),
                    "p95": round(float(np.percentile(taken, 95)), 3),
                    "mean": round(float(np.mean(taken)), 3),
                }
            scale.say(f"{data} {window}")


def tables(rows: list[Row]) -> list[Table]:
    lines = [
        [r["data"], r["window"], r["technique"], f"{r['p50']:.2f}", f"{r['p95']:.2f}", f"{r['mean']:.2f}"] for r in rows
    ]
    return [("microseconds of one insert", ["stream", "range/slide", "", "p50", "p95", "mean"], lines)]


def findings(rows: list[Row]) -> list[str]:
    worst = max(rows, key=lambda r: r["p95"])
    mean = max(r["mean"] for r in rows)
    return [f"p95 at most {worst['p95']:.2f} µs, mean at most {mean:.2f} µs, whatever the window"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=5.2, height=3.2, sharey=True)
    for axes, data in zip(grid[0], ("debs", "citibike"), strict=True):
        for technique in ("wheel, 64 ahead", "wheel, 512 ahead"):
            part = [r for r in rows if r["data"] == data and r["technique"] == technique]
            axes.plot([r["window"] for r in part], [r["p95"] for r in part], marker="o", label=technique)
        axes.set_title(data)
        axes.set_ylabel("p95 of an insert (µs)")
        axes.set_ylim(bottom=0)
    style.shared_legend(fig, grid)
    return fig
