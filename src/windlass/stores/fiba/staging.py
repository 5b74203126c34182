"""When a chunk's events are lifted, and its answers lowered.

Where that takes longer than ⊕ (`Monoid.apart`), before and after, in loops of their own: an event is lifted once, for
its answer and for its slot, and the loop in between calls nothing, so that what it works on stays in registers.
Elsewhere on the way: to write a partial down and read it again is dearer than to make it.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.evaluation import answer, lifted
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors


def staging(m: Monoid) -> tuple[Any, Any, Any, Any]:
    """`lift_all(events, begin, n, stages)`, `event_at(events, begin, k, stages)`,
    `answer_with(answers, begin, k, stages, x)` and `lower_all(answers, begin, n, stages)` for a chunk of n events from
    `begin` on."""
    return _beforehand(m) if m.apart() is not m else _on_the_way(m)


def stages_of(m: Monoid, chunk: int) -> tuple[Columns, ...]:
    """Room for a chunk's events, lifted, and its answers, not yet lowered."""
    return (m.allocate(chunk), m.allocate(chunk)) if m.apart() is not m else ()


def _beforehand(m: Monoid) -> tuple[Any, Any, Any, Any]:
    load, store = accessors(m.fields)
    lift_at, answer_at = lifted(m.apart()), answer(m.apart())

    def lift_all(events: Any, begin: Any, n: Any, stages: Any) -> Any:
        for k in range(n):
            store(stages[0], k, lift_at(events, begin + k))

    def event_at(events: Any, begin: Any, k: Any, stages: Any) -> Any:
        return load(stages[0], k)

    def answer_with(answers: Any, begin: Any, k: Any, stages: Any, x: Any) -> Any:
        store(stages[1], k, x)

    def lower_all(answers: Any, begin: Any, n: Any, stages: Any) -> Any:
        for k in range(n):
            answer_at(answers, begin + k, load(stages[1], k))

    return lift_all, event_at, answer_with, lower_all


def _on_the_way(m: Monoid) -> tuple[Any, Any, Any, Any]:
    lift_at, answer_at = lifted(m), answer(m)

    def lift_all(events: Any, begin: Any, n: Any, stages: Any) -> Any:
        pass

    def event_at(events: Any, begin: Any, k: Any, stages: Any) -> Any:
        return lift_at(events, begin + k)

    def answer_with(answers: Any, begin: Any, k: Any, stages: Any, x: Any) -> Any:
        answer_at(answers, begin + k, x)

    def lower_all(answers: Any, begin: Any, n: Any, stages: Any) -> Any:
        pass

    return lift_all, event_at, answer_with, lower_all
