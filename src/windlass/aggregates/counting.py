"""counted: an aggregate whose ⊕ calls are counted, to assert what a technique costs (MQO Table 2).

aggregate, calls = counted(agg.max())
TwoStacks(aggregate).slide(values, window=8)
assert calls.total <= 3 * len(values)
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Function, Monoid
from windlass.aggregates.values import INT64, UINT64
from windlass.kernels import Field


@dataclass
class Counter:
    """How often each function was called since the last reset.

    `selects` counts where a technique compares instead of combining; a comparison inside of ⊕ is part of it.
    """

    combine: int = 0
    inverse: int = 0
    selects: int = 0

    @property
    def total(self) -> int:
        """All ⊕ calls, whichever form they took."""
        return self.combine + self.inverse + self.selects

    def reset(self) -> None:
        self.combine = self.inverse = self.selects = 0


def counted(aggregate: Aggregate) -> tuple[Aggregate, Counter]:
    """The same aggregate, run interpreted, and the counter of its calls. Integers are of 64 bits as if compiled."""
    counter = Counter()
    parts = {part.name: getattr(aggregate, part.name) for part in fields(Aggregate)}
    return _Counted(**parts, counter=counter), counter


@dataclass(frozen=True, repr=False)
class _Counted(Aggregate):
    counter: Counter = field(default_factory=Counter, compare=False)

    def monoid(self, *arguments: Any, **options: Any) -> Monoid:
        # Counted around the whole monoid, nulls and all, so what its functions call among themselves is not.
        return self._counting(super().monoid(*arguments, **options))

    def _counting(self, m: Monoid) -> Monoid:
        counter = self.counter
        base_lift, base_combine, base_lower = m.lift, m.combine, m.lower
        base_inverse: Any = m.inverse
        base_selects: Any = m.selects
        fixed = _fixed_width(m.fields) if m.is_compiled else _as_it_is
        fixed_answer = _fixed_width(m.result_fields) if m.is_compiled else _as_it_is

        def lift(*values: Any) -> Any:
            return fixed(base_lift(*values))

        def lower(p: Any) -> Any:
            return fixed_answer(base_lower(p))

        def combine(a: Any, b: Any) -> Any:
            counter.combine += 1
            return fixed(base_combine(a, b))

        def inverse(c: Any, a: Any) -> Any:
            counter.inverse += 1
            return fixed(base_inverse(c, a))

        def selects(a: Any, b: Any) -> Any:
            counter.selects += 1
            return base_selects(a, b)

        def if_given(function: Function | None, wrapper: Function) -> Function | None:
            return None if function is None else wrapper

        return replace(
            m,
            lift=lift,
            combine=combine,
            lower=lower,
            inverse=if_given(m.inverse, inverse),
            selects=if_given(m.selects, selects),
            scan=None,
            wide=None if m.wide is None else self._counting(m.wide),
            interpreted="its ⊕ calls are counted",
        )


def _as_it_is(partial: Any) -> Any:
    return partial


def _fixed_width(parts: tuple[Field, ...]) -> Function:
    """Python's integers as the fields hold them when compiled: of 64 bits, and what is more wraps around."""
    lowest = [
        (k, -(1 << 63) if part.dtype == INT64 else 0)
        for k, part in enumerate(parts)
        if part.dtype in (INT64, UINT64) and not part.shape
    ]

    def fixed(partial: Any) -> Any:
        for k, low in lowest:
            value = partial[k]
            if type(value) is int and not low <= value < low + (1 << 64):
                partial = (*partial[:k], (value - low) % (1 << 64) + low, *partial[k + 1 :])
        return partial

    return fixed
