"""Sums that leave 64 bits: every engine against the oracle's integers, from slices and events, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any
from unittest.mock import patch

import numpy as np
import oracle
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.operator.rows import OTHERS, SCHEMA, Asked, Twins, operator_rows, table
from tests.operator.streams import TYPES, Step, queries, streams
from tests.operator.test_properties import keys, lateness, run, thoroughly
from windlass import FineGrained, Operator, Query, Session, Sliding, Tumbling, agg
from windlass.errors import CorruptSnapshot, Overflow
from windlass.operator.slicer import Slicer
from windlass.slicing import forest

OTHERS["fits"] = (agg.sum("x", on_overflow="null"), oracle.Asked(oracle.sum_or_null, ("x",)))
OTHERS["wraps"] = (agg.sum("x", on_overflow="wrap"), oracle.Asked(oracle.wrapped_sum, ("x",)))

BIG = {9: 2**63 - 1, 8: 2**62, 7: 2**62 - 1, -9: -(2**63), -8: -(2**62), 6: 2**61, -7: -(2**61)}
TOP = 2**63 - 1


def grown(steps: list[Step], first: int) -> list[Step]:
    """The same steps with huge values from step `first` on, when there are partials of one field already."""
    for step in steps[first:]:
        for batch in step.batches:
            for row in batch:
                row["x"] = BIG.get(row["x"], row["x"])
    return steps


def summed(asked: list[Asked]) -> list[Asked]:
    return [Asked(a.name, a.window, ("fits", "wraps", "count"), a.where, a.emit_empty) for a in asked]


@pytest.mark.parametrize("type_", TYPES)
@thoroughly(10)
@given(st.data(), keys, lateness, streams(interruptions=True), st.integers(0, 3))
def test_every_type_of_window(
    type_: str, data: Any, key: tuple[str, ...], lateness: int, steps: list[Step], first: int
) -> None:
    asked = summed(data.draw(queries((type_,), most=2)))
    run(Twins(asked, key=key, allowed_lateness=lateness), grown(steps, first), False)


@thoroughly(30)
@given(queries(), keys, streams(in_order=True, interruptions=True), st.integers(0, 3))
def test_in_order(asked: list[Asked], key: tuple[str, ...], steps: list[Step], first: int) -> None:
    run(Twins(summed(asked), key=key, in_order=True), grown(steps, first), False)


@pytest.mark.parametrize("store", ["lazy", "eager", "fiba"])
@thoroughly(20)
@given(queries(("time", "session")), keys, lateness, streams(interruptions=True), st.integers(0, 3))
def test_every_store(
    store: str, asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], first: int
) -> None:
    with patch.object(forest, "FEW", 2):
        run(Twins(summed(asked), key=key, allowed_lateness=lateness, store=store), grown(steps, first), False)


@pytest.mark.parametrize("technique", ["panes", "flatfat", "blocks"])
@thoroughly(10)
@given(queries(("time",)), keys, streams(interruptions=True), st.integers(0, 3))
def test_every_technique(
    technique: str, asked: list[Asked], key: tuple[str, ...], steps: list[Step], first: int
) -> None:
    run(Twins(summed(asked), key=key, technique=technique), grown(steps, first), False)


@thoroughly(20)
@given(queries(("time", "session")), queries(("time",), most=2), keys, streams(), st.integers(0, 3))
def test_queries_come_and_go(
    asked: list[Asked], more: list[Asked], key: tuple[str, ...], steps: list[Step], first: int
) -> None:
    twins = Twins(summed(asked), key=key)
    for i, step in enumerate(grown(steps, first)):
        twins.process(*step.batches[:1])
        if i < len(more):
            (query,) = summed(more[i : i + 1])
            twins.add(Asked(f"more {i}", query.window, query.aggregates, query.where, query.emit_empty))
        twins.process(*step.batches[1:])
        twins.advance(step.watermark)
    twins.finish()


@thoroughly(20)
@given(queries(("time",)), st.sampled_from([("k",), ("k", "j")]), streams(), st.integers(0, 3))
def test_slices_from_elsewhere(asked: list[Asked], key: tuple[str, ...], steps: list[Step], first: int) -> None:
    asked = [Asked(a.name, a.window, ("fits", "wraps", "count"), a.where) for a in asked]
    whole, other = Twins(asked, key=key), Twins(asked, key=key)
    made = [query.for_operator() for query in asked]
    other.operator.bind(SCHEMA)
    try:
        slicer = Slicer(made, SCHEMA, time="ts", key=list(key))
    except windlass.errors.InvalidArgument:  # windows that need the events
        return
    for step in grown(steps, first):
        for batch in step.batches:
            whole.operator.process(table(batch))
            slicer.process(table(batch))
            other.operator.process_slices(slicer.take())
    want = operator_rows(whole.operator.finish(), asked, key)
    assert sorted(map(repr, operator_rows(other.operator.finish(), asked, key))) == sorted(map(repr, want))


@pytest.mark.parametrize("keyed", [False, True])
@thoroughly(20)
@given(
    xs=st.lists(st.sampled_from(sorted(BIG.values())) | st.integers(-9, 9), min_size=1, max_size=20),
    window=st.integers(1, 4),
    cut=st.integers(0, 20),
    small=st.integers(0, 5),
)
def test_a_window_for_every_event(keyed: bool, xs: list[int], window: int, cut: int, small: int) -> None:
    values = [1] * small + xs
    made = {"s": agg.sum("x", on_overflow="null")}
    fine = FineGrained(made, time="ts", key="k" if keyed else (), window=window)
    found: list[Any] = []
    for part in (slice(0, small), slice(small, small + cut), slice(small + cut, None)):
        batch = {
            "ts": np.arange(len(values))[part],
            "x": np.array(values, np.int64)[part],
            "k": ["a"] * len(values[part]),
        }
        found += fine.process(batch)["s"].to_pylist() if len(batch["ts"]) else []
        again = FineGrained(made, time="ts", key="k" if keyed else (), window=window)
        fine = again.restore(fine.snapshot())
    assert found == [oracle.sum_or_null(w) for w in oracle.sliding(values, window)]


# --------------------------------------------------------------------------- by hand


def big(**options: Any) -> Operator:
    op = Operator(Query("total", Tumbling(10), agg.sum("x")), time="ts", key="k", **options)
    op.process({"ts": [1, 2, 3, 11], "k": ["b", "b", "a", "b"], "x": [2**62, 2**62, 5, 7]})
    return op


def test_what_does_not_fit_is_refused_with_query_key_window_and_remedy() -> None:
    message = (
        r"^query 'total', key k='b', window \[0, 10\), sum\(x\): the sum is 9223372036854775808, "
        r"which int64 cannot hold. "
        r"Ask for null in its place, sum\(…, on_overflow='null'\), or cast the column to a wider decimal or to float64$"
    )
    with pytest.raises(Overflow, match=message) as raised:
        big().finish()
    assert isinstance(raised.value, OverflowError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(Overflow, match=message):
        big().advance(10)


def test_times_and_measures_are_shown_as_they_are() -> None:
    times = np.array(["2024-05-01T00:00:01", "2024-05-01T00:00:02"], "M8[us]")
    with pytest.raises(Overflow, match=r"query 'q', window \[2024-05-01 00:00:00, 2024-05-01 00:01:00\), sum\(x\)"):
        windlass.aggregate({"ts": times, "x": [TOP, 1]}, Query("q", Tumbling("1m"), agg.sum("x")), time="ts")
    with pytest.raises(Overflow, match=r"query 'q', window \[0, 2\) on 'count', sum\(x\)"):
        windlass.aggregate(
            {"ts": [1, 2], "x": [TOP, 1]}, Query("q", Tumbling(2, measure="count"), agg.sum("x")), time="ts"
        )


def test_decimals_of_too_many_digits_are_refused_in_the_same_way() -> None:
    nines = pa.array([10**38 - 1, 1, 4], pa.decimal128(38, 0))
    batch = pa.table({"ts": [1, 2, 11], "x": nines})
    with pytest.raises(Overflow, match=r"query 'q', window \[0, 10\), sum\(x\): the answer is 10+, which decimal128"):
        windlass.aggregate(batch, Query("q", Tumbling(10), agg.sum("x")), time="ts")
    query = Query("q", Tumbling(10), agg.sum("x", on_overflow="null").alias("s"))
    assert windlass.aggregate(batch, query, time="ts")["q"]["s"].to_pylist() == [None, 4]


def test_a_sum_that_fits_is_right_where_those_on_the_way_do_not() -> None:
    batch = {"ts": np.arange(6), "x": np.array([TOP, TOP, -TOP, -TOP, 3, 4])}
    found = windlass.aggregate(batch, Query("q", Tumbling(6), agg.sum("x").alias("s")), time="ts")
    assert found["q"]["s"].to_pylist() == [7]


def test_copies_and_snapshots_in_between() -> None:
    asked = [Query("w", Sliding(4, 2), agg.sum("x").alias("s")), Query("n", Session(2), agg.sum("x").alias("s"))]
    op = Operator(asked, time="ts", allowed_lateness=10)
    op.process({"ts": [0, 1, 2], "x": [1, 2, 3]})
    op.advance(2)
    for change in (
        copy.deepcopy,
        lambda o: pickle.loads(pickle.dumps(o)),
        lambda o: Operator(asked, time="ts", allowed_lateness=10).restore(o.snapshot()),
    ):
        op = change(op)
        op.process({"ts": [4, 5], "x": [TOP, -TOP]})
        op = change(op)
    assert op.finish()["n"]["s"].to_pylist() == [6]


def test_a_snapshot_of_another_format_is_refused() -> None:
    data = bytearray(big().snapshot())
    data[17] -= 1
    with pytest.raises(CorruptSnapshot):
        big().restore(bytes(data))
