"""Queries as plain data, so that a state can tell which queries it is of.

    Query("hourly", Tumbling("1h"), agg.sum("amount"))
    {"window": ["Tumbling", {"size": "1h", …}], "aggregates": [["sum", ["amount"], {}, null]], …}

A snapshot outlives the program that wrote it. A query that is no longer registered is rebuilt from its definition, so
that its state can be read and dropped. It is never run, so a condition that is an expression is not stored: the
condition of another query with the same text takes its place, or one that no event meets. Python functions cannot be
rebuilt. A query that uses one has no definition, unless it was removed before the snapshot: then `stand_ins` replace
its functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow.compute as pc

from windlass import windows
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.definitions import aggregate_of, definition_of
from windlass.errors import WindlassError
from windlass.formats.tagged_json import decode, encode
from windlass.operator import stand_ins
from windlass.operator.query import Query
from windlass.operator.stand_ins import Parts
from windlass.windows.predicate import Predicate
from windlass.windows.window import Window

__all__ = ["defined", "definition"]

_UNKNOWN = (WindlassError, AttributeError, TypeError, ValueError, LookupError)


def definition(query: Query, parts: Parts | None = None) -> dict[str, Any] | None:
    """A query as JSON; None if it cannot be rebuilt from that. `parts`: for a removed query, which is never run."""
    try:
        data = {
            "window": _of_window(query, parts),
            "aggregates": [_of_aggregate(a, query.name, parts) for a in query.aggregates],
            "where": None if query.where is None else _of_condition(query.where, query.name, parts),
            "emit_empty": query.emit_empty,
        }
        if parts is not None:
            return data
        made = defined(query.name, data)
    except _UNKNOWN:
        return None
    return data if made is not None and made.aggregates == query.aggregates else None


def defined(name: str, data: Mapping[str, Any], beside: Iterable[Query] = ()) -> Query | None:
    """The query of a definition, with the conditions of those beside it; None if this version of Windlass knows no such
    window or aggregate."""
    known = {query.name: query for query in beside}
    conditions = {
        repr(c): c for query in known.values() for c in (query.where, query.window.predicate) if c is not None
    }
    try:
        window, where = data["window"], data["where"]
        return Query(
            name,
            _window(window, conditions, known),
            *(stand_ins.aggregate_of(a, known) if isinstance(a, dict) else aggregate_of(a) for a in data["aggregates"]),
            where=None if where is None else _condition(where, conditions, known),
            emit_empty=data["emit_empty"],
        )
    except _UNKNOWN:
        return None


def _of_aggregate(a: Aggregate, name: str, parts: Parts | None) -> Any:
    if parts is None:
        return definition_of(a)
    try:
        data = definition_of(a)
        return data if aggregate_of(data) == a else parts.aggregate(a, name)
    except _UNKNOWN:
        return parts.aggregate(a, name)


def _of_window(query: Query, parts: Parts | None) -> Any:
    window, values = query.window, {}
    try:
        if type(window).__name__ not in windows.__all__:
            raise LookupError(repr(window))
        for field in fields(window):  # type: ignore[arg-type]
            value = getattr(window, field.name)
            is_condition = isinstance(value, Predicate)
            values[field.name] = (
                {"condition": _of_condition(value, query.name, parts)} if is_condition else encode(value)
            )
    except _UNKNOWN:
        if parts is None:
            raise
        return parts.window(window, query.name)
    return [type(window).__name__, values]


def _window(data: Any, conditions: Mapping[str, Predicate], known: dict[str, Query]) -> Window:
    if isinstance(data, dict):
        return stand_ins.window_of(data, known)
    name, values = data
    if name not in windows.__all__:
        raise LookupError(name)
    given = {}
    for field, value in values.items():
        is_condition = isinstance(value, dict) and "condition" in value
        given[field] = _condition(value["condition"], conditions, known) if is_condition else decode(value)
    made: Window = getattr(windows, name)(**given)
    return made


def _of_condition(predicate: Predicate, name: str, parts: Parts | None) -> dict[str, str]:
    if isinstance(predicate.condition, str):
        return {"column": predicate.condition}
    if isinstance(predicate.condition, pc.Expression):
        return {"expression": repr(predicate)}
    if parts is None:
        raise LookupError(repr(predicate))
    return parts.condition(predicate, name)


def _condition(data: dict[str, Any], conditions: Mapping[str, Predicate], known: dict[str, Query]) -> Any:
    if "column" in data:
        return data["column"]
    if "as" in data:
        return stand_ins.condition_of(data, known)
    # A text that differs from all others, and that no event meets.
    text = data["expression"] if "expression" in data else data["gone"]
    return conditions.get(text, pc.equal(pc.scalar(text), ""))
