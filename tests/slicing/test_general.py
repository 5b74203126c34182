"""General slicing: where a batch's slices come to lie among those of earlier batches, against all events at once.

edges      │        │    │      │
events     │ ·· ·   │ ·  │  · · │
slices     │[──]    │[]  │ [──] │           and cut where events are further apart than the smallest session gap
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slicing.test_slices import check
from windlass import agg
from windlass.aggregates.values import value_type
from windlass.operator.lift import Lift
from windlass.operator.tuples import Tuples
from windlass.slicing import edges, general, instructions
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.slices import BASE, END, FIRST, HI, LAST, LO, SLOT, START, Slices
from windlass.windows.window import Periodic

KEYS = 3


class Bench:
    """Batches of events (key, time), cut and settled, with the sum and number of the values of each slice."""

    def __init__(self, windows: list[Periodic], gap: int = NEVER, watermark: int = LONG_AGO, lateness: int = 0) -> None:
        self.edges = edges.together(edges.begins(windows), edges.ends(windows))
        self.gap, self.watermark, self.lateness = gap, watermark, lateness
        self.slices = Slices()
        self.slices.add_keys(KEYS)
        avg = agg.avg("x")
        self.lift = Lift(avg, avg.monoid([value_type(pa.float64())], nullable=False), None, False)
        self.instructions: list[int] = []

    def take(self, batch: list[tuple[int, int]], lay_out: bool = False) -> None:
        if not batch:
            return
        key, ts = np.array(sorted(batch), np.int64).T.copy()
        laid = edges.between(self.edges, int(ts.min()), int(ts.max())) if lay_out else np.empty(0, np.int64)
        cut = np.empty((len(ts), 7), np.int64)
        n = general.cut()(key, ts, np.empty(0, np.int64), self.edges, laid, self.gap, cut)
        s = self.slices
        program = general.settle(s, cut[:n], self.gap, self.watermark, self.lateness, 1, len(s))
        none = np.zeros(len(ts), np.int64)
        self.lift.run(program, Tuples(none, ts, none, none, {"x": ts.astype(np.float64)}), s, ())
        self.instructions = program[:, 0].tolist()

    def found(self) -> dict[int, list[tuple[int, int, float, int]]]:
        """By key: first and last time of each slice, the sum of its times and their number."""
        check(self.slices)
        out = {}
        for k in range(KEYS):
            base, lo, hi = self.slices.directory[k, [BASE, LO, HI]].tolist()
            rows = self.slices.rows[base + lo : base + hi]
            out[k] = [
                (first, last, float(self.lift.pool[0][slot]), int(self.lift.pool[1][slot]))
                for first, last, slot in rows[:, [FIRST, LAST, SLOT]].tolist()
            ]
            for start, end, first, last in rows[:, [START, END, FIRST, LAST]].tolist():
                assert start <= first <= last < end
                assert start == edges.last_edge(self.edges, first)
                assert end == edges.next_edge(self.edges, first)
        return out


def grouped(bench: Bench, events: list[tuple[int, int]]) -> dict[int, list[tuple[int, int, float, int]]]:
    """The same from all events at once."""
    times = defaultdict(list)
    for key, ts in sorted(events):
        times[key].append(ts)
    out: dict[int, list[tuple[int, int, float, int]]] = {k: [] for k in range(KEYS)}
    for key, all_of_it in times.items():
        group: list[int] = []
        for ts in [*all_of_it, None]:
            apart = ts is None or (
                group and (ts - group[-1] > bench.gap or len(edges.between(bench.edges, group[-1], ts)) > 0)
            )
            if apart and group:
                out[key].append((group[0], group[-1], float(sum(group)), len(group)))
                group = []
            if ts is not None:
                group.append(ts)
    return out


periodic = st.one_of(
    st.builds(
        lambda slide, more, o: Periodic(o, slide, slide + more, 1),
        st.integers(3, 15),
        st.integers(0, 9),
        st.integers(-5, 5),
    ),
    st.builds(lambda start, size: Periodic(start, 0, size, 1), st.integers(-30, 30), st.integers(1, 20)),
    st.builds(
        lambda start, slide: Periodic(start, 0, slide, 0, last_only=True), st.integers(-30, 30), st.integers(3, 20)
    ),
)
events = st.tuples(st.integers(0, KEYS - 1), st.integers(-40, 40))
batches = st.lists(st.lists(events, max_size=12), max_size=8)


@pytest.mark.parametrize("lay_out", [False, True], ids=["computed", "laid out"])
@settings(max_examples=80, deadline=None)
@given(st.lists(periodic, max_size=3), st.sampled_from([NEVER, 1, 2, 5]), batches)
def test_settled_as_grouped_at_once(lay_out: bool, windows: list[Periodic], gap: int, batches: Any) -> None:
    bench = Bench(windows, gap)
    seen: list[tuple[int, int]] = []
    for batch in batches:
        bench.take(batch, lay_out)
        seen += batch
        assert bench.found() == grouped(bench, seen)


@settings(max_examples=40, deadline=None)
@given(st.lists(periodic, max_size=2), st.sampled_from([1, 3]), batches)
def test_behind_a_watermark_nothing_differs_while_all_is_correctable(
    windows: list[Periodic], gap: int, batches: Any
) -> None:
    bench = Bench(windows, gap, watermark=20, lateness=10_000)
    for batch in batches:
        bench.take(batch)
    assert bench.found() == grouped(bench, [event for batch in batches for event in batch])


# --------------------------------------------------------------------------- update, merge, never a split

FOLD, MERGE = instructions.FOLD, instructions.MERGE


def test_an_event_inside_of_a_slice_updates_it() -> None:
    bench = Bench([Periodic(0, 10, 10, 1)])
    bench.take([(0, 1), (0, 8)])
    bench.take([(0, 5)])
    assert bench.instructions == [FOLD]
    assert bench.found()[0] == [(1, 8, 14.0, 3)]


def test_an_event_between_two_slices_joins_them() -> None:
    #   ·   ·       ·   ·        gap 3
    #   0   2   5   8   9
    bench = Bench([], gap=3)
    bench.take([(0, 0), (0, 2), (0, 8), (0, 9)])
    assert len(bench.found()[0]) == 2
    bench.take([(0, 5)])
    assert bench.instructions == [MERGE, FOLD]
    assert bench.found()[0] == [(0, 9, 24.0, 5)]


def test_an_edge_keeps_slices_apart_however_near_the_events() -> None:
    bench = Bench([Periodic(0, 5, 5, 1)], gap=3)
    bench.take([(0, 4), (0, 5)])
    bench.take([(0, 4), (0, 5)])
    assert bench.instructions == [FOLD, FOLD]
    assert bench.found()[0] == [(4, 4, 8.0, 2), (5, 5, 10.0, 2)]


def test_a_batch_that_spans_many_slices_of_a_cell_merges_them_all() -> None:
    bench = Bench([], gap=2)
    bench.take([(1, t) for t in range(0, 40, 4)])
    assert len(bench.found()[1]) == 10
    bench.take([(1, t) for t in range(2, 38, 4)])
    assert bench.found()[1] == [(0, 38 - 2, float(sum(range(0, 37, 2))), 19)]
    assert bench.instructions.count(MERGE) == 9
