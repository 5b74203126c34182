"""Slice programs: FOLD, MERGE, REPAIR and ANSWER on partials that do not commute, lazily and eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operator.rows import PRIME, digits
from windlass import agg
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.counting import counted
from windlass.aggregates.values import value_type
from windlass.operator.lift import Lift, lowered
from windlass.operator.tuples import Tuples
from windlass.slicing.instructions import ANSWER, FOLD, MERGE, REPAIR, WIDTH
from windlass.slicing.slices import BASE, CAPACITY, CLEAN, HI, LO, SLOT, Slices


def number(values: list[int]) -> int | None:
    """What `digits` says of values in order."""
    found = 0
    for x in values:
        found = (found * 7 + x % PRIME) % PRIME
    return found if values else None


AGGREGATES: dict[str, tuple[Aggregate, Any]] = {
    "compiled": (digits("x"), number),
    "gathered": (agg.collect_list("x"), list),
    "interpreted": (counted(digits("x"))[0], number),
    "wrapping": (agg.sum("x"), lambda xs: sum(xs) if xs else None),
}


class Bench:
    """The slices of some keys, an aggregate's partials of them, and the events that each slice holds."""

    def __init__(self, aggregate: Aggregate, eager: bool, keys: int = 1) -> None:
        self.lift = Lift(aggregate, aggregate.monoid([value_type(pa.int64())]), None, eager)
        self.slices = Slices()
        self.slices.add_keys(keys)
        self.held: list[list[list[int]]] = [[] for _ in range(keys)]  # by key, of the slices LO … HI - 1
        self.dirty = [0] * keys  # the tree is right before that

    def run(self, *program: tuple[int, ...], values: tuple[int, ...] = (), rows: int = 0) -> list[Any]:
        words = np.zeros((len(program), WIDTH), np.int64)
        for row, instruction in zip(words, program, strict=True):
            row[: len(instruction)] = instruction
        x, none = np.array(values, np.int64), np.zeros(len(values), np.int64)
        answers = self.lift.monoid.allocate(rows)
        self.lift.run(words, Tuples(none, none, none, none, {"x": x}), self.slices, answers)
        return lowered(self.lift.monoid, answers, rows).to_pylist() if rows else []

    def slot(self, key: int, j: int) -> int:
        base, lo = self.slices.directory[key, [BASE, LO]].tolist()
        return int(self.slices.rows[base + lo + j, SLOT])

    def append(self, key: int, *contents: list[int]) -> None:
        """New slices; all are folded by one program."""
        s = self.slices
        where = s.directory[key, BASE]
        s.reserve(np.array([key]), np.array([len(contents)]))
        values, program = [], []
        for held in contents:
            entry = s.directory[key]
            s.free_count -= 1
            slot = int(s.free[s.free_count])
            s.rows[entry[BASE] + entry[HI], SLOT] = slot
            entry[HI] += 1
            program.append((FOLD, slot, len(values), len(values) + len(held), 1))
            values += held
            self.held[key].append(list(held))
        if s.directory[key, BASE] != where:
            self.dirty[key] = 0  # the run has moved, away from its tree
        self.dirty[key] = min(self.dirty[key], int(s.directory[key, LO]) + len(self.held[key]) - len(contents))
        self.run(*program, values=tuple(values))

    def update(self, key: int, j: int, *values: int) -> None:
        self.run((FOLD, self.slot(key, j), 0, len(values), 0), values=values)
        self.held[key][j] += values
        self.dirty[key] = min(self.dirty[key], int(self.slices.directory[key, LO]) + j)

    def evict(self, key: int, count: int) -> None:
        upto = self.slices.directory[:, LO].copy()
        upto[key] += count
        self.slices.evict(upto)
        del self.held[key][:count]
        if not self.held[key]:
            self.dirty[key] = 0

    def answer(self, key: int) -> None:
        """Ask for every range of slices, and compare."""
        base, lo, hi, capacity = self.slices.directory[key, :CLEAN].tolist()
        program: list[tuple[int, ...]] = []
        clean = max(self.dirty[key], lo)
        if self.lift.eager and clean < hi:
            program.append((REPAIR, base, capacity, clean, hi, lo, hi))
            self.dirty[key] = hi
        ranges = [(p, q) for p in range(lo, hi + 1) for q in range(p, hi + 1)]
        program += [(ANSWER, row, base, capacity, p, q) for row, (p, q) in enumerate(ranges)]
        got = self.run(*program, rows=len(ranges))
        m = self.lift.monoid
        oracle = AGGREGATES["gathered" if m.gather is not None else "wrapping" if m.wraps else "compiled"][1]
        want = [oracle([x for held in self.held[key][p - lo : q - lo] for x in held]) for p, q in ranges]
        assert got == want


@pytest.mark.parametrize("eager", [False, True], ids=["lazy", "eager"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_range_of_slices(aggregate: str, eager: bool) -> None:
    bench = Bench(AGGREGATES[aggregate][0], eager)
    for n in range(1, 18):  # runs of all sizes around powers of two
        bench.append(0, [n, -n, n * n][: n % 3 + 1])
        bench.answer(0)


contents = st.lists(st.integers(-9, 9), min_size=1, max_size=3)  # a slice is never without events
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), st.lists(contents, min_size=1, max_size=6)),
    st.tuples(st.just("update"), st.integers(0, 1), st.tuples(st.floats(0, 0.999), contents)),
    st.tuples(st.just("evict"), st.integers(0, 1), st.floats(0, 1)),
    st.tuples(st.just("answer"), st.integers(0, 1), st.none()),
)


@pytest.mark.parametrize("eager", [False, True], ids=["lazy", "eager"])
@pytest.mark.parametrize("aggregate", ["compiled", "gathered"])
@settings(max_examples=40, deadline=None)
@given(st.lists(steps, max_size=12))
def test_any_history(aggregate: str, eager: bool, history: list[Any]) -> None:
    bench = Bench(AGGREGATES[aggregate][0], eager, keys=2)
    for what, key, argument in history:
        slices = len(bench.held[key])
        if what == "append":
            bench.append(key, *argument)
        elif what == "update" and slices:
            bench.update(key, int(argument[0] * slices), *argument[1])
        elif what == "evict":
            bench.evict(key, round(argument * slices))
        elif what == "answer":
            bench.answer(key)
    bench.answer(0)
    bench.answer(1)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_merge_puts_the_other_behind(aggregate: str) -> None:
    bench = Bench(AGGREGATES[aggregate][0], False)
    bench.append(0, [1, 2], [3], [4])
    bench.run((MERGE, bench.slot(0, 0), bench.slot(0, 1)), (MERGE, bench.slot(0, 0), bench.slot(0, 2)))
    bench.held[0][0] = [1, 2, 3, 4]
    bench.answer(0)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_fresh_fold_forgets_what_a_slot_held(aggregate: str) -> None:
    bench = Bench(AGGREGATES[aggregate][0], False)
    bench.append(0, [5, 5])
    bench.run((FOLD, bench.slot(0, 0), 1, 3, 1), values=(9, 1, 2))
    bench.held[0][0] = [1, 2]
    bench.answer(0)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_events_that_do_not_count_are_not_folded(aggregate: str) -> None:
    lift = Lift(AGGREGATES[aggregate][0], AGGREGATES[aggregate][0].monoid([value_type(pa.int64())]), 0, False)
    slices = Slices()
    slices.add_keys(1)
    slices.reserve(np.array([0]), np.array([2]))
    slices.directory[0, HI] = 2
    slices.rows[:2, SLOT] = [0, 1]
    none = np.zeros(4, np.int64)
    counts = np.array([True, False, True, False])
    tuples = Tuples(none, none, none, none, {"x": np.array([1, 2, 3, 4])}, {}, [counts])
    capacity = int(slices.directory[0, CAPACITY])
    program = np.zeros((4, WIDTH), np.int64)
    program[0, :5] = FOLD, 0, 0, 3, 1
    program[1, :5] = FOLD, 1, 3, 4, 1  # nothing that counts
    program[2, :6] = ANSWER, 0, 0, capacity, 0, 2
    program[3, :6] = ANSWER, 1, 0, capacity, 1, 2
    answers = lift.monoid.allocate(2)
    lift.run(program, tuples, slices, answers)
    oracle = AGGREGATES[aggregate][1]
    assert lowered(lift.monoid, answers, 2).to_pylist() == [oracle([1, 3]), oracle([])]


def test_lazy_and_eager_combines() -> None:
    """An answer over n closed slices and an open one takes n ⊕ lazily; eagerly 7 within a block, else 4."""
    for n in (3, 8, 15, 16, 17, 64, 100):
        spent = {}
        for eager in (False, True):
            aggregate, calls = counted(digits("x"))
            bench = Bench(aggregate, eager)
            bench.append(0, *([1] for _ in range(n)))
            bench.answer(0)  # repairs the tree
            base, lo, hi, capacity = bench.slices.directory[0, :CLEAN].tolist()
            costs = []
            for p in range(lo, hi):
                calls.reset()
                bench.run((ANSWER, 0, base, capacity, p, hi), rows=1)
                costs.append((hi - p, calls.combine))
            spent[eager] = costs
        assert all(combines == size - 1 for size, combines in spent[False])
        assert all(combines <= (size - 1 if size <= 8 else 4) for size, combines in spent[True])


def test_many_slices_and_few_of_them_appended_at_a_time() -> None:
    """Spans of blocks, also of the larger ones of long runs."""
    rng = np.random.default_rng(7)
    lift = Lift(digits("x"), digits("x").monoid([value_type(pa.int64())]), None, True)
    slices = Slices()
    slices.add_keys(1)
    held: list[int] = []
    gone = clean = 0  # slices evicted; those before are in order
    for more in [1, 3, 700, 9, 1, 1500, 5, 2000, 40, 1, 900]:
        where = int(slices.directory[0, BASE])
        slices.reserve(np.array([0]), np.array([more]))
        base, lo, hi, capacity = slices.directory[0, :CLEAN].tolist()
        clean = 0 if base != where or lo == 0 else clean
        values = rng.integers(0, 50, more)
        program = np.zeros((more + 1 + 200, WIDTH), np.int64)
        for i in range(more):
            slices.free_count -= 1
            slot = slices.free[slices.free_count]
            slices.rows[base + hi + i, SLOT] = slot
            program[i, :5] = FOLD, slot, i, i + 1, 1
        held += values.tolist()
        hi += more
        slices.directory[0, HI] = hi
        program[more, :7] = REPAIR, base, capacity, max(clean, lo), hi, lo, hi
        clean = hi
        ranges = np.sort(rng.integers(lo, hi + 1, (200, 2)), axis=1)
        for row, (p, q) in enumerate(ranges.tolist()):
            program[more + 1 + row, :6] = ANSWER, row, base, capacity, p, q
        answers = lift.monoid.allocate(200)
        none = np.zeros(more, np.int64)
        lift.run(program, Tuples(none, none, none, none, {"x": values}), slices, answers)
        got = lowered(lift.monoid, answers, 200).to_pylist()
        assert got == [number(held[gone + p - lo : gone + q - lo]) for p, q in ranges.tolist()]
        fewer = len(held) - gone > 1000
        if fewer:
            evicted = int(rng.integers(1, 600))
            slices.evict(np.full(len(slices.directory), lo + evicted) * (np.arange(len(slices.directory)) == 0))
            gone += evicted
