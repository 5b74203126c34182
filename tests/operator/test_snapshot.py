"""Snapshots of an operator: going on from one is as if nothing had happened, and nothing but a whole one is read.

Round trips run two operators side by side: one is never interrupted, the other is thrown away again and again and goes
on in a new one from its snapshot. Rows, expired events, counters and the snapshots themselves stay the same.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import os
import pickle
import pkgutil
import random
import re
import struct
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windlass
from windlass import Query, agg
from windlass.errors import CorruptSnapshot, InvalidArgument, WrongType
from windlass.formats.container import open_container, seal_container
from windlass.formats.operator import OPERATOR
from windlass.stateful import Stateful
from windlass.windows import (
    Band,
    Cumulate,
    DataDriven,
    Deterministic,
    Landmark,
    LastN,
    NonDeterministic,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)

# --------------------------------------------------------------------------- streams and queries


def batch(rng: random.Random, now: int, rows: int, in_order: bool = False) -> pa.Table:
    ts = [now + rng.randrange(-12, 12) for _ in range(rows)]
    if in_order:
        ts = sorted(now + rng.randrange(5) for _ in range(rows))
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "user": [rng.choice(["ann", "bob", None, "a longer name"]) for _ in ts],
            "place": pa.array([rng.randrange(2) for _ in ts], pa.int8()),
            "x": pa.array([rng.choice([None, rng.randrange(-9, 9)]) for _ in ts], pa.int64()),
            "y": pa.array([rng.randrange(5) for _ in ts], pa.int64()),
            "f": [rng.random() for _ in ts],
            "word": [rng.choice(["ä", "", None, "word", "another"]) for _ in ts],
            "price": pa.array([rng.choice([None, Decimal(rng.randrange(999)) / 100]) for _ in ts], pa.decimal128(9, 2)),
            "list": pa.array([[rng.randrange(9)] * rng.randrange(3) for _ in ts], pa.list_(pa.int64())),
            "flag": [rng.random() < 0.3 for _ in ts],
            "km": pa.array([t * 2 // 3 for t in ts], pa.int64()),
        }
    )


mean = agg.define(
    "mean",
    lift=lambda x: (x, 1),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lower=lambda p: p[0] / p[1],
    commutative=True,
)
longest = agg.define(
    "longest", lift=lambda w: {"w": w}, combine=lambda a, b: a if len(a["w"]) >= len(b["w"]) else b,
    lower=lambda p: p["w"], fields={"best": object}, result="string", compile=False,
)  # fmt: skip

AGGREGATES: dict[str, list[Any]] = {
    "integers": [agg.sum("x"), agg.count(), agg.avg("x"), agg.min("x"), agg.max("x"), agg.min_max("y")],
    "floats": [agg.sum("f"), agg.avg("f"), agg.stddev("f"), agg.max("f"), agg.product("f")],
    "in event order": [agg.first("f"), agg.last("word"), agg.collect_list("word"), agg.m4("f")],
    "objects": [agg.median("x"), agg.count_distinct("word"), agg.top_n("x", 2), agg.sum("price")],
    "nested": [agg.collect_list("list"), agg.last("list"), agg.last("price")],
    "sketches": [agg.approx_count_distinct("word"), agg.approx_quantile("f", 0.5)],
    "user-defined": [mean("x"), longest("word")],
}


def step(state: Any, ts: Any, y: Any) -> Any:
    begins = 1 if y > 1 else 0
    ends = state[0] if y == 0 else 0
    return (state[0] + begins - ends,), begins, ends


def few(state: Any, ts: Any, y: Any) -> Any:
    evict = 1 if state[0] == 3 else 0
    return (state[0] + 1 - evict, state[1] + 0.5), evict, y % 2 == 1


def rule(ts: Any, y: Any) -> Any:
    return (5, 2) if y < 2 else (10, 5)


def is_odd(table: pa.Table) -> Any:
    return np.array(table["y"]) % 2 == 1


FIXED = [Tumbling(7), Sliding(12, 5), Cumulate(3, 9), Band(5, 40), Landmark(-3, 8)]
WINDOWS: dict[str, list[Any]] = {
    "fixed edges": FIXED,
    "sessions": [Session(3), Session(6), Tumbling(7)],
    "counts": [Tumbling(5, measure="count"), Sliding(6, 2, measure="count"), Landmark(0, 4, measure="count")],
    "a column": [Tumbling(9, measure="km"), Sliding(12, 5, measure="km"), Landmark(-3, 4, measure="km")],
    "found in events": [Punctuation("flag"), ThresholdFrame(pc.field("y") > 1, 2), SlideByTuple(9, 2), Snapshot(4)],
    "of functions": [DataDriven(rule, ("y",)), Deterministic(step, ("y",)), Punctuation(is_odd)],
    "split": [LastN(4, 6), NonDeterministic(few, ("y",), (0, 0.0))],
}


def queries(windows: str, aggregates: str, **options: Any) -> list[Query]:
    return [Query(f"q{i}", w, *AGGREGATES[aggregates], **options) for i, w in enumerate(WINDOWS[windows])]


def told(results: Any) -> pa.Table:
    return results.to_arrow()


class Pair:
    """An operator that is never interrupted, and one that goes on from snapshots."""

    def __init__(self, asked: list[Query], **options: Any) -> None:
        self.make = lambda: windlass.Operator(asked, time="ts", **options)
        self.steady, self.restarted = self.make(), self.make()
        self.sizes: list[int] = []

    def restart(self) -> None:
        data = self.restarted.snapshot()
        assert self.restarted.snapshot() == data
        assert self.steady.snapshot() == data
        self.restarted = self.make().restore(data)
        assert self.restarted.snapshot() == data
        self.sizes.append(len(data))

    def check(self, results: Any, others: Any) -> None:
        a, b = told(results), told(others)
        assert a.schema == b.schema
        assert repr(a.to_pylist()) == repr(b.to_pylist())  # NaN is NaN
        assert self.steady.late().to_pylist() == self.restarted.late().to_pylist()
        assert self.steady.counters == self.restarted.counters

    def run(self, seed: int, steps: int = 6, rows: int = 12, in_order: bool = False, partial: bool = True) -> Pair:
        rng, now = random.Random(seed), 0
        self.restart()
        for _ in range(steps):
            for _ in range(rng.randrange(3)):
                table = batch(rng, now, rng.randrange(rows), in_order)
                self.steady.process(table)
                self.restarted.process(table)
                if rng.random() < 0.5:
                    self.restart()
                now += 5 if in_order else 0
            if not in_order or rng.random() < 0.5:
                w = () if in_order else (now - rng.randrange(10),)
                self.check(self.steady.advance(*w), self.restarted.advance(*w))
                self.restart()
            now += rng.choice([0, 4, 8, 30])
        self.check(self.steady.finish(partial), self.restarted.finish(partial))
        self.restart()
        return self


# --------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("aggregates", AGGREGATES)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_all_aggregates(aggregates: str, order: Any) -> None:
    in_order = order == "in-order"
    lateness = {} if in_order else {"allowed_lateness": 9}
    Pair(queries("fixed edges", aggregates)[:3], key="user", order=order, **lateness).run(1, in_order=in_order)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("lateness", [0, 15])
def test_all_windows(windows: str, lateness: int) -> None:
    asked = queries(windows, "integers") + [Query("late", Tumbling(4), agg.last("x"), where=pc.field("y") > 1)]
    for seed in (2, 3):
        Pair(asked, key=["user", "place"], allowed_lateness=lateness).run(seed)


@pytest.mark.parametrize("windows", WINDOWS)
def test_all_windows_in_order(windows: str) -> None:
    Pair(queries(windows, "integers"), key="user", order="in-order").run(4, in_order=True)


@pytest.mark.parametrize("windows", ["fixed edges", "sessions", "counts"])
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_trees_over_slices_are_the_same_to_the_last_bit(windows: str, order: Any) -> None:
    asked = [*queries(windows, "floats"), Query("long", Sliding(60, 1), agg.sum("f"), agg.avg("f"))]
    Pair(asked, store="eager", order=order).run(5, rows=40, in_order=order == "in-order")


def test_sketches_of_fixed_size() -> None:
    asked = Query("q", Tumbling(10), agg.bloom_filter("x", expected=50), agg.count_min("x", epsilon=0.1))
    steady, other = windlass.Operator(asked, time="ts"), windlass.Operator(asked, time="ts")
    for now in (0, 10, 20):
        for op in (steady, other):
            op.process(batch(random.Random(now), now, 20))
        other = windlass.Operator(asked, time="ts").restore(other.snapshot())
        assert told(steady.advance(now + 5)).equals(told(other.advance(now + 5)))


def test_a_sequence_column_and_empty_windows() -> None:
    asked = [Query(f"q{i}", w, agg.count(), emit_empty=True) for i, w in enumerate(FIXED[:4])]
    Pair(asked, key="place", sequence="y", allowed_lateness=8).run(6)


def test_watermarks_that_follow_the_stream() -> None:
    asked = queries("sessions", "integers")
    pair = Pair(asked, key="user", watermarks=windlass.Watermarks(5, 2))
    rng = random.Random(7)
    for now in range(0, 60, 6):
        table = batch(rng, now, 10)
        pair.steady.process(table)
        pair.restarted.process(table)
        pair.restart()
        pair.check(pair.steady.advance(), pair.restarted.advance())
        pair.restart()


@pytest.mark.parametrize("in_order", [True, False])
def test_timestamps_and_durations(in_order: bool) -> None:
    start = np.datetime64("2026-01-01T00:00:00", "us")
    ts = start + np.arange(200) * np.timedelta64(700, "ms")
    table = pa.table({"at": pa.array(ts).cast(pa.timestamp("us", "UTC")), "x": np.arange(200)})
    asked = [Query("a", Sliding("1m", "10s"), agg.sum("x")), Query("b", Session("2s"), agg.max("x"))]
    options = {"order": "in-order"} if in_order else {"allowed_lateness": "1m"}

    def make() -> Any:
        return windlass.Operator(asked, time="at", **options)

    steady, other = make(), make()
    for begin in range(0, 200, 50):
        part = table.slice(begin, 50)
        steady.process(part)
        other.process(part)
        other = make().restore(other.snapshot())
        w = [] if in_order else [part["at"][-10].as_py()]
        assert told(steady.advance(*w)).equals(told(other.advance(*w)))
    assert told(steady.finish()).equals(told(other.finish()))


def test_before_the_first_batch() -> None:
    def make() -> Any:
        return windlass.Operator(queries("fixed edges", "integers")[:3], time="ts", key="user", allowed_lateness=3)

    other = make()
    assert len(other.advance(20)) == 0
    other = make().restore(other.snapshot())
    assert other.watermark == 20
    other.process(batch(random.Random(8), 20, 30))
    steady = make()
    steady.advance(20)
    steady.process(batch(random.Random(8), 20, 30))
    assert steady.late().num_rows > 0
    assert other.late().num_rows == steady.counters["expired"]
    assert told(other.finish()).equals(told(steady.finish()))


def test_after_the_end() -> None:
    op = windlass.Operator(Query("q", Tumbling(5), agg.sum("x")), time="ts")
    op.process(batch(random.Random(9), 0, 5))
    op.finish()
    other = windlass.Operator(Query("q", Tumbling(5), agg.sum("x")), time="ts").restore(op.snapshot())
    with pytest.raises(InvalidArgument, match="finished"):
        other.process(batch(random.Random(9), 0, 5))


def test_late_events_that_were_not_asked_for_are_kept() -> None:
    op = windlass.Operator(Query("q", Tumbling(5), agg.sum("x")), time="ts")
    op.process({"ts": [50], "x": [1], "note": ["in time"]})
    op.advance(40)
    op.process({"ts": [3], "x": [1], "note": ["late"]})
    op.process({"ts": [4], "x": [2], "more": [[1.5]]})
    other = windlass.Operator(op.queries, time="ts").restore(op.snapshot())
    want = op.late()
    got = other.late()
    assert got.equals(want)
    assert got["note"].to_pylist() == ["late", None]
    assert got.num_rows == 2


def test_queries_added_and_removed() -> None:
    made = [*queries("fixed edges", "integers"), Query("s", Session(4), agg.median("x"))]
    added = Query("added", Sliding(9, 3), agg.sum("f"))

    def operator() -> Any:
        op = windlass.Operator(made, time="ts", key="user", allowed_lateness=10)
        op.process(batch(random.Random(10), 0, 40))
        op.advance(5)
        op.add(added)
        op.remove("q1")
        op.remove("s")
        op.process(batch(random.Random(11), 15, 40))
        return op

    steady, op = operator(), operator()
    other = windlass.Operator(op.queries, time="ts", key="user", allowed_lateness=10).restore(op.snapshot())
    assert [q.name for q in other.queries] == [q.name for q in steady.queries]
    assert other.snapshot() == op.snapshot()
    for operator_ in (steady, other):
        operator_.process(batch(random.Random(12), 25, 40))
    assert told(steady.advance(30)).equals(told(other.advance(30)))
    assert told(steady.finish()).equals(told(other.finish()))


def test_a_removed_name_that_was_given_again() -> None:
    op = windlass.Operator(queries("fixed edges", "integers"), time="ts")
    op.process(batch(random.Random(13), 0, 4))
    op.remove("q0")
    op.add(Query("q0", Tumbling(3), agg.count()))
    op.remove("q0")
    op.add(Query("q0", Tumbling(4), agg.count()))
    other = windlass.Operator(op.queries, time="ts").restore(op.snapshot())
    for operator in (op, other):
        operator.process(batch(random.Random(14), 20, 9))
    assert told(other.finish()).equals(told(op.finish()))


# --------------------------------------------------------------------------- what a snapshot is like


def test_only_what_is_alive_is_written() -> None:
    op = windlass.Operator(Query("q", Sliding(10, 5), agg.sum("x"), agg.median("x")), time="ts", key="user")
    sizes = []
    for now in range(0, 4000, 40):
        op.process(batch(random.Random(now), now, 50))
        op.advance(now + 12)
        sizes.append(len(op.snapshot()))
    assert max(sizes[2:]) < 2 * min(sizes[2:])


def test_room_for_keys_to_come_is_not_written() -> None:
    def size(keys: int) -> int:
        op = windlass.Operator(Query("q", Tumbling(10, measure="count"), agg.sum("x")), time="ts", key="k")
        op.process({"ts": np.zeros(keys, np.int64), "k": np.arange(keys), "x": np.arange(keys)})
        op.process({"ts": [1], "k": [keys], "x": [0]})  # doubles the room
        return len(op.snapshot())

    assert size(2048) < 1.05 * size(2047) + 100


SCRIPT = """
import random, sys
sys.path[:0] = {path!r}
from tests.operator.test_snapshot import *
op = windlass.Operator(queries("sessions", "objects"), time="ts", key="user", allowed_lateness=9)
op.process(batch(random.Random(14), 0, 60))
op.advance(3)
op.process(batch(random.Random(15), 4, 60))
sys.stdout.buffer.write(op.snapshot())
"""


@pytest.mark.slow
def test_another_process_writes_the_same_and_reads_it() -> None:
    script = SCRIPT.format(path=[p for p in sys.path if p])
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    op = windlass.Operator(queries("sessions", "objects"), time="ts", key="user", allowed_lateness=9)
    assert op.restore(outputs[0]).counters["events"] == 120
    assert len(op.finish()) > 0


def test_a_snapshot_leaves_the_operator_as_it_is_also_if_it_fails() -> None:
    odd = agg.define(
        "odd", lift=lambda x: {x}.__iter__, combine=lambda a, b: a, lower=lambda p: 1, commutative=True, compile=False
    )
    op = windlass.Operator(Query("q", Tumbling(10), odd("x")), time="ts")
    op.process({"ts": [1, 2], "x": [1, 2]})
    with pytest.raises(WrongType, match="a snapshot cannot write"):
        op.snapshot()
    assert len(op.finish()) == 1


# --------------------------------------------------------------------------- what is not read


@pytest.fixture(scope="module")
def filled() -> Any:
    op = windlass.Operator(queries("found in events", "objects"), time="ts", key="user", allowed_lateness=9)
    op.process(batch(random.Random(16), 0, 60))
    op.advance(3)
    op.process(batch(random.Random(17), 4, 20))
    return op


def refused(op: Any, data: Any, message: str = "") -> None:
    """The operator takes no notice of the snapshot."""
    before = op.snapshot()
    with pytest.raises(CorruptSnapshot, match=message):
        op.restore(data)
    assert op.snapshot() == before


def test_truncation_and_flipped_bits(filled: Any) -> None:
    data, rng = filled.snapshot(), random.Random(18)
    lengths = [*range(0, 60, 7), *(rng.randrange(len(data)) for _ in range(20)), len(data) - 1]
    places = [*range(0, 40, 3), *(rng.randrange(len(data)) for _ in range(40)), len(data) - 1]
    for length in lengths:
        with pytest.raises(CorruptSnapshot):
            filled.restore(data[:length])
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        with pytest.raises(CorruptSnapshot):
            filled.restore(flipped)
    with pytest.raises(CorruptSnapshot):
        filled.restore(data + b"\0")
    assert filled.snapshot() == data


def sealed(content: Any, parts: Any, version: int = OPERATOR.version) -> bytes:
    return seal_container("operator", version, content, parts)


def opened(data: bytes) -> tuple[Any, list[memoryview]]:
    container = open_container(data)
    return container.content, container.parts


def test_what_is_no_snapshot_of_an_operator(filled: Any) -> None:
    from windlass.stores import TwoStacks

    with pytest.raises(WrongType, match="bytes"):
        filled.restore("text")
    store = TwoStacks(agg.sum())
    store.insert(1)
    refused(filled, store.snapshot(), "a record of 'store', expected 'operator'")
    with pytest.raises(CorruptSnapshot, match="a record of 'operator', expected 'store'"):
        TwoStacks(agg.sum()).restore(filled.snapshot())
    content, parts = opened(filled.snapshot())
    newer = OPERATOR.version + 1
    refused(filled, sealed(content, parts, newer), f"version {newer}, which Windlass .* wrote; this is Windlass")
    refused(filled, sealed(content, parts, 3), "version 3, .* does not read it")
    refused(filled, sealed(content, [*parts, b""]), "1 parts too many")
    refused(filled, sealed(content, parts[:-1]), "part that is not there")


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(node, dict | list):
        return [path]
    items = node.items() if isinstance(node, dict) else enumerate(node)
    return [found for key, item in items for found in places(item, (*path, key))]


def test_contents_that_were_tampered_with(filled: Any) -> None:
    """With a digest that matches: an error of ours, or a state that could be."""
    data, rng = filled.snapshot(), random.Random(19)
    content, parts = opened(data)
    other = copy.copy(filled)
    found = [path for path in places(content) if path[0] != "asked"]
    for path in rng.sample(found, min(150, len(found))):
        altered = copy.deepcopy(content)
        node = altered
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = rng.choice([None, -1, 7, "text", [], {"array": 10**6}, {"what": 0}, True, 2**70, [2**40]])
        try:
            other.restore(sealed(altered, parts))
        except CorruptSnapshot:
            continue
    assert filled.snapshot() == data


def test_unknown_fields_and_missing_ones(filled: Any) -> None:
    content, parts = opened(filled.snapshot())
    altered = copy.deepcopy(content)
    altered["stream"]["colour"] = 3
    refused(filled, sealed(altered, parts), "stream has an unknown field 'colour'")
    altered = copy.deepcopy(content)
    del altered["branches"][0]["found"]
    refused(filled, sealed(altered, parts), "branches.0 lacks its field 'found'")
    refused(filled, sealed({}, []), "lacks its field")  # not an empty operator
    altered = copy.deepcopy(content)
    altered["branches"][0]["engine"][0] = "sliced"
    refused(filled, sealed(altered, parts), "expected one of in-order, reordered")


def test_objects_that_are_nested_too_deeply(filled: Any) -> None:
    content, parts = opened(filled.snapshot())
    deep: Any = 1
    for _ in range(300):
        deep = {"list": [deep]}
    altered = copy.deepcopy(content)
    altered["asked"]["options"]["watermarks"] = {"delay": deep, "every": None}
    refused(filled, sealed(altered, parts), "nested more than")
    text = (
        b'{"record":"operator","version":5,"written_by":"","parts":[],"content":' + b"[" * 10**6 + b"]" * 10**6 + b"}"
    )
    before = b"WINDLASS" + struct.pack("<II", 2, len(text)) + text
    refused(filled, before + hashlib.blake2b(before, digest_size=16).digest(), "RecursionError")


def test_arrays_that_would_take_more_than_there_is(filled: Any) -> None:
    """An axis that repeats itself, a shape of many numbers: refused before any memory is taken for it."""
    content, parts = opened(filled.snapshot())
    for shape in ([[1 << 40], 0, 1], [[1 << 27], 0, 1], [1 << 40], [[-1], 0, 1], [[5], 0, 9], [[5], 3, 1]):
        altered = copy.deepcopy(content)
        altered["stream"]["passed"] = shape
        at = 4  # after types, and types, ends and bytes of keys
        forged = sealed(altered, [*parts[:at], bytes(8), *parts[at + 1 :]])
        refused(filled, forged, "stream.passed (has 8 bytes|leaves out|has the imp|is abridged in an imp)")


def test_slices_that_cannot_be(filled: Any) -> None:
    op = windlass.Operator(queries("fixed edges", "integers"), time="ts", key="user", allowed_lateness=9)
    op.process(batch(random.Random(16), 0, 60))
    record = OPERATOR.unseal(op.snapshot())

    def forged(name: str, values: Any) -> bytes:
        altered = copy.deepcopy(record)
        slices = altered["branches"][0]["engine"][1]["slices"]
        slices[name] = values(slices[name].copy())
        for group in {id(group): group for _, group in groups(OPERATOR.content)}.values():
            kept[group], group.rules = group.rules, ()
        try:
            return OPERATOR.seal(altered)
        finally:
            for group, rules in kept.items():
                group.rules = rules

    kept: dict[Any, Any] = {}
    for name, values, message in (
        ("place", lambda v: v + 100, "each run has room"),
        ("capacity", lambda v: v + 10**9, "no run has room for more"),
        ("count", lambda v: v + 1, "room for its slices|as many slices"),
        ("first", lambda v: v[::-1].copy(), "ascend"),
    ):
        refused(op, forged(name, values), message)


def groups(kind: Any) -> list[Any]:
    """All groups in a declaration."""
    found = []
    for title, group in kind.groups():
        for field in group.fields:
            found += groups(field.kind)
        found.append((title, group))
    return found


def test_keys_and_windows_that_are_not_there(filled: Any) -> None:
    record = OPERATOR.unseal(filled.snapshot())
    for branch in record["branches"]:
        kind, engine = branch["engine"]
        table = engine["emitted"]["table"]
        if len(table) == 0:
            continue
        for column, value in ((0, 99), (0, -1), (1, 99), (11, 7)):
            before = table[0, column]
            table[0, column] = value
            refused(filled, OPERATOR.seal(record), "that is not there|a state that is none")
            table[0, column] = before
    refused(filled, filled.snapshot()[:-1], "damaged")


OPTIONS: dict[str, Any] = {"time": "ts", "key": "user", "sequence": None, "allowed_lateness": 9, "store": "auto"}
ASKED = [Query("a", Tumbling(5), agg.sum("x")), Query("b", Session(3), agg.max("x"), where=pc.field("y") > 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "y"}, "time='ts', this one has 'y'"),
        ({"key": None}, r"key=\['user'\], this one has None"),
        ({"key": ["user", "place"]}, "key="),
        ({"sequence": "y"}, "sequence=None, this one has 'y'"),
        ({"allowed_lateness": 8}, "allowed_lateness=9, this one has 8"),
        ({"allowed_lateness": 0, "order": "in-order"}, "allowed_lateness|order"),
        ({"store": "eager"}, "store='auto', this one has 'eager'"),
        ({"watermarks": windlass.Watermarks(3)}, "watermarks=None"),
    ],
)
def test_other_options(options: dict[str, Any], message: str) -> None:
    op = windlass.Operator(ASKED, **OPTIONS)
    op.process(batch(random.Random(20), 0, 9))
    refused(windlass.Operator(ASKED, **(OPTIONS | options)), op.snapshot(), message)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([Query("a", Tumbling(6), agg.sum("x")), ASKED[1]], r"'a'.*window was tumbling\(size=5.*tumbling\(size=6"),
        ([Query("a", Tumbling(5), agg.sum("y")), ASKED[1]], r"'a'.*sum\(x\).*sum\(y\)"),
        ([Query("a", Tumbling(5), agg.sum("x").alias("s")), ASKED[1]], "'a'.*alias"),
        ([Query("a", Tumbling(5), agg.sum("x"), emit_empty=True), ASKED[1]], "emit_empty was False"),
        ([ASKED[0], Query("b", Session(3), agg.max("x"))], "'b'.*filter was .*y > 1.*None"),
        ([ASKED[0], Query("b", Session(3), agg.max("x"), where=pc.field("y") > 2)], "filter was .*y > 1.*y > 2"),
    ],
)
def test_other_queries(asked: list[Query], message: str) -> None:
    op = windlass.Operator(ASKED, **OPTIONS)
    op.process(batch(random.Random(21), 0, 9))
    refused(windlass.Operator(asked, **OPTIONS), op.snapshot(), message)


def test_lateness_is_compared_by_what_it_means() -> None:
    op = windlass.Operator(ASKED, **(OPTIONS | {"allowed_lateness": "1m"}))
    windlass.Operator(ASKED, **(OPTIONS | {"allowed_lateness": "60 seconds"})).restore(op.snapshot())


def test_other_functions() -> None:
    def operator(bound: int, factor: int, least: int) -> Any:
        scaled = agg.define("scaled", lift=lambda x: x * factor, combine=lambda a, b: a + b, commutative=True)
        frame = ThresholdFrame(lambda table: np.array(table["y"]) > least)
        marked = Deterministic(lambda state, ts: ((state[0] + 1,), state[0] % bound == 0, 1))
        asked = [Query("a", Tumbling(5), scaled("x")), Query("b", frame, agg.count()), Query("c", marked, agg.count())]
        return windlass.Operator(asked, time="ts")

    op = operator(3, 10, 1)
    op.process(batch(random.Random(22), 0, 9))
    data = op.snapshot()
    assert operator(3, 10, 1).restore(data).snapshot() == data
    refused(operator(4, 10, 1), data, "functions of query 'c'")
    refused(operator(3, 11, 1), data, "functions of query 'a'")
    refused(operator(3, 10, 2), data, "functions of query 'b'")


# --------------------------------------------------------------------------- copies, pickles, early results


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_copies_and_early_results_are_independent(windows: str, order: Any) -> None:
    in_order = order == "in-order"
    op = windlass.Operator(queries(windows, "integers"), time="ts", key="user", order=order)
    op.process(batch(random.Random(23), 0, 30, in_order))
    data = op.snapshot()
    early = op.peek()
    assert len(early) > 0
    assert op.snapshot() == data
    others = [copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))] if windows != "of functions" else []
    others += [copy.copy(op)]
    for other in others:
        assert other.snapshot() == data
        other.process(batch(random.Random(24), 20, 30, in_order))
        other.remove("q0")
        other.finish()
    assert op.snapshot() == data
    assert len(op.queries) == len(WINDOWS[windows])
    assert repr(told(op.peek()).to_pylist()) == repr(told(early).to_pylist())


def reached(value: Any, found: dict[int, Any]) -> dict[int, Any]:
    """All that an object holds, by id; not what never changes."""
    if id(value) in found or not isinstance(value, np.ndarray | list | dict | set | tuple | Stateful):
        return found
    found[id(value)] = value
    if isinstance(value, Stateful):
        value = vars(value)
    for item in value.values() if isinstance(value, dict) else () if isinstance(value, np.ndarray) else value:
        reached(item, found)
    return found


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_copies_share_no_state(windows: str, order: Any) -> None:
    """Neither arrays nor lists, dicts, sets or stateful objects; the keys among them."""
    op = windlass.Operator(queries(windows, "integers"), time="ts", key=["user", "place"], order=order)
    op.process(batch(random.Random(25), 0, 30, order == "in-order"))
    other = copy.copy(op)
    mine, others = reached(op, {}), reached(other, {})
    assert any(type(value).__name__ == "KeyIndex" for value in mine.values())
    shared = [value for id_, value in mine.items() if id_ in others and not isinstance(value, tuple)]
    assert not shared, shared
    arrays = [value for value in mine.values() if isinstance(value, np.ndarray) and value.size]
    for array in (value for value in others.values() if isinstance(value, np.ndarray) and value.size):
        assert not any(np.shares_memory(array, each) for each in arrays)


MADE = {"__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"}  # a dataclass's have no source


def changing_classes() -> set[type]:
    """Classes of the operator's packages whose objects have attributes that are assigned after they were made."""
    found = set()
    for name in ("windlass.operator", "windlass.slicing"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            for cls in vars(importlib.import_module(module.name)).values():
                if not isinstance(cls, type) or cls.__module__ != module.name:
                    continue
                methods = [m for m in vars(cls).values() if inspect.isfunction(m) and m.__name__ not in MADE]
                if any(re.search(r"\bself\.\w+(, self\.\w+)* [-+|]?= ", inspect.getsource(m)) for m in methods):
                    found.add(cls)
    return found


def test_all_that_changes_says_so() -> None:
    """What lives within one call, or is no part of an operator, need not."""
    apart = {"FineGrained", "Undo", "Slicer", "Results", "Parts", "RowLimit"}
    assert {cls.__name__ for cls in changing_classes() if not issubclass(cls, Stateful)} <= apart


def test_pickles_need_functions_that_can_be_imported() -> None:
    op = windlass.Operator(Query("q", Tumbling(5), mean("x")), time="ts")
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(op)
