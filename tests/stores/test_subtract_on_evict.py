"""Subtract-on-evict on its drawn example, and over floats and integers that would break a plain running sum."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import oracle
import pytest

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import FlatFIT, Recompute, SlickDequeInv, SubtractOnEvict, TwoStacks
from windlass.stores.store import Store


def test_the_card() -> None:
    #   ring   . 3 1 4 .       total = 8        evict: total ⊖ 3, insert 2: total ⊕ 2
    aggregate, calls = counted(agg.sum())
    store = SubtractOnEvict(aggregate, dtype="int64", nullable=False)
    store.insert_many([3, 1, 4])
    assert store._running[0].tolist() == [8]
    calls.reset()
    store.evict()
    assert (store._running[0].tolist(), calls.combine, calls.inverse) == ([5], 0, 1)
    store.insert(2)
    assert (store._running[0].tolist(), calls.combine, calls.inverse) == ([7], 1, 1)
    assert store.query() == 7
    assert calls.total == 2


def test_what_leaves_is_the_oldest_part() -> None:
    #   a ⊕ b ⊕ c  ⊖ a  =  b ⊕ c : the inverse of a list or a text takes off a prefix
    store = SubtractOnEvict(agg.concat(separator="-"))
    assert store.slide(["a", "bb", "", "c"], 2).tolist() == ["a", "a-bb", "bb-", "-c"]


def test_the_last_event_takes_all_rounding_with_it() -> None:
    aggregate, calls = counted(agg.sum())
    store = SubtractOnEvict(aggregate, dtype="float64", nullable=False)
    for value in (1e300, 0.1, math.nan, 0.3):
        store.insert(value)
        store.evict()
    assert calls.total == 0
    store.insert(0.7)
    assert store.query() == 0.7


# --------------------------------------------------------------------------- a million slides over floats

SLIDES, WINDOW = 1_000_000, 200
SPECIAL = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1.7e308, 5e-324, 2.0**900, -(2.0**900)]


def mixed() -> np.ndarray[Any, Any]:
    """Magnitudes from 1e-12 to 1e12 of either sign, with a special value every few thousand events."""
    random = np.random.default_rng(5)
    values = random.choice([-1.0, 1.0], SLIDES) * 10.0 ** random.uniform(-12, 12, SLIDES)
    at = np.arange(700, SLIDES, 4099)
    values[at] = np.resize(SPECIAL, len(at))
    values[at[1::3] + 50] = np.resize(SPECIAL[1:], len(at[1::3]))  # two of them in one window
    return values


def checked_rounds() -> list[int]:
    """Some rounds at random, and those around special values: while they are in the window and after they left."""
    around = [700 + 4099 * k + d for k in range(0, 243, 6) for d in (0, 1, 60, WINDOW - 1, WINDOW, WINDOW + 51)]
    rounds = {*range(5), *around, *Random(1).sample(range(SLIDES), 300), SLIDES - 1}
    return sorted(r for r in rounds if r < SLIDES)


@pytest.fixture(scope="module")
def stream() -> np.ndarray[Any, Any]:
    return mixed()


def assert_sums(stream: np.ndarray[Any, Any], answers: np.ndarray[Any, Any], window: int) -> None:
    assert len(answers) == len(stream)
    for i in checked_rounds():
        events = stream[max(0, i + 1 - window) : i + 1].tolist()
        expected, got = oracle.exact_sum(events), float(answers[i])
        if math.isfinite(expected):
            tolerance = 1e-12 * min(oracle.magnitude(events), 1.7e308)
            assert math.isfinite(got) and abs(got - expected) <= tolerance, (i, got, expected)
        else:
            assert oracle.same(got, expected), (i, got, expected)


def test_a_million_slides_stay_equal_to_the_exact_sum(stream: np.ndarray[Any, Any]) -> None:
    assert_sums(stream, SubtractOnEvict(agg.sum()).slide(stream, WINDOW), WINDOW)


def test_a_million_slides_of_many_ranges_stay_equal_to_the_exact_sum(stream: np.ndarray[Any, Any]) -> None:
    windows = [WINDOW, 7, 60]
    answers = SlickDequeInv(agg.sum(), windows=windows).slide(stream, windows=windows)
    for k, window in enumerate(windows):
        assert_sums(stream, answers[:, k], window)


def test_averages_do_not_drift_either(stream: np.ndarray[Any, Any]) -> None:
    answers = SlickDequeInv(agg.avg()).slide(stream, WINDOW)
    for i in checked_rounds()[5::3]:
        events = stream[max(0, i + 1 - WINDOW) : i + 1].tolist()
        expected = oracle.avg(events)
        assert expected is not None
        if math.isfinite(oracle.exact_sum(events)):
            tolerance = 1e-12 * oracle.magnitude(events) / len(events)
            assert abs(float(answers[i]) - expected) <= tolerance, (i, answers[i], expected)


@pytest.mark.parametrize("store", [Recompute, SubtractOnEvict, SlickDequeInv, TwoStacks, FlatFIT])
def test_huge_integers_wrap_as_int64_if_they_are_to(store: type[Store]) -> None:
    top = 2**63 - 1
    values = [top, 1, top, top, -(2**63), 5, -top, 3, top, top, top, -1]
    answers = store(agg.sum(on_overflow="wrap")).slide(np.array(values, np.int64), 3)
    assert answers.tolist() == [oracle.wrapped_sum(window) for window in oracle.sliding(values, 3)]
