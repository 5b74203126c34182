"""Queries as plain data, so that a state can tell which queries it is of.

    Query("hourly", Tumbling("1h"), agg.sum("amount"))
    {"window": ("built-in", {"window": "tumbling", "parameters": {"size": "1h", …}, "predicate": None}), …}

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
from windlass.formats.tagged_json import encode
from windlass.operator import stand_ins
from windlass.operator.query import Query
from windlass.operator.stand_ins import Gone, Node, Parts
from windlass.windows.predicate import Predicate
from windlass.windows.window import Window

__all__ = ["BUILT_IN", "defined", "definition", "name_of"]

BUILT_IN: dict[str, type[Window]] = {
    "tumbling": windows.Tumbling,
    "sliding": windows.Sliding,
    "cumulate": windows.Cumulate,
    "band": windows.Band,
    "landmark": windows.Landmark,
    "session": windows.Session,
    "punctuation": windows.Punctuation,
    "threshold-frame": windows.ThresholdFrame,
    "slide-by-tuple": windows.SlideByTuple,
    "last-n": windows.LastN,
    "snapshot": windows.Snapshot,
    "data-driven": windows.DataDriven,
    "deterministic": windows.Deterministic,
    "non-deterministic": windows.NonDeterministic,
}
_NAMES: dict[type[Window], str] = {kind: name for name, kind in BUILT_IN.items()} | {Gone: "gone"}

_UNKNOWN = (WindlassError, AttributeError, TypeError, ValueError, LookupError)


def definition(query: Query, parts: Parts | None = None) -> dict[str, Any] | None:
    """A query as plain data; None if that cannot build it again. `parts`: for a removed query, which is never run."""
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
            *(_aggregate(a, known) for a in data["aggregates"]),
            where=None if where is None else _condition(where, conditions, known),
            emit_empty=data["emit_empty"],
        )
    except _UNKNOWN:
        return None


def _of_aggregate(a: Aggregate, name: str, parts: Parts | None) -> Node:
    if parts is None:
        return _built_in_aggregate(definition_of(a))
    try:
        data = definition_of(a)
        return _built_in_aggregate(data) if aggregate_of(data) == a else parts.aggregate(a, name)
    except _UNKNOWN:
        return parts.aggregate(a, name)


def _built_in_aggregate(data: list[Any]) -> Node:
    name, columns, parameters, output = data
    if name == "partial":
        return "partial", {"of": _built_in_aggregate(columns[0])[1], "output": output}
    return "built-in", {"aggregate": name, "columns": columns, "parameters": parameters, "output": output}


def _aggregate(node: Node, known: dict[str, Query]) -> Aggregate:
    kind, data = node
    if kind == "partial":
        return aggregate_of(["partial", [_as_list(data["of"])], {}, data["output"]])
    return aggregate_of(_as_list(data)) if kind == "built-in" else stand_ins.aggregate_of(node, known)


def _as_list(data: Mapping[str, Any]) -> list[Any]:
    return [data["aggregate"], data["columns"], data["parameters"], data["output"]]


def _of_window(query: Query, parts: Parts | None) -> Node:
    window, parameters, predicate = query.window, {}, None
    try:
        if type(window) not in BUILT_IN.values():
            raise LookupError(repr(window))
        for field in fields(window):  # type: ignore[arg-type]
            value = getattr(window, field.name)
            if isinstance(value, Predicate):
                predicate = _of_condition(value, query.name, parts)
            else:
                parameters[field.name] = value
                encode(value)  # refuses what is code
    except _UNKNOWN:
        if parts is None:
            raise
        return parts.window(window, query.name)
    return "built-in", {"window": _NAMES[type(window)], "parameters": parameters, "predicate": predicate}


def _window(node: Node, conditions: Mapping[str, Predicate], known: dict[str, Query]) -> Window:
    kind, data = node
    if kind != "built-in":
        return stand_ins.window_of(node, known)
    given = dict(data["parameters"])
    if data["predicate"] is not None:
        given["predicate"] = _condition(data["predicate"], conditions, known)
    made: Window = BUILT_IN[data["window"]](**given)
    return made


def name_of(window: Window) -> str:
    """What a window is called in a record; one of the user's own, by its class."""
    return _NAMES.get(type(window), f"own {type(window).__name__}")


def _of_condition(predicate: Predicate, name: str, parts: Parts | None) -> Node:
    if isinstance(predicate.condition, str):
        return "column", {"name": predicate.condition}
    if isinstance(predicate.condition, pc.Expression):
        return "expression", {"text": repr(predicate)}
    if parts is None:
        raise LookupError(repr(predicate))
    return parts.condition(predicate, name)


def _condition(node: Node, conditions: Mapping[str, Predicate], known: dict[str, Query]) -> Any:
    kind, data = node
    if kind == "column":
        return data["name"]
    if kind == "of":
        return stand_ins.condition_of(node, known)
    # A text that differs from all others, and that no event meets.
    text = data["text"] if kind == "expression" else data["token"]
    return conditions.get(text, pc.equal(pc.scalar(text), ""))
