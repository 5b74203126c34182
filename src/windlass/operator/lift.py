"""A lift: what is kept in every slice for one or more aggregates, once, however many queries ask for it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Events, read_only
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors
from windlass.operator.tuples import Tuples
from windlass.slicing import program as programs
from windlass.slicing.slices import Slices
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


class Lift(Stateful):
    """One aggregate's partials: of slices by slot, and what an eager store keeps over them."""

    def __init__(
        self, aggregate: Aggregate, monoid: Monoid, where: int | None, eager: bool, as_tree: bool = False
    ) -> None:
        self.aggregate, self.monoid, self.where, self.eager = aggregate, monoid, where, eager
        self.as_tree = as_tree  # what an eager store keeps
        self.retired = False  # no query asks for it any more
        self.pool: Columns = monoid.allocate(0)
        self.nodes: Columns = monoid.allocate(0)

    def reserve(self, slices: Slices) -> None:
        """Room for the slots and nodes there are now."""
        if self.retired:
            return
        self.pool = _grown(self.monoid, self.pool, slices.slots)
        needed = programs.nodes(self.monoid, len(slices.rows), self.as_tree) if self.eager else 0
        if len(self.nodes) and len(self.nodes[0]) < needed:  # rows were moved, so nothing that was there holds
            self.nodes = self.monoid.allocate(needed)

    def fill(self, slots: int) -> None:
        """Make what has no partial yet one of nothing."""
        if self.pool and len(self.pool[0]) < slots:
            more = identities(self.monoid, slots - len(self.pool[0]))
            self.pool = tuple(np.concatenate(columns) for columns in zip(self.pool, more, strict=True))

    def renumber(self, slots: Array) -> None:
        """Keep the partials of these slots, numbered in this order; what is kept over them is made anew."""
        if not self.retired:
            self.pool = tuple(column[slots] for column in self.pool)
        self.nodes = self.monoid.allocate(0)

    def keep(self, eager: bool, as_tree: bool) -> None:
        """From now on keep this over the slices, made anew."""
        self.eager, self.as_tree, self.nodes = eager, as_tree, self.monoid.allocate(0)

    def run(
        self,
        program: Array,
        tuples: Tuples | None,
        slices: Slices,
        outside: Columns,
        ranges: tuple[Array, Array] = programs.NO_RANGES,
    ) -> None:
        """Run a slice program; without tuples, one that folds none."""
        if self.retired:
            return
        self.reserve(slices)
        events = self.events(tuples) if tuples is not None else self.no_events
        outside = outside or self.no_answers
        programs.run(self.monoid, program, events, slices.rows, self.pool, self.nodes, outside, self.as_tree, ranges)

    def run_pieces(
        self, program: Array, tuples: Tuples | None, pieces: Array, slots: int, nodes: int, outside: Columns
    ) -> None:
        """Run a program that combines pieces: of so many slots, and so many nodes of trees."""
        if self.retired:
            return
        self.pool, self.nodes = _grown(self.monoid, self.pool, slots), _grown(self.monoid, self.nodes, nodes)
        events = self.events(tuples) if tuples is not None else self.no_events
        programs.run(self.monoid, program, events, pieces, self.pool, self.nodes, outside or self.no_answers)

    @cached_property
    def no_events(self) -> Events:
        compiled = self.monoid.is_compiled
        columns = tuple(np.empty(0, t.dtype if compiled else object) for t in self.monoid.inputs)
        return tuple(map(read_only, columns)), np.empty(0, np.bool_), 0

    @cached_property
    def no_answers(self) -> Columns:
        return self.monoid.allocate(0)

    def events(self, tuples: Tuples) -> Events:
        """The columns it lifts, and which events count: not nulls, not what the filter leaves out."""
        counts: Array | None = None if self.where is None else tuples.masks[self.where]
        for name in self.aggregate.columns:
            valid = tuples.valid.get(name or "")
            if valid is not None:
                counts = valid if counts is None else counts & valid
        columns = tuple(tuples.columns[name or ""] for name in self.aggregate.columns)
        if not self.monoid.is_compiled and self.monoid.gather is None:
            columns = tuple(values.astype(object) for values in columns)
        return tuple(map(read_only, columns)), np.empty(0, np.bool_) if counts is None else counts, len(tuples)

    @property
    def nbytes(self) -> int:
        """What one partial takes; of Python objects only the pointers are counted."""
        return self.monoid.partial_nbytes


def identities(monoid: Monoid, rows: int) -> Columns:
    """Partials of nothing."""
    one = monoid.allocate(1)
    accessors(monoid.fields)[1](one, 0, monoid.identity())
    return tuple(np.repeat(column, rows, axis=0) for column in one)


def lowered(monoid: Monoid, partials: Columns, rows: int) -> Any:
    """Partials as an Arrow array of answers."""
    answers = evaluation.empty_answers(monoid, rows)
    if rows:
        evaluation.lower_many(monoid, partials, answers)
    return evaluation.finish(monoid, answers)


def _grown(monoid: Monoid, columns: Columns, slots: int) -> Columns:
    if len(columns) == 0 or len(columns[0]) >= slots:
        return columns
    grown = monoid.allocate(slots)
    for new, old in zip(grown, columns, strict=True):
        new[: len(old)] = old
    return grown
