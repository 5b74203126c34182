"""The Spark pipeline, whole: sensors that send out of order, nine kinds of windows in one pass, checked and drawn.

    python examples/spark_demo.py               # make demo; --rows 300000 for a short one

Six hundred sensors send readings for five minutes, awake for 40 seconds and asleep for 20. Most readings come in order,
a tenth up to eight seconds late. Every two minutes a gateway drops out, and five seconds of readings come a minute
late: too late for the watermark, ten seconds behind, so the windows they belong to are corrected.

Everything runs in this process and on this machine; what is written goes to build/spark_demo.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from windlass import Cumulate, Deterministic, LastN, Operator, Punctuation, Query, Session, Sliding, Tumbling, agg
from windlass.spark import late_of, progress, results_of, session, shared_windows

OUT = Path(__file__).resolve().parents[1] / "build" / "spark_demo"
SENSORS, DURATION = 600, 300  # seconds of event time
WATERMARK, LATENESS = "10 seconds", "90 seconds"
PACKET = 5_000.0
BEGAN = time.perf_counter()
SAMPLE = ["sensor-7", "sensor-42", "sensor-599"]  # what is checked; the first is drawn


def packets(state: tuple[float, bool], ts: int, value: float) -> tuple[tuple[float, bool], bool, bool]:
    """A window of our own: readings one after another, until they add up to 5,000."""
    total, begun = state
    full = total >= PACKET
    return (value if full else total + value, True), full or not begun, full


VALUE = agg.avg("value").alias("mean")
QUERIES = [
    Query("ten", Tumbling("10s"), agg.count().alias("n"), VALUE),
    Query("half", Sliding("30s", "10s"), VALUE, agg.stddev("value").alias("spread")),
    Query("minute", Sliding("60s", "1s"), VALUE, agg.max("value").alias("top")),
    Query("so_far", Cumulate("10s", "1m"), agg.sum("value").alias("total")),
    Query("awake", Session("5s"), agg.count().alias("n"), agg.first("value").alias("first")),
    Query("hundred", Tumbling(100, measure="count"), VALUE),
    Query("checked", Punctuation("checks"), agg.min("value").alias("bottom"), agg.max("value").alias("top")),
    Query("packets", Deterministic(packets, columns=("value",), state=(0.0, False)), agg.sum("value").alias("total")),
    Query("recent", LastN(20, "10s"), VALUE),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Windlass on Spark, on generated readings.")
    parser.add_argument("--rows", type=int, default=3_000_000, help="readings, of which a third are slept through")
    rows = parser.parse_args().rows
    if rows < 100_000:
        parser.error("--rows: 100,000 at least, or there is little to see")
    rate = rows // DURATION
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)

    heading("The plan, shared by all queries")
    keyed = {"time": "ts", "key": "sensor", "sequence": "seq", "allowed_lateness": LATENESS}
    print(Operator(QUERIES, **keyed).explain())

    heading("The stream (the first run of all compiles kernels, and takes longer)")
    with errors_into(OUT / "spark.log"):
        spark = session("windlass demo")
    with progress(spark):
        results = shared_windows(readings(spark.readStream, rows, rate), QUERIES, **keyed)
        query = write(results, "sensors")
    results = spark.read.parquet(str(OUT / "sensors"))
    seen = summary(query, results)

    heading("Checked against brute force")
    mark = watermark_of(query)
    events = {sensor: [] for sensor in SAMPLE}
    for row in readings(spark.read, rows, rate).where(F.col("sensor").isin(SAMPLE)).collect():
        events[row.sensor].append(row)
    for sensor in SAMPLE:
        check(sensor, events[sensor], seen[sensor], mark)

    heading("Drawn")
    print(f"two minutes of {SAMPLE[0]}: {draw(events[SAMPLE[0]], seen[SAMPLE[0]], mark, OUT / 'windows.png')}")

    heading("Beside Spark's own sliding window: mean and maximum of 60 s, every second, for each sensor")
    race(spark, rows // 2, rate)
    spark.stop()
    print(f"\nall of this took {time.perf_counter() - BEGAN:.0f} s")


def heading(text: str) -> None:
    print(f"\n── {text} ── {time.perf_counter() - BEGAN:.0f} s", flush=True)


@contextlib.contextmanager
def errors_into(path: Path) -> Iterator[None]:
    """What is started here writes its errors to a file: Spark's own words would break into the display."""
    ours = os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


# ------------------------------------------------------------------ in and out


def readings(reader: Any, rows: int, rate: int, *, outages: bool = True, batches: int = 12) -> DataFrame:
    """A DataFrame like any other: here a generated one, with what sensors slept through left out."""
    options = {"rows": rows, "rowsPerSecond": rate, "keys": SENSORS, "disorder": 0.1, "maxDelay": "8s"}
    if outages:
        options |= {"burstEvery": "2m", "burstLength": "5s", "burstDelay": "60s"}
    generated = reader.format("windlass-generator").options(**options, rowsPerBatch=-(-rows // batches)).load()
    awake = F.expr("pmod(unix_seconds(ts) + 7 * int(substr(sensor, 8)), 60) < 40")
    return generated.where(awake).withColumn("checks", F.expr("seq % 150 = 0")).withWatermark("ts", WATERMARK)


def write(results: DataFrame, name: str) -> StreamingQuery:
    """Run a stream to its end, into Parquet."""
    writer = results.writeStream.queryName(name).format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(OUT / f"{name}.checkpoint")).start(str(OUT / name))
    query.awaitTermination()
    return query


def watermark_of(query: StreamingQuery) -> datetime:
    """How far it has come: what the last micro-batch led to."""
    return datetime.fromtimestamp(query.recentProgress[-1].observedMetrics["windlass"].watermark / 1000, UTC)


# ------------------------------------------------------------------ results

Bounds = tuple[Any, Any]
Answers = dict[str, dict[Bounds, dict[str, Any]]]  # by query and bounds


def summary(query: StreamingQuery, results: DataFrame) -> dict[str, Answers]:
    """Prints what came out; returns the windows that hold at the end, of the sensors of the sample."""
    figures = [report.observedMetrics["windlass"] for report in query.recentProgress]
    events, late = (sum(figure[name] for figure in figures) for name in ("events", "late"))
    print(f"\n{events:,} readings, {late:,} of them late, {late_of(results).count():,} too late for every query\n")
    counted = results.where("late is null").groupBy("query")
    revised, withdrawn = (F.count_if(F.expr(e)) for e in ("revision > 0 and not retraction", "retraction"))
    rows = {row[0]: row[1:] for row in counted.agg(F.count("*"), revised, withdrawn).collect()}
    print(f"{'query':<10}{'window':<36}{'rows':>9}{'revised':>10}{'withdrawn':>11}")
    for asked in QUERIES:
        window = re.sub(r"(\w), columns=.*", r"\1)", str(asked.window))
        print(f"{asked.name:<10}{window:<36}" + "{:>9,}{:>10,}{:>11,}".format(*rows.get(asked.name, (0, 0, 0))))
    corrected = results_of(results, "ten").where("revision > 0").orderBy(F.desc("revision"), "sensor").first()
    if corrected is not None:
        print("\nresults_of(results, 'ten'): a window that late readings changed, as it came out")
        same_window = (F.col("sensor") == corrected.sensor) & (F.col("window.start") == corrected.window.start)
        results_of(results, "ten").where(same_window).orderBy("revision").show(truncate=False)

    seen: dict[str, Answers] = {sensor: {asked.name: {} for asked in QUERIES} for sensor in SAMPLE}
    of_sample = results.where(F.col("sensor").isin(SAMPLE) & F.col("late").isNull())
    for row in sorted(of_sample.collect(), key=lambda row: row.revision):  # a later one replaces, or takes away
        bounds = (row.low, row.high) if row.low is not None else (utc(row.window.start), utc(row.window.end))
        windows = seen[row.sensor][row.query]
        if row.retraction:
            del windows[bounds]
        else:
            windows[bounds] = row[row.query].asDict() | {"span": (utc(row.window.start), utc(row.window.end))}
    return seen


def utc(local: datetime) -> datetime:
    """Spark hands times over as local ones, without a zone."""
    return local.astimezone(UTC)


# ------------------------------------------------------------------ the oracle: what should have come out

SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check(sensor: str, events: list[Any], seen: Answers, mark: datetime) -> None:
    """Compares every window of a sensor, and its values, with `expected`; ends the demo at the first that differs."""
    expected = {name: dict(windows) for name, windows in oracle(events, mark)}
    for name, windows in expected.items():
        got = seen[name]
        if got.keys() != windows.keys():
            missing, extra = sorted(windows.keys() - got.keys())[:3], sorted(got.keys() - windows.keys())[:3]
            sys.exit(f"{sensor}, query {name}: windows differ; missing {missing}, not expected {extra}")
        for bounds, values in windows.items():
            for column, value in values.items():
                if not same(got[bounds][column], value):
                    sys.exit(f"{sensor}, {name} {bounds}: {column} is {got[bounds][column]}, expected {value}")
    total = sum(map(len, expected.values()))
    if not total:
        sys.exit(f"{sensor} has no windows: give more --rows")
    print(f"{sensor:<11}{len(events):,} readings, {total:,} windows of {len(expected)} queries: all as expected")


def same(got: float | None, expected: float | None) -> bool:
    if got is None or expected is None:
        return got is expected
    return math.isclose(got, expected, rel_tol=1e-9)


def oracle(events: list[Any], mark: datetime) -> Iterator[tuple[str, Iterator[tuple[Bounds, dict[str, Any]]]]]:
    """For each query, from the definition of its windows: their bounds and values. Uses nothing of Windlass."""
    rows = sorted(((utc(e.ts), e.seq, e.value, e.checks) for e in events), key=lambda row: row[:2])
    ts, values, checks = ([row[i] for row in rows] for i in (0, 2, 3))

    def between(start: datetime, end: datetime) -> list[float]:
        return values[bisect.bisect_left(ts, start) : bisect.bisect_left(ts, end)]

    def grid(size: int, slide: int, compute: Callable[[list[float]], dict[str, Any]]) -> Iterator[Any]:
        start = EPOCH + ((ts[0] - EPOCH) // SECOND // slide * slide - size) * SECOND
        while start + size * SECOND <= mark:
            if inside := between(start, start + size * SECOND):
                yield (start, start + size * SECOND), compute(inside)
            start += slide * SECOND

    def growing() -> Iterator[Any]:
        start = EPOCH + (ts[0] - EPOCH) // SECOND // 60 * 60 * SECOND
        while start < mark:
            for end in (start + step * SECOND for step in range(10, 70, 10)):
                if end <= mark and (inside := between(start, end)):
                    yield (start, end), {"total": sum(inside)}
            start += 60 * SECOND

    def sessions() -> Iterator[Any]:
        first = 0
        for i in range(1, len(ts) + 1):
            if i == len(ts) or ts[i] - ts[i - 1] > 5 * SECOND:
                if ts[i - 1] + 5 * SECOND < mark:
                    yield (ts[first], ts[i - 1] + 5 * SECOND), {"n": i - first, "first": values[first]}
                first = i

    def counts() -> Iterator[Any]:
        for low in range(0, len(ts) - 99, 100):
            if ts[low + 99] <= mark:
                yield (low, low + 100), {"mean": mean(values[low : low + 100])}

    def cut_before(begins: Callable[[int], bool], compute: Callable[[list[float]], dict[str, Any]]) -> Iterator[Any]:
        first = 0
        for i in range(1, len(ts)):
            if begins(i) and ts[i] <= mark:
                yield (ts[first], ts[i]), compute(values[first:i])
                first = i

    filled = 0.0

    def full(i: int) -> bool:
        nonlocal filled
        filled += values[i - 1]
        if filled < PACKET:
            return False
        filled = 0.0
        return True

    def most_recent() -> Iterator[Any]:
        edge = EPOCH + ((ts[0] - EPOCH) // SECOND // 10 * 10 + 10) * SECOND
        while edge <= mark:
            if between(edge - 10 * SECOND, edge):
                end = bisect.bisect_left(ts, edge)
                yield (ts[max(0, end - 20)], edge), {"mean": mean(values[max(0, end - 20) : end])}
            edge += 10 * SECOND

    yield "ten", grid(10, 10, lambda v: {"n": len(v), "mean": mean(v)})
    yield "half", grid(30, 10, lambda v: {"mean": mean(v), "spread": spread(v)})
    yield "minute", grid(60, 1, lambda v: {"mean": mean(v), "top": max(v)})
    yield "so_far", growing()
    yield "awake", sessions()
    yield "hundred", counts()
    yield "checked", cut_before(lambda i: checks[i], lambda v: {"bottom": min(v), "top": max(v)})
    yield "packets", cut_before(full, lambda v: {"total": sum(v)})
    yield "recent", most_recent()


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def spread(values: list[float]) -> float | None:
    """The sample standard deviation, null for one value, as in SQL."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return math.sqrt(sum((v - middle) ** 2 for v in values) / (len(values) - 1))


# ------------------------------------------------------------------ the picture

# Okabe and Ito's colours, which stay apart for colour-blind readers.
KINDS = {
    "edges on time": ("#56B4E9", ["ten", "half", "minute", "so_far"]),
    "silence ends it (session)": ("#009E73", ["awake"]),
    "a number of events": ("#E69F00", ["hundred", "recent"]),
    "the data end it (punctuation, user-defined)": ("#CC79A7", ["checked", "packets"]),
}
ALPHA = 0.7
SHOWN = {  # the column that is written on the bars
    "ten": ("every 10 s:\nmean", "mean"),
    "half": ("30 s every 10 s:\nmean", "mean"),
    "minute": ("60 s every 1 s:\nmean", "mean"),
    "so_far": ("the minute so far,\nevery 10 s:\ntotal", "total"),
    "awake": ("session, gap 5 s:\nreadings", "n"),
    "hundred": ("100 readings:\nmean", "mean"),
    "recent": ("last 20 every 10 s:\nmean", "mean"),
    "checked": ("from check to check:\ngreatest", "top"),
    "packets": ("until the total is 5,000:\ntotal", "total"),
}


def draw(events: list[Any], seen: Answers, mark: datetime, path: Path) -> Path:
    """Two minutes of one sensor: its readings, and the windows of every query that lie within them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    latest = EPOCH + (mark - EPOCH) // SECOND // 60 * 60 * SECOND
    start, end = latest - 120 * SECOND, latest

    def at(moment: datetime) -> float:
        return (moment - start) / SECOND

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    fig, (above, below) = plt.subplots(
        2, 1, figsize=(13, 10.5), sharex=True, height_ratios=[1, 4.2], layout="constrained"
    )
    points = [(at(utc(e.ts)), e.value) for e in events if start <= utc(e.ts) < end]
    above.scatter(*zip(*points, strict=True), s=5, color="#666666", linewidths=0, label="reading")
    slid = sorted((bounds[1], values["mean"]) for bounds, values in seen["minute"].items())
    line = [(at(moment), value) for moment, value in slid if start <= moment <= end]
    above.plot(*zip(*line, strict=True), color="#0072B2", linewidth=1.8, label="mean of the last 60 s, every second")
    above.set_ylabel("value")
    above.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderaxespad=0)

    y, ticks = 0.0, []
    for colour, names in KINDS.values():
        for name in names:
            title, column = SHOWN[name]
            spans = sorted((values["span"], values[column]) for values in seen[name].values())
            spans = [(at(s), at(e), value) for (s, e), value in spans if e > start and s < end]
            if name == "minute":
                height = staircase(below, [s for s in spans if s[0] >= 0 and s[1] <= 120], y, colour)
            else:
                height = bars(below, spans, y, colour)
            ticks.append((y + height / 2, title))
            y += height + 0.55
            below.axhline(y - 0.28, color="#dddddd", linewidth=0.6)
    below.set_yticks(*zip(*ticks, strict=True))
    below.tick_params(axis="y", length=0)
    below.set_ylim(y - 0.3, -0.3)
    below.set_xlim(0, 120)
    below.set_xticks(range(0, 121, 10), [f"{start + s * SECOND:%H:%M:%S}" for s in range(0, 121, 10)])
    below.set_xlabel("event time (UTC)")
    below.spines["left"].set_visible(False)
    patches = [Patch(facecolor=colour, alpha=ALPHA, label=kind) for kind, (colour, _) in KINDS.items()]
    fig.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False)
    fig.suptitle(f"{SAMPLE[0]}: {len(QUERIES)} queries, one pass over the stream", fontweight="bold")
    below.text(
        1, 1.005, "◂ begins before, ▸ ends after this", transform=below.transAxes, ha="right", va="bottom", fontsize=8
    )
    fig.savefig(path, dpi=110)
    plt.close(fig)
    return path


def bars(axes: Any, spans: list[tuple[float, float, float]], y: float, colour: str) -> float:
    """Windows as bars with their values, below each other where they overlap; how high that is."""
    ends: list[float] = []  # of the last bar in each line
    placed = []
    for begin, end, value in spans:
        level = next((k for k, last in enumerate(ends) if last <= begin), len(ends))
        ends[level : level + 1] = [end]
        placed.append((level, begin, end, value))
    for level, begin, end, value in placed:
        left, right, middle = max(begin, 0), min(end, 120), y + 0.62 * level + 0.28
        axes.barh(middle, right - left, 0.54, left, color=colour, alpha=ALPHA, edgecolor="white", linewidth=1.2)
        text = f"{'◂ ' * (begin < 0)}{value:,.0f}{' ▸' * (end > 120)}"
        width = 0.75 * len(text) + 0.8
        following = min((b for other, b, *_ in placed if other == level and b >= end), default=120)
        if right - left > width:
            axes.text((left + right) / 2, middle + 0.02, text, ha="center", va="center", fontsize=8)
        elif following - right > width:
            axes.text(right + 0.3, middle + 0.02, text, ha="left", va="center", fontsize=8)
    return 0.62 * max(len(ends), 1)


def staircase(axes: Any, spans: list[tuple[float, float, float]], y: float, colour: str) -> float:
    """Windows that overlap much as lines below each other; every tenth in a darker tone, with its value."""
    for k, (begin, end, value) in enumerate(spans):
        marked = k % 10 == 0
        axes.hlines(y + 0.055 * k, begin, end, color="#0072B2" if marked else colour, linewidth=1.6 if marked else 0.9)
        if marked:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            axes.text((begin + end) / 2, y + 0.055 * k, f"{value:,.0f}", ha="center", va="center", fontsize=8, bbox=box)
    return max(0.055 * len(spans), 0.6)


# ------------------------------------------------------------------ the race


def race(spark: SparkSession, rows: int, rate: int) -> None:
    """The same sliding window by Spark itself and by Windlass: same stream, same sink, each run once to warm up."""
    question = next(asked for asked in QUERIES if asked.name == "minute")

    def windlass(events: DataFrame) -> DataFrame:
        return results_of(shared_windows(events, question, time="ts", key="sensor"), "minute", history=False)

    def native(events: DataFrame) -> DataFrame:
        grouped = events.groupBy("sensor", F.window("ts", "60 seconds", "1 second"))
        return grouped.agg(F.avg("value").alias("mean"), F.max("value").alias("top"))

    seconds = {}
    for name, run in (("native", native), ("windlass", windlass)):
        write(run(readings(spark.readStream, rows // 6, rate, outages=False, batches=1)), f"{name}_warm_up")
        events = readings(spark.readStream, rows, rate, outages=False, batches=2)
        began = time.perf_counter()
        query = write(run(events), name)
        seconds[name] = time.perf_counter() - began
    readings_taken = sum(report.observedMetrics["windlass"]["events"] for report in query.recentProgress)
    ours, theirs = (spark.read.parquet(str(OUT / name)) for name in ("windlass", "native"))
    if ours.count() != theirs.count() or ours.exceptAll(theirs).count():
        sys.exit("Windlass and Spark do not agree on the sliding window")
    ratio = seconds["native"] / seconds["windlass"]
    told = f"{ratio:.1f} times as fast" if ratio >= 1 else f"{1 / ratio:.1f} times slower"
    print(
        f"{readings_taken:,} readings, {ours.count():,} windows, the same in both: Spark {seconds['native']:.1f} s, "
        f"Windlass {seconds['windlass']:.1f} s: {told} here, today"
    )


if __name__ == "__main__":
    main()
