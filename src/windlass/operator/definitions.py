"""Queries as plain data, so that a state can tell which queries it is of.

    Query("hourly", Tumbling("1h"), agg.sum("amount"))
    {"window": ["Tumbling", {"size": "1h", …}], "aggregates": [["sum", ["amount"], {}, null]], …}

A snapshot outlives the program that wrote it. When a query is not in the program any more, what the state holds for it
can be told apart, and dropped, because the query can be made again from here. It will not be asked anything, so a
condition that is an expression is not kept: that of another query with the same text stands in for it, or one that
nothing meets. Functions of the user's own cannot be made again; a query that has any has no definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow.compute as pc

from windlass import windows
from windlass.aggregates.definitions import aggregate_of, definition_of
from windlass.errors import WindlassError
from windlass.operator.query import Query
from windlass.stores.objects import decode, encode
from windlass.windows.predicate import Predicate
from windlass.windows.window import Window

__all__ = ["defined", "definition"]

_UNKNOWN = (WindlassError, AttributeError, TypeError, ValueError, LookupError)


def definition(query: Query) -> dict[str, Any] | None:
    """A query as JSON; None if it cannot be made again from that."""
    try:
        data = {
            "window": _of_window(query.window),
            "aggregates": [definition_of(a) for a in query.aggregates],
            "where": None if query.where is None else _of_condition(query.where),
            "emit_empty": query.emit_empty,
        }
        made = defined(query.name, data)
    except _UNKNOWN:
        return None
    return data if made is not None and made.aggregates == query.aggregates else None


def defined(name: str, data: Mapping[str, Any], beside: Iterable[Query] = ()) -> Query | None:
    """The query of a definition, with the conditions of those beside it; None if this version of Windlass knows no such
    window or aggregate."""
    conditions = {repr(c): c for query in beside for c in (query.where, query.window.predicate) if c is not None}
    try:
        (window, values), where = data["window"], data["where"]
        return Query(
            name,
            _window(window, values, conditions),
            *(aggregate_of(a) for a in data["aggregates"]),
            where=None if where is None else _condition(where, conditions),
            emit_empty=data["emit_empty"],
        )
    except _UNKNOWN:
        return None


def _of_window(window: Window) -> list[Any]:
    values = {}
    for field in fields(window):  # type: ignore[arg-type]
        value = getattr(window, field.name)
        values[field.name] = {"condition": _of_condition(value)} if isinstance(value, Predicate) else encode(value)
    return [type(window).__name__, values]


def _window(name: str, values: Mapping[str, Any], conditions: Mapping[str, Predicate]) -> Window:
    if name not in windows.__all__:
        raise LookupError(name)
    given = {}
    for field, value in values.items():
        is_condition = isinstance(value, dict) and "condition" in value
        given[field] = _condition(value["condition"], conditions) if is_condition else decode(value)
    made: Window = getattr(windows, name)(**given)
    return made


def _of_condition(predicate: Predicate) -> dict[str, str]:
    if isinstance(predicate.condition, str):
        return {"column": predicate.condition}
    if isinstance(predicate.condition, pc.Expression):
        return {"expression": repr(predicate)}
    raise LookupError(repr(predicate))


def _condition(data: Mapping[str, str], conditions: Mapping[str, Predicate]) -> Any:
    if "column" in data:
        return data["column"]
    # A text that differs from all others, and that no event meets.
    return conditions.get(data["expression"], pc.equal(pc.scalar(data["expression"]), ""))
