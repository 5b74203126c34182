"""Results: rows of complete windows, as the engine left them until someone looks.

The engine hands over *groups*: queries with the same aggregates share one set of columns, their rows one after
another. Nothing is copied or decoded for a view that is not asked for.

    results["per_minute"]     one query: key columns, window, (low, high), revision, retraction, a column an aggregate
    results.to_arrow()        all of them: key columns, query, window, low, high, revision, retraction, and one struct
                              column a query, null in the rows of other queries

`low` and `high` are the bounds in the window's own measure; a window on time has none, its `window` says it all. Where
several windows of a key may have the same times, an ordinal tells them apart: in the table of one query it is the
column `ordinal`, in the mixed one it is in `high` where it is not 0. (In a `Group`, `high` is always the ordinal.)
In the mixed table the nulls of all struct columns are views of one block of zeros, so a thousand queries cost no more
memory than their answers.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import to_arrow
from windlass.errors import InvalidArgument, UnknownColumn, WrongType
from windlass.operator.keys import KeyIndex
from windlass.operator.query import ORDINAL, Query

__all__ = ["Group", "Results"]

Array = np.ndarray[Any, Any]

_ROWS_SHOWN, _QUERIES_SHOWN, _WIDTH_SHOWN = 5, 6, 32


@dataclass(frozen=True)
class Group:
    """Rows of queries that have the same aggregates, sorted by query."""

    queries: Sequence[Query]
    query: Array  # int32[n]: whose row it is, ascending
    key: Array  # int64[n]: ids
    low: Array  # int64[n], as all of these
    high: Array
    start: Array
    end: Array
    revision: Array
    retraction: Array  # bool[n]
    values: Sequence[pa.Array]  # one of n rows for each aggregate
    names: pa.Array | None = None  # of the queries, where they are known as Arrow already

    def __post_init__(self) -> None:
        columns = (self.key, self.low, self.high, self.start, self.end, self.revision, self.retraction, *self.values)
        if any(len(column) != len(self.query) for column in columns):
            raise InvalidArgument(f"the columns of a group differ in length: {[len(c) for c in columns]}")
        if len(self.values) != len(self.queries[0].aggregates):
            raise InvalidArgument(f"{self.queries[0]!r} does not have {len(self.values)} results")
        if (self.query[1:] < self.query[:-1]).any():
            raise InvalidArgument("the rows of a group must be sorted by query")

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def empty(cls, queries: Sequence[Query], types: Sequence[pa.DataType] | None = None) -> Group:
        """No rows. The types of the values are null where they are not known yet."""
        none = np.empty(0, np.int64)
        values = [pa.nulls(0, t) for t in types or [pa.null()] * len(queries[0].aggregates)]
        none32, flags = none.astype(np.int32), none.astype(np.bool_)
        return cls(queries, none32, none, none, none, none, none, none, flags, values)

    @cached_property
    def bounds(self) -> Array:
        """Where the rows of each query begin, and the end."""
        return np.searchsorted(self.query, np.arange(len(self.queries) + 1))

    @property
    def identity(self) -> list[tuple[Array, Array]]:
        """`low` and `high` as they identify windows of all queries, and masks of where they are not null."""
        own = np.array([not query.on_time for query in self.queries])[self.query]
        ordinal = np.array([query.has_ordinals for query in self.queries])[self.query] & (self.high != 0)
        return [(self.low, own), (self.high, own | ordinal)]

    def part(self, q: int) -> Group:
        """The rows of one query, in the same memory."""
        rows = slice(int(self.bounds[q]), int(self.bounds[q + 1]))
        return replace(
            self,
            queries=[self.queries[q]],
            query=np.zeros(rows.stop - rows.start, np.int32),
            **{name: getattr(self, name)[rows] for name in ("key", "low", "high", "start", "end", "revision")},
            retraction=self.retraction[rows],
            values=[array[rows] for array in self.values],
            names=None,
        )


@dataclass(frozen=True)
class _Piece:
    """A group with what it takes to read it."""

    group: Group
    keys: KeyIndex
    time_type: pa.DataType


class Results:
    """The rows that came out of an operator: `len`, `results["name"]`, `to_arrow`, `to_pandas`, `to_polars`."""

    def __init__(self, groups: Iterable[Group], keys: KeyIndex, time_type: pa.DataType | None) -> None:
        known = pa.null() if time_type is None else time_type
        self._pieces = [_Piece(group, keys, known) for group in groups]
        self._key_names = keys.names
        self._tables: dict[str, pa.Table] = {}

    @classmethod
    def empty(cls, queries: Iterable[Query], keys: KeyIndex, time_type: pa.DataType | None = None) -> Results:
        """No rows, of queries whose types nothing is known about."""
        return cls([Group.empty([query]) for query in queries], keys, time_type)

    @classmethod
    def concat(cls, parts: Iterable[Results]) -> Results:
        """The rows of several results, in this order."""
        given = list(parts)
        if not given:
            raise InvalidArgument("there are no results to put together")
        for part in given:
            if not isinstance(part, Results):
                raise WrongType(f"expected Results, got {type(part).__name__}")
            if part._key_names != given[0]._key_names:
                raise InvalidArgument(
                    f"results of different keys cannot be put together: {given[0]._key_names} and {part._key_names}"
                )
        whole = cls([], KeyIndex(given[0]._key_names), None)
        whole._pieces = [piece for part in given for piece in part._pieces]
        _ = whole.schema  # finds what does not fit together
        return whole

    def __add__(self, other: Any) -> Results:
        return Results.concat([self, other]) if isinstance(other, Results) else NotImplemented

    # ------------------------------------------------------------------ what there is

    def __len__(self) -> int:
        return sum(len(piece.group) for piece in self._pieces)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries, also of those without rows."""
        return tuple(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, int]]]:
        """For each query, the pieces that have it and its place in them."""
        places: dict[str, list[tuple[int, int]]] = {}
        for p, piece in enumerate(self._pieces):
            for q, query in enumerate(piece.group.queries):
                before = places.setdefault(query.name, [])
                if before and self._query(*before[0]).columns != query.columns:
                    raise InvalidArgument(f"there are two queries named {query.name!r} with different aggregates")
                before.append((p, q))
        return places

    def _query(self, p: int, q: int) -> Query:
        return self._pieces[p].group.queries[q]

    @cached_property
    def _offsets(self) -> list[int]:
        """The row that each piece begins with, and the end."""
        return [0, *np.cumsum([len(piece.group) for piece in self._pieces], dtype=np.int64).tolist()]

    # ------------------------------------------------------------------ types

    @cached_property
    def _time_type(self) -> pa.DataType:
        return _one_known([piece.time_type for piece in self._pieces], "the time")

    def _key_types(self) -> list[pa.DataType]:
        known = [piece.keys.types for piece in self._pieces] or [[pa.null()] * len(self._key_names)]
        columns = zip(self._key_names, zip(*known, strict=True), strict=True)
        return [_one_known(types, f"key column {name!r}") for name, types in columns]

    def _value_types(self, name: str) -> list[pa.DataType]:
        known = [[array.type for array in self._pieces[p].group.values] for p, _ in self._places[name]]
        return [_one_known(types, f"a result of {name!r}") for types in zip(*known, strict=True)]

    def _value_fields(self, name: str) -> list[pa.Field]:
        columns = self._query(*self._places[name][0]).columns
        return [pa.field(column, t) for column, t in zip(columns, self._value_types(name), strict=True)]

    def _key_fields(self) -> list[pa.Field]:
        return [pa.field(name, type_) for name, type_ in zip(self._key_names, self._key_types(), strict=True)]

    @property
    def schema(self) -> pa.Schema:
        """Of the mixed table; the same whether there are rows or not."""
        fields = [*self._key_fields(), pa.field("query", pa.string()), self._window_field, *_BOUNDS, *_HISTORY]
        return pa.schema(fields + [pa.field(name, pa.struct(self._value_fields(name))) for name in self._places])

    def schema_of(self, name: str) -> pa.Schema:
        """Of the table of one query."""
        query = self._query(*self._found(name)[0])
        bounds = [_ORDINAL] if query.has_ordinals else [] if query.on_time else _BOUNDS
        return pa.schema([*self._key_fields(), self._window_field, *bounds, *_HISTORY, *self._value_fields(name)])

    @property
    def _window_field(self) -> pa.Field:
        return pa.field("window", pa.struct([("start", self._time_type), ("end", self._time_type)]))

    # ------------------------------------------------------------------ one query

    def __getitem__(self, name: str) -> pa.Table:
        """The rows of one query."""
        places = self._found(name)
        if name not in self._tables:
            schema = self.schema_of(name)
            parts = [(self._pieces[p], self._pieces[p].group.part(q)) for p, q in places]
            tables = [self._table(piece, part, schema) for piece, part in parts if len(part)]
            self._tables[name] = pa.concat_tables(tables) if tables else schema.empty_table()
        return self._tables[name]

    def _found(self, name: str) -> list[tuple[int, int]]:
        if name not in self._places:
            raise UnknownColumn(f"there is no query {name!r}; there are {list(self._places)}")
        return self._places[name]

    def _table(self, piece: _Piece, part: Group, schema: pa.Schema) -> pa.Table:
        columns = [*piece.keys.decode(part.key), self._window(part)]
        [query] = part.queries
        if query.has_ordinals:
            columns.append(_shared(part.high))
        elif not query.on_time:
            columns += [_shared(part.low), _shared(part.high)]
        columns += [_shared(part.revision), _shared(part.retraction), *part.values]
        return pa.Table.from_arrays([_as(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def _window(self, group: Group) -> pa.Array:
        time_type = pa.int64() if pa.types.is_null(self._time_type) else self._time_type
        times = [_shared(bound, time_type) for bound in (group.start, group.end)]
        return pa.StructArray.from_arrays(times, fields=[pa.field("start", time_type), pa.field("end", time_type)])

    # ------------------------------------------------------------------ all queries

    def tables(self) -> list[pa.Table]:
        """The long form: a table for each set of queries with the same aggregates, with a column `query` that says
        whose row it is. The cheapest way to read the results of many queries."""
        return [self._long(piece) for piece in self._pieces]

    def _long(self, piece: _Piece) -> pa.Table:
        group = piece.group
        names = group.names
        if names is None:
            names = pa.array([query.name for query in group.queries], pa.string())
        query = pa.DictionaryArray.from_arrays(_shared(group.query), names)
        bounds = [_shared(group.low), _shared(group.high), _shared(group.revision), _shared(group.retraction)]
        columns = [*piece.keys.decode(group.key), query, self._window(group), *bounds, *group.values]
        names_of_bounds = ("low", "high", "revision", "retraction")
        fields = [*self._key_names, "query", "window", *names_of_bounds, *group.queries[0].columns]
        return pa.Table.from_arrays(columns, fields)

    def to_arrow(self) -> pa.Table:
        """All rows in one table, with a struct column for each query."""
        schema = self.schema
        pieces = [piece for piece in self._pieces if len(piece.group)]
        if not pieces:
            return schema.empty_table()
        chunks = [self._base(piece, schema) for piece in pieces]
        base = [pa.chunked_array([row[k] for row in chunks], schema.types[k]) for k in range(len(chunks[0]))]
        zeros = pa.py_buffer(np.zeros(32 * len(self) + 64, np.uint8))
        structs = [self._struct(name, zeros) for name in self._places]
        return pa.Table.from_arrays(base + structs, schema=schema)

    def _base(self, piece: _Piece, schema: pa.Schema) -> list[pa.Array]:
        """The columns that all queries have."""
        group = piece.group
        names = pa.array([query.name for query in group.queries]).take(_shared(group.query))
        bounds = [to_arrow(bound, None if shown.all() else shown, pa.int64()) for bound, shown in group.identity]
        history = [_shared(group.revision), _shared(group.retraction)]
        columns = [*piece.keys.decode(group.key), names, self._window(group), *bounds, *history]
        return [_as(column, schema.types[k]) for k, column in enumerate(columns)]

    def _struct(self, name: str, zeros: pa.Buffer) -> pa.ChunkedArray:
        """The answers of one query, in the rows that are its own."""
        fields = self._value_fields(name)
        type_ = pa.struct(fields)
        chunks, at = [], 0
        for p, q in self._places[name]:
            group = self._pieces[p].group
            first, last = (self._offsets[p] + int(group.bounds[k]) for k in (q, q + 1))
            if first == last:
                continue
            values = [array[int(group.bounds[q]) : int(group.bounds[q + 1])] for array in group.values]
            answers = [_as(array, f.type) for array, f in zip(values, fields, strict=True)]
            chunks += [_nulls(type_, first - at, zeros)] if first > at else []
            chunks.append(pa.StructArray.from_arrays(answers, fields=fields))
            at = last
        chunks += [_nulls(type_, len(self) - at, zeros)] if len(self) > at else []
        return pa.chunked_array(chunks, type_)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Rows as dicts, query by query: key columns, `query`, `window`, …, and the query's own columns."""
        keys = len(self._key_names)
        for name in self._places:
            for batch in self[name].to_batches(max_chunksize=4096):
                for row in batch.to_pylist():
                    items = list(row.items())
                    yield dict([*items[:keys], ("query", name), *items[keys:]])

    def to_pandas(self, name: str | None = None) -> Any:
        """The mixed table, or that of one query, as a pandas frame, with columns `start` and `end` for `window`."""
        _imported("pandas", "to_pandas")
        return _flat(self.to_arrow() if name is None else self[name]).to_pandas()

    def to_polars(self, name: str | None = None) -> Any:
        """The mixed table, or that of one query, as a Polars frame, with columns `start` and `end` for `window`."""
        polars = _imported("polars", "to_polars")
        return polars.from_arrow(_flat(self.to_arrow() if name is None else self[name]))

    # ------------------------------------------------------------------ to read

    def __repr__(self) -> str:
        blocks = [self._title]
        for name, count, (names, rows) in self._shown():
            widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
            lines = ["  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) for cells in [names, *rows]]
            more = [f"… {count - len(rows)} more"] if count > len(rows) else []
            blocks.append("\n".join([f"{name}: {_counted(count, 'row')}", *(f"  {x.rstrip()}" for x in lines + more)]))
        return "\n".join([*blocks, *self._unseen])

    def _repr_html_(self) -> str:
        blocks = [f"<p>{html.escape(self._title)}</p>"]
        for name, count, (names, rows) in self._shown():
            head = "".join(f"<th>{html.escape(cell)}</th>" for cell in names)
            body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
            caption = f"{name}: {_counted(count, 'row')}" + (f", the first {len(rows)}" if count > len(rows) else "")
            blocks.append(f"<table><caption>{html.escape(caption)}</caption><tr>{head}</tr>{body}</table>")
        return "\n".join(blocks + [f"<p>{html.escape(line)}</p>" for line in self._unseen])

    @property
    def _title(self) -> str:
        return f"Results: {_counted(len(self), 'row')} of {_counted(len(self._places), 'query', 'queries')}"

    def _counts(self) -> dict[str, int]:
        groups = [piece.group for piece in self._pieces]
        return {
            name: sum(int(groups[p].bounds[q + 1] - groups[p].bounds[q]) for p, q in places)
            for name, places in self._places.items()
        }

    @property
    def _unseen(self) -> list[str]:
        filled = sum(1 for count in self._counts().values() if count)
        rest = filled - _QUERIES_SHOWN
        return [f"… and {_counted(rest, 'more query', 'more queries')}"] if rest > 0 else []

    def _shown(self) -> Iterator[tuple[str, int, tuple[list[str], list[list[str]]]]]:
        """The first rows of the first queries that have any, as text."""
        filled = [(name, count) for name, count in self._counts().items() if count]
        for name, count in filled[:_QUERIES_SHOWN]:
            yield name, count, _as_text(self._head(name))

    def _head(self, name: str) -> pa.Table:
        """The first rows of a query; of the rest, no key is decoded."""
        schema, tables, missing = self.schema_of(name), [], _ROWS_SHOWN
        for p, q in self._found(name):
            piece, part = self._pieces[p], self._pieces[p].group.part(q)
            rows = slice(0, min(missing, len(part)))
            head = replace(
                part,
                **{f: getattr(part, f)[rows] for f in ("query", "key", "low", "high", "start", "end", "revision")},
                retraction=part.retraction[rows],
                values=[array[rows] for array in part.values],
            )
            tables.append(self._table(piece, head, schema))
            missing -= len(head)
        return pa.concat_tables(tables)


_BOUNDS = [pa.field("low", pa.int64()), pa.field("high", pa.int64())]
_ORDINAL = pa.field(ORDINAL, pa.int64())
_HISTORY = [pa.field("revision", pa.int64()), pa.field("retraction", pa.bool_())]


def _one_known(types: Iterable[pa.DataType], what: str) -> pa.DataType:
    """The type that some of the pieces know; null if none does."""
    known = list(dict.fromkeys(t for t in types if not pa.types.is_null(t)))
    if len(known) > 1:
        raise InvalidArgument(
            f"results do not fit together: {what} is of {known[0]} in some and of {known[1]} in others"
        )
    return known[0] if known else pa.null()


def _imported(module: str, method: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{method} needs {module}, which is not installed; to_arrow does not") from error


def _shared(values: Array, type_: pa.DataType | None = None) -> pa.Array:
    """The same memory as Arrow."""
    array = to_arrow(values, None, pa.from_numpy_dtype(values.dtype))
    return array if type_ is None or array.type == type_ else array.view(type_)


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The type that is known by now; only nothing but nulls can have come with another."""
    return array if array.type == type_ else array.cast(type_)


def _nulls(type_: pa.DataType, n: int, zeros: pa.Buffer) -> pa.Array:
    """n nulls in memory that many arrays share: zeros are all it takes."""
    t = pa.types
    if t.is_struct(type_):
        children = [_nulls(f.type, n, zeros) for f in type_]
        return pa.Array.from_buffers(type_, n, [zeros], null_count=n, children=children)
    if t.is_string(type_) or t.is_binary(type_) or t.is_large_string(type_) or t.is_large_binary(type_):
        return pa.Array.from_buffers(type_, n, [zeros, zeros, zeros], null_count=n)
    if t.is_list(type_) or t.is_large_list(type_):
        children = [pa.nulls(0, type_.value_type)]
        return pa.Array.from_buffers(type_, n, [zeros, zeros], null_count=n, children=children)
    if t.is_primitive(type_) or t.is_decimal(type_):
        return pa.Array.from_buffers(type_, n, [zeros, zeros], null_count=n)
    return pa.nulls(n, type_)


def _counted(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _as_text(table: pa.Table) -> tuple[list[str], list[list[str]]]:
    """Names and rows; what is the same in all first results, revision 0 and no retraction, is left out."""
    names, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name == "window":
            window = column.combine_chunks()
            names += ["start", "end"]
            columns += [[_cell(x) for x in window.field(part)] for part in ("start", "end")]
        elif name not in ("revision", "retraction") or any(column.to_pylist()):
            names.append(name)
            columns.append([_cell(x) for x in column])
    return names, [list(row) for row in zip(*columns, strict=True)]


def _cell(scalar: Any) -> str:
    try:
        text = str(scalar.as_py())
    except (ValueError, OverflowError, ImportError, KeyError):  # times that Python does not have
        text = str(getattr(scalar, "value", repr(scalar)))
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH_SHOWN else f"{text[: _WIDTH_SHOWN - 1]}…"


def _flat(table: pa.Table) -> pa.Table:
    """The table with two columns in place of the struct `window`: `start` and `end`, or `window.start` and `window.end`
    if the table has a column of either name."""
    at = table.column_names.index("window")
    names = ("start", "end")
    if set(names) & set(table.column_names):
        names = ("window.start", "window.end")
    bounds = table.column(at).flatten()
    table = table.remove_column(at)
    for i, (name, bound) in enumerate(zip(names, bounds, strict=True)):
        table = table.add_column(at + i, name, bound)
    return table
