"""The greatest event time of a micro-batch, which the watermark is made of.

    rows ──► cut ──► (bucket, partition, number, block, greatest) ──► exchange ──► buckets ──withWatermark(greatest)──►

Spark would look at the time of every row, one by one, and would have to have the rows. Whoever cuts has the times at
hand as a column: each partition tells all buckets which was the greatest. So a bucket knows the watermark at the end of
its micro-batch, and windows come out with the events that complete them. Spark's own watermark is one micro-batch
behind. It is made of the same times, behind the buckets, for whoever follows and for the reports of progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from windlass.spark.chaining import POLICY, WATERMARK, has, plan_of
from windlass.spark.cut import CUT_SCHEMA, Cutter, rows_without_blocks
from windlass.spark.session import is_classic

GREATEST = "greatest"  # in microseconds
SCHEMA = f"{CUT_SCHEMA}, {GREATEST} bigint"

_FILTER = "Filter"  # what it drops counts for the watermark, and is not seen behind it
_ROW_BY_ROW = ("Project", "SubqueryAlias", "Repartition", "RepartitionByExpression", _FILTER)


def with_greatest(cut: Cutter, place: int, buckets: int) -> Cutter:
    """`cut`, that also tells all buckets which was the greatest of the times in the column at this place."""

    def cut_and_see(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest: list[int] = []  # of each batch

        def seen() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                latest.extend(_latest(batch.column(place)))
                yield batch

        for rows in cut(seen()):
            yield rows.append_column(GREATEST, pa.nulls(rows.num_rows, pa.int64()))
        if latest:  # all batches have been seen by now
            rows = rows_without_blocks(buckets)
            yield rows.append_column(GREATEST, pa.repeat(pa.scalar(max(latest), pa.int64()), buckets))

    return cut_and_see


def _latest(times: pa.Array) -> list[int]:
    latest = pc.max(times)
    if not latest.is_valid:
        return []
    return [int(latest.cast(pa.int64()).as_py()) if pa.types.is_integer(latest.type) else int(latest.value)]


def watermarked(outcome: DataFrame, delay: str) -> DataFrame:
    """What comes out of the buckets, with a watermark for Spark."""
    return outcome.withWatermark(GREATEST, delay)


def without_watermark(events: DataFrame) -> tuple[DataFrame, str | None]:
    """Events as they would be without `withWatermark(…, delay)`, and the delay; None where Spark has to make it: where
    it is more than these rows say, as others were dropped, or as that of another stream in the query may count."""
    above, node = _watermark(events)
    if node is None or any(other.nodeName() == _FILTER for other in above):
        return events, None
    if events.sparkSession.conf.get(POLICY) == "max":
        return events, None
    jvm: Any = events.sparkSession.sparkContext._jvm
    plan = node.child()
    for other in reversed(above):
        plan = other.withNewChildren(jvm.PythonUtils.toSeq([plan]))
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(events._jdf.sparkSession(), plan)
    return DataFrame(rows, events.sparkSession), str(node.delay().toString())


def is_seen(events: DataFrame) -> bool:
    """Whether the events are those that Spark's watermark is made of, or some of them: then it is as far as theirs."""
    return _watermark(events)[1] is not None


def _watermark(events: DataFrame) -> tuple[list[Any], Any]:
    """Spark's node that makes the watermark, if it is the only one and rows come from there one by one, and those above
    it."""
    if not events.isStreaming or not is_classic(events.sparkSession):
        return [], None
    node, above = plan_of(events), []
    while node.nodeName() in _ROW_BY_ROW:
        above.append(node)
        node = node.child()
    return above, node if node.nodeName() == WATERMARK and not has(node.child(), WATERMARK) else None
