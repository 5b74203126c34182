"""Calls of windows per event, slicers and running plans that may be interrupted anywhere."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from faults.injection import Case
from sharing.brute_force import windows

import windlass
from windlass import Query, Tumbling, agg
from windlass.operator.slicer import Slicer
from windlass.sharing import ACQ, Plan, Tree

Rows = Sequence[tuple[str, int, int]]

LISTED = agg.define(  # a sum by functions in Python
    "total", lift=lambda x: [x], combine=lambda a, b: a + b, lower=sum, identity=lambda: [], compile=False
)

# --------------------------------------------------------------------------- a window per event

SPAN = 10
FIRST: Rows = [("a", 1, 1), ("b", 2, 2), ("a", 12, 3), ("b", 5, 4)]
THEN: Rows = [("b", 9, 5), ("a", 8, 6), ("c", 9, 7), ("a", 20, 8), *((f"k{i}", 20 + i, i) for i in range(30))]
AFTER: Rows = [("a", 21, 100), ("c", 10, 100), ("k7", 30, 100)]


def columns(rows: Rows) -> dict[str, Any]:
    return {"k": [k for k, _, _ in rows], "t": [t for _, t, _ in rows], "v": [v for _, _, v in rows]}


def per_event(key: str | tuple[()], function: bool) -> Any:
    total = agg.sum("v")
    if function:
        total = LISTED("v")
    fine = windlass.FineGrained({"total": total, "n": agg.count()}, time="t", key=key, span=SPAN)
    fine.process(columns(FIRST))
    return fine


def answers(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["total"].to_pylist(), table["n"].to_pylist(), strict=True))


def sums_per_event(keyed: bool) -> tuple[Any, Any]:
    """For each event the sum and the number of the values that are in its key's window when it comes."""
    held: dict[str, list[tuple[int, int]]] = {}
    found = []
    for name, t, v in [*FIRST, *THEN, *AFTER]:
        mine = held.setdefault(name if keyed else "", [])
        newest = max([time for time, _ in mine], default=t)
        if t > newest - SPAN:
            mine.append((t, v))
            mine[:] = [(time, value) for time, value in mine if time > max(newest, t) - SPAN]
        found.append((sum(value for _, value in mine), len(mine)))
    return found[len(FIRST) : -len(AFTER)], found[-len(AFTER) :]


def one_more_batch(fine: Any) -> list[tuple[int, int]]:
    other = copy.deepcopy(fine)
    return answers(other.process(columns(AFTER)))


def fine_grained(name: str, key: str | tuple[()], function: bool = False) -> Case:
    refused: list[Callable[[Any], Any]] = [lambda fine: fine.snapshot(), copy.copy, copy.deepcopy]
    return Case(
        name=f"FineGrained.process, {name}",
        make=lambda: per_event(key, function),
        call=lambda fine: fine.process(columns(THEN)),
        shown=answers,
        read=one_more_batch,
        expected=lambda: sums_per_event(bool(key)),
        save=lambda fine: fine.snapshot(),
        restore=lambda fine, data: fine.restore(data),
        refused=tuple(refused if function else [*refused, pickle.dumps]),
    )


def restored_fine_grained() -> Case:
    """The windows of all keys, read from a snapshot into an object without any."""
    saved: list[bytes] = []

    def make() -> Any:
        if not saved:
            full = per_event("k", function=False)
            full.process(columns(THEN))
            saved.append(full.snapshot())
        return windlass.FineGrained({"total": agg.sum("v"), "n": agg.count()}, time="t", key="k", span=SPAN)

    return Case(
        name="FineGrained.restore",
        make=make,
        call=lambda fine: fine.restore(saved[0]),
        shown=lambda value: None,
        read=one_more_batch,
        expected=lambda: (None, sums_per_event(True)[1]),
        refused=(lambda fine: fine.snapshot(), copy.copy, copy.deepcopy, pickle.dumps),
    )


# --------------------------------------------------------------------------- a slicer

BATCH = pa.table({"ts": [1, 4, 11, 3], "k": ["a", "b", "a", "a"], "x": [1, 2, 3, 4]})
SLICES = {("a", 1, 3): 5, ("b", 4, 4): 2, ("a", 11, 11): 3}
MORE = pa.table({"ts": [30], "k": ["z"], "x": [7]})


def slicer(*batches: pa.Table) -> Slicer:
    made = Slicer(Query("q", Tumbling(10), agg.sum("x")), BATCH.schema, time="ts", key="k")
    for batch in batches:
        made.process(batch)
    return made


def slices(table: pa.Table) -> dict[Any, int]:
    key, first, last, _, total, *_ = (column.to_pylist() for column in table.columns)
    return {(k, a, b): x for k, a, b, x in zip(key, first, last, total, strict=True)}


def taken(made: Slicer) -> dict[Any, int]:
    return slices(copy.deepcopy(made).take())


SLICER = (
    Case(
        name="Slicer.process",
        make=slicer,
        call=lambda made: made.process(BATCH),
        read=taken,
        expected=lambda: (None, SLICES),
        refused=(lambda made: made.take(), copy.copy, copy.deepcopy),
    ),
    Case(
        name="Slicer.take",
        make=lambda: slicer(BATCH),
        call=lambda made: made.take(),
        shown=slices,
        read=taken,
        expected=lambda: (SLICES, {}),
        refused=(lambda made: made.process(MORE), copy.copy, copy.deepcopy),
    ),
)

# --------------------------------------------------------------------------- a plan

EARLY, LATER = ([1, 2, 4, 7], [5, 6, 7, 8]), ([8, 11, 12, 19, 20], [1, 2, 3, 4, 5])
RANGES = ((6, 2), (9, 3))


def started(technique: str, function: bool = False) -> Any:
    total = agg.sum("x")
    if function:
        total = LISTED("x")
    asked = tuple(ACQ(length, slide, total, name=f"{length}") for length, slide in RANGES)
    run = Plan((Tree(asked, technique, 0.0, 0.0, 0.0),), "weaveshare", "pairs", 1.0, "operations", 0.0).run()
    run.process(*map(np.array, EARLY))
    return run


def due(found: Any) -> Any:
    return {
        q.name: list(zip(a.start.tolist(), a.end.tolist(), a.value.to_pylist(), strict=True)) for q, a in found.items()
    }


def summed(first: float, last: float) -> Any:
    """Sums of the windows that end in (first, last]. An event completes the windows that end at or before it."""
    ts, xs = [*EARLY[0], *LATER[0]], [*EARLY[1], *LATER[1]]
    found = {
        f"{length}": [w for w in windows(length, slide, 0, ts, xs, sum) if first < w[1] <= last]
        for length, slide in RANGES
    }
    return {name: rows for name, rows in found.items() if rows}


def plan_run(technique: str, function: bool = False) -> list[Case]:
    """Cases for `process` and `finish` of a running plan."""
    name = f"PlanRun.%s, {technique}{' over a function' if function else ''}"
    process = Case(
        name=name % "process",
        make=lambda: started(technique, function),
        call=lambda run: run.process(*map(np.array, LATER)),
        shown=due,
        read=lambda run: (run.events, run.watermark, run.answers),
        expected=lambda: (summed(7, 20), (9, 20, sum(map(len, (summed(0, 20)).values())))),
        refused=(lambda run: run.finish(), copy.copy, copy.deepcopy),
    )
    finish = Case(
        name=name % "finish",
        make=lambda: started(technique, function),
        call=lambda run: run.finish(),
        shown=due,
        read=lambda run: (run.events, run.watermark),
        expected=lambda: (only_early(7), (4, 7)),
        refused=(copy.copy, copy.deepcopy),
    )
    return [process, finish]


def only_early(first: int) -> Any:
    found = {
        f"{length}": [w for w in windows(length, slide, 0, *EARLY, sum) if w[1] > first] for length, slide in RANGES
    }
    return {name: rows for name, rows in found.items() if rows}


CASES = [
    fine_grained("keys", "k"),
    fine_grained("one key", ()),
    fine_grained("functions", "k", function=True),
    restored_fine_grained(),
    *SLICER,
    *plan_run("slickdeque_inv"),
    *plan_run("daba", function=True),
]
