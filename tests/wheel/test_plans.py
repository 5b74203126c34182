"""The optimiser: costs as the paper counts them, counted ⊕, and no plan that would have been cheaper."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass import Level, Wheel, agg
from windlass.errors import Unanswerable

DAY = "2023-10-01"


def filled(days: int = 1, aggregate: Any = None, **options: Any) -> Wheel:
    """One event of value 1 a second."""
    w = Wheel(aggregate or agg.sum(), DAY, dtype="int64", **options)
    start = np.datetime64(DAY, "us")
    seconds = days * 86_400
    w.ingest(np.ones(seconds, np.int64), start + np.arange(seconds) * np.timedelta64(1, "s"), every=1000)
    w.advance_to(start + np.timedelta64(seconds, "s"))
    return w


def test_the_papers_examples() -> None:
    w = filled(hints=False, invertible=False)
    plan = w.explain(f"{DAY} 10:15:23", f"{DAY} 13:20:50")
    assert (plan.plan, plan.cost) == ("combined", 152)  # Figure 3
    assert sorted((p.slots, p.level) for p in plan.pieces) == [
        (2, "hours"),
        (20, "minutes"),
        (37, "seconds"),
        (44, "minutes"),
        (50, "seconds"),
    ]
    assert plan.alternatives["single wheel"] == 11_126
    plan = w.explain(f"{DAY} 12:00", f"{DAY} 18:30")
    assert (plan.plan, plan.cost, plan.alternatives["single wheel"]) == ("combined", 35, 389)
    assert w.query(f"{DAY} 12:00", f"{DAY} 18:30") == 6.5 * 3600
    assert "combined, 35 ⊕" in str(plan)


def test_hints_prefer_one_level_up_to_the_threshold() -> None:
    fast, thrifty = filled(simd_threshold=15_000), filled(simd_threshold=10, invertible=False)
    start, end = f"{DAY} 10:15:23", f"{DAY} 13:20:50"
    assert fast.explain(start, end).plan == "single wheel"
    assert thrifty.explain(start, end).plan == "combined"
    assert fast.query(start, end) == thrifty.query(start, end) == 11_127


def test_each_kind_of_plan_is_taken_where_it_is_cheapest() -> None:
    w = filled(hints=False)
    assert w.explain(DAY, "2023-10-02").plan == "single wheel"  # one slot: the day
    assert w.explain(DAY, f"{DAY} 23:59:59").plan == "inverse landmark"
    assert w.explain(f"{DAY} 10:00", f"{DAY} 11:00").cost == 0
    prefix = filled(hints=False, prefix=True)
    plan = prefix.explain(f"{DAY} 10:15:23", f"{DAY} 13:20:50")
    assert (plan.plan, plan.cost) == ("prefix", 1)
    w.insert(1, "2023-10-02 00:00:00")
    w.advance_to("2023-10-02 10:15:23")
    assert (w.explain(DAY, "2023-10-03").plan, w.landmark()) == ("landmark", 86_401)


@given(st.data())
@settings(suppress_health_check=list(HealthCheck))
def test_the_cost_is_the_number_of_operations_and_no_cover_is_cheaper(data: Any) -> None:
    draw = data.draw
    sizes = [1]
    for _ in range(draw(st.integers(0, 3))):
        sizes.append(sizes[-1] * draw(st.integers(2, 6)))
    aggregate, calls = agg.counted(agg.sum())
    levels = [Level(s, keep=draw(st.sampled_from(["keep", "drop", 3, 20]))) for s in sizes]
    start, end = draw(st.integers(-30, 30)), draw(st.integers(31, 150))
    w = Wheel(aggregate, start, tick=1, levels=levels, hints=False, dtype="int64", invertible=draw(st.booleans()))
    w.insert_many(np.ones(end - start, np.int64), np.arange(start, end))
    w.advance_to(end)
    for _ in range(8):
        a = draw(st.integers(start - 3, end))
        b = draw(st.integers(a, end + 5))
        explained = w.explain(a, b)
        cheapest = fewest(sizes, levels, start, end, max(a, start), min(b, end))
        calls.reset()
        try:
            answer = w.query(a, b)
        except Unanswerable:
            assert explained.cost is None
            assert cheapest is None
            continue
        assert answer == (max(min(b, end) - max(a, start), 0) or None)
        assert calls.total == explained.cost
        if cheapest is not None:
            assert explained.cost <= max(cheapest - 1, 0)


def fewest(sizes: list[int], levels: list[Level], start: int, now: int, a: int, b: int) -> int | None:
    """The least number of slots that make up [a, b), by dynamic programming over all retained slots."""
    if b <= a:
        return 0
    least: dict[int, int | None] = {a: 0}
    for tick in range(a, b):
        so_far = least.get(tick)
        if so_far is None:
            continue
        for size, level in zip(sizes, levels, strict=True):
            rotation = {s: t // s for s, t in pairwise(sizes)}.get(size, 10)
            keep = {"keep": 10**9, "drop": rotation}.get(level.keep, level.keep)  # type: ignore[call-overload]
            number = tick // size
            begins = number * size == tick or tick == start  # the first slot may have begun before the start
            if begins and number >= now // size - keep and (number + 1) * size <= min(b, now // size * size):
                reached = least.get((number + 1) * size)
                least[(number + 1) * size] = so_far + 1 if reached is None else min(reached, so_far + 1)
    return least.get(b)


def test_a_range_that_is_no_longer_retained_is_an_error_and_never_a_number() -> None:
    w = filled(retention="drop")
    with pytest.raises(Unanswerable, match=r"no longer retained.*seconds since 2023-10-01 23:59:00"):
        w.query(f"{DAY} 10:15:23", f"{DAY} 13:20:50")
    assert w.query(f"{DAY} 10:00", f"{DAY} 13:00") == 3 * 3600
    assert w.query(f"{DAY} 23:59:10", f"{DAY} 23:59:30") == 20
    assert w.landmark() == 86_400
    second = np.array([f"{DAY}T10:00:00", f"{DAY}T10:00:01"], "M8[us]")
    with pytest.raises(Unanswerable):
        w.query_many(second[:1], second[1:])


def test_an_aggregate_may_bring_its_own_bulk_combine() -> None:
    def scan(columns: Any, first: Any, last: Any) -> Any:
        total = 0
        for i in range(first, last):
            total += columns[0][i]
        return (total,)

    w = filled(aggregate=agg.sum().with_scan(scan), simd_threshold=10**6)
    assert w._bound.scan is scan
    assert w.query(f"{DAY} 10:15:23", f"{DAY} 13:20:50") == 11_127


@pytest.mark.parametrize(
    ("kind", "type_", "instruction"),
    [
        ("sum", "int64", "vpaddq"),
        ("max", "int64", "vpmaxsq|vpcmpgtq"),
        ("sum", "float64", "vaddpd"),
        ("avg", "float64", "vaddpd"),
    ],
)
def test_llvm_vectorises_the_scan(kind: str, type_: str, instruction: str) -> None:
    """The evidence: vector instructions in the machine code of the scan."""
    import platform
    import re

    from numba import njit

    from windlass.aggregates.values import value_type
    from windlass.kernels import compilation
    from windlass.wheel.queries import scanning

    if platform.machine() != "x86_64" or "avx2" not in _flags():
        pytest.skip("looks for AVX2 instructions")
    m = getattr(agg, kind)().monoid([value_type(type_)], nullable=False)
    scan = scanning(m)

    def whole(columns: Any, first: Any, last: Any) -> Any:
        return scan(columns, first, last)[0]

    compilation._teach_numba()
    kernel = njit(**compilation._OPTIONS, _nrt=False)(compilation._copy(whole, "whole"))
    columns = tuple(np.arange(1000).astype(field.dtype) for field in m.fields)
    assert kernel(columns, 0, 1000) == (999 if kind == "max" else 499_500)
    (code,) = kernel.inspect_asm().values()
    assert re.search(rf"({instruction})\s.*%[yz]mm", code)


@pytest.mark.parametrize("name", ["sum", "avg"])
def test_sums_of_floats_in_any_order(name: str) -> None:
    """Within rounding of the exact sum, the same bits every time, and NaN and infinities are what they are."""
    rng = np.random.default_rng(8)
    values = rng.normal(size=5000) * 10.0 ** rng.integers(-8, 8, 5000)
    w = Wheel(getattr(agg, name)(), 0, tick=1, levels=[1], dtype="float64", simd_threshold=10**6)
    w.insert_many(values, np.arange(5000))
    w.insert_many([math.inf, math.nan], [6000, 6100])
    w.advance_to(7000)
    for a, b in [(0, 1), (1, 3), (5, 20), (3, 40), (17, 1000), (1, 4999)]:
        exact = math.fsum(values[a:b]) / (b - a if name == "avg" else 1)
        size = math.fsum(abs(values[a:b])) / (b - a if name == "avg" else 1)
        assert abs(w.query(a, b) - exact) <= 1e-13 * size
        assert len({w.query(a, b).hex() for _ in range(5)}) == 1
        assert w.query(a, b) == w.query_many([a], [b])[0].as_py()
    assert w.query(10, 6001) == math.inf and math.isnan(w.query(10, 6200))


def _flags() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line for line in lines if line.startswith("flags")), "")
