"""Views of the mixed frame: the windows of one query, and what came too late."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windlass.errors import InvalidArgument, UnknownColumn
from windlass.operator.query import ORDINAL
from windlass.spark.chaining import event_time
from windlass.spark.frame import LATE, NOTE
from windlass.spark.quoting import quoted


def results_of(results: DataFrame, name: str, *, history: bool = True, time: str | None = None) -> DataFrame:
    """The rows of one query as plain columns: keys, `window`, (`low`, `high`, or `ordinal`,) `revision`, `retraction`,
    and a column an aggregate, as Spark's own `groupBy(…, window(…)).agg(…)` has them.

    `history=False` leaves out `revision` and `retraction`, which say nothing where no lateness is allowed. `time` adds
    a column of that name: the event time of a result, with the stream's watermark, for a second `shared_windows` or
    whatever else comes behind that needs one. It is the last moment of the window (of a session: the first after it).
    """
    fields = {field.name: field for field in _mixed(results)}
    if name not in (names := queries_of(results)):
        raise UnknownColumn(f"there is no query {name!r} in this frame; there are {names}")
    note = fields["query"].metadata[NOTE][name]
    columns = {name: F.col(quoted(name)) for name in (*_keys(results), "window")}
    if note.get("ordinals"):
        columns[ORDINAL] = F.coalesce(F.col("high"), F.lit(0)).alias(ORDINAL)
    elif note["measure"] != "time":
        columns |= {name: F.col(name) for name in ("low", "high")}
    columns |= {name: F.col(name) for name in ("revision", "retraction")} if history else {}
    values = [F.col(f"{quoted(name)}.{quoted(f.name)}").alias(f.name) for f in fields[name].dataType]
    if time is not None:
        values.insert(0, event_time(results, name, note, time, [*columns, *(f.name for f in fields[name].dataType)]))
    return results.where(F.col("query") == name).select(*columns.values(), *values)


def late_of(results: DataFrame) -> DataFrame:
    """What came too late for every query: keys, `reason`, `events` (how many), `first` and `last` (their times),
    `row` (the event itself, where events are shipped), and for slices what each query would have answered for them."""
    queries = queries_of(results)
    return results.where(F.col(LATE).isNotNull()).select(
        *(F.col(quoted(c)) for c in _keys(results)), f"{LATE}.*", *(F.col(quoted(c)) for c in queries)
    )


def queries_of(results: DataFrame) -> list[str]:
    """The names of the queries in a mixed frame."""
    fields = _mixed(results)
    [query] = (field for field in fields if field.name == "query")
    notes = (query.metadata or {}).get(NOTE, {})  # in no order that would mean anything
    return [field.name for field in fields if field.name in notes]


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
