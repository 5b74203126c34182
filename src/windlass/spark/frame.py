"""The mixed frame: all results of all queries in one DataFrame.

    key columns │ query │ window{start, end} │ low  high │ revision  retraction │ one struct a query │ late{…}

A row is a window of one query, whose struct it fills, or, if `late` is not null, events that came too late for all of
them: as a slice, with what each query would have answered for it, or as a single row of the input.

That is one struct filled, and as many nulls as there are other queries. So where queries have answers of the same
names and types, rows travel from Python narrow, and Spark makes them mixed (`spread`), which it does for those columns
only that someone asks for:

    key columns │ starts  ends │ low  high │ revision  retraction │ number │ the answers of each shape │ late[]

The number is that of the query; queries whose answers are alike are of one *shape*. Rows of late events have no number
but -1, and in `late` one element, with the answers of all queries. Spark asks of every value whether it is null, and
copies every struct, so there are no structs, and what any window has is never null (of late events, any value). In a
batch all results are the first of their window, and its history does not travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, StructField, StructType

from windlass.aggregates.values import to_arrow
from windlass.operator.results import Results
from windlass.spark.job import Job
from windlass.spark.quoting import quoted, text

LATE = "late"
NOTE = "windlass"  # metadata of the column `query`: of each of them, what `results_of` has to know
_NO_QUERY = -1
_EXTENT = ("starts", "ends")  # of the window; not `end`, which Spark may be told to reserve
_HISTORY = {"revision": "0L", "retraction": "false"}  # and what they are when a window comes out for the first time


class Frame:
    """Lays out what comes out of a job's operators."""

    def __init__(self, job: Job, *, ends: bool = False) -> None:
        self.job, self.ends = job, ends  # whether all comes at once, and nothing comes late
        # What is worked out here, on the driver, travels to the workers.
        _ = job.fingerprint, job.ships_events, self.schema

    def before(self, fingerprint: str) -> Frame:
        """The frame of the job that a checkpoint was last written by."""
        job = self.job.before(fingerprint)
        return self if job is self.job else Frame(job, ends=self.ends)

    @property
    def queries(self) -> list[str]:
        return [query.name for query in self.job.queries]

    # ------------------------------------------------------------------ types

    @cached_property
    def mixed(self) -> StructType:
        """The mixed frame, as Spark has it."""
        job = self.job
        results = job.operator().finish().schema
        names = [*results.names[: results.get_field_index("retraction") + 1], *self.queries]
        time = job.schema.field(job.time).type
        time = time if pa.types.is_integer(time) else pa.timestamp("us", getattr(time, "tz", None))
        fields = [("reason", pa.string()), ("events", pa.int64()), ("first", time), ("last", time)]
        late = pa.struct([*fields, ("row", pa.struct(list(job.schema)))])
        layout = [*(results.field(name) for name in names), pa.field(LATE, late)]
        schema = from_arrow_schema(pa.schema([pa.field(f.name, _known_to_spark(f.type)) for f in layout]))
        notes = {}
        for query in job.queries:
            window = query.window
            notes[query.name] = {
                "measure": window.measure,
                "ordinals": window.has_ordinals,
                "closed": window.is_session,
                "by_events": window.bind("us").reach == 0,
                "final": not job.allowed_lateness,
            }
        schema["query"].metadata = {NOTE: notes}
        return schema

    @cached_property
    def _shapes(self) -> list[Any]:
        return list(dict.fromkeys(self.mixed[name].dataType for name in self.queries))

    @cached_property
    def _shape(self) -> dict[str, int]:
        """That of each query."""
        return {name: self._shapes.index(self.mixed[name].dataType) for name in self.queries}

    @cached_property
    def _is_narrow(self) -> bool:
        """Whether rows travel otherwise than they are mixed: if not, Spark has a projection less to do."""
        return len(self._shapes) < len(self.queries)

    @property
    def _answers_late(self) -> bool:
        """Whether rows of late events say what queries would have answered: slices do."""
        return self.job.ships_events is None and not self.ends

    @cached_property
    def narrow(self) -> StructType:
        """Rows on their way to Spark, as it has them."""
        if not self._is_narrow:
            return self.mixed
        rows = StructType(list(self._plain))
        rows.add("number", "integer", nullable=False)
        for i, shape in enumerate(self._shapes):
            for name, field in zip(_answers(i, shape), shape, strict=True):
                rows.add(name, field.dataType)
        late = StructType().add("shown", self.mixed[LATE].dataType)
        if self._answers_late:
            for i, name in enumerate(self.queries):
                late.add(f"query_{i}", self.mixed[name].dataType)
        return rows.add(LATE, ArrayType(late))

    @cached_property
    def _plain(self) -> list[StructField]:
        """Narrow columns that are not a query's own. Keys may have any name."""
        keys = [StructField(name, self.mixed[i].dataType) for i, name in enumerate(self._keys)]
        history = [] if self.ends else [StructField(name, self.mixed[name].dataType, False) for name in _HISTORY]
        window: Any = self.mixed["window"].dataType
        extent = [StructField(name, field.dataType, False) for name, field in zip(_EXTENT, window, strict=True)]
        return [*keys, *extent, *(self.mixed[name] for name in self._bounds), *history]

    @cached_property
    def _has_bounds(self) -> Any:
        """By query: whether its windows have bounds besides times, and whether they have ordinals."""
        queries = self.job.queries
        return np.array([[not query.on_time for query in queries], [query.has_ordinals for query in queries]])

    @property
    def _bounds(self) -> list[str]:
        """Which of `low` and `high` can be non-null."""
        own, ordinals = self._has_bounds.any(axis=1)
        return ["low", "high"] if own else ["high"] if ordinals else []

    @property
    def _keys(self) -> list[str]:
        return [f"key_{i}" for i in range(len(self.job.key))] if self._is_narrow else list(self.job.key)

    @cached_property
    def schema(self) -> pa.Schema:
        """Rows on their way to Spark."""
        return to_arrow_schema(self.narrow, timezone="UTC")

    # ------------------------------------------------------------------ from Python

    def of_results(self, results: Results) -> pa.Table:
        tables = [self._windows(table) for table in results.tables() if table.num_rows]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def _windows(self, table: pa.Table) -> pa.Table:
        """Of queries with the same aggregates."""
        asked = table["query"].combine_chunks()
        number, names = asked.indices.to_numpy().astype(np.int32), asked.dictionary.to_pylist()
        if names != self.queries:
            places = {name: i for i, name in enumerate(self.queries)}
            number = np.array([places.get(name, _NO_QUERY) for name in names], np.int32)[number]
            if (mine := number != _NO_QUERY).sum() < len(number):  # the history, which goes elsewhere
                table, number = table.filter(pa.array(mine)), number[mine]
        if not len(number):
            return self.schema.empty_table()
        columns = dict(zip(self._keys, table.columns, strict=False))
        columns |= {name: table[name] for name in _HISTORY}
        own, high = self._has_bounds[:, number], table["high"].to_numpy()
        shown = {"low": own[0], "high": own[0] | (own[1] & (high != 0))}  # of windows on time, the ordinal
        columns |= {name: to_arrow(table[name].to_numpy(), shown[name], pa.int64()) for name in self._bounds}
        query = self.queries[number[0]]
        place = self._shape[query]
        shape = self._shapes[place]
        answers = table.columns[-len(shape) :]
        if self._is_narrow:
            columns["number"] = pa.array(number)
            columns |= dict(zip(_EXTENT, _whole(table["window"]).flatten(), strict=True))
            columns |= dict(zip(_answers(place, shape), answers, strict=True))
        else:  # then there are no others
            columns["query"] = pa.repeat(query, len(number))
            columns["window"] = table["window"]
            columns[query] = _struct(self.schema.field(query).type, [_whole(a) for a in answers], len(number))
        return self._fitted(columns, len(number))

    def of_late(self, table: pa.Table) -> pa.Table:
        """Rows for what came out of `Operator.late`: slices, or rows of the input."""
        assert not self.ends, "where all comes at once, nothing is late"
        if self.job.ships_events is not None:
            return self._late_rows(table, _whole(table["reason"]))
        first, last, events = _whole(table["slice"]).flatten()
        answers = [_whole(table[name]) for name in self.queries]
        shown = [_whole(table["reason"]), events, first, last]
        return self._late([table[name] for name in self.job.key], shown, answers)

    def of_refused(self, table: pa.Table, reason: str) -> pa.Table:
        """Rows for events that no window can hold."""
        return self._late_rows(table, pa.array([reason] * table.num_rows, pa.string()))

    def _late_rows(self, table: pa.Table, reasons: pa.Array) -> pa.Table:
        fields = self.job.schema
        own = [_whole(column) for column in table.columns[: len(fields)]]  # by place: a name may be altered
        row = _struct(pa.struct(list(fields)), own, table.num_rows)
        time = own[fields.get_field_index(self.job.time)]
        shown = [reasons, pa.array([1] * table.num_rows, pa.int64()), time, time, row]
        return self._late([own[fields.get_field_index(name)] for name in self.job.key], shown)

    def _late(self, keys: Sequence[Any], shown: Sequence[Any], answers: Sequence[pa.Array] = ()) -> pa.Table:
        rows, columns, type_ = len(shown[0]), dict(zip(self._keys, keys, strict=True)), self.schema.field(LATE).type
        if self._is_narrow:
            told = _struct(type_.value_type.field("shown").type, shown, rows)
            late = _struct(type_.value_type, [told, *answers], rows)
            columns["number"] = pa.array(np.full(rows, _NO_QUERY, np.int32))
            columns[LATE] = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), late)
        else:
            columns |= dict(zip(self.queries, answers, strict=False))
            columns[LATE] = _struct(type_, shown, rows)
        return self._fitted(columns, rows)

    def _fitted(self, columns: dict[str, Any], rows: int) -> pa.Table:
        arrays = [_as(columns[f.name], f.type) if f.name in columns else _nothing(rows, f) for f in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    # ------------------------------------------------------------------ to Spark

    def spread(self, rows: DataFrame) -> DataFrame:
        """Narrow rows as the mixed frame."""
        if not self._is_narrow:
            return rows
        travelled = {plain.name for plain in self._plain}
        columns = dict(zip(self.job.key, self._keys, strict=True))
        columns["query"] = f"get(array({', '.join(map(text, self.queries))}), number)"
        window: Any = self.mixed["window"].dataType
        bounds = ", ".join(f"{quoted(bound.name)}: {bound.dataType.simpleString()}" for bound in window)
        # The null has a type, so that bounds may be null to Spark: those of a window that is null are, in Arrow.
        nothing = f"CAST(NULL AS struct<{bounds}>)"
        columns["window"] = f"if(number < 0, {nothing}, named_struct('start', {_EXTENT[0]}, 'end', {_EXTENT[1]}))"
        for name in ("low", "high"):
            columns[name] = name if name in travelled else "CAST(NULL AS bigint)"
        for name, first in _HISTORY.items():
            columns[name] = f"if(number < 0, NULL, {name if name in travelled else first})"
        for i, name in enumerate(self.queries):
            place = self._shape[name]
            shape = self._shapes[place]
            values = (f"{text(f.name)}, {a}" for f, a in zip(shape, _answers(place, shape), strict=True))
            answer = f"get({LATE}, 0).query_{i}" if self._answers_late else "NULL"
            columns[name] = f"if(number = {i}, named_struct({', '.join(values)}), {answer})"
        # Spark makes one method of all these columns, which from about twenty-five queries on is too large for Java to
        # compile, and then many times slower; but many small ones if there is a function that it has to interpret. So
        # here is one, which does nothing to a single element.
        columns[LATE] = f"get(array_sort({LATE}, (one, other) -> 0), 0).shown"
        # As text: a column that is made call by call takes a dozen of them, each a journey to the JVM. Names come after
        # it, as Spark puts the values of its variables into texts.
        mixed = rows.selectExpr(*columns.values()).toDF(*columns)
        return mixed.withMetadata("query", self.mixed["query"].metadata)


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


def _struct(type_: pa.StructType, parts: Sequence[Any], rows: int) -> pa.StructArray:
    """Of these parts, and of nulls behind them."""
    arrays = [_as(part, field.type) for part, field in zip(parts, type_, strict=False)]
    arrays += [pa.nulls(rows, type_.field(i).type) for i in range(len(parts), type_.num_fields)]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def _answers(place: int, shape: StructType) -> list[str]:
    """The narrow columns of the answers of a shape."""
    return [f"answer_{place}_{i}" for i in range(len(shape))]


def _nothing(rows: int, field: pa.Field) -> pa.Array:
    """Nulls or, where there are none, zeros."""
    return pa.nulls(rows, field.type) if field.nullable else pa.repeat(pa.scalar(0).cast(field.type), rows)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def batches(table: pa.Table, rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=rows)
