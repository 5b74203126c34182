"""Wheels over sums that leave 64 bits: ranges, groups, windows, sessions, prefixes, keys, files, merging, readers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass import Wheel, agg
from windlass.errors import Overflow
from windlass.wheel.hierarchy import Level

TOP = 2**63 - 1
NUMBERS = st.sampled_from([TOP, -TOP - 1, 2**62, -(2**62), 2**61, 1, -1, 5])
OPTIONS = [{}, {"prefix": True}, {"invertible": False}, {"keys": True}, {"compressed": True}]
LEVELS = [1, 4, 16]


def make(**options: Any) -> Wheel:
    return Wheel(agg.sum(on_overflow="null"), 0, tick=1, levels=LEVELS, dtype="int64", **options)


def answered(w: Wheel, events: dict[int, list[int]], until: int) -> None:
    """Compare the answers over ranges, groups and the whole wheel with the events by tick."""
    ranges = [(a, b) for a in range(0, until, 5) for b in range(a + 1, until + 1, 3)]
    found = w.query_many([a for a, _ in ranges], [b for _, b in ranges]).to_pylist()
    wanted = [oracle.sum_or_null([x for t in range(a, b) for x in events.get(t, [])]) for a, b in ranges]
    assert found == wanted
    assert [w.query(a, b) for a, b in ranges[:7]] == wanted[:7]
    assert w.landmark() == oracle.sum_or_null([x for t, xs in events.items() if t < until for x in xs])
    groups = w.group_by(0, until, 7)
    assert groups["sum(on_overflow='null')"].to_pylist() == [
        oracle.sum_or_null([x for t in range(a, min(a + 7, until)) for x in events.get(t, [])])
        for a in range(0, until, 7)
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_whatever_is_asked(options: dict[str, Any], data: Any) -> None:
    w, events, until = make(**options), dict[int, list[int]](), 0
    w.window(6, 2, label="w")
    w.window(5, label="tumbling")
    w.session(2, label="s")
    rows: list[Any] = []
    for step in range(data.draw(st.integers(1, 4))):
        ticks = data.draw(st.lists(st.integers(until, until + 30), min_size=1, max_size=8))
        values = data.draw(st.lists(NUMBERS if step else st.integers(0, 9), min_size=len(ticks), max_size=len(ticks)))
        more = {"keys": ["a"] * len(ticks)} if options.get("keys") else {}
        w.insert_many(np.array(values, np.int64), np.array(ticks), **more)
        for t, v in zip(ticks, values, strict=True):
            events.setdefault(t, []).append(v)
        until += data.draw(st.integers(1, 25))
        rows += list(w.advance_to(until))
        answered(w, events, until)
        w.check_invariants()
    for row in rows:
        inside = [x for t in sorted(events) if row.start <= t < row.end for x in events[t]]
        assert row.value == oracle.sum_or_null(inside), row
    if options.get("keys"):
        assert w.by_key(0, until)["sum(on_overflow='null')"].to_pylist() == [w.query(0, until)]
    with tempfile.TemporaryDirectory() as directory:
        w.save(directory)
        answered(Wheel.open(directory, w.aggregate), events, until)
    if not options.get("keys"):
        other = make(**options)
        other.insert_many(np.array([2**62, TOP]), np.array([0, 3]))
        other.advance_to(until)
        both = {**events, 0: [*events.get(0, []), 2**62]}
        both[3] = [*both.get(3, []), TOP]
        answered(w.merge(other), both, until)


def test_saved_before_and_after_it_was_widened(tmp_path: Path) -> None:
    w = make()
    w.insert_many(np.array([1, 2]), np.array([0, 1]))
    w.advance_to(20)
    w.save(tmp_path)
    w.insert_many(np.array([2**62, 2**62, -5]), np.array([21, 22, 23]))
    w.advance_to(40)
    w.save(tmp_path)
    again = Wheel.open(tmp_path, w.aggregate)
    answered(again, {0: [1], 1: [2], 21: [2**62], 22: [2**62], 23: [-5]}, 40)
    again.insert_many(np.array([-(2**62)]), np.array([50]))
    again.advance_to(60)
    assert again.query(0, 60) == 2**62 - 2
    again.save(tmp_path)
    assert Wheel.open(tmp_path, w.aggregate).landmark() == 2**62 - 2


def test_packed_slots_from_before(tmp_path: Path) -> None:
    levels = [Level(1, compressed=True), Level(4), Level(16)]
    w = Wheel(agg.sum(), 0, tick=1, levels=levels, dtype="int64")
    w.insert_many(np.full(5000, 3), np.arange(5000))
    w.advance_to(5000)
    w.insert_many(np.array([2**62, 2**62]), np.array([5001, 5002]))
    w.advance_to(5010)
    assert w.query(1, 3001) == 9000
    assert w.query(1, 5002) == 3 * 4999 + 2**62
    with pytest.raises(Overflow):
        w.query(1, 5003)


def test_what_does_not_fit_is_refused_with_its_range() -> None:
    w = Wheel(agg.sum("x"), 0, tick=1, levels=LEVELS, keys=True)
    w.window(5, label="five")
    w.insert_many(np.array([2**62, 2**62, 1]), np.array([1, 2, 3]), ["a", "a", "b"])
    due = w.advance_to(10)
    message = "the sum is 9223372036854775808, which int64 cannot hold"
    with pytest.raises(Overflow, match=rf"sum\(x\) over \[0, 10\) key 'a': {message}"):
        w.query(0, 10, key="a")
    with pytest.raises(Overflow, match=r"sum\(x\) over \[1, 10\): the sum"):
        w.query_many([5, 1], [10, 10])
    with pytest.raises(Overflow, match=rf"sum\(x\) over \[0, 10\) key 'a': {message}"):
        w.by_key(0, 10)
    with pytest.raises(Overflow, match=rf"sum\(x\), window five \[0, 5\), key 'a': {message}"):
        _ = due.table
    assert w.query(0, 10, key="b") == 1
    assert w.query(2, 10) == 2**62 + 1


def test_readers_go_on_and_see_what_is_new(tmp_path: Path) -> None:
    w = make()
    w.insert_many(np.array([1, 2]), np.array([0, 1]))
    w.advance_to(10)
    w.share(tmp_path / "shared")
    near, far = w.reader(), Wheel.attach(tmp_path / "shared", w.aggregate)
    assert near.query(0, 10) == far.query(0, 10) == 3
    w.insert_many(np.array([TOP, TOP, -TOP]), np.array([11, 12, 13]))
    assert far.query(0, 10) == 3
    w.advance_to(20)
    assert near.query(0, 20) == far.refresh().query(0, 20) is None
    assert near.query(12, 20) == far.query(12, 20) == 0


def test_small_values_take_no_more_room() -> None:
    wide, narrow = make(), Wheel(agg.sum(on_overflow="wrap"), 0, tick=1, levels=LEVELS, dtype="int64")
    for w in (wide, narrow):
        w.insert_many(np.full(1000, 2**50), np.arange(1000))
        w.advance_to(1000)
    assert wide.nbytes == narrow.nbytes
    assert wide.query(0, 1000) == narrow.query(0, 1000) == 1000 * 2**50
    assert pa.array([wide.landmark()]).type == pa.int64()
