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
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from windlass import durations
from windlass.errors import InvalidArgument, OutOfOrder, WindlassError, WrongType
from windlass.exclusive import Exclusive, exclusive, reading, restoring
from windlass.operator import state
from windlass.operator.asked import options
from windlass.operator.branch import Branch
from windlass.operator.events import LATEST, Events, Reader, watermark_value
from windlass.operator.expired import concatenated
from windlass.operator.forgetting import Lifetimes, worth_dropping
from windlass.operator.keys import KeyIndex
from windlass.operator.plan import Plan
from windlass.operator.planning import Planning
from windlass.operator.query import Query, check_queries, refuse_plain
from windlass.operator.results import Results
from windlass.operator.row_limit import MAX_ROWS, Coming, RowLimit
from windlass.operator.slice_table import SliceTable, Union
from windlass.operator.trees import Asked, Tree, check_technique, pinned
from windlass.operator.tuples import Tuples
from windlass.operator.undo import ANSWERING, ENTERING, PREPARING, TAKING, Undo
from windlass.operator.watermarks import Watermarks, segments
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.techniques import TECHNIQUES, Technique
from windlass.stateful import Stateful, copied
from windlass.windows.parameters import number

Array = np.ndarray[Any, Any]

_CHUNK = 1 << 17  # events

Cuts = tuple[list[tuple[int, int]], int, Array]  # the result of `segments`


class Operator(Exclusive, Stateful):
    """Window queries over a stream of events.

    `time` names the column of event times, `key` the column (or columns) whose values have windows of their own,
    `sequence` one that orders events of the same time. Late events correct windows for `allowed_lateness` after
    their end. `watermarks` lets the watermark follow the stream; otherwise it is given to `advance`. A key without
    events for `key_ttl` ends: all about it is forgotten. `store` and `slicing` (for a stream in order) overrule how
    slices are combined and where they are cut.

    Which queries share slices is planned when the first events come (see `explain`). `technique` ("panes", "flatfat",
    "blocks") overrules how windows are answered from slices, `plan` both: a list of (query names, technique).

    A call that would give more than `max_rows` rows is refused before anything changes.
    """

    # The queries after the last call that was not interrupted. `restore` uses them; they are not part of the state.
    __slots__ = ("_registered",)
    _registered: tuple[Query, ...]

    def __init__(
        self,
        queries: Query | Iterable[Query],
        *,
        time: str,
        key: str | Sequence[str] | None = None,
        sequence: str | None = None,
        allowed_lateness: Any = 0,
        order: Literal["out-of-order", "in-order"] = "out-of-order",
        store: Literal["auto", "lazy", "eager", "fiba"] = "auto",
        slicing: Technique = "auto",
        watermarks: Watermarks | None = None,
        key_ttl: Any = None,
        technique: str = "auto",
        plan: Any = None,
        max_rows: int = MAX_ROWS,
    ) -> None:
        names = _checked_columns(time, key, sequence)
        if order not in ("out-of-order", "in-order"):
            raise InvalidArgument(f"order is 'out-of-order' or 'in-order', got {order!r}")
        if store not in ("auto", "lazy", "eager", "fiba"):
            raise InvalidArgument(f"store is 'auto', 'lazy', 'eager' or 'fiba', got {store!r}")
        if slicing not in TECHNIQUES:
            raise InvalidArgument(f"slicing is one of {', '.join(map(repr, TECHNIQUES))}, got {slicing!r}")
        if slicing != "auto" and order != "in-order":
            raise InvalidArgument(f"slicing={slicing!r} is for order='in-order'; any order needs general slicing")
        if watermarks is not None and not isinstance(watermarks, Watermarks):
            raise WrongType(f"watermarks is windlass.Watermarks(delay, every), got {type(watermarks).__name__}")
        if watermarks is not None and order == "in-order":
            raise InvalidArgument("in-order streams need no watermarks: every event is one")
        self._in_order, self._watermarks = order == "in-order", watermarks
        self._lateness = _checked_length("allowed_lateness", allowed_lateness, 0)
        self._key_ttl = None if key_ttl is None else _checked_length("key_ttl", key_ttl, 1)
        self._max_rows = number("max_rows", max_rows)
        self._reader = Reader(time, names, sequence)
        self._keys = KeyIndex(names)
        asked = check_queries(queries, names)
        self._registered = tuple(asked)
        if check_technique(technique) != "auto" and (store != "auto" or plan is not None):
            raise InvalidArgument("technique says how slices are combined, and so does store or plan: give one of them")
        self._planning = Planning(
            Asked(self._in_order, bool(names), slicing, store, technique, None),
            None if plan is None else pinned(plan, asked),
        )
        self._branches = self._grown(asked)
        for branch in self._branches:
            self._check_ttl(branch)
        self._lifetimes = Lifetimes()
        self._watermark = LONG_AGO
        self._greatest = LONG_AGO  # event time
        self._sequence = LONG_AGO  # the last event's, if events come in order
        self._next = LONG_AGO  # the watermark to come
        self._passed = np.empty(0, np.int64)  # watermarks since the last `advance`, where empty windows depend on them
        self._arrivals = 0
        self._finished = False
        self._expired: list[pa.Table] = []
        self._counters = {"events": 0, "late": 0, "expired": 0, "batches": 0, "rows": 0}

    # ------------------------------------------------------------------ events

    @exclusive
    def process(self, batch: Any) -> None:
        """Take a batch of events. Results come at `advance`. If anything is wrong with the batch, nothing changes."""
        with Undo(self) as undo:
            self._refuse_if_finished()
            events = self._read(batch)
            if len(events) == 0:
                return
            if self._in_order:
                self._check_order(events)
            tuples, is_in_doubt = self._prepare(events, undo)
            for branch, whole in zip(self._branches, tuples, strict=True):
                branch.watch(whole)
            if is_in_doubt:
                undo.keep_engines()
            cuts = self._cuts(events)
            limit = self._limit(undo, *self._finding_in(events, cuts))
            undo.stage = TAKING
            self._counters["events"] += len(events)
            self._counters["batches"] += 1
            self._arrivals += len(events)
            self._take(tuples, events, cuts, check=is_in_doubt)
            self._check(limit)
            undo.commit()
            self._reader.accept(events)
            self._planning.watched.note(len(events), self._greatest)
            self._lifetimes.credit += len(events)
            if self._key_ttl is not None:
                self._lifetimes.note(tuples[0].key, events.ts, len(self._keys))

    @exclusive
    def bind(self, schema: pa.Schema) -> None:
        """Fix the types of the columns before the first batch, so that results have them from the start."""
        with Undo(self) as undo:
            events = self._read(schema.empty_table())
            self._prepare(events, undo)
            undo.commit()
            self._reader.accept(events)

    def _refuse_if_finished(self) -> None:
        if self._finished:
            raise InvalidArgument("the stream was finished; make another operator for another stream")

    def _read(self, batch: Any) -> Events:
        """Read and check the events of a batch. Everything that can raise does so here, before any change."""
        plans = [branch.plan for branch in self._branches]
        events = self._reader.read(batch, *self._read_by(plans))
        for plan in plans:
            for i in plan.masks_read if len(events) else ():
                events.mask(plan.predicates[i])
        if len(events) and self._may_expire(events):
            self._reader.check_returnable(events)
        return events

    def _may_expire(self, events: Events) -> bool:
        """Whether events may come too late, so that `late()` must return them with all columns."""
        first, _, ascending = events.extent
        if first <= self._first_seen:
            return True
        return not self._in_order and (first <= self._late_upto or (self._watermarks is not None and not ascending))

    @staticmethod
    def _read_by(plans: Sequence[Plan]) -> tuple[list[str], list[str]]:
        """The columns that plans aggregate, and those that their windows are defined on."""
        measures = dict.fromkeys(c for plan in plans for c in plan.measures if c in plan.window_columns_read)
        read = [(plan, plan.columns_read) for plan in plans]
        columns = dict.fromkeys(c for plan, some in read for c in (*plan.columns, *plan.given_columns) if c in some)
        return list(columns), list(measures)

    @exclusive
    def process_slices(self, table: pa.Table) -> None:
        """Take slices that a `Slicer` with the same queries has cut, in place of their events."""
        with Undo(self) as undo:
            self._refuse_if_finished()
            self._refuse_if_unbound()
            slices = self._union.read(table)
            if len(slices) == 0:
                return
            ids = self._ids(slices.keys, len(slices), undo)
            slices, tuples = self._prepare_slices(slices, ids)
            undo.stage = TAKING
            self._counters["events"] += int(slices.events.sum())
            self._counters["batches"] += 1
            self._greatest = max(self._greatest, int(slices.last.max()))
            self._take_chunks(tuples, slices, 0, len(slices))
            undo.commit()
            self._planning.watched.note(len(slices), self._greatest)
            self._lifetimes.credit += len(slices)
            if self._key_ttl is not None:
                self._lifetimes.note(ids, slices.last, len(self._keys))

    def _refuse_if_unbound(self) -> None:
        known = self._reader.types
        missing = [c for branch in self._branches for c in branch.plan.columns if c not in known]
        if missing:
            raise InvalidArgument(
                f"slices do not tell the types of columns, and that of {missing[0]!r} is not known: "
                "call bind(schema) first, with the schema that the slicer has"
            )

    def _prepare_slices(self, slices: SliceTable, ids: Array) -> tuple[SliceTable, list[Tuples]]:
        """Convert slices to the form that each branch takes."""
        if self._is_unplanned:
            dtypes = {name: str(t) for branch in self._branches for name, t in branch.plan.dtypes.items()}
            span = float(slices.last.max()) - float(slices.first.min())
            keys, types, unit = len(self._keys), self._reader.types, self._reader.unit
            self._replace(self._planning.look(self._branches, len(slices), span, keys, types, unit))
            for branch in self._branches:
                if branch.engine is None:
                    state.install(branch, self, dtypes, self._watermark)
            slices = replace(slices, union=self._union)
        tuples = slices.union.tuples(slices, ids)
        for branch in self._branches:
            branch.running.add_keys(len(self._keys))
        return slices, tuples

    @cached_property
    def _union(self) -> Union:
        return Union(self._branches, self._reader)

    def _ids(self, columns: Sequence[pa.Array], rows: int, undo: Undo) -> Array:
        """The id of each row's key; new keys get the next ones."""
        keys = self._keys.read(columns, rows)
        undo.remember()
        undo.stage = ENTERING
        ids = self._keys.enter(keys, rows)
        undo.stage = PREPARING
        return ids

    def _prepare(self, events: Events, undo: Undo) -> tuple[list[Tuples], bool]:
        """Convert events to the form that each branch reads, check them, and give keys their ids.

        Also return whether they can only be checked as they are taken: watermarks that follow the stream may close the
        windows that an event would not fit.
        """
        unit = _unit_of(events)
        if self._reader.time_type is None:
            self._check_lengths(unit)
        ids = self._ids(events.keys, len(events), undo)
        if self._is_unplanned and len(events):
            span, keys = float(events.extent[1]) - float(events.extent[0]), len(self._keys)
            self._replace(self._planning.look(self._branches, len(events), span, keys, events.types, unit))
        prepared, fresh = [], [branch for branch in self._branches if branch.engine is None]
        for branch in self._branches:
            plan = branch.bound_to(unit)
            tuples = branch.tuples(plan, events, ids, self._arrivals)
            if branch.engine is None:
                lateness = _in_unit("allowed_lateness", self._lateness, unit)
                has_sequence = self._reader.sequence is not None
                branch.install(plan, events, tuples, lateness, has_sequence, self._watermark)
            assert branch.engine is not None
            branch.engine.add_keys(len(self._keys))
            prepared.append(tuples)
        is_in_doubt = False
        try:
            self._check_events(prepared)
        except OutOfOrder:
            if self._watermarks is None:
                raise
            is_in_doubt = True
        added = [branch for branch in fresh if branch.since != LONG_AGO]
        if added and not is_in_doubt:
            types = {**self._reader.types, **events.types}
            if joined := self._planning.joined(self._branches, added, types, unit):
                self._replace([branch for branch in self._branches if branch not in joined])
                prepared = [branch.tuples(branch.plan, events, ids, self._arrivals) for branch in self._branches]
        return prepared, is_in_doubt

    def _check_events(self, parts: Sequence[Tuples]) -> None:
        """Refuse events that an engine cannot take. `parts` holds the events by branch."""
        for branch, part in zip(self._branches, parts, strict=True):
            branch.running.check(part if branch.since == LONG_AGO else part.take(part.ts > branch.since))

    def _cuts(self, events: Events) -> Cuts | None:
        """Where to split a batch: at watermarks that follow the stream and make an event of the batch late."""
        if self._watermarks is None:
            return None
        delay, every = self._watermarks.bind(_unit_of(events))
        return segments(events.ts, self._greatest, self._watermark, delay, every)

    def _finding_in(self, events: Events, cuts: Cuts | None) -> tuple[Coming, ...]:
        """Describe the work of a coming batch, for the row limit. Empty if the batch completes no window."""
        least, greatest = events.extent[0], max(self._greatest, events.extent[1])
        if self._in_order:
            return (Coming(max(self._watermark, greatest), events=len(events), least=least, greatest=greatest),)
        if cuts is None or not cuts[0]:
            return ()
        marks = [mark for _, mark in cuts[0]]
        return (Coming(marks[-1], events=len(events), least=least, greatest=greatest, times=len(marks)),)

    def _check_lengths(self, unit: str | None) -> None:
        """Refuse plain integers as lengths if the stream's times are timestamps."""
        for name, length in (("key_ttl", self._key_ttl), ("allowed_lateness", self._lateness)):
            if unit is not None:
                durations.refuse_plain(name, length)
            if length is not None:
                _in_unit(name, length, unit)
        if self._watermarks is not None:
            self._watermarks.bind(unit)
        if unit is not None:
            refuse_plain(query for branch in self._branches if branch.engine is None for query in branch.queries)

    def _take(self, tuples: list[Tuples], events: Events, cuts: Cuts | None, check: bool) -> None:
        """Hand events to the branches, with watermarks in between where that makes an event late."""
        if cuts is None:
            self._greatest = max(self._greatest, events.extent[1])
            if self._in_order:
                self._watermark = max(self._watermark, self._greatest)
                if events.sequence is not None:
                    self._sequence = int(events.sequence[-1])
            self._take_chunks(tuples, events, 0, len(events))
            return
        cut, greatest, marks = cuts
        if any(branch.plan.has_past_ends for branch in self._branches):
            self._passed = np.unique(np.concatenate([self._passed, marks]))
        begin = 0
        for row, mark in cut:
            self._take_chunks(tuples, events, begin, row, check)
            self._advance(mark)
            begin = row
        self._take_chunks(tuples, events, begin, len(events), check)
        self._greatest, self._next = greatest, int(marks[-1])

    def _take_chunks(
        self, tuples: list[Tuples], events: Events | SliceTable, begin: int, stop: int, check: bool = False
    ) -> None:
        """A large batch in parts that stay in the cache while they are sorted, cut and folded.

        In one, if there is nothing to sort.
        """
        sorted_ = isinstance(events, Events) and events.extent[2] and not self._keys.names
        chunk = len(events) if sorted_ else _CHUNK
        for whole in tuples if sorted_ else ():
            whole.ascending = True
        for i in range(begin, stop, chunk):
            self._take_rows(tuples, events, i, min(i + chunk, stop), check)

    def _take_rows(self, tuples: list[Tuples], events: Events | SliceTable, begin: int, stop: int, check: bool) -> None:
        is_whole = stop - begin == len(events)
        parts = tuples if is_whole else [whole.take(slice(begin, stop)) for whole in tuples]
        first = events.extent[0] if is_whole and isinstance(events, Events) else int(events.ts[begin:stop].min())
        if check:
            self._check_events(parts)
        if first > self._first_seen and (self._in_order or first > self._late_upto):
            for branch, part in zip(self._branches, parts, strict=True):
                if branch.since != LONG_AGO:
                    part = part.take(np.flatnonzero(part.ts > branch.since))
                if len(part):
                    branch.running.take(part, np.zeros(len(part), np.bool_), None)
            return
        self._part_sessions(tuples, parts)
        refused, late_any = np.ones(stop - begin, np.bool_), np.zeros(stop - begin, np.bool_)
        for branch, part in zip(self._branches, parts, strict=True):
            engine = branch.running
            seen = np.arange(len(part))
            if branch.starts_after != LONG_AGO:
                seen = np.flatnonzero(part.ts > branch.starts_after)
                late_any |= engine.late(part)
                part = part.take(seen)
            late = engine.late(part)
            refusals: Array | None = None
            alive: Array = np.ones(len(part), np.bool_)
            if late.any():
                accepted = engine.accepted(part, late)
                alive = np.asarray(accepted.any(axis=0))
                late_any[seen] |= late
                if not alive.all():
                    kept = np.flatnonzero(alive)
                    part, late, accepted = part.take(kept), late[kept], accepted[:, kept]
                refusals = ~accepted
            refused[seen[alive]] = False
            if len(part):
                engine.take(part, late, refusals)
        if late_any.any():
            self._counters["late"] += events.count(begin + np.flatnonzero(late_any))
        for which, reason in ((refused & late_any, self._too_late), (refused & ~late_any, self._too_early)):
            if which.any():
                self._expire(events, begin + np.flatnonzero(which), reason())

    def _part_sessions(self, *given: list[Tuples]) -> None:
        """Where a late event joins a session by passing over a closed one, let sessions have slices of their own, that
        closed ones can be taken from. It is rare that this is needed. `given` is by branch."""
        for b in reversed(range(len(self._branches))):
            branch = self._branches[b]
            if not branch.running.entangled(given[-1][b]):
                continue
            trees: dict[Any, list[str]] = {}
            for query in branch.queries:
                trees.setdefault(query.window if query.window.is_session else None, []).append(query.name)
            parts = self._planning.split(branch, [Tree(tuple(n), "auto") for n in trees.values()], len(self._keys))
            for window, part in zip(trees, parts, strict=True):
                if window is not None:
                    part.running.drop_closed()
            self._replace([*self._branches[:b], *parts, *self._branches[b + 1 :]])
            for some in {id(some): some for some in given}.values():
                some[b : b + 1] = [some[b]] * len(parts)

    @property
    def _first_seen(self) -> int:
        """The time after which some query sees events; LONG_AGO unless every remaining query was added later."""
        return min(branch.starts_after for branch in self._branches)

    @property
    def _late_upto(self) -> int:
        """Events up to this time are late."""
        return self._watermark if self._reader.sequence is not None else self._watermark - 1

    def _too_late(self) -> str:
        return (
            f"late: the watermark is {self._shown(self._watermark)}, the allowed lateness {self._lateness}; "
            "no query accepts events of this time"
        )

    def _too_early(self) -> str:
        return f"early: all queries were added later, and see the events after {self._shown(self._first_seen)}"

    def _expire(self, events: Events | SliceTable, which: Array, reason: str) -> None:
        rows = events.rows(which)
        if "reason" in rows.column_names:  # the user's own column of that name
            rows = rows.rename_columns(["reason_" if name == "reason" else name for name in rows.column_names])
        self._expired.append(rows.append_column("reason", pa.array([reason] * len(rows), pa.string())))
        self._counters["expired"] += events.count(which)

    @exclusive
    def late(self) -> pa.Table:
        """Return the events that no query accepted, with the reason, and forget them.

        A column whose type differs between batches gets a type that holds all values, or text if there is none.
        """
        try:
            late = concatenated(self._expired) if self._expired else pa.table({"reason": pa.array([], pa.string())})
        except BaseException as error:
            self.undone(error)
            raise
        self._expired = []
        return late

    def _check_order(self, events: Events) -> None:
        ts, sequence = events.ts, events.sequence
        last = max(self._greatest, self._watermark)
        if ts[0] >= last and events.extent[2] and sequence is None:
            return
        before = np.concatenate([[last], ts[:-1]])
        bad = ts < before
        if sequence is not None:
            # If `advance` has passed the last event, no event at this time has a sequence to compare with.
            number = self._sequence if self._greatest == last else LONG_AGO
            numbers = np.concatenate([[number], sequence[:-1]])
            bad |= (ts == before) & (sequence < numbers)
        if bad.any():
            i = int(np.argmax(bad))
            if ts[i] < before[i] or sequence is None:
                what = f"time {self._shown(int(ts[i]))}, earlier than {self._shown(int(before[i]))} before it"
            else:
                what = (
                    f"{self._reader.sequence} {sequence[i]} at time {self._shown(int(ts[i]))}, after {numbers[i]} at "
                    "that time"
                )
            raise OutOfOrder(
                f"row {i} of the batch has {what}; this stream was promised to be in order "
                "(order='out-of-order' takes events in any order)"
            )

    # ------------------------------------------------------------------ results

    @exclusive
    def advance(self, watermark: Any = None) -> Results:
        """Raise the watermark and give the rows that are due: windows now complete, and corrections.

        Without an argument where watermarks come with the stream: in-order, or with `watermarks=`. If a sum does not
        fit its type, the call is refused and nothing changes: remove that query, and advance again.
        """
        with Undo(self) as undo:
            if self._finished:
                raise InvalidArgument("the stream was finished; there is nothing more to come")
            following = self._following(watermark)
            upto = max(following, self._watermark)
            undo.remember(gives_answers=True)
            limit = self._limit(undo, Coming(upto, greatest=self._greatest))
            undo.stage = TAKING
            self._next = following
            self._advance(upto)
            self._check(limit)
            results = self._give_results(undo)
            self._forget()
            keys, types, unit = len(self._keys), self._reader.types, self._reader.unit
            self._replace(self._planning.look_again(self._branches, self._greatest, keys, types, unit))
            return results

    def _following(self, watermark: Any) -> int:
        """The watermark after `advance` to this one."""
        if watermark is not None:
            return max(self._next, watermark_value(watermark, self._unit(watermark)))
        if not self._in_order and self._watermarks is None:
            raise InvalidArgument("advance needs a watermark: the time before which no more events will come")
        return self._next

    def _unit(self, watermark: Any) -> str | None:
        """The unit of a watermark; before the first batch the watermark itself tells."""
        if self._reader.time_type is None and not isinstance(watermark, int | np.integer):
            return "us"
        return self._reader.unit

    def _advance(self, watermark: int) -> None:
        self._watermark = max(self._watermark, watermark)
        upto = int(np.searchsorted(self._passed, self._watermark, "right")) if len(self._passed) else 0
        for branch in self._branches:
            branch.advance(self._watermark, passed=self._passed[:upto])
        self._passed = self._passed[upto:]

    @exclusive
    def finish(self, partial: bool = False) -> Results:
        """End the stream: every window that can be complete is. `partial` also gives those that are not."""
        with Undo(self) as undo:
            if self._finished and not any(branch.due for branch in self._branches):
                raise InvalidArgument("the stream was finished already")
            undo.remember(gives_answers=True)
            coming = [Coming(NEVER, over=True, partial=partial, greatest=self._greatest)]
            if self._reached != LONG_AGO:  # windows due at the current watermark come before the end
                coming.insert(0, Coming(self._reached, greatest=self._greatest))
            limit = None if self._finished else self._limit(undo, *coming)
            undo.stage = TAKING
            if not self._finished:
                if self._reached != LONG_AGO:
                    self._advance(self._reached)
                for branch in self._branches:
                    branch.advance(NEVER, over=True, partial=partial)
            self._check(limit)
            self._finished = True
            return self._give_results(undo)

    def _limit(self, undo: Undo | None, *coming: Coming, most: int | None = None) -> RowLimit | None:
        """Prepare a call that may return too many rows: let engines count rows, and copy them for the undo.

        `coming` is the work of the call, in parts. Return None if the upper bound is below the limit, the usual case.
        """
        if not coming:
            return None
        limit = RowLimit(self._max_rows if most is None else most, self._running)
        if limit.is_far(*coming):
            return None
        if undo is not None:
            undo.keep_engines()
        for branch in self._running:
            branch.running.count_for(limit)
        return limit

    def _check(self, limit: RowLimit | None) -> None:
        """Refuse the call if it found too many rows."""
        if limit is not None:
            for branch in self._running:
                branch.running.count_for(None)
            limit.check_rows(self._running)

    @property
    def _running(self) -> list[Branch]:
        return [branch for branch in self._branches if branch.engine is not None]

    def _forget(self) -> None:
        """End keys whose time is over, and drop those that nobody needs, if they are many. All results are out."""
        engines = [branch.engine for branch in self._branches if branch.engine is not None]
        keys = len(self._keys)
        if self._key_ttl is not None and self._reader.time_type is not None:
            unit = self._reader.unit
            ttl, lateness = _in_unit("key_ttl", self._key_ttl, unit), _in_unit("", self._lateness, unit)
            ended = self._lifetimes.end(self._watermark - ttl - lateness)
            if len(ended):
                for engine in engines:
                    engine.forget(ended)
        if not self._keys.names or not self._lifetimes.worth_a_look(keys):
            return
        needed = np.zeros(keys, np.bool_)
        for engine in engines:
            needed |= engine.needed_keys()[:keys]
        kept = np.flatnonzero(needed)
        if worth_dropping(keys - len(kept), keys):
            self._keys = self._keys.keep(kept)
            self._lifetimes.renumber(kept)
            for engine in engines:
                engine.renumber(kept)

    @reading
    def peek(self) -> Results:
        """Early results: the current values of windows that are not complete. Nothing changes."""
        return self._peeked()

    def _peeked(self) -> Results:
        other = self._copied()
        if other._reached != LONG_AGO:  # rows that are already due are not early results: leave them out
            most = max(self._max_rows, MAX_ROWS)
            limit = other._limit(None, Coming(other._reached, greatest=other._greatest), most=most)
            other._advance(other._reached)
            other._check(limit)
        for branch in other._branches:
            branch.drop_due()
        return other.finish(partial=True)

    def _give_results(self, undo: Undo) -> Results:
        """Build results from the due rows, which stay due until the results are built."""
        undo.stage = ANSWERING
        rows = [branch.due_rows() for branch in self._branches]
        parts = [
            Results.empty(branch.queries, self._keys, self._reader.time_type)
            if due is None or branch.answers is None
            else branch.answers.results(due, self._keys, self._reader.time_type)
            for branch, due in zip(self._branches, rows, strict=True)
        ]
        results = parts[0] if len(parts) == 1 else Results.concat(parts)
        undo.commit()
        for branch in self._branches:
            branch.drop_due()
        self._counters["rows"] += sum(len(due) for due in rows if due is not None)
        return results

    # ------------------------------------------------------------------ branches

    def _grown(self, queries: Sequence[Query], since: int = LONG_AGO) -> list[Branch]:
        return self._planning.grown(queries, since, self._reader.types, self._reader.unit)

    def _replace(self, branches: list[Branch]) -> None:
        if branches is not self._branches:
            self._branches = branches
            self.__dict__.pop("_union", None)

    @property
    def _is_unplanned(self) -> bool:
        """Whether nothing was seen yet: once slices hold events, trees stay as they are."""
        return self._planning.observed is None and self._counters["events"] == 0

    @property
    def plan(self) -> list[Tree]:
        """Which queries share slices, and how their windows are answered from these; planned with the first events."""
        return self._planning.trees(self._branches)

    # ------------------------------------------------------------------ queries

    @property
    def queries(self) -> list[Query]:
        return [query for branch in self._branches for query in branch.queries]

    @exclusive
    def add(self, query: Query) -> str:
        """Register another query while the stream runs. It starts with the windows that begin after the greatest event
        time seen; the text that is returned says when that is."""
        starts = self._add(query, LONG_AGO)
        self._registered = tuple(self.queries)
        return starts

    def _add(self, query: Query, since: int) -> str:
        check_queries([*self.queries, query], self._keys.names)
        self._refuse_if_finished()
        if self._reader.time_type is not None and self._reader.unit is not None:
            refuse_plain([query])
        since = max(since, self._greatest, self._watermark if self._in_order else LONG_AGO)
        pin = self._planning.pin
        try:
            self._planning.added(query)
            # Queries added at the same moment share slices where possible.
            waiting = [branch for branch in self._branches if branch.engine is None and branch.since == since]
            if self._planning.pin is not None:
                waiting = []
            made = self._grown([*(q for branch in waiting for q in branch.queries), query], since)
            for branch in made:
                self._check_ttl(branch)
        except WindlassError:
            self._planning.pin = pin
            raise
        self._replace([branch for branch in self._branches if branch not in waiting] + made)
        if since == LONG_AGO:
            return f"{query.name} starts with the first event"
        whole_after = since + query.window.bind("us").doubt  # plain integers are what they are
        return f"{query.name} starts with windows that begin after {self._shown(whole_after)}"

    @exclusive
    def remove(self, name: str) -> None:
        """Remove a query. Its pending results are discarded."""
        if name not in {query.name for query in self.queries}:
            raise InvalidArgument(f"there is no query {name!r}; there are {[query.name for query in self.queries]}")
        if len(self.queries) == 1:
            raise InvalidArgument(f"{name!r} is the only query; an operator needs one")
        self._remove(name)
        self._registered = tuple(self.queries)

    def _remove(self, name: str) -> None:
        gone = self._planning.gone(name)
        for branch in self._branches:
            branch.remove(name, gone)
        self._replace([branch for branch in self._branches if branch.queries])
        self._planning.removed(name)

    @exclusive
    def change_queries(self, queries: Query | Iterable[Query], since: int = LONG_AGO) -> None:
        """Add and remove queries so that the operator has exactly these.

        New queries start after `since`, if that is later than the greatest event time seen. If one of them is refused,
        nothing changes.
        """
        wanted = {query.name: query for query in check_queries(queries, self._keys.names)}
        there = {query.name: query for query in self.queries}
        for name, query in wanted.items():
            if name in there and there[name] != query:
                raise InvalidArgument(f"there is another query {name!r}: {there[name]!r}; give the new one a new name")
        if not wanted:
            raise InvalidArgument("an operator needs a query")
        branches, pin = self._branches, self._planning.pin
        try:
            for name, query in wanted.items():
                if name not in there:
                    self._add(query, since)
        except WindlassError:
            self._replace(branches)
            self._planning.pin = pin
            raise
        for name in there:
            if name not in wanted:
                self._remove(name)
        self._registered = tuple(self.queries)

    @reading
    def explain(self, rate: float | None = None) -> str:
        """What the operator does for its queries, and why: also which of them share slices, what that costs, and what
        other plans would; with a `rate`, for so many events a second (or in a unit of time)."""
        texts = []
        for branch in self._branches:
            text = branch.plan.explain(branch.engine.choice if branch.engine is not None else None)
            if branch.since != LONG_AGO:
                text = f"added at {self._shown(branch.since)}: " + text
            texts.append(text)
            for since, names in branch.joined():
                texts.append(f"added at {self._shown(since)} to these slices: {', '.join(names)}")
        if self._key_ttl is not None:
            texts.append(f"keys end: {self._key_ttl} (and the allowed lateness) after their last event")
        if rate is not None or len(self.queries) > 1:
            types, is_running = self._reader.types, not self._is_unplanned
            texts.append(self._planning.explained(self._branches, types, rate, is_running=is_running))
        return "\n".join(texts)

    def _check_ttl(self, branch: Branch) -> None:
        """Refuse a `key_ttl` that could drop a key while one of its time-driven windows is still open."""
        if self._key_ttl is None:
            return
        ttl = _in_unit("key_ttl", self._key_ttl, "us")
        for finding in branch.plan.findings:
            reach = finding.bound.reach
            if ttl < reach:
                least = f"'{durations.format(reach)}'"
                if isinstance(self._key_ttl, int):
                    least += f", or to {reach} if times are integers"
                raise InvalidArgument(
                    f"key_ttl={self._key_ttl!r} would end a key while {finding.window!r} may still be open: "
                    f"set it to at least {least}"
                )

    @property
    def _reached(self) -> int:
        """The watermark, even if no window has been checked against it yet."""
        return max(self._next, self._watermark)

    @property
    def watermark(self) -> int | None:
        return None if self._reached == LONG_AGO else self._reached

    @property
    def counters(self) -> dict[str, int]:
        """What happened so far, and what is held now."""
        held: dict[str, int] = {"slices": 0, "tuples": 0, "correctable": 0}
        for branch in self._branches:
            for name, count in (branch.engine.held() if branch.engine is not None else {}).items():
                held[name] = held.get(name, 0) + count
        return {**self._counters, "keys": len(self._keys), **held}

    @reading
    def open_windows(self) -> int:
        """How many windows hold events and are not complete, counted once for each query.

        That takes a `peek`, unless all windows have fixed edges or are sessions and no late event waits for the next
        watermark.
        """
        counted = [
            branch.engine.open_windows(self._reached) if branch.engine is not None else 0 for branch in self._branches
        ]
        known = [n for n in counted if n is not None]
        return sum(known) if len(known) == len(counted) else len(self._peeked())

    def _shown(self, t: int) -> str:
        kind = self._reader.time_type
        return str(t) if kind is None or pa.types.is_integer(kind) else str(pa.scalar(t, kind).as_py())

    def __repr__(self) -> str:
        names = ", ".join(q.name for q in self.queries[:5]) + ("…" if len(self.queries) > 5 else "")
        w = "no watermark yet" if self._reached == LONG_AGO else f"watermark {self._shown(self._reached)}"
        return f"<Operator {names}: {self._counters['events']} events, {len(self._keys)} keys, {w}>"

    # ------------------------------------------------------------------ state

    @reading
    def snapshot(self) -> bytes:
        """The whole state, to go on from in another process. No code is in it, and damage is found when it is read."""
        return state.seal_state(self)

    @restoring
    def restore(self, data: bytes, *, removed: Iterable[Query] = ()) -> Self:
        """Continue from a snapshot of an operator that was made with the same options.

        Queries that the snapshot does not contain are added. Queries that are no longer registered are removed: pass
        those that use Python functions in `removed`, unless they were removed before the snapshot. If the snapshot does
        not fit, nothing changes.
        """
        self.__dict__ = vars(state.restored(self, data, removed))  # all of it at once
        return self

    @reading
    def __copy__(self) -> Self:
        return self._copied()

    def _copied(self) -> Self:
        other = copied(self)
        other._idle, other._registered = True, self._registered
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)

    @reading
    def __reduce__(self) -> tuple[Any, ...]:
        return state.unpickled, (type(self), self.queries, [], options(self), state.seal_state(self))


def aggregate(
    table: Any, queries: Query | Iterable[Query], *, time: str, key: str | Sequence[str] | None = None, **options: Any
) -> Results:
    """All windows of a bounded table, in one call."""
    operator = Operator(queries, time=time, key=key, **options)
    operator.process(table)
    return operator.finish()


def _checked_columns(time: Any, key: Any, sequence: Any) -> tuple[str, ...]:
    """The key columns, once all names are known to be names."""
    names = () if key is None else (key,) if isinstance(key, str) else key
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise WrongType(f"key is the name of a column or a list of names, got {key!r}")
    if len(set(names)) < len(names):
        raise InvalidArgument(f"key names a column twice: {list(names)}")
    if not isinstance(time, str) or not time:
        raise WrongType(f"time is the name of a column, got {time!r}")
    if sequence is not None and not isinstance(sequence, str):
        raise WrongType(f"sequence is the name of a column, got {sequence!r}")
    return tuple(names)


def _checked_length(name: str, length: Any, least: int) -> Any:
    plain = isinstance(length, int | np.integer) and not isinstance(length, bool | np.timedelta64)
    count = int(length) if plain else durations.parse(length, positive=False)
    if count < least:
        raise InvalidArgument(f"{name} must {'not be negative' if least == 0 else 'be positive'}, got {length}")
    if count > LATEST:
        raise InvalidArgument(f"{name} must be at most {LATEST}, got {length}")
    return count if plain else length


def _unit_of(events: Events) -> str | None:
    return None if events.time_type is None or pa.types.is_integer(events.time_type) else "us"


def _in_unit(name: str, length: Any, unit: str | None) -> int:
    if isinstance(length, int):
        return length
    if unit is None:
        raise WrongType(f"time is a column of integers, so {name} is an integer too, got {length!r}")
    return durations.parse(length, unit=unit, positive=False)


__all__ = ["Operator", "aggregate"]
