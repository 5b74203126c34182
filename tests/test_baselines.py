"""The baselines of the benchmarks answer as brute force does, whatever the batches: comparing with them is fair."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks import streams
from benchmarks.baselines import BASELINES, RA, Cutty, Periodic, TupleBuckets, TupleBuffer, Windows
from benchmarks.baselines.schedule import Marked
from windlass import agg

SECOND = streams.SECOND
TIME = Windows(tuple(Periodic(size, slide) for size, slide in [(1000, 1000), (3700, 1000), (2500, 700), (90, 90)]))
COUNT = Windows(tuple(Periodic(size, slide) for size, slide in [(10, 10), (37, 10), (25, 7), (8, 1)]), "count")
DELAY, EVERY = 400, 150


def _stream(n, seed, *, delay=0):
    """Times with ties and pauses; `delay`: most events arrive up to so much later."""
    rng = np.random.default_rng(seed)
    ts = 500 + np.cumsum(rng.choice([0, 1, 7, 30, 400], n, p=[0.2, 0.3, 0.3, 0.17, 0.03]))
    order = np.argsort(ts + rng.integers(0, delay + 1, n), kind="stable")
    return ts[order], rng.integers(-50, 50, n)[order]


def _periodic(windows, ts, value, of):
    """Every window that the definition names, from all events at once."""
    order = np.argsort(ts, kind="stable")
    ts, value = ts[order], value[order]
    at = np.arange(len(ts)) if windows.by_count else ts
    rows = []
    for q, (size, slide) in enumerate((p.size, p.slide) for p in windows.periodic):
        for k in range(0 if windows.by_count else (at[0] - size) // slide, at[-1] // slide + 1):
            inside = (at >= k * slide) & (at < k * slide + size)
            if inside.any() and not (windows.by_count and k * slide + size > len(at)):
                rows.append((q, k * slide, k * slide + size, of(value[inside])))
    return rows


def _sessions(query, gap, ts, value):
    order = np.argsort(ts, kind="stable")
    ts, value = ts[order], value[order]
    cuts = [0, *(np.flatnonzero(np.diff(ts) > gap) + 1), len(ts)]
    return [(query, ts[a], ts[b - 1] + gap, value[a:b].sum()) for a, b in pairwise(cuts)]


def _answers(baseline, ts, value, cuts, extra=()):
    rows = []
    for a, b in zip([0, *cuts], [*cuts, len(ts)], strict=True):
        if b > a:
            rows += baseline.process(ts[a:b], value[a:b], *(column[a:b] for column in extra)).rows()
    return sorted(rows + baseline.finish().rows())


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("windows", [TIME, COUNT], ids=["time", "count"])
@pytest.mark.parametrize("cuts", [[], [1, 2, 50, 51, 200], list(range(10, 300, 10))], ids=["one", "some", "many"])
def test_in_order(name, windows, cuts):
    ts, value = _stream(300, 1)
    baseline = BASELINES[name](windows, interpreted=True)
    assert _answers(baseline, ts, value, cuts) == sorted(_periodic(windows, ts, value, np.sum))


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.any_order])
@pytest.mark.parametrize("cuts", [[], [1, 2, 50, 51, 200], list(range(10, 300, 10))], ids=["one", "some", "many"])
def test_out_of_order_on_time(name, cuts):
    ts, value = _stream(300, 2, delay=DELAY)
    baseline = BASELINES[name](TIME, delay=DELAY, every=EVERY, interpreted=True)
    assert _answers(baseline, ts, value, cuts) == sorted(_periodic(TIME, ts, value, np.sum))


@pytest.mark.parametrize("name", ["Tuple buffer", "Aggregate tree"])
def test_out_of_order_on_positions(name):
    ts, value = _stream(300, 3, delay=DELAY)
    baseline = BASELINES[name](COUNT, delay=DELAY, every=EVERY, interpreted=True)
    assert _answers(baseline, ts, value, [40, 41, 180]) == sorted(_periodic(COUNT, ts, value, np.sum))


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.sessions and kind.any_order])
@pytest.mark.parametrize("delay", [0, DELAY])
def test_sessions_beside_windows(name, delay):
    ts, value = _stream(300, 4, delay=delay)
    windows = Windows(TIME.periodic, gap=60)
    baseline = BASELINES[name](windows, delay=delay or None, every=EVERY, interpreted=True)
    expected = _periodic(windows, ts, value, np.sum) + _sessions(len(TIME.periodic), 60, ts, value)
    assert _answers(baseline, ts, value, [40, 41, 180]) == sorted(expected)


@pytest.mark.parametrize("kind", [TupleBuffer, TupleBuckets])
def test_the_median(kind):
    ts, value = _stream(300, 5, delay=DELAY)
    baseline = kind(TIME, agg.median(), delay=DELAY, every=EVERY, interpreted=True)
    assert _answers(baseline, ts, value, [40, 180]) == sorted(_periodic(TIME, ts, value, np.median))


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "Tuple buckets"])
def test_what_does_not_commute_is_computed_in_order(name):
    ts, value = _stream(200, 6)
    baseline = BASELINES[name](TIME, agg.m4(), interpreted=True)
    expected = [
        (q, start, end, *of)
        for q, start, end, of in _periodic(TIME, ts, value, lambda v: (v.min(), v.max(), v[0], v[-1]))
    ]
    assert _answers(baseline, ts, value, [50, 51]) == sorted(expected)


@pytest.mark.parametrize("kind", [Cutty, RA])
def test_windows_that_events_end(kind):
    ts, value = _stream(300, 7)
    changes = [np.random.default_rng(k).random(300) < 0.02 * (k + 1) for k in range(3)]
    expected = []
    for k, change in enumerate(changes):
        at = [0, *(p for p in np.flatnonzero(change) if p > 0)]
        expected += [(k, a, b, value[a:b].sum()) for a, b in pairwise(at)]
    assert _answers(kind(Marked(3), interpreted=True), ts, value, [30, 31, 200], changes) == sorted(expected)


@pytest.mark.parametrize("name", BASELINES)
def test_compiled_is_as_interpreted(name):
    ts, value = _stream(300, 8)
    answers = [_answers(BASELINES[name](TIME, interpreted=i), ts, value, [100]) for i in (False, True)]
    assert answers[0] == answers[1]


def test_calls_of_combine_are_counted_as_the_paper_counts_them():
    """Tumbling windows of 8 over 64 events: 7 ⊕ a slice, and in RA one path of the tree an event."""
    ts, value = np.arange(64), np.ones(64, np.int64)
    windows = Windows((Periodic(8, 8),))
    counts = {}
    for name in ("Naive", "Pairs", "Cutty", "RA"):
        baseline = BASELINES[name](windows, interpreted=True)
        _answers(baseline, ts, value, [])
        counts[name] = (baseline.updates, baseline.merges, baseline.produced)
    assert counts["Naive"][0] == counts["Pairs"][0] == 56
    assert counts["Pairs"][1:] == (0, 8)
    assert counts["RA"][0] >= 64 * 6
    assert counts["Cutty"][2] <= 8


class TestStreams:
    def test_the_ball_is_where_the_paper_says(self):
        stream = streams.football(1 << 20)
        minutes = int(stream.ts[-1]) / (60 * SECOND)
        pauses = np.flatnonzero(np.diff(stream.ts) > SECOND)
        assert np.unique(stream.value).size > 0.95 * 84_232 and stream.value.max() < 84_232
        assert 4 < len(pauses) / minutes < 5.5
        assert np.median(np.diff(stream.ts)) == SECOND // 2000

    def test_the_machine_has_37_levels(self):
        stream = streams.machine(1 << 16)
        assert np.unique(stream.value).size == 37
        assert set(np.diff(stream.ts)) == {SECOND // 100}

    def test_disorder_moves_that_share_of_the_events_and_loses_none(self):
        stream = streams.football(20_000)
        shaken = streams.disordered(stream, 0.2)
        highest = np.maximum.accumulate(shaken.ts)
        assert sorted(shaken.ts) == list(stream.ts)
        assert 0.15 < np.mean(shaken.ts < highest) < 0.21
        assert (highest - shaken.ts).max() <= 2 * SECOND
        assert (streams.disordered(stream, 0.0).ts == stream.ts).all()

    def test_the_same_seed_gives_the_same_stream(self):
        a, b = (streams.keyed(streams.with_sensors(streams.machine(1000), 3), 10) for _ in range(2))
        assert all((a.columns[name] == b.columns[name]).all() for name in a.columns)
        assert list(a.columns) == ["ts", "value", "change_0", "change_1", "change_2", "key"]
