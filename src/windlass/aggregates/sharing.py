"""Aggregates whose partial is part of another's: a mean holds a sum and a count, a spread the least and the greatest.

A query for `sum(x)` needs no partial of its own where `avg(x)` is kept anyway. `carriers` says which aggregates may
hold another one, `view` makes the monoid that reads it from there, if the fields really are the same for the types at
hand (the mean of 64-bit integers adds floats, which is no sum of integers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.extremes import min_max, spread
from windlass.aggregates.monoid import Function, Monoid
from windlass.aggregates.sums import avg


def carriers(a: Aggregate) -> list[Aggregate]:
    """Aggregates over the same column whose partial may contain that of `a`."""
    if a.name in ("sum", "count") and len(a.columns) == 1:
        return [avg(a.columns[0])]
    if a.name in ("min", "max"):
        return [min_max(a.columns[0]), spread(a.columns[0])]
    if a.name == "spread":
        return [min_max(a.columns[0])]
    if a.name == "partial":
        return [of for _, of in a.params]
    return []


def view(carrier: Monoid, own: Monoid, a: Aggregate) -> Monoid | None:
    """A monoid of the carrier's partials that lowers to what `a` is; None if the carrier does not hold it."""
    if a.name == "partial":
        return own if own.fields == carrier.fields else None
    if a.name == "spread":
        return replace(
            carrier, lower=_of_first_two(own.lower), result=own.result, results=own.result_fields, finish=own.finish
        )
    place = {"sum": 0, "count": 1, "min": 0, "max": 1}[a.name]
    if len(carrier.fields) <= place or carrier.fields[place].dtype != own.fields[0].dtype:
        return None
    defined = None if own.defined is None else carrier.defined
    return replace(
        carrier, lower=_field(place), result=own.result, results=own.result_fields, finish=own.finish, defined=defined
    )


def _field(place: int) -> Function:
    def lower(p: Any) -> Any:
        return (p[place],)

    return lower


def _of_first_two(lower: Callable[..., Any]) -> Function:
    def lower_two(p: Any) -> Any:
        return lower(p)

    return lower_two
