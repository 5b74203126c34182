"""What the streaming queries of a session are doing, as a line for each that is kept up to date in the terminal.

    with progress(spark):
        query = df.writeStream.queryName("sensors").….start()
        query.awaitTermination()

    sensors  batch 41 · 98.2k rows/s · 4.1M events · 12 late · 830 rows out · 212 slices · 1.4 MB · up to … · 0.43 s

Where the output is no terminal, it is plain lines, at most one a second and query. Counts of events, late events and
rows are added up over the batches; windows, slices, tuples, keys and bytes are those after the last one. They come from
the metrics that the pipeline observes under the name "windlass"; a query without them shows what Spark knows.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

__all__ = ["progress"]

METRICS = "windlass"

_SUMMED = ("events", "late", "expired", "rows")
_LATEST = ("open_windows", "slices", "tuples", "keys", "state_bytes", "watermark")


@contextlib.contextmanager
def progress(
    spark: SparkSession, *, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Show the progress of this session's streaming queries, on stderr or `file`, as long as the block runs."""
    display = Display(file or sys.stderr, clock)
    listener = _Listener(display)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # events are on their way for a moment; a stopped session has none
            _bus(spark).waitUntilEmpty(2_000)
        with contextlib.suppress(Exception):
            spark.streams.removeListener(listener)
        display.close()


def _bus(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext._jsc
    return context.sc().listenerBus()


@dataclass
class _Query:
    """What is known of one run of a query."""

    name: str
    batch: int = -1
    seconds: float = 0.0
    rows_per_second: float | None = None
    watermark: str | None = None
    observed: bool = False  # whether the pipeline's own metrics have come
    totals: dict[str, int] = field(default_factory=dict)
    latest: dict[str, Any] = field(default_factory=dict)
    state: str = "starting"
    shown: float | None = None  # when it was last printed, on what is no terminal

    def learn(self, report: StreamingQueryProgress) -> None:
        if report.batchId == self.batch and not report.numInputRows:
            return  # said again every ten seconds while nothing comes
        self.state = ""
        self.batch = report.batchId
        self.seconds = report.durationMs.get("triggerExecution", 0) / 1000
        self.rows_per_second = report.numInputRows / self.seconds if self.seconds else None
        self.watermark = report.eventTime.get("watermark") or self.watermark
        metrics = _metrics(report)
        self.observed = self.observed or bool(metrics)
        for name in _SUMMED:
            self.totals[name] = self.totals.get(name, 0) + int(metrics.get(name) or 0)
        if "events" not in metrics:
            self.totals["events"] += report.numInputRows
        if "rows" not in metrics:
            self.totals["rows"] += max(0, report.sink.numOutputRows)  # -1 where the sink does not say
        self.latest |= {name: metrics[name] for name in _LATEST if metrics.get(name) is not None}
        if "state_bytes" not in metrics and report.stateOperators:
            self.latest["state_bytes"] = sum(operator.memoryUsedBytes for operator in report.stateOperators)

    def line(self) -> str:
        if self.batch < 0:
            return f"{self.name}  {self.state or 'starting'}"
        totals, latest = self.totals, self.latest
        parts = [f"batch {self.batch}"]
        if self.rows_per_second is not None:
            parts.append(f"{_count(self.rows_per_second)} rows/s")
        parts.append(f"{_count(totals['events'])} events")
        if self.observed:
            parts.append(f"{_count(totals['late'])} late")
        if totals["expired"]:
            parts.append(f"{_count(totals['expired'])} expired")
        if self.observed or totals["rows"]:
            parts.append(f"{_count(totals['rows'])} rows out")
        parts += [f"{_count(latest[name])} {word}" for name, word in _WORDS.items() if name in latest]
        if "state_bytes" in latest:
            parts.append(_bytes(latest["state_bytes"]))
        if mark := _moment(latest.get("watermark", self.watermark)):
            parts.append(f"up to {mark}")
        parts.append(f"{self.seconds:.2f} s")
        if self.state:
            parts.append(self.state)
        return f"{self.name}  {' · '.join(parts)}"


_WORDS = {"open_windows": "open windows", "slices": "slices", "tuples": "tuples", "keys": "keys"}


class Display:
    """Lines, a query each: redrawn in place on a terminal, printed now and then elsewhere."""

    def __init__(self, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.file, self.clock = file, clock
        self.live = file.isatty()
        self.queries: dict[str, _Query] = {}  # by run
        self.drawn = 0  # lines on the screen
        self.pending: set[str] = set()  # runs with news that were not printed
        self.lock = threading.Lock()  # events come on threads of their own

    def started(self, run: str, name: str | None) -> None:
        with self.lock:
            self.queries[run] = _Query(name or f"query {run[:8]}")
            self._draw(run)

    def progressed(self, run: str, report: StreamingQueryProgress) -> None:
        with self.lock:
            # A query may have been started before we listened.
            query = self.queries.setdefault(run, _Query(report.name or f"query {run[:8]}"))
            query.learn(report)
            self._draw(run)

    def idle(self, run: str) -> None:
        with self.lock:
            if (query := self.queries.get(run)) and query.state != "waiting":
                query.state = "waiting"
                self._draw(run)

    def terminated(self, run: str, failed: bool) -> None:
        with self.lock:
            if query := self.queries.get(run):
                query.state = "failed" if failed else "ended"
                self._draw(run, at_once=True)

    def close(self) -> None:
        """The last news, and the cursor on a line of its own again."""
        with self.lock:
            if self.live:
                if self.drawn:
                    self._write("\n")
                self.drawn = 0
            else:
                for run in [run for run in self.queries if run in self.pending]:
                    self._print(run)
            self.queries.clear()

    def _draw(self, run: str, at_once: bool = False) -> None:
        if not self.live:
            self.pending.add(run)
            last = self.queries[run].shown
            if at_once or last is None or self.clock() - last >= 1:
                self._print(run)
            return
        width = shutil.get_terminal_size().columns - 1  # a full line would wrap, and could not be drawn over
        lines = [query.line()[:width] for query in self.queries.values()]
        up = f"\x1b[{self.drawn - 1}A" if self.drawn > 1 else ""
        self._write(up + "\r" + "\n".join(f"{line}\x1b[K" for line in lines))
        self.drawn = len(lines)

    def _print(self, run: str) -> None:
        query = self.queries[run]
        query.shown = self.clock()
        self.pending.discard(run)
        self._write(query.line() + "\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a display that is gone is no reason to disturb a query
            self.file.write(text)
            self.file.flush()


class _Listener(StreamingQueryListener):
    def __init__(self, display: Display) -> None:
        self.display = display

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self.display.started(str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.display.progressed(str(event.progress.runId), event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self.display.idle(str(event.runId))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.display.terminated(str(event.runId), event.exception is not None)


def _metrics(report: StreamingQueryProgress) -> Mapping[str, Any]:
    observed = {name: row.asDict() for name, row in (report.observedMetrics or {}).items()}
    # Under another name, they are known by what they are.
    others = (metrics for metrics in observed.values() if {"events", "late", "rows"} <= metrics.keys())
    return observed.get(METRICS) or next(others, {})


def _count(number: float) -> str:
    """Three digits and a unit: 987, 98.2k, 4.10M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size * 0.9995:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            return f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError


def _moment(watermark: object) -> str | None:
    """A watermark as Spark or the pipeline writes it: text, a datetime, or milliseconds since 1970."""
    if isinstance(watermark, int):
        try:
            watermark = datetime.datetime.fromtimestamp(watermark / 1e3, datetime.UTC)
        except (ValueError, OverflowError, OSError):
            return str(watermark)
    if isinstance(watermark, datetime.datetime):
        # Spark hands times over as local ones, without a zone.
        watermark = watermark.astimezone(datetime.UTC).isoformat(timespec="seconds")
    if not watermark or str(watermark).startswith("1970-01-01T00:00:00"):
        return None  # Spark's word for none yet
    return str(watermark).split(".")[0].removesuffix("Z").removesuffix("+00:00").replace("T", " ")
