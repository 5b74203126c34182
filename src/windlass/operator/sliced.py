"""The engine that drops tuples though events come in any order: general stream slicing (Scotty 5).

For windows with fixed edges in time and for sessions, over commutative aggregates. Events are folded into their
slices as they arrive, late ones at the next watermark; then the windows that are complete, and those that late events
have altered, are answered from slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns
from windlass.operator import revisions
from windlass.operator.choice import EAGER, FIBA, Choice
from windlass.operator.emitted import (
    END,
    EVENTS,
    FINDING,
    HIGH,
    KEY,
    LOW,
    START,
    STATE,
    VALID,
    WIDTH,
    Emitted,
    Rows,
)
from windlass.operator.lift import Lift
from windlass.operator.plan import Plan
from windlass.operator.replay import holds
from windlass.operator.revisions import Revisions
from windlass.operator.row_limit import Coming, RowLimit
from windlass.operator.tuples import Tuples
from windlass.operator.watermarks import NO_WATERMARKS, closed_by
from windlass.slicing import due, edges, general, instructions, retention, sessions
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.forest import Forest
from windlass.slicing.rates import Rates
from windlass.slicing.slices import BASE, CLEAN, FIRST, HI, LO, Slices
from windlass.slicing.slices import END as SLICE_END
from windlass.slicing.specifications import EMIT_EMPTY, ENDS, ORIGIN, PERIOD, STEP
from windlass.slicing.specifications import FINDING as SPEC_FINDING
from windlass.stateful import Stateful
from windlass.windows.session import SessionGap
from windlass.windows.window import Periodic

Array = np.ndarray[Any, Any]

_MANY = 4096  # keys from which on looking at all of them is work
_ROOM = _PART = 1 << 14  # windows whose program stays in the cache


class Sliced(Stateful):
    """Windows with fixed edges, and sessions, over slices."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift], lateness: int, has_sequence: bool) -> None:
        self.plan, self.lifts, self.lateness, self.has_sequence = plan, list(lifts), lateness, has_sequence
        self.slices, self.forest = Slices(), Forest()
        self.choice = Choice(plan.chosen, plan.may_learn)
        self.windows = self.scanned = 0  # answered since the last watermark, and their slices
        self.specs = plan.specs()
        self.periodic = plan.periodic
        self.bounds = [b for i in self.periodic if isinstance(b := plan.findings[i].bound, Periodic)]
        self.sessions = [(i, b.gap) for i in plan.sessions if isinstance(b := plan.findings[i].bound, SessionGap)]
        self.retired: set[int] = set()  # findings of queries that were removed
        self._find_edges()
        self.floor = self._floor(self.specs)
        self.watermark = LONG_AGO
        self.epoch = 1
        self.room = _ROOM  # windows that are expected to be due
        self.cells = 1024  # slices that a batch is expected to be cut into
        self.kept_from, self.evict_at = LONG_AGO, 0
        self.keys = 0
        # Only where empty windows are counted: the first event of each key, by specification, because an event may
        # come too late for one and not for another, and the last.
        self.empty = self._with_empty_windows()
        apart = len(self.specs) if len(self.empty) else 0
        self.earliest = np.empty((apart, 0), np.int64)
        self.started = np.empty((apart, 0), np.bool_)  # whether the first event was final at the last watermark
        self.latest = np.empty(0, np.int64)
        self.pending: list[tuple[Tuples, Array]] = []  # late events that wait for the next watermark, and refusals
        self.revisions = Revisions()  # of windows with fixed edges that came out more than once
        self.emitted = Emitted([lift.monoid for lift in lifts])  # sessions that may have to be corrected
        self.limit: RowLimit | None = None  # set during a call that may return too many rows

    def _with_empty_windows(self) -> Array:
        """The specifications whose windows may be empty."""
        return np.flatnonzero((self.specs[:, EMIT_EMPTY] != 0) & (self.specs[:, PERIOD] > 0))

    def add_keys(self, keys: int) -> None:
        if keys > len(self.latest):
            more = max(keys, 2 * len(self.latest), 16) - len(self.latest)
            fresh = np.full((len(self.earliest), more), NEVER, np.int64)
            self.earliest = np.concatenate([self.earliest, fresh], axis=1)
            self.started = np.concatenate([self.started, np.zeros(fresh.shape, np.bool_)], axis=1)
            self.latest = np.concatenate([self.latest, np.full(more, LONG_AGO, np.int64)])
            self.slices.add_keys(len(self.latest))
        self.keys = max(self.keys, keys)

    def retire(self, findings: set[int]) -> None:
        """Forget windows that are not asked for any more. Slices that are finer than needed now do no harm."""
        left = [d for d, i in enumerate(self.periodic) if i not in findings]
        rows = [d for d in left if d < len(self.earliest)]  # windows of joined queries have no rows there
        self.earliest, self.started = self.earliest[rows], self.started[rows]
        self.periodic = [self.periodic[d] for d in left]
        self.specs, self.bounds = self.specs[left], [self.bounds[d] for d in left]
        self.empty, self.floor = self._with_empty_windows(), self.floor[left]
        if not len(self.empty):
            self.earliest, self.started = self.earliest[:0], self.started[:0]
        self.sessions = [(i, gap) for i, gap in self.sessions if i not in findings]
        self._find_edges()
        self.emitted.close(np.isin(self.emitted.table[:, FINDING], list(findings)))
        self.retired |= findings

    def join(self, findings: int, lifts: Sequence[Lift]) -> None:
        """The plan has more windows than so many, and partials of these. They begin after a time that no event here has
        passed; from there on slices are cut for all windows, so one that reaches beyond it ends with the next edge."""
        fresh = [i for i in self.plan.periodic if i >= findings]
        specs = self.plan.specs()
        specs, since = specs[specs[:, SPEC_FINDING] >= findings], self.plan.findings[findings].since
        self.specs, self.periodic = np.concatenate([self.specs, specs]), [*self.periodic, *fresh]
        self.bounds += [b for i in fresh if isinstance(b := self.plan.findings[i].bound, Periodic)]
        self.floor = np.concatenate([self.floor, self._floor(specs)])
        self._find_edges()
        s = self.slices
        s.rows[:, SLICE_END] = np.minimum(s.rows[:, SLICE_END], edges.next_edge(self.edges, since))
        self.lifts += lifts
        for lift in self.lifts:
            if not lift.retired:
                lift.fill(s.slots)
        self.emitted.join(lifts)
        self._drop_store()

    def change_store(self) -> None:
        """The plan has another store now."""
        self.choice = Choice(self.plan.chosen, self.plan.may_learn)
        self._drop_store()

    def _floor(self, specs: Array) -> Array:
        """By specification: windows that end by then are not asked for, because they begin before the query was
        added."""
        since = np.array([self.plan.findings[i].since for i in specs[:, SPEC_FINDING]], np.int64)
        return edges.last_end(specs, since[:, np.newaxis])[:, 0]

    def _drop_store(self) -> None:
        """What was kept over slices does not hold any more."""
        self.forest.clear()
        self.slices.directory[:, CLEAN] = 0
        for lift in self.lifts:
            lift.keep(self.choice.store == EAGER, self.plan.as_tree)

    def needed_keys(self) -> Array:
        """Which keys differ from one that never came: the others can be forgotten, and nobody would know."""
        directory = self.slices.directory
        needed = directory[:, HI] > directory[:, LO]
        if len(self.empty):
            needed |= self.latest != LONG_AGO  # empty windows go on for ever
        needed[self.emitted.table[:, KEY]] = True
        needed[self.revisions.table[:, revisions.KEY]] = True
        for events, _ in self.pending:
            needed[events.key] = True
        return np.asarray(needed)

    def forget(self, keys: Array) -> None:
        """Make keys that have ended as if they had never come. None of their events waits."""
        gone = np.zeros(len(self.latest), np.bool_)
        gone[keys] = True
        self.slices.clear(keys)
        self.forest.trim(self.slices)
        self.earliest[:, keys], self.started[:, keys], self.latest[keys] = NEVER, False, LONG_AGO
        self.emitted.forget(gone)
        self.revisions.forget(gone)

    def renumber(self, kept: Array) -> None:
        """Forget all keys but these, which are numbered in this order from now on."""
        for lift in self.lifts:
            lift.reserve(self.slices)
        slots = self.slices.renumber(kept)
        for lift in self.lifts:
            lift.renumber(slots)
        self.forest.clear()
        self.earliest, self.started, self.latest = self.earliest[:, kept], self.started[:, kept], self.latest[kept]
        self.emitted.renumber(kept)
        self.revisions.renumber(kept)
        self.pending = [(events.renumbered(kept), refusals) for events, refusals in self.pending]
        self.keys = 0
        self.add_keys(max(1, len(kept)))

    def _find_edges(self) -> None:
        self.gap = min((gap for _, gap in self.sessions), default=NEVER)
        self.edges = edges.together(edges.begins(self.bounds), edges.ends(self.bounds))
        self.landmarks = np.array(sorted(b.origin for b in self.bounds if b.ends == 0), np.int64)

    # ------------------------------------------------------------------ events

    def late(self, events: Tuples) -> Array:
        w = self.watermark
        if w == LONG_AGO:
            return np.zeros(len(events), np.bool_)
        last = events.ts if events.last is None else events.last
        return np.asarray(last <= w if self.has_sequence else last < w)

    def accepted(self, events: Tuples, late: Array) -> Array:
        accepted = np.ones((len(self.plan.findings), len(events)), np.bool_)
        horizon = self.watermark - self.lateness
        deep = np.flatnonzero(late & (events.ts < horizon))
        if not len(deep):
            return accepted
        key, ts = events.key[deep], events.ts[deep]
        accepted[list(self.retired)] = False
        for i, bound in zip(self.periodic, self.bounds, strict=True):
            accepted[i, deep] = holds(bound, ts, horizon) & (ts > self.plan.findings[i].since)
        for i, gap in self.sessions:
            near = self._near(key, ts, gap) > 0
            accepted[i, deep] = near | (ts + gap > horizon) | (ts + gap >= self.watermark)
        return accepted

    def _near(self, key: Array, ts: Array, gap: int) -> Array:
        near, s = np.zeros(len(ts), np.int8), self.slices
        sessions.near()(key, ts, gap, self.watermark, self.lateness, s.directory, s.rows, near)
        return near

    def entangled(self, events: Tuples) -> bool:
        """Whether an event joins a session that is open, from before the end of one that is closed, whose slices are
        still there. The slices of the one would lie between those of the other."""
        deep = np.flatnonzero(events.ts < self.watermark - self.lateness) if self.sessions else ()
        return bool(len(deep)) and any(
            (self._near(events.key[deep], events.ts[deep], gap) == 2).any() for _, gap in self.sessions
        )

    def drop_closed(self) -> None:
        """Where there are sessions of one gap only: forget those that are closed, now."""
        s, upto = self.slices, self.slices.directory[:, HI].copy()
        sessions.keep()(self.gap, self.watermark, self.lateness, s.directory, s.rows, upto)
        s.evict(upto)
        self.forest.trim(s)

    def take(self, events: Tuples, late: Array, refusals: Array | None) -> None:
        """Fold what is in time now, and late events at the next watermark: they are judged by how windows stood."""
        if refusals is not None:
            chosen = np.flatnonzero(late)
            if len(chosen):
                self.pending.append((events.take(chosen), refusals[:, chosen]))
            events = events.take(np.flatnonzero(~late))
        if len(events):
            self._fold(events)

    def _fold(self, events: Tuples, refusals: Array | None = None) -> Array:
        """Cut events into slices and settle these. Returns them."""
        order = events.order(self.keys)
        events = events.without_order()
        if order is not None:
            events = events.take(order)
            refusals = None if refusals is None else refusals[:, order]
        cut = self._cut(events)
        joined = len(self.slices) if self.sessions or self.retired else 0  # at most; without sessions, none are
        program = general.settle(self.slices, cut, self.gap, self.watermark, self.lateness, self.epoch, joined)
        self._run(program, events)
        if len(self.empty):
            self._note_times(cut, events, refusals)
        return cut

    def _cut(self, events: Tuples) -> Array:
        key, ts = events.key, events.ts
        ends = ts[[0, -1]] if self.keys == 1 else ts
        laid = edges.laid_out(self.edges, int(ends.min()), int(ends.max()), len(ts))
        none = np.empty(0, np.int64)
        latest = none if events.last is None else events.last
        arguments = (key, ts, latest, self.edges, none if laid is None else laid, self.gap)
        cut = np.empty((min(self.cells, len(ts)), 7), np.int64)
        n = int(general.cut()(*arguments, cut))
        if n > len(cut):
            self.cells = 2 * n
            cut = np.empty((n, 7), np.int64)
            general.cut()(*arguments, cut)
        return cut[:n]

    def _run(self, program: Array, events: Tuples) -> None:
        if events.last is not None:
            program[program[:, 0] == instructions.FOLD, 0] = instructions.ABSORB
        for i, lift in enumerate(self.lifts):
            if events.last is None:
                lift.run(program, events, self.slices, ())
            else:
                lift.run(program, None, self.slices, events.partials[i])

    def _fold_late(self, events: Tuples, refusals: Array) -> Array:
        """Fold late events; first those that most sessions refuse: they are closed when the others come beside them."""
        refused = refusals[[i for i, _ in self.sessions]].sum(axis=0)
        cuts = []
        for count in np.unique(refused)[::-1]:
            rows = np.flatnonzero(refused == count)
            cuts.append(self._fold(events.take(rows), refusals[:, rows]))
        return np.concatenate(cuts)

    def _note_times(self, cut: Array, events: Tuples, refusals: Array | None) -> None:
        """The first and the last event of each key, between which empty windows are counted."""
        if refusals is None:
            general.note_times()(cut, self.earliest, self.latest)
            return
        general.note_times()(cut, self.earliest[:0], self.latest)
        for d, i in enumerate(self.periodic):
            seen = ~refusals[i]
            np.minimum.at(self.earliest[d], events.key[seen], events.ts[seen])

    # ------------------------------------------------------------------ the row limit

    def most_rows(self, coming: Coming, is_in_order: bool, limit: RowLimit) -> float:
        """Upper bound on the rows of a call. Refuse it if it certainly exceeds the limit."""
        late = sum(len(events) for events, _ in self.pending)
        events = len(self.slices) + coming.events + late
        rises = 1 if is_in_order or not (late or coming.events) else 2 * coming.times  # corrections come with each
        of = self.plan.asked
        others = sum(int(of[i]) for i, _ in self.sessions) * events
        others += self.plan.most_asked * len(self.emitted) if self.sessions else 0
        most = rises * (events * self.plan.rates.total + others)
        if most <= limit.most and not len(self.empty):
            return most
        rates = Rates(self.specs, of)
        most = rises * (rates.most(events, self.keys, self._span(coming, rates)) + others)
        if most <= limit.most or late or coming.events or self.plan.since != LONG_AGO:
            return most
        counts = self._count_due(*self._due_between(self.watermark, coming.upto))
        return limit.check(self.plan, self.periodic, counts) + others

    def _span(self, coming: Coming, rates: Rates) -> Array:
        """The span of time in which windows may come out, by specification; infinite if unknown."""
        if self.watermark != LONG_AGO:
            start = np.full(len(self.specs), float(self.watermark - self.lateness))
        elif len(self.empty):
            first = np.minimum(self.earliest.min(axis=1, initial=NEVER), coming.least)
            start = first.astype(np.float64) - rates.size
        else:
            start = (-np.inf if len(self.slices) else float(coming.least)) - rates.size
        return np.asarray(coming.ends(rates) - start)

    def _count_due(self, chosen: Array, after: Array, upto: Array) -> Array:
        """Number of windows that `_enumerate` would find, by specification."""
        counts, s = np.zeros(len(self.specs), np.int64), self.slices
        of = np.zeros(len(chosen), np.int64)
        due.count()(self.specs[chosen], after, upto, self.earliest, self.latest, s.directory, s.rows, of)
        counts[chosen] = of
        return counts

    def _count_altered(self, late: Array, after: Array, upto: Array, known_from: Array) -> Array:
        """Number of windows that late events have altered, by specification, without landmarks."""
        counts = np.zeros(len(self.specs), np.int64)
        times, starts = self._times_by_key(late)
        due.count_altered()(self.specs, after, upto, times, starts, counts)
        for d in self.empty:  # those before the window that was the key's first
            o, p, step, ends = (int(self.specs[d, column]) for column in (ORIGIN, PERIOD, STEP, ENDS))
            had = np.where(known_from[d] == NEVER, 0, known_from[d])
            first = o + ((had - step * ends - o) // p + 1) * p
            fresh = np.where(known_from[d] == NEVER, upto[d], np.minimum(upto[d], first + step * ends - p))
            some = np.array([d])
            counts[d] = max(counts[d], self._count_due(some, after[some], fresh[np.newaxis])[d])
        return counts

    # ------------------------------------------------------------------ windows

    def advance(self, watermark: int, over: bool, passed: Array) -> Rows:
        """The rows that come out at this watermark. `passed`: those before it, where empty windows depend on them."""
        before = self.watermark
        again = np.zeros(len(self.latest), np.bool_)
        parts, late = [], np.empty((0, 7), np.int64)
        if self.pending:
            known_from = self.earliest.copy()
            cuts = []
            for cut_elsewhere in (False, True):
                some = [
                    (events, refused) for events, refused in self.pending if (events.last is not None) == cut_elsewhere
                ]
                if some:
                    refusals = np.concatenate([refused for _, refused in some], axis=1)
                    cuts.append(self._fold_late(Tuples.concat([events for events, _ in some]), refusals))
            late = np.concatenate(cuts)
            self.pending = []
            self.forest.touch(late[:, general.KEY], late[:, general.EARLIEST], self.slices)
            again[late[:, general.KEY]] = True
            parts.append(self._altered(before, late, known_from))
        upto = NEVER if over else watermark
        parts.append(self._due(before, upto, passed))
        parts += [self._sessions(i, gap, before, upto, again) for i, gap in self.sessions]
        rows = Rows.concat(parts)
        if self.choice.learns:
            self._learn(before, late)
        self.watermark = max(before, watermark)
        self.epoch += 1
        if not over:
            self._close()
        return rows

    def _due(self, before: int, upto: int, passed: Array) -> Rows:
        """Windows with fixed edges that are complete now and were not at the last watermark."""
        chosen, after, until = self._due_between(before, upto, passed)
        for d in self.empty:
            self.started[d] = self.earliest[d] <= upto
        if self.limit is not None:
            self.limit.check(self.plan, self.periodic, self._count_due(chosen, after, until))
        found = self._enumerate(chosen, after, until, np.empty((0, 7), np.int64))
        return self._rows(found, np.zeros(len(found), np.int64), upto)

    def _due_between(self, before: int, upto: int, passed: Array = NO_WATERMARKS) -> tuple[Array, Array, Array]:
        """Specifications with windows to come out, and the range of their ends."""
        chosen = np.arange(len(self.specs)) if len(self.empty) else due.with_ends(self.specs, before, upto)
        shape = (len(chosen), len(self.latest) if len(self.empty) else 1)
        after, until = np.full(shape, before, np.int64), np.full(shape, upto, np.int64)
        for d in self.empty:  # empty windows come once the first event is final
            final, fresh = self.earliest[d] <= upto, np.flatnonzero(~self.started[d])
            closed = LONG_AGO if before == LONG_AGO else before - self.lateness
            after[d, fresh] = closed_by(self.earliest[d, fresh], closed, passed, self.lateness)
            until[d, ~final] = LONG_AGO
        np.maximum(after, self.floor[chosen, np.newaxis], out=after)
        return chosen, after, until

    def _altered(self, before: int, cut: Array, known_from: Array) -> Rows:
        """Windows with fixed edges that were complete before, are not closed, and hold late events."""
        keys = len(self.latest)
        late_from, late_upto = np.full(keys, NEVER, np.int64), np.full(keys, LONG_AGO, np.int64)
        general.note_times()(cut, late_from[np.newaxis], late_upto)
        size = (self.specs[:, STEP] * self.specs[:, ENDS])[:, np.newaxis]
        after = np.maximum(late_from, np.full((len(self.specs), 1), before - self.lateness))
        some = late_upto != LONG_AGO
        upto = np.where(
            some & (size > 0), np.minimum(np.where(some, late_upto, 0) + size, before), np.where(some, before, LONG_AGO)
        )
        empty = self.empty
        if len(empty):  # a key's first event is earlier now: so are its first empty windows
            after[empty] = np.where(some, before - self.lateness, after[empty])
            upto[empty] = np.where(some & self.started[empty], before, LONG_AGO)
        np.maximum(after, self.floor[:, np.newaxis], out=after)
        if self.limit is not None:
            self.limit.check(self.plan, self.periodic, self._count_altered(cut, after, upto, known_from))
        found = self._enumerate(np.arange(len(self.specs)), after, upto, cut)
        # An empty window was there if it starts no earlier than the first one that held an event.
        known = found[:, due.KNOWN] == 1
        altered = found[:, due.ALTERED] == 1
        if len(empty):
            spec, key = found[:, due.WINDOW], found[:, due.OWNER]
            there = np.zeros(len(found), np.bool_)
            for d in empty:
                mine = spec == d
                o, p = int(self.specs[d, ORIGIN]), int(self.specs[d, PERIOD])
                if p > 0:
                    had = known_from[d, key[mine]]
                    held = had != NEVER
                    first = o + ((np.where(held, had, 0) - int(size[d, 0]) - o) // p + 1) * p
                    there[mine] = held & (found[mine, due.LOW] >= first)
            altered |= (spec_empty := np.isin(spec, empty)) & ~there
            known |= spec_empty & there
        chosen = np.flatnonzero(altered)
        found, known = found[chosen], known[chosen]
        identity = self._identity(found)
        return self._rows(found, self.revisions.next(identity, known), before)

    def _identity(self, found: Array) -> Array:
        finding = np.array(self.periodic, np.int64)[found[:, due.WINDOW]]
        return np.column_stack([finding, found[:, [due.OWNER, due.LOW, due.HIGH]]])

    def _enumerate(self, chosen: Array, after: Array, upto: Array, late: Array) -> Array:
        if not len(chosen):
            return np.empty((0, 8), np.int64)
        s = self.slices
        out = np.empty((self.room, 8), np.int64, "F")
        specs = self.specs[chosen]
        times = starts = np.empty(0, np.int64)
        if len(late):
            times, starts = self._times_by_key(late)
        arguments = (specs, after, upto, self.earliest, self.latest, self.epoch, times, starts, s.directory, s.rows)
        n = int(due.windows()(*arguments, out))
        self.room = max(_ROOM, 2 * n, self.room // 2)  # so that the next time needs one pass; far more is slow to get
        if n > len(out):
            out = np.empty((n, 8), np.int64, "F")
            due.windows()(*arguments, out)
        if len(chosen) < len(self.specs):
            out[:n, due.WINDOW] = chosen[out[:n, due.WINDOW]]
        return out[:n]

    def _times_by_key(self, late: Array) -> tuple[Array, Array]:
        """Times of late events, sorted by key and time, and the offset of each key."""
        late = late[np.lexsort((late[:, general.EARLIEST], late[:, general.KEY]))]
        starts = np.searchsorted(late[:, general.KEY], np.arange(len(self.latest) + 1))
        return np.ascontiguousarray(late[:, general.EARLIEST]), starts

    def _rows(self, found: Array, revision: Array, upto: int) -> Rows:
        partials = self._answer(found, upto)
        finding = np.array(self.periodic, np.int64)[found[:, due.WINDOW]] if len(found) else np.empty(0, np.int64)
        low, high = found[:, due.LOW], found[:, due.HIGH]
        none = np.zeros(len(found), np.bool_)
        return Rows(finding, found[:, due.OWNER], low, high, low, high, revision, none, partials)

    def _answer(self, found: Array, upto: int) -> list[Columns]:
        """The partials of windows that end up to a time."""
        s = self.slices
        answers = [lift.monoid.allocate(len(found)) for lift in self.lifts]
        if self.choice.learns:
            self.windows += len(found)
            self.scanned += int((found[:, due.UPTO] - found[:, due.FROM]).sum())
        if self.choice.store == FIBA:
            self._ask_trees(found, upto, answers)
            return answers
        eager = self.choice.store == EAGER
        for lift in self.lifts:
            lift.eager = eager
        program = np.empty((min(len(found), _PART) * (2 if eager else 1), instructions.WIDTH), np.int64)
        for i in range(0, len(found), _PART):
            n = int(due.ask()(found[i : i + _PART], upto, s.directory, s.rows, eager, program))
            for lift, partials in zip(self.lifts, answers, strict=True):
                lift.run(program[:n], None, s, tuple(column[i : i + _PART] for column in partials))
        return answers

    def _learn(self, before: int, late: Array) -> None:
        """Let another store take over if the one there is does not suit what came."""
        s = self.slices
        behind = int(general.behind()(late, before, s.directory, s.rows)) if len(late) else 0
        if self.choice.note(self.windows, self.scanned, len(late), behind):
            self._drop_store()
        self.windows = self.scanned = 0

    def _ask_trees(self, found: Array, upto: int, answers: list[Columns]) -> None:
        s, done = self.slices, 0
        if not len(found):
            return
        program, pieces = self.forest.prepare(found, upto, s)
        for lift in self.lifts:
            lift.run_pieces(program, None, pieces, s.slots, self.forest.rows, ())
        while done < len(found):
            done, program, pieces = self.forest.ask(found, done, s)
            for lift, partials in zip(self.lifts, answers, strict=True):
                lift.run_pieces(program, None, pieces, s.slots, self.forest.rows, partials)

    def open_windows(self, watermark: int) -> int:
        """Number of windows that hold events and are incomplete at a watermark, which may be ahead of this engine's."""
        watermark = max(watermark, self.watermark)
        n, asked = 0, self.plan.asked
        if len(self.specs):
            shape = (len(self.specs), len(self.latest) if len(self.empty) else 1)
            after = np.maximum(np.full(shape, watermark, np.int64), self.floor[:, np.newaxis])
            every, upto = np.arange(len(self.specs)), np.full(shape, NEVER, np.int64)
            counts = self._count_due(every, after, upto).tolist()
            n = sum(count * int(asked[i]) for i, count in zip(self.periodic, counts, strict=True))
        again = np.zeros(len(self.latest), np.bool_)
        for i, gap in self.sessions:
            found = self._find_sessions(gap, watermark, NEVER, again)
            since = self.plan.findings[i].since
            count = int(np.count_nonzero(found[:, due.LOW] > since + gap)) if since != LONG_AGO else len(found)
            n += count * int(asked[i])
        return n

    def _find_sessions(self, gap: int, before: int, upto: int, again: Array) -> Array:
        s = self.slices
        out = np.empty((1024, 8), np.int64, "F")
        arguments = (gap, before, upto, self.lateness, again, s.directory, s.rows)
        n = int(sessions.complete()(*arguments, out))
        if n > len(out):
            out = np.empty((n, 8), np.int64, "F")
            sessions.complete()(*arguments, out)
        return out[:n]

    def _sessions(self, i: int, gap: int, before: int, upto: int, again: Array) -> Rows:
        out = self._find_sessions(gap, before, upto, again)
        n = len(out)
        table = np.zeros((n, WIDTH), np.int64)
        table[:, FINDING] = i
        table[:, KEY] = out[:, due.OWNER]
        table[:, LOW] = table[:, START] = out[:, due.LOW]
        table[:, HIGH] = table[:, END] = out[:, due.HIGH]
        table[:, EVENTS] = out[:, due.ALTERED]  # when it last changed: the same if nothing did
        table[:, STATE] = VALID
        partials = self._answer(out, upto)
        if self.lateness == 0:
            return Rows.of(table, partials)  # closed as soon as they are complete
        return self.emitted.emit(table, partials, again, finding=i)

    # ------------------------------------------------------------------ eviction

    def _close(self) -> None:
        """Forget what is past correction, and drop or merge the slices that nothing needs one by one."""
        s, horizon = self.slices, self.watermark - self.lateness
        self.emitted.close(self.emitted.table[:, END] <= horizon)
        self.revisions.close(horizon)
        start = int(retention.first_starts(self.specs, horizon).min(initial=NEVER))
        if len(s.directory) > _MANY and start == self.kept_from and (not self.sessions or len(s) < self.evict_at):
            return  # nothing fixed has moved; sessions that are over can wait until there are enough of them
        self.kept_from = start
        together = s.directory[:, HI].copy()  # slices before this are needed together only
        if start != NEVER:
            retention.keep_edges()(start, s.directory, s.rows, together)
        upto = together.copy()
        if self.sessions:
            gap = max(gap for _, gap in self.sessions)
            sessions.keep()(gap, self.watermark, self.lateness, s.directory, s.rows, upto)
        if len(self.landmarks):
            retention.keep_edges()(int(self.landmarks[0]), s.directory, s.rows, upto)
        if (upto < together - 1).any():
            self._merge_old(upto, together)
        s.evict(upto)
        self.forest.trim(s)
        self.evict_at = 2 * len(s)

    def _merge_old(self, keep: Array, together: Array) -> None:
        s = self.slices
        before = s.directory[:, HI].copy()
        program = np.empty((len(s) + 1, instructions.WIDTH), np.int64)
        n, s.free_count = retention.merge_old()(
            self.landmarks, self.gap, keep, together, s.directory, s.rows, s.free, s.free_count, program
        )
        for lift in self.lifts:
            lift.run(program[:n], None, s, ())
        if self.choice.store == FIBA:
            left = np.maximum(together - (before - s.directory[:, HI]) - keep, 0)
            keys = np.repeat(np.arange(len(keep)), left)
            at = np.arange(len(keys)) - np.repeat(np.cumsum(left) - left, left) + (s.directory[:, BASE] + keep)[keys]
            self.forest.touch(keys, s.rows[at, FIRST], s)
