"""What queries share: slices whatever their measures, and one partial for each distinct lift.

Lifts are counted: an event that is folded once is lifted once. ⊕ calls are counted where slices are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest

from windlass import (
    Band,
    Cumulate,
    Deterministic,
    Landmark,
    LastN,
    Operator,
    Punctuation,
    Query,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
    agg,
)
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.counting import counted
from windlass.aggregates.monoid import Monoid

N = 300


@dataclass(frozen=True, repr=False)
class Lifting(Aggregate):
    """An aggregate that notes each of its lifts."""

    lifts: list[Any] = field(default_factory=list, compare=False)

    def monoid(self, *arguments: Any, **options: Any) -> Monoid:
        m = super().monoid(*arguments, **options)

        def lift(*values: Any) -> Any:
            self.lifts.append(values)
            return m.lift(*values)

        return replace(m, lift=lift, interpreted="its lifts are counted")


def lifting(aggregate: Aggregate) -> Lifting:
    return Lifting(**{part.name: getattr(aggregate, part.name) for part in fields(Aggregate)})


def stream(n: int = N, **columns: Any) -> dict[str, Any]:
    ts = np.arange(n)
    made = {"ts": ts, "x": ts % 7, "f": ts / 4, "km": ts * 2 // 3, "flag": ts % 5 == 0, "k": ts % 3}
    return made | columns


def begins_every_4(state: Any, ts: Any) -> Any:
    k = state[0]
    return (k + 1,), k % 4 == 0, k % 4 == 0 and k > 0


GRID = [Tumbling(5), Sliding(10, 3), Cumulate(2, 12), Band(20, 40), Landmark(10, 25)]
ON_OTHERS = [type(w)(**(vars(w) | {"measure": m})) for w in GRID for m in ("count", "km")]
FOUND = [
    Session(3),
    Punctuation("flag"),
    ThresholdFrame("flag"),
    SlideByTuple(7, 3),
    Snapshot(4),
    Deterministic(begins_every_4),
]
EVERYTHING = GRID + ON_OTHERS + FOUND


def fifty(windows: list[Any], aggregate: Aggregate) -> list[Query]:
    """Fifty queries over these windows and variants of them."""
    more = [Sliding(8 + i, 1 + i % 5) for i in range(50 - len(windows))]
    return [Query(f"q{i}", window, aggregate) for i, window in enumerate([*windows, *more])]


# --------------------------------------------------------------------------- one lift


@pytest.mark.parametrize("key", [None, "k"], ids=["one key", "keys"])
@pytest.mark.parametrize(
    ("order", "windows"),
    [
        ("in-order", EVERYTHING),
        ("out-of-order", GRID),
        ("out-of-order", [*GRID, Session(3), Session(8)]),
        ("out-of-order", EVERYTHING),
    ],
    ids=["in order", "general", "general with sessions", "tuples kept"],
)
def test_an_event_is_lifted_once_for_one_query_and_for_fifty(order: Any, windows: list[Any], key: Any) -> None:
    for make in (lambda a: [Query("q", windows[0], a)], lambda a: fifty(windows, a)):
        aggregate = lifting(agg.sum("x"))
        operator = Operator(make(aggregate), time="ts", key=key, order=order)
        events = stream()
        for part in np.array_split(np.arange(N), 7):
            operator.process({name: values[part] for name, values in events.items()})
            operator.advance(int(part[-1]))
        operator.finish()
        # Once where tuples are dropped, once where they are kept, once for what looks back over refused events.
        parts = operator.explain().count("  slicing ")
        assert parts == (3 if windows is EVERYTHING and order == "out-of-order" and len(operator.queries) > 1 else 1)
        assert len(aggregate.lifts) == parts * N
        assert [x for (x,) in aggregate.lifts] == events["x"].tolist() or key or parts > 1  # and in order


def test_disorder_before_the_watermark_costs_no_second_lift() -> None:
    events, shuffled = stream(), np.random.default_rng(5).permutation(N)
    for windows, parts in ((GRID, 1), (EVERYTHING, 3)):
        aggregate = lifting(agg.sum("x"))
        operator = Operator(fifty(windows, aggregate), time="ts")
        operator.process({name: values[shuffled] for name, values in events.items()})
        operator.finish()
        assert len(aggregate.lifts) == parts * N


def test_only_a_split_lifts_again() -> None:
    aggregate = lifting(agg.sum("x"))
    operator = Operator([Query("last", LastN(4, 6), aggregate)], time="ts", order="in-order")
    events = stream()
    operator.process(events)
    operator.finish()
    once = len(aggregate.lifts)
    assert N <= once <= 2 * N  # each part of a slice that is split is folded again, and slices are short


def test_fifty_queries_fold_as_often_as_slices_allow() -> None:
    """⊕ to fold = events - slices, because the first event of a slice is not combined with anything."""
    for windows in ([Tumbling(10)], [Tumbling(3 + i) for i in range(50)], [Session(2), Tumbling(10)]):
        aggregate, calls = counted(agg.max("x"))
        operator = Operator([Query(f"q{i}", w, aggregate) for i, w in enumerate(windows)], time="ts")
        operator.process(stream())
        assert calls.combine == N - operator.counters["slices"]


# --------------------------------------------------------------------------- partials


def kept(operator: Operator) -> list[str]:
    """The partials of each slice, as `explain` tells."""
    told = operator.explain().split("\n  partials\n")[1].split("\nsharing: ")[0]
    return [line.split("  ←")[0].strip() for line in told.splitlines()]


def values(results: Any, query: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in results[query].to_pylist()]


def test_avg_sum_and_count_keep_one_sum_and_one_count() -> None:
    asked = [agg.sum("f"), agg.count("f"), agg.avg("f")]
    queries = [Query(f"q{i}", Tumbling(10), a) for i, a in enumerate(asked)] + [Query("all", Tumbling(10), *asked)]
    operator = Operator(queries, time="ts")
    operator.process(stream(20))
    assert kept(operator) == ["avg(f)"]
    results = operator.finish()
    assert values(results, "all", "sum(f)", "count(f)", "avg(f)") == [(11.25, 10, 1.125), (36.25, 10, 3.625)]
    assert values(results, "q0", "sum(f)") == [(11.25,), (36.25,)]
    assert values(results, "q1", "count(f)") == [(10,), (10,)]


def test_exact_sums_of_integers_are_not_read_from_floats() -> None:
    huge = 2**60 + 1
    operator = Operator(Query("q", Tumbling(10), agg.sum("x"), agg.avg("x")), time="ts")
    operator.process({"ts": [0, 1], "x": [huge, 1]})
    assert values(operator.finish(), "q", "sum(x)") == [(huge + 1,)]


def test_least_and_greatest_are_read_from_both() -> None:
    asked = [agg.min("x"), agg.max("x"), agg.min_max("x"), agg.spread("x")]
    operator = Operator([Query(f"q{i}", Tumbling(10), a) for i, a in enumerate(asked)], time="ts")
    operator.process(stream(10))
    assert kept(operator) == ["min_max(x)"]
    results = operator.finish()
    assert values(results, "q0", "min(x)") == [(0,)]
    assert values(results, "q1", "max(x)") == [(6,)]
    assert values(results, "q3", "spread(x)") == [(6,)]


def test_aliases_and_windows_make_no_other_partial() -> None:
    queries = [Query(f"q{i}", Sliding(10 + i, 2), agg.sum("x").alias(f"total{i}")) for i in range(20)]
    operator = Operator(queries, time="ts")
    operator.process(stream())
    assert kept(operator) == ["sum(x)"]


def test_filters_are_distinct_lifts_over_the_same_slices() -> None:
    sums, paid = lifting(agg.sum("x")), lifting(agg.count("x"))
    queries = [
        Query("all", Tumbling(10), sums),
        Query("flagged", Tumbling(10), paid, where="flag"),
        Query("flagged too", Sliding(20, 10), paid, where="flag"),
    ]
    operator = Operator(queries, time="ts")
    operator.process(stream())
    assert kept(operator) == ["sum(x)", "count(x) where 'flag'"]
    assert operator.counters["slices"] == N // 10
    operator.finish()
    assert len(sums.lifts) == N
    assert len(paid.lifts) == N // 5  # once, for two queries


def test_equal_aggregates_with_other_filters_are_kept_apart() -> None:
    queries = [
        Query("a", Tumbling(10), agg.sum("x")),
        Query("b", Tumbling(10), agg.sum("x"), where="flag"),
        Query("c", Tumbling(10), agg.sum("x"), where="flag"),
        Query("d", Tumbling(10), agg.avg("x"), where=lambda table: table["flag"]),
    ]
    operator = Operator(queries, time="ts")
    operator.process(stream(10))
    assert len(kept(operator)) == 3
    assert kept(operator)[:2] == ["sum(x)", "sum(x) where 'flag'"]
    results = operator.finish()
    assert values(results, "a", "sum(x)") == [(24,)]
    assert values(results, "b", "sum(x)") == values(results, "c", "sum(x)") == [(5,)]
    assert values(results, "d", "avg(x)") == [(2.5,)]


# --------------------------------------------------------------------------- slices


def test_queries_on_time_and_distance_share_slices() -> None:
    """Cutty, Figure 6: range 10 s, slide 6 s on one axis; range 10 km, slide 5 km on the other."""
    ts = np.arange(40)
    km = np.cumsum(np.resize([0, 1, 0, 2, 0, 0, 1], 40))
    time, distance = Sliding(10, 6), Sliding(10, 5, measure="km")
    aggregate = lifting(agg.sum("x"))
    operator = Operator(
        [Query("time", time, aggregate), Query("distance", distance, aggregate)], time="ts", order="in-order"
    )
    operator.process({"ts": ts, "km": km, "x": ts})
    operator.advance()
    # A slice begins with each event that is the first of a window, in whichever measure.
    begins = [i for i in range(40) if i == 0 or ts[i] // 6 != ts[i - 1] // 6 or km[i] // 5 != km[i - 1] // 5]
    # Of windows not complete at the last event (39 s, 23 km) the oldest begin at 30 s and at 15 km.
    assert km[-1] == 23
    oldest = min(30, int(np.flatnonzero(km >= 15)[0]))
    assert operator.counters["slices"] == sum(1 for i in begins if i >= oldest)
    assert len(aggregate.lifts) == 40


def test_time_and_count_windows_share_slices_and_answers_are_those_of_each_alone() -> None:
    windows = [
        Sliding(10, 6),
        Sliding(10, 5, measure="km"),
        Sliding(7, 3, measure="count"),
        Tumbling(9, measure="count"),
    ]
    queries = [Query(f"q{i}", w, agg.sum("x"), agg.first("x")) for i, w in enumerate(windows)]
    for order in ("in-order", "out-of-order"):
        together = Operator(queries, time="ts", order=order)
        together.process(stream())
        results = together.finish()
        for query in queries:
            alone = Operator(query, time="ts", order=order)
            alone.process(stream())
            assert alone.finish()[query.name].equals(results[query.name])


def test_equal_windows_are_found_once() -> None:
    queries = [Query("a", Tumbling("1m"), agg.sum("x")), Query("b", Tumbling("60s"), agg.max("x"))]
    assert "2 queries over 1 distinct window;" in Operator(queries, time="ts").explain()
