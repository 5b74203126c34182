"""A branch: queries that share slices, with their plan and the engine that runs it.

An operator has one for the queries that need no tuples and one for those that do; a query that looks back over events
it may refuse has one of its own (see `plan.sharing`). A query that is added later begins with the events after the
greatest time seen so far. If it takes no more than edges to cut slices at, it joins a branch that is there (`take_in`);
otherwise it gets one of its own, which sees those events only.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import ValueType
from windlass.errors import WrongType
from windlass.operator.answers import Answers
from windlass.operator.emitted import Rows
from windlass.operator.engine import Engine, engine_for, no_rows
from windlass.operator.events import LATEST, Events
from windlass.operator.lift import Lift
from windlass.operator.plan import Plan, as_measure
from windlass.operator.query import Query, refuse_plain
from windlass.operator.tuples import Tuples
from windlass.operator.watermarks import NO_WATERMARKS
from windlass.operator.widening import outgrown, widen
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.techniques import Technique
from windlass.stateful import Stateful
from windlass.windows.window import Periodic

Array = np.ndarray[Any, Any]


class Branch(Stateful):
    """Queries that share slices."""

    def __init__(
        self,
        queries: list[Query],
        in_order: bool,
        store: str,
        keyed: bool,
        technique: Technique = "auto",
        since: int = LONG_AGO,
        learns: bool | None = None,
    ) -> None:
        self.queries, self.in_order, self.store, self.keyed, self.since = queries, in_order, store, keyed, since
        self.technique, self.learns = technique, learns
        self.plan = self._planned("us")  # until the first batch tells the stream's unit
        self.engine: Engine | None = None
        self.answers: Answers | None = None
        self.types: dict[str, ValueType] = {}  # of the columns that are aggregated
        self.sizes: dict[int, int] = {}  # upper bound of Σ|x| by lift: see `widening`
        self.due: list[Rows] = []
        self.found = 0  # upper bound of the rows that are due

    @property
    def running(self) -> Engine:
        """The engine, once there is one."""
        assert self.engine is not None
        return self.engine

    @property
    def starts_after(self) -> int:
        """The time after which the first of its remaining queries sees events."""
        plan = self.plan
        if not plan.joins or any(q.name not in plan.removed for q in plan.queries[: plan.joins[0][1]]):
            return self.since
        return next(since for since, _ in self.joined())

    @property
    def joins_next(self) -> bool:
        """Whether its queries were added and may join the slices of another branch with the next events."""
        return self.engine is None and self.since != LONG_AGO

    def _planned(self, unit: str | None) -> Plan:
        return Plan(self.queries, unit, self.in_order, self.store, self.keyed, self.technique, self.learns, self.since)

    def bound_to(self, unit: str | None) -> Plan:
        if self.engine is not None:
            return self.plan
        if unit is not None:
            refuse_plain(self.queries)
        return self._planned(unit)

    def tuples(self, plan: Plan, events: Events, ids: Array, arrivals: int) -> Tuples:
        """The columns that the plan reads. Events that are not kept need no number of their own."""
        arrival = np.arange(arrivals, arrivals + len(events) if plan.stores_tuples.yes else arrivals)
        masks = [self._mask(plan, i, events) for i in range(len(plan.predicates))]
        tuples = Tuples(ids, events.ts, arrival if events.sequence is None else events.sequence, arrival, masks=masks)
        for name in plan.columns:
            if name not in plan.columns_read:
                tuples.columns[name] = np.zeros(len(events), plan.dtypes[name])
                continue
            column = events.column(name)
            tuples.columns[name] = column.values
            if column.valid is not None:
                tuples.valid[name] = column.valid
        for name in plan.given_columns:
            there = name in plan.window_columns_read
            tuples.columns[name] = _numbers(events, name) if there else np.zeros(len(events), plan.dtypes[name])
        for name in plan.measures:
            there = name in plan.window_columns_read
            dtype = plan.dtypes.get(as_measure(name), np.dtype(np.int64))
            tuples.columns[as_measure(name)] = events.measure(name) if there else np.full(len(events), LATEST, dtype)
        return tuples

    @staticmethod
    def _mask(plan: Plan, i: int, events: Events) -> Array:
        return events.mask(plan.predicates[i]) if i in plan.masks_read else np.zeros(len(events), np.bool_)

    def install(
        self, plan: Plan, events: Events, tuples: Tuples, lateness: int, has_sequence: bool, watermark: int
    ) -> None:
        """Make the engine, now that the types of the columns are known."""
        types: dict[str, ValueType] = {name: events.column(name).type for name in plan.columns}
        for name, type_ in types.items():
            if pa.types.is_null(type_.arrow):
                raise WrongType(f"column {name!r} holds nothing but nulls, so its type is unknown; cast it to a type")
        try:
            monoids = plan.resolve(types)
        except WrongType as error:
            given = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
            raise WrongType(f"{error}; the queries read {given}") from error
        plan.dtypes = {name: values.dtype for name, values in tuples.columns.items()}
        lifts = [
            Lift(k.aggregate, m, k.where, plan.eager, plan.as_tree) for k, m in zip(plan.kept, monoids, strict=True)
        ]
        engine = engine_for(plan, lifts, lateness, has_sequence)
        engine.start(watermark)
        self.answers = Answers(plan, monoids, types)
        self.plan, self.engine, self.types = plan, engine, types

    def can_take_in(self, other: Branch) -> bool:
        """Whether queries that were added, and have seen nothing yet, can share these slices: if their windows are no
        more than edges to cut at. Where a window may be empty, or has several ends, more is to be known about it."""
        if self.engine is None or type(self.engine) is not type(other.engine) or not self.engine.can_join():
            return False
        bounds = [f.bound for f in other.plan.findings if f.is_grid and not f.emit_empty]
        plain = [b for b in bounds if isinstance(b, Periodic) and b.period > 0 and b.ends == 1]
        return len(plain) == len(other.plan.findings)

    def take_in(self, other: Branch) -> None:
        """Have the queries of another branch share these slices, from its `since` on."""
        findings, before = len(self.plan.findings), len(self.plan.kept)
        self.types = {**self.types, **other.types}
        monoids = self.plan.join(other.plan, self.types)
        there = self.running.lifts
        asked = zip(self.plan.kept[before:], monoids[before:], strict=True)
        fresh = [Lift(k.aggregate, m, k.where, there[0].eager, self.plan.as_tree) for k, m in asked]
        for i in set(range(before)) - self.plan.unused_kept:
            there[i].retired = False
        self.running.join(findings, fresh)
        self.due = [rows.joined(fresh) for rows in self.due]
        self.queries = [*self.queries, *other.queries]
        self._lower()

    def _lower(self) -> None:
        """Rebuild `answers` for the current form of the partials."""
        self.answers = Answers(self.plan, [lift.monoid for lift in self.running.lifts], self.types)
        self.answers.keep(self.queries)

    def watch(self, tuples: Tuples, beyond: Sequence[int] = ()) -> bool:
        """Widen the sums that the coming events could overflow, and those of the lifts `beyond`.

        Return True if any partials have changed.
        """
        which = {*beyond, *outgrown(self.running.lifts, self.sizes, tuples)}
        if which:
            self.widen(sorted(which))
        return bool(which)

    def widen(self, which: Sequence[int]) -> None:
        """Give the sums of these lifts 128 bits."""
        rows = [replace(part, partials=list(part.partials)) for part in self.due]  # an undo may hold the old ones
        widen(which, self.running.lifts, [rows, self.engine])
        self.due = rows
        self._lower()

    def joined(self) -> Iterator[tuple[int, list[str]]]:
        """Since when queries share these slices that were added later, and their names."""
        ends = [first for _, first in self.plan.joins] + [len(self.plan.queries)]
        for (since, first), end in zip(self.plan.joins, ends[1:], strict=True):
            names = [q.name for q in self.plan.queries[first:end] if q.name not in self.plan.removed]
            if names:
                yield since, names

    def copied_engine(self) -> Engine | None:
        """The engine with its state as it is now; what never changes is shared."""
        if self.engine is None:
            return None
        fixed = [self.plan, *(lift.monoid for lift in self.engine.lifts)]
        return copy.deepcopy(self.engine, {id(part): part for part in fixed})

    def remove(self, name: str, gone: str) -> None:
        """Forget a query; windows and partials that no other one uses are no longer kept."""
        left = [query for query in self.queries if query.name != name]
        if len(left) == len(self.queries):
            return
        self.queries = left
        if self.engine is None or self.answers is None:
            self.plan = self._planned(self.plan.unit)
            return
        self.plan.remove(name, gone)
        self.answers.keep(left)
        self.engine.retire(self.plan.unused_findings, self.plan.unused_kept)

    def answer_by(self, store: str) -> None:
        """Answer windows by another store, which is made from the slices there are."""
        self.store = self.plan.store = store
        self.plan.__dict__.pop("eager", None)
        self.running.change_store()

    def advance(self, watermark: int, over: bool = False, partial: bool = False, passed: Array = NO_WATERMARKS) -> None:
        """Advance the engine. `passed`: the watermarks since the last call, if empty windows depend on them."""
        if self.engine is not None:
            self.due.append(self.engine.advance(watermark, over, partial, passed))
            self.found += len(self.due[-1])

    @property
    def _whole_after(self) -> Array:
        """For each finding, the time after which windows begin that hold no event from before this branch: others may
        be fragments."""
        return np.array([min(NEVER, self.since + f.bound.doubt) for f in self.plan.findings], np.int64)

    def due_rows(self) -> Rows | None:
        """The rows that are due, or None before there is an engine."""
        if self.engine is None:
            return None
        return self._whole(Rows.concat(self.due) if self.due else no_rows(self.engine.lifts))

    def waiting(self) -> list[Rows]:
        """The rows found since the last results."""
        found = self.due if self.engine is None else [*self.due, *self.engine.waiting()]
        return [self._whole(rows) for rows in found]

    def drop_due(self) -> None:
        """Drop the due rows after they were returned."""
        self.due, self.found = [], 0

    def _whole(self, rows: Rows) -> Rows:
        if self.since != LONG_AGO and len(rows):
            rows = rows.take(np.flatnonzero(rows.start > self._whole_after[rows.finding]))
        return rows


def _numbers(events: Events, name: str) -> Array:
    """A column that a window's own function reads."""
    column = events.column(name)
    if column.valid is not None and not column.valid.all():
        row = int(np.flatnonzero(~column.valid)[0])
        raise WrongType(f"column {name!r} is null in row {row}, and a window depends on it")
    if column.values.dtype == object:
        raise WrongType(f"column {name!r} is of type {column.type}; windows read numbers and booleans")
    return column.values
