"""Placeholders for the code of removed queries.

A removed query keeps its place in the plan it was made with: in the order of windows, partials and masks. So an
operator that restores a snapshot is made with that query too, and then removes it. Its functions are never called
again, and a snapshot does not hold them. In its definition (see `definitions`) each part that is code is

    ("of", {query, …})      the equal part of a query that is still there, or
    ("gone", {token, …})    a stand-in of the same shape; parts that were equal have the same token
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.sums import count
from windlass.operator.query import Query
from windlass.windows.predicate import Predicate
from windlass.windows.window import FOREVER, Array, Bound, Context, Discretizer, Periodic, Run, Window, Windows

__all__ = ["Gone", "Node", "Parts", "aggregate_of", "condition_of", "window_of"]

Node = tuple[str, dict[str, Any]]  # a part of a definition: what it is, and its fields


@dataclass(frozen=True, repr=False)
class Gone(Window):
    """Placeholder for a removed window: keeps only what planning reads."""

    token: str
    kind: Context
    measure: str = "time"
    columns: tuple[str, ...] = ()
    periodic: tuple[Any, ...] | None = None  # the definition of its edges, if they do not depend on events
    has_ordinals: bool = False  # type: ignore[misc]

    @property
    def context(self) -> Context:  # type: ignore[override]
        return self.kind

    def bind(self, unit: str | None) -> Bound:
        return Nothing() if self.periodic is None else Periodic(*self.periodic)


class Nothing(Discretizer):
    """Finds no windows."""

    width = 1
    closes_by: ClassVar[Literal["begin", "end", "last"]] = "begin"

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        return np.zeros(len(run.ts), np.bool_), Windows.of(np.empty((5, 0), np.int64)), carry

    def open_from(self, context: Array, carry: Array) -> Array:
        return np.full(len(context), FOREVER)

    def describe(self) -> str:
        return "of a removed query: finds no windows"


def gone_aggregate(token: str, columns: Sequence[str | None], properties: Sequence[bool]) -> Aggregate:
    """Placeholder for a removed aggregate: same columns, same commutative, invertible and selective flags."""
    commutative, invertible, selective = properties
    return Aggregate(
        "gone",
        tuple(columns),
        count().build,
        commutative=commutative,
        invertible=invertible,
        selective=selective,
        params=(("token", token),),
    )


class Parts:
    """The parts of queries that are code, by the names that snapshots use."""

    def __init__(self, live: Sequence[Query], unit: str | None) -> None:
        self.live, self.unit = live, unit
        self.tokens: list[tuple[Any, str]] = []

    def window(self, window: Window, name: str) -> Node:
        for query in self.live:
            if query.window == window:
                return "of", {"query": query.name}
        if isinstance(window, Gone):
            made = window
        else:
            bound = window.bind(self.unit)
            periodic = tuple(vars(bound).values()) if isinstance(bound, Periodic) else None
            made = Gone(
                self._token(window, name),
                window.context,
                window.measure,
                tuple(window.columns),
                periodic,
                window.has_ordinals,
            )
        return "gone", {
            "token": made.token,
            "context": made.kind,
            "measure": made.measure,
            "columns": list(made.columns),
            "edges": None if made.periodic is None else list(made.periodic),
            "has_ordinals": made.has_ordinals,
        }

    def condition(self, condition: Predicate, name: str) -> Node:
        for query in self.live:
            for part in (query.where, query.window.predicate):
                if part == condition:
                    return "of", {"query": query.name, "part": "window" if part is query.window.predicate else "where"}
        return "gone", {"token": self._token(condition, name)}

    def aggregate(self, a: Aggregate, name: str) -> Node:
        plain = replace(a, output=None)
        for query in self.live:
            for i, part in enumerate(query.aggregates):
                if replace(part, output=None) == plain:
                    return "of", {"query": query.name, "place": i, "output": a.output}
        token = dict(a.params)["token"] if a.name == "gone" else self._token(plain, name)
        return "gone", {
            "token": token,
            "columns": list(a.columns),
            "commutative": a.commutative,
            "invertible": a.invertible,
            "selective": a.selective,
            "output": a.output,
        }

    def _token(self, part: Any, name: str) -> str:
        for known, token in self.tokens:
            if known == part:
                return token
        self.tokens.append((part, f"{name} {len(self.tokens)}"))
        return self.tokens[-1][1]


def window_of(node: Node, beside: dict[str, Query]) -> Window:
    kind, data = node
    if kind == "of":
        return beside[data["query"]].window
    edges = None if data["edges"] is None else tuple(data["edges"])
    columns = tuple(data["columns"])
    return Gone(data["token"], data["context"], data["measure"], columns, edges, data["has_ordinals"])


def condition_of(node: Node, beside: dict[str, Query]) -> Predicate | None:
    query = beside[node[1]["query"]]
    return query.window.predicate if node[1]["part"] == "window" else query.where


def aggregate_of(node: Node, beside: dict[str, Query]) -> Aggregate:
    kind, data = node
    if kind == "of":
        made: Aggregate = beside[data["query"]].aggregates[data["place"]]
    else:
        properties = (data["commutative"], data["invertible"], data["selective"])
        made = gone_aggregate(data["token"], data["columns"], properties)
    return replace(made, output=data["output"])
