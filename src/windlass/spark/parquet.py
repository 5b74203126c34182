"""Events in Parquet files, read by the workers themselves: Spark says who reads which file, and never sees a row.

    events = parquet_events(spark, "events/", where=pc.field("value") > 0)                   # batch
    events = parquet_events(spark, "events/", streaming=True).withWatermark("ts", "10s")     # as files arrive
    shared_windows(events, queries, time="ts", key="sensor")

Turning Parquet into Spark's rows, and rows into Arrow, costs several times what the windows do. Here a list of files
goes to the workers, each of which reads its files with Arrow, cuts and pre-aggregates, and hands on blocks. Which
files there are, which of them are new, and how many make a micro-batch, is still Spark's file source's business, so a
checkpoint means what it always does.

Read as Spark reads them: partition columns (`day=2024-01-01/`), INT96 and time-zone-free timestamps, columns that some
files lack. Refused: tables whose files are not all there is to know (Delta, Iceberg, Hudi).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from windlass.errors import InvalidArgument, UnknownColumn, WrongType
from windlass.spark import ahead
from windlass.spark.cut import CUT_SCHEMA, Cutter, cut
from windlass.spark.footer import schema_of
from windlass.spark.greatest import SCHEMA, with_greatest
from windlass.spark.job import Job

__all__ = ["ParquetEvents", "parquet_events"]

_MANY = 10_000  # files, whose names are too long to go with every task
_NOW = "__windlass_now"  # when the micro-batch began
_TABLES = {"_delta_log": "Delta", "metadata/*.metadata.json": "Iceberg", ".hoodie": "Hudi"}
_FILE_COLUMNS = {
    "path": StringType(),
    "modificationTime": TimestampType(),
    "length": LongType(),
    "content": BinaryType(),
}


def parquet_events(
    spark: SparkSession,
    path: str | Sequence[str],
    *,
    streaming: bool = False,
    where: pc.Expression | None = None,
    schema: StructType | None = None,
    **options: Any,
) -> ParquetEvents:
    """Parquet files as input of `shared_windows`.

    `where` leaves out rows (and whole row groups, by their statistics); it is an expression over the files' columns.
    `schema` must be given where there are no files yet. `options` are those of Spark's file source, such as
    maxFilesPerTrigger, recursiveFileLookup or modifiedAfter.
    """
    if not isinstance(spark, SparkSession):
        if hasattr(spark, "readStream"):
            raise InvalidArgument(
                "parquet_events needs a classic session, and this one is of Spark Connect: let Spark read the files, "
                "shared_windows(spark.read.parquet(path), …)"
            )
        raise WrongType(f"parquet_events takes a Spark session and a path, got {type(spark).__name__}")
    if where is not None and not isinstance(where, pc.Expression):
        raise WrongType(f"where is a pyarrow.compute.Expression, such as pc.field('value') > 0, got {where!r}")
    paths = (path,) if isinstance(path, str) else tuple(map(str, path))
    if not paths:
        raise InvalidArgument("parquet_events needs a path")
    for one in paths:
        _refuse_tables(spark, one)
    return ParquetEvents(spark, paths, streaming, where, schema, tuple(sorted((k, str(v)) for k, v in options.items())))


@dataclass(frozen=True)
class ParquetEvents:
    """Parquet files that workers read; made by `parquet_events`."""

    sparkSession: SparkSession
    paths: tuple[str, ...]
    isStreaming: bool
    where: pc.Expression | None
    given_schema: StructType | None
    options: tuple[tuple[str, str], ...]
    watermark: tuple[str, str] | None = None

    def withWatermark(self, time: str, delay: str) -> ParquetEvents:
        """Say how late events may be, as for a DataFrame."""
        if time not in self.columns:
            raise UnknownColumn(f"there is no column {time!r}; the files have {self.columns}")
        changed = replace(self, watermark=(time, delay))
        known = {name: value for name, value in vars(self).items() if name not in vars(changed)}
        vars(changed).update(known)  # which files there are, and their columns
        return changed

    @cached_property
    def schema(self) -> StructType:
        """The columns, as Spark reads them; partition columns last."""
        if self.given_schema is not None:
            return self.given_schema
        if (plain := self._plain_schema()) is not None:
            return plain
        try:
            return self.sparkSession.read.options(**dict(self.options)).parquet(*self.paths).schema
        except AnalysisException as error:
            raise InvalidArgument(
                f"the columns of {', '.join(self.paths)} cannot be told: {_first_line(error)}; "
                "if no file is there yet, give parquet_events a schema"
            ) from error

    def _plain_schema(self) -> StructType | None:
        """What the footer of a file says; None if there is more to it."""
        options = {name.lower(): value for name, value in self.options}
        merged = options.get("mergeschema", self.sparkSession.conf.get("spark.sql.parquet.mergeSchema"))
        try:
            if str(merged).lower() == "false" and not self._in_path and len(self._uris):
                return schema_of(str(self._uris[0]))
        except AnalysisException:  # no such path, say; Spark says it better
            pass
        return None

    @property
    def columns(self) -> list[str]:
        return self.schema.fieldNames()

    def blocks(self, job: Job) -> DataFrame:
        """The first stage over these files: what `cut` makes of a DataFrame's partitions."""
        files, partitioned = self._files(), self._in_path
        tasks = max(1, self.sparkSession.sparkContext.defaultParallelism)
        listed: tuple[str, ...] = ()
        if not self.isStreaming and not partitioned:
            listed = tuple(sorted(map(str, self._uris)))  # names mostly tell the order of time
        if 0 < len(listed) <= _MANY:
            # The names go with the task, and Spark has a row for each: no stage is needed to hand them out.
            chosen = self.sparkSession.range(0, len(listed), 1, min(len(listed), 2 * tasks))
        else:
            listed, chosen = (), files.select("path", *(F.col(f"`{name}`") for name in partitioned))
            if not self.isStreaming:
                # In turn: Spark would put small files together by their size, all of them in one task.
                chosen = chosen.repartition(tasks)
        if job.max_ahead is not None:
            chosen = chosen.withColumn(_NOW, F.current_timestamp())
        reading = _Reading(arrow_schema(self, self.columns), tuple(partitioned), self.where, listed)
        cut_events = cut(job, heartbeat=self.isStreaming or job.history is not None)
        if not self.isStreaming:
            return chosen.mapInArrow(_read_and_cut(job, reading, cut_events), CUT_SCHEMA)
        cut_events = with_greatest(cut_events, job.schema.get_field_index(job.time), job.buckets)
        return chosen.mapInArrow(_read_and_cut(job, reading, cut_events), SCHEMA)

    def _files(self) -> DataFrame:
        """A row a file: its path, and the values of the partition columns."""
        if not self.isStreaming:
            return self._there
        if len(self.paths) > 1:
            raise InvalidArgument("a stream of files has one path; use a pattern or recursiveFileLookup")
        # A stream has to be told the columns, those of the path included.
        base = [StructField(name, type_) for name, type_ in _FILE_COLUMNS.items()]
        schema = StructType(base + [f for f in self._there.schema.fields if f.name not in _FILE_COLUMNS])
        reader = self.sparkSession.readStream.format("binaryFile").options(**self._file_options)
        return reader.schema(schema).load(self.paths[0])

    @property
    def _file_options(self) -> dict[str, str]:
        return {"pathGlobFilter": "*.parquet", **dict(self.options)}

    @cached_property
    def _there(self) -> DataFrame:
        """The files that are there now, a row each."""
        return self.sparkSession.read.format("binaryFile").options(**self._file_options).load(list(self.paths))

    @cached_property
    def _uris(self) -> Any:
        """Their names, in the JVM: there may be many."""
        return self._there._jdf.inputFiles()

    @property
    def _in_path(self) -> list[str]:
        """Partition columns."""
        return [name for name in self._there.columns if name not in _FILE_COLUMNS]


@dataclass(frozen=True)
class _Reading:
    """How files are read."""

    schema: pa.Schema  # all columns there are
    in_path: tuple[str, ...]  # those that the path tells
    where: pc.Expression | None
    listed: tuple[str, ...] = ()  # files by number, as URIs; if there are none, rows have paths

    def uri(self, file: dict[str, Any]) -> str:
        if self.listed:
            return self.listed[int(file["id"])]
        scheme, path = str(file["path"]).split(":", 1)
        return f"{scheme}:{quote(path)}"


def _read_and_cut(job: Job, read: _Reading, cut_events: Cutter) -> Cutter:
    """A function for `mapInArrow` over rows that are files."""

    def read_and_cut(files: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def events() -> Iterator[pa.RecordBatch]:
            for batch in files:
                for file in batch.to_pylist():
                    for part in _events_of(job, file, read):
                        if job.max_ahead is not None:
                            part = ahead.marked_batch(part, job.time, _limit(file[_NOW], job.max_ahead))
                        yield part

        yield from cut_events(events())

    return read_and_cut


def _limit(now: datetime.datetime, max_ahead: Any) -> int:
    since = now.astimezone(datetime.UTC) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return since // datetime.timedelta(microseconds=1) + ahead.microseconds(max_ahead)


def _events_of(job: Job, file: dict[str, Any], read: _Reading) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with the columns and types that Spark would give them."""
    in_path = {name: file[name] for name in read.in_path}
    form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    filesystem, name = pa.fs.FileSystem.from_uri(read.uri(file))
    dataset = ds.dataset(name, format=form, filesystem=filesystem)
    there = dataset.schema.names
    lacking = [field for field in read.schema if field.name not in there and field.name not in in_path]
    dataset = dataset.replace_schema(pa.schema([*dataset.schema, *lacking]))
    # The file itself cannot tell what its path says; such a condition waits until that has been added.
    afterwards = read.where is not None and any(name in str(read.where) for name in in_path)
    wanted = read.schema if afterwards else job.schema
    own = [field.name for field in wanted if field.name not in in_path]
    scan = dataset.scanner(
        columns=own, filter=None if afterwards else read.where, use_threads=False, batch_size=1 << 19
    )
    for batch in scan.to_batches():
        found = _as_spark(batch, wanted, in_path, read.uri(file))
        if afterwards:
            whole = pa.Table.from_batches([found]).filter(read.where).select(job.schema.names)
            yield from whole.combine_chunks().to_batches()
        elif found.num_rows:
            yield found


def _as_spark(batch: pa.RecordBatch, schema: pa.Schema, in_path: dict[str, Any], path: str) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name in in_path:
            columns.append(pa.repeat(pa.scalar(in_path[field.name], field.type), batch.num_rows))
        else:
            columns.append(_cast(batch.column(field.name), field, path))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """As the type that the stream has for it. Text is not read as something else, nor something else as text."""
    if column.type == field.type:
        return column
    try:
        if _is_text(column.type) != _is_text(field.type) and not pa.types.is_null(column.type):
            raise pa.ArrowTypeError("text is not converted")
        return column.cast(field.type)
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except pa.ArrowException as error:
        raise WrongType(
            f"{path}: the column {field.name!r} is of {column.type}, but the stream has it as {field.type} ({error}); "
            "replace the file, and the stream goes on"
        ) from error


def _is_text(type_: pa.DataType) -> bool:
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(kind(type_) for kind in kinds) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_)


def _refuse_tables(spark: SparkSession, path: str) -> None:
    """Tables whose log says which files, and which of their rows, count."""
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc
    root = jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(context.hadoopConfiguration())
    for name, kind in _TABLES.items():
        if files.globStatus(jvm.org.apache.hadoop.fs.Path(root, name)):
            raise InvalidArgument(
                f"{path} is a {kind} table: its files alone do not say which rows it has. Read it with Spark, "
                f"spark.read.format({kind.lower()!r}).load({path!r}), and give that DataFrame to shared_windows"
            )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def arrow_schema(events: Any, names: Sequence[str]) -> pa.Schema:
    """The Arrow types of some columns of a DataFrame or of files."""
    fields = [field for field in events.schema.fields if field.name in names]
    found = to_arrow_schema(StructType(fields), timezone="UTC")
    return pa.schema([pa.field(f.name, f.type) for f in found])
