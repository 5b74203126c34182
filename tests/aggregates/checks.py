"""What every aggregate is put through: compiled, interpreted in any association, sliding, and subtracted.

Expected values come from the `oracle` that a test hands over: a plain function from the list of the values
that are not null (for several columns: of tuples) to the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import column
from windlass.stores import TwoStacks

Oracle = Callable[[list[Any]], Any]

NAN, INF = math.nan, math.inf
EDGES = [0.0, -0.0, 1.0, -1.0, 1.0, 2.5, NAN, INF, -INF, 1e308, -1e308, 5e-324]

floats = st.one_of(st.sampled_from(EDGES), st.floats(-100, 100), st.none())
float_columns = st.lists(floats, max_size=12).map(lambda xs: pa.array(xs, pa.float64()))


def same(got: Any, want: Any, rel: float = 0.0) -> bool:
    """Equal, where NaN equals NaN, floats may differ by `rel`, and structs and lists go by their parts."""
    if isinstance(want, dict):
        return list(got) == list(want) and all(same(got[k], want[k], rel) for k in want)
    if isinstance(want, list):
        return len(got) == len(want) and all(same(g, w, rel) for g, w in zip(got, want, strict=True))
    if isinstance(want, float) and isinstance(got, float):
        return (math.isnan(got) and math.isnan(want)) or math.isclose(got, want, rel_tol=rel, abs_tol=rel)
    return type(got) is type(want) and bool(got == want)


def assert_same(got: Any, want: Any, rel: float = 0.0) -> None:
    assert same(got, want, rel), f"got {got!r}, want {want!r}"


def check(
    aggregate: Aggregate,
    oracle: Oracle,
    *columns: pa.Array,
    rel: float = 0.0,
    seed: int = 0,
    compiled: bool = True,
    window: int | None = None,
) -> None:
    """The whole column, and with `window` a window sliding over it."""
    events = rows(*columns)
    want = oracle(present(events))
    assert_same(interpret(aggregate, *columns, seed=seed), want, rel)
    values = columns[0] if len(columns) == 1 else columns
    if compiled:
        assert_same(aggregate.of(values), want, rel)
    if window is not None:
        wanted = [oracle(present(events[max(0, i + 1 - window) : i + 1])) for i in range(len(events))]
        assert_same(TwoStacks(aggregate).slide(values, window=window).to_pylist(), wanted, rel)


def check_subtracting(aggregate: Aggregate, oracle: Oracle, values: pa.Array, window: int, rel: float = 0.0) -> None:
    """Slide by subtracting what leaves. The interpreted functions, so nothing hides in a compiled loop."""
    m, events = monoid(aggregate, values, subtractable=True), rows(values)
    lifted, acc = partials(m, values), m.identity()
    for i, x in enumerate(lifted):
        acc = m.combine(acc, x)
        if i >= window:
            acc = m.inverse(acc, lifted[i - window])
        assert_same(lowered(m, acc), oracle(present(events[max(0, i + 1 - window) : i + 1])), rel)


def interpret(aggregate: Aggregate, *columns: pa.Array, seed: int = 0) -> Any:
    """Fold in a random association, without a compiler."""
    m, random = monoid(aggregate, *columns), Random(seed)
    parts = partials(m, *columns) or [m.identity()]
    if random.random() < 0.5:
        parts.insert(random.randrange(len(parts) + 1), m.identity())
    while len(parts) > 1:
        k = random.randrange(len(parts) - 1)
        parts[k : k + 2] = [m.combine(parts[k], parts[k + 1])]
    return lowered(m, parts[0])


def monoid(aggregate: Aggregate, *columns: pa.Array, subtractable: bool = False) -> Monoid:
    return aggregate.monoid([column(c).type for c in columns], subtractable=subtractable)


def partials(m: Monoid, *columns: pa.Array) -> list[Any]:
    read = [column(c) for c in columns]
    events = list(zip(*(c.values.tolist() for c in read), strict=True))
    valid = evaluation.all_valid(read)
    return [m.lift(*e) if valid is None or valid[i] else m.identity() for i, e in enumerate(events)]


def lowered(m: Monoid, p: Any) -> Any:
    answers = evaluation.empty_answers(m, 1)
    evaluation.answer(m)(answers, 0, p)
    return evaluation.finish(m, answers)[0].as_py()


def rows(*columns: pa.Array) -> list[Any]:
    """One value an event, or a tuple of them; None if any is null."""
    lists = [c.to_pylist() for c in columns]
    if len(lists) == 1:
        return lists[0]
    return [None if None in e else e for e in zip(*lists, strict=True)]


def present(events: Sequence[Any]) -> list[Any]:
    return [e for e in events if e is not None]


def nan_last(x: Any) -> Any:
    """A sort key by which NaN is the greatest value."""
    return (x != x, x)
