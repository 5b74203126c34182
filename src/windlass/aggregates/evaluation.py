"""Where an aggregate meets columns: lifting event i, lowering into row i, and the plain fold over a whole column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import OBJECT, Column
from windlass.kernels import Field, accessors, compiled

Function = Callable[..., Any]
Answers = tuple[Columns, np.ndarray[Any, Any]]  # result columns, and which rows have an answer

_kernels: dict[Any, Function] = {}


def lifted(m: Monoid) -> Function:
    """`lifted(values, valid, i)`: the partial of event i; a null gives the identity."""
    lift, identity = m.lift, m.identity
    load, _ = accessors(tuple(Field("value", t.dtype) for t in m.inputs))

    def lift_value(values: Any, valid: Any, i: Any) -> Any:
        return lift(*load(values, i))

    def lift_nullable(values: Any, valid: Any, i: Any) -> Any:
        if valid[i]:
            return lift(*load(values, i))
        return identity()

    return lift_nullable if m.nullable and m.inputs else lift_value


def answer(m: Monoid) -> Function:
    """`answer(answers, i, x)`: lower a partial into row i of the result columns, with its validity last."""
    lower, defined = m.lower, m.defined
    _, store = accessors(m.result_fields)

    def answer_always(answers: Any, i: Any, x: Any) -> Any:
        store(answers[0], i, lower(x))

    def answer_if_defined(answers: Any, i: Any, x: Any) -> Any:
        ok = defined(x)
        answers[1][i] = ok
        if ok:
            store(answers[0], i, lower(x))

    return answer_always if defined is None else answer_if_defined


def kernel(m: Monoid, make: Callable[[], Function], *key: Any) -> Function:
    """A loop over this monoid's functions, compiled if they can be; made once for all monoids of one key."""
    found = _kernels.get((m.key, *key))
    if found is None:
        function = make()
        found = compiled(function, allocates=m.allocates) if m.is_compiled else function
        _kernels[(m.key, *key)] = found
    return found


def fold(m: Monoid, columns: Columns, valid: np.ndarray[Any, Any], n: int) -> pa.Array:
    """The answer over all n events, as an array of one."""
    answers = empty_answers(m, 1)
    kernel(m, lambda: _fold_kernel(m), "fold")(columns, valid, n, answers)
    return finish(m, answers)


def _fold_kernel(m: Monoid) -> Function:
    combine, lift_at, answer_at = m.combine, lifted(m), answer(m)

    def fold(values: Any, valid: Any, n: Any, answers: Any) -> Any:
        acc = lift_at(values, valid, 0)
        for i in range(1, n):
            acc = combine(acc, lift_at(values, valid, i))
        answer_at(answers, 0, acc)

    return fold


def empty_answers(m: Monoid, n: int) -> Answers:
    columns = tuple(field.allocate(n) for field in m.result_fields)
    return columns, np.zeros(n if m.defined is not None else 0, np.bool_)


def finish(m: Monoid, answers: Answers) -> pa.Array:
    """Result columns as one Arrow array."""
    columns, defined = answers
    return m.answers(columns, defined if m.defined is not None else None)


def answer_of_nothing(m: Monoid) -> Any:
    """The answer over no event at all: null, or what the identity lowers to where that is an answer."""
    if not m.answers_empty:
        return None
    answers = empty_answers(m, 1)
    answer(m)(answers, 0, m.identity())
    return finish(m, answers)[0].as_py()


def for_kernel(column: Column, m: Monoid) -> np.ndarray[Any, Any]:
    """Interpreted functions get Python numbers: they have no surprises of fixed width."""
    return column.values if m.is_compiled or column.values.dtype == OBJECT else column.values.astype(OBJECT)


def all_valid(columns: Sequence[Column]) -> np.ndarray[Any, Any] | None:
    """An event counts only if none of the aggregate's columns is null; None if no value is."""
    valid: np.ndarray[Any, Any] | None = None
    for c in columns:
        if c.valid is not None:
            valid = c.valid if valid is None else valid & c.valid
    return valid
