"""A driver to be killed: one run of a stream, in a process of its own, up to the end of the files that are there.

    python tests/spark/driver.py '{"place": …, "master": …}'      says  ready · batch 0 · wrote 0 · batch 1 · … · done

All that a run leaves is in `place`: in/ (its files), checkpoint/, out/ (`idempotent_parquet`), and faults/, a file for
each fault that it made itself. Faults are made on a task's first attempt, so a task that is tried again succeeds, and
`few` times each, as every one costs a Python process:

    cut      before the exchange, after rows have been handed on, the task fails
    state    in a function of a query, in the middle of a step of the state, it fails
    written  behind the state, after the step was taken and before Spark has committed it, it fails
    slow     before the exchange, it sleeps, for a speculative attempt to overtake it
    stuck    in the middle of a step of the state, it sleeps, and goes on
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from tests.spark.streams import MS, Asked, Files, Named, read_files
from windlass import agg
from windlass.spark import idempotent_parquet, keep_history, session, shared_windows

DELAY = 10  # of the watermark, milliseconds
LATENESS = 20 * MS
SLEEPS = ("slow", "stuck")

SLICED = (
    Asked("tumbling", oracle.Tumbling(10 * MS), ("sum", "events", "avg")),
    Asked("sliding", oracle.Sliding(40 * MS, 10 * MS), ("count", "max"), where="flag"),
)
EVENTS = (
    *SLICED,
    Asked("session", oracle.Session(3 * MS), ("events", "list")),
    Asked("counted", oracle.Tumbling(7, measure="count"), ("sum", "last")),
    Asked("punctuation", oracle.Punctuation(Named("flag")), ("list",)),
)
# What the history keeps is one more query.
HISTORY = Asked("history", oracle.Tumbling(5 * MS), ("sum", "events"))
KEPT = (agg.sum("x").alias("sum"), agg.count().alias("events"))
QUERIES = {"slices": SLICED, "events": EVENTS}


class Faults:
    """Faults of a first attempt, each noted in a directory before it happens."""

    def __init__(self, place: str, kinds: Sequence[str], few: int = 1) -> None:
        self.place, self.kinds, self.few = Path(place), tuple(kinds), few

    def strike(self, kind: str) -> None:
        context = TaskContext.get()
        if kind not in self.kinds or context is None:
            return
        if context.attemptNumber() > 0:
            self._noted(f"after-{kind}")
        elif kind not in SLEEPS:
            if self._noted(kind):
                raise RuntimeError(f"the first attempt of a task fails: {kind}")
        elif context.partitionId() == 0 and self._noted(kind):  # the others show how long it should take
            time.sleep(6)

    def _noted(self, kind: str) -> bool:
        """Whether there have not been too many of them; if so, here is another."""
        if len(list(self.place.glob(f"{kind} *"))) >= self.few:
            return False
        (self.place / f"{kind} {uuid.uuid4().hex}").touch()
        return True

    def in_batches(self, *kinds: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """For `mapInArrow`: everything is handed on, then the fault."""

        def pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            some = False
            for batch in batches:
                some = some or batch.num_rows > 0
                yield batch
            for kind in kinds if some else ():
                self.strike(kind)

        return pass_on

    def in_condition(self, table: pa.Table) -> Any:
        """For a query's `where`: true of every event."""
        self.strike("state")
        self.strike("stuck")
        return pc.is_valid(table["id"])


def queries(ships: str, faults: Faults) -> list[Asked]:
    asked = list(QUERIES[ships])
    if {"state", "stuck"} & set(faults.kinds):
        condition = (faults.in_condition, lambda columns: columns["id"] is not None)
        asked.append(Asked("guarded", oracle.Tumbling(10 * MS), ("list",), "guard", more={"guard": condition}))
    return asked


def say(text: str) -> None:
    print(text, flush=True)


def main(
    place: str,
    master: str = "local[2,4]",
    config: dict[str, Any] | None = None,
    ships: str = "events",
    faults: Sequence[str] = (),
    few: int = 1,
) -> None:
    here = Path(place)
    spark = session("faults", master=master, config={"spark.sql.shuffle.partitions": 2} | (config or {}))
    say("ready")
    made = Faults(str(here / "faults"), faults, few)
    events = read_files(spark, Files(here / "in"))
    if {"cut", "slow"} & set(faults):
        events = events.repartition(2, "id").mapInArrow(made.in_batches("cut", "slow"), events.schema)
    frame = shared_windows(
        events.withWatermark("ts", f"{DELAY} milliseconds"),
        [asked.for_windlass() for asked in queries(ships, made)],
        time="ts",
        key="k",
        sequence="id",
        allowed_lateness=f"{LATENESS}us",
        history=keep_history(str(here / "history"), tick=f"{HISTORY.window.size}us", aggregates=KEPT),
    )
    if "written" in faults:
        frame = frame.mapInArrow(made.in_batches("written"), frame.schema)
    sink = idempotent_parquet(str(here / "out"))

    def write(batch: Any, number: int) -> None:
        say(f"batch {number}")
        sink(batch, number)
        say(f"wrote {number}")

    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(here / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    say("done")
    spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
