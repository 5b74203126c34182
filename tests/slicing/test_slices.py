"""Slices of many keys in one matrix: whatever is reserved, appended and evicted, no row or slot is lost or shared."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from windlass.slicing.slices import BASE, CAPACITY, CLEAN, HI, LO, MEASURES, POS, SLOT, Slices, find, position_on

KEYS = 5


def check(slices: Slices) -> None:
    """The invariants of the card."""
    live: list[int] = []
    places = []
    for base, lo, hi, capacity, clean in slices.directory[:, : CLEAN + 1].tolist():
        assert 0 <= lo <= hi <= capacity
        assert 0 <= clean <= hi
        assert capacity == 0 or capacity & (capacity - 1) == 0  # a tree stands over a run
        places.append((base, base + capacity))
        live += slices.rows[base + lo : base + hi, SLOT].tolist()
    taken = sorted(place for place in places if place[0] < place[1])
    for (_, stop), (start, _) in pairwise(taken):
        assert stop <= start, "runs overlap"
    assert not taken or taken[-1][1] <= slices.top <= len(slices.rows)
    free = slices.free[: slices.free_count].tolist()
    assert sorted(live + free) == list(range(slices.slots)), "a slot is lost, or in use twice"
    assert len(slices) == len(live)


class Runs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.slices = Slices(measures=1)
        self.slices.add_keys(KEYS)
        self.model: dict[int, list[tuple[int, int]]] = {k: [] for k in range(KEYS)}  # (position, slot)
        self.serial = 0

    @rule(more=st.dictionaries(st.integers(0, KEYS - 1), st.integers(1, 20), min_size=1))
    def append(self, more: dict[int, int]) -> None:
        s = self.slices
        keys = np.array(sorted(more), np.int64)
        s.reserve(keys, np.array([more[k] for k in keys.tolist()], np.int64))
        for k in keys.tolist():
            for _ in range(more[k]):
                entry = s.directory[k]
                assert entry[HI] < entry[CAPACITY]  # there is room, as promised
                row = s.rows[entry[BASE] + entry[HI]]
                s.free_count -= 1
                row[SLOT], row[POS], row[MEASURES] = s.free[s.free_count], self.serial, -self.serial
                self.model[k].append((self.serial, int(row[SLOT])))
                entry[HI] += 1
                self.serial += 1

    @rule(more=st.dictionaries(st.integers(0, KEYS - 1), st.integers(0, 9)))
    def reserve_in_vain(self, more: dict[int, int]) -> None:
        keys = np.array(sorted(more), np.int64)
        self.slices.reserve(keys, np.array([more[k] for k in keys.tolist()], np.int64))

    @rule(key=st.integers(0, KEYS - 1), share=st.floats(0, 1))
    def evict(self, key: int, share: float) -> None:
        upto = self.slices.directory[:, LO].copy()
        gone = round(share * len(self.model[key]))
        upto[key] += gone
        self.slices.evict(upto)
        del self.model[key][:gone]

    @rule(keys=st.sets(st.integers(0, KEYS - 1)))
    def clear(self, keys: set[int]) -> None:
        self.slices.clear(np.array(sorted(keys), np.int64))
        for key in keys:
            self.model[key].clear()

    @rule(keys=st.integers(1, 40))
    def add_keys(self, keys: int) -> None:
        self.slices.add_keys(keys)

    @rule(key=st.integers(0, KEYS - 1), clean=st.integers(0, 20))
    def repaired(self, key: int, clean: int) -> None:
        self.slices.directory[key, CLEAN] = min(clean, int(self.slices.directory[key, HI]))

    @invariant()
    def nothing_is_lost(self) -> None:
        check(self.slices)
        for key, rows in self.model.items():
            base, lo, hi = self.slices.directory[key, [BASE, LO, HI]].tolist()
            run = self.slices.rows[base + lo : base + hi]
            assert list(zip(run[:, POS].tolist(), run[:, SLOT].tolist(), strict=True)) == rows
            assert (run[:, MEASURES] == -run[:, POS]).all()


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def one_run(sizes: list[int]) -> tuple[Slices, list[int]]:
    """A run that is appended to and evicted from in turns, and how many rows its place had each time."""
    s, capacities = Slices(), []
    s.add_keys(1)
    key = np.array([0])
    for size in sizes:
        s.reserve(key, np.array([size]))
        for _ in range(size):
            s.free_count -= 1
            s.rows[s.directory[0, BASE] + s.directory[0, HI], SLOT] = s.free[s.free_count]
            s.directory[0, HI] += 1
        s.evict(s.directory[:, HI] - 1)
        check(s)
        capacities.append(int(s.directory[0, CAPACITY]))
    return s, capacities


def test_a_run_that_moves_on_does_not_grow() -> None:
    s, capacities = one_run([3] * 500)
    assert max(capacities) <= 8
    assert len(s.rows) <= 256
    assert s.slots <= 64


def test_memory_is_bounded_by_what_was_alive_at_once() -> None:
    s, _ = one_run([200] + [2] * 2000)
    assert len(s) == 1
    assert s.slots <= 512
    assert len(s.rows) <= 2048
    assert s.nbytes <= 9 * 8 + s.directory.nbytes


def test_nothing_yet() -> None:
    s = Slices()
    assert len(s) == s.nbytes == 0
    none = np.empty(0, np.int64)
    s.reserve(none, none)
    s.evict(none)
    s.clear(none)
    check(s)


def rows_of(values: list[int]) -> Any:
    rows = np.zeros((len(values), MEASURES), np.int64)
    rows[:, POS] = values
    return rows


def test_find_is_bisection() -> None:
    values = [-5, -5, 0, 3, 3, 3, 9]
    rows = rows_of(values)
    for lo in range(len(values) + 1):
        for hi in range(lo, len(values) + 1):
            for value in range(-7, 12):
                want = lo + int(np.searchsorted(values[lo:hi], value)) if lo < hi else lo
                assert find(rows, POS, lo, hi, value) == want
                assert position_on(rows[:, POS], lo, hi, value) == want
