"""The record of a query: enough to tell whether it is the same query, and to build it again once it is removed.

Functions of the user's are code, which no record holds: of them there is a digest. The query of a removed name is only
rebuilt to read what it left behind, and is never run. So its functions are replaced: by the equal part of a query that
is still there ("of"), or by a stand-in of the same shape ("gone"), which has a token in place of the function.
"""

from __future__ import annotations

from windlass.formats.arrays import Tagged
from windlass.formats.kinds import Either, Field, Flag, Group, Integer, ListOf, MapOf, Maybe, Text
from windlass.formats.record import Record

__all__ = ["QUERY"]

OF = Group(
    "part of another query",
    Field("query", Text(), "its name"),
    Field("part", Text("window", "where"), "of a condition: the window's or the filter", optional=True),
    Field("place", Integer(0), "of an aggregate, among the query's", optional=True),
    Field("output", Maybe(Text()), "of an aggregate: the name of its column", optional=True),
)

CONDITION = Either(
    column=Group("boolean column", Field("name", Text())),
    expression=Group("expression", Field("text", Text(), "as Arrow shows it; a condition is never built from it")),
    of=OF,
    gone=Group("condition that is gone", Field("token", Text())),
)

WINDOW = Either(
    built_in=Group(
        "built-in window",
        Field("window", Text(), "such as `tumbling`"),
        Field("parameters", MapOf(Tagged(), most=16)),
        Field("predicate", Maybe(CONDITION)),
    ),
    of=OF,
    gone=Group(
        "window that is gone",
        Field("token", Text(), "windows that were equal have the same"),
        Field("context", Text("CF", "FCF", "FCA")),
        Field("measure", Text()),
        Field("columns", ListOf(Text())),
        Field("edges", Maybe(ListOf(Integer(), least=4, most=4)), "origin, period, step, ends, if they are fixed"),
        Field("has_ordinals", Flag()),
    ),
)

BUILT_IN = Group(
    "built-in aggregate",
    Field("aggregate", Text(), "such as `sum`"),
    Field("columns", ListOf(Maybe(Text()), most=16)),
    Field("parameters", MapOf(Tagged(), most=16), "columns and parameters that are given by name"),
    Field("output", Maybe(Text()), "the name of its column, if it has one of its own"),
)

AGGREGATE = Either(
    built_in=BUILT_IN,
    partial=Group("partial", Field("of", BUILT_IN), Field("output", Maybe(Text()))),
    of=OF,
    gone=Group(
        "aggregate that is gone",
        Field("token", Text()),
        Field("columns", ListOf(Maybe(Text()), most=16)),
        Field("commutative", Flag()),
        Field("invertible", Flag()),
        Field("selective", Flag()),
        Field("output", Maybe(Text())),
    ),
)

DEFINITION = Group(
    "definition",
    Field("window", WINDOW),
    Field("aggregates", ListOf(AGGREGATE)),
    Field("where", Maybe(CONDITION)),
    Field("emit_empty", Flag()),
)

CONTENT = Group(
    "query",
    Field("name", Text(), "of a removed query: NUL, a number, NUL, what it was called"),
    Field("window", Text(), "in words: two queries are the same if these are"),
    Field("aggregates", ListOf(Text()), "in words"),
    Field("filter", Maybe(Text()), "in words"),
    Field("emit_empty", Flag()),
    Field("functions", ListOf(Maybe(Text())), "digests of the functions it calls; null: one without a digest"),
    Field("definition", Maybe(DEFINITION), "to build it again; null: it has functions of the user's"),
)

QUERY = Record("query", 1, "A window query of an operator or a Spark job.", CONTENT)
