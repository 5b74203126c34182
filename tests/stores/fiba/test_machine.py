"""Long random sequences of operations on the trees, against a dict: times to the values that came at them.

Everything that can be done is done in any order: single events and batches, evictions anywhere and of whole prefixes,
streams by count and by span, snapshots in between. After each step the invariants hold and all questions are answered
as the dict answers them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from stores.fiba.brute import ANSWERS, streamed

from windlass import aggregates as agg
from windlass.stores import ClassicBTree, FiBA
from windlass.stores.fiba import streaming

TIMES = st.integers(0, 60)
EVENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(-9, 9)), min_size=1, max_size=40)


class TreeMachine(RuleBasedStateMachine):
    """A tree beside a dict."""

    store: Any = FiBA
    aggregate: Any = None

    @initialize(min_arity=st.sampled_from([2, 3, 4, 8]))
    def make(self, min_arity: int) -> None:
        self.tree = self.store(self.aggregate, min_arity=min_arity, dtype="int64", nullable=False)
        self.window: dict[int, list[int]] = {}

    def said(self, values: list[int]) -> Any:
        return ANSWERS[self.aggregate.name](values) if values else None

    @rule(t=TIMES, v=st.integers(-9, 9))
    def insert(self, t: int, v: int) -> None:
        self.tree.insert(t, v)
        self.window.setdefault(t, []).append(v)

    @rule(t=TIMES)
    def evict(self, t: int) -> None:
        assert self.tree.evict(t) == (self.window.pop(t, None) is not None)

    @rule(k=st.integers(0, 10**6))
    def evict_one_that_is_there(self, k: int) -> None:
        if self.window:
            t = sorted(self.window)[k % len(self.window)]
            assert self.tree.evict(t) and self.window.pop(t) is not None

    @rule(events=EVENTS)
    def bulk_insert(self, events: list[tuple[int, int]]) -> None:
        self.tree.bulk_insert([t for t, _ in events], [v for _, v in events])
        for t, v in events:
            self.window.setdefault(t, []).append(v)

    @rule(first=st.integers(0, 40), length=st.integers(1, 60), step=st.integers(1, 3))
    def bulk_insert_a_run(self, first: int, length: int, step: int) -> None:
        times = np.arange(first, first + length * step, step)
        self.tree.bulk_insert(times, times % 7)
        for t in times.tolist():
            self.window.setdefault(t, []).append(t % 7)

    @rule(up_to=st.integers(-1, 160))
    def bulk_evict(self, up_to: int) -> None:
        gone = [t for t in self.window if t < up_to]
        assert self.tree.bulk_evict(up_to) == len(gone)
        for t in gone:
            del self.window[t]

    @rule(events=EVENTS, window=st.integers(1, 40), chunk=st.sampled_from([1, 2, 7, 1024]))
    def stream_by_count(self, events: list[tuple[int, int]], window: int, chunk: int) -> None:
        self.stream(events, window, 0, chunk)

    @rule(events=EVENTS, span=st.integers(1, 80), chunk=st.sampled_from([1, 2, 7, 1024]))
    def stream_by_span(self, events: list[tuple[int, int]], span: int, chunk: int) -> None:
        self.stream(events, 0, span, chunk)

    def stream(self, events: list[tuple[int, int]], window: int, span: int, chunk: int) -> None:
        before, streaming.CHUNK = streaming.CHUNK, chunk
        try:
            times, values = np.array([t for t, _ in events]), np.array([v for _, v in events])
            option: dict[str, Any] = {"window": window} if window else {"span": span}
            answers = self.tree.stream(times, values, **option)
        finally:
            streaming.CHUNK = before
        expected = streamed(self.window, events, window, span)
        assert [_plain(a) for a in answers] == [self.said(values) for values in expected]

    @rule()
    def saved_and_restored(self) -> None:
        self.tree = self.store(self.aggregate).restore(self.tree.snapshot())

    @rule(a=TIMES, b=TIMES)
    def query_a_range(self, a: int, b: int) -> None:
        values = [v for t in sorted(self.window) if a <= t < b for v in self.window[t]]
        found = self.tree.query(a, b)
        assert _plain(found) == self.said(values) or (not values and not found)

    @invariant()
    def all_is_well(self) -> None:
        self.tree.check_invariants()
        times = sorted(self.window)
        assert list(self.tree) == times and len(self.tree) == len(times)
        assert (self.tree.oldest(), self.tree.youngest()) == ((times[0], times[-1]) if times else (None, None))
        found = self.tree.query()
        values = [v for t in times for v in self.window[t]]
        assert _plain(found) == self.said(values) or (not values and not found)


def _plain(answer: Any) -> Any:
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    return answer.item() if isinstance(answer, np.generic) else answer


@pytest.mark.parametrize("store", [FiBA, ClassicBTree])
@pytest.mark.parametrize("aggregate", [agg.collect_list(), agg.sum(), agg.last()], ids=lambda a: a.name)
def test_machine(store: Any, aggregate: Any) -> None:
    machine = type("Machine", (TreeMachine,), {"store": store, "aggregate": aggregate})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))
