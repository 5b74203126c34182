"""Where an aggregate meets columns: lifting event i, lowering into row i, and the plain fold over a whole column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import OBJECT, Column, ValueType
from windlass.kernels import Field, accessors, compiled, unsigned

Function = Callable[..., Any]
Events = tuple[Columns, np.ndarray[Any, Any], int]  # columns, validity (empty if no nulls can be), number of events
Answers = tuple[Columns, np.ndarray[Any, Any]]  # result columns, and which rows have an answer

_kernels: dict[Any, Function] = {}
_NOT_ASKED = np.zeros(0, np.bool_)  # which rows have an answer, where all have


def value_field(type_: ValueType) -> Field:
    """How kernels load a value of this type."""
    return Field("value", type_.dtype)


def lifted(m: Monoid) -> Function:
    """`lifted(events, i)`: the partial of event i of (columns, validity, number); a null gives the identity."""
    lift, identity = m.lift, m.identity
    load, _ = accessors(tuple(map(value_field, m.inputs)))

    def lift_value(events: Any, i: Any) -> Any:
        return lift(*load(events[0], i))

    def lift_nullable(events: Any, i: Any) -> Any:
        if events[1][unsigned(i)]:
            return lift(*load(events[0], i))
        return identity()

    return lift_nullable if m.nullable and m.inputs else lift_value


def answer(m: Monoid, streaming: bool = False) -> Function:
    """`answer(answers, i, x)`: lower a partial into row i of the result columns, with its validity last."""
    lower, defined = m.lower, m.defined
    _, store = accessors(m.result_fields, streaming)

    def answer_always(answers: Any, i: Any, x: Any) -> Any:
        store(answers[0], i, lower(x))

    def answer_if_defined(answers: Any, i: Any, x: Any) -> Any:
        ok = defined(x)  # type: ignore[misc]
        answers[1][unsigned(i)] = ok
        if ok:
            store(answers[0], i, lower(x))

    return answer_always if defined is None else answer_if_defined


def kernel(m: Monoid, make: Callable[[], Function], *key: Any) -> Function:
    """A loop over this monoid's functions, compiled if they can be; made once for all monoids of one key."""
    if not m.is_compiled or m.key is None:
        cache, name = m.own_kernels, key
    else:
        cache, name = _kernels, (m.key, *key)
    if name not in cache:
        function = make()
        cache[name] = compiled(function, allocates=m.allocates) if m.is_compiled else function
    return cache[name]


def fold(m: Monoid, events: Events) -> pa.Array:
    """The answer over all events, as an array of one."""
    answers = empty_answers(m, 1)
    fold_into(m, events, answers)
    return finish(m, answers)


def fold_into(m: Monoid, events: Events, answers: Answers) -> None:
    kernel(m, lambda: _fold_kernel(m), "fold")(events, answers)


def _fold_kernel(m: Monoid) -> Function:
    combine, lift_at, answer_at = m.combine, lifted(m), answer(m)

    def fold(events: Any, answers: Any) -> Any:
        acc = lift_at(events, 0)
        for i in range(1, events[2]):
            acc = combine(acc, lift_at(events, i))
        answer_at(answers, 0, acc)

    return fold


def lower_many(m: Monoid, partials: Columns, answers: Answers) -> None:
    """Lower a column of partials, row by row."""
    kernel(m, lambda: _lower_kernel(m), "lower")(partials, answers, len(partials[0]))


def _lower_kernel(m: Monoid) -> Function:
    load, _ = accessors(m.fields)
    answer_at = answer(m.apart())

    def lower(partials: Any, answers: Any, n: Any) -> Any:
        for i in range(n):
            answer_at(answers, i, load(partials, i))

    return lower


def events_of(m: Monoid, columns: Sequence[Column], n: int) -> Events:
    """Columns as kernels take them. Interpreted functions get Python numbers: they have no surprises of fixed width."""
    valid = all_valid(columns)
    mask = valid if valid is not None else np.ones(n if m.nullable else 0, np.bool_)
    return tuple(read_only(c.values) if m.is_compiled else c.values.astype(OBJECT) for c in columns), mask, n


def read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view that cannot be written to, as arrays of Arrow's cannot. To the compiler that is another type, and kernels
    would be compiled for both."""
    view = values.view()
    view.flags.writeable = False
    return view


def empty_answers(m: Monoid, n: int) -> Answers:
    columns = tuple([field.allocate(n) for field in m.result_fields])  # a list is sooner made than a generator
    return columns, np.zeros(n, np.bool_) if m.defined is not None else _NOT_ASKED


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


def all_valid(columns: Sequence[Column]) -> np.ndarray[Any, Any] | None:
    """An event counts only if none of the aggregate's columns is null; None if no value is."""
    valid: np.ndarray[Any, Any] | None = None
    for c in columns:
        if c.valid is not None:
            valid = c.valid if valid is None else valid & c.valid
    return valid
