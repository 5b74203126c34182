"""From result rows to results: partials are lowered here, once for all queries that ask for the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import located
from windlass.aggregates.values import ValueType
from windlass.errors import Overflow
from windlass.operator.emitted import Rows
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import lowered
from windlass.operator.plan import Plan
from windlass.operator.query import Query
from windlass.operator.results import Group, Results
from windlass.slicing.sorting import is_ascending
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Members:
    """Queries with the same aggregates and filter, the windows they ask for, and what is lowered from which partial."""

    queries: list[Query]
    findings: Array
    lowering: list[tuple[int, Monoid]]

    @cached_property
    def follow(self) -> bool:
        """Whether their windows follow one another."""
        return bool((np.diff(self.findings) == 1).all())

    @cached_property
    def names(self) -> pa.Array:
        return pa.array([query.name for query in self.queries], pa.string())


class Answers(Stateful):
    """Makes results for one plan. Queries with the same aggregates and filter are one group of columns."""

    def __init__(self, plan: Plan, monoids: Sequence[Monoid], types: Mapping[str, ValueType]) -> None:
        self.plan = plan
        groups: dict[Any, list[int]] = {}
        for q, query in enumerate(plan.queries):
            groups.setdefault((query.aggregates, query.where), []).append(q)
        self.groups = [
            _Members(
                [plan.queries[q] for q in members],
                np.array([plan.finding_of[q] for q in members], np.int64),
                [(o.kept, plan.lowering(o, monoids, types)) for o in plan.outputs[members[0]]],
            )
            for members in groups.values()
        ]
        self.may_not_fit = self._may_not_fit()
        self.nothing: list[Group] | None = None  # the groups of a call without rows

    def _may_not_fit(self) -> bool:
        """Whether an answer can overflow its type and raise."""
        return any(monoid.may_not_fit for group in self.groups for _, monoid in group.lowering)

    def keep(self, queries: Sequence[Query]) -> None:
        """Leave out all queries but these."""
        left, names = [], {query.name for query in queries}
        for group in self.groups:
            places = [i for i, query in enumerate(group.queries) if query.name in names]
            if places:
                left.append(_Members([group.queries[i] for i in places], group.findings[places], group.lowering))
        self.groups, self.nothing = left, None
        self.may_not_fit = self._may_not_fit()

    def results(self, rows: Rows, keys: KeyIndex, time_type: pa.DataType | None) -> Results:
        if len(rows):
            return Results(self._lowered(rows, keys, time_type), keys, time_type)
        if self.nothing is None:
            self.nothing = self._lowered(rows, keys, time_type)
        return Results(self.nothing, keys, time_type)

    def _lowered(self, rows: Rows, keys: KeyIndex, time_type: pa.DataType | None) -> list[Group]:
        count = len(self.plan.findings)
        if not is_ascending(np.ascontiguousarray(rows.finding)):  # more often than not they are
            rows = rows.take(np.argsort(rows.finding, kind="stable"))
        groups = []
        for members in self.groups:
            findings = members.findings
            if len(findings) == count and members.follow:  # all rows, as they are
                mine, query = rows, rows.finding.astype(np.int32)
            else:
                bounds = np.searchsorted(rows.finding, np.stack([findings, findings + 1]))
                mine = rows.take(np.concatenate([np.arange(first, last) for first, last in bounds.T.tolist()]))
                query = np.repeat(np.arange(len(findings), dtype=np.int32), bounds[1] - bounds[0])
            values = []
            for a, (kept, monoid) in enumerate(members.lowering):
                try:
                    values.append(lowered(monoid, mine.partials[kept], len(mine)))
                except Overflow as error:
                    raise located(error, _Place(members, a, query, mine, keys, time_type).of) from None
            groups.append(
                Group(
                    members.queries,
                    query,
                    mine.key,
                    mine.low,
                    mine.high,
                    mine.start,
                    mine.end,
                    mine.revision,
                    mine.retraction,
                    values,
                    members.names,
                )
            )
        return groups


class _Place(NamedTuple):
    """Describe the place of an answer for an error message."""

    members: _Members
    aggregate: int
    query: Array
    rows: Rows
    keys: KeyIndex
    time_type: pa.DataType | None

    def of(self, row: int) -> str:
        query, rows = self.members.queries[int(self.query[row])], self.rows
        key = self.keys.shown(int(rows.key[row]))
        bounds = rows.start[row], rows.end[row]
        if query.on_time and self.time_type is not None:
            bounds = tuple(pa.scalar(int(b), pa.int64()).cast(self.time_type) for b in bounds)
        elif not query.on_time:
            bounds = rows.low[row], rows.high[row]
        window = f"window [{bounds[0]}, {bounds[1]})" + ("" if query.on_time else f" on {query.window.measure!r}")
        parts = f"query {query.name!r}", key, window, repr(query.aggregates[self.aggregate])
        return ", ".join(part for part in parts if part)
