"""The first stage by Spark itself: its own aggregation makes the slices, where these hold many events.

    DataFrame ──► groupBy(keys, cell).agg(sum, count, …) ──► blocks, as `cut` makes them

Handing rows over to Python costs several times what Spark's compiled aggregation does, and slices are far fewer than
events. So in a batch, where the aggregates are ones that Spark has (sum, count, avg, min, max of numbers, with the same
answers) and the edges of all windows lie on one grid, Spark cuts; a cell of the grid is a slice, or a part of one.

That pays if several events fall into a cell, and nothing says so beforehand. Where the first rows can be had without
working out the rest (a scan, with columns chosen and rows left out), they are looked at; else Python cuts.

Events without a time are cells of their own, by their row's number, so that each can be handed out as it came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from windlass.aggregates.overflow import HIGH
from windlass.errors import InvalidArgument
from windlass.operator.slice_table import written
from windlass.operator.slicer import Slicer
from windlass.slicing.edges import LONG_AGO
from windlass.spark.blocks import SLICES, UNTIMED
from windlass.spark.cut import CUT_SCHEMA, blocks_of, rows_of
from windlass.spark.job import Job
from windlass.spark.quoting import quoted
from windlass.spark.session import is_classic, measures_batches

Array = np.ndarray[Any, Any]
Cut = Literal["auto", "spark", "python"]

_SAMPLE = 1 << 15  # rows that are looked at
_WORTH = 128.0  # events in a cell from which on Spark's aggregation is faster,
_WORTH_MEASURED = 4.0  # and where it measures the batches for Python at every row
_FINER = 4  # cells of the grid to a slice, at most
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATING = (T.FloatType, T.DoubleType)
_KEYS = (*_WHOLE, T.StringType, T.BooleanType, T.DateType)  # of which Spark and Windlass have the same idea of equal
_SIMPLE = {"Relation", "RelationV2", "LocalRelation", "LogicalRDD", "Range", "Project", "Filter", "SubqueryAlias"}


@dataclass(frozen=True)
class Chosen:
    """Who cuts, and why."""

    by_spark: bool
    reason: str


def choose(events: DataFrame, job: Job, asked: Cut) -> Chosen:
    """Whether Spark cuts these events."""
    if asked not in ("auto", "spark", "python"):
        raise InvalidArgument(f"cut is 'auto', 'spark' or 'python', got {asked!r}")
    if asked == "python":
        return Chosen(False, "asked for")
    if (why := _refusal(events, job)) is not None:
        if asked == "spark":
            raise InvalidArgument(f"Spark cannot cut these events: {why}; leave out cut='spark'")
        return Chosen(False, why)
    if asked == "spark":
        return Chosen(True, "asked for")
    if not _is_scan(events):
        return Chosen(False, "how many events a slice has cannot be told without working out the DataFrame")
    found = _events_a_cell(events, job)
    worth = _WORTH_MEASURED if measures_batches(events.sparkSession) else _WORTH
    return Chosen(found >= worth, f"{found:.3g} events a slice among the first rows, {worth:g} or more are worth it")


def cut_by_spark(events: DataFrame, job: Job, heartbeat: bool) -> DataFrame:
    """Blocks of slices, as `cut` has them."""
    time, tag = F.col(quoted(job.time)), F.when(F.col(quoted(job.time)).isNull(), F.monotonically_increasing_id())
    keys = [F.col(quoted(name)).alias(f"key {i}") for i, name in enumerate(job.key)]
    values = [name for name in job.schema.names if name != job.time and name not in job.key]
    made = [column for parts in _columns(job, events) for column in parts]
    slices = (
        events.groupBy(*keys, _cell(job, time).alias("cell"), tag.alias("tag"))
        .agg(
            F.min(time).alias("first"),
            F.max(time).alias("last"),
            F.count(F.lit(1)).alias("events"),
            *(column.alias(f"part {i}") for i, column in enumerate(made)),
            *(F.first(quoted(name)).alias(f"value {i}") for i, name in enumerate(values)),
        )
        .sortWithinPartitions("cell")  # so that whoever merges them can let windows go as they complete
    )
    return slices.drop("cell").mapInArrow(_packed(job, values, heartbeat), CUT_SCHEMA)


def _packed(
    job: Job, values: list[str], heartbeat: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over Spark's slices."""

    def found(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        slicer = job.slicer()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            has_time = np.asarray(table["tag"].is_null())
            if not has_time.all():
                yield from blocks_of(job, _untimed(job, table.filter(pa.array(~has_time)), values), UNTIMED)
                table = table.filter(pa.array(has_time))
            if table.num_rows:
                yield from blocks_of(job, _slices(job, slicer, table), SLICES)

    return rows_of(job, found, heartbeat)


def _untimed(job: Job, table: pa.Table, values: list[str]) -> pa.Table:
    """Events as they came; each was a cell of its own, so the first of its values is the value."""
    columns = {name: table[f"key {i}"] for i, name in enumerate(job.key)}
    columns |= {name: table[f"value {i}"] for i, name in enumerate(values)}
    columns[job.time] = table["first"]
    return pa.table({name: columns[name] for name in job.schema.names}).cast(job.schema)


def _slices(job: Job, slicer: Slicer, table: pa.Table) -> pa.Table:
    at, partials = 0, []
    for lift in slicer.lifts:
        fields: list[Array] = []
        m = lift.monoid.wide or lift.monoid  # as slicers return them
        for field, nothing in zip(m.fields, m.identity(), strict=True):
            if field == HIGH:
                continue  # comes with the sum
            parts = 2 if field.dtype == np.int64 and _is_long_sum(job, lift.aggregate, field.name) else 1
            found = [_numbers(table[f"part {at + i}"], nothing, field.dtype) for i in range(parts)]
            at += parts
            fields += found if parts == 1 else _together(*found)[: 1 + (HIGH in m.fields)]
        partials.append(tuple(fields))
    type_ = job.schema.field(job.time).type
    first, last = (np.asarray(table[name].cast(type_).cast(pa.int64())) for name in ("first", "last"))
    keys = [table[f"key {i}"].cast(job.schema.field(name).type).combine_chunks() for i, name in enumerate(job.key)]
    return written(keys, first, last, np.asarray(table["events"]), partials)


def _together(upper: Array, lower: Array) -> tuple[Array, Array]:
    """Sums of the upper and lower halves of int64 as sums of 128 bits: low (signed) + 2^64 · high."""
    bits = lower.astype(np.uint64)
    low = (upper.astype(np.uint64) << np.uint64(32)) + bits
    carry = (low < bits).astype(np.int64)
    return low.view(np.int64), (upper >> 32) + carry + (low >> np.uint64(63)).astype(np.int64)


def _numbers(column: pa.ChunkedArray, nothing: Any, dtype: np.dtype[Any]) -> Array:
    """What Spark has aggregated; where there was nothing but nulls, the identity."""
    if dtype == np.bool_:
        return np.asarray(column) > 0
    values = column.fill_null(np.asarray(nothing, dtype).item()) if column.null_count else column
    return np.asarray(values).astype(dtype, copy=False)


# --------------------------------------------------------------------------- what Spark is asked for


def _cell(job: Job, time: Column) -> Column:
    """The start of the cell of the grid that a time lies in."""
    origin, step = _grid(job)
    number = F.unix_micros(time) if pa.types.is_timestamp(job.schema.field(job.time).type) else time.cast("bigint")
    return number - F.pmod(number - F.lit(origin), F.lit(step))


def _grid(job: Job) -> tuple[int, int]:
    """The coarsest grid that all edges lie on: its origin, and its step; 0 if there is none."""
    edges = [tuple(map(int, edge)) for edge in job.slicer().edges]
    if not edges or any(period == 0 or lowest != LONG_AGO for _, period, lowest in edges):
        return 0, 0
    origin = edges[0][0]
    step = math.gcd(*(period for _, period, _ in edges), *(at - origin for at, _, _ in edges))
    return (origin % step, step) if step * _FINER * sum(1 / period for _, period, _ in edges) >= 1 else (0, 0)


def _columns(job: Job, events: DataFrame) -> Iterator[list[Column]]:
    """For each field of each partial, the aggregates that it is made of."""
    for lift in job.slicer().lifts:
        name = next(iter(lift.aggregate.columns), None)
        value = F.lit(1) if name is None else F.col(quoted(name))
        for field in (lift.monoid.wide or lift.monoid).fields:
            if field == HIGH:
                continue  # comes with the sum
            if field.name in ("count", "valid"):
                yield [F.count(value)]
                continue
            number = value.cast("double" if field.dtype == np.float64 else "bigint")
            if field.name == "sum" and field.dtype == np.int64 and _is_long_sum(job, lift.aggregate, field.name):
                # Sum the two halves of each value: neither sum can overflow.
                yield [F.sum(F.shiftright(number, 32)), F.sum(number.bitwiseAND(F.lit(0xFFFFFFFF)))]
            else:
                yield [{"sum": F.sum, "least": F.min, "greatest": F.max}[field.name](number)]


def _is_long_sum(job: Job, aggregate: Any, field: str) -> bool:
    return field == "sum" and bool(pa.types.is_int64(job.schema.field(aggregate.columns[0]).type))


# --------------------------------------------------------------------------- whether it is


def _refusal(events: DataFrame, job: Job) -> str | None:
    """Why Spark cannot cut these events; None if it can."""
    if events.isStreaming:
        return "it is a stream, and there Spark would keep what it aggregates as state"
    if job.ships_events is not None:
        return "the queries need the events themselves"
    if job.max_ahead is not None:
        return "times are compared with the clock"
    if not is_classic(events.sparkSession):
        return "the session is of Spark Connect"
    types = {field.name: field.dataType for field in events.schema.fields}
    if not isinstance(types[job.time], T.TimestampType | T.LongType | T.IntegerType):
        return f"times are of {types[job.time].simpleString()}"
    for name in job.key:
        if not isinstance(types[name], _KEYS):
            return f"the key {name!r} is of {types[name].simpleString()}"
    for lift in job.slicer().lifts:
        if lift.aggregate.name not in ("sum", "count", "avg", "min", "max") or len(lift.aggregate.columns) > 1:
            return f"{lift.aggregate!r} is not one of sum, count, avg, min and max"
        if lift.where is not None:
            return f"{lift.aggregate!r} has a filter"
    for name in job.schema.names:
        if name != job.time and name not in job.key and not isinstance(types[name], (*_WHOLE, *_FLOATING)):
            return f"{name!r} is of {types[name].simpleString()}"
    return None if _grid(job)[1] else "the edges of the windows lie on no common grid"


def _is_scan(events: DataFrame) -> bool:
    """Whether the first rows can be had without working out all of them."""
    plan = events._jdf.queryExecution().optimizedPlan().toString()
    names = [line.lstrip(" :+-").split(" ")[0].split("[")[0].rstrip(",") for line in plan.splitlines() if line.strip()]
    return all(name in _SIMPLE for name in names)


def _events_a_cell(events: DataFrame, job: Job) -> float:
    """How many events there are to a cell, among the first rows."""
    cell = _cell(job, F.col(quoted(job.time)))
    some = events.select(*(F.col(quoted(n)) for n in job.key), cell.alias("cell")).limit(_SAMPLE).toArrow()
    cells = some.rename_columns([str(i) for i in range(some.num_columns)])
    distinct = cells.group_by(cells.column_names).aggregate([]).num_rows
    return some.num_rows / distinct if distinct else 0.0


__all__ = ["Chosen", "Cut", "choose", "cut_by_spark"]
