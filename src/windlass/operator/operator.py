"""The operator: any number of window queries over one keyed stream, in one process (Scotty, Figure 3).

    process(batch)                         advance(w)
        │ read, encode keys, judge late        │
        ▼                                      ▼
    stream slicer ──► slice manager ──► aggregate store ──► window manager ──► results
        cut at edges     update, merge,     lazy or eager        what is complete,
                         split                                   what has changed
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from windlass import durations
from windlass.aggregates.values import ValueType
from windlass.errors import InvalidArgument, OutOfOrder, UnknownColumn, WrongType
from windlass.operator.answers import Answers
from windlass.operator.emitted import Rows
from windlass.operator.engine import Engine, engine_for
from windlass.operator.events import Events, Reader, watermark_value
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import Lift
from windlass.operator.plan import Plan
from windlass.operator.query import Query, check_queries
from windlass.operator.results import Results
from windlass.operator.tuples import Tuples
from windlass.slicing.edges import LONG_AGO, NEVER

Array = np.ndarray[Any, Any]


class Operator:
    """Window queries over a stream of events.

    `time` names the column of event times, `key` the column (or columns) whose values have windows of their own,
    `sequence` one that orders events of the same time. Late events correct windows for `allowed_lateness` after
    their end.
    """

    def __init__(
        self,
        queries: Query | Iterable[Query],
        *,
        time: str,
        key: str | Sequence[str] | None = None,
        sequence: str | None = None,
        allowed_lateness: Any = 0,
        order: Literal["out-of-order", "in-order"] = "out-of-order",
        store: Literal["auto", "lazy", "eager"] = "auto",
    ) -> None:
        names = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        if order not in ("out-of-order", "in-order"):
            raise InvalidArgument(f"order is 'out-of-order' or 'in-order', got {order!r}")
        if store not in ("auto", "lazy", "eager"):
            raise InvalidArgument(f"store is 'auto', 'lazy' or 'eager', got {store!r}")
        self.queries = list(check_queries(queries, names))
        self.in_order, self.store = order == "in-order", store
        if isinstance(allowed_lateness, int | np.integer) and not isinstance(allowed_lateness, bool):
            if allowed_lateness < 0:
                raise InvalidArgument(f"allowed_lateness must not be negative, got {allowed_lateness}")
        else:
            durations.parse(allowed_lateness, positive=False)
        self._lateness = allowed_lateness
        self._reader = Reader(time, names, sequence)
        self._keys = KeyIndex(names)
        self._plan: Plan | None = None  # made with the first batch, which tells types
        self._engine: Engine | None = None
        self._answers: Answers | None = None
        self._watermark = LONG_AGO
        self._last = LONG_AGO  # the time of the last event, in-order
        self._arrivals = 0
        self._finished = False
        self._expired: list[pa.Table] = []
        self._counters = {"events": 0, "late": 0, "expired": 0, "batches": 0, "rows": 0}

    # ------------------------------------------------------------------ events

    def process(self, batch: Any) -> None:
        """Take a batch of events. Results come at `advance`. Whatever is wrong with the batch, nothing has changed then."""
        if self._finished:
            raise InvalidArgument("the stream was finished; make another operator for another stream")
        plan = self._plan or Plan(self.queries, None, self.in_order, self.store)
        others = [c for c in plan.window_columns if c not in plan.measures]
        events = self._reader.read(batch, [*plan.columns, *others], plan.measures)
        if self._plan is None:
            plan = self._make_plan(events)
        if len(events) == 0:
            return
        if self.in_order:
            self._check_order(events)
        masks = [predicate.mask(events.table) for predicate in plan.predicates]
        known = len(self._keys)
        ids = self._keys.encode(events.keys, len(events))
        try:
            tuples = self._tuples(plan, events, ids, masks)
            if self._plan is None:
                self._install(plan, events, tuples)
            engine = self._engine
            assert engine is not None
            engine.add_keys(len(self._keys))
            engine.check(tuples)
        except BaseException:
            self._keys.truncate(known)
            raise
        self._reader.accept(events)
        self._take(engine, tuples, events)

    def _take(self, engine: Engine, tuples: Tuples, events: Events) -> None:
        self._counters["events"] += len(tuples)
        self._counters["batches"] += 1
        self._arrivals += len(tuples)
        late = engine.late(tuples)
        refusals: Array | None = None
        if late.any():
            accepted = engine.accepted(tuples, late)
            alive = accepted.any(axis=0)
            self._counters["late"] += int(late.sum())
            if not alive.all():
                self._expire(events, ~alive)
                kept = np.flatnonzero(alive)
                tuples, late, accepted = tuples.take(kept), late[kept], accepted[:, kept]
            refusals = ~accepted
        if self.in_order and len(tuples):
            self._last = self._watermark = int(tuples.ts[-1])
        engine.take(tuples, late, refusals)

    def _expire(self, events: Events, which: Array) -> None:
        rows = events.rows(which)
        reason = (
            f"late: the watermark is {self._shown(self._watermark)}, the allowed lateness {self._lateness}; "
            "all windows that would hold it are closed"
        )
        self._expired.append(rows.append_column("reason", pa.array([reason] * len(rows), pa.string())))
        self._counters["expired"] += len(rows)

    def late(self) -> pa.Table:
        """The events that came too late for every query, with the reason, and forget them."""
        expired, self._expired = self._expired, []
        if not expired:
            return pa.table({"reason": pa.array([], pa.string())})
        return pa.concat_tables(expired, promote_options="permissive")

    def _check_order(self, events: Events) -> None:
        before = np.concatenate([[self._last], events.ts[:-1]])
        bad = np.flatnonzero(events.ts < before)
        if len(bad):
            i = int(bad[0])
            raise OutOfOrder(
                f"row {i} of the batch has time {self._shown(int(events.ts[i]))}, earlier than "
                f"{self._shown(int(before[i]))} before it; this stream was promised to be in order "
                "(order='out-of-order' takes events in any order)"
            )

    def _tuples(self, plan: Plan, events: Events, ids: Array, masks: list[Array]) -> Tuples:
        arrival = np.arange(self._arrivals, self._arrivals + len(events))
        tuples = Tuples(ids, events.ts, arrival if events.sequence is None else events.sequence, arrival, masks=masks)
        for name in plan.columns:
            column = events.column(name)
            tuples.columns[name] = column.values
            if column.valid is not None:
                tuples.valid[name] = column.valid
        for name in plan.window_columns:
            if name in plan.measures:
                values = events.measure(name)
            else:
                column = events.column(name)
                values = column.values
                if column.valid is not None and not column.valid.all():
                    raise WrongType(f"column {name!r} has a null, and a window depends on it")
                if values.dtype == object:
                    raise WrongType(f"column {name!r} is of type {column.type}; windows read numbers and booleans")
            if name in tuples.columns and tuples.columns[name].dtype != values.dtype:
                raise WrongType(f"column {name!r} is aggregated as {tuples.columns[name].dtype} and a measure")
            tuples.columns[name] = values
        return tuples

    # ------------------------------------------------------------------ results

    def advance(self, watermark: Any = None) -> Results:
        """Raise the watermark and give the rows that are due: windows now complete, and corrections."""
        if watermark is None and not self.in_order:
            raise InvalidArgument("advance needs a watermark: the time before which no more events will come")
        if self._finished:
            raise InvalidArgument("the stream was finished; there is nothing more to come")
        if watermark is not None:
            given = watermark_value(watermark, self._reader.unit)
            if self.in_order and self._engine is not None and given > self._watermark:
                self._last = max(self._last, given)
            self._watermark = max(self._watermark, given)
        return self._results(self._watermark, over=False, partial=False)

    def finish(self, partial: bool = False) -> Results:
        """End the stream: every window that can be complete is. `partial` also gives those that are not."""
        if self._finished:
            raise InvalidArgument("the stream was finished already")
        results = self._results(NEVER, over=True, partial=partial)
        self._finished = True
        return results

    def peek(self) -> Results:
        """Early results: the current values of windows that are not complete. Nothing changes."""
        other = copy.deepcopy(self)
        other.advance(None if self.in_order else self._watermark) if self._watermark != LONG_AGO else None
        return other.finish(partial=True)

    def _results(self, watermark: int, over: bool, partial: bool) -> Results:
        if self._engine is None or self._answers is None:
            return Results.empty(self.queries, self._keys, self._reader.time_type)
        rows = self._engine.advance(watermark, over, partial)
        self._counters["rows"] += len(rows)
        return self._answers.results(rows, self._keys, self._reader.time_type)

    # ------------------------------------------------------------------ plan

    def _make_plan(self, events: Events) -> Plan:
        unit = None if events.time_type is None or pa.types.is_integer(events.time_type) else "us"
        return Plan(self.queries, unit, self.in_order, self.store)

    def _install(self, plan: Plan, events: Events, tuples: Tuples) -> None:
        types: dict[str, ValueType] = {name: events.column(name).type for name in plan.columns}
        for name, type_ in types.items():
            if pa.types.is_null(type_.arrow):
                raise WrongType(f"column {name!r} holds nothing but nulls, so its type is unknown; cast it to a type")
        monoids = plan.resolve(types)
        lifts = [Lift(k.aggregate, m, k.where, plan.eager) for k, m in zip(plan.kept, monoids, strict=True)]
        plan.dtypes = {name: values.dtype for name, values in tuples.columns.items()}
        lateness = self._lateness
        if not isinstance(lateness, int | np.integer):
            if plan.unit is None and not isinstance(lateness, int):
                raise WrongType(f"time is a column of integers, so allowed_lateness is one too, got {lateness!r}")
            lateness = durations.parse(lateness, plan.unit or "us", positive=False)
        self._engine = engine_for(plan, lifts, int(lateness), self._reader.sequence is not None)
        self._engine.start(self._watermark)
        self._answers = Answers(plan, monoids, types)
        self._plan = plan

    def add(self, query: Query) -> None:
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError

    def explain(self) -> str:
        """What the operator does for its queries, and why."""
        plan = self._plan or Plan(self.queries, "us", self.in_order, self.store)
        return plan.explain()

    @property
    def watermark(self) -> int | None:
        return None if self._watermark == LONG_AGO else self._watermark

    @property
    def counters(self) -> dict[str, int]:
        """What happened so far, and what is held now."""
        held = {} if self._engine is None else self._engine.held()
        return {**self._counters, "keys": len(self._keys), **held}

    def _shown(self, t: int) -> str:
        kind = self._reader.time_type
        return str(t) if kind is None or pa.types.is_integer(kind) else str(pa.scalar(t, kind).as_py())

    def __repr__(self) -> str:
        names = ", ".join(q.name for q in self.queries[:5]) + ("…" if len(self.queries) > 5 else "")
        w = "no watermark yet" if self._watermark == LONG_AGO else f"watermark {self._shown(self._watermark)}"
        return f"<Operator {names}: {self._counters['events']} events, {len(self._keys)} keys, {w}>"

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, data: bytes) -> Self:
        raise NotImplementedError


def aggregate(
    table: Any, queries: Query | Iterable[Query], *, time: str, key: str | Sequence[str] | None = None, **options: Any
) -> Results:
    """All windows of a bounded table, in one call."""
    operator = Operator(queries, time=time, key=key, **options)
    operator.process(table)
    return operator.finish()


__all__ = ["Operator", "Rows", "UnknownColumn", "aggregate"]
