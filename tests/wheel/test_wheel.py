"""A wheel against brute force: any order of calls, any hierarchy, any retention."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.wheel.oracle import FOLDS, Model, same
from windlass import agg
from windlass.errors import Unanswerable
from windlass.wheel.hierarchy import Level
from windlass.wheel.wheel import Wheel

NAMES = ("sum", "min", "avg")  # with an inverse, without one, and with partials of two fields


@st.composite
def hierarchies(draw: Any) -> list[Level]:
    sizes, size = [1], 1
    for _ in range(draw(st.integers(0, 4))):
        size *= draw(st.integers(2, 7))
        sizes.append(size)
    return sizes


@st.composite
def wheels(draw: Any) -> tuple[Wheel, Model]:
    name = draw(st.sampled_from(NAMES))
    tick = draw(st.sampled_from([1, 1, 3]))
    start = draw(st.integers(-100, 100))
    sizes = draw(hierarchies())
    aggregate = getattr(agg, name)()
    may_prefix = aggregate.invertible
    levels = [
        Level(
            size * tick,
            keep=draw(st.sampled_from(["keep", "keep", "drop", 1, 5, 50])),
            prefix=may_prefix and draw(st.booleans()),
        )
        for size in sizes
    ]
    w = Wheel(
        aggregate,
        start,
        tick=tick,
        levels=levels,
        write_ahead=draw(st.sampled_from([1, 3, 8, 64, 2000])),
        hints=draw(st.booleans()),
        simd_threshold=draw(st.sampled_from([0, 10, 1000])),
        invertible=draw(st.sampled_from([None, False])) if not any(l.prefix for l in levels) else None,
        dtype="int64",
    )
    return w, Model(start, tick, FOLDS[name])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(st.tuples(st.integers(-50, 50), st.integers(-5, 80)), max_size=12)),
        st.tuples(st.just("one"), st.integers(-50, 50), st.integers(-5, 200)),
        st.tuples(
            st.just("ingest"),
            st.lists(st.tuples(st.integers(-50, 50), st.integers(-5, 80)), max_size=30),
            st.integers(1, 5),
        ),
        st.tuples(st.just("far"), st.integers(-50, 50), st.integers(200, 100_000)),
        st.tuples(st.just("advance"), st.sampled_from([0, 1, 2, 7, 30, 200])),
        st.tuples(st.just("leap"), st.integers(1000, 60_000)),
        st.tuples(st.just("window"), st.integers(1, 40), st.integers(1, 40)),
        st.tuples(st.just("session"), st.integers(1, 20)),
    ),
    max_size=14,
)


class Driver:
    """Does the same to a wheel and to its model, and compares."""

    def __init__(self, w: Wheel, model: Model) -> None:
        self.w, self.model = w, model
        self.windows: list[tuple[str, int, int]] = []
        self.sessions: list[tuple[str, int, int]] = []

    def step(self, step: tuple[Any, ...]) -> None:
        w, model = self.w, self.model
        kind = step[0]
        before = model.watermark
        if kind in ("insert", "ingest"):
            times = np.array([before + d for _, d in step[1]], np.int64)
            values = np.array([v for v, _ in step[1]], np.int64)
            if kind == "insert":
                late = w.insert_many(values, times)
                self.seen = max([self.seen, *times.tolist()])
                assert late.tolist() == [
                    i
                    for i, (v, t) in enumerate(zip(values.tolist(), times.tolist(), strict=True))
                    if not model.insert(v, t)
                ]
                return
            due = w.ingest(values, times, every=step[2])
            late, since, seen = [], self.count, self.seen
            for i, (v, t) in enumerate(zip(values.tolist(), times.tolist(), strict=True)):
                if not model.insert(v, t):
                    late.append(i)
                seen, since = max(seen, t), since + 1
                if since == step[2]:
                    model.advance(seen)
                    since = 0
            self.seen, self.count = seen, since
            assert due.late.tolist() == late
            self.compare_due(due, before)
        elif kind in ("one", "far"):
            t = before + step[2]
            assert w.insert(step[1], t) == model.insert(step[1], t)
            self.seen = max(self.seen, t) if t >= before else self.seen
        elif kind in ("advance", "leap"):
            to = before + step[1]
            due = w.advance_to(to)
            model.advance(to)
            self.compare_due(due, before)
        elif kind == "window":
            length, slide = max(step[1:]) * model.tick, min(step[1:]) * model.tick
            label = f"w{len(self.windows)}"
            w.window(length, slide, label=label)
            self.windows.append((label, length, slide, before))
        else:
            label = f"s{len(self.sessions)}"
            w.session(step[1] * model.tick, label=label)
            self.sessions.append((label, step[1] * model.tick, before))

    seen, count, every = -(2**60), 0, None  # of ingest: the latest time, events since the last watermark, and its pace

    def compare_due(self, due: Any, before: int) -> None:
        table = due.table.to_pydict()
        value = self.w.aggregate.output_name
        rows = list(zip(table["window"], table["start"], table["end"], table[value], strict=True))
        for label, length, slide, _ in self.windows:
            mine = [row[1:] for row in rows if row[0] == label]
            expected = self.model.windows(length, slide, before)
            assert [(a, b) for a, b, _ in mine] == [(a, b) for a, b, _ in expected], label
            assert all(same(x[2], y[2]) for x, y in zip(mine, expected, strict=True)), (mine, expected)
        for label, gap, since in self.sessions:
            mine = [row[1:] for row in rows if row[0] == label]
            expected = [s for s in self.model.sessions(gap, before) if s[0] >= since]
            assert mine == expected or all(same(x[2], y[2]) for x, y in zip(mine, expected, strict=True)), (
                mine,
                expected,
            )

    def compare_ranges(self, ranges: list[tuple[int, int]]) -> None:
        w, model = self.w, self.model
        for start, end in ranges:
            explained = w.explain(start, end)
            try:
                answer = w.query(start, end)
            except Unanswerable:
                assert explained.cost is None and all(c is None for c in explained.alternatives.values())
                assert any(level.limit >= 0 for level in w.levels)
                continue
            assert same(answer, model.query(start, end)), (start, end, explained)
            if not w.hints and explained.plan != "none":
                assert explained.cost == min(c for c in explained.alternatives.values() if c is not None)


@given(wheels(), STEPS, st.lists(st.tuples(st.integers(-20, 400), st.integers(0, 400)), max_size=12), st.data())
@settings(suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
def test_any_history(pair: Any, steps: Any, ranges: Any, data: Any) -> None:
    w, model = pair
    driver = Driver(w, model)
    for step in steps:
        if step[0] in ("window", "session") and (model.watermark > model.start):
            continue  # windows that are added later have tests of their own
        if step[0] == "ingest" and driver.count and driver.every != step[2]:
            continue  # one pace a stream
        if step[0] == "ingest":
            driver.every = step[2]
        driver.step(step)
        w.check_invariants()
    tick = model.tick
    shifted = [(model.watermark - a * tick, model.watermark - a * tick + b * tick) for a, b in ranges]
    shifted.append((model.start, model.watermark))
    driver.compare_ranges(shifted)
    assert same(w.landmark(), model.query(-(2**61), 2**61))


@pytest.mark.parametrize("rare", [0.3, 4, 40, 700])
@pytest.mark.parametrize("subtracts", [False, None])
def test_windows_over_sparse_streams(rare: float, subtracts: bool | None) -> None:
    """In bulk, with the watermark moving along; events are `rare` ticks apart, so that most windows, or pairs, or
    none are empty, and quiet times are left out."""
    rng = np.random.default_rng(int(rare * 10))
    times = np.cumsum(rng.exponential(rare, 400)).astype(np.int64)
    times[rng.random(400) < 0.4] += int(rng.integers(0, 30))
    values = rng.integers(-50, 50, 400)
    w = Wheel(agg.sum(), 0, tick=1, write_ahead=20, invertible=subtracts, dtype="int64")
    asked = {w.window(*window): window for window in [(15, 5), (17, 5), (180, 1), (300, 60), (64, 64), (100, 7)]}
    model = Model(0, 1, FOLDS["sum"])
    got: list[Any] = []
    for part in np.split(np.arange(400), [130, 150, 260]):
        due = w.ingest(values[part], times[part], every=10, delay=30)
        got += [(c.window, c.start, c.end, c.value) for c in due]
        for i in np.delete(part, due.late).tolist():
            assert model.insert(int(values[i]), int(times[i]))
    got += [(c.window, c.start, c.end, c.value) for c in w.advance_to(int(times.max()) + 500)]
    model.advance(int(times.max()) + 500)
    w.check_invariants()
    want = [(name, *found) for name, window in asked.items() for found in model.windows(*window, 0)]
    assert sorted(got) == sorted(want)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("aggregate", [agg.sum(), agg.max()], ids=["sum", "max"])
@pytest.mark.parametrize("size, slide", [(1, 1), (7, 3), (6, 2), (50, 5)])
def test_a_copy_goes_on_with_its_windows(again: Any, aggregate: Any, size: int, slide: int) -> None:
    """A ring in a copy has as much room, and the tags of its pairs stay beside their partials."""
    w = Wheel(aggregate, 0, tick=1, unit="s", dtype="int64")
    w.window(size, slide)
    w.insert_many(np.arange(400) * 7 % 31, np.arange(400))
    for t in (3, 23, 60):
        w.advance_to(t)
        copied = again(w)
        rings = [(len(k[0]._ring[0]), len(k[1])) for window in copied._windows for k in window.keys]
        assert rings == [(window.pairs, window.pairs) for window in copied._windows for _ in window.keys]
    wanted = [w.advance_to(t).table.to_pylist() for t in (61, 62, 75, 200, 410)]
    assert [copied.advance_to(t).table.to_pylist() for t in (61, 62, 75, 200, 410)] == wanted


PLUS = agg.define("plus", lift=lambda x: x, combine=lambda a, b: a + b, commutative=True)()


@pytest.mark.parametrize(
    "aggregate, dtype, options",
    [(agg.sum(), "float64", {"invertible": True}), (agg.sum(), "float64", {"prefix": True}), (PLUS, "int64", {})],
    ids=["floats that subtract", "floats in prefixes", "no identity"],
)
def test_a_copy_keeps_the_form_of_partials(aggregate: Any, dtype: str, options: Any) -> None:
    """Partials in windows have the wheel's form, which may not be the form that a store of its own has."""
    w = Wheel(aggregate, 0, tick=1, unit="s", dtype=dtype, **options)
    w.window(6), w.window(40, 2)
    w.insert_many(np.arange(50), np.arange(50))
    w.advance_to(33)
    copied = copy.copy(w)
    assert copied.advance_to(200).table.to_pylist() == w.advance_to(200).table.to_pylist()


@pytest.mark.parametrize("on_overflow", ["raise", "null", "wrap"])
@pytest.mark.parametrize("subtracts", [None, False])
def test_a_copy_widens_its_windows_with_its_slots(on_overflow: Any, subtracts: bool | None) -> None:
    """A great value in a window widens the sums of a copy neither earlier nor later than those of the wheel."""
    values = [2**60 if t == 7 else 1 for t in range(50)] + [2**62, -(2**62), 2**62, -3]
    w = Wheel(agg.sum(on_overflow=on_overflow), 0, tick=1, unit="s", dtype="int64", invertible=subtracts)
    w.window(40, 1)
    for begin, end in ((0, 7), (7, 8), (8, 50)):  # Σ|x| is bounded by the batch: it stays below 2^63
        w.insert_many(values[begin:end], range(begin, end))
    w.advance_to(45)
    copied = copy.copy(w)
    for each in (w, copied):
        found = list(each.advance_to(50))
        each.insert_many(values[50:], range(50, 54))
        found += each.advance_to(100)
        assert [row.value for row in found] == [sum(values[max(t - 40, 0) : t]) for t in range(46, 94)]
