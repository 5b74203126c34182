"""The stream slicer as a stage of its own: cut and pre-aggregate here, go on elsewhere (Scotty, Figure 3).

    partition 1   events ──► Slicer ──► slices ─┐
    partition 2   events ──► Slicer ──► slices ─┴─► Operator.process_slices ──► advance ──► results

A slice that leaves a slicer lies between two neighbouring edges of all queries, so any window holds all of its events
or none. That needs windows with fixed edges on time, and partials of a fixed width over commutative aggregates: for
others the events themselves have to travel (`refusal` says why). Sessions are among these: whether an event comes too
late for a session is a matter of its own time, and a slice has but two.

Batches are put together until they are worth cutting. What two cuts have in common stays two slices; where they go,
they are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns
from windlass.aggregates.overflow import LIMIT, widened
from windlass.aggregates.values import to_arrow
from windlass.errors import InvalidArgument, WrongType
from windlass.exclusive import Exclusive, exclusive
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import Lift
from windlass.operator.operator import Operator
from windlass.operator.plan import Plan
from windlass.operator.query import Query, check_queries
from windlass.operator.slice_table import in_order, written
from windlass.operator.tuples import Tuples
from windlass.operator.widening import size_of
from windlass.slicing import edges
from windlass.slicing.cells import Cells, cells, fold
from windlass.windows.window import Periodic

Array = np.ndarray[Any, Any]

__all__ = ["Slicer", "refusal"]

_EVENTS = 1 << 18  # that are cut at once, at least: what is folded onto should stay in the cache


class Slicer(Exclusive):
    """Cuts batches of events into slices and folds them; `take` hands out what there is and starts anew."""

    def __init__(
        self,
        queries: Query | Iterable[Query],
        schema: pa.Schema,
        *,
        time: str,
        key: str | Sequence[str] | None = None,
    ) -> None:
        asked = in_order(check_queries(queries))
        operator = Operator(asked, time=time, key=key, store="lazy")
        operator.bind(schema)
        if (why := refusal(operator)) is not None:
            raise InvalidArgument(f"these queries cannot be answered from slices alone: {why}")
        (branch,) = operator._branches
        assert branch.engine is not None
        self._branch, self._reader, self._plan, self._schema = branch, operator._reader, branch.plan, schema
        self.lifts = branch.engine.lifts  # whose partials slices have, in this order
        self.edges = _edges(branch.plan)  # between which slices lie
        self._start()

    def _start(self) -> None:
        self._keys = KeyIndex(self._reader.key)
        self._waiting: list[pa.Table] = []
        self._cut: list[tuple[Cells, list[Columns]]] = []
        self.events = 0  # since the last `take`
        self._uncut = 0

    @exclusive
    def process(self, batch: pa.Table) -> None:
        """Take a batch of events; a table of the schema that was given."""
        batch = self._checked(batch)
        waiting, uncut = [*self._waiting, batch], self._uncut + batch.num_rows
        if uncut >= _EVENTS:
            self._cut = [*self._cut, self._slices(waiting)]
            waiting, uncut = [], 0
        self._waiting, self._uncut = waiting, uncut
        self.events += batch.num_rows

    def __len__(self) -> int:
        """How many slices there are."""
        return sum(len(found) for found, _ in self._cut)

    @exclusive
    def take(self) -> pa.Table:
        """The slices of all events since the last time."""
        cut = [*self._cut, self._slices(self._waiting)] if self._uncut else self._cut
        try:
            table = self._written(cut)
        except BaseException as error:  # the events stay pending
            self.undone(error)
            raise
        self._start()
        return table

    def _checked(self, batch: pa.Table) -> pa.Table:
        """Check a batch and convert it to a form that can be concatenated, so that errors show before it is cut."""
        if batch.schema != self._schema:
            try:
                batch = batch.cast(self._schema)
            except MemoryError:  # Arrow's is an ArrowException, too
                raise
            except (pa.ArrowException, ValueError) as error:
                raise WrongType(
                    f"the batch has the schema {batch.schema}, which cannot be cast to the slicer's, {self._schema}"
                ) from error
        self._reader.read(batch)
        return batch

    def _written(self, cut: Sequence[tuple[Cells, list[Columns]]]) -> pa.Table:
        found = [cells for cells, _ in cut]
        key, first, last, events = (
            np.concatenate([np.empty(0, np.int64), *(getattr(c, name) for c in found)])
            for name in ("key", "first", "last", "events")
        )
        partials = []
        for i, lift in enumerate(self.lifts):
            columns = zip(*(parts[i] for _, parts in cut), strict=True) if cut else ()
            partials.append(tuple(np.concatenate(c) for c in columns) or (lift.monoid.wide or lift.monoid).allocate(0))
        return written(_coded(self._keys, key), first, last, events, partials)

    def _slices(self, waiting: Sequence[pa.Table]) -> tuple[Cells, list[Columns]]:
        """Cut and fold the events of these batches. If anything raises, they stay pending."""
        entering = False
        try:
            events = self._reader.read(pa.concat_tables(waiting), self._plan.columns)
            for i in self._plan.masks_read:
                events.mask(self._plan.predicates[i])
            keys = self._keys.read(events.keys, len(events))
            entering = True
            ids = self._keys.enter(keys, len(events))
            entering = False
            tuples = self._branch.tuples(self._plan, events, ids, 0)
            found = cells(tuples.key, tuples.ts, len(self._keys), self.edges)
            return found, [_folded(lift, i, tuples, found) for i, lift in enumerate(self.lifts)]
        except BaseException as error:
            if not entering:  # new keys do no harm
                self.undone(error)
            raise


def _folded(lift: Lift, i: int, tuples: Tuples, found: Cells) -> Columns:
    """The partials of slices. Sums are always wide here."""
    m, events = lift.monoid, lift.events(tuples)
    if m.wide is None:
        return fold(m, events, found)
    if size_of(lift, i, tuples) < LIMIT:
        return widened(m, fold(m, events, found))
    return fold(m.wide, events, found)


def _coded(index: KeyIndex, ids: Array) -> list[pa.Array]:
    """The key columns of these ids: as dictionaries, if keys come again and again."""
    if 4 * len(index) > len(ids):
        return index.decode(ids)
    narrow = ids.astype(np.min_scalar_type(len(index)))
    places = to_arrow(narrow, None, pa.from_numpy_dtype(narrow.dtype))
    return [pa.DictionaryArray.from_arrays(places, values) for values in index.decode(np.arange(len(index)))]


def _edges(plan: Plan) -> Array:
    bounds = [finding.bound for finding in plan.findings if isinstance(finding.bound, Periodic)]
    return edges.together(edges.begins(bounds), edges.ends(bounds))


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
