"""Exactly once, whatever is killed when: the driver, an executor, a Python worker; tasks that fail, or run twice.

Real processes and kill -9. What the sink holds in the end is compared with the oracle, micro-batch by micro-batch.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.spark.children import Child, assert_exactly_once, assert_history, driver, kill_one, standalone, to_the_end
from tests.spark.driver import DELAY, HISTORY, LATENESS, Faults, queries
from tests.spark.streams import Files, Rows, collapsed, stream

pytestmark = [
    pytest.mark.xdist_group("kills"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

WORKER, EXECUTOR = "pyspark.daemon", "CoarseGrainedExecutorBackend"
OURS = "windlass.spark.daemon"  # what the workers of a session of Windlass's own come from
FAILING = ("cut", "state", "written")
SLEEPING = ("slow", "stuck")
KILLS = int(os.environ.get("WINDLASS_KILLS", "10"))
SMALL = {"spark.sql.shuffle.partitions": 1}  # fewer Python processes to start

ON_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SPECULATION = ON_THIS_MACHINE | {
    "spark.speculation": True,
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": 0.5,
    "spark.speculation.multiplier": 1.1,
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.memory": "1g",
}


def rows(batches: int) -> list[Rows]:
    return stream(2, batches=batches, size=40, pace=60, late=0.15, how_late=250)


def check(place: Path, files: list[Rows], ships: str, faults: Sequence[str] = ()) -> None:
    asked = queries(ships, Faults(str(place), faults))
    want = assert_exactly_once(place, files, asked, delay=DELAY, lateness=LATENESS)
    assert_history(place, files, HISTORY, delay=DELAY, lateness=LATENESS)
    emitted = [row for batch in want.rows for row in batch]
    assert any(row.revision for row in emitted) and any(want.expired)
    assert {row.query for row in collapsed(emitted)} == {a.name for a in asked}


def struck(place: Path) -> Counter[str]:
    """The faults that happened."""
    return Counter(entry.name.split()[0] for entry in (place / "faults").iterdir())


def kill_at_random(child: Child, random: Random, within: float) -> bool:
    """Kill the driver and its JVM some time after the session is there; whether it was still running."""
    assert child.hear("ready") is not None, child.failure()
    if child.ended(random.uniform(0, within)):
        assert child.process.returncode == 0, child.failure()
        return False
    child.kill()
    return True


def kill_drivers(place: Path, ships: str, faults: Sequence[str], kills: int, **options: Any) -> None:
    """New files before every run, so that there is always something to do; then a run that is left alone."""
    batches, random = rows(4 * (kills + 1)), Random()
    files = Files(place / "in", batches[:4])
    killed = 0
    while killed < kills:
        with driver(place, ships=ships, faults=faults, few=20, **options) as child:
            killed += kill_at_random(child, random, 30)
        files.add(*batches[files.count : files.count + 4])
    files.add(*batches[files.count :])
    to_the_end(place, ships=ships, faults=faults, few=20, **options)
    check(place, batches, ships, faults)
    assert struck(place).keys() >= set(faults)


# --------------------------------------------------------------------------- short


def test_a_driver_and_a_worker_are_killed(tmp_path):
    """Twice, and tasks fail besides."""
    batches = rows(5)
    Files(tmp_path / "in", batches)
    options = {"master": "local[1,4]", "config": SMALL, "ships": "events", "faults": FAILING}
    with driver(tmp_path, **options) as child:
        assert child.hear("batch 0") is not None, child.failure()
        time.sleep(Random().uniform(0, 2))
        child.kill()
    with driver(tmp_path, **options) as child:
        begun = child.hear(r"batch \d+")
        assert begun is not None, child.failure()
        assert kill_one(child, WORKER)
        assert child.hear(begun.replace("batch", "wrote")) is not None, child.failure()  # in spite of the worker
        assert child.hear(r"batch \d+") is not None, child.failure()
        time.sleep(Random().uniform(0, 1))
        child.kill()
    to_the_end(tmp_path, **options)
    check(tmp_path, batches, "events", FAILING)
    assert struck(tmp_path).keys() >= set(FAILING)


def test_an_executor_is_killed(tmp_path):
    """Executors are processes of their own; the one that is lost takes its workers and its shuffle files with it."""
    batches = rows(4)
    Files(tmp_path / "in", batches)
    with driver(tmp_path, master="local-cluster[2,1,1024]", ships="slices") as child:
        assert child.hear("batch 1") is not None, child.failure()
        before = [command for command in child.running().values() if EXECUTOR in command]
        assert len(before) == 2
        assert kill_one(child, EXECUTOR)
        assert child.hear("done") is not None, child.failure()
    check(tmp_path, batches, "slices")


# --------------------------------------------------------------------------- long: make faults


@pytest.mark.faults
@pytest.mark.parametrize(
    ("ships", "faults"), [("slices", ()), ("events", ()), ("events", FAILING)], ids=["slices", "events", "retries"]
)
def test_ten_kills_of_the_driver(tmp_path, ships, faults):
    kill_drivers(tmp_path, ships, faults, KILLS)


@pytest.mark.faults
def test_ten_kills_of_the_driver_with_speculation(tmp_path):
    """On a cluster, whose executors outlive the driver for a while."""
    with standalone(tmp_path) as master:
        kill_drivers(tmp_path, "events", SLEEPING, KILLS, master=master, config=SPECULATION)
    assert struck(tmp_path)["after-slow"] and struck(tmp_path)["after-stuck"], "attempts have been overtaken"


@pytest.mark.faults
@pytest.mark.parametrize("ships", ["slices", "events"])
def test_executors_and_workers_are_killed_all_the_time(tmp_path, ships):
    batches, random = rows(24), Random()
    Files(tmp_path / "in", batches)
    killed = Counter[str]()
    with driver(
        tmp_path,
        master="local-cluster[2,1,1024]",
        ships=ships,
        config={"spark.task.maxFailures": 20, "spark.deploy.maxExecutorRetries": -1},
    ) as child:
        for n in range(1, 22, 2):
            assert child.hear(f"batch {n}") is not None, child.failure()
            time.sleep(random.uniform(0, 1))
            what = random.choice([EXECUTOR, OURS])
            killed[what] += kill_one(child, what)
        assert child.hear("done") is not None, child.failure()
    check(tmp_path, batches, ships)
    assert sum(killed.values()) >= KILLS
