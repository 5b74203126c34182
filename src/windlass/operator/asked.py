"""What an operator was asked, as plain data: a state belongs to an operator that is asked the same.

Options have to be equal. Queries may come and go; one that is asked again has to be the same, down to the digests of
its functions, and one that is not is made again from its definition, so that what the state holds for it can be told.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.errors import CorruptSnapshot
from windlass.kernels import digest
from windlass.kernels.digests import Undigestible
from windlass.operator.branch import Branch
from windlass.operator.definitions import defined, definition, name_of
from windlass.operator.query import Query
from windlass.operator.stand_ins import Parts
from windlass.windows.predicate import Predicate
from windlass.windows.window import Window

if TYPE_CHECKING:
    from windlass.operator.operator import Operator

_PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def planned_in(branch: Branch) -> list[Query]:
    """The queries of a branch, and those that were removed: what is kept was planned with them."""
    return branch.queries if branch.engine is None else branch.plan.queries


def planned(operator: Operator) -> list[Query]:
    """All queries that an operator must be made with to be like this one."""
    return [query for branch in operator._branches for query in planned_in(branch)]


def options(operator: Operator) -> dict[str, Any]:
    """What an operator like this one is made with, besides its queries."""
    reader, planning = operator._reader, operator._planning
    return {
        "time": reader.time,
        "key": list(reader.key) or None,
        "sequence": reader.sequence,
        "allowed_lateness": operator._lateness,
        "order": "in-order" if operator._in_order else "out-of-order",
        "store": planning.asked.store,
        "slicing": planning.asked.slicing,
        "watermarks": operator._watermarks,
        "key_ttl": operator._key_ttl,
        "technique": planning.asked.technique,
        "plan": planning.pin,
        "max_rows": operator._max_rows,
    }


def plain_options(operator: Operator) -> dict[str, Any]:
    """The options as plain data."""
    given = options(operator)
    del given["max_rows"]  # may differ after a restore
    given["allowed_lateness"] = in_unit(operator._lateness, "us")
    given["key_ttl"] = None if operator._key_ttl is None else in_unit(operator._key_ttl, "us")
    marks = operator._watermarks
    given["watermarks"] = None if marks is None else {"delay": marks.delay, "every": marks.every}
    given["plan"] = (
        None if given["plan"] is None else [{"queries": list(names), "technique": by} for names, by in given["plan"]]
    )
    return given


def asked(operator: Operator) -> dict[str, Any]:
    """Options and queries as plain data. Equal data means equal results."""
    parts = Parts(operator.queries, operator._reader.unit)
    removed = {name for branch in operator._branches for name in branch.plan.removed}
    queries = [query_record(q, parts if q.name in removed else None) for q in planned(operator)]
    return {"options": plain_options(operator), "python": _PYTHON, "queries": queries}


def query_record(query: Query, parts: Parts | None = None) -> dict[str, Any]:
    """The record of a query; with the parts that others have, of one that was removed."""
    return {
        "name": query.name,
        **_description(query),
        "functions": [_digest(function) for function in _functions(query)],
        "definition": definition(query, parts),
    }


def check_options(was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if a snapshot is of an operator with other options, and say which."""
    for name, value in now.items():
        if name != "plan" and was["options"].get(name) != value:  # trees go on as they are
            raise CorruptSnapshot(
                f"the snapshot is of an operator with {name}={was['options'].get(name)!r}, this one has {value!r}"
            )


def recalled(was: Mapping[str, Any], queries: Sequence[Query], removed: Iterable[Query] = ()) -> list[Query]:
    """The queries that a state was made with: those of the same name here, if they are the same, and of the others what
    can be told."""
    here, others = {query.name: query for query in queries}, {query.name: query for query in removed}
    asked_then = {query["name"]: query for query in was["queries"]}
    if not here.keys() & asked_then.keys():
        names = ", ".join(repr(name) for name in asked_then if name == _plain_name(name))
        raise CorruptSnapshot(f"the snapshot is of other queries: {names}")
    known, then = [*queries, *others.values()], {}
    # Live queries first: the definitions of removed ones may refer to parts of them.
    for name in sorted(asked_then, key=lambda name: name != _plain_name(name)):
        plain, made = _plain_name(name), asked_then[name]["definition"]
        is_live = name == plain
        query = here.get(name) or others.get(name)
        if query is not None:
            _check_query(query, was, asked_then[name])
        elif made is not None:
            query = defined(name, made, known)
        elif plain in others:
            query = others[plain]
            _check_query(query, was, asked_then[name])
        elif plain in here and not _difference(here[plain], was, asked_then[name]):
            query = here[plain]  # it went to another tree
        if query is None:
            raise CorruptSnapshot(
                f"the snapshot holds windows of the query {plain!r}, which is not asked any more. It has functions of "
                "your own, which a snapshot does not hold: give the query once more, as one of those that are removed"
            )
        if is_live and query.name not in {q.name for q in known}:
            known.append(query)
        then[name] = query if query.name == name else query.named(name)
    return [then[name] for name in asked_then]


def _plain_name(name: str) -> str:
    """Of a query that was removed (see `Operator.remove`), what it was called."""
    return name.split("\0")[-1]


def _check_query(query: Query, was: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    if difference := _difference(query, was, then):
        raise CorruptSnapshot(difference)


def _difference(query: Query, was: Mapping[str, Any], then: Mapping[str, Any]) -> str | None:
    """In what a query is not the one that a state was made with."""
    for part, value in _description(query).items():
        if then[part] != value:
            return (
                f"query {query.name!r} was another one when the snapshot was made: its {part} was "
                f"{then[part]}, now it is {value}; give the new one another name"
            )
    # A digest is one of byte code, which another Python writes differently; what has none cannot be compared.
    for a, b in zip(then["functions"], map(_digest, _functions(query)), strict=True):
        if was["python"] == _PYTHON and None not in (a, b) and a != b:
            return (
                f"the functions of query {query.name!r} are not those that the snapshot was made with; give the new "
                "query another name"
            )
    return None


def in_unit(lateness: Any, unit: str | None) -> int:
    if isinstance(lateness, int):
        return lateness
    return durations.parse(lateness, unit=unit or "us", positive=False)


def _description(query: Query) -> dict[str, Any]:
    return {
        "window": _of_window(query.window),
        "aggregates": [_of_aggregate(a) for a in query.aggregates],
        "filter": None if query.where is None else _of_value(query.where),
        "emit_empty": query.emit_empty,
    }


def _of_window(window: Window) -> str:
    values = [f"{f.name}={_of_value(getattr(window, f.name))}" for f in fields(window)]  # type: ignore[arg-type]
    return f"{name_of(window)}({', '.join(values)})"


def _of_aggregate(a: Aggregate) -> str:
    return repr(a) if a.output is None else f"{a!r}.alias({a.output!r})"


def _of_value(value: Any) -> str:
    """As text that is the same in every process; functions are told apart by their digests."""
    if isinstance(value, Predicate):
        return "a function" if _is_function(value.condition) else repr(value)
    return "a function" if callable(value) else repr(value)


def _is_function(condition: Any) -> bool:
    return not isinstance(condition, str | pc.Expression)


def _functions(query: Query) -> list[Any]:
    """Functions of a user that a query has, or digests of them."""
    found: list[Any] = [a.definition or None for a in query.aggregates]
    values = [getattr(query.window, f.name) for f in fields(query.window)]  # type: ignore[arg-type]
    for value in [*values, query.where]:
        if isinstance(value, Predicate) and _is_function(value.condition):
            found.append(value.condition)
        elif callable(value):
            found.append(value)
    return found


def _digest(function: Any) -> str | None:
    if function is None or isinstance(function, str):
        return None if function is None or function.startswith("unnamed") else function
    try:
        return digest(function)
    except Undigestible:
        return None


def digests(aggregate: Any) -> list[str | None]:
    """Of an aggregate's own functions."""
    return [_digest(aggregate.definition or None)]
