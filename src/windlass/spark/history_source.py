"""A history in Spark SQL: `spark.read.format("windlass-history").load("history/")`, a row a slot and key.

    sensor │ start │ end │ sum(v) │ count() …          option("every", "1 hour"): a row an hour and key

The slots are read as of the last complete batch, by one task: they are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from windlass import durations
from windlass.errors import InvalidArgument
from windlass.wheel.history import History

NAME = "windlass-history"
_ROWS = 1 << 16


class HistorySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(_table(self.options, rows=0).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _table(self.options).to_batches(max_chunksize=_ROWS)


def _table(options: Any, rows: int | None = None) -> pa.Table:
    path = options.get("path")
    if path is None:
        raise InvalidArgument(f"{NAME} needs a path: spark.read.format({NAME!r}).load('history/')")
    history = History(path)
    every = options.get("every")
    table = history.slots() if every is None else history.slots(every=durations.parse(every, unit="us"))
    table = table if rows is None else table.slice(0, rows)
    for i, field in enumerate(table.schema):
        if pa.types.is_unsigned_integer(field.type):  # Spark has none
            table = table.set_column(i, field.name, pc.cast(table.column(i), pa.decimal128(20, 0)))
    return table.combine_chunks()
