"""A stream that is left running: 200 micro-batches, and what is held and what a batch takes, batch by batch.

5,000 events a batch, ten seconds of event time each. Keys come and go: a batch has 500 of its own, and a key lives for
five batches. Every twentieth batch brings a burst, a third of it late by 40 seconds, which windows are still corrected
for, or by ten minutes, which is too late. Four stretches of five batches are idle: no events at all. Tumbling, sliding
and session windows, so events are shipped.

Memory is that of the processes: the driver's Python, the workers' (what each has to itself, and its part of what they
share), and of the JVM its heap after a collection, which is asked for every fifth batch.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import spark
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import Query, Session, Sliding, Tumbling, agg
from windlass.spark import shared_windows

TITLE = "Spark: a soak of 200 micro-batches"

BATCHES, ROWS, KEYS, LIFE = 200, 5_000, 500, 5
SECONDS = 10  # of event time in a batch
IDLE = tuple(range(36, 41)), tuple(range(86, 91)), tuple(range(136, 141)), tuple(range(186, 191))
HELD = ("state_bytes", "tuples", "slices", "keys", "workers_mib", "driver_mib", "heap_mib", "checkpoint_mib")
_MIB = 1 << 20

QUERIES = (
    Query("tumbling", Tumbling("10s"), agg.sum("v"), agg.count().alias("n")),
    Query("sliding", Sliding("60s", "10s"), agg.max("v"), agg.avg("v")),
    Query("session", Session("3s"), agg.count()),
)


def events(n: int, seed: int) -> pa.Table:
    """The file of one micro-batch."""
    rng = np.random.default_rng((seed, n))
    rows = 0 if any(n in stretch for stretch in IDLE) else ROWS
    ts = n * SECONDS * 1_000_000 + rng.integers(0, SECONDS * 1_000_000, rows)
    if n % 20 == 19:
        chance = rng.random(rows)
        ts -= np.where(chance < 0.05, 600, np.where(chance < 0.35, 40, 0)) * 1_000_000
    key = rng.integers(max(0, n - LIFE + 1) * KEYS, (n + 1) * KEYS, rows)
    times = pa.array(spark.START + np.maximum(ts, 0), pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": key, "v": rng.random(rows)})


def run(scale: Scale) -> Iterator[Row]:
    yield from soak(scale.pick(BATCHES, 12), scale.seed, scale.say)


def soak(batches: int, seed: int, say: Any) -> list[Row]:
    session = spark.spark()
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", batches + 10)
    session.conf.set("spark.sql.shuffle.partitions", 1)
    place = Path(tempfile.mkdtemp(prefix="windlass-soak-"))
    try:
        for n in range(batches):
            file = place / "in" / f"{n:04}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(events(n, seed), file)
            os.utime(file, (1e9 + n, 1e9 + n))
        reader = session.readStream.schema(session.read.parquet(str(place / "in")).schema)
        stream = reader.option("maxFilesPerTrigger", 1).parquet(str(place / "in")).withWatermark("ts", "5 seconds")
        mixed = shared_windows(stream, QUERIES, time="ts", key="k", allowed_lateness="1 minute", buckets=1)
        probe = _Probe(place / "checkpoint", say)
        writer = mixed.writeStream.foreachBatch(probe).option("checkpointLocation", str(place / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        rows = [probe.row(report) for report in query.recentProgress if report.batchId in probe.held]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    fed = sum(events(n, seed).num_rows for n in range(batches))
    assert sum(row["events"] for row in rows) == fed, "every event was taken once"
    return rows


class _Probe:
    """The sink: counts the rows, and looks at memory after that."""

    def __init__(self, checkpoint: Path, say: Any) -> None:
        self.checkpoint, self.say = checkpoint, say
        self.held: dict[int, Row] = {}
        self.jvm: Any = spark.spark().sparkContext._jvm
        self.pid = int(self.jvm.java.lang.ProcessHandle.current().pid())

    def __call__(self, batch: Any, number: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        start = time.perf_counter()
        workers = [_memory(pid) for pid in spark.workers(self.pid)]
        row = {"workers": len(workers), "workers_mib": sum(workers), "driver_mib": _memory(os.getpid())}
        if number % 5 == 0:
            self.jvm.java.lang.System.gc()
            runtime = self.jvm.java.lang.Runtime.getRuntime()
            row["heap_mib"] = (runtime.totalMemory() - runtime.freeMemory()) / _MIB
            row["checkpoint_mib"] = sum(p.stat().st_size for p in self.checkpoint.rglob("*") if p.is_file()) / _MIB
        self.held[number] = {name: round(value, 2) for name, value in row.items()}
        self.held[number]["looking"] = time.perf_counter() - start
        if number % 20 == 0:
            self.say(f"batch {number}")

    def row(self, report: Any) -> Row:
        seen = dict(self.held[report.batchId])
        seconds = report.durationMs["triggerExecution"] / 1e3 - seen.pop("looking")
        figures = report.observedMetrics["windlass"].asDict()  # nulls where no bucket had anything to do
        counted = {name: figures[name] or 0 for name in ("events", "late", "expired", "rows")}
        return {"batch": report.batchId, "seconds": round(seconds, 3), **figures, **counted, **seen}


def _memory(pid: int) -> float:
    """Proportional: what processes share is divided among them. In MiB; 0 if it has gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


# --------------------------------------------------------------------------- what it says


def quarters(rows: list[Row], name: str) -> tuple[float, float]:
    """The median of a figure in the second quarter of the run and in the last; the first is for warming up."""
    n = len(rows) // 4
    second, last = ([r[name] for r in part if r.get(name) is not None] for part in (rows[n : 2 * n], rows[3 * n :]))
    return statistics.median(second), statistics.median(last)


def tables(rows: list[Row]) -> list[Table]:
    lines = []
    for name in ("seconds", *HELD):
        second, last = quarters(rows, name)
        greatest = max(r[name] for r in rows if r.get(name) is not None)
        ratio = f"{last / second:.2f}" if second else "–"
        lines.append([name, f"{second:,.4g}", f"{last:,.4g}", ratio, f"{greatest:,.4g}"])
    header = ["", "median, second quarter", "median, last quarter", "ratio", "greatest"]
    return [(f"{len(rows)} micro-batches, {sum(r['events'] for r in rows):,} events", header, lines)]


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for name, unit in (("seconds", "s a batch"), ("state_bytes", "bytes of state"), ("workers_mib", "MiB of workers")):
        second, last = quarters(rows, name)
        lines.append(f"{unit}: {second:,.4g} in the second quarter of the run, {last:,.4g} in the last")
    second, last = quarters(rows, "heap_mib")
    lines.append(f"MiB of the JVM's heap after a collection: {second:,.4g} and {last:,.4g}")
    second, last = quarters(rows, "checkpoint_mib")
    lines.append(
        f"MiB of the checkpoint's files: {second:,.4g} and {last:,.4g}; Spark keeps those that the last 100 batches "
        "need, and deletes older ones in the background"
    )
    late, expired = (sum(r[name] for r in rows) for name in ("late", "expired"))
    lines.append(f"{sum(r['rows'] for r in rows):,} rows out; {late:,} events late, {expired:,} of them too late")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    panels = [
        ("seconds", "s a batch"),
        ("state_bytes", "bytes of state"),
        ("keys", "keys held"),
        ("workers_mib", "MiB, Python workers"),
        ("heap_mib", "MiB, heap after GC"),
    ]
    fig, grid = style.figure(len(panels), 1, width=6.5, height=1.4)
    for axes, (name, label) in zip((line[0] for line in grid), panels, strict=True):
        shown = [r for r in rows if r.get(name) is not None]
        axes.plot([r["batch"] for r in shown], [r[name] for r in shown], color="#0072B2", linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
        for stretch in IDLE:
            axes.axvspan(stretch[0], stretch[-1], color="#eeeeee")
    axes.set_xlabel("micro-batch (grey: idle)")
    return fig
