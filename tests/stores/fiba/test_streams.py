"""Streams through the trees, against brute force: every kind of disorder, chunks of every size, parts of the window."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stores.fiba.brute import ANSWERS, streamed

from windlass import aggregates as agg
from windlass.aggregates.partials import partial
from windlass.stores import ClassicBTree, FiBA
from windlass.stores.fiba import streaming


def disorder(random: Random, kind: str, n: int, t: int) -> list[int]:
    times = []
    for _ in range(n):
        t += random.choice([0, 1, 1, 2, 1, 1, 40] if kind != "in order" else [1])
        late = {"in order": 0, "gaps": 0, "near": random.randrange(60)}.get(kind)
        times.append(t - (late if late is not None else random.randrange(300) * (random.random() < 0.2)))
    return times


@pytest.mark.parametrize("store", [FiBA, ClassicBTree])
@pytest.mark.parametrize("reach", [{"window": w} for w in (1, 2, 5, 20, 100)] + [{"span": s} for s in (1, 5, 30, 200)])
@pytest.mark.parametrize("aggregate", [agg.sum(), agg.collect_list(), agg.last()], ids=lambda a: a.name)
def test_streams(monkeypatch: Any, store: Any, reach: dict[str, int], aggregate: Any) -> None:
    random = Random(repr((store.__name__, reach, aggregate.name)))
    for chunk in (1, 3, 16, 1024):
        monkeypatch.setattr(streaming, "CHUNK", chunk)
        tree = store(aggregate, min_arity=random.choice([2, 3, 4, 8]))
        held: dict[int, list[int]] = {}
        t = 0
        for kind in ("in order", "near", "deep", "gaps", "deep"):
            times = disorder(random, kind, random.randrange(1, 90), t)
            t = max(times)
            values = [random.randrange(50) for _ in times]
            expected = streamed(held, zip(times, values, strict=True), reach.get("window", 0), reach.get("span", 0))
            found = tree.stream(np.array(times), np.array(values), **reach)
            assert [_plain(a) for a in found] == [ANSWERS[aggregate.name](x) for x in expected]
            tree.check_invariants()
            assert list(tree) == sorted(held)


@pytest.mark.parametrize("reach", [{"window": 1}, {"window": 2}, {"window": 3}, {"window": 60}, {"span": 30}])
@pytest.mark.parametrize("aggregate", [agg.sum(), agg.collect_list()], ids=lambda a: a.name)
def test_parts_of_the_window(monkeypatch: Any, reach: dict[str, int], aggregate: Any) -> None:
    """Window sharing: the last 1, 5 and 30 units of time, from the same tree."""
    random = Random(7)
    for chunk in (1, 16, 1024):
        monkeypatch.setattr(streaming, "CHUNK", chunk)
        tree = FiBA(aggregate, min_arity=3)
        held: dict[int, list[int]] = {}
        t = 0
        for kind in ("in order", "near", "gaps", "deep"):
            times = disorder(random, kind, 70, t)
            t = max(times)
            values = [random.randrange(50) for _ in times]
            expected: list[list[Any]] = [[], [], [], []]
            for event in zip(times, values, strict=True):
                streamed(held, [event], reach.get("window", 0), reach.get("span", 0))
                for found, last in zip(expected, (None, 1, 5, 30), strict=True):
                    part = [v for k in sorted(held) if last is None or k > max(held) - last for v in held[k]]
                    found.append(ANSWERS[aggregate.name](part))
            answers = tree.stream(np.array(times), np.array(values), **reach, last=[1, 5, 30])
            assert [[_plain(a) for a in found] for found in answers] == expected
            tree.check_invariants()


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("reach", [{"window": 1}, {"window": 20}, {"span": 30}])
def test_streams_of_what_is_lifted_beforehand(monkeypatch: Any, reach: dict[str, int], interpreted: bool) -> None:
    """Geometric means: nulls, zeros and negative values too, chunks that are deep, and parts of the window."""
    random = Random(repr(reach))
    for chunk in (1, 16, 1024):
        monkeypatch.setattr(streaming, "CHUNK", chunk)
        tree = FiBA(_interpreted(agg.geomean()) if interpreted else agg.geomean(), min_arity=3, nullable=True)
        held: dict[int, list[Any]] = {}
        t = 0
        for kind in ("in order", "near", "deep"):
            times = disorder(random, kind, 70, t)
            t = max(times)
            values = [random.choice([None, 0.0, -1.0, 2.5, 1e300, 5e-324, 7.0, 3.0, 3.0, 11.0]) for _ in times]
            expected: list[list[Any]] = [[], []]
            for event in zip(times, values, strict=True):
                streamed(held, [event], reach.get("window", 0), reach.get("span", 0))
                for found, last in zip(expected, (None, 5), strict=True):
                    found.append(_geomean([v for k in held if last is None or k > max(held) - last for v in held[k]]))
            answers = tree.stream(np.array(times), pa.array(values, pa.float64()), **reach, last=[5])
            for found, wanted in zip(answers, expected, strict=True):
                assert found.to_pylist() == [a if a is None else pytest.approx(a, nan_ok=True) for a in wanted]
            tree.check_invariants()


def test_partials_of_what_is_lifted_beforehand_are_not_lowered() -> None:
    times, values = np.arange(2000), 1.0 + np.arange(2000) % 7
    found = FiBA(partial(agg.geomean())).stream(times, pa.array(values), window=3).to_pylist()
    assert [p["count"] for p in found] == [1, 2] + [3] * 1998
    assert found[-1]["log_sum"] == pytest.approx(np.log(values[-3:]).sum())


def test_long_streams_of_every_distance() -> None:
    """Against running sums: a million events would take brute force too long."""
    random = np.random.default_rng(3)
    n, window = 20_000, 3000
    for most in (1, 16, 700, 2900):
        times = np.arange(n) * 3 - 3 * random.integers(0, most, n) + random.integers(0, 3, n)
        _, first = np.unique(times, return_index=True)
        times = times[np.sort(first)]
        values = random.integers(-100, 100, len(times))
        tree = FiBA(agg.sum())
        found = tree.stream(times, values, window=window)
        tree.check_invariants()
        held: list[int] = []
        at, total = {}, 0
        import bisect

        for k, (t, v) in enumerate(zip(times.tolist(), values.tolist(), strict=True)):
            if len(held) == window:
                total -= at[held.pop(0)]
            bisect.insort(held, t)
            at[t] = v
            total += v
            assert found[k] == total, (most, k)


@pytest.mark.parametrize("window", [300, 1024, 2000, 5000])
@pytest.mark.parametrize("depth", [100, 700, 6000])
def test_few_late_events_in_long_runs(window: int, depth: int) -> None:
    """Runs between late events, chunks that are deep at one length and not at another, times that come twice; memory
    is used again all the while."""
    random = np.random.default_rng(window + depth)
    tree, plain = FiBA(agg.sum(), min_arity=4), FiBA(agg.sum(), min_arity=4)
    for begin in range(0, 9000, 3000):
        times = begin + np.arange(3000) - np.where(random.random(3000) < 0.02, random.integers(0, depth, 3000), 0)
        values = random.integers(-100, 100, len(times))
        found = tree.stream(times, values, window=window)
        tree.check_invariants()
        for k in range(len(times)):
            assert found[k] == plain.stream(times[k : k + 1], values[k : k + 1], window=window)[0], (begin, k)
        assert list(tree) == list(plain)


def test_runs_of_a_batch_between_times_of_the_tree() -> None:
    random = np.random.default_rng(5)
    for arity in (2, 4, 16):
        tree, held = FiBA(agg.sum(), min_arity=arity), dict[int, int]()
        for size in (1, 3, 40, 500, 40, 3000, 500, 3):
            begin = int(random.integers(0, 20_000))
            spread = np.sort(random.choice(20_000, size, replace=False))
            for times in (spread, begin + np.arange(size), np.repeat(begin + 3 * np.arange(size), 2)):
                values = random.integers(-100, 100, len(times))
                tree.bulk_insert(times, values)
                for t, v in zip(times.tolist(), values.tolist(), strict=True):
                    held[t] = held.get(t, 0) + v
                tree.check_invariants()
                assert list(tree) == sorted(held) and tree.query() == sum(held.values())
            tree.bulk_evict(begin // 2)
            held = {t: v for t, v in held.items() if t >= begin // 2}


def test_arrow_in_arrow_out_and_timestamps() -> None:
    times = pa.array([0, 60, 59, 400], pa.timestamp("s"))
    found = FiBA(agg.sum()).stream(times, pa.array([1, None, 3, 4]), span="5m")
    assert isinstance(found, pa.Array) and found.to_pylist() == [1, 1, 4, 4]
    assert FiBA(agg.max()).stream([], np.zeros(0, np.int64), window=3).tolist() == []


def _interpreted(aggregate: Any) -> Any:
    return replace(aggregate, build=lambda *types: replace(aggregate.build(*types), interpreted="a test"))


def _geomean(values: list[Any]) -> float | None:
    logs = [-np.inf if v == 0 else np.log(v) if v > 0 else np.nan for v in values if v is not None]
    return float(np.exp(np.mean(logs))) if logs else None


def _plain(answer: Any) -> Any:
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    return answer.item() if isinstance(answer, np.generic) else answer
