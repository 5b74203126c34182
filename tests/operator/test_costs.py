"""What the operator costs, counted and not timed: ⊕ a window lazily and eagerly, and memory by Scotty's Table 1.

                  lazy                                   eager
⊕ a window        slices - 1                             at most 7 within a block of 8 slices, else 4
⊕ a slice         1 to fold each event but the first     and at most 2 + ⌈log₂ blocks⌉ / 8 in all
space             slices · bytes of a slice (row 5)      and three nodes for each (row 6)
tuples kept       and tuples · bytes of a tuple (rows 7 and 8)
"""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np
import pytest

from windlass import Operator, Query, Sliding, Tumbling, agg
from windlass.aggregates.counting import Counter, counted

N = 600
EXAMPLES = [(10, 5), (10, 3), (14, 8), (60, 7), (64, 1), (100, 3)]


def run(r: int, s: int, order: Any, store: Any, measure: str = "time") -> tuple[Operator, Counter, int]:
    """An event at every time; returns the operator, its counter and how many windows came out."""
    aggregate, calls = counted(agg.max("x"))
    operator = Operator(Query("q", Sliding(r, s, measure=measure), aggregate), time="ts", order=order, store=store)
    ts = np.arange(N)
    operator.process({"ts": ts, "x": ts % 7})
    return operator, calls, len(operator.advance(N - 1))


def slices_of(r: int, s: int, order: str) -> int:
    """MQO Table 1: Cutty in order, Pairs otherwise."""
    return -(-r // s) if order == "in-order" or r % s == 0 else 2 * (r // s) + 1


def made(s: int, r: int, order: str) -> int:
    """Slices that the N events were cut into."""
    edges = {t for t in range(N) if t % s == 0 or (order == "out-of-order" and (t - r) % s == 0)}
    return len(edges | {0})


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize(("r", "s"), EXAMPLES)
def test_lazily_a_window_takes_one_combine_a_slice(r: int, s: int, order: str) -> None:
    _, calls, windows = run(r, s, order, "lazy")
    folding = N - made(s, r, order)
    answering = calls.combine - folding
    assert answering <= windows * (slices_of(r, s, order) - 1)
    # All windows but those that begin before the first event are whole.
    whole = windows - ceil(r / s)
    assert answering >= whole * (slices_of(r, s, order) - 1)


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize(("r", "s"), EXAMPLES)
def test_eagerly_a_window_takes_a_few(r: int, s: int, order: str) -> None:
    _, calls, windows = run(r, s, order, "eager")
    slices, count = slices_of(r, s, order), made(s, r, order)
    answering = windows * min(slices - 1, 7)
    # A slice is in a prefix and a suffix, a block of eight in a span of each size.
    repairing = count * (2 + ceil(log2(count)) / 8)
    assert calls.combine <= N - count + answering + repairing


def test_eager_beats_lazy_where_windows_have_many_slices() -> None:
    for order in ("in-order", "out-of-order"):
        _, lazy, a = run(300, 1, order, "lazy")
        _, eager, b = run(300, 1, order, "eager")
        assert a == b
        assert eager.combine < lazy.combine / 5


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_both_stores_give_the_same(order: Any) -> None:
    ts = np.arange(N)
    rows = []
    for store in ("lazy", "eager", "fiba", "auto"):
        query = Query("q", Sliding(50, 3), agg.sum("x"), agg.first("x"))
        operator = Operator(query, time="ts", order=order, store=store)  # type: ignore[arg-type]
        operator.process({"ts": ts, "x": ts % 7})
        rows.append(operator.finish()["q"].to_pylist())
    assert rows[0] == rows[1] == rows[2] == rows[3]


def test_a_late_event_costs_the_windows_that_hold_it() -> None:
    aggregate, calls = counted(agg.max("x"))
    operator = Operator(Query("q", Sliding(10, 5), aggregate), time="ts", allowed_lateness=1000, store="lazy")
    ts = np.arange(N)
    operator.process({"ts": ts, "x": ts % 7})
    operator.advance(N)
    calls.reset()
    operator.process({"ts": [222], "x": [9]})
    assert calls.total == 0  # it waits
    assert len(operator.advance(N)) == 2
    assert calls.combine == 1 + 2  # into its slice, and two windows of two slices


# --------------------------------------------------------------------------- memory


def held(order: Any, aggregate: Any, measure: str, store: Any, rate: int, lateness: int = 0) -> dict[str, int]:
    query = Query("q", Sliding(40, 10, measure=measure), aggregate)
    operator = Operator(query, time="ts", order=order, store=store, allowed_lateness=lateness)
    ts = np.repeat(np.arange(200), rate)
    operator.process({"ts": ts, "x": ts % 7})
    operator.advance(199)
    return operator.counters


def test_rows_5_and_6_slices_whatever_the_number_of_events() -> None:
    """Slices in the longest window or the allowed lateness, no tuples."""
    for store in ("lazy", "eager"):
        for rate in (1, 50):
            counters = held("in-order", agg.sum("x"), "time", store, rate)
            assert (counters["slices"], counters["tuples"]) == (4, 0)
            # Open windows begin at 160 and later; those that end after 199 - 60 begin at 100 and later.
            counters = held("out-of-order", agg.sum("x"), "time", store, rate, lateness=60)
            assert (counters["slices"], counters["tuples"]) == (10, 0)


def test_rows_7_and_8_tuples_besides() -> None:
    for store in ("lazy", "eager"):
        few = held("out-of-order", agg.first("x"), "time", store, 1, lateness=60)
        many = held("out-of-order", agg.first("x"), "time", store, 50, lateness=60)
        assert few["slices"] == many["slices"]
        assert few["tuples"] == 100  # from 100 on
        assert many["tuples"] == 50 * few["tuples"]


def test_an_eager_store_holds_the_same_slices() -> None:
    """Row 6 differs from row 5 by the tree alone."""
    ts, counters = np.arange(5000), []
    for store in ("lazy", "eager"):
        operator = Operator(Query("q", Sliding(1000, 1), agg.sum("x")), time="ts", order="in-order", store=store)  # type: ignore[arg-type]
        for part in np.array_split(ts, 50):
            operator.process({"ts": part, "x": part})
        operator.advance()
        assert operator.counters["slices"] == 1000
        counters.append(operator.counters)
    assert counters[0] == counters[1]


def test_tumbling_windows_of_every_size_share_memory() -> None:
    queries = [Query(f"q{n}", Tumbling(n), agg.sum("x")) for n in range(1, 101)]
    operator = Operator(queries, time="ts")
    ts = np.arange(2000)
    operator.process({"ts": ts, "x": ts})
    operator.advance(1999)
    assert operator.counters["slices"] <= 100  # a hundred windows are open, and each slice is there once
