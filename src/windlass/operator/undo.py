"""Roll an operator back when a call raises: then it is as before the call, or it is broken.

    READING      nothing has changed yet                   as before, whatever was raised
    ENTERING     new keys get ids                          broken
    PREPARING    branches get engines, these make room     as before if the call is refused
    TAKING       engines take events, or advance           broken
    ANSWERING    results are built of rows that are due    the rows stay due if the call is refused
    COMMITTED    the call has done its work                broken

The engines are copied before they change if a query has functions of the user, if an answer may not fit its type, if a
query that was added joins the slices of others, or if events can only be checked as they are taken. Then the operator
is as before even in PREPARING, TAKING and ANSWERING, whatever was raised. Only references are put back; no kernel runs
over arrays that may be half changed. The one exception is the key index, from which new keys are removed. It is whole
then, because nothing in ENTERING is undone.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from windlass.errors import WindlassError

if TYPE_CHECKING:
    from windlass.operator.branch import Branch
    from windlass.operator.emitted import Rows
    from windlass.operator.engine import Engine
    from windlass.operator.operator import Operator
    from windlass.operator.plan import Plan

__all__ = ["Undo"]

READING, ENTERING, PREPARING, TAKING, ANSWERING, COMMITTED = range(6)


class Undo:
    """The operator's state before a call, and the stage that the call has reached."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.stage = operator, READING
        self.has_engines = False
        self.engines: list[tuple[Branch, Engine | None, list[Rows], int]] = []
        self.attributes: list[tuple[Branch | Plan, dict[str, Any]]] = []

    def remember(self, gives_answers: bool = False) -> None:
        """Keep the state that the next stages change. `gives_answers`: results are built, and may overflow."""
        operator, branches = self.operator, self.operator._branches
        self.keys, self.key_types = len(operator._keys), operator._keys.types
        self.times = operator._arrivals, operator._greatest, operator._sequence, operator._next, operator._watermark
        self.passed, self.finished = operator._passed, operator._finished
        self.counters, self.expired = dict(operator._counters), len(operator._expired)
        self.branches, self.observed = branches, operator._planning.observed
        self.has_engines = any(branch.plan.can_fail or branch.joins_next for branch in branches) or (
            gives_answers and any(branch.answers is not None and branch.answers.may_not_fit for branch in branches)
        )
        changing = branches if self.has_engines else [branch for branch in branches if branch.engine is None]
        self.attributes = [(part, _attributes(part)) for branch in changing for part in (branch, branch.plan)]
        if self.has_engines:
            self.engines = [(branch, branch.copied_engine(), list(branch.due), branch.found) for branch in branches]

    def keep_engines(self) -> None:
        """Copy the engines before they change, because the call may still be refused."""
        if not self.has_engines:
            fresh = [part for part, _ in self.attributes]
            kept = [branch for branch in self.operator._branches if branch not in fresh]
            self.engines = [(branch, branch.copied_engine(), list(branch.due), branch.found) for branch in kept]
            self.has_engines = True
        self.stage = TAKING

    def commit(self) -> None:
        """Mark the call as done: nothing is put back afterwards."""
        self.stage = COMMITTED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self._settle(error)

    def _settle(self, error: BaseException) -> None:
        """Put back the old state where possible, and tell the operator whether it is as before."""
        refused = isinstance(error, WindlassError)
        if self.stage == READING:
            self.operator.undone(error)
        elif self.stage == COMMITTED:
            self.operator.unfinished(error)
        elif (self.has_engines and self.stage > ENTERING) or (refused and self.stage == PREPARING):
            self._put_back()
            self.operator.undone(error)
        elif refused and self.stage == ANSWERING:
            self.operator.undone(error)
        else:
            self.operator.unfinished(error)

    def _put_back(self) -> None:
        operator = self.operator
        operator._arrivals, operator._greatest, operator._sequence, operator._next, operator._watermark = self.times
        operator._passed, operator._finished = self.passed, self.finished
        operator._counters = self.counters
        del operator._expired[self.expired :]
        operator._planning.observed = self.observed
        for part, attributes in self.attributes:
            part.__dict__ = attributes
        if self.has_engines:
            for branch, engine, due, found in self.engines:
                branch.engine, branch.due, branch.found = engine, due, found
        operator._replace(self.branches)
        operator._keys.truncate(self.keys, self.key_types)


def _attributes(part: Branch | Plan) -> dict[str, Any]:
    """The attributes of an object, with copies of its lists and dicts, which grow when a query joins."""
    return {name: copy(value) if type(value) in (list, dict, set) else value for name, value in vars(part).items()}
