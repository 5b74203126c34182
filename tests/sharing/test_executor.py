"""Running plans: answers do not depend on the plan, and are those of the definition; operations are those that Ω
says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharing.brute_force import Rows, windows

from windlass import agg
from windlass.errors import InvalidArgument, OutOfOrder, WrongType
from windlass.sharing import ACQ, TECHNIQUES, Plan, Tree, plan

ORDERED = agg.define(  # associative, neither commutative nor invertible nor selective
    "first_and_last", lift=lambda x: (x, x), combine=lambda a, b: (a[0], b[1]), lower=lambda p: p[0] * 1000 + p[1]
)
AGGREGATES: dict[str, tuple[Any, Any]] = {
    "sum": (agg.sum("x"), sum),
    "max": (agg.max("x"), max),
    "first_and_last": (ORDERED("x"), lambda xs: xs[0] * 1000 + xs[-1]),
    "avg": (agg.avg("x"), lambda xs: sum(xs) / len(xs)),
}


def of_trees(trees: list[tuple[list[ACQ], str]], optimizer: str = "weaveshare", fragments: str = "pairs") -> Plan:
    made = tuple(Tree(tuple(acqs), technique, 0.0, 0.0, 0.0) for acqs, technique in trees)
    return Plan(made, optimizer, fragments, 1.0, "operations", 0.0)


def answers(chosen: Plan, ts: list[int], values: Any, cuts: list[int]) -> dict[str, Rows]:
    """By the name of each ACQ; the stream comes in batches that end at `cuts`."""
    started, found = chosen.run(), {q.name: [] for q in chosen.acqs}  # type: ignore[var-annotated]
    bounds = [0, *sorted({c for c in cuts if 0 < c < len(ts)}), len(ts)]
    batches = [started.process(np.array(ts[a:b], np.int64), values[a:b]) for a, b in pairwise(bounds)]
    for batch in [*batches, started.finish()]:
        for q, a in batch.items():
            found[q.name] += zip(a.start.tolist(), a.end.tolist(), a.value.to_pylist(), strict=True)
    return found


acqs = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 14), st.integers(-9, 9)), min_size=1, max_size=5
)  # slide, how much longer the range is, offset


@st.composite
def workloads(draw: Any, kinds: tuple[str, ...]) -> Any:
    kind = draw(st.sampled_from(kinds))
    aggregate, fold = AGGREGATES[kind]
    chosen = [ACQ(s + more, s, aggregate, offset=o, name=str(k)) for k, (s, more, o) in enumerate(draw(acqs))]
    trees: dict[int, list[ACQ]] = {}
    for q in chosen:
        trees.setdefault(draw(st.integers(0, 2)), []).append(q)
    serving = [name for name, info in TECHNIQUES.items() if info.serves(aggregate)]
    made = of_trees(
        [(tree, draw(st.sampled_from(serving))) for tree in trees.values()],
        draw(st.sampled_from(["weaveshare", "triweave"])),
        draw(st.sampled_from(["panes", "pairs", "cutty"])),
    )
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 7, 60]), max_size=40))
    ts = np.cumsum([draw(st.integers(-60, 60)), *gaps]).tolist()
    values = draw(st.lists(st.integers(-50, 50), min_size=len(ts), max_size=len(ts)))
    return made, fold, ts, values, draw(st.lists(st.integers(0, 45), max_size=5))


def check(made: Plan, fold: Any, ts: list[int], values: list[int], cuts: list[int], column: Any) -> None:
    found = answers(made, ts, column, cuts)
    for q in made.acqs:
        assert found[q.name] == windows(q.range, q.slide, q.offset, ts, values, fold), q


@settings(max_examples=150)
@given(workloads(("sum", "max")))
def test_answers_are_those_of_the_definition_whatever_the_plan(workload: Any) -> None:
    made, fold, ts, values, cuts = workload
    check(made, fold, ts, values, cuts, np.array(values, np.int64))


@settings(max_examples=80)
@given(workloads(("first_and_last", "avg")))
def test_any_aggregate_interpreted(workload: Any) -> None:
    made, fold, ts, values, cuts = workload
    counted = {q.aggregate: agg.counted(q.aggregate)[0] for q in made.acqs}
    trees = [
        ([ACQ(q.range, q.slide, counted[q.aggregate], offset=q.offset, name=q.name) for q in tree.acqs], tree.technique)
        for tree in made.trees
    ]
    check(of_trees(trees, made.optimizer, made.fragments), fold, ts, values, cuts, np.array(values, np.int64))


def test_the_slice_before_the_new_ones_has_been_dropped() -> None:
    trees = [([ACQ(1, 1, agg.sum("x"), name=name)], "panes") for name in ("0", "1")]
    ts, values = [0, 0, 0, 3, 4], [1, 2, 3, 4, 5]
    check(of_trees(trees, "triweave", "panes"), sum, ts, values, [4], np.array(values, np.int64))


# A window of the last example of which only the slice it does not end in has events, found when pieces were new.
def test_a_window_that_ends_in_a_slice_without_events_before_its_end() -> None:
    q = [ACQ(6, 4, agg.sum("x"), offset=1, name="0"), ACQ(10, 6, agg.sum("x"), offset=1, name="3")]
    ts, values = [34, 50, 52, 60, 70, 80, 86, 115], [-21, 15, 40, -46, -19, -21, 41, 6]
    check(of_trees([(q, "bint")], fragments="cutty"), sum, ts, values, [], np.array(values))


def test_two_aggregates_and_nulls() -> None:
    total, most = agg.sum("x"), agg.max("y")
    chosen = [ACQ(4, 2, total, name="a"), ACQ(6, 3, total, name="b"), ACQ(4, 2, most, name="c")]
    started = plan(chosen, rate=1).run()
    batch = pa.table({"x": pa.array([1, None, 3, None, 5, 6]), "y": pa.array([3.0, 1.0, None, 2.0, 0.5, 9.0])})
    first = started.process(np.arange(6), batch)
    rest = started.finish()
    got = {q.name: first[q].table().to_pylist() + rest[q].table().to_pylist() for q in chosen}
    assert [r["value"] for r in got["a"]] == [1, 4, 14, 11]
    assert [(r["start"], r["value"]) for r in got["b"]] == [(-3, 4), (0, 15), (3, 11)]
    assert [r["value"] for r in got["c"]] == [3.0, 3.0, 9.0, 9.0]


@pytest.mark.parametrize("technique", ["slickdeque_inv", "flatfit"])
def test_floats_do_not_drift_and_nan_leaves_with_its_event(technique: str) -> None:
    q = ACQ(4, 2, agg.sum("x"))
    values = np.array([1e300, 0.1, -1e300, 0.2, np.nan, 0.3, np.inf, 0.4, *([0.1] * 40)])
    started = of_trees([([q], technique)]).run()
    got = started.process(np.arange(len(values)), values)[q].value.to_pylist()
    for end, value in zip(range(2, 2 * len(got) + 1, 2), got, strict=True):
        inside = values[max(0, end - 4) : end].tolist()
        assert value == pytest.approx(sum(inside), nan_ok=True, abs=1e-9) or 1e300 in np.abs(inside)
    assert got[-1] == pytest.approx(0.4, abs=1e-12)


def test_times_of_windows_over_years_cost_nothing() -> None:
    chosen = [ACQ("1s", "100ms", name="a"), ACQ("1h", "1m", name="b")]
    started = plan(chosen, rate=100).run()
    year = 365 * 86_400_000_000
    found = started.process([0, year, 2 * year], np.array([1, 2, 3]))
    last = started.finish()
    ends = {q: np.concatenate([found[q].end, last[q].end]) for q in chosen}
    assert [len(ends[q]) for q in chosen] == [30, 180]


def test_equal_acqs_of_different_names_are_answered_once() -> None:
    total, calls = agg.counted(agg.sum("x"))
    twice = [ACQ(4, 2, total, name="a"), ACQ(4, 2, total, name="b")]
    found = of_trees([(twice, "slickdeque_inv")])
    started = found.run()
    got = started.process(np.arange(40), np.arange(40))
    assert got[twice[0]].value.equals(got[twice[1]].value)
    spent = calls.total
    alone = of_trees([(twice[:1], "slickdeque_inv")]).run()
    alone.process(np.arange(40), np.arange(40))
    assert calls.total - spent == spent


def test_bad_input_is_refused_before_anything_changes() -> None:
    started = plan([ACQ(4, 2, agg.sum("x"))]).run()
    started.process([0, 1, 2], np.array([1, 2, 3]))
    with pytest.raises(OutOfOrder, match="row 1"):
        started.process([5, 4], np.array([1, 2]))
    with pytest.raises(OutOfOrder, match="row 0"):
        started.process([1], np.array([1]))
    with pytest.raises(InvalidArgument, match="2 times, but 3 values"):
        started.process([5, 6], np.array([1, 2, 3]))
    with pytest.raises(WrongType, match="integers or datetimes"):
        started.process([0.5], np.array([1]))
    with pytest.raises(InvalidArgument, match="null"):
        started.process([7], pa.array([None], pa.int64()))
    assert [a.value.to_pylist() for a in started.finish().values()] == [[6, 3]]
    with pytest.raises(InvalidArgument, match="finished"):
        started.process([9], np.array([1]))
    with pytest.raises(InvalidArgument, match="finished already"):
        started.finish()


# --------------------------------------------------------------------------- operations


def operations(chosen: list[tuple[int, int]], technique: str, n: int = 600) -> float:
    """⊕, ⊖ and comparisons an edge, without what folding events into slices takes."""
    base, calls = agg.counted(agg.max("x") if technique == "slickdeque_non_inv" else agg.sum("x"))
    started = of_trees([([ACQ(r, s, base, name=str(k)) for k, (r, s) in enumerate(chosen)], technique)]).run()
    values = np.random.default_rng(7).integers(0, 1 << 40, 2 * n)
    started.process(np.arange(n), values[:n])
    calls.reset()
    before = started.slices
    started.process(np.arange(n, 2 * n), values[n:])
    slices = started.slices - before
    return (calls.total - (n - slices)) / slices


@pytest.mark.parametrize("partials", [1, 2, 5, 16, 50])
def test_operations_of_one_acq(partials: int) -> None:
    # What Ω says of a single ACQ is exact, up to where in a cycle one begins and ends to count.
    p, expected = partials, {}
    expected["panes"] = p - 1
    expected["flatfit"] = 3 * (p - 1) / (p + 1)
    expected["two_stacks"] = 3 - 4 / (p + 1)
    expected["slickdeque_inv"] = 2 if p > 1 else 0
    for technique, wanted in expected.items():
        assert operations([(3 * p, 3)], technique) == pytest.approx(wanted, abs=0.15), technique


def test_operations_shared_by_many_acqs() -> None:
    from windlass.sharing.counters import counter_for
    from windlass.sharing.fragments import edges_of
    from windlass.sharing.load import Load
    from windlass.sharing.omega import COUNTED

    sets = [
        [(12, 2), (30, 3), (60, 6), (24, 12)],
        [(20, 1), (40, 2), (41, 4), (90, 9)],
        [(8 * s, s) for s in (1, 2, 3, 4, 6, 8, 12)],
        [(7, 3), (50, 5), (33, 4)],
    ]
    off: dict[str, list[float]] = {}
    for chosen in sets:
        mine = [ACQ(r, s) for r, s in chosen]
        load = Load.of(mine, counter_for(edges_of(mine))[0], edges_of(mine))
        for technique in TECHNIQUES:
            if technique != "slickdeque_non_inv":  # its look-ups are no calls of the aggregate
                found = operations(chosen, technique)
                off.setdefault(technique, []).append(abs(COUNTED[technique](load) / found - 1))
    assert np.mean(list(off.values())) < 0.15
    assert all(np.mean(errors) < 0.25 for errors in off.values()), off


def test_comparisons_of_slickdeque_are_fewer_than_two_an_edge() -> None:
    for p in (4, 16, 50):
        assert operations([(p, 1), (2 * p, 2)], "slickdeque_non_inv") == pytest.approx(2 - 2 / (2 * p), abs=0.1)


def test_triweave_folds_events_once() -> None:
    total, calls = agg.counted(agg.sum("x"))
    chosen = [[ACQ(10, 10, total, name="a")], [ACQ(15, 15, total, name="b")]]
    n, spent = 300, {}
    for optimizer in ("weaveshare", "triweave"):
        calls.reset()
        started = of_trees([(tree, "panes") for tree in chosen], optimizer).run()
        started.process(np.arange(n + 1), np.ones(n + 1, np.int64))
        spent[optimizer] = calls.total
    # WeaveShare: every event twice. TriWeave: once, and the four slices of every 30 again in both trees.
    assert spent["weaveshare"] == 2 * n - n / 10 - n / 15
    assert spent["triweave"] == (n - n * 4 / 30) + (2 * n * 4 / 30 - n / 10 - n / 15)


@pytest.mark.parametrize("optimizer", ["weaveshare", "triweave"])
@pytest.mark.parametrize("technique", ["panes", "slickdeque_inv", "flatfat", "two_stacks", "daba"])
def test_sums_that_leave_64_bits(optimizer: str, technique: str) -> None:
    top, total = 2**63 - 1, agg.sum("x", on_overflow="null")
    xs = [1, 2, 3, top, top, -top, 5, -top - 1, 2**62, 2**62, -1, 7]
    asked = [ACQ(3, 1, total, name="a"), ACQ(4, 2, total, name="b"), ACQ(6, 6, total, name="c")]
    chosen = of_trees([(asked[:2], technique), (asked[2:], technique)], optimizer)
    found = answers(chosen, list(range(12)), pa.table({"x": xs}), [3, 7])
    for q in asked:
        assert found[q.name] == windows(q.range, q.slide, q.offset, list(range(12)), xs, oracle.sum_or_null), q


def test_plain_integers_are_no_lengths_over_timestamps() -> None:
    times = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:01"], "datetime64[us]")
    with pytest.raises(WrongType, match=r"the range of ACQ\(60, 1\) is the plain integer 60.*write '60s'"):
        plan([ACQ(60, 1)]).run().process(times, np.array([1, 2]))
    run = plan([acq := ACQ("2s", "1s")]).run()
    run.process(times, np.array([1, 2]))
    assert run.finish()[acq].value.to_pylist() == [3, 2]
