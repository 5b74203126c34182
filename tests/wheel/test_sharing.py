"""Windows over a wheel that share the fold of its slots: the same answers, for fewer ⊕."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass import Wheel, agg
from windlass.aggregates.counting import counted
from windlass.stores.recompute import Recompute
from windlass.stores.subtract_on_evict import SubtractOnEvict
from windlass.stores.two_stacks import TwoStacks
from windlass.wheel import sharing


@pytest.fixture
def always(monkeypatch: Any) -> Iterator[None]:
    """However few ticks there are, slots are folded for all."""
    monkeypatch.setattr(sharing, "pays", lambda windows, ticks: True)
    monkeypatch.setattr("windlass.wheel.engine.pays", lambda windows, ticks: True)
    yield


windows = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=4
)
events = st.lists(st.tuples(st.integers(0, 80), st.integers(-9, 9), st.sampled_from("ab")), max_size=30)
advances = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("name", ["sum", "max"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(windows=windows, events=events, advances=advances)
def test_shared_windows_are_what_the_events_say(
    name: str, keyed: bool, windows: Any, events: Any, advances: list[int]
) -> None:
    aggregate, of = (agg.sum("x"), sum) if name == "sum" else (agg.max("x"), max)
    w = Wheel(aggregate, 0, tick=1, keys=keyed, dtype=np.int64)
    asked = {}
    for i, (periods, slide, rest, offset) in enumerate(windows):
        length = periods * slide + rest % slide
        asked[f"w{i}"] = length, slide, offset % slide
        w.window(length, slide, offset=offset % slide or 0, label=f"w{i}")
    got, now = [], 0
    for step in advances:
        mine = [e for e in events if now <= e[0] < now + step]
        keys = {"keys": [e[2] for e in mine]} if keyed else {}
        if mine:
            w.insert_many([e[1] for e in mine], [e[0] for e in mine], **keys)
        now += step
        got += [(c.window, c.start, c.end, c.value, c.key) for c in w.advance_to(now)]
    want = []
    for label, (length, slide, offset) in asked.items():
        for key in "ab" if keyed else [None]:
            for start in range(offset - (length // slide + 1) * slide, now, slide):
                inside = [v for t, v, k in events if start <= t < start + length and key in (None, k) and t < now]
                if start + length <= now and inside and start + length > 0:
                    want.append((label, start, start + length, of(inside), key))
    assert sorted(got, key=repr) == sorted(want, key=repr)


def test_one_fold_for_all() -> None:
    """Ten windows over a day of seconds: about one ⊕ a tick, where ten would be."""
    day = 86_400

    def combines(shared: bool) -> int:
        aggregate, calls = counted(agg.sum("x"))
        w = Wheel(aggregate, 0, tick=1, dtype=np.int64)
        for i in range(1, 11):
            w.window(3600 * i, 600 * i)
            if not shared:
                break
        w.insert_many(np.ones(day // 60, np.int64), np.arange(0, day, 60))
        w.advance_to(day)
        return int(calls.combine)

    one, ten = combines(False), combines(True)
    assert ten - one < 0.2 * day, "nine more windows take pairs and pieces, not ticks"


def test_few_ticks_are_folded_by_each() -> None:
    w = Wheel(agg.sum("x"), 0, tick=1, dtype=np.int64)
    for i in range(1, 4):
        w.window(10 * i, 2 * i)
    periodic: Any = list(w._windows)
    assert not sharing.pays(periodic, 10) and sharing.pays(periodic, 1_000_000)


def test_techniques_follow_from_omega() -> None:
    assert sharing.technique_for(10, 10, True) is Recompute, "a tumbling window is its pair"
    assert sharing.technique_for(20, 10, False) is Recompute
    assert sharing.technique_for(600, 10, True) is SubtractOnEvict
    assert sharing.technique_for(600, 10, False) is TwoStacks
    for length, step in [(10, 10), (20, 10), (25, 10), (600, 10)]:
        found = sharing.omegas(length, step, True)
        kind = sharing.technique_for(length, step, True)
        assert found[next(name for name, k in sharing.KINDS.items() if k is kind)] == min(found.values())


def test_explain_windows() -> None:
    w = Wheel(agg.sum("x"), "2024-01-01", dtype=np.int64)
    assert w.explain_windows() == "no periodic windows"
    w.window("1h", "10m")
    assert "subtract-on-evict: 2 ⊕ a pair of 10m (recompute 5, TwoStacks 2.43)" in w.explain_windows()
    w.window("5m")
    text = w.explain_windows()
    assert "2 windows" in text and "recompute: 0 ⊕" in text
    assert "folded once for all: 1.01 ⊕ a tick, 2 if each" in text
