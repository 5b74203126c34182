"""A query: a name, a window, and the aggregates to compute over the events of each window.

    Query("per_minute", Tumbling("1m"), agg.sum("amount"), agg.avg("amount").alias("mean"), where="is_paid")

A filter decides which events are aggregated, not which windows there are. A query is a value: it can be compared,
hashed, pickled, and given to any number of operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.aggregates.aggregate import Aggregate
from windlass.errors import InvalidArgument, WrongType
from windlass.windows.predicate import Condition, Predicate
from windlass.windows.window import Periodic, Window

__all__ = ["RESERVED", "Query", "check_queries", "refuse_plain"]

# Columns of every result, beside which key columns, queries and aggregates have theirs.
RESERVED = ("query", "window", "low", "high", "revision", "retraction")
ORDINAL = "ordinal"  # replaces them where windows have ordinals


@dataclass(frozen=True, init=False, repr=False)
class Query:
    """Aggregates over windows, under a name that no other query of an operator has."""

    name: str
    window: Window
    aggregates: tuple[Aggregate, ...]
    where: Predicate | None
    emit_empty: bool

    def __init__(
        self,
        name: str,
        window: Window,
        *aggregates: Aggregate,
        where: Condition | None = None,
        emit_empty: bool = False,
    ) -> None:
        _check_name(name)
        what = f"query {name!r}"
        _check_window(what, window)
        _check_aggregates(what, aggregates, (*RESERVED, ORDINAL) if window.has_ordinals else RESERVED)
        if not isinstance(emit_empty, bool):
            raise WrongType(f"{what}: emit_empty is True or False, got {emit_empty!r}")
        if emit_empty and not _has_empty_windows(window):
            raise InvalidArgument(
                f"{what}: emit_empty needs Tumbling, Sliding, Cumulate or Band on time; of {window!r} there are no "
                "empty windows, or no end of them"
            )
        values = (name, window, aggregates, None if where is None else Predicate.of(where), emit_empty)
        for field, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, field, value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its result columns."""
        return tuple(a.output_name for a in self.aggregates)

    @property
    def on_time(self) -> bool:
        """Whether its windows are defined on time, so that their bounds are times."""
        return self.window.measure == "time"

    @property
    def has_ordinals(self) -> bool:
        """Whether several windows of a key may have the same bounds, so that results have a column `ordinal`."""
        return self.window.has_ordinals

    def named(self, name: str) -> Query:
        """The same under another name."""
        return Query(name, self.window, *self.aggregates, where=self.where, emit_empty=self.emit_empty)

    def __repr__(self) -> str:
        shown = [repr(self.name), repr(self.window)]
        shown += [f"{a!r}.alias({a.output!r})" if a.output else repr(a) for a in self.aggregates]
        shown += [] if self.where is None else [f"where={self.where!r}"]
        shown += ["emit_empty=True"] if self.emit_empty else []
        return f"Query({', '.join(shown)})"


def check_queries(queries: Any, key: Sequence[str] = ()) -> tuple[Query, ...]:
    """The queries of one operator: a single one, or several whose names differ from each other and from key columns."""
    if isinstance(queries, Query):
        queries = (queries,)
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        raise WrongType(f"expected a Query or a list of them, got {type(queries).__name__}")
    checked = tuple(queries)
    for name in key:
        if name in RESERVED:
            raise InvalidArgument(
                f"a key column cannot be named {name!r}, because every result has that column; rename it"
            )
    seen: set[str] = set()
    for query in checked:
        if not isinstance(query, Query):
            raise WrongType(f"expected a Query, got {type(query).__name__}: {query!r}")
        if query.name in seen:
            raise InvalidArgument(f"there are two queries named {query.name!r}")
        seen.add(query.name)
        if query.has_ordinals and ORDINAL in key:
            raise InvalidArgument(
                f"a key column cannot be named {ORDINAL!r}, because results of query {query.name!r} over "
                f"{query.window!r} have that column; rename it"
            )
        taken = [name for name in (query.name, *query.columns) if name in key]
        if taken:
            raise InvalidArgument(
                f"query {query.name!r}: {taken[0]!r} is a key column, so nothing else in the results can be named so; "
                + ("rename the query" if taken[0] == query.name else "give the aggregate an alias")
            )
    return checked


def refuse_plain(queries: Iterable[Query]) -> None:
    """Refuse windows on time whose lengths are plain integers, because the stream's times are timestamps."""
    for query in queries:
        if query.name.startswith("\0"):  # made by the package itself, in the stream's unit
            continue
        try:
            query.window.refuse_plain()
        except WrongType as error:
            raise WrongType(f"query {query.name!r}: {error}") from None


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise WrongType(f"a query's name is text, got {type(name).__name__}: {name!r}")
    if not name.strip():
        raise InvalidArgument(f"a query needs a name, got {name!r}")
    if name in RESERVED:
        raise InvalidArgument(f"a query cannot be named {name!r}, because every result has a column of that name")


def _check_window(what: str, window: Any) -> None:
    if isinstance(window, Window):
        return
    is_class = isinstance(window, type) and issubclass(window, Window)
    hint = f"; call it: {window.__name__}(…)" if is_class else "; the order is name, window, aggregates"
    raise WrongType(f"{what} needs a window such as Tumbling('5m'), got {window!r}{hint}")


def _check_aggregates(what: str, aggregates: tuple[Any, ...], reserved: Sequence[str]) -> None:
    if not aggregates:
        raise InvalidArgument(f"{what} has no aggregates; add at least one, such as agg.count()")
    for a in aggregates:
        if not isinstance(a, Aggregate):
            hint = ""
            if isinstance(a, list | tuple):
                hint = "; give them one by one, not as a list"
            elif callable(a):
                hint = f"; call it: {getattr(a, '__name__', 'it')}(…)"
            raise WrongType(f"{what}: {a!r} is not an aggregate{hint}")
        if None in a.columns:
            raise InvalidArgument(
                f"{what}: {a!r} does not say which column to aggregate; name it, as in agg.sum('amount')"
            )
        if a.output_name in reserved:
            raise InvalidArgument(f"{what}: every result has a column {a.output_name!r}; give {a!r} another alias")
    names = [a.output_name for a in aggregates]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"{what} has two results named {name!r}; give one of them an alias: ….alias('other')")


def _has_empty_windows(window: Window) -> bool:
    """Whether its edges are on time and known without events, and there is a last one for each begin."""
    for unit in ("us", "ns", "s"):  # the first that holds its durations exactly
        try:
            bound = window.bind(unit)
        except InvalidArgument:
            continue
        return isinstance(bound, Periodic) and bound.measure == "time" and bound.ends > 0
    return False
