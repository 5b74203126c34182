"""A query that is added to a running stream gives whole windows only, never what is left of one.

By definition: all windows of a key are found in all of its events, also those that the added query never sees. Its
answers are just those windows that are known to begin after it was added.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import oracle
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windlass
from tests.operator.rows import event, table
from windlass import Query, agg

WINDOWS: dict[str, tuple[Any, Any]] = {
    "tumbling": (windlass.Tumbling(4), oracle.Tumbling(4)),
    "sliding": (windlass.Sliding(5, 2), oracle.Sliding(5, 2)),
    "session": (windlass.Session(2), oracle.Session(2)),
    "snapshot": (windlass.Snapshot(3), oracle.Snapshot(3)),
    "punctuation": (windlass.Punctuation("flag"), oracle.Punctuation("flag")),
    "frame": (windlass.ThresholdFrame("flag", min_size=2), oracle.ThresholdFrame("flag", 2)),
    "last": (windlass.LastN(3, 4), oracle.LastN(3, 4)),
    "column": (windlass.Tumbling(3, measure="km"), oracle.Tumbling(3, measure="km")),
    "landmark": (windlass.Landmark(6, 2, measure="km"), oracle.Landmark(6, 2, measure="km")),
}


def begins_after(window: Any, found: oracle.Standing, events: list[oracle.Event], since: int) -> bool:
    """Whether a window is known to begin after a time, by one who sees only what comes later."""
    first = found.events[0]
    seen = [e for e in events if e.ts > since]
    if isinstance(window, oracle.Session):
        return found.start > since + window.gap
    if isinstance(window, oracle.Snapshot):
        return found.start > since + window.lifetime
    if isinstance(window, oracle.Punctuation):
        return first.ts > since and first.meets(window.predicate)
    if isinstance(window, oracle.ThresholdFrame):
        return first.ts > since and first is not seen[0]
    if isinstance(window, oracle.LastN):
        return first.ts > since and len(found.events) == window.n
    if window.measure != "time":
        return bool(seen) and found.low > seen[0].columns[window.measure]
    return found.start > since


def whole_windows(window: Any, events: list[dict[str, Any]], since: int) -> Counter[Any]:
    """(key, low, high, ids of the events) of what the added query has to give in the end."""
    keys: dict[Any, list[oracle.Event]] = {}
    for arrival, columns in enumerate(events):
        keys.setdefault(columns["k"], []).append(oracle.Event(columns["ts"], 0, arrival, columns))
    want: Counter[Any] = Counter()
    for key, mine in keys.items():
        mine.sort(key=lambda e: e.place)
        for found in oracle.standing(window, mine, float("inf")):
            if found.due and found.complete and begins_after(window, found, mine, since):
                want[key, found.low, found.high, tuple(e.columns["id"] for e in found.events)] += 1
    return want


def answers(results: Any) -> Counter[Any]:
    got: Counter[Any] = Counter()
    for row in results["added"].to_pylist():
        assert row["revision"] == 0 and not row["retraction"]
        low, high = row.get("low", row["window"]["start"]), row.get("high", row["window"]["end"])
        got[row["k"], low, high, tuple(row["ids"])] += 1
    return got


moments = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from("ab"), st.booleans(), st.integers(0, 2)), min_size=1, max_size=14
)


def backwards(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The latest first; those of one time in their order, for the sake of measures."""
    return sorted(events, key=lambda e: -int(e["ts"]))


def run(kind: str, before: Any, after: Any, in_order: bool) -> None:
    window, by_definition = WINDOWS[kind]
    events, ts, km = [], 0, 0
    for n, (wait, key, flag, drive) in enumerate([*before, *after]):
        ts, km = ts + wait, km + drive
        events.append(event(ts, k=key, flag=flag, km=km, id=n))
    old, new = events[: len(before)], events[len(before) :]
    there = Query("there", windlass.Tumbling(5), agg.count())
    op = windlass.Operator(there, time="ts", key="k", order="in-order" if in_order else "out-of-order")
    op.process(table(old))
    if in_order:
        op.advance()
    since = old[-1]["ts"]
    said = op.add(Query("added", window, agg.collect_list("id").alias("ids")))
    assert said.startswith("added starts with windows that begin after")
    got: Counter[Any] = Counter()
    cut = len(new) // 2
    for part in (new[:cut], new[cut:]):
        if part:
            op.process(table(part if in_order else backwards(part)))
        got += answers(op.advance() if in_order else op.advance(part[-1]["ts"] if part else since))
    got += answers(op.finish())
    arrived = old + (new if in_order else backwards(new[:cut]) + backwards(new[cut:]))
    assert got == whole_windows(by_definition, arrived, since)


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "any order"])
@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=40, deadline=None)
@example([(0, "a", True, 1)], [(1, "a", True, 0), (0, "a", False, 3), (4, "a", True, 3), (4, "a", False, 3)])
@example([(3, "a", False, 1)], [(2, "a", False, 1), (3, "a", True, 1), (9, "a", True, 9)])
@given(moments, moments)
def test_whole_windows_only(kind: str, in_order: bool, before: Any, after: Any) -> None:
    run(kind, before, after, in_order)


def test_a_session_that_may_have_begun_before_does_not_come() -> None:
    """Slices serve a session of sums: the same there."""
    op = windlass.Operator(Query("n", windlass.Tumbling(5), agg.count()), time="ts")
    op.process(table([event(1), event(10)]))
    said = op.add(Query("visits", windlass.Session(3), agg.sum("x")))
    assert said == "visits starts with windows that begin after 13"
    op.process(table([event(12, x=1), event(14, x=2), event(20, x=4), event(22, x=8), event(30, x=16)]))
    found = op.finish()["visits"].to_pylist()
    assert [(row["window"]["start"], row["window"]["end"], row["sum(x)"]) for row in found] == [
        (20, 25, 12),
        (30, 33, 16),
    ]


def test_positions_count_from_the_first_event_that_is_seen() -> None:
    op = windlass.Operator(Query("n", windlass.Tumbling(5), agg.count()), time="ts", order="in-order")
    op.process(table([event(1), event(2), event(3)]))
    op.add(Query("pairs", windlass.Tumbling(2, measure="count"), agg.collect_list("x")))
    op.process(table([event(ts) for ts in (4, 5, 6, 7, 8)]))
    found = op.finish()["pairs"].to_pylist()
    assert [(row["low"], row["high"], row["collect_list(x)"]) for row in found] == [(0, 2, [4, 5]), (2, 4, [6, 7])]


@pytest.mark.parametrize("window", [windlass.Punctuation("flag"), windlass.ThresholdFrame(pc.field("x") > 0)])
def test_a_restart_remembers_what_was_not_seen(window: Any) -> None:
    there, added = Query("n", windlass.Tumbling(5), agg.count()), Query("added", window, agg.count())
    op = windlass.Operator(there, time="ts", order="in-order")
    op.process(table([event(1, flag=True)]))
    op.add(added)
    op.process(table([event(2)]))
    op = windlass.Operator([there, added], time="ts", order="in-order").restore(op.snapshot())
    op.process(table([event(3), event(4, x=0, flag=True)]))
    assert len(op.finish()["added"]) == 0
