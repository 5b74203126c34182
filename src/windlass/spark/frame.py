"""The mixed frame: all results of all queries in one DataFrame, and views of it.

    key columns │ query │ window{start, end} │ low  high │ revision  retraction │ one struct a query │ late{…}

A row is a window of one query, whose struct it fills, or, if `late` is not null, events that came too late for all of
them: as a slice, with what each query would have answered for it, or as a single row of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from windlass.errors import InvalidArgument, UnknownColumn
from windlass.operator.results import Results
from windlass.spark.chaining import event_time
from windlass.spark.history import HISTORY
from windlass.spark.job import Job

LATE = "late"
_NOTE = "windlass"  # metadata of a query's column: the measure of its windows, and what `results_of` has to know


class Frame:
    """Lays out what comes out of a job's operators."""

    def __init__(self, job: Job) -> None:
        self.job = job
        # What is worked out here, on the driver, travels to the workers.
        _ = job.fingerprint, job.ships_events, self.schema

    def before(self, fingerprint: str) -> Frame:
        """The frame of the job that a checkpoint was last written by."""
        job = self.job.before(fingerprint)
        return self if job is self.job else Frame(job)

    @property
    def queries(self) -> list[str]:
        return [query.name for query in self.job.queries]

    @cached_property
    def layout(self) -> pa.Schema:
        """The mixed table, as Windlass would have it."""
        job = self.job
        time = job.schema.field(job.time).type
        time = time if pa.types.is_integer(time) else pa.timestamp("us", getattr(time, "tz", None))
        fields = [("reason", pa.string()), ("events", pa.int64()), ("first", time), ("last", time)]
        late = pa.struct([*fields, ("row", pa.struct(list(job.schema)))])
        results = job.operator().finish().schema
        names = [f.name for f in results if f.name not in (*self.queries, HISTORY)]
        return pa.schema([*(results.field(n) for n in (*names, *self.queries)), pa.field(LATE, late)])

    @cached_property
    def spark_schema(self) -> StructType:
        """The mixed frame, as Spark has it."""
        schema = from_arrow_schema(pa.schema([pa.field(f.name, _known_to_spark(f.type)) for f in self.layout]))
        windows = {query.name: query.window for query in self.job.queries}
        for field in schema.fields:
            if field.name in windows:
                measure, final = windows[field.name].measure, not self.job.allowed_lateness
                closed = windows[field.name].is_session
                field.metadata = {_NOTE: {"measure": measure, "final": final, "closed": closed}}
        return schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The mixed frame, as it travels to Spark."""
        return to_arrow_schema(self.spark_schema, timezone="UTC")

    def of_results(self, results: Results) -> pa.Table:
        table = results.to_arrow().select(self.layout.names[:-1])
        if self.job.history is not None:
            table = table.filter(pc.not_equal(table["query"], HISTORY))
        return self._fitted([*table.columns, pa.nulls(table.num_rows, self.layout.field(LATE).type)], table.num_rows)

    def of_late(self, table: pa.Table) -> pa.Table:
        """Rows for what came out of `Operator.late`: slices, or rows of the input."""
        rows = self._late_slices(table) if self.job.ships_events is None else self._late_rows(table, table["reason"])
        return self._late(rows, table.num_rows)

    def of_refused(self, table: pa.Table, reason: str) -> pa.Table:
        """Rows for events that no window can hold."""
        reasons = pa.chunked_array([pa.array([reason] * table.num_rows, pa.string())])
        return self._late(self._late_rows(table, reasons), table.num_rows)

    def _late(self, columns: dict[str, Any], rows: int) -> pa.Table:
        return self._fitted([columns.get(f.name, pa.nulls(rows, f.type)) for f in self.layout], rows)

    def _late_slices(self, table: pa.Table) -> dict[str, Any]:
        first, last, events = _whole(table["slice"]).flatten()
        row = pa.nulls(table.num_rows, self.layout.field(LATE).type.field("row").type)
        late = self._late_struct([_whole(table["reason"]), events, first, last, row])
        return {name: table[name] for name in table.column_names if name not in ("slice", "reason")} | {LATE: late}

    def _late_rows(self, table: pa.Table, reasons: pa.ChunkedArray) -> dict[str, Any]:
        own = [_whole(column) for column in table.columns[: len(self.job.schema)]]  # by place: a name may be altered
        fields = self.job.schema
        row = pa.StructArray.from_arrays(
            [_as(array, field.type) for array, field in zip(own, fields, strict=True)], fields=list(fields)
        )
        time = own[fields.get_field_index(self.job.time)]
        events = pa.array([1] * table.num_rows, pa.int64())
        keys = {name: own[fields.get_field_index(name)] for name in self.job.key}
        return keys | {LATE: self._late_struct([_whole(reasons), events, time, time, row])}

    def _late_struct(self, parts: Sequence[pa.Array]) -> pa.StructArray:
        type_ = self.layout.field(LATE).type
        return pa.StructArray.from_arrays(
            [_as(part, field.type) for part, field in zip(parts, type_, strict=True)], fields=list(type_)
        )

    def _fitted(self, columns: Sequence[Any], rows: int) -> pa.Table:
        arrays = [_as(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


# --------------------------------------------------------------------------- views


def results_of(results: DataFrame, name: str, *, history: bool = True, time: str | None = None) -> DataFrame:
    """The rows of one query as plain columns: keys, `window`, (`low`, `high`,) `revision`, `retraction`, and a column
    an aggregate, as Spark's own `groupBy(…, window(…)).agg(…)` has them.

    `history=False` leaves out `revision` and `retraction`, which say nothing where no lateness is allowed. `time` adds
    a column of that name: the event time of a result, with the stream's watermark, for a second `shared_windows` or
    whatever else comes behind that needs one. It is the last moment of the window (of a session: its end).
    """
    fields = {field.name: field for field in _mixed(results)}
    if name not in fields or _NOTE not in (fields[name].metadata or {}):
        names = [f.name for f in fields.values() if _NOTE in (f.metadata or {})]
        raise UnknownColumn(f"there is no query {name!r} in this frame; there are {names}")
    note = fields[name].metadata[_NOTE]
    columns = [*_keys(results), "window", *([] if note["measure"] == "time" else ["low", "high"])]
    columns += ["revision", "retraction"] if history else []
    values = [F.col(f"{_quoted(name)}.{_quoted(f.name)}").alias(f.name) for f in fields[name].dataType]
    if time is not None:
        values.insert(0, event_time(results, name, note, time, [*columns, *(f.name for f in fields[name].dataType)]))
    return results.where(F.col("query") == name).select(*(F.col(_quoted(c)) for c in columns), *values)


def late_of(results: DataFrame) -> DataFrame:
    """What came too late for every query: keys, `reason`, `events` (how many), `first` and `last` (their times),
    `row` (the event itself, where events are shipped), and for slices what each query would have answered for them."""
    fields = _mixed(results)
    queries = [f.name for f in fields if _NOTE in (f.metadata or {})]
    return results.where(F.col(LATE).isNotNull()).select(
        *(F.col(_quoted(c)) for c in _keys(results)), f"{LATE}.*", *(F.col(_quoted(c)) for c in queries)
    )


def queries_of(results: DataFrame) -> list[str]:
    """The names of the queries in a mixed frame."""
    return [f.name for f in _mixed(results) if _NOTE in (f.metadata or {})]


def _mixed(results: DataFrame) -> list[Any]:
    fields = list(results.schema.fields)
    names = [f.name for f in fields]
    if not {"query", "window", LATE} <= set(names):
        raise InvalidArgument(
            f"this is not a frame of shared_windows: it has the columns {names}; give the frame as it came from there"
        )
    return fields


def _keys(results: DataFrame) -> list[str]:
    names = results.columns
    return names[: names.index("query")]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --------------------------------------------------------------------------- types


def _known_to_spark(type_: pa.DataType) -> pa.DataType:
    """The nearest type that Spark has."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([pa.field(f.name, _known_to_spark(f.type)) for f in type_])
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return pa.list_(_known_to_spark(type_.value_type))
    if t.is_dictionary(type_):
        return _known_to_spark(type_.value_type)
    if t.is_unsigned_integer(type_):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[type_.bit_width]
    if t.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if t.is_null(type_):
        return pa.string()
    return {
        pa.float16(): pa.float32(),
        pa.large_string(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.string_view(): pa.string(),
        pa.binary_view(): pa.binary(),
    }.get(type_, type_)


def _as(array: Any, type_: pa.DataType) -> Any:
    return array if array.type == type_ else array.cast(type_)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def batches(table: pa.Table, rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=rows)
