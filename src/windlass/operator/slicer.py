"""The stream slicer as a stage of its own: cut and pre-aggregate here, go on elsewhere (Scotty, Figure 3).

    partition 1   events ──► Slicer ──► slices ─┐
    partition 2   events ──► Slicer ──► slices ─┴─► Operator.process_slices ──► advance ──► results

A slice that leaves a slicer lies between two neighbouring edges of all queries, so any window holds all of its events
or none. That needs windows with fixed edges on time, and partials of a fixed width over commutative aggregates: for
others the events themselves have to travel (`refusal` says why). Sessions are among these: whether an event comes too
late for a session is a matter of its own time, and a slice has but two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns
from windlass.errors import InvalidArgument
from windlass.operator.engine import General
from windlass.operator.lift import lowered
from windlass.operator.operator import Operator
from windlass.operator.query import Query, check_queries
from windlass.operator.slice_table import COUNTING, counting, written
from windlass.slicing.slices import BASE, FIRST, HI, LAST, LO, SLOT

Array = np.ndarray[Any, Any]

__all__ = ["Slicer", "refusal"]


class Slicer:
    """Cuts batches of events into slices and folds them; `take` hands out what there is and starts anew."""

    def __init__(
        self,
        queries: Query | Iterable[Query],
        schema: pa.Schema,
        *,
        time: str,
        key: str | Sequence[str] | None = None,
    ) -> None:
        asked = sorted(check_queries(queries), key=lambda query: query.name)  # whatever order they came in
        self._queries, self._schema, self._time, self._key = [*asked, counting(asked)], schema, time, key
        self._operator = self._blank()
        if (why := refusal(self._operator)) is not None:
            raise InvalidArgument(f"these queries cannot be answered from slices alone: {why}")

    def _blank(self) -> Operator:
        operator = Operator(self._queries, time=self._time, key=self._key, store="lazy")
        operator.bind(self._schema)
        return operator

    def process(self, batch: Any) -> None:
        """Take a batch of events; a table of the schema that was given."""
        self._operator.process(batch)

    @property
    def events(self) -> int:
        """How many came since the last `take`."""
        return self._operator.counters["events"]

    def __len__(self) -> int:
        """How many slices there are."""
        return self._operator.counters["slices"]

    def take(self) -> pa.Table:
        """The slices of all events since the last time, ordered by key and time."""
        operator, self._operator = self._operator, self._blank()
        (branch,) = operator._branches
        engine, answers = branch.engine, branch.answers
        assert isinstance(engine, General) and answers is not None
        slices = engine.sliced.slices
        d = slices.directory
        sizes = d[:, HI] - d[:, LO]
        starts = np.cumsum(sizes) - sizes
        live = slices.rows[np.arange(int(sizes.sum())) + np.repeat(d[:, BASE] + d[:, LO] - starts, sizes)]
        slots = live[:, SLOT]
        partials: list[Columns] = []
        for lift in engine.lifts:
            lift.reserve(slices)
            partials.append(tuple(column[slots] for column in lift.pool))
        ((kept, monoid),) = next(g.lowering for g in answers.groups if g.queries[-1].name == COUNTING)
        counted = lowered(monoid, partials[kept], len(live))
        keys = operator._keys.decode(np.repeat(np.arange(len(d)), sizes))
        return written(keys, live[:, FIRST], live[:, LAST], counted, partials)


def refusal(operator: Operator) -> str | None:
    """Why the events of these queries cannot be pre-aggregated; None if they can."""
    for branch in operator._branches:
        plan = branch.plan
        if plan.stores_tuples.yes:
            return plan.stores_tuples.reason
        if not plan.general:
            return "they have windows without fixed edges"
        if plan.sessions:
            return "an event comes too late for a session by its own time, not by that of its slice"
        if branch.engine is not None:
            for lift in branch.engine.lifts:
                if not lift.retired and any(field.dtype == object for field in lift.monoid.fields):
                    return f"the partials of {lift.aggregate!r} grow with its events"
    return None
