"""The second stage in a stream: Spark hands over a bucket's blocks, and keeps its state.

All buckets are called for every watermark. Where partitions tell what it is made of (see `greatest`), by the row in
which they do. Else it is Spark's: they are called by a block from the first partition (see `cut`), or, in a batch
without data, by a timer one millisecond after the last watermark. So quiet keys emit in time, and all keys see the same
watermarks, however many buckets there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import Row, StructType

if TYPE_CHECKING:
    from windlass.spark.bucket import Bucket
    from windlass.spark.frame import Frame

# What comes out of a bucket: which file its rows are in, figures about it for `observe`, and what Spark's watermark is
# made of.
FIGURES = ("events", "late", "expired", "rows", "slices", "tuples", "keys", "open_windows", "state_bytes")
OUTPUT_SCHEMA = f"rows_in string, {' bigint, '.join((*FIGURES, 'watermark'))} bigint, greatest timestamp"

_HEAD = (
    StructType()
    .add("version", "integer")
    .add("token", "binary")
    .add("base", "binary")
    .add("fingerprint", "string")
    .add("watermark", "long")
    .add("timer", "long")
    .add("log", "long")
    .add("snapshot", "long")
    .add("seal", "binary")
)
_LOG = StructType().add("entry", "binary")


def processor(frame: Frame, timed: bool = True) -> StatefulProcessor:
    """What Spark calls for each bucket; `timed`: Spark has a watermark, too.

    Whenever a query starts, Spark starts a Python process only to ask which state there will be. To load Windlass takes
    longer than all else there, so what is sent is a class that travels by value and loads it when rows come. Types go
    with it: each task would have them read from text, one by one.
    """
    packed: bytes = cloudpickle.dumps(frame)  # type: ignore[no-untyped-call]
    head, log = _HEAD, _LOG

    class Processor(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.head = handle.getValueState("head", head)
            self.log = handle.getListState("log", log)

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
            ordered = sorted(rows, key=lambda row: (row.partition, row.number))
            blocks = [row.block for row in ordered if row.block]
            told = [row.greatest for row in ordered if getattr(row, "greatest", None) is not None]
            greatest = max(told, default=None)
            yield from self._bucket(key).step(blocks, timerValues.getCurrentWatermarkInMs(), greatest)

        def handleExpiredTimer(
            self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
        ) -> Iterator[Row]:
            yield from self._bucket(key).step([], timerValues.getCurrentWatermarkInMs())

        def close(self) -> None:
            pass

        def _bucket(self, key: Any) -> Bucket:
            from windlass.spark.bucket import Bucket, frame_of

            return Bucket(frame_of(packed), int(key[0]), self.handle if timed else None, self.head, self.log)

    return Processor()
