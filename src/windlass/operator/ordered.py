"""The engine for events in order: slices begin where windows begin, and windows are answered as they end (Cutty).

Given a run of events that is in order for each key, it finds the windows that are now complete and their partials.
Nothing here knows about lateness; `replay` puts events in order first and goes back when one comes late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns
from windlass.errors import OutOfOrder
from windlass.operator.lift import Lift
from windlass.operator.plan import Plan, as_measure
from windlass.operator.row_limit import Coming, RowLimit
from windlass.operator.tuples import Tuples
from windlass.operator.watermarks import NO_WATERMARKS, closed_by
from windlass.slicing import cutty, edges, retention, splitting
from windlass.slicing.cutty import BEGIN, END_TIME, KEY, LOW, START_TIME, STOP, TOLD, TWIN, UNTIL, WINDOW
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.instructions import WIDTH
from windlass.slicing.rates import Rates
from windlass.slicing.slices import CLEAN, HI, LO, Slices
from windlass.slicing.sorting import distinct_pairs, sorted_rows
from windlass.slicing.specifications import COUNT, EMIT_EMPTY, ENDS, MEASURE, ORIGIN, PERIOD, TIME
from windlass.slicing.techniques import cut_at
from windlass.stateful import Stateful
from windlass.windows.session import SessionGap
from windlass.windows.window import UNKNOWN, Discretizer, Periodic, Run

Array = np.ndarray[Any, Any]

FRAGMENT = LONG_AGO + 1  # lower bound of a window that may have begun before the query was added


# The columns of `Completed.failed`.
FAILED = 5
FAILED_FINDING, FAILED_KEY, FAILED_BEGIN, FAILED_START, FAILED_END = range(FAILED)


@dataclass
class Completed:
    """Windows that are complete, with the partials of every lift, a row a window."""

    finding: Array  # which window of the plan
    key: Array
    begin: Array  # positions of its events in the key's order
    stop: Array
    low: Array  # bounds in its own measure
    high: Array
    start: Array  # bounds in event time
    end: Array
    partials: list[Columns]  # by lift
    twin: Array | None = None  # how many windows had begun with the same event before
    failed: Array | None = None  # rows FAILED: runs of events that ended without being a window

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: Array) -> Completed:
        return Completed(
            self.finding[rows],
            self.key[rows],
            self.begin[rows],
            self.stop[rows],
            self.low[rows],
            self.high[rows],
            self.start[rows],
            self.end[rows],
            [tuple(column[rows] for column in columns) for columns in self.partials],
            None if self.twin is None else self.twin[rows],
            self.failed,
        )

    @classmethod
    def of(cls, windows: Array, partials: list[Columns]) -> Completed:
        """From what kernels write."""
        finding, key, begin, stop, low, high, _, _, *told = windows
        start, end, twin = told or (low, high, None)
        return cls(finding, key, begin, stop, low, high, start, end, partials, twin)


class Ordered(Stateful):
    """Windows over the events of many keys, each key's in order."""

    def __init__(self, plan: Plan, lifts: Sequence[Lift], tells_failed: bool = False) -> None:
        self.plan, self.lifts = plan, list(lifts)
        self.tells_failed = tells_failed  # whether to fill `Completed.failed`
        self.slices = Slices(len(plan.measures))
        self.specs = plan.specs()
        self.periodic = plan.periodic
        self.discretizers: list[tuple[int, Discretizer]] = [
            (i, b) for i in plan.discretizers if isinstance(b := plan.findings[i].bound, Discretizer)
        ]
        self._look()
        measures = 2 + len(plan.measures)
        self.keys = 0
        self.watermark = LONG_AGO
        self.count = np.zeros(0, np.int64)  # events of each key so far
        self.earliest = np.empty((measures, 0), np.int64)  # value of each key's first event, by measure
        self.latest = np.empty((measures, 0), np.int64)
        self.after = np.empty((len(self.specs), 0), np.int64)  # windows that end by then are done, by specification
        self.skipped = np.zeros((len(self.specs), 0), np.int64)  # positions it does not count
        self.seen_from = np.zeros((len(self.specs), 0), np.int64)  # the position of the first event it sees
        self.begun = np.zeros((len(self.specs), 0), np.int64)  # the first event it saw, if it has empty windows
        self.has_begun = np.zeros((len(self.specs), 0), np.bool_)
        self.contexts = [np.zeros((0, d.width), np.int64) for _, d in self.discretizers]
        self.carries = [d.no_carry() for _, d in self.discretizers]
        self.closed_upto = LONG_AGO  # empty windows that end by then no longer come out
        self.epoch = 0
        self.room = 1024  # windows that are expected to complete in a run
        self.limit: RowLimit | None = None  # set during a call that may return too many rows
        self.spare = 0  # how many of the windows found in that call may be old ones, which do not come out

    @property
    def splits(self) -> bool:
        """Whether windows may begin inside of slices."""
        return any(d.splits for _, d in self.discretizers)

    def _look(self) -> None:
        """Where slices begin for periodic windows, by measure, and which of these need something of their own."""
        bounds = [(self.plan.findings[i].measure, self.plan.findings[i].bound) for i in self.periodic]
        self.begins = [
            cut_at(self.plan.technique, [b for measure, b in bounds if measure == c and isinstance(b, Periodic)])
            for c in range(2 + len(self.plan.measures))
        ]
        self.empty = np.flatnonzero(self.specs[:, EMIT_EMPTY])
        self.counted = np.flatnonzero(self.specs[:, MEASURE] == COUNT)
        self.on_columns = np.flatnonzero(self.specs[:, MEASURE] > COUNT)

    def retire(self, findings: set[int]) -> None:
        """Forget windows that are not asked for any more."""
        left = [d for d, i in enumerate(self.periodic) if i not in findings]
        self.periodic = [self.periodic[d] for d in left]
        self.specs, self.after, self.skipped = self.specs[left], self.after[left], self.skipped[left]
        self.seen_from, self.begun, self.has_begun = self.seen_from[left], self.begun[left], self.has_begun[left]
        found = [n for n, (i, _) in enumerate(self.discretizers) if i not in findings]
        self.discretizers = [self.discretizers[n] for n in found]
        self.contexts, self.carries = [self.contexts[n] for n in found], [self.carries[n] for n in found]
        self._look()

    def change_store(self) -> None:
        """The plan has another store now; what was kept over slices does not hold."""
        self.slices.directory[:, CLEAN] = 0
        for lift in self.lifts:
            lift.keep(self.plan.eager, self.plan.as_tree)

    def add_keys(self, keys: int) -> None:
        if keys <= self.keys:
            return
        grown = max(keys, 2 * len(self.count)) if keys > len(self.count) else len(self.count)
        more = grown - len(self.count)
        if more:
            self.count = np.concatenate([self.count, np.zeros(more, np.int64)])
            self.earliest = wider(self.earliest, more, NEVER)
            self.latest = wider(self.latest, more, LONG_AGO)
            self.after = wider(self.after, more, LONG_AGO)
            self.skipped = wider(self.skipped, more, 0)
            self.seen_from = wider(self.seen_from, more, 0)
            self.begun = wider(self.begun, more, NEVER)
            self.has_begun = np.concatenate([self.has_begun, np.zeros((len(self.specs), more), np.bool_)], axis=1)
            self.contexts = [np.concatenate([c, np.zeros((more, c.shape[1]), np.int64)]) for c in self.contexts]
        self.slices.add_keys(grown)
        self.keys = keys

    @property
    def forgets(self) -> bool:
        """Whether nothing of a key is left once its windows are complete: positions do not count, and no window
        reaches back for ever."""
        s = self.specs
        fixed = (s[:, MEASURE] == TIME) & (s[:, ENDS] > 0) & (s[:, EMIT_EMPTY] == 0)
        return bool(fixed.all()) and all(isinstance(d, SessionGap) for _, d in self.discretizers)

    def needed_keys(self) -> Array:
        """Which keys differ from one that never came: the others can be forgotten, and nobody would know."""
        if not self.forgets:
            return np.asarray((self.latest[TIME] != LONG_AGO) | (self.begun != NEVER).any(axis=0))
        directory = self.slices.directory
        needed = directory[:, HI] > directory[:, LO]
        for (_, d), context, carry in zip(self.discretizers, self.contexts, self.carries, strict=True):
            needed |= d.open_from(context, carry) != NEVER
        return np.asarray(needed)

    def forget(self, keys: Array) -> None:
        """Make keys that have ended as if they had never come."""
        self.slices.clear(keys)
        self.count[keys] = 0
        self.earliest[:, keys], self.latest[:, keys], self.after[:, keys] = NEVER, LONG_AGO, LONG_AGO
        self.skipped[:, keys] = self.seen_from[:, keys] = 0
        self.begun[:, keys], self.has_begun[:, keys] = NEVER, False
        self.contexts, self.carries = without(keys, self.contexts, self.carries)

    def renumber(self, kept: Array) -> None:
        """Forget all keys but these, which are numbered in this order from now on."""
        for lift in self.lifts:
            lift.reserve(self.slices)
        slots = self.slices.renumber(kept)
        for lift in self.lifts:
            lift.renumber(slots)
        self.count, self.earliest, self.latest = self.count[kept], self.earliest[:, kept], self.latest[:, kept]
        self.after, self.skipped, self.seen_from = self.after[:, kept], self.skipped[:, kept], self.seen_from[:, kept]
        self.begun, self.has_begun = self.begun[:, kept], self.has_begun[:, kept]
        self.contexts, self.carries = only(kept, self.contexts, self.carries)
        self.keys = 0
        self.add_keys(max(1, len(kept)))

    def note_first(self, tuples: Tuples, refusals: Array | None = None) -> None:
        """Record each key's first event that a window has accepted.

        Empty windows start there. So do the whole windows on a column of a query that was added later.
        """
        for d in self.empty.tolist():
            self._begin(d, tuples, tuples.ts, refusals)
        if self.plan.since != LONG_AGO:
            for d in self.on_columns.tolist():
                name = self.plan.measures[self.specs[d, MEASURE] - 2]
                self._begin(d, tuples, tuples.columns[as_measure(name)], refusals)

    def _begin(self, d: int, tuples: Tuples, values: Array, refusals: Array | None) -> None:
        seen = np.ones(len(tuples), np.bool_) if refusals is None else ~refusals[self.periodic[d]]
        np.minimum.at(self.begun[d], tuples.key[seen], values[seen])

    def begin_empty(self, tuples: Tuples) -> None:
        """Set where the empty windows of new keys start, if each event is a watermark.

        The event before a key's first one has closed all windows that end by then, this key's empty ones among them.
        """
        if not len(self.empty):
            return
        fresh = np.flatnonzero(~self.has_begun[self.empty[0], tuples.key])
        keys, at = np.unique(tuples.key[fresh], return_index=True)
        first = fresh[at]
        before = np.where(first > 0, tuples.ts[first - 1], self.watermark)
        for d in self.empty:
            self.after[d, keys], self.has_begun[d, keys] = before, True

    # ------------------------------------------------------------------ a run

    def consume(
        self,
        tuples: Tuples,
        row_of: Array,
        counts: Array,
        watermark: int,
        *,
        over: bool = False,
        partial: bool = False,
        hidden: dict[int, Array] | None = None,
        held_from: Array | None = None,
        passed: Array = NO_WATERMARKS,
        lateness: int = 0,
    ) -> Completed:
        """Take, for each key k, the events in rows row_of[k] … row_of[k] + counts[k] - 1, which follow all earlier
        ones.

        Where slices may be split, `held_from` is the position of the first event of each key that is in `tuples`.
        `passed` are watermarks since the last run, if it matters which empty windows they have closed.
        """
        self.epoch += 1
        keys = self.keys
        row_of, counts, first = row_of[:keys], counts[:keys], self.count[:keys]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        run_rows = _rows_of(row_of, counts, offsets, len(tuples))
        coordinates = self._coordinates(tuples, run_rows)
        previous = self._previous()
        marked = self._mark(coordinates, offsets, first, previous)
        windows: list[Array] = []
        failed: list[Array] = []
        if self.discretizers or len(self.on_columns):
            begins = np.zeros(int(offsets[-1]), np.bool_)
            begins[marked] = True
            for d in self.on_columns:
                at = self.seen_from[d, :keys] - first
                here = np.flatnonzero((at >= 0) & (at < counts))
                begins[offsets[here] + at[here]] = True
            windows, failed = self._discretize(
                tuples, run_rows, offsets, first, watermark, partial, begins, hidden or {}
            )
            if self.splits:
                directory = self.slices.directory[:keys]
                without = np.flatnonzero((directory[:, LO] == directory[:, HI]) & (counts > 0))
                begins[offsets[without]] = True  # a window may begin anywhere, so every event is in a slice
                assert held_from is not None
                self._split(tuples, row_of, first, held_from, windows)
            marked = np.flatnonzero(begins)
        self._append(coordinates, offsets, first, marked)
        self._arrive(coordinates, offsets, counts)
        end = watermark, over, partial
        windows.insert(0, self._complete(coordinates, offsets, first, previous, end, passed, lateness))
        completed = self._answer(tuples, row_of, offsets, first, windows, len(marked))
        completed.failed = np.concatenate(failed) if failed else None
        self.count[:keys] += counts
        self.watermark = max(self.watermark, watermark)
        return completed

    def _coordinates(self, tuples: Tuples, rows: Array | slice) -> Array:
        ts = tuples.ts[rows]
        if not self.plan.measures:
            return ts[np.newaxis, :]
        columns = [tuples.columns[as_measure(name)][rows] for name in self.plan.measures]
        return np.stack([ts, np.zeros_like(ts), *columns])

    def _previous(self) -> Array:
        previous = self.latest.copy()
        previous[COUNT] = np.where(self.count > 0, self.count - 1, LONG_AGO)
        return previous

    def _mark(self, coordinates: Array, offsets: Array, first: Array, previous: Array) -> Array:
        """The events that a window with edges in some measure begins with, in order."""
        started = self.latest[TIME] != LONG_AGO
        found = []
        events = int(offsets[-1])
        for c, progressions in enumerate(self.begins):
            if len(progressions) == 0 or events == 0:
                continue
            values = coordinates[c] if c != COUNT else _positions(offsets, first)
            if c == COUNT and self.skipped[self.counted].any():
                found.append(self._mark_counts(values, offsets))
                continue
            known = previous[c][started]
            ends = values if len(first) > 1 else values[[0, -1]]  # of one key, values ascend
            least = int(ends.min() if len(known) == 0 else min(ends.min(), known.min()))
            laid = edges.laid_out(progressions, least, int(ends.max()), len(values))
            laid_out = np.empty(0, np.int64) if laid is None else laid
            marked = np.empty(events, np.int64)
            n = int(cutty.mark_begins()(offsets, values, previous[c], started, progressions, laid_out, marked))
            found.append(marked[:n])
        return found[0] if len(found) == 1 else np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _mark_counts(self, positions: Array, offsets: Array) -> Array:
        """Where specifications do not count the same events, each has positions of its own."""
        begins = np.zeros(len(positions), np.bool_)
        of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        for d, spec in enumerate(self.specs.tolist()):
            if spec[MEASURE] == COUNT:
                own = positions - self.skipped[d][of] - spec[ORIGIN]
                begins |= own == 0 if spec[PERIOD] == 0 else (own % spec[PERIOD] == 0)
        return np.flatnonzero(begins)

    def _discretize(
        self,
        tuples: Tuples,
        rows: Array | slice,
        offsets: Array,
        first: Array,
        watermark: int,
        partial: bool,
        begins: Array,
        hidden: dict[int, Array],
    ) -> tuple[list[Array], list[Array]]:
        """Let the discretizers find their windows, and the runs that are no windows (rows FAILED).

        `hidden`: by discretizer, the events of the run that it must not see.
        """
        found, failed = [], []
        ts = tuples.ts[rows]
        for n, (i, d) in enumerate(self.discretizers):
            finding = self.plan.findings[i]
            if finding.predicate is not None:
                columns: tuple[Array, ...] = (tuples.masks[finding.predicate][rows],)
            else:
                columns = tuple(tuples.columns[name][rows] for name in finding.window.columns)
            seen = None if i not in hidden else np.flatnonzero(~hidden[i])
            run = run_of(offsets, first, ts, columns, seen, watermark, partial)
            marked, windows, self.carries[n] = d.consume(run, self.contexts[n], self.carries[n])
            if seen is None:
                begins |= marked
            else:
                begins[seen] |= marked
            if d.splits and len(windows):  # windows begin where nothing was marked: cut there before slices are made
                at = windows.first - first[windows.key]
                here = (at >= 0) & (windows.stop > windows.first)
                begins[(offsets[windows.key] + at)[here]] = True
            of = np.full(len(windows), i)
            unknown = np.full(len(windows), -1)
            bounds = (windows.low, windows.high, unknown, unknown, windows.start, windows.end)
            twin = np.zeros(len(windows), np.int64) if windows.twin is None else windows.twin
            found.append(np.stack([of, windows.key, windows.first, windows.stop, *bounds, twin]))
            if self.tells_failed and (no := windows.failed) is not None:
                failed.append(np.stack([np.full(len(no), i), no.key, no.first, no.start, no.end], axis=1))
        return found, failed

    def _split(self, tuples: Tuples, row_of: Array, first: Array, held_from: Array, found: list[Array]) -> None:
        """Split slices of earlier runs where a window begins inside of one: both parts are folded again (Scotty
        5.2)."""
        windows = np.concatenate(found, axis=1)
        old = (windows[BEGIN] < first[windows[KEY]]) & (windows[STOP] > windows[BEGIN])
        begins = distinct_pairs(windows[KEY, old], windows[BEGIN, old])
        s = self.slices
        inside = np.zeros(len(begins), np.bool_)
        splitting.inside()(begins, s.directory, s.rows, inside)
        begins = begins[inside]
        if not len(begins):
            return
        keys, more = np.unique(begins[:, 0], return_counts=True)
        s.reserve(keys, more)
        program = np.empty((2 * len(begins), WIDTH), np.int64)
        n, s.free_count = splitting.split()(
            begins,
            row_of,
            first,
            held_from,
            tuples.ts,
            self._coordinates(tuples, slice(None))[2:],
            s.directory,
            s.rows,
            s.free,
            s.free_count,
            program,
        )
        for lift in self.lifts:
            lift.run(program[:n], tuples, s, lift.monoid.allocate(0))

    def _append(self, coordinates: Array, offsets: Array, first: Array, marked: Array) -> None:
        new = np.diff(np.searchsorted(marked, offsets))
        keys = np.flatnonzero(new)
        self.slices.reserve(keys, new[keys])
        s = self.slices
        s.free_count = int(
            cutty.append()(
                offsets,
                first,
                coordinates[TIME],
                coordinates[2:],
                marked,
                s.directory,
                s.rows,
                s.free,
                s.free_count,
                self.epoch,
            )
        )

    def _arrive(self, coordinates: Array, offsets: Array, counts: Array) -> None:
        keys = np.flatnonzero(np.diff(offsets))
        if not len(keys):
            return
        for c in range(len(self.latest)):
            if c == COUNT:
                self.earliest[c, keys] = 0
                self.latest[c, keys] = self.count[keys] + counts[keys] - 1
                continue
            values = coordinates[c]
            new = self.earliest[c, keys] == NEVER
            self.earliest[c, keys[new]] = values[offsets[keys[new]]]
            self.latest[c, keys] = values[offsets[keys + 1] - 1]

    def _complete(
        self,
        coordinates: Array,
        offsets: Array,
        first: Array,
        previous: Array,
        end: tuple[int, bool, bool],
        passed: Array,
        lateness: int,
    ) -> Array:
        watermark, over, partial = end
        if not len(self.specs):
            return np.empty((TOLD, 0), np.int64)
        if len(self.empty):  # of a key that begins now, windows come out unless they are closed
            self.after = self._after(passed, lateness)
            self.has_begun |= self.begun != NEVER
        upto = self._upto(offsets, first, watermark, over, partial)
        if self.limit is not None:
            counts = self._count(offsets, first, self.after, upto)
            self.limit.check(self.plan, self.periodic, counts, self.spare)
        told = TOLD if self.discretizers or len(self.counted) or len(self.on_columns) else START_TIME
        out = np.empty((told, self.room), np.int64)
        out[TWIN:] = 0  # windows with fixed edges have no twins
        longest = int((self.slices.directory[:, HI] - self.slices.directory[:, LO]).max(initial=0))
        index = np.empty(2 * longest + 2, np.int64)
        arguments = (
            self.specs,
            offsets,
            first,
            self.skipped,
            self.seen_from,
            self.begun,
            coordinates,
            self.after,
            upto,
            self.earliest,
            self.latest,
            previous,
            self.slices.directory,
            self.slices.rows,
            index,
            np.empty((2, longest + cutty.BESIDE), np.int64),
        )
        n = int(cutty.complete()(*arguments, out))
        if n > self.room:
            self.room = 2 * n  # so that the next run needs one pass
            out = np.empty((told, n), np.int64)
            out[TWIN:] = 0
            cutty.complete()(*arguments, out)
        found = out[:, :n]
        if len(self.counted) or len(self.on_columns):
            self._find_times(found, coordinates[TIME], offsets, first, previous[TIME])
        keys = len(first)
        done = upto[TIME, :keys]
        if len(self.counted) or len(self.on_columns):
            done = upto[self.specs[:, MEASURE], :keys]
            done[self.counted] -= self.skipped[self.counted, :keys]
        np.maximum(self.after[:, :keys], done, out=self.after[:, :keys])
        return found

    def _after(self, passed: Array = NO_WATERMARKS, lateness: int = 0) -> Array:
        """The end after which windows come out, by specification and key. For new keys: all open windows."""
        begins = (self.begun != NEVER) & ~self.has_begun & (self.specs[:, EMIT_EMPTY] != 0)[:, np.newaxis]
        after = self.after.copy()
        after[begins] = closed_by(self.begun[begins], self.closed_upto, passed, lateness)
        return after

    def _upto(self, offsets: Array, first: Array, watermark: int, over: bool, partial: bool) -> Array:
        """The end up to which windows are complete, by measure and key."""
        upto = np.empty_like(self.latest)
        upto[TIME] = NEVER if over else watermark
        upto[COUNT] = NEVER if partial else 0
        if not partial:
            upto[COUNT, : len(first)] = first + np.diff(offsets)
        upto[2:] = NEVER if partial else self.latest[2:]
        return upto

    # ------------------------------------------------------------------ the row limit

    def most_rows(
        self, coming: Coming, limit: RowLimit, events: int, start: float = -np.inf, *, rewound: bool = False
    ) -> float:
        """Upper bound on the windows that a run of `events` events finds.

        Windows on time end after `start`. So do empty windows, if keys are rewound.
        """
        plan, held = self.plan, len(self.slices) + events
        others = plan.rates.landmarks * (events + self.keys)
        for (i, _), carry in zip(self.discretizers, self.carries, strict=True):
            windows = np.inf if plan.findings[i].window.can_fail else 2 * (events + len(carry)) + self.keys
            others += windows * int(plan.asked[i])
        if not len(self.empty) and held * plan.rates.total + others <= limit.most:
            return held * plan.rates.total + others
        rates = Rates(self.specs, plan.asked)
        span = coming.ends(rates) - start
        for spec in self.empty:  # of each key since it began, or since the last run
            begun, size = self.begun[spec], rates.size[spec]
            after = np.maximum(self._after()[spec], begun - size)[begun != NEVER].min(initial=NEVER)
            span[spec] = coming.ends(rates)[spec] - min(after, coming.least - size, start if rewound else NEVER)
        return rates.most(held, self.keys, span) + others

    def count_due(self, watermark: int, over: bool, partial: bool) -> Array:
        """Number of windows with fixed edges that a watermark alone completes, by specification, without landmarks."""
        first = self.count[: self.keys]
        offsets = np.zeros(self.keys + 1, np.int64)
        return self._count(offsets, first, self._after(), self._upto(offsets, first, watermark, over, partial))

    def _count(self, offsets: Array, first: Array, after: Array, upto: Array) -> Array:
        counts = np.zeros(len(self.specs), np.int64)
        s = self.slices
        if self.plan.since != LONG_AGO:  # windows that began before a query was added do not come out
            since = np.full(after.shape, self.plan.since, np.int64)
            since[self.on_columns] = self.begun[self.on_columns]
            since[self.counted] = LONG_AGO
            after = np.maximum(after, edges.last_end(self.specs, since))
        cutty.count()(
            self.specs,
            offsets,
            first,
            self.skipped,
            self.seen_from,
            self.begun,
            after,
            upto,
            self.earliest,
            self.latest,
            s.directory,
            s.rows,
            counts,
        )
        return counts

    def _find_times(self, found: Array, ts: Array, offsets: Array, first: Array, previous: Array) -> None:
        """Bounds in event time of windows on another measure: their ends; `_answer` looks up where they start."""
        measure = np.array([finding.measure for finding in self.plan.findings])
        other = np.flatnonzero(measure[found[WINDOW]] != TIME)
        key = found[KEY, other]
        at = found[STOP, other] - 1 - first[key]
        i = np.clip(offsets[key] + at, 0, max(0, len(ts) - 1))
        found[START_TIME, other] = UNKNOWN
        if self.plan.since != LONG_AGO:  # unseen earlier events may have had the value of the first one seen
            place = np.zeros(len(self.plan.findings), np.int64)
            place[self.periodic] = np.arange(len(self.periodic))
            window = found[WINDOW, other]
            fragment = other[(measure[window] > COUNT) & (found[LOW, other] <= self.begun[place[window], key])]
            found[START_TIME, fragment], found[LOW, fragment] = self.plan.since, FRAGMENT
        found[END_TIME, other] = np.where(at >= 0, ts[i] if len(ts) else 0, previous[key]) + 1

    def _answer(
        self, tuples: Tuples, row_of: Array, offsets: Array, first: Array, found: list[Array], fresh: int
    ) -> Completed:
        """Fold the run, `fresh` slices of which are new, and answer the windows."""
        windows = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
        if len(found) > 1 or len(self.counted) or len(self.on_columns):
            self._find_starts(windows)
        known, count = found[0].shape[1], windows.shape[1]
        order = np.flatnonzero(windows[UNTIL] < 0)  # they end inside of a slice
        offset = np.array([0, len(order)])
        if len(order):
            order = sorted_rows(windows[STOP], order)
        if self.keys > 1:
            order = sorted_rows(windows[KEY], order)
            offset = np.searchsorted(windows[KEY, order], np.arange(len(first) + 1))
        s = self.slices
        busy = int(np.count_nonzero(np.diff(offsets)))
        # Folds, a repair and an answer for each window that ends inside of a slice, and one of each for the others.
        longest = fresh + busy + 3 * len(order) + 2 * min(len(first), known)
        program = np.empty((longest, WIDTH), np.int64)
        arguments = (offsets, row_of, first, windows, known, order, offset, s.directory, s.rows, self.plan.eager)
        n = int(cutty.write()(*arguments, program))
        answers = [lift.monoid.allocate(count) for lift in self.lifts]
        for lift, partials in zip(self.lifts, answers, strict=True):
            lift.run(program[:n], tuples, s, partials, (windows[cutty.ROW], windows[UNTIL]))
        return Completed.of(windows, answers)

    def _find_starts(self, windows: Array) -> None:
        """When the first events of windows were whose discretizer does not know that."""
        unknown = np.flatnonzero(windows[START_TIME] == UNKNOWN)
        if len(unknown):
            starts = np.empty(len(unknown), np.int64)
            cutty.begin_times()(windows[:, unknown], self.slices.directory, self.slices.rows, starts)
            windows[START_TIME, unknown] = starts
            low = unknown[windows[LOW, unknown] == UNKNOWN]
            windows[LOW, low] = windows[START_TIME, low]

    # ------------------------------------------------------------------ eviction

    def evict(self, horizon: Array) -> None:
        """Drop slices that no window ending after the horizon needs; a horizon for each measure and key."""
        s = self.slices
        upto = s.directory[:, HI].copy()
        retention.keep_from()(self.specs, self.skipped, horizon, s.directory, s.rows, upto)
        for (_, d), context, carry in zip(self.discretizers, self.contexts, self.carries, strict=True):
            retention.keep_positions()(d.needed_from(context, carry), s.directory, s.rows, upto)
        s.evict(upto)

    def horizon(self) -> Array:
        """What windows that are not complete need."""
        horizon = self.latest.copy()
        horizon[TIME] = self.watermark
        horizon[COUNT] = self.count
        return horizon


def wider(matrix: Array, more: int, fill: int) -> Array:
    """A matrix by key, with room for more keys."""
    return np.concatenate([matrix, np.full((len(matrix), more), fill, np.int64)], axis=1)


def without(keys: Array, contexts: list[Array], carries: list[Array]) -> tuple[list[Array], list[Array]]:
    """What discretizers remember, with these keys as they were before their first event."""
    contexts = [context.copy() for context in contexts]
    for context in contexts:
        context[keys] = 0
    return contexts, [carry[~np.isin(carry[:, 0], keys)] for carry in carries]


def only(kept: Array, contexts: list[Array], carries: list[Array]) -> tuple[list[Array], list[Array]]:
    """What discretizers remember of these keys, once key kept[i] is key i."""
    left = []
    for carry in carries:
        mine = carry[np.isin(carry[:, 0], kept)]
        mine[:, 0] = np.searchsorted(kept, mine[:, 0])
        left.append(mine)
    return [context[kept] for context in contexts], left


def _positions(offsets: Array, first: Array) -> Array:
    """The position of each event of a run in its key's order."""
    positions = np.arange(int(offsets[-1]))
    if len(first) == 1:
        return np.asarray(positions + first[0])
    return np.asarray(positions + np.repeat(first - offsets[:-1], np.diff(offsets)))


def run_of(
    offsets: Array,
    first: Array,
    ts: Array,
    columns: tuple[Array, ...],
    seen: Array | None,
    watermark: int,
    partial: bool,
) -> Run:
    """A run for a discretizer, from all keys' offsets; with `seen`, of those events only."""
    keys = np.flatnonzero(np.diff(offsets))
    starts, at = offsets[keys], first[keys]
    if seen is not None:
        ts, columns = ts[seen], tuple(column[seen] for column in columns)
        starts = np.searchsorted(seen, offsets)
        keys = np.flatnonzero(np.diff(starts))
        starts = starts[keys]
        at = first[keys] + seen[starts] - offsets[keys]
        positions = seen + np.repeat(first[keys] - offsets[keys], np.diff(np.append(starts, len(ts))))
        return Run(keys, np.append(starts, len(ts)), at, ts, columns, watermark, partial, positions)
    return Run(keys, np.append(starts, len(ts)), at, ts, columns, watermark, partial)


def _rows_of(row_of: Array, counts: Array, offsets: Array, total: int) -> Array | slice:
    """The rows of a run; as a slice where it is everything."""
    n = int(offsets[-1])
    if n == total:
        return slice(None)
    starts = np.repeat(row_of[: len(counts)] - offsets[: len(counts)], counts)
    rows: Array = np.arange(n) + starts
    return rows


def check_measure(tuples: Tuples, name: str, before: Array) -> None:
    """Refuse a measure that decreases in a key's order of events. `before`: its last value, by key."""
    values, key = tuples.columns[as_measure(name)], tuples.key
    follows = np.empty(len(key), np.bool_)
    follows[:1], follows[1:] = False, key[1:] == key[:-1]
    previous = np.where(follows, np.roll(values, 1), before[key])
    bad = np.flatnonzero(values < previous)
    if len(bad):
        i = int(bad[0])
        raise OutOfOrder(
            f"the measure {name!r} decreases from {previous[i]} to {values[i]} at time {tuples.ts[i]}; "
            "a measure must not decrease in the order of events of a key"
        )
