"""The engine for windows that need tuples: puts events in order, and goes back when one comes late (Scotty 5.1).

Events wait until their place is final; then they run through the engine for events in order, once. They are kept
as long as a late event could change a window that holds them:

    closed windows     correctable or open windows     not final yet
    ───────────────┬───────────────────────────────┬──────────────────
                frontier                        watermark

At the frontier each window type's context is kept a second time. A late event rewinds its key to there: slices are
dropped, the key's tuples run through the engine again, and what comes out is compared with what was emitted.

A query does not see an event that came too late for it (`refused`), though another query may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windlass.operator.emitted import (
    BEGIN,
    CLOSED,
    END,
    EVENTS,
    FINDING,
    HIGH,
    KEY,
    LOW,
    OLDEST,
    ORDER,
    PLACES,
    RETRACTED,
    START,
    STATE,
    VALID,
    WIDTH,
    YOUNGEST,
    Emitted,
    Rows,
)
from windlass.operator.events import LATEST
from windlass.operator.lift import Lift
from windlass.operator.ordered import (
    FAILED,
    FAILED_BEGIN,
    FAILED_END,
    FAILED_FINDING,
    FAILED_KEY,
    Completed,
    Ordered,
    only,
    run_of,
    wider,
    without,
)
from windlass.operator.plan import Finding, Plan, as_measure
from windlass.operator.tuples import Tuples
from windlass.slicing import retention, searching
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.specifications import COUNT, TIME
from windlass.stateful import Stateful
from windlass.windows.session import SessionGap
from windlass.windows.window import Periodic

Array = np.ndarray[Any, Any]


class Replay(Stateful):
    """Windows over events that come in any order, with their tuples."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift], lateness: int, has_sequence: bool) -> None:
        self.plan, self.lateness, self.has_sequence = plan, lateness, has_sequence
        self.engine = Ordered(plan, lifts, tells_failed=True)
        self.emitted = Emitted([lift.monoid for lift in lifts], plan.has_ordinals)
        self.failed = np.empty((0, FAILED), np.int64)  # runs that a late event may still turn into a window
        self.tuples: Tuples | None = None  # by key, in order
        self.refused: dict[int, Array] = {}  # finding → which tuples came too late for it
        self.unfit: dict[int, Array] = {}  # measure → which tuples came too late for all windows on it
        self.position = np.zeros(0, np.int64)  # of each key's first tuple
        self.retired: set[int] = set()  # findings of queries that were removed
        findings = len(plan.findings)
        orders = [f.bound.closes_by for f in plan.findings]
        self.by_begin = np.array([order == "begin" for order in orders], np.bool_)
        self.by_last = np.array([order == "last" for order in orders], np.bool_)
        self.has_ordinals = plan.has_ordinals
        self.closed = np.empty((findings, 0, PLACES), np.int64)  # the last closed window, in closing order
        self.frontier = np.empty((findings, 0, 2), np.int64)  # (ts, seq) that a late event must not come before
        self.resume = np.empty((findings, 0), np.int64)  # the position from which a rewound finding reads again
        self.own = np.zeros((findings, 0), np.int64)  # how many events it counted before that
        self.behind = np.empty((2 + len(plan.measures), 0), np.int64)  # values of the last event before the tuples
        self.contexts = [c.copy() for c in self.engine.contexts]
        self.carries = [c.copy() for c in self.engine.carries]

    @property
    def watermark(self) -> int:
        return self.engine.watermark

    def add_keys(self, keys: int) -> None:
        before = len(self.engine.count)
        self.engine.add_keys(keys)
        self._add_room(len(self.engine.count) - before)

    def _add_room(self, more: int) -> None:
        """Room for more keys."""
        if more:
            self.position = np.concatenate([self.position, np.zeros(more, np.int64)])
            none = np.full((len(self.closed), more, PLACES), LONG_AGO, np.int64)
            self.closed = np.concatenate([self.closed, none], axis=1)
            self.resume = wider(self.resume, more, 0)
            self.own = wider(self.own, more, 0)
            self.behind = wider(self.behind, more, LONG_AGO)
            fresh = np.full((len(self.frontier), more, 2), LONG_AGO, np.int64)
            if self.watermark != LONG_AGO:
                fresh[:, :, 0] = self.watermark - self.lateness  # a key without windows
            self.frontier = np.concatenate([self.frontier, fresh], axis=1)
            self.contexts = [np.concatenate([c, np.zeros((more, c.shape[1]), np.int64)]) for c in self.contexts]

    def retire(self, findings: set[int]) -> None:
        """Forget windows that are not asked for any more."""
        found = [n for n, (i, _) in enumerate(self.engine.discretizers) if i not in findings]
        self.contexts, self.carries = [self.contexts[n] for n in found], [self.carries[n] for n in found]
        self.engine.retire(findings)
        self.retired |= findings
        left = {c for c, _, _ in self.plan.measured()}
        self.unfit = {c: mask for c, mask in self.unfit.items() if c in left}
        self.emitted.close(np.isin(self.emitted.table[:, FINDING], list(findings)))
        self.failed = self.failed[~np.isin(self.failed[:, FAILED_FINDING], list(findings))]

    def needed_keys(self) -> Array:
        """Which keys differ from one that never came: the others can be forgotten, and nobody would know."""
        needed = self.engine.needed_keys()
        needed[self.emitted.table[:, KEY]] = True
        if self.tuples is not None:
            needed[self.tuples.key] = True
        return needed

    def forget(self, keys: Array) -> None:
        """Make keys that have ended as if they had never come."""
        gone = np.zeros(len(self.position), np.bool_)
        gone[keys] = True
        self.engine.forget(keys)
        self.emitted.forget(gone)
        if self.tuples is not None:
            rows = np.flatnonzero(~gone[self.tuples.key])
            self.tuples = self.tuples.take(rows)
            self.refused = {i: mask[rows] for i, mask in self.refused.items() if mask[rows].any()}
            self.unfit = {c: mask[rows] for c, mask in self.unfit.items() if mask[rows].any()}
        self.position = np.where(gone, 0, self.position)
        self.closed[:, keys], self.behind[:, keys] = LONG_AGO, LONG_AGO
        self.failed = self.failed[~gone[self.failed[:, FAILED_KEY]]]
        self.resume[:, keys] = self.own[:, keys] = 0
        self.frontier[:, keys] = self.watermark - self.lateness, LONG_AGO
        self.contexts, self.carries = without(keys, self.contexts, self.carries)

    def renumber(self, kept: Array) -> None:
        """Forget all keys but these, which are numbered in this order from now on."""
        if self.tuples is not None:
            self.tuples = self.tuples.renumbered(kept)
        self.emitted.renumber(kept)
        self.failed = self.failed.copy()
        self.failed[:, FAILED_KEY] = np.searchsorted(kept, self.failed[:, FAILED_KEY])
        self.position, self.closed = self.position[kept], self.closed[:, kept]
        self.frontier, self.resume, self.own = self.frontier[:, kept], self.resume[:, kept], self.own[:, kept]
        self.behind = self.behind[:, kept]
        self.contexts, self.carries = only(kept, self.contexts, self.carries)
        self.engine.renumber(kept)
        self._add_room(len(self.engine.count) - len(kept))

    # ------------------------------------------------------------------ late events

    def late(self, events: Tuples) -> Array:
        """Which events come before the watermark."""
        w = self.watermark
        if w == LONG_AGO:
            return np.zeros(len(events), np.bool_)
        return events.ts <= w if self.has_sequence else events.ts < w

    def accepted(self, events: Tuples, late: Array) -> Array:
        """For each finding, which events it still accepts."""
        accepted = np.ones((len(self.plan.findings), len(events)), np.bool_)
        horizon = self.watermark - self.lateness
        deep = np.flatnonzero(late & (events.ts < horizon))
        if not len(deep):
            return accepted
        key, ts, seq = events.key[deep], events.ts[deep], events.seq[deep]
        for i, finding in enumerate(self.plan.findings):
            bound = finding.bound
            if i in self.retired:
                accepted[i] = False
            elif isinstance(bound, Periodic) and finding.is_grid:
                accepted[i, deep] = holds(bound, ts, horizon)
            elif isinstance(bound, SessionGap):
                alone = (ts + bound.gap > horizon) | (ts + bound.gap >= self.watermark)
                accepted[i, deep] = alone | self._near(i, key, ts, bound.gap)
            else:
                f = self.frontier[i, key]
                accepted[i, deep] = (ts > f[:, 0]) | ((ts == f[:, 0]) & (seq >= f[:, 1]))
        return accepted

    def fitting(self, c: int) -> list[Tuples]:
        """The tuples in which a measure must not decrease."""
        if self.tuples is None:
            return []
        return [self.tuples if c not in self.unfit else self.tuples.take(~self.unfit[c])]

    def _near(self, i: int, key: Array, ts: Array, gap: int) -> Array:
        """Whether an event is within the gap of one of a session that is not closed."""
        near = np.zeros(len(ts), np.bool_)
        if self.tuples is not None and len(self.tuples):
            rows = np.flatnonzero(self._visible(i))
            searching.near()(key, ts, gap, self.tuples.key[rows], self.tuples.ts[rows], near)
        return near

    def _visible(self, i: int) -> Array:
        """Which tuples a finding reads when its key is rewound."""
        assert self.tuples is not None
        key = self.tuples.key
        seen = self._positions(key) >= self.resume[i, key]
        if i in self.refused:
            seen &= ~self.refused[i]
        return np.asarray(seen)

    def _positions(self, key: Array) -> Array:
        """The position of each row of a table that is sorted by key and begins with each key's first tuple."""
        starts = np.searchsorted(key, np.arange(len(self.position)))
        return np.arange(len(key)) - starts[key] + self.position[key]

    # ------------------------------------------------------------------ advance

    def advance(
        self, events: Tuples, refusals: Array, late: Array, watermark: int, over: bool, partial: bool, passed: Array
    ) -> Rows:
        """Take events whose place is final, late ones among them, and give the rows that come out at this watermark.

        `refusals` (findings × events) says which findings came too late for an event.
        """
        again = np.zeros(len(self.position), np.bool_)
        again[events.key[late]] = True
        self.engine.note_first(events, refusals)
        self._merge(events, refusals, again)
        assert self.tuples is not None
        tuples = self.tuples
        sizes = np.bincount(tuples.key, minlength=len(self.position))
        starts = np.cumsum(sizes) - sizes
        new = np.bincount(events.key, minlength=len(self.position))
        counts = np.where(again, sizes, new)
        row_of = starts + sizes - counts
        if again.any():
            self._rewind(np.flatnonzero(again), starts)
        hidden = self._hidden(again, row_of, counts)
        completed = self.engine.consume(
            tuples,
            row_of,
            counts,
            watermark,
            over=over,
            partial=partial,
            hidden=hidden,
            held_from=self.position,
            passed=passed,
            lateness=self.lateness,
        )
        rows = self._emit(completed, again, starts)
        self._note_failed(completed.failed, again, starts)
        self._close(watermark, over, starts)
        self.engine.closed_upto = watermark - self.lateness
        if not over:
            self._move_frontier(starts, sizes)
        return rows

    def _merge(self, events: Tuples, refusals: Array, again: Array) -> None:
        """Put new events among the tuples; where late ones have shifted positions, find again where to resume."""
        tuples = events if self.tuples is None else Tuples.concat([self.tuples, events])
        order = tuples.order(len(self.position))
        masks = {}
        for i in range(len(refusals)):
            if again.any() or i in self.refused or refusals[i].any():
                before = self._visible(i) if self.tuples is not None else np.zeros(0, np.bool_)
                seen = np.concatenate([before, ~refusals[i]])
                masks[i] = seen if order is None else seen[order]
        self.tuples = tuples if order is None else tuples.take(order)
        for c, _, findings in self.plan.measured():
            if c in self.unfit or refusals[findings].any():
                unfit = np.concatenate([self._unfit(c, len(tuples) - len(events)), refusals[findings].all(axis=0)])
                self._fit(c, unfit if order is None else unfit[order])
        self.refused = {}
        for i, seen in masks.items():
            if self.plan.findings[i].is_grid:
                continue
            position = self._positions(self.tuples.key)
            resume = np.full(len(self.position), NEVER, np.int64)
            rows = np.flatnonzero(seen)
            np.minimum.at(resume, self.tuples.key[rows], position[rows])
            end = self.position + np.bincount(self.tuples.key, minlength=len(self.position))
            self.resume[i] = np.where(again, np.minimum(resume, end), self.resume[i])
            refused = ~seen & (position >= self.resume[i, self.tuples.key])
            if refused.any():
                self.refused[i] = refused

    def _unfit(self, c: int, count: int) -> Array:
        return self.unfit.get(c, np.zeros(count, np.bool_))

    def _fit(self, c: int, unfit: Array) -> None:
        """Replace the measure of events that no window on it accepted by that of the event before them.

        Their own values may break the order of the measure.
        """
        assert self.tuples is not None
        self.unfit.pop(c, None)
        rows = np.flatnonzero(unfit)
        if not len(rows):
            return
        self.unfit[c] = unfit
        key, name = self.tuples.key, as_measure(self.plan.measures[c])
        values, at = self.tuples.columns[name].copy(), np.arange(len(unfit))
        before = np.maximum.accumulate(np.where(unfit, -1, at))[rows]
        follows = (before >= 0) & (key[before] == key[rows])
        values[rows] = np.where(follows, values[before], np.maximum(self.behind[2 + c, key[rows]], -LATEST))
        self.tuples.columns[name] = values

    def _rewind(self, keys: Array, starts: Array) -> None:
        """Put keys back to where their tuples begin."""
        e, tuples = self.engine, self.tuples
        assert tuples is not None
        e.slices.clear(keys)
        e.count[keys] = self.position[keys]
        e.latest[:, keys] = self.behind[:, keys]
        first = starts[keys]
        e.earliest[TIME, keys] = np.minimum(e.earliest[TIME, keys], tuples.ts[first])
        for c, name in enumerate(self.plan.measures):
            e.earliest[2 + c, keys] = np.minimum(e.earliest[2 + c, keys], tuples.columns[as_measure(name)][first])
        horizon = self.watermark - self.lateness
        for d, i in enumerate(e.periodic):
            finding = self.plan.findings[i]
            e.after[d, keys] = horizon if finding.is_grid else self.closed[i, keys, 0]
            e.seen_from[d, keys] = self.resume[i, keys]
            if finding.measure == COUNT:
                e.skipped[d, keys] = self.resume[i, keys] - self.own[i, keys]
        for n in range(len(e.discretizers)):
            e.contexts[n][keys] = self.contexts[n][keys]
            e.carries[n] = _replaced(e.carries[n], self.carries[n], keys)

    def _hidden(self, again: Array, row_of: Array, counts: Array) -> dict[int, Array]:
        """For each discretizer that must not see all of the run's events: which ones."""
        if not again.any() and not self.refused:
            return {}
        ends = np.cumsum(counts)
        key = np.repeat(np.arange(len(counts)), counts)
        rows = np.arange(len(key)) - (ends - counts)[key] + row_of[key]
        hidden = {}
        for i, _ in self.engine.discretizers:
            mask = ~self._visible(i)[rows]
            if mask.any():
                hidden[i] = mask
        return hidden

    def _emit(self, completed: Completed, again: Array, starts: Array) -> Rows:
        """Compare with what was emitted; windows that are closed stay as they are."""
        c = completed.take(
            np.flatnonzero((completed.stop > self.position[completed.key]) | (completed.stop == completed.begin))
        )
        found = np.zeros((len(c), WIDTH), np.int64)
        for column, values in (
            (FINDING, c.finding),
            (KEY, c.key),
            (LOW, c.low),
            (HIGH, c.high),
            (START, c.start),
            (END, c.end),
            (BEGIN, c.begin),
            (EVENTS, c.stop - c.begin),
            (STATE, np.full(len(c), VALID)),
        ):
            found[:, column] = values
        assert self.tuples is not None
        tuples = self.tuples
        some = np.flatnonzero(found[:, EVENTS])
        first = starts[c.key[some]] - self.position[c.key[some]]
        oldest = first + np.maximum(c.begin[some], self.position[c.key[some]])
        youngest = first + c.stop[some] - 1
        found[some, OLDEST], found[some, YOUNGEST] = tuples.arrival[oldest], tuples.arrival[youngest]
        found[:, ORDER] = found[:, HIGH]
        for which, row in ((self.by_begin, oldest), (self.by_last, youngest)):
            of = which[found[some, FINDING]]
            found[some[of], ORDER : ORDER + 3] = self._places(row[of])
        if c.twin is not None:
            found[:, ORDER + 3] = c.twin
        was_closed = self._was_closed(c.finding, c.key, found[:, ORDER:])
        was_closed |= self.by_begin[c.finding] & (c.begin < self.resume[c.finding, c.key])
        if was_closed.any():
            kept = np.flatnonzero(~was_closed)
            found, partials = found[kept], [tuple(column[kept] for column in columns) for columns in c.partials]
        else:
            partials = c.partials
        return self.emitted.emit(found, partials, again)

    def _places(self, rows: Array) -> Array:
        """The places of tuples in their key's order."""
        assert self.tuples is not None
        return np.stack([self.tuples.ts[rows], self.tuples.seq[rows], self.tuples.arrival[rows]], axis=1)

    def _was_closed(self, finding: Array | int, key: Array, order: Array) -> Array:
        """Mask: True for windows at or before the last closed one, in closing order."""
        was_closed, level = np.zeros(len(key), np.bool_), np.ones(len(key), np.bool_)
        last = self.closed[finding, key]
        for word in range(PLACES):
            was_closed |= level & (order[:, word] < last[:, word])
            level &= order[:, word] == last[:, word]
        return was_closed | level

    def _note_failed(self, failed: Array | None, again: Array, starts: Array) -> None:
        """Record runs too short for a frame. For replayed keys, replace the earlier records."""
        if len(self.failed) and again.any():
            self.failed = self.failed[~again[self.failed[:, FAILED_KEY]]]
        if failed is not None:
            finding, key, begin = (failed[:, word] for word in (FAILED_FINDING, FAILED_KEY, FAILED_BEGIN))
            failed = failed[begin >= self.resume[finding, key]]  # an earlier one is the rest of a closed run
            failed = failed[
                ~self._was_closed(failed[:, FAILED_FINDING], failed[:, FAILED_KEY], self._orders(failed, starts))
            ]
            self.failed = np.concatenate([self.failed, failed])

    def _orders(self, failed: Array, starts: Array) -> Array:
        """The places of runs in closing order."""
        key = failed[:, FAILED_KEY]
        places = self._places(failed[:, FAILED_BEGIN] - self.position[key] + starts[key])
        return np.column_stack([places, np.zeros(len(failed), np.int64)])

    def _close(self, watermark: int, over: bool, starts: Array) -> None:
        """Windows past correction: remember how far they reach, and forget them."""
        table = self.emitted.table
        over_by = NEVER if over else watermark - self.lateness
        closed = table[:, END] <= over_by
        gone = table[closed & (table[:, STATE] == VALID)]
        self._raise_closed(gone[:, FINDING], gone[:, KEY], gone[:, ORDER:])
        failed = self.failed[:, FAILED_END] <= over_by
        if failed.any():
            gone = self.failed[failed]
            self.failed = self.failed[~failed]
            self._raise_closed(gone[:, FAILED_FINDING], gone[:, FAILED_KEY], self._orders(gone, starts))
        # A window whose bounds depend on events may come back, or a new one may get the bounds of a closed one.
        # Keep such rows until the frontier has passed them.
        finding, found_in_events = table[:, FINDING], self.by_begin | self.by_last
        table[closed & (table[:, STATE] == VALID), STATE] = CLOSED
        stays = found_in_events[finding] & ((table[:, STATE] == RETRACTED) | self.has_ordinals[finding])
        self.emitted.close(closed & ~stays)

    def _raise_closed(self, finding: Array, key: Array, order: Array) -> None:
        """Mark these windows, and all before them in closing order, as closed."""
        later = np.flatnonzero(~self._was_closed(finding, key, order))
        later = later[np.lexsort(order[later].T[::-1])]  # the last assignment wins
        self.closed[finding[later], key[later]] = order[later]

    def _forget_passed(self, i: int, horizon: int) -> None:
        """Drop closed and retracted windows whose bounds no later window can have."""
        table = self.emitted.table
        over = (table[:, FINDING] == i) & (table[:, STATE] != VALID)
        if over.any():
            bound = table[:, LOW] if self.by_begin[i] else table[:, HIGH] - 1
            self.emitted.close(over & (bound < np.minimum(self.frontier[i, table[:, KEY], 0], horizon)))

    # ------------------------------------------------------------------ the frontier

    def _move_frontier(self, starts: Array, sizes: Array) -> None:
        """Raise each finding's frontier over what is closed, and drop the tuples that are behind all of them."""
        tuples, e = self.tuples, self.engine
        assert tuples is not None
        horizon = e.watermark - self.lateness
        keys = np.arange(len(self.position))
        recent = searching.first_at(tuples.ts, starts, sizes, np.full(len(keys), horizon))
        end = self.position + sizes
        least = end.copy()
        for i, finding in enumerate(self.plan.findings):
            bound = finding.bound
            if i in self.retired:
                continue
            if isinstance(bound, Periodic) and finding.is_grid:
                begin = first_start(bound, horizon)
                resume = (
                    self.position + searching.first_at(tuples.ts, starts, sizes, np.full(len(keys), begin)) - starts
                )
                least = np.minimum(least, resume)
                continue
            begun = self._open_from(i, starts)
            log = self.emitted.table
            alive = log[(log[:, FINDING] == i) & (log[:, STATE] == VALID)]
            np.minimum.at(begun, alive[:, KEY], alive[:, BEGIN])
            failed = self.failed[self.failed[:, FAILED_FINDING] == i]
            np.minimum.at(begun, failed[:, FAILED_KEY], failed[:, FAILED_BEGIN])
            begun = np.where(begun < self.resume[i], np.where(self.resume[i] < end, self.resume[i], NEVER), begun)
            if isinstance(bound, SessionGap):
                resume = np.minimum(begun, end)
            else:
                resume = np.minimum(np.minimum(begun, self.position + recent - starts), end)
            row = np.clip(starts + resume - self.position, 0, max(0, len(tuples) - 1))
            inside = resume < end
            self.frontier[i, :, 0] = np.where(inside, tuples.ts[row] if len(tuples) else 0, horizon)
            self.frontier[i, :, 1] = np.where(inside, tuples.seq[row] if len(tuples) else 0, LONG_AGO)
            if self.by_begin[i] or self.by_last[i]:
                self._forget_passed(i, horizon)
            resume = np.maximum(resume, self.resume[i])
            self._lag(i, resume, starts)
            self.resume[i] = resume
            least = np.minimum(least, resume)
            for n, (at, d) in enumerate(e.discretizers):
                if at == i:  # read again, its windows may hold events from before
                    least = np.minimum(least, d.needed_from(self.contexts[n], self.carries[n]))
        least = np.maximum(least, self.position)
        self._drop(least, starts)
        e.evict(e.horizon())

    def _columns(self, finding: Finding) -> tuple[Array, ...]:
        """What the window of a finding reads of the tuples."""
        assert self.tuples is not None
        if finding.predicate is not None:
            return (self.tuples.masks[finding.predicate],)
        given = finding.window.columns if finding.measure <= COUNT else ()
        return tuple(self.tuples.columns[name] for name in given)

    def _open_from(self, i: int, starts: Array) -> Array:
        """By key, the position of the first event of the first open window.

        Where events end windows, skip those at or before the last closed one.
        """
        e = self.engine
        for n, (at, d) in enumerate(e.discretizers):
            if at != i:
                continue
            if not self.by_begin[i]:
                return d.open_from(e.contexts[n], e.carries[n]).copy()
            key, first, twin = d.open_windows(e.contexts[n], e.carries[n])
            mine = np.flatnonzero(first >= self.resume[i, key])
            key, first = key[mine], first[mine]
            places = self._places(first - self.position[key] + starts[key])
            mine = np.flatnonzero(~self._was_closed(i, key, np.column_stack([places, twin[mine]])))
            begun = np.full(len(self.position), NEVER)
            np.minimum.at(begun, key[mine], first[mine])
            return begun
        d_ = e.periodic.index(i)
        upto = e.slices.directory[:, 2].copy()
        retention.keep_from()(
            e.specs[d_ : d_ + 1], e.skipped[d_ : d_ + 1], e.horizon(), e.slices.directory, e.slices.rows, upto
        )
        return retention.positions_at(e.slices.directory, e.slices.rows, upto)

    def _lag(self, i: int, resume: Array, starts: Array) -> None:
        """Bring the context at the frontier up to where a rewound finding will read from."""
        e, tuples = self.engine, self.tuples
        assert tuples is not None
        counts = resume - self.resume[i]
        if self.plan.findings[i].measure == COUNT:
            d = e.periodic.index(i)
            self.own[i] = resume - e.skipped[d]
        for n, (at, d_) in enumerate(e.discretizers):
            if at != i or not counts.any():
                continue
            if isinstance(d_, SessionGap):
                continue  # a closed session takes no part in what follows: the context stays empty
            offsets = np.concatenate([[0], np.cumsum(counts)])
            key = np.repeat(np.arange(len(counts)), counts)
            rows = np.arange(len(key)) - offsets[key] + (starts + self.resume[i] - self.position)[key]
            seen = None if i not in self.refused else np.flatnonzero(~self.refused[i][rows])
            columns = tuple(column[rows] for column in self._columns(self.plan.findings[i]))
            ts = tuples.ts[rows]
            run = run_of(offsets, self.resume[i], ts, columns, seen, int(ts.max()), False)
            _, _, self.carries[n] = d_.consume(run, self.contexts[n], self.carries[n])

    def _drop(self, least: Array, starts: Array) -> None:
        tuples = self.tuples
        assert tuples is not None
        dropped = least - self.position
        if not dropped.any():
            return
        keys = np.flatnonzero(dropped)
        last = starts[keys] + dropped[keys] - 1
        self.behind[TIME, keys] = tuples.ts[last]
        for c, name in enumerate(self.plan.measures):
            self.behind[2 + c, keys] = tuples.columns[as_measure(name)][last]
        kept = np.flatnonzero(self._positions(tuples.key) >= least[tuples.key])
        self.tuples = tuples.take(kept)
        self.refused = {i: mask[kept] for i, mask in self.refused.items() if mask[kept].any()}
        self.unfit = {c: mask[kept] for c, mask in self.unfit.items() if mask[kept].any()}
        self.position = least


def holds(bound: Periodic, ts: Array, horizon: int) -> Array:
    """Whether a window that ends after the horizon holds a time."""
    size = bound.step * bound.ends
    start = bound.origin if bound.period == 0 else bound.origin + (ts - bound.origin) // bound.period * bound.period
    if bound.ends == 0:
        return np.asarray(ts >= start)
    return np.asarray((ts >= start) & (ts < start + size) & (start + size > horizon))


def first_start(bound: Periodic, horizon: int) -> int:
    """The start of the first window that ends after the horizon."""
    size = bound.step * bound.ends
    if bound.period:
        return bound.origin + ((horizon - size - bound.origin) // bound.period + 1) * bound.period
    return bound.origin if bound.ends == 0 or bound.origin + size > horizon else NEVER


def _replaced(carry: Array, saved: Array, keys: Array) -> Array:
    """A carry with the rows of some keys put back."""
    mine = np.concatenate([carry[~np.isin(carry[:, 0], keys)], saved[np.isin(saved[:, 0], keys)]])
    return mine[np.argsort(mine[:, 0], kind="stable")]
