"""Aggregates as plain data: a name, columns, parameters; so that what was kept can be read where they are not at hand.

    agg.percentile("latency", 95)    ["percentile", ["latency"], {"p": 95}, null]

Functions of the user's own are code, which is not data: an aggregate that has any has no definition.
"""

from __future__ import annotations

from typing import Any

from windlass import aggregates
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.partials import partial

__all__ = ["aggregate_of", "definition_of"]


def definition_of(a: Aggregate) -> list[Any]:
    """As JSON. Raises LookupError if it cannot be made again from that."""
    if a.name == "partial":
        return ["partial", [definition_of(of) for _, of in a.params], {}, a.output]
    if a.definition or a.name not in aggregates.__all__:
        raise LookupError(f"{a!r} has functions of its own")
    positional = len(a.columns) - len(a.keywords)
    named = dict(zip(a.keywords, a.columns[positional:], strict=True))
    params = dict(a.params)
    if not all(value is None or type(value) in (bool, int, float, str) for value in params.values()):
        raise LookupError(f"{a!r} has parameters that are not plain")
    return [a.name, list(a.columns[:positional]), named | params, a.output]


def aggregate_of(definition: list[Any]) -> Aggregate:
    """Raises LookupError, or what the aggregate itself would, if there is none like that."""
    name, columns, named, output = definition
    if name == "partial":
        return partial(aggregate_of(columns[0])).alias(output or "partial")
    if name not in aggregates.__all__:
        raise LookupError(f"there is no aggregate {name!r}")
    made: Aggregate = getattr(aggregates, name)(*columns, **named)
    return made if output is None else made.alias(output)
