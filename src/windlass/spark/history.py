"""Keeping the history of a stream while its windows are computed.

    shared_windows(events, queries, …, history=keep_history("history/", tick="1s"))

The history is one more query: tumbling windows of a tick, over the same slices, whose answers are partials. Its rows do
not go to the frame. Each bucket writes them to a file of its own for every batch (see `windlass.wheel.history_files`),
before Spark commits the batch: if the batch is run again, so is the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.partials import partial
from windlass.aggregates.sums import count
from windlass.errors import InvalidArgument, UnsupportedAggregate, WrongType
from windlass.operator.query import Query
from windlass.operator.results import Results
from windlass.wheel.history_files import RUN, HistoryFiles, Kept
from windlass.windows import Tumbling
from windlass.windows.window import Periodic

__all__ = ["KeepHistory", "build_history", "keep_history"]

HISTORY = "\0history"


@dataclass(frozen=True)
class KeepHistory:
    """Where a job keeps its history, and what."""

    path: str
    tick: Any
    aggregates: tuple[Aggregate, ...]
    found: bool = False  # the tick was derived from the windows, in the stream's unit

    def query(self) -> Query:
        columns = [partial(a).alias(str(i)) for i, a in enumerate(self.aggregates)]
        return Query(HISTORY, Tumbling(self.tick), *columns)

    def kept(self, schema: pa.Schema, time: str, key: Sequence[str], buckets: int) -> Kept:
        read = {name for a in self.aggregates for name in a.columns if name is not None}
        type_ = schema.field(time).type
        integers = pa.types.is_integer(type_)
        if not integers and not self.found:
            durations.refuse_plain("the tick of the history", self.tick)
        tick = self.tick if isinstance(self.tick, int) else durations.parse(self.tick, unit="us")
        return Kept(
            tick,
            pa.int64() if integers else pa.timestamp("us", getattr(type_, "tz", None)),
            pa.schema([schema.field(name) for name in key]),
            self.aggregates,
            pa.schema([field for field in schema if field.name in read]),
            buckets,
        )


def keep_history(path: str, *, tick: Any = None, aggregates: Iterable[Aggregate] | None = None) -> KeepHistory:
    """Keep the partials of these aggregates (default: those of all queries), of each key and tick (default: the longest
    that all windows are made of). The path is one that all workers see."""
    chosen = () if aggregates is None else tuple(aggregates)
    for a in chosen:
        if not isinstance(a, Aggregate):
            raise WrongType(f"a history keeps aggregates such as agg.sum('fare'), got {a!r}")
        _check(a)
    return KeepHistory(str(Path(path).absolute()), tick, chosen)  # workers run in directories of their own


def resolved(history: Any, queries: Sequence[Query]) -> KeepHistory:
    """A history with what was left open filled in from the queries."""
    keep = keep_history(history) if isinstance(history, str) else history
    if not isinstance(keep, KeepHistory):
        raise WrongType(f"history is a path or keep_history(path, …), got {history!r}")
    aggregates = keep.aggregates
    if not aggregates:
        asked = dict.fromkeys(a for q in queries if q.where is None for a in q.aggregates if a.commutative)
        aggregates = tuple(a for a in asked if _fits(a))
        if not aggregates:
            raise InvalidArgument(
                "none of the queries has an aggregate that a history can keep (commutative, of a fixed size, without a "
                "filter); say which: keep_history(path, aggregates=[agg.sum('x')])"
            )
    names = [a.output_name for a in aggregates]
    if len(set(names)) < len(names):
        aggregates = tuple({a.output_name: a for a in aggregates}.values())
    found = keep.tick is None
    return KeepHistory(keep.path, _tick(queries) if found else keep.tick, aggregates, found)


def _check(a: Aggregate) -> None:
    if not a.commutative:
        raise UnsupportedAggregate(f"a history keeps commutative aggregates, and {a!r} depends on the order of events")


def _fits(a: Aggregate) -> bool:
    return a.kind != "holistic"


def _tick(queries: Sequence[Query]) -> int:
    """The longest tick that all edges of windows are multiples of."""
    found = 0
    for query in queries:
        bound = query.window.bind("us")
        if isinstance(bound, Periodic) and bound.measure == "time":
            found = math.gcd(found, bound.period, bound.step, bound.origin)
    return found or 1_000_000


def build_history(
    events: Any, path: str, aggregates: Iterable[Aggregate], *, time: str, key: Any = None, tick: Any = "1s"
) -> None:
    """Make the history of a table that is there: a batch DataFrame, or `parquet_events`."""
    from windlass.spark.pipeline import shared_windows

    # What is asked beside the history should cost nothing: one window over all of time.
    everything = Query("all", Tumbling("40000 days"), count())
    keep = keep_history(path, tick=tick, aggregates=aggregates)
    shared_windows(events, everything, time=time, key=key, history=keep).write.format("noop").mode("overwrite").save()


def read_table(spark: SparkSession, path: str, form: str, options: Mapping[str, str], time: str) -> DataFrame:
    """A table to make the history of; times that are text are read as timestamps."""
    given = {"header": "true", "inferSchema": "true"} if form == "csv" else {}
    try:
        frame = spark.read.format(form).options(**(given | dict(options))).load(path)
    except AnalysisException as error:
        raise InvalidArgument(f"{path} cannot be read as {form}: {str(error).splitlines()[0]}") from error
    if time in frame.columns and isinstance(frame.schema[time].dataType, StringType):
        frame = frame.withColumn(time, F.to_timestamp(time))
    return frame


class Keeper:
    """Writes what a bucket has to say to the history."""

    def __init__(self, keep: KeepHistory, kept: Kept) -> None:
        self.keep, self.kept, self.files = keep, kept, HistoryFiles(keep.path)

    def create(self) -> None:
        self.files.create(self.kept)

    def write(self, bucket: int, results: Results | None, watermark: int | None, batch: int | None = None) -> None:
        number = _batch() if batch is None else batch
        self.files.write(number, bucket, self._slots(results), watermark)
        if number % RUN == 0:
            self.files.compact(bucket, number)

    def write_nothing(self, bucket: int, watermark: int | None) -> None:
        """There is nothing to say, unless it was said already."""
        if not self.files.has(_batch(), bucket):
            self.write(bucket, None, watermark)

    def write_all(self, bucket: int, results: Results) -> None:
        """The whole history of a table that has an end."""
        ends = pc.struct_field(results[HISTORY]["window"], "end").combine_chunks().cast(pa.int64())
        self.files.write(0, bucket, self._slots(results), pc.max(ends).as_py())

    def _slots(self, results: Results | None) -> pa.Table:
        if results is None:
            return self._nothing()
        table = results[HISTORY]
        start = pc.struct_field(table["window"], "start").combine_chunks().cast(pa.int64())
        columns = [table[name] for name in self.kept.key.names]
        columns += [pc.divide(start, self.kept.tick), table["revision"]]
        columns += [table[str(i)] for i in range(len(self.kept.aggregates))]
        names = [*self.kept.key.names, "slot", "version", *map(str, range(len(self.kept.aggregates)))]
        return pa.Table.from_arrays(columns, names)

    def _nothing(self) -> pa.Table:
        fields = [*self.kept.key, pa.field("slot", pa.int64()), pa.field("version", pa.int64())]
        for i, a in enumerate(self.kept.aggregates):
            fields.append(pa.field(str(i), partial(a).monoid(self.kept.values(a)).result))
        return pa.schema(fields).empty_table()


def _batch() -> int:
    """The number of the micro-batch that this task belongs to."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return 0 if number is None else int(number)
