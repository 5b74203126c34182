"""The greatest event time of a partition, which Spark's watermark is made of.

    rows ──► cut ──► (bucket, partition, number, block, greatest) ──withWatermark(greatest)──► exchange

Spark would look at the time of every row, one by one, and would have to have the rows. Whoever cuts has the times at
hand as a column: each partition says with its last block which was the greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from windlass.spark.chaining import plan_of
from windlass.spark.cut import CUT_SCHEMA
from windlass.spark.session import is_classic

GREATEST = "greatest"
SCHEMA = f"{CUT_SCHEMA}, {GREATEST} timestamp"

Cut = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_greatest(cut: Cut, place: int) -> Cut:
    """`cut`, whose rows also say which was the greatest of the times in the column at this place."""

    def cut_and_see(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        greatest: list[int] = []

        def seen() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if (latest := _latest(batch.column(place))) is not None:
                    greatest[:] = [max([latest, *greatest])]
                yield batch

        for row in cut(seen()):
            yield _row(row, greatest)
        if greatest:  # all of them have been seen by now
            yield _row(row.slice(0, 1), greatest, empty=True)

    return cut_and_see


def _row(row: pa.RecordBatch, greatest: list[int], empty: bool = False) -> pa.RecordBatch:
    latest = (pa.array(greatest, pa.int64()) if greatest else pa.nulls(1, pa.int64())).cast(pa.timestamp("us", "UTC"))
    columns = list(row.columns)
    if empty:
        columns[-1] = pa.array([b""], pa.binary())
    return pa.RecordBatch.from_arrays([*columns, latest], [*row.schema.names, GREATEST])


def _latest(times: pa.Array) -> int | None:
    latest = pc.max(times)
    if not latest.is_valid:
        return None
    return int(latest.cast(pa.int64()).as_py()) if pa.types.is_integer(latest.type) else int(latest.value)


def watermarked(blocks: DataFrame, delay: str) -> DataFrame:
    """Blocks with a watermark by their greatest times; the column itself has done what it is for."""
    # Without it, Spark does not drop blocks as late: what is late is decided by event.
    return blocks.withWatermark(GREATEST, delay).drop(GREATEST)


def without_watermark(events: DataFrame, time: str) -> tuple[DataFrame, str | None]:
    """Events as they were before `withWatermark(time, delay)`, and the delay; None where Spark has to make it."""
    if not events.isStreaming or not is_classic(events.sparkSession):
        return events, None
    node: Any = plan_of(events)
    if node.nodeName() != "EventTimeWatermark" or node.eventTime().name() != time:
        return events, None
    jvm: Any = events.sparkSession.sparkContext._jvm
    before = jvm.org.apache.spark.sql.classic.Dataset.ofRows(events._jdf.sparkSession(), node.child())
    return DataFrame(before, events.sparkSession), str(node.delay().toString())
