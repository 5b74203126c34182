"""After an exception an operator is as before the call, or refuses every further one. Every line is in tests/faults."""

from __future__ import annotations

import copy
import pickle
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windlass.operator.key_tables as key_tables
import windlass.operator.results as results
import windlass.slicing.slices as slices
from windlass import Operator, Query, Session, Sliding, Tumbling, Watermarks, agg
from windlass.errors import Busy, Interrupted, InvalidArgument, Overflow, WindlassError
from windlass.operator.fine_grained import FineGrained
from windlass.operator.slicer import Slicer
from windlass.sharing import ACQ, Plan, Tree


def batch(i: int, keys: int) -> dict[str, Any]:
    return {"ts": np.arange(3000) + i * 3000, "k": np.arange(3000) % keys, "x": np.ones(3000, int)}


def once(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, error: BaseException) -> None:
    """Have a function raise when it is called for the first time."""
    function = getattr(place, name)

    def fail(*arguments: Any) -> Any:
        monkeypatch.setattr(place, name, function)
        raise error

    monkeypatch.setattr(place, name, fail)


def rows(found: Any, query: str) -> list[Any]:
    return sorted(found[query].to_pylist(), key=repr)


# --------------------------------------------------------------------------- broken, and mended


def test_memory_that_runs_out_while_keys_get_room(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Operator(Query("q", Sliding(100, 10), agg.sum("x")), time="ts", key="k")
    op.process(batch(0, 10))
    op.advance(100)
    saved, other = op.snapshot(), copy.copy(op)
    once(monkeypatch, slices, "lines", MemoryError("no room"))
    with pytest.raises(MemoryError):
        op.process(batch(1, 3000))
    calls = [
        lambda: op.process(batch(1, 3000)),
        lambda: op.advance(200),
        lambda: op.finish(),
        lambda: op.late(),
        lambda: op.peek(),
        lambda: op.snapshot(),
        lambda: op.explain(),
        lambda: op.open_windows(),
        lambda: op.add(Query("r", Tumbling(10), agg.count())),
        lambda: op.remove("q"),
        lambda: copy.copy(op),
        lambda: copy.deepcopy(op),
        lambda: pickle.dumps(op),
    ]
    for call in calls:
        with pytest.raises(Interrupted, match=r"MemoryError: no room.*restore it from a snapshot, or make another"):
            call()
    assert (op.counters["keys"], op.watermark, repr(op)[:10]) == (3000, 100, "<Operator ")
    op.restore(saved)
    for one in (op, other):
        one.process(batch(1, 3000))
    assert rows(op.finish(), "q") == rows(other.finish(), "q")


def test_memory_that_runs_out_while_a_table_of_keys_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Operator(Query("q", Tumbling(100), agg.sum("x")), time="ts", key="k")
    op.process(batch(0, 10))
    once(monkeypatch, key_tables, "_longer", MemoryError())
    with pytest.raises(MemoryError):
        op.process(batch(1, 3000))
    with pytest.raises(Interrupted, match="MemoryError"):
        op.process(batch(1, 3000))


def test_memory_that_runs_out_is_no_fault_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Operator(Query("q", Tumbling(100), agg.sum("x")), time="ts", key="k")
    op.process(batch(0, 10))
    saved = op.snapshot()
    once(monkeypatch, slices, "lines", MemoryError())
    with pytest.raises(MemoryError):
        op.restore(saved)
    before = rows(op.peek(), "q")  # it is as it was
    assert rows(op.restore(saved).peek(), "q") == before


def test_an_operator_that_cannot_be_restored_stays_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Operator(Query("q", Tumbling(100), agg.sum("x")), time="ts", key="k")
    once(monkeypatch, slices, "lines", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        op.process(batch(0, 10))
    with pytest.raises(WindlassError, match="not written by Windlass"):
        op.restore(b"something else")
    with pytest.raises(Interrupted, match="KeyboardInterrupt"):
        op.process(batch(0, 10))


# --------------------------------------------------------------------------- as before


def decimals(*values: str) -> dict[str, Any]:
    numbers = [Decimal(value) for value in values]
    return {"ts": range(len(values)), "d": pa.array(numbers, pa.decimal128(38, 0)), "x": [1] * len(values)}


@pytest.mark.parametrize("end", ["advance", "finish"])
def test_rows_stay_due_if_a_sum_does_not_fit(end: str) -> None:
    op = Operator([Query("big", Tumbling(10), agg.sum("d")), Query("n", Tumbling(10), agg.count())], time="ts")
    op.process(decimals("9" * 38, "9" * 38))

    def results() -> Any:
        return op.advance(10) if end == "advance" else op.finish()

    for _ in range(2):
        with pytest.raises(WindlassError):
            results()
    assert op.counters["rows"] == 0
    resumed = Operator(
        [Query("big", Tumbling(10), agg.sum("d")), Query("n", Tumbling(10), agg.count())], time="ts"
    ).restore(op.snapshot())
    for one in (op, resumed):
        one.remove("big")
    found = [one.advance(10) if end == "advance" else one.finish() for one in (op, resumed)]
    assert [part["n"].column("count()").to_pylist() for part in found] == [[2], [2]]


class Fails:
    """A user's function that raises while `is_on`."""

    def __init__(self, error: Exception) -> None:
        self.error, self.is_on = error, False

    def __call__(self, value: Any) -> Any:
        if self.is_on:
            raise self.error
        return value


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), InvalidArgument("of another object"), MemoryError()])
@pytest.mark.parametrize("part", ["lift", "combine", "lower", "where"])
def test_a_function_that_raises_leaves_the_operator_as_before(part: str, error: Exception) -> None:
    fails = Fails(error)
    maybe = {name: fails if name == part else (lambda value: value) for name in ("lift", "combine", "lower", "where")}
    total = agg.define(
        "total",
        lift=lambda x: [maybe["lift"](x)],
        combine=lambda a, b: maybe["combine"](a + b),
        lower=lambda p: maybe["lower"](sum(p)),
        identity=lambda: [],
        compile=False,
    )
    where = (lambda table: maybe["where"](pa.array([True] * len(table)))) if part == "where" else None
    queries = [Query("mine", Tumbling(10), total("x")), Query("n", Tumbling(5), agg.count(), where=where)]
    op = Operator(queries, time="ts", allowed_lateness=20)
    first, more = {"ts": [1, 2, 12], "x": [1, 2, 3]}, {"ts": [3, 4, 13], "x": [10, 20, 30]}
    op.process(first)
    op.advance(10)
    twin = copy.copy(op)

    def state(one: Operator) -> Any:
        return one.counters, one.watermark, repr(one), rows(copy.copy(one).finish(), "mine"), one.explain()

    before = state(op)
    for call in (lambda one: one.process(more), lambda one: one.advance(20)):
        fails.is_on = True
        try:
            found = [call(op)]
        except type(error):
            fails.is_on = False
            assert state(op) == before
            found = [call(op)]
        fails.is_on = False
        found.append(call(twin))
        before = state(op)
        if found[0] is not None:
            assert [rows(part, "mine") for part in found[:1]] == [rows(part, "mine") for part in found[1:]]
    assert rows(op.finish(), "n") == rows(twin.finish(), "n")


def test_a_refused_batch_leaves_nothing_behind() -> None:
    op = Operator(Query("km", Tumbling(2, measure="km"), agg.sum("x")), time="ts", key="k")
    with pytest.raises(WindlassError, match="decreases"):
        op.process({"ts": [1, 2], "k": ["a", "a"], "km": [5, 4], "x": [1, 1]})
    assert (op.counters["keys"], op.counters["events"]) == (0, 0)
    op.process({"ts": [1, 2], "k": [7, 7], "km": [1, 4], "x": [1.5, 1.5]})  # the refused one told no types
    assert rows(op.finish(partial=True), "km")[0]["k"] == 7


def test_queries_change_all_or_none() -> None:
    op = Operator(Query("q", Tumbling(10), agg.sum("x")), time="ts", key_ttl=20, plan=[(["q"], "auto")])
    op.process({"ts": [1], "x": [1]})
    plan, explained = op.plan, op.explain()
    too_long = Query("long", Tumbling(100), agg.sum("x"))
    with pytest.raises(InvalidArgument, match="key_ttl"):
        op.add(too_long)
    with pytest.raises(InvalidArgument, match="key_ttl"):
        op.change_queries([Query("r", Tumbling(5), agg.sum("x")), too_long])
    assert (op.plan, op.explain(), [query.name for query in op.queries]) == (plan, explained, ["q"])


def test_late_events_of_batches_that_differ_in_a_column() -> None:
    op = Operator(Query("q", Tumbling(10), agg.count()), time="ts")
    op.process({"ts": [100]})
    op.advance(100)
    texts = [pa.array(["a"]), pa.array(["b"]).dictionary_encode(), pa.array([3]), pa.array([None]), pa.array([[1]])]
    zones = [pa.array([0], pa.timestamp(unit, zone)) for unit, zone in (("us", "UTC"), ("ns", "Europe/Paris"))]
    for text in texts:
        op.process(pa.table({"ts": [1], "text": text}))
    for zone in zones:
        op.process(pa.table({"ts": [2], "at": zone}))
    late = op.late()
    assert late["text"].to_pylist() == ["a", "b", "3", None, "[1]", None, None]
    assert late["at"].type == pa.timestamp("ns", "UTC")
    assert late["at"].null_count == 5
    assert late["ts"].to_pylist() == [1] * 5 + [2] * 2
    assert op.late().num_rows == 0


def test_late_events_are_kept_until_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    import windlass.operator.operator as operator

    op = Operator(Query("q", Tumbling(10), agg.count()), time="ts")
    op.process({"ts": [100]})
    op.advance(100)
    op.process({"ts": [1]})
    once(monkeypatch, operator, "concatenated", MemoryError())
    with pytest.raises(MemoryError):
        op.late()
    assert op.late()["ts"].to_pylist() == [1]


def test_rows_that_memory_did_not_suffice_for(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Operator([Query("q", Tumbling(10), agg.count()), Query("s", Session(3), agg.count())], time="ts")
    op.process({"ts": [1, 20]})
    once(monkeypatch, results.Results, "__init__", MemoryError())
    with pytest.raises(MemoryError):
        op.advance(30)
    with pytest.raises(Interrupted):
        op.advance(30)


# --------------------------------------------------------------------------- calls that meet


def in_threads(call: Any, threads: int = 4) -> tuple[int, int]:
    """Make a call from many threads until each thread was let in a few times.

    Return how often a call was let in, and how often one was refused.
    """
    let_in, refused, lock = 0, 0, threading.Lock()
    begin = threading.Barrier(threads)
    failures: list[BaseException] = []

    def work() -> None:
        nonlocal let_in, refused
        begin.wait()
        mine = 0
        while mine < 5 and not failures:
            try:
                call()
            except Busy:
                with lock:
                    refused += 1
                continue
            except BaseException as error:
                failures.append(error)
                return
            mine += 1
            with lock:
                let_in += 1

    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert failures == []
    return let_in, refused


def test_four_threads_in_process() -> None:
    op = Operator(Query("q", Tumbling(1000), agg.sum("x")), time="ts", key="k")
    let_in, _ = in_threads(lambda: op.process(batch(0, 50)))
    assert op.counters["events"] == 3000 * let_in
    assert sum(op.finish()["q"].column("sum(x)").to_pylist()) == 3000 * let_in


def test_four_threads_in_a_slicer() -> None:
    table = pa.table(batch(0, 50))
    slicer = Slicer(Query("q", Tumbling(1000), agg.sum("x")), table.schema, time="ts", key="k")
    let_in, _ = in_threads(lambda: slicer.process(table))
    assert slicer.events == 3000 * let_in


def test_four_threads_in_a_window_per_event() -> None:
    fine = FineGrained({"n": agg.count("x")}, time="ts", key="k", span=10**6)
    let_in, _ = in_threads(lambda: fine.process(batch(0, 3)))
    assert max(fine.process(batch(0, 3))["n"].to_pylist()) == 1000 * (let_in + 1)


def test_a_function_that_calls_its_own_operator() -> None:
    caught: list[Exception] = []

    def combine(a: Any, b: Any) -> Any:
        for call in (lambda: op.process({"ts": [1], "x": [1]}), op.finish, op.snapshot, lambda: copy.copy(op)):
            with pytest.raises(Busy, match="one call at a time") as error:
                call()
            caught.append(error.value)
        assert "Operator" in repr(op)
        return a + b

    total = agg.define("total", lift=lambda x: [x], combine=combine, lower=sum, identity=lambda: [], compile=False)
    op = Operator(Query("mine", Tumbling(10), total("x")), time="ts")
    op.process({"ts": [1, 2, 12], "x": [1, 2, 3]})
    assert sorted(op.finish()["mine"].column(-1).to_pylist()) == [3, 3]
    assert caught


def test_what_may_be_read_from_any_thread() -> None:
    op = Operator(Query("q", Tumbling(10), agg.count()), time="ts", watermarks=Watermarks(0, 1))
    op.process({"ts": [1, 2]})
    seen: list[Any] = []

    def read() -> None:
        seen.append((op.counters["events"], op.watermark, repr(op)))

    def where(table: Any) -> Any:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        return pa.array([True] * len(table))

    op.add(Query("r", Tumbling(10), agg.count(), where=where))
    op.process({"ts": [3]})
    assert [events for events, _, _ in seen] == [2]


# --------------------------------------------------------------------------- the others


def test_a_batch_that_a_slicer_refuses_is_not_there() -> None:
    good = pa.table({"ts": [1, 2], "x": [1, 2]})
    slicer = Slicer(Query("q", Tumbling(10), agg.sum("x")), good.schema, time="ts")
    slicer.process(good)
    with pytest.raises(WindlassError, match="null"):
        slicer.process(pa.table({"ts": pa.array([1, None]), "x": [1, 2]}))
    with pytest.raises(WindlassError, match="schema"):
        slicer.process(pa.table({"ts": [1], "y": [1]}))
    assert slicer.events == 2
    assert slicer.take().column("2").to_pylist() == [2]


@pytest.mark.parametrize("part", ["written", "cells"])
def test_events_stay_pending_until_their_slices_are_taken(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import windlass.operator.slicer as slicing

    table = pa.table({"ts": [1, 2, 12], "x": [1, 2, 3]})
    slicer = Slicer(Query("q", Tumbling(10), agg.sum("x")), table.schema, time="ts")
    slicer.process(table)
    once(monkeypatch, slicing, part, MemoryError("no room"))
    with pytest.raises(MemoryError, match="no room"):
        slicer.take()
    assert slicer.events == 3
    assert slicer.take().column("3").to_pylist() == [3, 3]
    assert slicer.take().num_rows == 0


@pytest.mark.parametrize("key", [(), "k"])
def test_a_function_that_raises_leaves_windows_per_event_as_before(key: Any) -> None:
    fails = Fails(ZeroDivisionError())
    total = agg.define(
        "total", lift=lambda x: [x], combine=lambda a, b: fails(a + b), lower=sum, identity=lambda: [], compile=False
    )
    fine = FineGrained({"total": total("x"), "n": agg.count("x")}, time="ts", key=key, window=3)
    events = {"ts": [1, 2, 3], "k": ["a", "a", "b"], "x": [1, 2, 3]}
    fine.process(events)
    fails.is_on = True
    with pytest.raises(ZeroDivisionError):
        fine.process(events)
    fails.is_on = False
    expected = FineGrained({"total": total("x"), "n": agg.count("x")}, time="ts", key=key, window=3)
    expected.process(events)
    assert fine.process(events).to_pylist() == expected.process(events).to_pylist()


def test_windows_per_event_that_were_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    import windlass.operator.fine_grained as fine_grained

    fine = FineGrained({"n": agg.count("x")}, time="ts", key="k", span=10)
    fine.process(batch(0, 3))
    saved = fine.snapshot()
    once(monkeypatch, fine_grained, "lowered", MemoryError())
    with pytest.raises(MemoryError):
        fine.process(batch(1, 3))
    for call in (lambda: fine.process(batch(1, 3)), fine.snapshot, lambda: copy.copy(fine), lambda: pickle.dumps(fine)):
        with pytest.raises(Interrupted, match="MemoryError"):
            call()
    assert fine.restore(saved).process(batch(1, 3)).num_rows == 3000


@pytest.mark.parametrize("key", [(), "k"])
def test_a_sum_that_does_not_fit_leaves_windows_per_event_as_before(key: Any) -> None:
    fine = FineGrained({"total": agg.sum("x")}, time="ts", key=key, window=2)
    fine.process({"ts": [1], "k": ["a"], "x": [2**62]})
    for _ in range(2):
        with pytest.raises(Overflow):
            fine.process({"ts": [2, 3], "k": ["a", "b"], "x": [2**62, 1]})
        assert "1 times" in repr(fine)
    assert fine.process({"ts": [3], "k": ["a"], "x": [5]})["total"].to_pylist() == [2**62 + 5]


def test_a_sum_that_does_not_fit_leaves_a_plan_as_before() -> None:
    acq = ACQ(10, 5, agg.sum("x"), name="q")
    run = Plan((Tree((acq,), "slickdeque_inv", 0.0, 0.0, 0.0),), "weaveshare", "pairs", 1.0, "operations", 0.0).run()
    run.process(np.array([1, 2]), np.array([2**62, 1]))
    for _ in range(2):
        with pytest.raises(Overflow):
            run.process(np.array([3, 20]), np.array([2**62, 1]))
    assert (run.events, run.watermark) == (2, 2)
    found = run.process(np.array([3, 20]), np.array([5, 1]))
    assert found[acq].value.to_pylist() == [2**62 + 6, 2**62 + 6]
