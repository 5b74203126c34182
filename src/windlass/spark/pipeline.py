"""`shared_windows`: window queries over a DataFrame, streaming or batch, in one pass.

    any DataFrame ──► cut, pre-aggregate ──► exchange by bucket ──► merge, advance ──► the mixed frame
                      (each partition)                              (state: RocksDB)

Spark moves blocks, Windlass's operator does the rest: the same one, with the same results, as in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windlass.operator.query import Query
from windlass.operator.row_limit import MAX_ROWS
from windlass.spark import state
from windlass.spark.ahead import AHEAD
from windlass.spark.asked import job_of, with_watermark
from windlass.spark.buckets import labels
from windlass.spark.by_spark import Cut, choose, cut_by_spark
from windlass.spark.cut import CUT_SCHEMA
from windlass.spark.cut import cut as cut_events
from windlass.spark.frame import Frame, batches
from windlass.spark.greatest import SCHEMA as GREATEST_SCHEMA
from windlass.spark.greatest import is_seen, watermarked, with_greatest, without_watermark
from windlass.spark.handover import pick_up
from windlass.spark.history import KeepHistory
from windlass.spark.job import Late
from windlass.spark.merge import finish, restored
from windlass.spark.parquet import ParquetEvents
from windlass.spark.processor import FIGURES, OUTPUT_SCHEMA, processor
from windlass.spark.quoting import quoted
from windlass.spark.session import ARROW_BYTES, NO_LIMIT, measures_batches

__all__ = ["explain", "remaining_windows", "shared_windows"]


def shared_windows(
    events: DataFrame | ParquetEvents,
    queries: Query | Iterable[Query],
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    sequence: str | None = None,
    allowed_lateness: Any = 0,
    key_ttl: Any = None,
    late: Late = "slices",
    buckets: int | None = None,
    watermark: str | None = None,
    max_ahead: Any = None,
    history: str | KeepHistory | None = None,
    removed: Iterable[Query] = (),
    cut: Cut = "auto",
    technique: str = "auto",
    plan: Any = None,
    max_rows: int = MAX_ROWS,
    name: str = "windlass",
) -> DataFrame:
    """All windows of all queries over `events`, as one DataFrame: streaming if `events` is, else batch.

    `time` names the column of event times (of a stream: the one with a watermark), `key` the column or columns whose
    values have windows of their own, `sequence` one that orders events of the same time. Late events correct windows
    for `allowed_lateness` after their end; what comes later still is part of the frame, as slices or, with
    `late="rows"`, as the rows they came as. A key that has no events for `key_ttl` ends: all about it is forgotten.
    State is kept in so many `buckets` (default: spark.sql.shuffle.partitions), which is fixed for the life of a
    checkpoint. `name` is what `observe` reports figures under.

    `watermark` is `withWatermark(time, watermark)` done here, which `max_ahead` needs: events whose time is that far
    ahead of the clock are part of the frame as late ones, and do not move the watermark. On the checkpoint of a stream
    with other queries, new ones start and those that are not asked any more end; of the latter, give the ones with
    functions of your own as `removed`.

    `history` keeps aggregates of the past, as they become final, under a path, for `windlass.History` to be asked about
    any range: a path, or `keep_history(path, tick=…, aggregates=…)`.

    Who cuts a batch DataFrame into slices: Spark's own aggregation or Python, whichever is faster by the look of the
    first rows; `cut="spark"` or `cut="python"` settles it.

    Which queries share slices in the state is planned by each bucket when its first events come. `technique` and `plan`
    overrule that, as for an `Operator`; a checkpoint goes on with the trees it has.

    A bucket that would give more than `max_rows` rows in one micro-batch fails before its state changes. Restart the
    stream from its checkpoint with a larger `max_rows`, or without the query that the message names.

    `results_of(frame, query)` and `late_of(frame)` are views of the frame.
    """
    events = with_watermark(events, time, watermark, max_ahead)
    job = job_of(
        events,
        queries,
        time=time,
        key=key,
        sequence=sequence,
        allowed_lateness=allowed_lateness,
        key_ttl=key_ttl,
        late=late,
        buckets=buckets,
        max_ahead=max_ahead,
        history=history,
        removed=removed,
        technique=technique,
        plan=plan,
        max_rows=max_rows,
    )
    if job.keeper is not None:
        job.keeper.create()
    frame = Frame(job, ends=not events.isStreaming)  # also finds whatever is wrong with types
    delay: str | None = None  # if we make the watermark
    if isinstance(events, ParquetEvents):
        blocks, delay = events.blocks(job), events.watermark[1] if events.watermark is not None else None
    elif choose(events, job, cut).by_spark:
        blocks = cut_by_spark(events, job, heartbeat=job.history is not None)
    else:
        names = job.schema.names if max_ahead is None else [*job.schema.names, AHEAD]
        rows, delay = without_watermark(events)
        needed = rows.select(*(F.col(quoted(n)).alias(str(i)) for i, n in enumerate(names)))
        cut_rows = cut_events(job, heartbeat=events.isStreaming or job.history is not None)
        if is_seen(events):
            blocks = needed.mapInArrow(with_greatest(cut_rows, names.index(time), job.buckets), GREATEST_SCHEMA)
        else:
            blocks = needed.mapInArrow(cut_rows, CUT_SCHEMA)
    if not events.isStreaming:
        return frame.spread(blocks.groupBy("bucket").applyInArrow(_finished(frame), frame.narrow))
    merged = processor(frame, timed=delay is None)
    mode = "EventTime" if delay is None else "None"
    outcome = blocks.groupBy("bucket").transformWithState(merged, OUTPUT_SCHEMA, "Append", mode)
    figures = [F.expr(f"sum({figure}) AS {figure}") for figure in FIGURES]
    observed = outcome.observe(name, *figures, F.expr("max(watermark) AS watermark"))
    known = observed if delay is None else watermarked(observed, delay)
    return frame.spread(known.mapInArrow(_opened, frame.narrow))


def explain(events: DataFrame | ParquetEvents, queries: Query | Iterable[Query], **options: Any) -> str:
    """What `shared_windows` would do with these arguments, and why."""
    options.pop("name", None)
    cut = options.pop("cut", "auto")
    if isinstance(options.get("time"), str):
        events = with_watermark(events, options["time"], options.pop("watermark", None), options.get("max_ahead"))
    job = job_of(events, queries, **options)
    reader = "the workers, with Arrow" if isinstance(events, ParquetEvents) else "Spark, handed over as Arrow batches"
    shipped = "slices, cut and pre-aggregated in each partition"
    if job.ships_events is not None:
        shipped = f"events: {job.ships_events}"
    elif not isinstance(events, ParquetEvents):
        chosen = choose(events, job, cut)
        shipped += f", by {'Spark itself' if chosen.by_spark else 'Python'}: {chosen.reason}"
    if not isinstance(events, ParquetEvents) and measures_batches(events.sparkSession):
        reader += f", measured at every row (set {ARROW_BYTES} to {NO_LIMIT}, no limit, to halve that)"
    lines = [
        f"  read by    {reader}: {', '.join(job.schema.names)} (of {len(events.columns)} columns)",
        f"  shipped    {shipped}",
        f"  state      {job.buckets} bucket{'s' if job.buckets > 1 else ''}"
        + (", each a snapshot and a log of steps in RocksDB" if events.isStreaming else ", for the time of the job"),
    ]
    if events.isStreaming:
        lines.append(f"  watermark  {_whose_watermark(events)}")
    return "\n".join([job.operator().explain(), *lines])


def _whose_watermark(events: DataFrame | ParquetEvents) -> str:
    """Where the watermark of a stream comes from."""
    if not isinstance(events, ParquetEvents) and not is_seen(events):
        return "Spark's: windows come out one micro-batch after the one that completes them"
    if not isinstance(events, ParquetEvents) and without_watermark(events)[1] is None:
        return "by the events, and by Spark's, as rows are dropped after withWatermark"
    return "by the events: windows come out with the micro-batch that completes them"


def remaining_windows(
    checkpoint: str | Path,
    events: DataFrame | ParquetEvents,
    queries: Query | Iterable[Query],
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    sequence: str | None = None,
    allowed_lateness: Any = 0,
    key_ttl: Any = None,
    late: Late = "slices",
    buckets: int | None = None,
    removed: Iterable[Query] = (),
    technique: str = "auto",
    plan: Any = None,
    max_rows: int = MAX_ROWS,
    operator_id: int = 0,
) -> DataFrame:
    """The windows that are still open in the checkpoint of a stream that has stopped, as if the stream ended there.

    A batch DataFrame with the columns of `shared_windows`, for the same sink, made with the same arguments (of `events`
    only the schema is looked at). The checkpoint does not change: if the stream goes on, these windows come again.
    """
    job = job_of(
        events,
        queries,
        time=time,
        key=key,
        sequence=sequence,
        allowed_lateness=allowed_lateness,
        key_ttl=key_ttl,
        late=late,
        buckets=buckets,
        removed=removed,
        technique=technique,
        plan=plan,
        max_rows=max_rows,
    )
    spark = events.sparkSession

    def variable(name: str) -> DataFrame:
        reader = spark.read.format("statestore").option("operatorId", operator_id).option("stateVarName", name)
        return reader.option("flattenCollectionTypes", False).load(str(checkpoint))

    bucket = F.col("key.bucket").alias("bucket")
    head = variable("head").select(bucket, F.col("key.bucket").alias("label"), "value.version", "value.seal")
    log = variable("log").select(bucket, F.col("list_value.entry").alias("log"))
    state_of = head.join(log, "bucket", "left").drop("bucket")
    frame = Frame(job)
    return frame.spread(state_of.mapInArrow(_remaining(frame), frame.narrow))


def _remaining(frame: Frame) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def finish_buckets(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for bucket in batch.to_pylist():
                head = state.head_of((bucket["version"], bucket["seal"]), bucket["label"])
                snapshot, steps = state.parted(bucket["log"] or (), head.snapshot)
                operator = restored(frame.before(head.job), snapshot, steps)
                state.check_whole(head.base, snapshot, steps, head.token)
                operator.change_queries(frame.job.all_queries)
                for rows in finish(frame, operator):
                    yield from batches(rows)

    return finish_buckets


def _finished(frame: Frame) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The second stage in a batch: everything there is, then the end."""

    def finish_bucket(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(given))
        order = pc.sort_indices(table, sort_keys=[("partition", "ascending"), ("number", "ascending")])
        blocks = (memoryview(block.as_buffer()) for block in table["block"].take(order))
        label = table["bucket"][0].as_py()
        for rows in finish(frame, frame.job.operator(), blocks, labels(frame.job.buckets).index(label)):
            yield from batches(rows)

    return finish_bucket


def _opened(outcome: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that buckets have left."""
    for batch in outcome:
        yield from pick_up(batch.column(0).drop_null().to_pylist())
