"""The columns of Parquet files as Spark would read them, from the footer of one of them.

Spark runs a job to look at a footer, which takes longer than many a stage of ours. Where it is plain what Spark would
find, it is read here; `schema_of` says None where it is not, and Spark has to be asked.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from pyspark.sql import types as T

__all__ = ["schema_of"]

_BY_SPARK = b"org.apache.spark.sql.parquet.row.metadata"  # the schema, in files that Spark has written
_NESTED = (T.ArrayType, T.MapType, T.StructType, T.UserDefinedType)
_INTEGERS = {8: T.ByteType, 16: T.ShortType, 32: T.IntegerType, 64: T.LongType}
_PLAIN = {
    "BOOLEAN": T.BooleanType,
    "INT32": T.IntegerType,
    "INT64": T.LongType,
    "INT96": T.TimestampType,
    "FLOAT": T.FloatType,
    "DOUBLE": T.DoubleType,
}


def schema_of(uri: str) -> T.StructType | None:
    """The columns of a file; None if that is not plain, or the file cannot be read."""
    try:
        filesystem, name = pa.fs.FileSystem.from_uri(uri)
        metadata = pq.read_metadata(name, filesystem=filesystem)
        if written := (metadata.metadata or {}).get(_BY_SPARK):
            fields = T.StructType.fromJson(json.loads(written)).fields
            if any(isinstance(f.dataType, _NESTED) for f in fields):
                return None
            return T.StructType([T.StructField(f.name, f.dataType, True, f.metadata) for f in fields])
        columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        kinds = [_type_of(column) for column in columns]
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (OSError, ValueError, pa.ArrowException):
        return None
    found = [T.StructField(c.name, kind) for c, kind in zip(columns, kinds, strict=True) if kind is not None]
    return T.StructType(found) if len(found) == len(columns) else None


def _type_of(column: pq.ColumnSchema) -> T.DataType | None:
    if column.path != column.name or column.max_repetition_level:  # within a list or a struct
        return None
    logical = json.loads(column.logical_type.to_json())
    kind = logical["Type"]
    if kind == "None":
        return _PLAIN[column.physical_type]() if column.physical_type in _PLAIN else None
    if kind == "String":
        return T.StringType()
    if kind == "Date":
        return T.DateType()
    if kind == "Int" and logical["isSigned"]:
        return _INTEGERS[logical["bitWidth"]]()
    if kind == "Timestamp" and logical["isAdjustedToUTC"] and logical["timeUnit"] in ("milliseconds", "microseconds"):
        return T.TimestampType()
    return None
