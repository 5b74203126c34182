"""check_laws: whether an aggregate keeps the laws that every technique relies on.

The sample rows are cut into stretches, the empty stretch included. For adjacent stretches a, b, c:

| law | |
|---|---|
| associativity | (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c) |
| identity | e ⊕ a = a = a ⊕ e |
| inverse | (a ⊕ b) ⊖ a = b, and it combines on like b; where there is an inverse |
| commutativity | a ⊕ b = b ⊕ a; where declared |
| selectivity | a ⊕ b is b if selects(a, b), else a; where declared |
| purity | combine, inverse and lower leave the partials they are given as they were |

Partials count as equal when they lower to the same answer. Floats may differ by rounding: `tolerance` times
the largest float among the answers and the partials they came from. The functions are run as plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any, NoReturn

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import OBJECT, column, value_type
from windlass.errors import InvalidArgument, LawViolation

_CUTS = 6  # more rows than this are cut at this many places only


def check_laws(aggregate: Aggregate, rows: Sequence[Any], *, dtype: Any = None, tolerance: float = 1e-9) -> None:
    """Raise `LawViolation` with a counterexample if the aggregate breaks one of its laws on these rows.

    rows   sample values, or tuples of them for an aggregate of several columns; None is null
    dtype  the type of the column, or a tuple of types; by default that of the rows
    """
    types, lifted_rows = _read(aggregate, list(rows), dtype)
    forms = [("", aggregate.invertible)]
    if aggregate.build_invertible is not None:  # the plain form is never subtracted from
        forms = [("", False), (" (the form that is subtracted)", True)]
    for form, subtractable in forms:
        m = aggregate.monoid(types, nullable=True, subtractable=subtractable)
        m = m if subtractable else replace(m, inverse=None)
        with np.errstate(all="ignore"):
            _Laws(f"{aggregate!r}{form}", aggregate, m, list(rows), lifted_rows, tolerance).check()


def _read(aggregate: Aggregate, rows: list[Any], dtype: Any) -> tuple[list[Any], list[tuple[Any, ...] | None]]:
    width = len(aggregate.columns)
    if not rows:
        raise InvalidArgument("laws are checked on sample rows; give at least one")
    if width == 0:
        return [], [()] * len(rows)
    tuples = [(row,) for row in rows] if width == 1 else rows
    for row in tuples:
        if not isinstance(row, tuple | list) or len(row) != width:
            raise InvalidArgument(f"{aggregate!r} takes rows of {width} values, got {row!r}")
    given = dtype if isinstance(dtype, tuple | list) else [dtype] * width
    types = [None if t is None else value_type(t) for t in given]
    columns = [column(list(values), t) for values, t in zip(zip(*tuples, strict=True), types, strict=True)]
    valid = evaluation.all_valid(columns)
    arrays = [c.values.astype(OBJECT) for c in columns]
    items = list(zip(*arrays, strict=True))
    return [c.type for c in columns], [item if valid is None or valid[i] else None for i, item in enumerate(items)]


class _Laws:
    def __init__(
        self,
        name: str,
        aggregate: Aggregate,
        m: Monoid,
        rows: list[Any],
        lifted_rows: list[tuple[Any, ...] | None],
        tolerance: float,
    ) -> None:
        self.name, self.aggregate, self.m, self.rows, self.tolerance = name, aggregate, m, rows, tolerance
        self.partials = [m.identity() if row is None else m.lift(*row) for row in lifted_rows]
        self.cuts = sorted({round(k * len(rows) / _CUTS) for k in range(_CUTS + 1)})

    def check(self) -> None:
        self.stretches = {at: self._fold(*at) for at in combinations_with_replacement(self.cuts, 2)}
        for at in self.stretches:
            self._check_lower(at)
            self._check_identity(at)
        for i, j, k in combinations_with_replacement(self.cuts, 3):
            self._check_pair((i, j), (j, k))
        for i, j, k, n in combinations_with_replacement(self.cuts, 4):
            if i < j < k < n:
                self._check_associativity((i, j), (j, k), (k, n))

    # ------------------------------------------------------------------ the laws

    def _check_identity(self, at: tuple[int, int]) -> None:
        a, e = self.stretches[at], self.m.identity()
        self._equal("identity", "e ⊕ a", self._combine(e, a), "a", a, a=at)
        self._equal("identity", "a ⊕ e", self._combine(a, self.m.identity()), "a", a, a=at)

    def _check_associativity(self, x: tuple[int, int], y: tuple[int, int], z: tuple[int, int]) -> None:
        a, b, c = self.stretches[x], self.stretches[y], self.stretches[z]
        left = self._combine(self._combine(a, b), c)
        right = self._combine(a, self._combine(b, c))
        self._equal("associativity", "(a ⊕ b) ⊕ c", left, "a ⊕ (b ⊕ c)", right, a=x, b=y, c=z)

    def _check_pair(self, x: tuple[int, int], y: tuple[int, int]) -> None:
        a, b = self.stretches[x], self.stretches[y]
        ab = self._combine(a, b)
        if self.aggregate.commutative:
            self._equal("commutativity", "a ⊕ b", ab, "b ⊕ a", self._combine(b, a), a=x, b=y)
        if self.m.inverse is not None:
            rest = self._inverse(ab, a)
            self._equal("inverse", "(a ⊕ b) ⊖ a", rest, "b", b, a=x, b=y)
            on, expected = self._combine(rest, a), self._combine(b, a)
            self._equal("inverse", "((a ⊕ b) ⊖ a) ⊕ a", on, "b ⊕ a", expected, a=x, b=y)
        if self.aggregate.selective:
            self._check_selectivity(a, b, ab, x, y)

    def _check_selectivity(self, a: Any, b: Any, ab: Any, x: tuple[int, int], y: tuple[int, int]) -> None:
        if self.m.selects is None:
            self._violated("selectivity", "it is declared selective but has no selects", a=x, b=y)
        chosen, what = (b, "b") if self.m.selects(a, b) else (a, "a")
        if not (_alike(ab, a) or _alike(ab, b)):
            self._violated("selectivity", f"a ⊕ b = {ab!r} is neither a = {a!r} nor b = {b!r}", a=x, b=y)
        if not _alike(ab, chosen):
            self._violated("selectivity", f"selects(a, b) says {what} = {chosen!r}, a ⊕ b = {ab!r}", a=x, b=y)

    def _check_lower(self, at: tuple[int, int]) -> None:
        p = self.stretches[at]
        before = self._print(p)
        self._answer(p)
        if self._print(p) != before:
            self._violated("purity", f"lower changed its argument to {p!r}", a=at)

    # ------------------------------------------------------------------ calls that are watched

    def _fold(self, i: int, j: int) -> Any:
        if i == j:
            return self.m.identity()
        acc = self.partials[i]
        for p in self.partials[i + 1 : j]:
            acc = self._combine(acc, p)
        return acc

    def _combine(self, a: Any, b: Any) -> Any:
        return self._watched("combine", self.m.combine, a, b)

    def _inverse(self, c: Any, a: Any) -> Any:
        return self._watched("inverse", self.m.inverse, c, a)

    def _watched(self, what: str, function: Any, a: Any, b: Any) -> Any:
        before = self._print(a), self._print(b)
        result = function(a, b)
        for k, partial in enumerate((a, b)):
            if self._print(partial) != before[k]:
                raise LawViolation(
                    f"{self.name} breaks purity: {what} changed its {('first', 'second')[k]} argument to "
                    f"{partial!r}; on rows {self.rows!r}"
                )
        return result

    def _answer(self, p: Any) -> Any:
        """What a partial lowers to; None where there is no answer."""
        if self.m.defined is not None and not self.m.defined(p):
            return None
        if self.m.finish is not None:  # what lower gives is not yet the answer
            answers = evaluation.empty_answers(self.m, 1)
            evaluation.answer(self.m)(answers, 0, p)
            return evaluation.finish(self.m, answers)[0].as_py()
        try:
            return self.m.lower(p)
        except ZeroDivisionError:  # compiled code would give NaN or infinity; equal partials agree on it either way
            return "a division by zero"

    def _equal(self, law: str, left: str, x: Any, right: str, y: Any, **stretches: tuple[int, int]) -> None:
        answers = self._answer(x), self._answer(y)
        sources = (x, y, *(self.stretches[at] for at in stretches.values()))
        scale = max((abs(f) for f in _floats((answers, sources)) if math.isfinite(f)), default=0.0)
        if not _close(*answers, self.tolerance * scale):
            self._violated(law, f"{left} gives {_shown(answers[0])}, {right} gives {_shown(answers[1])}", **stretches)

    def _violated(self, law: str, how: str, **stretches: tuple[int, int]) -> NoReturn:
        where = ", ".join(f"{name} of rows {self.rows[i:j]!r}" for name, (i, j) in stretches.items())
        raise LawViolation(f"{self.name} breaks {law}: {how}; with {where}")

    def _print(self, partial: Any) -> Any:
        """A partial's content, to see whether it changed."""
        encode = self.m.encode
        items = [
            encode(item) if encode is not None and field.dtype == OBJECT else item
            for item, field in zip(partial, self.m.fields, strict=True)
        ]
        return _content(items)


def _content(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.shape, repr(value.tolist()) if value.dtype == OBJECT else value.tobytes())
    if isinstance(value, list | tuple):
        return (type(value), *(_content(item) for item in value))
    if isinstance(value, dict):
        return (dict, *((_content(k), _content(v)) for k, v in value.items()))
    return repr(value)


def _alike(x: Any, y: Any) -> bool:
    return _close(x, y, 0.0)


def _close(x: Any, y: Any, tolerance: float) -> bool:
    """Equal, floats up to the tolerance, NaN to NaN, through tuples, lists, dicts and arrays."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        if np.shape(x) != np.shape(y):
            return False
        if np.asarray(x).dtype.kind in "iub" and np.asarray(y).dtype.kind in "iub":
            return bool(np.array_equal(x, y))
        return all(_close(p, q, tolerance) for p, q in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        return len(x) == len(y) and all(_close(p, q, tolerance) for p, q in zip(x, y, strict=True))
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(_close(x[k], y[k], tolerance) for k in x)
    if isinstance(x, float | np.floating) or isinstance(y, float | np.floating):
        if x is None or y is None or isinstance(x, str) or isinstance(y, str):
            return False
        return bool(x == y or (x != x and y != y) or (math.isfinite(x - y) and abs(x - y) <= tolerance))
    return bool(x == y)


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float | np.floating):
        yield float(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield from np.ravel(value).tolist()
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _floats(item)


def _shown(answer: Any) -> str:
    return (
        "no answer" if answer is None else repr(answer[0] if isinstance(answer, tuple) and len(answer) == 1 else answer)
    )
