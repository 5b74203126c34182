"""How a plan is run: one of three engines behind one face.

InOrder      events come in order: fold and drop, answer as windows end       (Cutty)
Reordered    tuples are kept: put in order, go back for late ones             (Scotty, tuples stored)
General      tuples are dropped though events come in any order               (Scotty, general slicing)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from windlass.operator.choice import Choice
from windlass.operator.emitted import Rows
from windlass.operator.lift import Lift
from windlass.operator.ordered import Completed, Ordered, check_measure
from windlass.operator.ordinals import Ordinals
from windlass.operator.plan import Plan
from windlass.operator.replay import Replay
from windlass.operator.row_limit import Coming, RowLimit
from windlass.operator.sliced import Sliced
from windlass.operator.tuples import Tuples
from windlass.operator.watermarks import NO_WATERMARKS
from windlass.slicing.edges import LONG_AGO
from windlass.slicing.slices import Slices
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


class Engine(Stateful, ABC):
    lifts: list[Lift]

    @property
    @abstractmethod
    def slices(self) -> Slices: ...

    @abstractmethod
    def start(self, watermark: int) -> None:
        """Begin with a watermark that was given before the first event."""

    @abstractmethod
    def add_keys(self, keys: int) -> None: ...

    @abstractmethod
    def check(self, tuples: Tuples) -> None:
        """Refuse events that cannot be taken, before anything changed."""

    @abstractmethod
    def late(self, tuples: Tuples) -> Array:
        """Which events come before the watermark."""

    @abstractmethod
    def accepted(self, tuples: Tuples, late: Array) -> Array:
        """For each finding of the plan, which events it still accepts."""

    @abstractmethod
    def take(self, tuples: Tuples, late: Array, refusals: Array | None) -> None:
        """Take events. `refusals` (findings × events): which findings an event came too late for."""

    @abstractmethod
    def advance(self, watermark: int, over: bool, partial: bool, passed: Array) -> Rows:
        """The rows that are due. `passed`: the watermarks since the last call, where empty windows depend on them."""

    @abstractmethod
    def most_rows(self, coming: Coming, limit: RowLimit) -> float:
        """Upper bound on the rows that a call finds. Raise if they certainly exceed the limit. Nothing changes."""

    @abstractmethod
    def count_for(self, limit: RowLimit | None) -> None:
        """Check windows against this limit before allocating them. None switches that off."""

    found: int = 0  # rows that wait for `advance`

    def waiting(self) -> list[Rows]:
        """The rows that wait for `advance`."""
        return []

    @abstractmethod
    def needed_keys(self) -> Array:
        """A mask by key: which ones are not as if they had never come."""

    @abstractmethod
    def forget(self, keys: Array) -> None:
        """Make keys that have ended as if they had never come."""

    @abstractmethod
    def renumber(self, kept: Array) -> None:
        """Forget all keys but these (ascending, all that are needed among them): key kept[i] is key i from now on."""

    def retire(self, findings: set[int], kept: set[int]) -> None:
        """Stop looking for windows and keeping partials that no query asks for any more."""
        for i in kept:
            self.lifts[i].retired = True
            self.lifts[i].pool = self.lifts[i].monoid.allocate(0)
        self._retire(findings)

    @abstractmethod
    def _retire(self, findings: set[int]) -> None: ...

    @abstractmethod
    def change_store(self) -> None:
        """The plan has another store now."""

    @abstractmethod
    def held(self) -> dict[str, int]:
        """Counters of what is in memory."""

    def entangled(self, tuples: Tuples) -> bool:
        """Whether a session takes an event that its slices have no place for, as long as others share them."""
        return False

    def drop_closed(self) -> None:
        """Forget sessions that are closed: nothing but them is here, and all have the same gap."""
        raise NotImplementedError

    def can_join(self) -> bool:
        """Whether other windows with fixed edges may share what is here."""
        return False

    def join(self, findings: int, lifts: Sequence[Lift]) -> None:
        """The plan has more windows than so many, and partials of these."""
        raise NotImplementedError

    @property
    def choice(self) -> Choice | None:
        """The store that answers windows, where that is learned."""
        return None

    def open_windows(self, watermark: int) -> int | None:
        """Number of windows that hold events and are incomplete at a watermark; None if only `peek` can tell."""
        return None


def engine_for(plan: Plan, lifts: Sequence[Lift], lateness: int, has_sequence: bool) -> Engine:
    if plan.general:
        return (GeneralInOrder if plan.in_order else General)(plan, lifts, lateness, has_sequence)
    if plan.stores_tuples.yes:  # in order, nothing at the watermark is late
        return Reordered(plan, lifts, lateness, has_sequence and not plan.in_order)
    return InOrder(plan, lifts)


class InOrder(Engine):
    """Every event is a watermark, so events are folded as they come and forgotten."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift]) -> None:
        self.plan, self.lifts = plan, list(lifts)
        self.ordered = Ordered(plan, lifts)
        self.ordinals = Ordinals(len(plan.findings) if plan.has_ordinals.any() else 0)
        self.due: list[Rows] = []
        self.found = 0

    @property
    def slices(self) -> Slices:
        return self.ordered.slices

    def start(self, watermark: int) -> None:
        self.ordered.watermark = watermark

    def add_keys(self, keys: int) -> None:
        self.ordered.add_keys(keys)
        self.ordinals.add_keys(len(self.ordered.count))

    def check(self, tuples: Tuples) -> None:
        if not self.plan.measures:
            return
        order = tuples.order(self.ordered.keys)
        for c, name, _ in self.plan.measured():
            check_measure(tuples if order is None else tuples.take(order), name, self.ordered.latest[2 + c])

    def late(self, tuples: Tuples) -> Array:
        return np.zeros(len(tuples), np.bool_)

    def accepted(self, tuples: Tuples, late: Array) -> Array:
        return np.ones((len(self.plan.findings), len(tuples)), np.bool_)

    def take(self, tuples: Tuples, late: Array, refusals: Array | None) -> None:
        self._consume(tuples, int(tuples.ts[-1]))

    def _consume(self, tuples: Tuples | None, watermark: int, over: bool = False, partial: bool = False) -> None:
        e = self.ordered
        counts = np.zeros(len(e.count), np.int64)
        if tuples is None:
            tuples = _nothing(e.plan)
        else:
            e.begin_empty(tuples)
            e.note_first(tuples)
            order = None if e.keys == 1 else tuples.order(e.keys)
            if order is not None:
                tuples = tuples.take(order)
            if e.keys == 1:
                counts[0] = len(tuples)
            else:
                counts = np.bincount(tuples.key, minlength=len(e.count))
        row_of = np.cumsum(counts) - counts
        completed = e.consume(tuples, row_of, counts, watermark, over=over, partial=partial)
        if len(completed):
            rows = first_rows(completed)
            if self.plan.has_ordinals.any():
                ordinals = self.ordinals.next(rows.finding, rows.key, rows.low, rows.high)
                rows.high = np.where(self.plan.has_ordinals[rows.finding], ordinals, rows.high)
            self.due.append(rows)
            self.found += len(rows)
        e.evict(e.horizon())

    def advance(self, watermark: int, over: bool, partial: bool, passed: Array) -> Rows:
        if over or watermark > self.ordered.watermark:
            self._consume(None, watermark, over, partial)
        due, self.due, self.found = self.due, [], 0
        return Rows.concat(due) if due else no_rows(self.ordered.lifts)

    def most_rows(self, coming: Coming, limit: RowLimit) -> float:
        e = self.ordered
        before = e.watermark
        if not coming.over and not coming.events and coming.watermark <= before:
            return 0
        if before == LONG_AGO and not len(e.slices):
            before = coming.least
        most = e.most_rows(coming, limit, coming.events, float(before) if before != LONG_AGO else -np.inf)
        if most <= limit.most or coming.events or e.discretizers or e.plan.since != LONG_AGO:
            return most
        counts = e.count_due(coming.watermark, coming.over, coming.partial)
        return limit.check(e.plan, e.periodic, counts) + e.plan.rates.landmarks * e.keys

    def count_for(self, limit: RowLimit | None) -> None:
        self.ordered.limit = limit

    def waiting(self) -> list[Rows]:
        return self.due

    def needed_keys(self) -> Array:
        return self.ordered.needed_keys()

    def forget(self, keys: Array) -> None:
        self.ordered.forget(keys)
        self.ordinals.forget(keys)

    def renumber(self, kept: Array) -> None:
        self.ordered.renumber(kept)
        self.ordinals.renumber(kept)
        self.ordinals.add_keys(len(self.ordered.count))

    def _retire(self, findings: set[int]) -> None:
        self.ordered.retire(findings)

    def change_store(self) -> None:
        self.ordered.change_store()

    def held(self) -> dict[str, int]:
        return {"slices": len(self.slices), "tuples": 0}


class Reordered(Engine):
    """Events wait until their place is final; tuples are kept for late ones."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift], lateness: int, has_sequence: bool) -> None:
        self.plan, self.lifts = plan, list(lifts)
        self.replay = Replay(plan, lifts, lateness, has_sequence)
        self.pending: list[tuple[Tuples, Array, Array | None]] = []

    @property
    def slices(self) -> Slices:
        return self.replay.engine.slices

    def start(self, watermark: int) -> None:
        self.replay.engine.watermark = watermark
        if watermark != LONG_AGO:
            self.replay.engine.closed_upto = watermark - self.replay.lateness

    def add_keys(self, keys: int) -> None:
        self.replay.add_keys(keys)

    def check(self, tuples: Tuples) -> None:
        if not self.plan.measures:
            return
        late = self.late(tuples)
        refusals = ~self.accepted(tuples, late) if late.any() else None
        waiting = [(events, refused) for events, _, refused in self.pending]
        for c, name, findings in self.plan.measured():
            parts = self.replay.fitting(c)
            # Events that no window on the measure accepts may have any value.
            for events, refused in [*waiting, (tuples, refusals)]:
                parts.append(events if refused is None else events.take(np.flatnonzero(~refused[findings].all(axis=0))))
            everything = Tuples.concat(parts)
            order = everything.order(len(self.replay.position))
            check_measure(everything if order is None else everything.take(order), name, self.replay.behind[2 + c])

    def late(self, tuples: Tuples) -> Array:
        return self.replay.late(tuples)

    def accepted(self, tuples: Tuples, late: Array) -> Array:
        return self.replay.accepted(tuples, late)

    def take(self, tuples: Tuples, late: Array, refusals: Array | None) -> None:
        self.pending.append((tuples.copy(), late, refusals))

    def advance(self, watermark: int, over: bool, partial: bool, passed: Array) -> Rows:
        events = [_nothing(self.plan)] + [t for t, _, _ in self.pending]
        tuples = Tuples.concat(events) if len(events) > 1 else events[0]
        late = np.concatenate([np.zeros(0, np.bool_), *(mask for _, mask, _ in self.pending)])
        refusals = np.zeros((len(self.plan.findings), len(tuples)), np.bool_)
        at = 0
        for t, _, refused in self.pending:
            if refused is not None:
                refusals[:, at : at + len(t)] = refused
            at += len(t)
        self.pending = []
        if not over:
            waits = tuples.ts > watermark
            if waits.any():
                self.pending = [(tuples.take(waits), late[waits], None)]
                tuples, late, refusals = tuples.take(~waits), late[~waits], refusals[:, ~waits]
        return self.replay.advance(tuples, refusals, late, watermark, over, partial, passed)

    def most_rows(self, coming: Coming, limit: RowLimit) -> float:
        e, emitted = self.replay.engine, len(self.replay.emitted)
        kept = 0 if self.replay.tuples is None else len(self.replay.tuples)
        events = kept + sum(len(t) for t, _, _ in self.pending) + coming.events
        late = bool(coming.events) or any(mask.any() for _, mask, _ in self.pending)
        if e.watermark == LONG_AGO or len(e.empty):
            waiting = [int(t.ts.min()) for t, _, _ in self.pending if len(t)]
            coming = coming._replace(least=min([coming.least, *waiting]))
        start = coming.least if e.watermark == LONG_AGO else e.watermark - self.replay.lateness * late
        found = e.most_rows(coming, limit, events, float(start), rewound=late)
        return coming.times * (found + emitted * e.plan.most_asked)

    def count_for(self, limit: RowLimit | None) -> None:
        e = self.replay.engine
        e.limit, e.spare = limit, 0 if limit is None else len(self.replay.emitted) * e.plan.most_asked

    def needed_keys(self) -> Array:
        needed = self.replay.needed_keys()
        for tuples, _, _ in self.pending:
            needed[tuples.key] = True
        return needed

    def forget(self, keys: Array) -> None:
        self.replay.forget(keys)

    def renumber(self, kept: Array) -> None:
        self.replay.renumber(kept)
        self.pending = [(tuples.renumbered(kept), late, refusals) for tuples, late, refusals in self.pending]

    def _retire(self, findings: set[int]) -> None:
        self.replay.retire(findings)

    def change_store(self) -> None:
        self.replay.engine.change_store()

    def held(self) -> dict[str, int]:
        kept = 0 if self.replay.tuples is None else len(self.replay.tuples)
        return {
            "slices": len(self.slices),
            "tuples": kept + sum(len(t) for t, _, _ in self.pending),
            "correctable": len(self.replay.emitted),
        }


class General(Engine):
    """Events are folded into slices wherever they fall, and forgotten."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift], lateness: int, has_sequence: bool) -> None:
        self.lifts = list(lifts)
        self.sliced = Sliced(plan, lifts, lateness, has_sequence)

    @property
    def slices(self) -> Slices:
        return self.sliced.slices

    def start(self, watermark: int) -> None:
        self.sliced.watermark = watermark

    def add_keys(self, keys: int) -> None:
        self.sliced.add_keys(keys)

    def check(self, tuples: Tuples) -> None:
        pass

    def late(self, tuples: Tuples) -> Array:
        return self.sliced.late(tuples)

    def accepted(self, tuples: Tuples, late: Array) -> Array:
        return self.sliced.accepted(tuples, late)

    def take(self, tuples: Tuples, late: Array, refusals: Array | None) -> None:
        self.sliced.take(tuples, late, refusals)

    def advance(self, watermark: int, over: bool, partial: bool, passed: Array) -> Rows:
        return self.sliced.advance(watermark, over, passed)

    def most_rows(self, coming: Coming, limit: RowLimit) -> float:
        return self.sliced.most_rows(coming, False, limit)

    def count_for(self, limit: RowLimit | None) -> None:
        self.sliced.limit = limit

    def needed_keys(self) -> Array:
        return self.sliced.needed_keys()

    def forget(self, keys: Array) -> None:
        self.sliced.forget(keys)

    def renumber(self, kept: Array) -> None:
        self.sliced.renumber(kept)

    def _retire(self, findings: set[int]) -> None:
        self.sliced.retire(findings)

    def entangled(self, tuples: Tuples) -> bool:
        return self.sliced.entangled(tuples)

    def drop_closed(self) -> None:
        self.sliced.drop_closed()

    def can_join(self) -> bool:
        return not self.sliced.pending and not len(self.sliced.empty)

    def join(self, findings: int, lifts: Sequence[Lift]) -> None:
        self.lifts += lifts
        self.sliced.join(findings, lifts)

    def change_store(self) -> None:
        self.sliced.change_store()

    @property
    def choice(self) -> Choice | None:
        return self.sliced.choice

    def open_windows(self, watermark: int) -> int | None:
        waits = any(len(events) for events, _ in self.sliced.pending)  # late events are in no slice yet
        return None if waits else self.sliced.open_windows(watermark)

    def held(self) -> dict[str, int]:
        s = self.sliced
        return {
            "slices": len(self.slices),
            "tuples": sum(len(t) for t, _ in s.pending),
            "correctable": len(s.emitted) + len(s.revisions.table),
        }


class GeneralInOrder(General):
    """The same for events in order: each is a watermark."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift], lateness: int, has_sequence: bool) -> None:
        super().__init__(plan, lifts, 0, False)
        self.due: list[Rows] = []
        self.found = 0

    def late(self, tuples: Tuples) -> Array:
        return np.zeros(len(tuples), np.bool_)

    def take(self, tuples: Tuples, late: Array, refusals: Array | None) -> None:
        super().take(tuples, late, None)
        self.due.append(self.sliced.advance(int(tuples.ts[-1]), False, NO_WATERMARKS))
        self.found += len(self.due[-1])

    def join(self, findings: int, lifts: Sequence[Lift]) -> None:
        super().join(findings, lifts)
        self.due = [rows.joined(lifts) for rows in self.due]

    def most_rows(self, coming: Coming, limit: RowLimit) -> float:
        if not coming.over and not coming.events and coming.watermark <= self.sliced.watermark:
            return 0
        return self.sliced.most_rows(coming, True, limit)

    def waiting(self) -> list[Rows]:
        return self.due

    def advance(self, watermark: int, over: bool, partial: bool, passed: Array) -> Rows:
        if over or watermark > self.sliced.watermark:
            self.due.append(self.sliced.advance(watermark, over, NO_WATERMARKS))
        due, self.due, self.found = self.due, [], 0
        return Rows.concat(due) if due else no_rows(self.lifts)


def first_rows(completed: Completed) -> Rows:
    """Rows of windows that come out for the first and last time."""
    n = len(completed)
    return Rows(
        completed.finding,
        completed.key,
        completed.low,
        completed.high,
        completed.start,
        completed.end,
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
        completed.partials,
    )


def no_rows(lifts: Sequence[Lift]) -> Rows:
    none = np.empty(0, np.int64)
    partials = [lift.monoid.allocate(0) for lift in lifts]
    return Rows(none, none, none, none, none, none, none, none.astype(np.bool_), partials)


def _nothing(plan: Plan) -> Tuples:
    none = np.empty(0, np.int64)
    columns = {name: np.empty(0, plan.dtypes.get(name, np.dtype(np.int64))) for name in plan.held}
    return Tuples(none, none, none, none, columns, {}, [np.empty(0, np.bool_) for _ in plan.predicates])
