"""The limit of rows per call: a call that would exceed it is refused before anything changes.

    an upper bound, from counters      within the limit: run the call
    the exact number, from slices      run the call, or refuse it
    unknown, because events wait       copy the engines, run the call, and put them back if it makes too many rows

The bound costs a few multiplications a call. The exact number costs a step a slice, not a window: see
`slicing.counting`. When engines run a call that may be undone, they count the windows of each query again before they
allocate them, because by then all slices are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from windlass.errors import TooManyRows
from windlass.operator.plan import Plan
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.rates import Rates

if TYPE_CHECKING:
    from windlass.operator.branch import Branch

Array = np.ndarray[Any, Any]

MAX_ROWS = 10**8  # fits into the memory of a laptop


class Coming(NamedTuple):
    """The work of a coming call: take events, and raise the watermark."""

    watermark: int
    over: bool = False
    partial: bool = False
    events: int = 0
    least: int = NEVER  # the earliest time of these events
    greatest: int = LONG_AGO  # the greatest event time of the stream, these events included
    times: int = 1  # how often the watermark rises

    @property
    def upto(self) -> int:
        """Windows that end later do not come out."""
        return NEVER if self.over else self.watermark

    def ends(self, rates: Rates) -> Array:
        """The last end of a window that comes out, by specification."""
        last = self.greatest + rates.size
        if self.over:
            return np.asarray(last)
        return np.where(rates.empty, float(self.watermark), np.minimum(last, self.watermark))


class RowLimit:
    """The limit of one call. Rows that were found before and that still wait for `advance` count as well."""

    def __init__(self, most: int, branches: Sequence[Branch]) -> None:
        self.most, self.branches = most, branches

    @property
    def waiting(self) -> int:
        """Number of rows that wait, those that the call has found so far included."""
        return sum(int((found(branch) * branch.plan.asked).sum()) for branch in self.branches)

    @property
    def most_waiting(self) -> int:
        """Upper bound on `waiting`, from counters."""
        return sum((branch.found + branch.running.found) * branch.plan.most_asked for branch in self.branches)

    def is_far(self, *coming: Coming) -> bool:
        """Whether upper bounds alone show that a call stays within the limit. Raise if it certainly exceeds it."""
        found = sum(branch.running.most_rows(work, self) for work in coming for branch in self.branches)
        return found + self.most_waiting <= self.most

    def check(self, plan: Plan, findings: Sequence[int], counts: Array, spare: int = 0) -> int:
        """Refuse if `counts` windows of the findings exceed the limit by more than `spare`. Return their number of
        rows."""
        of = plan.asked
        wanted = [n * int(of[i]) for i, n in zip(findings, counts.tolist(), strict=True)]
        total: int = sum(wanted)
        if not wanted:
            self.check_rows(self.branches)
        elif total + self.most_waiting > self.most + spare and total + (waiting := self.waiting) > self.most + spare:
            worst = int(np.argmax(wanted))
            self._refuse(plan, findings[worst], int(counts[worst]), total, waiting)
        return total

    def check_rows(self, branches: Sequence[Branch]) -> None:
        """Raise if too many rows have been found."""
        counted = [(branch.plan, found(branch)) for branch in branches]
        wanted = [counts * plan.asked for plan, counts in counted]  # 0 for windows of removed queries
        total = sum(int(rows.sum()) for rows in wanted)
        if total > self.most:
            worst = max(range(len(wanted)), key=lambda each: int(wanted[each].max(initial=0)))
            plan, counts = counted[worst]
            finding = int(wanted[worst].argmax())
            self._refuse(plan, finding, int(counts[finding]), total)

    def _refuse(self, plan: Plan, finding: int, count: int, total: int, waiting: int = 0) -> NoReturn:
        pairs = zip(plan.queries, plan.finding_of, strict=True)
        names = [q.name for q, at in pairs if at == finding and q.name not in plan.removed]
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        before = f", on top of {waiting:,} that wait for advance" if waiting else ""
        raise TooManyRows(
            f"the call would make {total:,} rows{before}, more than max_rows={self.most:,}: "
            f"query {names[0]!r}{others} has {count:,} windows of {plan.findings[finding].window!r}. "
            "Use a larger slide or step, fewer keys, no emit_empty, smaller watermark steps, or a larger max_rows"
        )


def found(branch: Branch) -> Array:
    """Count the pending rows of a branch, by window of its plan."""
    counts = np.zeros(len(branch.plan.findings), np.int64)
    for rows in branch.waiting():
        counts += np.bincount(rows.finding, minlength=len(counts))
    return counts
