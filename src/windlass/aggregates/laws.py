"""check_laws: whether an aggregate keeps the laws that every technique relies on.

The sample rows are cut into stretches, the empty stretch included: at a few places of the whole, into single rows,
and at random (but the same) places. For adjacent stretches a, b, c:

| law | |
|---|---|
| associativity | (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c) |
| identity | e ⊕ a = a = a ⊕ e |
| inverse | (a ⊕ b) ⊖ a = b, and it combines on like b; where there is an inverse |
| commutativity | a ⊕ b = b ⊕ a; where declared |
| selectivity | a ⊕ b is b if selects(a, b), else a; where declared |
| purity | combine, inverse and lower leave the partials they are given as they were |

Partials count as equal when they lower to the same answer. Floats may differ by rounding: `tolerance` times the
largest among the two and the answers of the partials they came from, each part of an answer by itself. The functions
are run as plain Python.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any, NoReturn

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import OBJECT, column, value_type
from windlass.errors import InvalidArgument, LawViolation

_CUTS = 6  # the whole is cut at this many places, in all combinations
_RANDOM, _LENGTH = 40, 8  # so many times, three stretches of up to so many rows


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
        self.stretches: dict[tuple[int, int], Any] = {}
        self.answers: dict[tuple[int, int], Any] = {}

    def check(self) -> None:
        cuts = sorted({round(k * len(self.rows) / _CUTS) for k in range(_CUTS + 1)})
        triples = list(combinations_with_replacement(cuts, 4))
        triples += [(i, i + 1, i + 2, i + 3) for i in range(len(self.rows) - 2)] + self._random_cuts()
        pairs = dict.fromkeys(pair for i, j, k, n in triples for pair in ((i, j, k), (j, k, n)))
        for at in dict.fromkeys(at for i, j, k in pairs for at in ((i, j), (j, k), (i, k))):
            self.stretches[at] = self._fold(*at)
            self._check_lower(at)
            self._check_identity(at)
        for i, j, k in pairs:
            self._check_pair((i, j), (j, k))
        for i, j, k, n in dict.fromkeys(triples):
            if i < j < k < n:
                self._check_associativity((i, j), (j, k), (k, n))

    def _random_cuts(self) -> list[tuple[int, int, int, int]]:
        rows, choose = len(self.rows), random.Random(0)
        found = []
        for _ in range(_RANDOM):
            i = choose.randrange(rows)
            j = min(i + choose.randint(1, _LENGTH), rows)
            k = min(j + choose.randint(1, _LENGTH), rows)
            found.append((i, j, k, min(k + choose.randint(1, _LENGTH), rows)))
        return found

    # ------------------------------------------------------------------ the laws

    def _check_identity(self, at: tuple[int, int]) -> None:
        a, e = self.stretches[at], self.m.identity()
        self._equal("identity", "e ⊕ a", self._combine(e, a), "a", a, a=at)
        self._equal("identity", "a ⊕ e", self._combine(a, self.m.identity()), "a", a, a=at)

    def _check_associativity(self, x: tuple[int, int], y: tuple[int, int], z: tuple[int, int]) -> None:
        a, b, c = self.stretches[x], self.stretches[y], self.stretches[z]
        ab, bc = self._combine(a, b), self._combine(b, c)
        left, right = self._combine(ab, c), self._combine(a, bc)
        self._equal("associativity", "(a ⊕ b) ⊕ c", left, "a ⊕ (b ⊕ c)", right, (ab, bc), a=x, b=y, c=z)

    def _check_pair(self, x: tuple[int, int], y: tuple[int, int]) -> None:
        a, b = self.stretches[x], self.stretches[y]
        ab = self._combine(a, b)
        if self.aggregate.commutative:
            self._equal("commutativity", "a ⊕ b", ab, "b ⊕ a", self._combine(b, a), a=x, b=y)
        if self.m.inverse is not None:
            rest = self._inverse(ab, a)
            self._equal("inverse", "(a ⊕ b) ⊖ a", rest, "b", b, (ab,), a=x, b=y)
            on, expected = self._combine(rest, a), self._combine(b, a)
            self._equal("inverse", "((a ⊕ b) ⊖ a) ⊕ a", on, "b ⊕ a", expected, (ab,), a=x, b=y)
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
        self.answers[at] = self._answer(p)
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

    def _equal(
        self, law: str, left: str, x: Any, right: str, y: Any, through: tuple[Any, ...] = (), **at: tuple[int, int]
    ) -> None:
        """`through`: partials on the way, whose answers are rounded too."""
        answers = self._answer(x), self._answer(y)
        if _close(*answers, 0.0):
            return
        sources = [self.answers[stretch] for stretch in at.values()] + [self._answer(p) for p in through]
        if not _close(*answers, self.tolerance, sources):
            self._violated(law, f"{left} gives {_shown(answers[0])}, {right} gives {_shown(answers[1])}", **at)

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


def _close(x: Any, y: Any, tolerance: float, sources: Sequence[Any] = ()) -> bool:
    """Equal, floats up to the tolerance, NaN to NaN, through tuples, lists, dicts and arrays.

    The tolerance is relative to the larger of the two and to what the sources have in the same place.
    """
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        if np.shape(x) != np.shape(y):
            return False
        if np.asarray(x).dtype.kind in "iub" and np.asarray(y).dtype.kind in "iub":
            return bool(np.array_equal(x, y))
        flat = [np.ravel(source).tolist() for source in sources if np.shape(source) == np.shape(x)]
        return _close(np.ravel(x).tolist(), np.ravel(y).tolist(), tolerance, flat)
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        like = [source for source in sources if isinstance(source, tuple | list) and len(source) == len(x)]
        return len(x) == len(y) and all(
            _close(p, q, tolerance, [source[k] for source in like]) for k, (p, q) in enumerate(zip(x, y, strict=True))
        )
    if isinstance(x, dict) and isinstance(y, dict):
        dicts = [source for source in sources if isinstance(source, dict)]
        return x.keys() == y.keys() and all(
            _close(x[key], y[key], tolerance, [source[key] for source in dicts if key in source]) for key in x
        )
    if isinstance(x, float | np.floating) or isinstance(y, float | np.floating):
        if x is None or y is None or isinstance(x, str) or isinstance(y, str):
            return False
        if x == y or (x != x and y != y):
            return True
        numbers = [abs(float(v)) for v in (x, y, *sources) if isinstance(v, float | int | np.floating | np.integer)]
        scale = max(filter(math.isfinite, numbers), default=0.0)
        return bool(math.isfinite(x - y) and abs(x - y) <= tolerance * scale)
    return bool(x == y)


def _shown(answer: Any) -> str:
    return (
        "no answer" if answer is None else repr(answer[0] if isinstance(answer, tuple) and len(answer) == 1 else answer)
    )
