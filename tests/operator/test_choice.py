"""The store that answers windows is learned from what comes late, and changes nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass import Operator, Query, Sliding, Tumbling, agg
from windlass.operator.choice import EAGER, FIBA, LAZY, Choice


def test_the_cheapest_takes_over_when_enough_is_at_stake() -> None:
    choice = Choice(EAGER, learns=True)
    assert not choice.note(windows=10, scanned=100, touched=1, behind=100)
    assert choice.note(windows=10, scanned=1_000_000, touched=3, behind=100_000)
    assert choice.store == FIBA
    for _ in range(20):  # nothing is late any more, and of few windows it does not matter
        assert not choice.note(windows=10, scanned=1_000_000, touched=0, behind=0)
    assert any(choice.note(windows=10_000, scanned=10_000_000, touched=0, behind=0) for _ in range(5))
    assert choice.store == EAGER
    for _ in range(100):
        choice.note(windows=1_000, scanned=2_000, touched=1_000, behind=10_000_000)
    assert choice.store == LAZY


SLICES = 5000


def run(store: Any, lateness: int, rounds: int, restart: bool = False) -> tuple[list[Any], list[str]]:
    queries = [Query("each", Tumbling(1), agg.sum("x")), Query("long", Sliding(SLICES, SLICES // 2), agg.sum("x"))]

    def made() -> Operator:
        together = [(("each", "long"), "auto")]  # else the long windows would have slices of their own, and few of them
        return Operator(queries, time="ts", key="k", allowed_lateness=lateness, store=store, plan=together)

    operator, rng, out, told = made(), np.random.default_rng(1), [], []
    for i in range(rounds):
        now = 2 * SLICES + i if i else np.repeat(np.arange(2 * SLICES), 4)
        ts = np.concatenate([np.atleast_1d(now), 2 * SLICES + i - rng.integers(1, SLICES, 4)])
        operator.process({"ts": ts, "k": np.arange(len(ts)) % 4, "x": ts % 11})
        results = operator.advance(2 * SLICES + i)
        out.append([results["each"].to_pylist() if i else [], results["long"].to_pylist()])
        told.append(next(line for line in operator.explain().splitlines() if line.startswith("  store")).split()[1])
        if restart and i % 20 == 19:
            operator = made().restore(operator.snapshot())
    return out, told


def test_deep_late_events_bring_trees_and_change_no_answer() -> None:
    lazy, _ = run("lazy", SLICES, 70)
    learned, told = run("auto", SLICES, 70)
    assert learned == lazy
    assert told[0] != "fiba:" and told[-1] == "fiba:"
    again, after = run("auto", SLICES, 70, restart=True)
    assert again == lazy
    assert after == told


def test_without_late_events_there_are_no_trees() -> None:
    _, told = run("auto", 0, 30)
    assert "fiba:" not in told


def test_in_order_and_narrow_windows_learn_nothing() -> None:
    for window, options in ((Sliding(20, 1), {}), (Sliding(1000, 1), {"order": "in-order"})):
        operator = Operator(Query("q", window, agg.sum("x")), time="ts", key="k", **options)  # type: ignore[arg-type]
        operator.process({"ts": [1], "k": [1], "x": [1]})
        assert not operator._branches[0].engine.choice.learns  # type: ignore[union-attr]
