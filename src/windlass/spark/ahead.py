"""Events from the future. One whose clock is wrong by a year moves the watermark by a year, and all others are late.

    time  …  10:00:01  10:00:02  2077-01-01  10:00:03          max_ahead = 1 hour, and it is 10 o'clock
                                     │
    time  …  10:00:01  10:00:02    null      10:00:03          Spark's watermark sees no such time,
    ahead …    null      null    2077-01-01    null            and the event goes to the late output

What is too far ahead is told by the time at which a micro-batch began. Spark keeps that with the batch, so one that is
run again tells the same.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from windlass import durations
from windlass.spark.quoting import quoted

AHEAD = "__windlass_ahead"


def microseconds(max_ahead: Any) -> int:
    return durations.parse(max_ahead, unit="us", positive=False)


def marked(events: DataFrame, time: str, max_ahead: Any) -> DataFrame:
    """The column `AHEAD` has the times that are too far ahead, and the column of times has the others."""
    at = F.col(quoted(time))
    zoneless = isinstance(events.schema[time].dataType, TimestampNTZType)
    now = F.localtimestamp() if zoneless else F.current_timestamp()
    limit = now + F.make_dt_interval(secs=F.lit(microseconds(max_ahead)) / 1_000_000)
    return events.withColumn(AHEAD, F.when(at > limit, at)).withColumn(time, F.when(at <= limit, at))


def marked_batch(batch: pa.RecordBatch, time: str, limit: int) -> pa.RecordBatch:
    """The same for rows that a worker has read; the limit is in microseconds."""
    i = batch.schema.get_field_index(time)
    at = batch.column(i)
    far = pc.greater(at.cast(pa.int64()), limit)
    columns = list(batch.columns)
    columns[i] = pc.if_else(far, pa.scalar(None, at.type), at)
    ahead = pc.if_else(far, at, pa.scalar(None, at.type))
    return pa.RecordBatch.from_arrays([*columns, ahead], [*batch.schema.names, AHEAD])


def apart(table: pa.Table, time: str) -> tuple[pa.Table, pa.Table]:
    """Events that are too far ahead, with their times, and the others; both without `AHEAD`."""
    ahead, own = table.column(table.num_columns - 1), table.select(range(table.num_columns - 1))
    if ahead.null_count == len(ahead):
        return own.slice(0, 0), own
    far = pc.is_valid(ahead)
    i = own.schema.get_field_index(time)
    return own.set_column(i, own.schema.field(i), ahead).filter(far), own.filter(pc.invert(far))
