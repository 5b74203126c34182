"""From the arguments of `shared_windows` to a job, and everything that can be wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampNTZType, TimestampType

from windlass import durations
from windlass.errors import InvalidArgument, UnknownColumn, WrongType
from windlass.operator.plan import Plan
from windlass.operator.query import ORDINAL, RESERVED, Query, check_queries
from windlass.operator.row_limit import MAX_ROWS
from windlass.operator.trees import check_technique, pinned
from windlass.spark.ahead import marked, microseconds
from windlass.spark.chaining import DELAY, holds_windows, refuse_two_watermarks
from windlass.spark.frame import LATE
from windlass.spark.history import resolved
from windlass.spark.job import Job, Late
from windlass.spark.parquet import ParquetEvents, arrow_schema
from windlass.spark.session import check
from windlass.windows.parameters import number


def job_of(
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
    max_ahead: Any = None,
    history: Any = None,
    removed: Iterable[Query] = (),
    technique: str = "auto",
    plan: Any = None,
    max_rows: int = MAX_ROWS,
) -> Job:
    if not isinstance(events, DataFrame | ParquetEvents):
        raise WrongType(f"shared_windows takes a Spark DataFrame or parquet_events, got {type(events).__name__}")
    spark = events.sparkSession
    names = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    asked = check_queries(queries, names)
    if not asked:
        raise InvalidArgument("there are no queries; give one, such as Query('n', Tumbling('1m'), agg.count())")
    _check_names(asked, names)
    gone = check_queries(removed)
    if late not in ("slices", "rows"):
        raise InvalidArgument(f"late is 'slices' or 'rows', got {late!r}")
    _check_time(events, time)
    if events.isStreaming:
        check(spark)
    if buckets is None:
        buckets = int(spark.conf.get("spark.sql.shuffle.partitions") or 200) if names else 1
    if not isinstance(buckets, int) or isinstance(buckets, bool) or buckets < 1:
        raise InvalidArgument(f"buckets is a positive number, got {buckets!r}")
    keep = None if history is None else resolved(history, asked)
    everything = asked if keep is None else (*asked, keep.query())
    needed = _needed(events, everything, time, names, sequence, whole=late == "rows")
    schema = arrow_schema(events, needed)
    return Job(
        asked,
        schema,
        time,
        names,
        sequence,
        allowed_lateness,
        key_ttl,
        late,
        buckets if names else 1,
        max_ahead,
        _delay(events, time),
        keep,
        gone,
        check_technique(technique),
        None if plan is None else tuple((tree.queries, tree.technique) for tree in pinned(plan, asked)),
        number("max_rows", max_rows),
    )


def with_watermark(events: Any, time: str, watermark: str | None, max_ahead: Any) -> Any:
    """The events with the watermark that is asked for here; times that are too far ahead do not count for it."""
    if not isinstance(events, DataFrame | ParquetEvents) or time not in events.columns:
        return events  # which is refused later
    has_one = _marked(events)
    if watermark is not None and has_one:
        raise InvalidArgument(
            f"the stream has a watermark already, on {has_one[0]!r}; leave out watermark={watermark!r}"
        )
    if max_ahead is not None:
        if microseconds(max_ahead) < 0:
            raise InvalidArgument(f"max_ahead must not be negative, got {max_ahead!r}")
        _check_type(events, time)
        if isinstance(events, DataFrame):
            if has_one:
                raise InvalidArgument(
                    "a bound on times must come before the watermark, which this stream has already: leave out "
                    f"withWatermark, and say shared_windows(…, watermark='10 seconds', max_ahead={max_ahead!r})"
                )
            events = marked(events, time, max_ahead)
    return events if watermark is None else events.withWatermark(time, watermark)


def _marked(events: DataFrame | ParquetEvents) -> list[str]:
    """Columns with a watermark."""
    if isinstance(events, ParquetEvents):
        return [] if events.watermark is None else [events.watermark[0]]
    return [field.name for field in events.schema.fields if DELAY in (field.metadata or {})]


def _delay(events: DataFrame | ParquetEvents, time: str) -> int:
    """Milliseconds by which the watermark is behind."""
    if isinstance(events, ParquetEvents):
        return (
            0 if events.watermark is None else durations.parse(events.watermark[1], unit="us", positive=False) // 1000
        )
    return int((events.schema[time].metadata or {}).get(DELAY, 0))


def _check_type(events: DataFrame | ParquetEvents, time: str) -> None:
    type_ = events.schema[time].dataType
    if not isinstance(type_, TimestampType | TimestampNTZType):
        raise WrongType(f"a stream's time is a timestamp, but {time!r} is of {type_.simpleString()}")


def _check_names(queries: Sequence[Query], key: Sequence[str]) -> None:
    for name in (*key, *(query.name for query in queries)):
        if name == LATE:
            raise InvalidArgument(
                f"neither a key column nor a query can be named {LATE!r}: the results have that column"
            )
    _check_case([*key, *RESERVED, LATE, *(query.name for query in queries)])
    for query in queries:
        _check_case([*key, *RESERVED, *([ORDINAL] if query.has_ordinals else []), *query.columns])


def _check_case(names: Sequence[str]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        if name.lower() in folded:
            raise InvalidArgument(
                f"{name!r} and {folded[name.lower()]!r} are one name to Spark, which ignores case; rename one of them"
            )
        folded[name.lower()] = name


def _check_time(events: DataFrame | ParquetEvents, time: str) -> None:
    if time not in events.columns:
        raise UnknownColumn(f"there is no time column {time!r}; the frame has {events.columns}")
    if not events.isStreaming:
        return
    _check_type(events, time)
    found = _marked(events)
    if time not in found:
        others = [name for name in found if name != time]
        hint = f"; there is one on {others[0]!r}: is that the time?" if others else ""
        say = "say how late events may be: shared_windows(events, …, watermark='10 seconds')"
        if isinstance(events, DataFrame) and holds_windows(events):
            say = f"windows of another shared_windows have one if you ask for it: results_of(…, time={time!r})"
        raise InvalidArgument(f"the stream has no watermark on {time!r}{hint}; {say}")
    if isinstance(events, DataFrame):
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
