"""Windows over a wheel, by ratio of range to slide (µWheel Figures 5, 6 and 7): events a second, and where the time
goes.

Sums over sliding windows with a ratio of 3 (15s/5s … 30m/10m) and of 180 to 300 (3m/1s … 1h/12s). The watermark moves
every 100 events; it follows the latest time by as much as events are delayed. Inverses are off, as in the paper. In
bulk: one call of `ingest` for the stream, and the table of its windows. Processor time. The streams are generated to
the paper's figures. The real samples are short, and Citi Bike's has an event in 79 seconds: it is ticks and windows
that are measured there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import rates, rides
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg
from windlass.wheel.wheel import Wheel

TITLE = "Windows over a wheel (µWheel Figures 5 to 7)"

HIGH = (("15s", "5s"), ("30s", "10s"), ("1m", "20s"), ("15m", "5m"), ("30m", "10m"))
LOW = (("3m", "1s"), ("15m", "3s"), ("30m", "6s"), ("45m", "9s"), ("1h", "12s"))
AHEAD = (64, 512)
SAMPLE = 200_000  # events of the real streams, at most


def run(scale: Scale) -> Iterator[Row]:
    n = scale.pick(4_000_000, 40_000)
    streams = {"debs": rides.debs(n, scale.seed), "citibike": rides.citibike(n // 2, scale.seed)}
    for name in ("debs sample", "citibike sample"):
        found = rides.sample(name)
        if found is not None and not scale.quick:
            streams[name] = found.head(SAMPLE)
    for data, stream in streams.items():
        delay = rides.DELAY[data]
        start = int(stream.ts.min()) // rides.SECOND * rides.SECOND - delay
        _check(stream.head(20_000), start, delay)
        for ratio, windows in (("high", HIGH), ("low", LOW)):
            entrants = {}
            for window in windows:
                for ahead in AHEAD:
                    entrants[window, ahead] = []
            scale.say(f"{data}, {ratio} ratio")
            for repetition in range(scale.pick(7, 2)):
                for key in entrants:
                    seconds = rides.seconds(partial(_ingest, stream, start, delay, *key), 1)
                    if repetition:  # the first run compiles
                        entrants[key].append(seconds)
            inserts = rides.seconds(partial(_ingest, stream, start, delay, None, 512), 5)
            for ((length, slide), ahead), times in entrants.items():
                median = float(np.median(times))
                yield {
                    "technique": f"wheel, {ahead} ahead",
                    "data": data,
                    "ratio": ratio,
                    "window": f"{length}/{slide}",
                    "events": len(stream),
                    "out_of_order": round(rides.disorder(stream), 4),
                    "events_per_second": round(len(stream) / median),
                    "share_of_windows": round(max(0.0, 1 - inserts / median), 3),
                }


def _ingest(stream: Any, start: int, delay: int, window: Any, ahead: int) -> Any:
    w = Wheel(agg.sum(), np.datetime64(start, "us"), write_ahead=ahead, invertible=False, dtype="int64")
    if window is not None:
        w.window(*window)
    due = w.ingest(stream.value, stream.ts, every=100, delay=f"{delay // rides.SECOND}s" if delay else 0)
    assert due.table.num_rows == len(due)
    return due


def _check(stream: Any, start: int, delay: int) -> None:
    """The windows of a short stretch are those of brute force."""
    due = _ingest(stream, start, delay, ("3m", "1s"), 64)
    late = np.zeros(len(stream), np.bool_)
    late[due.late] = True
    ts, values = stream.ts[~late], stream.value[~late]
    rows = due.table
    for k in range(0, len(rows), max(1, len(rows) // 20)):
        a, b = (rows[name][k].value for name in ("start", "end"))
        inside = (ts >= a) & (ts < b)
        assert rows["sum()"][k].as_py() == int(values[inside].sum())


def _part(rows: list[Row], data: str, ratio: str) -> list[Row]:
    return [r for r in rows if r["data"] == data and r["ratio"] == ratio]


def _data(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(r["data"] for r in rows))


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for data in _data(rows):
        for ratio in ("high", "low"):
            part = _part(rows, data, ratio)
            where = f"{data}, {part[0]['events']:,} events, {part[0]['out_of_order']:.1%} out of order, {ratio} ratio"
            found.append(rates.table(part, "window", where, "range/slide"))
    return found


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for data in _data(rows):
        every = [r["events_per_second"] / 1e6 for r in rows if r["data"] == data]
        low = [r["events_per_second"] for r in _part(rows, data, "low") if r["technique"] == "wheel, 512 ahead"]
        lines.append(
            f"{data}: {min(every):.3g} to {max(every):.3g} million events/s; low ratio, 512 ahead: the slowest of the "
            f"five sizes has {min(low) / max(low):.0%} of the rate of the fastest"
        )
        parts = _part(rows, data, "low")
        share = {r["window"]: r["share_of_windows"] for r in parts if r["technique"] == "wheel, 512 ahead"}
        lines.append(
            f"{data}, share of the time that windows take: " + ", ".join(f"{w} {s:.0%}" for w, s in share.items())
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    data = _data(rows)
    fig, grid = style.figure(len(data), 2, width=5.2, height=3.0)
    for line, name in zip(grid, data, strict=True):
        for axes, ratio in zip(line, ("high", "low"), strict=True):
            rates.bars(axes, _part(rows, name, ratio), "window")
            axes.set_yscale("linear")  # flat is the claim, so that is what should be seen
            axes.set_ylim(bottom=0)
            axes.set_title(f"{name}, {ratio} ratio")
    style.shared_legend(fig, grid)
    return fig
