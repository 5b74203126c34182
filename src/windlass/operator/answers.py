"""From result rows to results: partials are lowered here, once for all queries that ask for the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import ValueType
from windlass.operator.emitted import Rows
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import lowered
from windlass.operator.plan import Plan
from windlass.operator.query import Query
from windlass.operator.results import Group, Results

Array = np.ndarray[Any, Any]


class Answers:
    """Makes results for one plan. Queries with the same aggregates and filter are one group of columns."""

    def __init__(self, plan: Plan, monoids: Sequence[Monoid], types: Mapping[str, ValueType]) -> None:
        self.plan = plan
        groups: dict[Any, list[int]] = {}
        for q, query in enumerate(plan.queries):
            groups.setdefault((query.aggregates, query.where), []).append(q)
        self.groups = list(groups.values())
        self.finding_of = np.array(plan.finding_of, np.int64)
        self.lowering = [
            [(o.kept, plan.lowering(o, monoids, types)) for o in plan.outputs[members[0]]] for members in self.groups
        ]

    def keep(self, queries: Sequence[Query]) -> None:
        """Leave out all queries but these."""
        left = [
            ([q for q in members if self.plan.queries[q] in queries], lowering)
            for members, lowering in zip(self.groups, self.lowering, strict=True)
        ]
        self.groups = [members for members, _ in left if members]
        self.lowering = [lowering for members, lowering in left if members]

    def results(self, rows: Rows, keys: KeyIndex, time_type: pa.DataType | None) -> Results:
        count = len(self.plan.findings)
        order: Array | None = None  # rows come in the order of their windows, more often than not
        if len(rows) and (np.diff(rows.finding) < 0).any():
            order = np.argsort(rows.finding, kind="stable")
        finding = rows.finding if order is None else rows.finding[order]
        bounds = np.searchsorted(finding, np.arange(count + 1))
        groups = []
        for members, lowering in zip(self.groups, self.lowering, strict=True):
            findings = self.finding_of[members]
            sizes = np.diff(bounds)[findings]
            chosen = order  # None: all of them, as they are
            if len(findings) != count or (np.diff(findings) != 1).any():
                chosen = np.concatenate([np.arange(bounds[f], bounds[f + 1]) for f in findings])
                chosen = chosen if order is None else order[chosen]
            mine = rows if chosen is None else rows.take(chosen)
            groups.append(
                Group(
                    [self.plan.queries[q] for q in members],
                    np.repeat(np.arange(len(members), dtype=np.int32), sizes),
                    mine.key,
                    mine.low,
                    mine.high,
                    mine.start,
                    mine.end,
                    mine.revision,
                    mine.retraction,
                    [lowered(monoid, mine.partials[kept], len(mine)) for kept, monoid in lowering],
                )
            )
        return Results(groups, keys, time_type)
