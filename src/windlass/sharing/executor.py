"""Running a plan over events in order: every tree cuts, folds and answers for itself (MQO 3.1.1).

    WeaveShare   events ──► cut, fold ──► tree ──► answers        TriWeave   events ──► cut at all edges, fold
                        └─► cut, fold ──► tree ──► answers                     └─► fold ──► tree ──► answers
                                                                               └─► fold ──► tree ──► answers

A window is answered once the stream has reached its end, if it has an event; `finish` ends the stream. Answers do not
depend on the plan, nor on how the events were cut into batches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass import durations
from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import kernel
from windlass.aggregates.input import Read, read_columns
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import LIMIT, greatest, located, widened
from windlass.errors import InvalidArgument, OutOfOrder, Overflow, WrongType
from windlass.exclusive import Exclusive, exclusive
from windlass.kernels import accessors
from windlass.sharing.acq import ACQ
from windlass.sharing.cutting import Edges, Integers, fold_events, fold_partials
from windlass.sharing.due import Due, Pieces, acq_table, find_due, picked
from windlass.sharing.evaluators import History, evaluator
from windlass.sharing.fragments import Progression, edges_of

if TYPE_CHECKING:
    from windlass.sharing.plan import Plan, Tree

__all__ = ["Answers", "PlanRun"]

_BEFORE, _OVER = -(2**62), 2**62
Run = tuple[Integers, Columns]  # starts of pieces, and their partials


class Answers(NamedTuple):
    """The windows of one ACQ, in the order of their ends, and their values."""

    range: int
    end: Integers
    value: Any  # an Arrow array

    @property
    def start(self) -> Integers:
        return self.end - self.range

    def table(self) -> pa.Table:
        return pa.table({"start": self.start, "end": self.end, "value": self.value})


class PlanRun(Exclusive):
    """A plan at work. `process` and `finish` give what is due: for each ACQ of the plan, its answers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.aggregates = list(dict.fromkeys(tree.aggregate for tree in plan.trees))
        self.watermark = _BEFORE
        self.events = self.answers = 0
        self._lanes: list[_Lane] | None = None
        self._finished = False

    @exclusive
    def process(self, ts: Any, values: Any) -> dict[ACQ, Answers]:
        """Take events in order: their times, and a column or a table of values."""
        if self._finished:
            raise InvalidArgument("the stream was finished; make another run of the plan")
        times = self._times(ts)
        read = [read_columns(a, values, self._types(k)) for k, a in enumerate(self.aggregates)]
        for a, r in zip(self.aggregates, read, strict=True):
            if r.length != len(times):
                raise InvalidArgument(f"{len(times)} times, but {r.length} values for {a!r}")
        if len(times) == 0:
            return {}
        lanes = self._lanes or [_Lane(self.plan, a, r) for a, r in zip(self.aggregates, read, strict=True)]
        for lane, r in zip(lanes, read, strict=True):
            if any(c.valid is not None for c in r.columns) and not lane.m.nullable:
                raise InvalidArgument(
                    "got a null, but the first batch was of NumPy: nulls need Arrow values from the start"
                )

        for lane, r in zip(lanes, read, strict=True):
            lane.watch(r)

        def answers() -> dict[ACQ, Answers]:
            found: dict[ACQ, Answers] = {}
            for lane, r in zip(lanes, read, strict=True):
                events = evaluation.events_of(lane.m, r.columns, r.length)
                found |= lane.process(times, events, self.watermark, int(times[-1]))
            return found

        found = self._answered(lanes, answers)
        self.watermark, self.events = int(times[-1]), self.events + len(times)
        return found

    @exclusive
    def finish(self) -> dict[ACQ, Answers]:
        """End the stream: every window that has an event is answered."""
        if self._finished:
            raise InvalidArgument("the stream was finished already")
        lanes = self._lanes or []

        def answers() -> dict[ACQ, Answers]:
            found: dict[ACQ, Answers] = {}
            for lane in lanes:
                found |= lane.finish(self.watermark)
            return found

        found = self._answered(lanes, answers)
        self._finished = True
        return found

    def _answered(self, lanes: list[_Lane], answers: Callable[[], dict[ACQ, Answers]]) -> dict[ACQ, Answers]:
        """The answers of the lanes. If a user's function raises or an answer overflows, the lanes are as before."""
        can_fail = any(a.definition for a in self.aggregates) or any(lane.m.may_not_fit for lane in lanes)
        before = [lane.copied() for lane in lanes] if can_fail and self._lanes else self._lanes
        is_first = self._lanes is None
        try:
            found = answers()
        except BaseException as error:
            if can_fail or is_first:
                self._lanes = before
                self.undone(error)
            else:
                self.unfinished(error)
            raise
        self._lanes = lanes
        self.answers += sum(len(a.end) for a in found.values())
        return found

    @property
    def slices(self) -> int:
        """How many slices with events the trees have had, in all."""
        return sum(tree.history.end for lane in self._lanes or [] for tree in lane.trees)

    def _types(self, k: int) -> Any:
        return None if self._lanes is None else self._lanes[k].m.inputs

    def _times(self, ts: Any) -> Integers:
        times = np.asarray(ts)
        if times.dtype.kind == "M":
            for q in self.plan.acqs:
                if not q.is_time:
                    durations.refuse_plain(f"the range of {q!r}", q.range)
            times = times.astype("datetime64[us]").astype(np.int64)
        if times.ndim != 1 or (len(times) and times.dtype.kind not in "iu"):
            raise WrongType(f"times are a column of integers or datetimes, got {times.dtype} of shape {times.shape}")
        times = np.ascontiguousarray(times, np.int64)
        if len(times) == 0:
            return times
        back = np.flatnonzero(times[1:] < times[:-1]) + 1
        if times[0] < self.watermark or len(back):
            row = 0 if times[0] < self.watermark else int(back[0])
            raise OutOfOrder(f"row {row} of the batch has time {times[row]}, earlier than the event before it")
        if abs(int(times[0])) > _OVER or abs(int(times[-1])) > _OVER:
            raise InvalidArgument(f"times must lie within ±2^62, got {times[0]} … {times[-1]}")
        return times


class _Lane:
    """The trees of one aggregate, and what they share."""

    def __init__(self, plan: Plan, aggregate: Aggregate, first: Read) -> None:
        trees = [tree for tree in plan.trees if tree.aggregate == aggregate]
        subtract = any(tree.technique == "slickdeque_inv" for tree in trees)
        types = [c.type for c in first.columns]
        self.m = aggregate.monoid(types, nullable=first.may_be_null, subtractable=subtract)
        self.size = 0  # upper bound of Σ|x|: see `aggregates.overflow`
        self.trees = [_TreeRun(plan, tree, self.m) for tree in trees]
        self.shared: _Pieces | None = None
        if plan.optimizer == "triweave" and len(trees) > 1:
            fragments = "pairs" if plan.fragments == "cutty" else plan.fragments
            everything = edges_of((q for tree in trees for q in tree.acqs), fragments)
            self.shared = _Pieces(self.m, everything, everything)

    def watch(self, read: Read) -> None:
        """Widen the sums if the coming events could overflow 64 bits."""
        m = self.m
        if m.wide is None:
            return
        self.size += greatest(read.columns[0].values) * read.length
        if self.size >= LIMIT:
            for tree in self.trees:
                tree.widen(m)
            if self.shared is not None:
                self.shared.widen(m)
            self.m = m.wide

    def copied(self) -> _Lane:
        """A copy that shares no memory."""
        other = copy.copy(self)
        other.trees = [tree.copied() for tree in self.trees]
        other.shared = copy.copy(self.shared)
        return other

    def process(self, ts: Integers, events: Any, after: int, upto: int) -> dict[ACQ, Answers]:
        found: dict[ACQ, Answers] = {}
        if self.shared is None:
            for tree in self.trees:
                found |= tree.process(ts, events, fold_events, after, upto)
            return found
        starts, partials, _ = self.shared.process(ts, events, fold_events, upto)
        return found | self._hand_on(starts, partials, after, upto)

    def finish(self, after: int) -> dict[ACQ, Answers]:
        found: dict[ACQ, Answers] = {}
        if self.shared is not None:
            nothing = np.empty(0, np.int64)
            starts, partials, _ = self.shared.process(nothing, None, fold_events, _OVER)
            found |= self._hand_on(starts, partials, after, after)
        for tree in self.trees:
            found |= tree.finish(after)
        return found

    def _hand_on(self, starts: Integers, partials: Columns, after: int, upto: int) -> dict[ACQ, Answers]:
        found: dict[ACQ, Answers] = {}
        for tree in self.trees:
            found |= tree.process(starts, partials, fold_partials, after, upto)
        return found


class _Pieces:
    """Cut and folded input: slices, the last of which is open, and the pieces of slices where windows end."""

    def __init__(self, m: Monoid, begins: Iterable[Progression], all_edges: Iterable[Progression]) -> None:
        self.m = m
        self.begins, self.edges = Edges(begins), Edges(all_edges)
        self.same = self.begins.progressions == self.edges.progressions
        self.start = self.slice = _BEFORE  # of the last piece, and of the open slice
        self.last = m.allocate(1)  # the partial of the last piece

    def widen(self, m: Monoid) -> None:
        assert m.wide is not None
        self.m, self.last = m.wide, widened(m, self.last)

    def process(self, ts: Integers, events: Any, fold: Any, upto: int) -> tuple[Integers, Columns, Run]:
        """The slices that are complete when the stream has reached `upto`, their partials, and all pieces that grew or
        came."""
        complete, sealed, pieces = (
            np.empty(0, np.int64),
            self.m.allocate(0),
            (np.empty(0, np.int64), self.m.allocate(0)),
        )
        if len(ts):
            starts, rows = self.edges.cut(ts)
            slices = starts if self.same else self.begins.last(starts)
            begins = np.diff(slices, prepend=self.slice) != 0
            folded = fold(self.m, events, rows, begins, self.last)
            ends = np.flatnonzero(begins[1:])  # the last piece of each slice but the open one
            complete, sealed, pieces = slices[ends], tuple(column[ends] for column in folded), (starts, folded)
            if begins[0]:
                complete, sealed = self._with_open(complete, sealed, before=True)
            self.slice, self.start = int(slices[-1]), int(starts[-1])
            self.last = tuple(column[-1:].copy() for column in folded)
        if self.slice != _BEFORE and self.begins.last(np.array([upto]))[0] > self.slice:
            complete, sealed = self._with_open(complete, sealed)
            self.slice = _BEFORE
        return complete, sealed, pieces

    def _with_open(self, starts: Integers, partials: Columns, before: bool = False) -> tuple[Integers, Columns]:
        if self.slice == _BEFORE:
            return starts, partials
        one = np.array([self.slice], np.int64), self.last
        a, b = (one, (starts, partials)) if before else ((starts, partials), one)
        return np.concatenate([a[0], b[0]]), tuple(np.concatenate(both) for both in zip(a[1], b[1], strict=True))


class _TreeRun:
    def __init__(self, plan: Plan, tree: Tree, m: Monoid) -> None:
        # Equal ACQs are answered once, and those of one range stand together.
        distinct: dict[Any, list[ACQ]] = {}
        for q in sorted(tree.acqs, key=lambda q: q.range):
            distinct.setdefault(q.identity, []).append(q)
        self.m, self.acqs = m, list(distinct.values())
        begins = edges_of(tree.acqs, plan.fragments)
        self.pieces = _Pieces(m, begins, edges_of(tree.acqs, "pairs") if plan.fragments == "cutty" else begins)
        self.table = acq_table([same[0] for same in self.acqs])
        lengths = self.table[:, 0]
        self.ranges, first = np.unique(lengths, return_index=True)
        self.ranges_at = np.append(first, len(lengths))  # ACQs of range q
        self.longest = int(self.ranges[-1])
        self.history = History(m)
        self.evaluator = evaluator(tree.technique, tree.aggregate, m, self.ranges)

    def widen(self, m: Monoid) -> None:
        """Give all partials the second field of the wide form."""
        assert m.wide is not None
        self.m = m.wide
        for part in (self.pieces, self.history, self.evaluator):
            part.widen(m)

    def copied(self) -> _TreeRun:
        other = copy.copy(self)
        other.pieces = copy.copy(self.pieces)  # whose arrays are replaced, never written
        other.history, other.evaluator = self.history.copied(), self.evaluator.copied()
        return other

    def process(self, ts: Integers, events: Any, fold: Any, after: int, upto: int) -> dict[ACQ, Answers]:
        before = self.pieces.start, self.pieces.last
        starts, partials, (pieces, folded) = self.pieces.process(ts, events, fold, upto)
        if before[0] != _BEFORE and (len(pieces) == 0 or pieces[0] != before[0]):
            pieces = np.concatenate([[before[0]], pieces])
            folded = tuple(np.concatenate(both) for both in zip(before[1], folded, strict=True))
        self.history.append(starts, partials, after - 2 * self.longest)
        return self._answer(len(starts), pieces, folded, after, upto) if len(pieces) else {}

    def finish(self, after: int) -> dict[ACQ, Answers]:
        return self.process(np.empty(0, np.int64), None, None, after, _OVER)

    def _answer(self, new: int, pieces: Integers, folded: Columns, after: int, upto: int) -> dict[ACQ, Answers]:
        due, bounds, rows = self._due(pieces, after, upto)
        wide = due.hi > due.lo if not self.pieces.same else None  # the others lie in the open slice
        if wide is None or wide.all():
            asked, at = due, None
        else:
            by_range = np.concatenate([[0], np.cumsum(wide)])[due.bounds]
            asked = picked(due, wide, by_range)
            at = np.where(wide, np.cumsum(wide) - 1, -1)
        answered = self.evaluator.answer(self.history, new, asked)
        answers = evaluation.empty_answers(self.m, len(due.end))
        with np.errstate(all="ignore"):
            if self.pieces.same and rows is None:
                evaluation.lower_many(self.m, answered, answers)
            else:
                place = np.arange(len(due.end)) if rows is None else rows
                at = np.arange(len(due.end)) if at is None else at
                lower = kernel(self.m, lambda: _lower(self.m), "lower windows")
                lower(answered, at, folded, due.tail, place, answers)
        try:
            values = evaluation.finish(self.m, answers)
        except Overflow as error:
            raise located(error, lambda row: f"{self._asked(row, bounds)!r}") from None
        ends = due.end
        if rows is not None:
            ends = np.empty_like(due.end)
            ends[rows] = due.end
        found = {}
        for k, same in enumerate(self.acqs):
            low, high = int(bounds[k]), int(bounds[k + 1])
            for q in same if high > low else []:
                found[q] = Answers(q.range, ends[low:high], values.slice(low, high - low))
        return found

    def _asked(self, row: int, bounds: Integers) -> ACQ:
        """The query whose answer is in a row."""
        return self.acqs[int(np.searchsorted(bounds, row, side="right")) - 1][0]

    def _due(self, pieces: Integers, after: int, upto: int) -> tuple[Due, Integers, Integers | None]:
        """The windows that are due; those of ACQ k are bounds[k] … bounds[k + 1] - 1 of the rows, which are None
        if they are in order. (ACQs of one range are answered together.)"""
        starts, first = self.history.starts, self.history.first
        if self.pieces.same:  # one slice after the other; the first of them may have been dropped from the history
            at = first + np.searchsorted(starts, pieces[-1]) + np.arange(1 - len(pieces), 1)
            until = np.full(len(pieces), _BEFORE)
        else:
            slices = self.pieces.begins.last(pieces)
            at, until = first + np.searchsorted(starts, slices), self.pieces.begins.next(slices)
        due = find_due(self.table, Pieces(pieces, at, until), starts, first, after, upto)
        bounds, by_range = due.bounds, due.bounds[self.ranges_at]
        due = due._replace(bounds=by_range)
        if len(self.ranges) == len(self.acqs):
            return due, bounds, None
        rows = np.arange(len(due.end))
        for q in np.flatnonzero(np.diff(self.ranges_at) > 1):
            mine = slice(int(by_range[q]), int(by_range[q + 1]))
            rows[mine] = mine.start + np.argsort(due.end[mine], kind="stable")
        return picked(due, rows, by_range), bounds, rows


def _lower(m: Monoid) -> Any:
    """What the slices of a window and its last piece come to, lowered."""
    combine, answer_at = m.combine, evaluation.answer(m)
    load, _ = accessors(m.fields)

    def lower(answered: Any, at: Any, pieces: Any, tail: Any, rows: Any, answers: Any) -> Any:
        for k in range(len(at)):
            if tail[k] < 0:
                answer_at(answers, rows[k], load(answered, at[k]))
            elif at[k] < 0:
                answer_at(answers, rows[k], load(pieces, tail[k]))
            else:
                answer_at(answers, rows[k], combine(load(answered, at[k]), load(pieces, tail[k])))

    return lower
