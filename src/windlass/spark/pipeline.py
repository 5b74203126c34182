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
from pyspark.sql.types import TimestampNTZType, TimestampType

from windlass.errors import InvalidArgument, UnknownColumn, WrongType
from windlass.operator.plan import Plan
from windlass.operator.query import RESERVED, Query, check_queries
from windlass.spark import state
from windlass.spark.blocks import unpacked
from windlass.spark.chaining import DELAY, holds_windows, refuse_two_watermarks
from windlass.spark.cut import CUT_SCHEMA, cut
from windlass.spark.frame import LATE, Frame, batches
from windlass.spark.job import Job, Late
from windlass.spark.merge import finish, restored
from windlass.spark.parquet import ParquetEvents, arrow_schema
from windlass.spark.processor import FIGURES, OUTPUT_SCHEMA, Processor
from windlass.spark.session import check

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
    name: str = "windlass",
) -> DataFrame:
    """All windows of all queries over `events`, as one DataFrame: streaming if `events` is, else batch.

    `time` names the column of event times (of a stream: the one with a watermark), `key` the column or columns whose
    values have windows of their own, `sequence` one that orders events of the same time. Late events correct windows
    for `allowed_lateness` after their end; what comes later still is part of the frame, as slices or, with
    `late="rows"`, as the rows they came as. A key that has no events for `key_ttl` ends: all about it is forgotten.
    State is kept in so many `buckets` (default: spark.sql.shuffle.partitions), which is fixed for the life of a
    checkpoint. `name` is what `observe` reports figures under.

    `results_of(frame, query)` and `late_of(frame)` are views of the frame.
    """
    job = _job(
        events,
        queries,
        time=time,
        key=key,
        sequence=sequence,
        allowed_lateness=allowed_lateness,
        key_ttl=key_ttl,
        late=late,
        buckets=buckets,
    )
    frame = Frame(job)
    schema = frame.spark_schema  # also finds whatever is wrong with types
    if isinstance(events, ParquetEvents):
        blocks = events.blocks(job)
    else:
        needed = events.select(*(F.col(_quoted(n)).alias(str(i)) for i, n in enumerate(job.schema.names)))
        blocks = needed.mapInArrow(cut(job, heartbeat=events.isStreaming), CUT_SCHEMA)
    if not events.isStreaming:
        return blocks.groupBy("bucket").applyInArrow(_finished(frame), schema)
    outcome = blocks.groupBy("bucket").transformWithStateInPandas(
        Processor(frame), OUTPUT_SCHEMA, "Append", "EventTime"
    )
    figures = [F.sum(figure).alias(figure) for figure in FIGURES]
    observed = outcome.observe(name, *figures, F.max("watermark").alias("watermark"))
    return observed.select("payload").mapInArrow(_opened, schema)


def explain(events: DataFrame | ParquetEvents, queries: Query | Iterable[Query], **options: Any) -> str:
    """What `shared_windows` would do with these arguments, and why."""
    job = _job(events, queries, **{option: value for option, value in options.items() if option != "name"})
    reader = "the workers, with Arrow" if isinstance(events, ParquetEvents) else "Spark, handed over as Arrow batches"
    shipped = "slices, cut and pre-aggregated in each partition"
    if job.ships_events is not None:
        shipped = f"events: {job.ships_events}"
    lines = [
        f"  read by    {reader}: {', '.join(job.schema.names)} (of {len(events.columns)} columns)",
        f"  shipped    {shipped}",
        f"  state      {job.buckets} bucket{'s' if job.buckets > 1 else ''}"
        + (", each a snapshot and a log of steps in RocksDB" if events.isStreaming else ", for the time of the job"),
    ]
    return "\n".join([job.operator().explain(), *lines])


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
    operator_id: int = 0,
) -> DataFrame:
    """The windows that are still open in the checkpoint of a stream that has stopped, as if the stream ended there.

    A batch DataFrame with the columns of `shared_windows`, for the same sink, made with the same arguments (of `events`
    only the schema is looked at). The checkpoint does not change: if the stream goes on, these windows come again.
    """
    job = _job(
        events,
        queries,
        time=time,
        key=key,
        sequence=sequence,
        allowed_lateness=allowed_lateness,
        key_ttl=key_ttl,
        late=late,
        buckets=buckets,
    )
    spark = events.sparkSession

    def variable(name: str) -> DataFrame:
        reader = spark.read.format("statestore").option("operatorId", operator_id).option("stateVarName", name)
        return reader.option("flattenCollectionTypes", False).load(str(checkpoint))

    bucket = F.col("key.bucket").alias("bucket")
    head = variable("head").select(bucket, "value.version", "value.fingerprint")
    snapshot = variable("snapshot").select(bucket, F.col("value.data").alias("snapshot"))
    log = variable("log").select(bucket, F.col("list_value.step").alias("log"))
    state_of = head.join(snapshot, "bucket", "left").join(log, "bucket", "left").drop("bucket")
    frame = Frame(job)
    return state_of.mapInArrow(_remaining(frame), frame.spark_schema)


def _remaining(frame: Frame) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def finish_buckets(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for bucket in batch.to_pylist():
                state.check(bucket["version"], bucket["fingerprint"], frame.job.fingerprint)
                for rows in finish(frame, restored(frame, bucket["snapshot"], bucket["log"] or ())):
                    yield from batches(rows)

    return finish_buckets


def _finished(frame: Frame) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The second stage in a batch: everything there is, then the end."""

    def finish_bucket(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(given))
        order = pc.sort_indices(table, sort_keys=[("partition", "ascending"), ("number", "ascending")])
        blocks = (block.as_buffer() for block in table["block"].take(order))
        for rows in finish(frame, frame.job.operator(), blocks):
            yield from batches(rows)

    return finish_bucket


def _opened(payloads: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Payloads back into rows."""
    for batch in payloads:
        for payload in batch.column(0):
            if payload.as_buffer().size:
                yield from batches(unpacked(payload.as_buffer())[1])


# --------------------------------------------------------------------------- what was asked


def _job(
    events: Any,
    queries: Any,
    *,
    time: str,
    key: Any = None,
    sequence: str | None = None,
    allowed_lateness: Any = 0,
    key_ttl: Any = None,
    late: Late = "slices",
    buckets: Any = None,
) -> Job:
    if not isinstance(events, DataFrame | ParquetEvents):
        raise WrongType(f"shared_windows takes a Spark DataFrame or parquet_events, got {type(events).__name__}")
    spark = events.sparkSession
    names = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    asked = check_queries(queries, names)
    if not asked:
        raise InvalidArgument("there are no queries; give one, such as Query('n', Tumbling('1m'), agg.count())")
    _check_names(asked, names)
    if late not in ("slices", "rows"):
        raise InvalidArgument(f"late is 'slices' or 'rows', got {late!r}")
    _check_time(events, time)
    if events.isStreaming:
        check(spark)
    if buckets is None:
        buckets = int(spark.conf.get("spark.sql.shuffle.partitions") or 200) if names else 1
    if not isinstance(buckets, int) or isinstance(buckets, bool) or buckets < 1:
        raise InvalidArgument(f"buckets is a positive number, got {buckets!r}")
    needed = _needed(events, asked, time, names, sequence, whole=late == "rows")
    schema = arrow_schema(events, needed)
    return Job(asked, schema, time, names, sequence, allowed_lateness, key_ttl, late, buckets if names else 1)


def _check_names(queries: Sequence[Query], key: Sequence[str]) -> None:
    for name in (*key, *(query.name for query in queries)):
        if name == LATE:
            raise InvalidArgument(
                f"neither a key column nor a query can be named {LATE!r}: the results have that column"
            )
    _check_case([*key, *RESERVED, LATE, *(query.name for query in queries)])
    for query in queries:
        _check_case([*key, *RESERVED, *query.columns])


def _check_case(names: Sequence[str]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        if name.lower() in folded:
            raise InvalidArgument(
                f"{name!r} and {folded[name.lower()]!r} are one name to Spark, which ignores case; rename one of them"
            )
        folded[name.lower()] = name


def _check_time(events: DataFrame | ParquetEvents, time: str) -> None:
    fields = {field.name: field for field in events.schema.fields}
    if time not in fields:
        raise UnknownColumn(f"there is no time column {time!r}; the frame has {events.columns}")
    if not events.isStreaming:
        return
    if not isinstance(fields[time].dataType, TimestampType | TimestampNTZType):
        raise WrongType(f"a stream's time is a timestamp, but {time!r} is of {fields[time].dataType.simpleString()}")
    marked = [name for name, field in fields.items() if DELAY in (field.metadata or {})]
    if isinstance(events, ParquetEvents):
        marked = [] if events.watermark is None else [events.watermark[0]]
    if time not in marked:
        others = [name for name in marked if name != time]
        hint = f"; there is one on {others[0]!r}: is that the time?" if others else ""
        say = f"say how late events may be: shared_windows(events.withWatermark({time!r}, '10 seconds'), …)"
        if not isinstance(events, ParquetEvents) and holds_windows(events):
            say = f"windows of another shared_windows have one if you ask for it: results_of(…, time={time!r})"
        raise InvalidArgument(f"the stream has no watermark on {time!r}{hint}; {say}")
    if not isinstance(events, ParquetEvents):
        refuse_two_watermarks(events)


def _needed(
    events: DataFrame | ParquetEvents,
    queries: Sequence[Query],
    time: str,
    key: Sequence[str],
    sequence: str | None,
    whole: bool,
) -> list[str]:
    """The columns that the queries read: only these cross to Python."""
    for name in (*key, *([] if sequence is None else [sequence])):
        if name not in events.columns:
            raise UnknownColumn(f"there is no column {name!r}; the frame has {events.columns}")
    plan = Plan(list(queries), "us", False)
    for name in (*plan.columns, *plan.window_columns):
        if name not in events.columns:
            readers = [
                q.name for q in queries if name in (*q.window.columns, *(c for a in q.aggregates for c in a.columns))
            ]
            raise UnknownColumn(
                f"query {readers[0]!r} reads {name!r}, which is not there; the frame has {events.columns}"
            )
    chosen = {time, *key, *plan.columns, *plan.window_columns, *([] if sequence is None else [sequence])}
    for predicate in plan.predicates:
        if predicate.columns is not None:
            chosen.update(predicate.columns)
        elif isinstance(predicate.condition, pc.Expression):
            text = str(predicate.condition)
            chosen.update(name for name in events.columns if name in text)
        else:
            whole = True  # a function of the table may look at any column
    return [name for name in events.columns if whole or name in chosen]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
