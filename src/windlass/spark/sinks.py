"""Sinks for `foreachBatch` that make a stream's results exactly once in Parquet, whatever is killed when.

    df.writeStream.foreachBatch(idempotent_parquet("out")).option("checkpointLocation", …).start()
    df.writeStream.foreachBatch(upsert_parquet("table")).option("checkpointLocation", …).start()
    read_upserted(spark, "table")

Spark may run a micro-batch again, with the same number, if it was killed before it had noted that the batch was done.
`idempotent_parquet` keeps every row, in a directory a batch, which a batch that is run again replaces:

    out/batch=00000011/…parquet    out/batch=00000012/…parquet    out/_staging/…    out/_writer

`upsert_parquet` applies revisions and retractions: of the rows of one (query, key, window) the latest revision
stays, and none where that is a retraction. A version of the whole table is written for every batch that has rows, so it
is for results that are read as a table and fit a rewrite, not for endless history:

    table/version=00000011/…    table/version=00000012/…  ← the greatest is the table    _staging and _writer as above

Either way rows are written into _staging, which no reader looks at, and one rename of a directory makes them visible:
there is never half a batch to see. This needs a file system whose rename is atomic, such as a local one or HDFS;
object stores have none. Rows stay on the executors, and the batch is computed once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from windlass.errors import InvalidArgument, UnknownColumn
from windlass.spark.quoting import quoted
from windlass.spark.session import is_classic

__all__ = ["idempotent_parquet", "read_upserted", "upsert_parquet"]

Sink = Callable[[DataFrame, int], None]

_QUERY_ID = "sql.streaming.queryId"  # as Spark tells the jobs of a streaming query apart


def idempotent_parquet(path: str, **options: str) -> Sink:
    """A function for `foreachBatch` that writes batch 12 to `path`/batch=00000012, and replaces that if it runs again.

    `options` are those of Spark's Parquet writer, such as compression="zstd". Batches without rows leave nothing.
    """

    def write(df: DataFrame, batch_id: int) -> None:
        table = _Table(df.sparkSession, path, "batch")
        table.begin()
        staged, rows = table.stage(df, options)
        table.replace(batch_id, staged if rows else None)
        table.end()

    return write


def upsert_parquet(path: str, *, keep: int = 2, **options: str) -> Sink:
    """A function for `foreachBatch` that applies a batch of Windlass's results to the table at `path`.

    `keep` versions are kept, at least two: readers may still read the last but one. Rows that report late events are no
    windows and are left out.
    """
    if keep < 2:
        raise InvalidArgument(f"upsert_parquet keeps at least 2 versions, for a batch that runs again; got {keep}")

    def apply(df: DataFrame, batch_id: int) -> None:
        identity = _identity(df.columns)
        spark = df.sparkSession
        table = _Table(spark, path, "version")
        table.begin()
        versions = table.numbers()
        if versions and versions[-1] > batch_id:
            return  # a batch from before the last version: what it has to say is in the table
        base = max((number for number in versions if number < batch_id), default=None)
        # First only what the batch says: most batches of a stream are small, and many are empty.
        staged, rows = table.stage(df.where(F.col("query").isNotNull()), options)
        if rows:
            changed = spark.read.parquet(staged)
            if base is not None:
                changed = _union(changed, spark.read.parquet(table.directory(base)))
            whole, _ = table.stage(_latest(changed, identity), options)
            table.replace(batch_id, whole)
        else:
            table.replace(batch_id, None)
        table.end(keep)

    return apply


def read_upserted(spark: SparkSession, path: str) -> DataFrame:
    """The table that `upsert_parquet` keeps at `path`, as of its last batch: the valid windows, a row each.

    It has the columns of the results, so `results_of` shows a query of it too.
    """
    table = _Table(spark, path, "version")
    versions = table.numbers()
    if not versions:
        raise InvalidArgument(f"there is no table at {path}: no batch with rows has been written by upsert_parquet yet")
    return spark.read.parquet(table.directory(versions[-1]))


def _identity(columns: Sequence[str]) -> list[Column]:
    """The columns that identify a window: query, key columns and bounds.

    On another measure than time the bounds are `low` and `high`: a late event may move the times of a count window. On
    time they are its times, and `high` is its ordinal among windows with the same times. Key columns come before
    `query`.
    """
    for name in ("query", "window", "low", "high", "revision", "retraction"):
        if name not in columns:
            raise UnknownColumn(
                f"upsert_parquet takes the results of shared_windows, all queries together; there is no column "
                f"{name!r} in {', '.join(columns)}"
            )
    keys = [F.col(quoted(key)) for key in columns[: columns.index("query")]]
    bounds = [F.when(F.col("low").isNull(), F.col(f"window.{bound}")) for bound in ("start", "end")]
    return [*keys, F.col("query"), F.col("low"), F.col("high"), *bounds]


def _union(new: DataFrame, old: DataFrame) -> DataFrame:
    """By name, as queries may have come or gone. A union keeps what is noted on the columns of its first side only."""
    notes = {field.name: field.metadata for side in (old, new) for field in side.schema}
    union = new.unionByName(old, allowMissingColumns=True)
    return union.select(*(F.col(quoted(name)).alias(name, metadata=notes[name]) for name in union.columns))


def _latest(rows: DataFrame, identity: Sequence[Column]) -> DataFrame:
    by_revision = Window.partitionBy(*identity).orderBy(F.col("revision").desc())
    rank = "_windlass_rank"
    ranked = rows.withColumn(rank, F.row_number().over(by_revision))
    return ranked.where((F.col(rank) == 1) & ~F.col("retraction")).drop(rank)


class _Table:
    """Numbered directories at a path, each of which appears and goes as a whole."""

    def __init__(self, spark: SparkSession, path: str, prefix: str) -> None:
        if not is_classic(spark):
            raise InvalidArgument(
                "this sink renames directories through the JVM, which a session of Spark Connect does not have: write "
                "with writeStream.format('parquet'), which is exactly once too, or run the stream in a classic session"
            )
        self.spark = spark
        self.path = str(path).rstrip("/") or "/"
        self.prefix = prefix + "="
        # Hadoop's view of files, so that the path may be wherever Spark can write.
        jvm: Any = spark.sparkContext._jvm
        context: Any = spark.sparkContext._jsc
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files = self._path(self.path).getFileSystem(context.hadoopConfiguration())

    def directory(self, number: int) -> str:
        return f"{self.path}/{self.prefix}{number:08d}"

    def numbers(self) -> list[int]:
        """Those there are, ascending."""
        root = self._path(self.path)
        if not self._files.exists(root):
            return []
        names = [str(status.getPath().getName()) for status in self._files.listStatus(root)]
        numbers = [name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def begin(self) -> None:
        """Take away what a killed batch left, and make sure that the path belongs to this streaming query."""
        self._delete(f"{self.path}/_staging")
        writer = self.spark.sparkContext.getLocalProperty(_QUERY_ID) or "none"
        owners = self._owners()
        if not owners:
            self._files.mkdirs(self._path(f"{self.path}/_writer/{writer}"))
        elif owners != [writer]:
            # Its batches start from 0 again, and would be taken for those of the other query run again.
            raise InvalidArgument(
                f"{self.path} has the results of another streaming query (id {owners[0]}), and batch numbers are only "
                "comparable within one: keep the checkpoint, or, for a new one, use a new path or delete this one"
            )

    def _owners(self) -> list[str]:
        owner = self._path(f"{self.path}/_writer")
        if not self._files.exists(owner):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(owner)]

    def stage(self, df: DataFrame, options: dict[str, str]) -> tuple[str, int]:
        """Write where no reader looks; where that is, and how many rows. This is the one time that `df` is computed."""
        staged = f"{self.path}/_staging/{uuid.uuid4().hex}"
        counted = Observation()
        df.observe(counted, F.count(F.lit(1)).alias("rows")).write.options(**options).parquet(staged)
        return staged, int(counted.get["rows"])

    def replace(self, number: int, staged: str | None) -> None:
        """Make what was staged directory `number`, or, for None, see to it that there is none."""
        target = self.directory(number)
        if self._files.exists(self._path(target)):
            self._files.mkdirs(self._path(f"{self.path}/_staging"))
            # Out of the way as a whole. Killed between the two renames, the batch runs again.
            self._rename(target, f"{self.path}/_staging/{uuid.uuid4().hex}")
        if staged is not None:
            self._rename(staged, target)

    def end(self, keep: int | None = None) -> None:
        """Take away what is not needed any more."""
        self._delete(f"{self.path}/_staging")
        if keep is not None:
            for number in self.numbers()[:-keep]:
                self._delete(self.directory(number))

    def _rename(self, source: str, target: str) -> None:
        if not self._files.rename(self._path(source), self._path(target)):
            raise InvalidArgument(f"cannot rename {source} to {target}: is something else writing to {self.path}?")

    def _delete(self, directory: str) -> None:
        self._files.delete(self._path(directory), True)
