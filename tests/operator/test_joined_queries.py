"""Queries that are added to a running stream share the slices that are there, and nobody can tell by the results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import oracle
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from tests.operator.rows import event, table
from tests.operator.test_added_queries import moments, whole_windows
from windlass import Query, agg
from windlass.operator.branch import Branch

WINDOWS = {
    "tumbling": (windlass.Tumbling(4), oracle.Tumbling(4)),
    "sliding": (windlass.Sliding(5, 2), oracle.Sliding(5, 2)),
    "fine": (windlass.Sliding(6, 1), oracle.Sliding(6, 1)),
}


def operator(queries: list[Query], in_order: bool = False, **options: Any) -> windlass.Operator:
    order = "in-order" if in_order else "out-of-order"
    return windlass.Operator(queries, time="ts", key="k", order=order, **options)


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "any order"])
@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=60, deadline=None)
@given(moments, moments)
def test_whole_windows_only(kind: str, in_order: bool, before: Any, after: Any) -> None:
    """By definition; a sum of powers of two tells which events a window holds."""
    window, by_definition = WINDOWS[kind]
    events, ts = [], 0
    for n, (wait, key, _, _) in enumerate([*before, *after]):
        ts += wait
        events.append(event(ts, k=key, id=n, x=1 << n))
    old, new = events[: len(before)], events[len(before) :]
    op = operator([Query("there", windlass.Tumbling(5), agg.count())], in_order)
    op.process(table(old))
    op.advance(*() if in_order else (old[0]["ts"],))
    op.add(Query("added", window, agg.sum("x").alias("bits")))
    results = []
    for part in (new[: len(new) // 2], new[len(new) // 2 :]):
        if part:
            op.process(table(part if in_order else part[::-1]))
            assert len(op.plan) == 1
            results.append(op.advance(*() if in_order else (part[-1]["ts"],)))
    results.append(op.finish())
    got: Counter[Any] = Counter()
    for row in (row for rows in results for row in rows["added"].to_pylist()):
        ids = tuple(n for n in range(len(events)) if row["bits"] >> n & 1)
        got[row["k"], row["window"]["start"], row["window"]["end"], ids] += 1
    want = whole_windows(by_definition, events, old[-1]["ts"])
    assert got == Counter({(k, low, high, tuple(sorted(ids))): n for (k, low, high, ids), n in want.items()})


ADDED = [
    Query("b", windlass.Sliding(6, 2), agg.avg("x")),
    Query("c", windlass.Tumbling(7), agg.max("x"), agg.count()),
    Query("d", windlass.Sliding(5, 3), agg.sum("x"), where=pc.field("y") > 1),
    Query("e", windlass.Tumbling(3), agg.sum("y")),
    Query("f", windlass.Sliding(6, 2), agg.avg("x")),
]
steps = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(-9, 6), st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=6),
        st.integers(-4, 2),  # a watermark, from the greatest time on
        st.sampled_from(["b", "c", "d", "e", "f"]),  # a query comes, or goes
        st.just("again"),  # from a snapshot
    ),
    min_size=4,
    max_size=24,
)


def lived(done: Any, **options: Any) -> list[Any]:
    """All that comes out of an operator whose queries come and go."""
    queries = [Query("a", windlass.Tumbling(4), agg.count()), Query("s", windlass.Session(2), agg.sum("x"))]
    op = operator(queries, allowed_lateness=4, **options)
    waiting, out, now, n = {q.name: q for q in ADDED}, [], 0, 0
    for step in done:
        if isinstance(step, list):
            rows = []
            for ahead, key, w in step:
                now, n = max(now, now + ahead), n + 1
                rows.append(event(max(0, now + min(ahead, 0)), k=key, x=n * n, y=w))
            op.process(table(rows))
        elif isinstance(step, int):
            out.append(rows_of(op.advance(now + step)))
        elif step == "again":
            op = operator(op.queries, allowed_lateness=4, **options).restore(op.snapshot())
        elif step in waiting:
            op.add(waiting.pop(step))
        else:
            waiting[step] = next(query for query in op.queries if query.name == step)
            op.remove(step)
    late = sorted(map(repr, op.late().to_pylist()))
    counters = {name: op.counters[name] for name in ("events", "late", "expired")}
    return [*out, rows_of(op.peek()), rows_of(op.finish()), late, counters]


def rows_of(results: Any) -> Counter[str]:
    """Every row, with its revision; a part of the stream that joined or did not may come out in another order."""
    return Counter(repr(sorted(row.items(), key=str)) for row in results)


@pytest.mark.parametrize("store", ["auto", "eager", "fiba"])
@settings(max_examples=80, deadline=None)
@given(done=steps)
def test_the_same_as_with_slices_of_their_own(store: Any, done: Any) -> None:
    shared = lived(done, store=store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Branch, "can_take_in", lambda self, other: False)
        apart = lived(done, store=store)
    assert shared == apart


def test_many_that_come_one_after_the_other_share_one_fold() -> None:
    """A hundred queries over two lifts: an event is folded into two partials, whenever the queries came."""
    op = operator([Query("first", windlass.Tumbling(4), agg.sum("x"))])
    op.process(table([event(0, k="a", x=1, y=1)]))
    for i in range(100):
        op.add(Query(f"q{i}", windlass.Sliding(4 + i % 7, 2), agg.sum("x") if i % 2 else agg.max("y")))
        op.process(table([event(i + 1, k="a", x=i, y=i)]))
    assert op.open_windows() == len(op.peek())
    (branch,) = op._branches
    assert [lift.aggregate for lift in branch.running.lifts] == [agg.sum("x"), agg.max("y")]


def test_windows_from_before_a_query_are_not_counted_as_open() -> None:
    op = operator([Query("first", windlass.Tumbling(4), agg.collect_list("x"))])
    op.process(table([event(9, k="a", x=1)]))
    op.add(Query("slices of its own", windlass.Sliding(6, 1), agg.sum("x")))
    op.process(table([event(11, k="a", x=1)]))
    assert len(op.plan) == 2
    still_open = op._branches[1].running.open_windows(op._reached)
    assert still_open == len(op.peek()["slices of its own"]) == 2  # from 10, and from 11


def test_what_cannot_share_has_slices_of_its_own() -> None:
    op = operator([Query("first", windlass.Tumbling(4), agg.sum("x"))])
    op.process(table([event(0, k="a", x=1)]))
    for query in (
        Query("list", windlass.Tumbling(4), agg.collect_list("x")),  # needs the events
        Query("empty", windlass.Tumbling(4), agg.count(), emit_empty=True),
        Query("steps", windlass.Cumulate(2, 4), agg.count()),
        Query("session", windlass.Session(2), agg.count()),
    ):
        op.add(query)
        op.process(table([event(9, k="a", x=1)]))
    assert [tree.queries for tree in op.plan] == [("first",), ("list",), ("empty",), ("steps",), ("session",)]
    assert "to these slices" not in op.explain()
    op.add(Query("plain", windlass.Tumbling(3), agg.sum("x")))
    op.process(table([event(9, k="a", x=1)]))
    assert op.plan[0].queries == ("first", "plain")
    assert "added at 9 to these slices: plain" in op.explain()
