"""Spark jobs to race: the same Parquet files for all, native Spark beside Windlass, all rows to a `noop` sink.

Events come at 1000 a second of event time, in 20 files. How many rows came out is what the sink has counted, and must
be the same for all entrants of a race.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windlass
from benchmarks.cases import Scale
from benchmarks.measure import Entrant, timed
from windlass import agg
from windlass.spark import parquet_events, session, shared_windows

START = 1_700_000_000_000_000
SPACING = 1000  # microseconds between events
FILES = 20
DELAY = "10 seconds"
WARM = 60  # seconds


@dataclass(frozen=True)
class Events:
    """Parquet files of events: ts, k, v."""

    directory: Path
    rows: int
    keys: int
    seed: int
    hot: float = 0.0

    @classmethod
    def of(cls, rows: int, keys: int, seed: int, hot: float = 0.0) -> Events:
        """`hot`: the share of one key."""
        directory = _home() / f"{rows}-{keys}-{hot}-{seed}"
        if not directory.exists():
            staged = directory.with_suffix(".part")
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir(parents=True)
            rng = np.random.default_rng(seed)
            per = rows // FILES
            for file in range(FILES):
                key = rng.integers(0, keys, per)
                key[rng.random(per) < hot] = 0
                times = START + np.arange(file * per, (file + 1) * per) * SPACING
                columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": key, "v": rng.random(per)}
                pq.write_table(pa.table(columns), staged / f"{file:03}.parquet")
            staged.rename(directory)
        return cls(directory, rows // FILES * FILES, keys, seed, hot)

    def fewer(self) -> Events:
        """A twentieth of the rows, in as many files, to warm up with."""
        return Events.of(self.rows // 20, self.keys, self.seed, self.hot)

    def frame(self) -> DataFrame:
        return spark().read.parquet(str(self.directory))

    def stream(self, files: int) -> DataFrame:
        reader = spark().readStream.schema(self.frame().schema).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self.directory)).withWatermark("ts", DELAY)

    def parquet(self) -> Any:
        return parquet_events(spark(), str(self.directory))

    def parquet_stream(self, files: int) -> Any:
        events = parquet_events(spark(), str(self.directory), streaming=True, maxFilesPerTrigger=files)
        return events.withWatermark("ts", DELAY)


@cache
def _home() -> Path:
    home = Path(tempfile.gettempdir()) / "windlass-benchmarks"
    home.mkdir(exist_ok=True)
    return home


@cache
def spark() -> SparkSession:
    return session(master="local[2]", config={"spark.driver.memory": "6g"})


# --------------------------------------------------------------------------- the jobs


@dataclass(frozen=True)
class Periodic:
    """A window of so many seconds, every so many."""

    size: int
    slide: int

    @property
    def name(self) -> str:
        return f"w{self.size}_{self.slide}"

    def query(self) -> windlass.Query:
        return windlass.Query(self.name, windlass.Sliding(f"{self.size}s", f"{self.slide}s"), agg.sum("v"))

    def native(self, events: DataFrame, keyed: bool = True) -> DataFrame:
        keys = ["k"] if keyed else []
        window = F.window("ts", f"{self.size} seconds", f"{self.slide} seconds")
        return events.groupBy(*keys, window).agg(F.sum("v").alias("sum"))

    def two_level(self, events: DataFrame) -> DataFrame:
        """What a careful engineer writes by hand: sum each second once, then slide over the sums."""
        second = events.groupBy("k", F.window("ts", f"{self.slide} seconds").alias("pane")).agg(
            F.sum("v").alias("part")
        )
        window = F.window(F.col("pane.start"), f"{self.size} seconds", f"{self.slide} seconds")
        return second.groupBy("k", window).agg(F.sum("part").alias("sum"))


def shared(events: Any, windows: Sequence[Periodic], keyed: bool = True) -> DataFrame:
    return shared_windows(events, [w.query() for w in windows], time="ts", key="k" if keyed else None)


# --------------------------------------------------------------------------- running them


@dataclass
class Job(Entrant):
    """Something to run whose result rows are counted: `count` says how many its last run has written."""

    count: Callable[[], int] = lambda: 0
    rows_out: set[int] = field(default_factory=set)  # of the runs that were timed
    progress: list[Any] = field(default_factory=list)  # of the last run, as the next
    checkpoint_bytes: int = 0
    progresses: list[list[Any]] = field(default_factory=list)  # of the runs that were timed


def batch(rounds: int, *makes: Callable[[], DataFrame]) -> Job:
    """One job after the other."""

    def run() -> None:
        for make in makes:
            make().write.format("noop").mode("overwrite").save()

    return Job(run, rounds, count=lambda: rows_written(len(makes)))


def rows_written(jobs: int) -> int:
    """What the sinks of the last so many batch jobs have counted."""
    settle()
    store = spark()._jsparkSession.sharedState().statusStore()
    found = 0
    for back in range(jobs):
        number = store.executionsList().apply(store.executionsCount() - 1 - back).executionId()
        sink = next(node for node in _items(store.planGraph(number).allNodes()) if "noop" in node.name())
        (metric,) = (m for m in _items(sink.metrics()) if m.name() == "number of output rows")
        found += int(store.executionMetrics(number).apply(metric.accumulatorId()).replace(",", ""))
    return found


def settle() -> None:
    """Wait until Spark has taken note of all that happened."""
    context: Any = spark().sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()


def _items(sequence: Any) -> Iterator[Any]:
    """Of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.size()))


def streaming(rounds: int, *makes: Callable[[], DataFrame]) -> Job:
    def run() -> None:
        written.clear()
        for make in makes:
            with tempfile.TemporaryDirectory() as checkpoint:
                writer = make().writeStream.format("noop").option("checkpointLocation", checkpoint)
                query = writer.trigger(availableNow=True).start()
                query.awaitTermination()
                job.progress = list(query.recentProgress)
                job.checkpoint_bytes = sum(f.stat().st_size for f in Path(checkpoint).rglob("*") if f.is_file())
            written.extend(p.sink.numOutputRows for p in job.progress)

    written: list[int] = []
    job = Job(run, rounds, count=lambda: sum(written))
    return job


@dataclass(frozen=True)
class Race:
    """Jobs over the same events, all of which have to give as many rows."""

    kind: str
    events: Events
    make: Callable[[Events], dict[str, Job]]


def compare(scale: Scale, *races: Race) -> list[dict[str, Job]]:
    """Run all jobs of these races in turn, all of them warm; each race's by name.

    Java compiles what runs often, so a job first runs for a minute: on a twentieth of the events or, if that is soon
    done, on all of them. And as Spark ends Python workers that were idle for a minute, with all the memory that they
    had, it runs once more right before each run that counts.
    """
    found = [race.make(race.events) for race in races]
    jobs = [job for each in found for job in each.values()]
    small = [job for race in races for job in race.make(race.events.fewer()).values()]
    warm = [warmed(*pair, scale.pick(WARM, 2)) for pair in zip(jobs, small, strict=True)]
    for repetition in range(scale.pick(3, 1)):
        turn = repetition % len(jobs)
        order = [*range(turn, len(jobs)), *range(turn)]
        for i in order:
            warm[i].call()
            jobs[i].times.append(timed(jobs[i].call))
            jobs[i].rows_out.add(jobs[i].count())
            jobs[i].progresses.append(jobs[i].progress)
    for race, each in zip(races, found, strict=True):
        counts = {name: job.rows_out for name, job in each.items()}
        if len(set().union(*counts.values())) != 1:
            raise AssertionError(f"{race.kind}: they differ in the number of rows: {counts}")
    return found


def warmed(job: Job, small: Job, seconds: float) -> Job:
    """What a job is kept warm with, which has run for so long: the job itself, unless that takes long."""
    start = time.perf_counter()
    small.call()
    warm = job if timed(small.call) < seconds / 20 else small
    while time.perf_counter() - start < seconds:
        warm.call()
    return warm


# --------------------------------------------------------------------------- what they take


def workers(jvm: int) -> list[int]:
    """The processes below the JVM: Python's, and executors."""
    parents = {pid: int(fields[1]) for pid in _processes() if (fields := _stat(pid))}
    found = {jvm}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {jvm})


def processor_seconds() -> float:
    """What this process, the JVM and all below it have taken of the processors, with those of them that have ended."""
    ticks = 0
    for pid in (os.getpid(), jvm(), *workers(jvm())):
        ticks += sum(map(int, _stat(pid)[11:15]))  # in programs and the system, its own and of children that ended
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _stat(pid: int) -> list[str]:
    """What Linux tells of a process, behind its name: state, parent, …; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def jvm() -> int:
    """The process of Spark's driver, and in local mode of everything of it that is not Python."""
    machine: Any = spark().sparkContext._jvm
    return int(machine.java.lang.ProcessHandle.current().pid())


def peak_mib(pids: Sequence[int]) -> float:
    """The greatest memory that these processes have had, each for itself."""
    found = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found += next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
    return round(found / 1024, 1)
