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
    """The same aggregate, run interpreted, and the counter of its calls."""
    counter = Counter()
    parts = {part.name: getattr(aggregate, part.name) for part in fields(Aggregate)}
    return _Counted(**parts, counter=counter), counter


@dataclass(frozen=True, repr=False)
class _Counted(Aggregate):
    counter: Counter = field(default_factory=Counter, compare=False)

    def monoid(self, *arguments: Any, **options: Any) -> Monoid:
        # Counted around the whole monoid, nulls and all, so what its functions call among themselves is not.
        m, counter = super().monoid(*arguments, **options), self.counter
        base_combine: Any = m.combine
        base_inverse: Any = m.inverse
        base_selects: Any = m.selects

        def combine(a: Any, b: Any) -> Any:
            counter.combine += 1
            return base_combine(a, b)

        def inverse(c: Any, a: Any) -> Any:
            counter.inverse += 1
            return base_inverse(c, a)

        def selects(a: Any, b: Any) -> Any:
            counter.selects += 1
            return base_selects(a, b)

        def if_given(function: Function | None, wrapper: Function) -> Function | None:
            return None if function is None else wrapper

        return replace(
            m,
            combine=combine,
            inverse=if_given(m.inverse, inverse),
            selects=if_given(m.selects, selects),
            interpreted="its ⊕ calls are counted",
        )
