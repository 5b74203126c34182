"""Calls of histories that may be interrupted anywhere."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
from faults.injection import Case
from faults.scratch import directory

from windlass import History, agg
from windlass.wheel.history_files import HistoryFiles, Kept

TICK = 10
KEPT = Kept(TICK, pa.int64(), pa.schema([("k", pa.string())]), (agg.sum("x"),), pa.schema([("x", pa.int64())]), 1)
# By batch: key, slot, version, sum. The second corrects a slot, and brings a key.
BATCHES = [
    [("a", 0, 0, 5), ("b", 0, 0, 7), ("a", 1, 0, 1)],
    [("a", 1, 1, 11), ("c", 2, 0, 3), ("b", 2, 0, 2)],
]
AFTER = {("a", 0): 5, ("b", 0): 7, ("a", 1): 11, ("c", 2): 3, ("b", 2): 2}


def written(files: HistoryFiles, batch: int) -> None:
    k, slot, version, value = (list(column) for column in zip(*BATCHES[batch], strict=True))
    partials = pa.StructArray.from_arrays([pa.array(value)], ["sum"])
    table = pa.Table.from_arrays(
        [pa.array(k), pa.array(slot), pa.array(version), partials], ["k", "slot", "version", "0"]
    )
    files.write(batch, 0, table, (batch + 2) * TICK)


def history(asked: bool) -> History:
    """A history that has read one batch and has another one to read. `asked`: it has a wheel, which is updated."""
    path = directory()
    files = HistoryFiles(path)
    files.create(KEPT)
    written(files, 0)
    made = History(path)
    if asked:
        made.wheel()
    written(files, 1)
    return made


def refreshed(made: History) -> None:
    made.refresh()


def read(made: History) -> Any:
    rows = made.slots().to_pylist()
    sums = {name: made.query(0, 30, key=name) for name in ("a", "b", "c")} if made.watermark == 30 else None
    return made.watermark, {(row["k"], row["start"] // TICK): row["sum(x)"] for row in rows}, sums


def after() -> Any:
    sums = {name: sum(v for (k, _), v in AFTER.items() if k == name) for name in ("a", "b", "c")}
    return None, (30, AFTER, sums)


CASES = [
    Case(
        name=f"History.refresh{', with a wheel,' if asked else ''}",
        make=lambda asked=asked: history(asked),
        call=refreshed,
        read=read,
        expected=after,
        restore=lambda broken, _: History(broken._files.path),
        refused=(lambda h: h.query(0, 10), lambda h: h.wheel(), lambda h: h.slots(), copy.copy),
        allowed=(repr, len, lambda h: (h.watermark, h.tick, h.key, h.aggregates)),
    )
    for asked in (False, True)
]
