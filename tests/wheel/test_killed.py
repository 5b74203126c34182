"""Writers that are killed, as by kill -9, while they write and put files together: nothing is lost, nor there twice.

A writer kills itself before some line of the package that was drawn beforehand, so it does not matter how fast it is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from windlass import History, agg
from windlass.wheel import files, history_files
from windlass.wheel.files import Directory
from windlass.wheel.history_files import HistoryFiles, Kept

KILLS, TICK, KEYS = 8, 10, ("a", "b")
LINES = 6000  # a writer is killed before this many lines of the package: a few batches
KEPT = Kept(TICK, pa.int64(), pa.schema([("k", pa.string())]), (agg.sum("x"),), pa.schema([("x", pa.int64())]), 2)


def said(n: int) -> tuple[list[int], list[int]]:
    """Slots and sums of batch n: a slot of its own, and the one of two batches before, corrected."""
    return ([n - 2, n], [n - 1 + 1000, n + 1]) if n >= 2 else ([n], [n + 1])


def sums(batches: int) -> dict[int, int]:
    """What there is after so many batches."""
    found: dict[int, int] = {}
    for n in range(batches):
        found.update(zip(*said(n), strict=True))
    return found


def write_history(path: Path) -> None:
    history_files.RUN = 3
    there = HistoryFiles(path)
    there.create(KEPT)
    (name,) = (field.name for field in agg.sum("x").monoid(KEPT.values(agg.sum("x")), nullable=False).fields)
    n = 0
    while all(there.has(n, bucket) for bucket in range(2)):
        n += 1
    while True:
        slots, values = said(n)
        for bucket, key in enumerate(KEYS):
            partials = pa.StructArray.from_arrays([pa.array(values)], [name])
            columns = [pa.array([key] * len(slots)), pa.array(slots), pa.array([int(s < n) for s in slots]), partials]
            there.write(n, bucket, pa.Table.from_arrays(columns, ["k", "slot", "version", "0"]), (n + 1) * TICK)
            there.compact(bucket, n)
        n += 1


def read_history(path: Path) -> int:
    if not (path / history_files.FILE).exists():
        return 0
    history = History(path)
    batches = (history.watermark or 0) // TICK
    wanted = sums(batches)
    for key in KEYS if batches else ():
        assert history.query(0, batches * TICK, key=key) == sum(wanted.values())
    found = history.slots().to_pylist()
    assert sorted((row["k"], row["start"] // TICK, row["sum(x)"]) for row in found) == sorted(
        (key, slot, value) for key in KEYS for slot, value in wanted.items()
    )
    return int(batches)


def write_commits(path: Path, form: Any) -> None:
    files.RUN = 2
    directory = Directory(path)
    n = directory.commits[-1] + 1 if directory.commits else 0
    while True:
        slots, values = said(n)
        table = pa.table({"slot": slots, "version": [n] * len(slots), "0_sum": values})
        directory.commit(n, {0: table}, pa.table({"slot": [n], "key": [0], "version": [0]}), form)
        n += 1


def read_commits(path: Path) -> int:
    tables, state, manifest = Directory(path).read()
    if state is None:
        return 0
    batches = int(state["slot"][0].as_py()) + 1
    assert manifest["number"] == Directory(path).commits[-1] == batches - 1
    assert dict(zip(*(tables[0][name].to_pylist() for name in ("slot", "0_sum")), strict=True)) == sums(batches)
    assert len(tables[0]) == batches
    return batches


def live(write: Callable[..., None], path: Path, arguments: tuple[str, ...], lines: int) -> None:
    """Write, and kill the process before line number `lines` of the package."""
    left = lines

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return stepped if os.sep + "windlass" + os.sep in frame.f_code.co_filename else None

    def stepped(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= event == "line"
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return stepped

    sys.settrace(entered)
    write(path, *arguments)


@pytest.mark.parametrize(
    ("write", "read", "arguments"),
    [(write_history, read_history, ()), (write_commits, read_commits, ("parquet",))]
    + [(write_commits, read_commits, ("arrow",))],
    ids=["history", "parquet", "arrow"],
)
def test_a_writer_may_be_killed_at_any_time(
    tmp_path: Path, write: Callable[..., None], read: Callable[[Path], int], arguments: tuple[str, ...]
) -> None:
    random, batches, kills = Random(7), 0, 0
    context = multiprocessing.get_context("forkserver")  # processes that have imported all they need, and no threads
    context.set_forkserver_preload([__name__])
    while kills < KILLS or batches < 8:
        writer = context.Process(target=live, args=(write, tmp_path, arguments, random.randrange(1, LINES)))
        writer.start()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL, "a writer ends in no other way"
        now = read(tmp_path)
        assert now >= batches, "what was complete stays"
        batches, kills = now, kills + 1
    spans = [f.name for f in (tmp_path / "slots").iterdir() if f.name[0] != "." and f.name[:10] != f.name[11:21]]
    merged = [f.name for f in (tmp_path / "manifests").glob("merged-*")] if write is write_commits else spans
    assert merged, "files were put together on the way"
