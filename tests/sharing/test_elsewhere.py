"""Ω of FiBA and of queries to a wheel, against ⊕ that are counted."""

from __future__ import annotations

import numpy as np
import pytest

from windlass import Wheel, agg
from windlass.aggregates.counting import counted
from windlass.errors import InvalidArgument
from windlass.sharing.elsewhere import fiba_omega, wheel_cover, wheel_omega
from windlass.sharing.load import Load
from windlass.stores.fiba.store import FiBA


def load(ranges: list[float], slides: list[float], rate: float = 1.0) -> Load:
    return Load(np.array(sorted(ranges)), np.array(slides), None, rate)


@pytest.mark.parametrize("arity", [2, 4, 8])
def test_fiba_in_order(arity: int) -> None:
    off = []
    for n, lengths in [(600, [50]), (600, [16, 200]), (2000, [8, 64, 512, 1500])]:
        aggregate, calls = counted(agg.max("x"))
        store = FiBA(aggregate, min_arity=arity, dtype=np.int64)
        store.bulk_insert(np.arange(n), np.arange(n) % 97)
        rounds, before = 300, calls.combine
        for t in range(n, n + rounds):
            store.evict(t - n)
            store.insert(t, t % 97)
            for length in lengths:
                store.query(t - length + 1)
        estimated = fiba_omega(load([float(x) for x in lengths], [1.0] * len(lengths)), arity=arity)
        off.append(abs(estimated / ((calls.combine - before) / rounds) - 1))
    assert np.mean(off) < 0.25, off


@pytest.mark.parametrize("arity", [2, 4, 8])
def test_fiba_takes_longer_for_late_partials(arity: int) -> None:
    """Each comes at a random place among the youngest 512."""
    rng = np.random.default_rng(arity)
    aggregate, calls = counted(agg.max("x"))
    store = FiBA(aggregate, min_arity=arity, dtype=np.int64)
    n, rounds, distance = 4096, 300, 512
    store.bulk_insert(np.arange(n) * 1000, np.arange(n) % 97)
    before = calls.combine
    for k in range(rounds):
        store.insert(int((n - rng.integers(1, distance)) * 1000 + 1 + k), k)
    inserts = (calls.combine - before) / rounds
    only = load([1.0], [1.0])
    late = fiba_omega(only, arity=arity, distance=distance / 2) - (3 * arity - 1.5)
    assert abs(late / inserts - 1) < 0.4, (late, inserts)


@pytest.mark.parametrize("ticks", [1, 30, 59, 90, 3599, 3700, 50_000, 200_000])
def test_queries_to_a_wheel(ticks: int) -> None:
    """The optimiser's plans for ranges at all kinds of places, without ⊖ and hints: the mean is the formula."""
    w = Wheel(agg.max("x"), 0, tick=1, levels=[1, 60, 3600, 86_400], hints=False, dtype=np.int64)
    w.insert_many(np.ones(400_000, np.int64), np.arange(400_000))
    w.advance_to(400_000)
    places = np.random.default_rng(ticks).integers(1, 400_000 - ticks, 400)
    costs = [w.explain(int(a), int(a) + ticks).cost for a in places]
    assert wheel_cover(ticks, [1, 60, 3600, 86_400]) == pytest.approx(np.mean(costs), rel=0.08, abs=1.5)


def test_a_wheel_for_a_tree() -> None:
    """One window of a day every hour, over ticks of a second: each tick is rolled up, with a look-up an hour."""
    tree = load([86_400.0], [3600.0])
    got = wheel_omega(tree, [1, 60, 3600, 86_400])
    assert got == pytest.approx(1 + 1 / 60 + 1 / 3600 + wheel_cover(86_400, [1, 60, 3600, 86_400]) / 3600)


def test_what_cannot_be() -> None:
    with pytest.raises(InvalidArgument, match="levels"):
        wheel_cover(5, [1, 60, 90])
    with pytest.raises(InvalidArgument, match="tick"):
        wheel_cover(0, [1, 60])
    with pytest.raises(InvalidArgument, match="arity"):
        fiba_omega(load([1.0], [1.0]), arity=1)
