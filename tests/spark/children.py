"""Drivers as child processes: started, listened to, killed; and what is left of their run compared with the oracle.

A child leads a session of its own (setsid), to which all processes belong that it starts: the JVM, executors, Python
workers. So all of them can be found, and none is left behind.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.streams import Asked, Expected, Rows, Run, assert_like_the_oracle, collapsed, expected
from windlass import History

ROOT = Path(__file__).parents[2]
PATIENCE = 300  # seconds that a child may be silent


def environment() -> dict[str, str]:
    """Of a process that finds windlass and these tests as this one does."""
    paths = [str(ROOT / "src"), str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


class Child:
    """A process that says what it does, a line at a time."""

    def __init__(self, *command: str, log: Path, cwd: Path | None = None) -> None:
        self.log = log
        self.process = subprocess.Popen(
            command,
            env=environment(),
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=log.open("a"),
            text=True,
            start_new_session=True,
        )
        self._said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(line.rstrip("\n"))
        self._said.put(None)

    def hear(self, pattern: str, patience: float = PATIENCE) -> str | None:
        """Wait until it says something like that; None if it ends, or says nothing for too long."""
        while True:
            try:
                line = self._said.get(timeout=patience)
            except queue.Empty:
                return None
            if line is None:
                self._said.put(None)
                return None
            if re.fullmatch(pattern, line):
                return line

    def ended(self, within: float) -> bool:
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def running(self) -> dict[int, str]:
        """The processes of its session: pid to command line."""
        return dict(_processes(self.process.pid))

    def kill(self) -> None:
        """Kill -9: itself and all that belongs to its group, the JVM too."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def clear(self) -> None:
        """See to it that nothing is left of it."""
        for _ in range(100):
            left = self.running()
            if not left:
                break
            for pid in left:
                _kill(pid)
            time.sleep(0.05)
        self.process.wait()

    def failure(self) -> str:
        return f"exit code {self.process.poll()}\n{self.log.read_text()[-6000:]}"


def _processes(session: int) -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The name, in parentheses, may hold anything; then: state, parent, group, session, …
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(of) == session and state != "Z":
                    yield int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # it has gone


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_one(child: Child, like: str) -> bool:
    """Kill -9 one of the child's processes, the youngest whose command line has that in it."""
    found = [pid for pid, command in sorted(child.running().items()) if like in command]
    return bool(found) and _kill(found[-1])


@contextmanager
def driver(place: Path, **options: Any) -> Iterator[Child]:
    """A run of `tests/spark/driver.py`."""
    script = str(ROOT / "tests" / "spark" / "driver.py")
    (place / "faults").mkdir(exist_ok=True)
    child = Child(sys.executable, script, json.dumps({"place": str(place)} | options), log=place / "log")
    try:
        yield child
    finally:
        child.clear()


def to_the_end(place: Path, **options: Any) -> None:
    """A run that is left alone."""
    with driver(place, **options) as child:
        assert child.hear("done") is not None, child.failure()
        assert child.ended(60) and child.process.returncode == 0, child.failure()


@contextmanager
def standalone(place: Path, workers: int = 2) -> Iterator[str]:
    """A standalone master and workers of one core each; its address. Workers go by addresses of their own, as Spark
    runs no speculative attempt where the first one is."""
    import pyspark

    from windlass.spark.java import java_home

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    os.environ["JAVA_HOME"] = str(java_home())  # as `session` would set it
    master = f"spark://127.0.0.1:{port}"
    commands = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    ]
    for i in range(workers):
        own = ["--host", f"127.0.0.{2 + i}", "--cores", "1", "--memory", "2g", "--webui-port", "0"]
        commands.append(
            ["org.apache.spark.deploy.worker.Worker", *own, "--work-dir", str(place / f"worker {i}"), master]
        )
    children = [Child(start, *command, log=place / "cluster log") for command in commands]
    try:
        yield master
    finally:
        for child in children:
            child.clear()


# --------------------------------------------------------------------------- what is left


def micro_batches(checkpoint: Path, files: Sequence[Rows]) -> list[Rows]:
    """The rows of each micro-batch, as Spark planned it: its offsets say how many files had been read by its end."""
    plans = {int(p.name): p.read_text().splitlines() for p in (checkpoint / "offsets").iterdir() if p.name.isdecimal()}
    assert sorted(plans) == list(range(len(plans)))
    seen, made = 0, []
    for n in sorted(plans):
        upto = json.loads(plans[n][2])["logOffset"] + 1
        made.append([row for file in files[seen:upto] for row in file])
        seen = upto
    assert seen == len(files), "not all files have been read"
    return made


def written(out: Path, batches: int) -> Run:
    """What the sink holds."""
    found = {
        int(p.name.removeprefix("batch=")): pq.read_table(p, coerce_int96_timestamp_unit="us", partitioning=None)
        for p in out.glob("batch=*")
    }
    schema = next(iter(found.values())).schema
    assert set(found) <= set(range(batches))
    return Run({n: found.get(n, pa.Table.from_pylist([], schema=schema)) for n in range(batches)}, {})


def assert_history(place: Path, files: Sequence[Rows], asked: Asked, *, delay: int, lateness: int) -> None:
    """The history holds, of every key and tick, what the oracle says of such a window in the end."""
    batches = micro_batches(place / "checkpoint", files)
    want = expected(batches, [asked], delay=delay, key=("k",), sequence="id", allowed_lateness=lateness)
    slots = History(place / "history").slots().to_pylist()
    got = {(row["k"], row["start"].timestamp()): tuple(row[name] for name in asked.aggregates) for row in slots}
    due = [row for batch in want.rows for row in batch]
    assert got == {(row.key[0], row.start / 1e6): row.values for row in collapsed(due)}
    assert len(got) == len(slots)


def assert_exactly_once(
    place: Path,
    files: Sequence[Rows],
    asked: Sequence[Asked],
    *,
    delay: int,
    lateness: int,
    key: Sequence[str] = ("k",),
) -> Expected:
    """Micro-batch by micro-batch, the sink holds what the oracle says: every row, every late event, once."""
    batches = micro_batches(place / "checkpoint", files)
    want = expected(batches, asked, delay=delay, key=key, sequence="id", allowed_lateness=lateness)
    assert_like_the_oracle(written(place / "out", len(batches)), asked, want, key)
    return want
