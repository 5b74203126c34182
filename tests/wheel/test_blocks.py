"""Windows over many slots that become complete at once: the same as when they do one by one, and as the events say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass import Wheel, agg
from windlass.wheel import blocks

WINDOWS = ((6, 2, 0), (5, 1, 0), (30, 10, 3), (4, 4, 1), (7, 2, 0), (40, 5, 2))
FOLDS: dict[str, Any] = {"sum": sum, "max": max, "avg": lambda xs: pytest.approx(sum(xs) / len(xs))}

stretches = st.lists(  # how long, and how many events are in it: busy, sparse, and quiet ones
    st.tuples(st.sampled_from([40, 300, 700]), st.sampled_from([0, 2, 40, 600])), min_size=1, max_size=4
)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("name", ["sum", "max", "avg"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    stretches=stretches, window=st.sampled_from(WINDOWS), steps=st.sampled_from([1, 2, 5]), seed=st.integers(0, 10**6)
)
def test_windows_in_blocks(name: str, keyed: bool, stretches: Any, window: Any, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *(length for length, _ in stretches)])
    times = np.concatenate([rng.integers(a, a + n, k) for a, (n, k) in zip(bounds[:-1], stretches, strict=True)])
    values, keys = rng.integers(-50, 50, len(times)), rng.integers(0, 2, len(times))
    length, slide, offset = window
    end = int(bounds[-1])
    w = Wheel(getattr(agg, name)("x"), 0, tick=1, keys=keyed, dtype=np.int64, write_ahead=32)
    w.window(length, slide, offset=offset)
    if len(times):
        w.insert_many(values, times, *([keys] if keyed else []))
    got = [c for k in range(steps) for c in w.advance_to(end * (k + 1) // steps)]
    want = []
    for key in (0, 1) if keyed else (None,):
        mine = np.ones(len(times), np.bool_) if key is None else keys == key
        for start in range(offset - length - length % slide, end - length + 1):
            inside = values[mine & (times >= start) & (times < start + length)].tolist()
            if (start - offset) % slide == 0 and inside:
                want.append((key, start, start + length, FOLDS[name](inside)))
    assert sorted((c.key, c.start, c.end, c.value) for c in got) == sorted(want, key=lambda row: row[:3])


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_blocks_are_used_and_go_on(retention: Any, monkeypatch: Any) -> None:
    """In bulk, over gaps, and again after them; they come to what following slot by slot does."""
    rng = np.random.default_rng(3)
    times = np.sort(np.concatenate([rng.integers(0, 30_000, 9_000), rng.integers(50_000, 70_000, 300)]))
    values, called = rng.integers(0, 99, len(times)), []
    plain = blocks.slide
    monkeypatch.setattr(blocks, "slide", lambda *a: called.append(1) or plain(*a))
    found, calls = [], []
    for worth in (blocks.WORTH, 10**9):
        monkeypatch.setattr(blocks, "WORTH", worth)
        w = Wheel(agg.min("x"), 0, tick=1, dtype=np.int64, retention=retention)
        w.window(60, 5)
        w.ingest(values[:4000], times[:4000])
        tables = [w.ingest(values[4000:], times[4000:], delay=7).table, w.advance_to(70_010).table]
        found.append([t.to_pydict() for t in tables])
        calls.append(len(called))
    assert 0 < calls[0] == calls[1], "in blocks, and then not once more"
    assert found[0] == found[1]
