"""Slices on their way from a slicer to an operator with the same queries: a table, a row a slice.

    key columns │ first  last │ events │ one column for each field of each partial
                  times of its    how
                  events          many

Columns go by their places. Fields that are arrays travel as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import HIGH, forgiving
from windlass.aggregates.partials import packed, unpacked
from windlass.aggregates.sharing import carriers
from windlass.aggregates.values import to_arrow
from windlass.errors import InvalidArgument, UnsupportedAggregate
from windlass.kernels import Field
from windlass.operator.answers import Answers
from windlass.operator.branch import Branch
from windlass.operator.events import Reader
from windlass.operator.lift import lowered
from windlass.operator.plan import Kept, Plan
from windlass.operator.query import Query
from windlass.operator.tuples import Tuples
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SliceTable:
    """Slices that were cut elsewhere."""

    union: Union
    keys: list[pa.Array]
    first: Array
    last: Array
    events: Array
    partials: list[Columns]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def ts(self) -> Array:
        return self.first

    def count(self, which: Array) -> int:
        """How many events these rows are."""
        return int(self.events[which].sum())

    def rows(self, which: Array) -> pa.Table:
        """Some of the slices for a reader: their keys, when and how many their events were, and what each query would
        answer for a window of just these."""
        chosen = to_arrow(which.astype(np.int64, copy=False), None, pa.int64())
        time = self.union.reader.time_type or pa.int64()
        extent = [
            to_arrow(np.ascontiguousarray(t[which]), None, pa.int64()).view(time) for t in (self.first, self.last)
        ]
        extent.append(to_arrow(self.events[which], None, pa.int64()))
        names = [*self.union.reader.key, "slice"]
        columns = [key.take(chosen) for key in self.keys]
        columns.append(pa.StructArray.from_arrays(extent, ["first", "last", "events"]))
        partials = [tuple(column[which] for column in columns) for columns in self.partials]
        for query, answers in self.union.lowered(partials, len(which)):
            names.append(query.name)
            columns.append(pa.StructArray.from_arrays(answers, list(query.columns)))
        return pa.Table.from_arrays(columns, names)


class Union(Stateful):
    """What a slicer that was made with all of an operator's queries keeps, and where each branch finds its part of it.

    Queries that were added later have branches of their own, with plans of their own; a slicer has one plan.
    """

    def __init__(self, branches: Sequence[Branch], reader: Reader) -> None:
        self.reader, self.branches = reader, branches
        queries = in_order(q for branch in branches for q in branch.queries)
        self.plan = Plan(queries, reader.unit, False, "lazy", bool(reader.key))
        self.monoids = [m.wide or m for m in self.plan.resolve(reader.types)]
        # Late slices are for inspection: an overflow there must not raise.
        self.answers = Answers(self.plan, [forgiving(m) for m in self.monoids], reader.types)

    def _place(self, plan: Plan, kept: Kept, own: Monoid) -> tuple[int, list[int]] | None:
        """Where a partial of a branch is, and its fields: its own, or in one that holds it (a sum in a mean). None if
        only queries that were removed have asked for it as a whole."""
        for a in (kept.aggregate, *carriers(kept.aggregate)):
            for i, mine in self._of_same_events(plan, kept):
                fields = _fields_in(self.monoids[i], own) if mine.aggregate == a else None
                if fields is not None:
                    return i, fields
        return None

    def _of_same_events(self, plan: Plan, kept: Kept) -> list[tuple[int, Kept]]:
        """The partials of the table with the same filter as a branch's."""
        where = None if kept.where is None else plan.predicates[kept.where]
        filters = [None if mine.where is None else self.plan.predicates[mine.where] for mine in self.plan.kept]
        return [(i, mine) for i, mine in enumerate(self.plan.kept) if filters[i] == where]

    def read(self, table: pa.Table) -> SliceTable:
        """The slices of a table that a slicer with these queries has written."""
        keys = len(self.reader.key)
        expected = keys + 3 + sum(len(m.fields) for m in self.monoids)
        if table.num_columns != expected:
            raise InvalidArgument(
                f"the slices have {table.num_columns} columns, these queries need {expected}; "
                "slices are for an operator with the queries of the slicer that made them"
            )
        columns = [_whole(column) for column in table.columns]
        first, last, events = (np.array(column) for column in columns[keys : keys + 3])
        at, partials = keys + 3, []
        for m in self.monoids:
            partials.append(tuple(_field(columns[at + i], field) for i, field in enumerate(m.fields)))
            at += len(m.fields)
        return SliceTable(self, columns[:keys], first, last, events, partials)

    def tuples(self, slices: SliceTable, ids: Array) -> list[Tuples]:
        """Convert slices to the form that the branches take. Widen their sums first, if they could overflow."""
        if any(b.engine is None or not b.plan.general or b.plan.sessions for b in self.branches):
            raise InvalidArgument("these queries need the events themselves, not slices of them")
        order = np.arange(len(slices))
        found = []
        for branch in self.branches:
            tuples = Tuples(ids, slices.first, order, order, last=slices.last, partials=self._partials(slices, branch))
            if branch.watch(tuples, self._beyond(slices, branch)):
                tuples.partials = self._partials(slices, branch)
            found.append(tuples)
        return found

    def _partials(self, slices: SliceTable, branch: Branch) -> list[Columns]:
        """The partials of each lift of a branch."""
        partials = []
        for kept, lift in zip(branch.plan.kept, branch.running.lifts, strict=True):
            place = self._place(branch.plan, kept, lift.monoid)
            if place is None:
                partials.append(self._pieces(slices, branch.plan, kept, lift.monoid))
            else:
                partials.append(tuple(slices.partials[place[0]][field] for field in place[1]))
        return partials

    def _pieces(self, slices: SliceTable, plan: Plan, kept: Kept, own: Monoid) -> Columns:
        """A partial that only removed queries asked for as a whole: the fields that others read, zeros elsewhere.

        After a mean was removed, a count may still be read from its partials. The slices have just the count.
        """
        names = [field.name for field in own.fields]
        columns = [np.zeros_like(column) for column in own.allocate(len(slices))]
        for i, mine in self._of_same_events(plan, kept):
            if kept.aggregate in carriers(mine.aggregate):
                for field, column in zip(self.monoids[i].fields, slices.partials[i], strict=True):
                    if field.name in names:
                        columns[names.index(field.name)] = column
        return tuple(columns)

    def _beyond(self, slices: SliceTable, branch: Branch) -> list[int]:
        """The lifts of a branch for which some slice's sum exceeds 64 bits."""
        found = []
        for i, (kept, lift) in enumerate(zip(branch.plan.kept, branch.running.lifts, strict=True)):
            place = None if lift.monoid.wide is None else self._place(branch.plan, kept, lift.monoid.wide)
            if place is not None:
                names = [field.name for field in self.monoids[place[0]].fields]
                if slices.partials[place[0]][names.index(HIGH.name)].any():
                    found.append(i)
        return found

    def lowered(self, partials: Sequence[Columns], rows: int) -> Iterator[tuple[Query, list[pa.Array]]]:
        for group in self.answers.groups:
            values = [lowered(monoid, partials[kept], rows) for kept, monoid in group.lowering]
            for query in group.queries:
                yield query, values


def _fields_in(carrier: Monoid, own: Monoid) -> list[int] | None:
    """Which fields of a partial are those of another one; None if it does not hold them."""
    at = {(field.name, field.dtype, field.shape): i for i, field in enumerate(carrier.fields)}
    found = []
    for field in own.fields:
        name = "count" if field.name == "valid" and ("valid", field.dtype, field.shape) not in at else field.name
        if (name, field.dtype, field.shape) not in at:
            return None
        found.append(at[name, field.dtype, field.shape])
    return found


def in_order(queries: Iterable[Query]) -> list[Query]:
    """The order in which slices have the partials of queries, whatever order these were given in."""
    return sorted(queries, key=lambda query: query.name)


def written(keys: Sequence[Any], first: Array, last: Array, events: Array, partials: Sequence[Columns]) -> pa.Table:
    numbers = [to_arrow(np.ascontiguousarray(n), None, pa.int64()) for n in (first, last, events)]
    fields = [packed(column) for columns in partials for column in columns]
    arrays = [*keys, *numbers, *fields]
    return pa.Table.from_arrays(arrays, [str(i) for i in range(len(arrays))])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _field(array: pa.Array, field: Field) -> Array:
    try:
        return unpacked(array, field)
    except UnsupportedAggregate as error:
        raise InvalidArgument(f"slices for other queries: {error}") from error
