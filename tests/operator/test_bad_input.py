"""Bad input: a clear exception of the package's own, and nothing has changed.

That nothing has changed is proven by a twin that never saw what was refused: from then on both give the same rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from windlass import DataDriven, Deterministic, Landmark, Operator, Punctuation, Query, Session, Sliding, Tumbling, agg
from windlass.errors import InvalidArgument, OutOfOrder, UnknownColumn, WindlassError, WrongType

LATEST = 2**62 - 1


def good(low: int, high: int, **columns: Any) -> dict[str, Any]:
    ts = np.arange(low, high)
    made = {"ts": ts, "x": ts % 7, "f": ts / 4, "km": ts // 2, "flag": ts % 3 == 0, "k": ts % 2, "seq": ts, "s": ts * 1}
    return made | columns


def without(batch: dict[str, Any], name: str) -> dict[str, Any]:
    return {n: values for n, values in batch.items() if n != name}


def fails(table: Any) -> Any:
    if pc.any(pc.equal(table["x"], 99)).as_py():
        raise ZeroDivisionError("the user's own")
    return table["flag"]


def answers(wrong: Any) -> Callable[[Any], Any]:
    """A predicate that gives `wrong` for batches with an x of 99."""
    return lambda table: wrong if pc.any(pc.equal(table["x"], 99)).as_py() else table["flag"]


def ruled(ts: Any, s: Any) -> Any:
    return 5, 2


GENERAL = [Query("grid", Tumbling(5), agg.sum("x"), agg.max("f")), Query("sessions", Session(3), agg.count())]
TUPLES = [
    Query("grid", Sliding(6, 2), agg.first("x"), where="flag"),
    Query("km", Tumbling(4, measure="km"), agg.sum("x")),
    Query("count", Tumbling(3, measure="count"), agg.sum("f")),
    Query("marks", Punctuation("flag"), agg.count()),
    Query("rule", DataDriven(ruled, ("s",)), agg.count()),
]
OPTIONS = {
    "general": (GENERAL, {}),
    "tuples kept": (TUPLES, {"allowed_lateness": 4}),
    "in order": (TUPLES, {"order": "in-order"}),
}


def operator_of(kind: str, queries: list[Query] | None = None, **options: Any) -> Operator:
    asked, own = OPTIONS[kind]
    return Operator(queries or asked, time="ts", key="k", **(own | options))


def assert_same(operator: Operator, twin: Operator, low: int = 20) -> None:
    """Both go on in the same way."""
    assert operator.counters == twin.counters
    assert operator.watermark == twin.watermark
    names = [query.name for query in operator.queries]
    for step in range(low, low + 20, 10):
        for one in (operator, twin):
            one.process(good(step, step + 10))
        a, b = operator.advance(step + 7), twin.advance(step + 7)
        assert [a[n].to_pylist() for n in names] == [b[n].to_pylist() for n in names]
    a, b = operator.finish(), twin.finish()
    assert [a[n].to_pylist() for n in names] == [b[n].to_pylist() for n in names]
    assert operator.late().to_pylist() == twin.late().to_pylist()
    assert operator.counters == twin.counters


# --------------------------------------------------------------------------- batches

ROWS = good(20, 30)
OF_ALL: dict[str, tuple[Any, type[WindlassError], str]] = {
    "no table": (42, WrongType, "events come as"),
    "no table, None": (None, WrongType, "events come as"),
    "a list of dicts": ([{"ts": 1}], WrongType, "events come as"),
    "no time column": (without(ROWS, "ts"), UnknownColumn, "'ts'"),
    "no key column": (without(ROWS, "k"), UnknownColumn, "'k'"),
    "no value column": (without(ROWS, "x"), UnknownColumn, "'x'"),
    "lengths differ": (good(20, 30, x=[1, 2]), InvalidArgument, "length"),
    "a null time": (good(20, 22, ts=[20, None]), InvalidArgument, "row 1"),
    "times of float": (good(20, 22, ts=[20.0, 21.5]), WrongType, "'ts'"),
    "NaN as a time": (good(20, 22, ts=[20.0, float("nan")]), WrongType, "nan in row 1"),
    "infinity as a time": (good(20, 22, ts=[float("inf"), 21.0]), WrongType, "inf in row 0"),
    "times of text": (good(20, 22, ts=["a", "b"]), WrongType, "'ts'"),
    "times of bool": (good(20, 22, ts=[True, False]), WrongType, "'ts'"),
    "timestamps after integers": (good(20, 22, ts=[datetime.datetime(2026, 1, 1)] * 2), WrongType, "first batch"),
    "a time out of range": (good(20, 22, ts=[20, 2**62]), InvalidArgument, "row 1"),
    "an unsigned time out of range": (good(20, 22, ts=np.array([20, 2**64 - 1], np.uint64)), InvalidArgument, "row 1"),
    "values of text": (good(20, 22, x=["a", "b"]), WrongType, "'x'|needs numbers"),
    "a key of another type": (good(20, 22, k=["a", "b"]), WrongType, "'k'"),
    "two columns of one name": (
        pa.table([[20], [1], [2], [1.0], [0]], names=["ts", "x", "x", "f", "k"]),
        InvalidArgument,
        "2 columns named 'x'",
    ),
}
OF_TUPLES: dict[str, tuple[Any, type[WindlassError], str]] = {
    "no measure": (without(ROWS, "km"), UnknownColumn, "'km'"),
    "no column of a predicate": (without(ROWS, "flag"), UnknownColumn, "'flag'"),
    "no column of a rule": (without(ROWS, "s"), UnknownColumn, "'s'"),
    "NaN in a measure": (good(20, 22, km=[10.0, float("nan")]), InvalidArgument, "nan in row 1"),
    "a null in a measure": (good(20, 22, km=[10, None]), InvalidArgument, "'km'"),
    "a null for a rule": (good(20, 22, s=[1, None]), WrongType, "'s'"),
    "text for a rule": (good(20, 22, s=["a", "b"]), WrongType, "'s'"),
    "a measure that decreases in the batch": (good(20, 24, km=[12, 12, 11, 12]), OutOfOrder, "'km' decreases"),
    "a measure below that of an earlier event": (good(20, 24, km=[1, 2, 3, 4]), OutOfOrder, "'km' decreases"),
    "a predicate of integers": (good(20, 22, flag=[1, 0]), WrongType, "flag"),
}
IN_ORDER: dict[str, tuple[Any, type[WindlassError], str]] = {
    "out of order in the batch": (good(20, 24, ts=[20, 22, 21, 23]), OutOfOrder, "row 2"),
    "before the last batch": (good(18, 22), OutOfOrder, "row 0"),
    "before the last batch, of another key": (good(18, 22, k=[7, 7, 7, 7]), OutOfOrder, "row 0"),
}
BATCHES = [("general", name) for name in OF_ALL]
BATCHES += [("tuples kept", name) for name in OF_ALL | OF_TUPLES]
BATCHES += [("in order", name) for name in OF_ALL | OF_TUPLES | IN_ORDER]


@pytest.mark.parametrize(("kind", "name"), BATCHES)
def test_a_bad_batch_changes_nothing(kind: str, name: str) -> None:
    batch, error, said = (OF_ALL | OF_TUPLES | IN_ORDER)[name]
    operator, twin = operator_of(kind), operator_of(kind)
    for one in (operator, twin):
        one.process(good(0, 20))
        one.advance(19 if kind == "in order" else 12)
    with pytest.raises(error, match=said):
        operator.process(batch)
    assert_same(operator, twin)


# What is bad only because of an earlier batch is good as a first one.
FIRST = [
    (kind, name)
    for kind, name in BATCHES
    if kind != "tuples kept"  # for a first batch nothing differs from in order
    and name
    not in (
        "timestamps after integers",
        "a key of another type",
        "a measure below that of an earlier event",
        "before the last batch",
        "before the last batch, of another key",
    )
]


@pytest.mark.parametrize(("kind", "name"), FIRST)
def test_a_bad_first_batch_settles_nothing(kind: str, name: str) -> None:
    batch, error, said = (OF_ALL | OF_TUPLES | IN_ORDER)[name]
    operator = operator_of(kind)
    with pytest.raises(error, match=said):
        operator.process(batch)
    assert_same(operator, operator_of(kind))


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        (fails, Exception),
        (answers(np.array([True])), WindlassError),
        (answers(np.array([1, 0])), WindlassError),
        (answers(None), WindlassError),
        (answers("flag"), WindlassError),
    ],
    ids=["fails", "wrong length", "integers", "nothing", "text"],
)
def test_a_predicate_that_goes_wrong_changes_nothing(kind: str, predicate: Any, error: type[Exception]) -> None:
    queries = [Query("q", Tumbling(5), agg.sum("x"), where=predicate)]
    if kind != "general":
        queries.append(Query("p", Punctuation(predicate), agg.count()))
    operator, twin = operator_of(kind, queries), operator_of(kind, queries)
    for one in (operator, twin):
        one.process(good(0, 20))
        one.advance(19 if kind == "in order" else 12)
    with pytest.raises(error):
        operator.process(good(20, 22, x=[99, 1]))
    assert_same(operator, twin)


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_bad_sequence_changes_nothing(kind: str) -> None:
    operator, twin = operator_of(kind, sequence="seq"), operator_of(kind, sequence="seq")
    for bad, error in ((None, InvalidArgument), (float("nan"), WrongType), ("a", WrongType)):
        with pytest.raises(error, match="'seq'"):
            operator.process(good(20, 22, seq=[bad, bad] if bad is not None else pa.array([1, None])))
    with pytest.raises(UnknownColumn, match="'seq'"):
        operator.process(without(ROWS, "seq"))
    assert_same(operator, twin)


def test_text_as_a_duration_needs_a_time_with_a_unit() -> None:
    operator = Operator(Query("q", Tumbling("1m"), agg.sum("x")), time="ts")
    with pytest.raises(WindlassError, match="1m"):
        operator.process(good(0, 5))
    operator.process({"ts": [datetime.datetime(2026, 1, 1)], "x": [1]})  # still possible
    assert len(operator.finish()) == 1


def test_text_as_lateness_needs_a_time_with_a_unit() -> None:
    operator = Operator(Query("q", Tumbling(5), agg.sum("x")), time="ts", allowed_lateness="1m")
    with pytest.raises(WrongType, match="allowed_lateness"):
        operator.process(good(0, 5))
    assert operator.counters["events"] == 0


def test_a_column_of_nothing_but_nulls_has_no_type() -> None:
    operator = Operator(Query("q", Tumbling(5), agg.sum("x")), time="ts")
    with pytest.raises(WrongType, match="'x'"):
        operator.process({"ts": [1, 2], "x": [None, None]})
    operator.process({"ts": [1, 2], "x": [3, None]})
    assert operator.finish()["q"].to_pylist()[0]["sum(x)"] == 3


def test_an_empty_batch_is_no_error_and_no_event() -> None:
    operator, twin = operator_of("tuples kept"), operator_of("tuples kept")
    for one in (operator, twin):
        one.process(good(0, 20))
        one.advance(12)
    operator.process({n: v[:0] for n, v in good(0, 1).items()})
    assert_same(operator, twin)


def bad_steps() -> list[Any]:
    def raises(state: Any, ts: Any, x: Any) -> Any:
        if x == 99:
            raise ZeroDivisionError("the user's own")
        return state, 1, 1

    def negative(state: Any, ts: Any, x: Any) -> Any:
        return state, (-1 if x == 99 else 1), 1

    return [raises, negative]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("step", bad_steps(), ids=lambda step: step.__name__)
def test_a_step_that_goes_wrong_in_order_changes_nothing(step: Any) -> None:
    queries = [Query("q", Deterministic(step, ("x",)), agg.count()), Query("t", Tumbling(5), agg.sum("x"))]
    operator, twin = operator_of("in order", queries), operator_of("in order", queries)
    for one in (operator, twin):
        one.process(good(0, 20))
    with pytest.raises((InvalidArgument, ZeroDivisionError)):
        operator.process(good(20, 22, x=[99, 1]))
    assert_same(operator, twin)


# --------------------------------------------------------------------------- watermarks and the end

WATERMARKS = [
    (None, InvalidArgument),
    (1.5, WrongType),
    (float("nan"), WrongType),
    (True, WrongType),
    ("2026-01-01", WrongType),  # of a stream whose times are integers
    (datetime.datetime(2026, 1, 1), WrongType),
    (datetime.timedelta(1), WrongType),
    ([5], WrongType),
    (2**62, InvalidArgument),
    (-(2**62), InvalidArgument),
    (np.datetime64("NaT"), WindlassError),
]


@pytest.mark.parametrize(("watermark", "error"), WATERMARKS, ids=repr)
@pytest.mark.parametrize("kind", ["general", "tuples kept"])
def test_a_bad_watermark_changes_nothing(kind: str, watermark: Any, error: type[WindlassError]) -> None:
    operator, twin = operator_of(kind), operator_of(kind)
    for one in (operator, twin):
        one.process(good(0, 20))
    with pytest.raises(error):
        operator.advance(watermark)
    assert_same(operator, twin)


@pytest.mark.parametrize("kind", OPTIONS)
def test_after_the_end_there_is_nothing(kind: str) -> None:
    operator = operator_of(kind)
    operator.process(good(0, 20))
    operator.finish()
    held = operator.counters
    for call in (lambda: operator.process(good(20, 25)), lambda: operator.advance(30), operator.finish):
        with pytest.raises(InvalidArgument, match="finished"):
            call()
    assert operator.counters == held


# --------------------------------------------------------------------------- specifications

Q = Query("q", Tumbling(5), agg.sum("x"))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"order": "sorted"}, InvalidArgument, "in-order"),
        ({"store": "fast"}, InvalidArgument, "eager"),
        ({"allowed_lateness": -1}, InvalidArgument, "negative"),
        ({"allowed_lateness": "soon"}, InvalidArgument, "soon"),
        ({"allowed_lateness": "1 month"}, InvalidArgument, "[Mm]onth"),
        ({"allowed_lateness": 1.5}, WrongType, "float"),
        ({"allowed_lateness": float("nan")}, WrongType, "float"),
        ({"allowed_lateness": True}, WrongType, "bool"),
        ({"allowed_lateness": None}, WrongType, "NoneType"),
        ({"key": "window"}, InvalidArgument, "window"),
        ({"key": "q"}, InvalidArgument, "'q'"),
    ],
    ids=str,
)
def test_bad_options(options: dict[str, Any], error: type[WindlassError], said: str) -> None:
    with pytest.raises(error, match=said):
        Operator(Q, **({"time": "ts"} | options))


@pytest.mark.parametrize(
    "options",
    [
        {"time": 5},
        {"time": None},
        {"key": 5},
        {"key": [1]},
        {"key": ["k", "k"]},
        {"sequence": 3},
        {"allowed_lateness": "-1s"},
        {"allowed_lateness": datetime.timedelta(-1)},
        {"allowed_lateness": 2**70},
    ],
    ids=str,
)
def test_bad_options_that_only_show_later(options: dict[str, Any]) -> None:
    with pytest.raises(WindlassError):
        Operator(Q, **({"time": "ts"} | options))


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: [Q, Q], InvalidArgument, "two queries named 'q'"),
        (lambda: [Q, "not a query"], WrongType, "expected a Query"),
        (lambda: 5, WrongType, "expected a Query"),
        (lambda: Query("q", Tumbling(0), agg.sum("x")), InvalidArgument, "0"),
        (lambda: Query("q", Tumbling(-5), agg.sum("x")), InvalidArgument, "-5"),
        (lambda: Query("q", Tumbling(1.5), agg.sum("x")), WrongType, "float"),
        (lambda: Query("q", Tumbling(float("nan")), agg.sum("x")), WrongType, "float"),
        (lambda: Query("q", Tumbling("1 month"), agg.sum("x")), InvalidArgument, "[Mm]onth"),
        (lambda: Query("q", Sliding(5, 6), agg.sum("x")), InvalidArgument, "slide"),
        (lambda: Query("q", Session(0), agg.sum("x")), InvalidArgument, "0"),
        (lambda: Query("q", Landmark(0, -1), agg.sum("x")), InvalidArgument, "-1"),
        (
            lambda: Query("q", Tumbling(5, measure="count"), agg.sum("x"), emit_empty=True),
            InvalidArgument,
            "emit_empty",
        ),
        (lambda: Query("q", Tumbling(5)), InvalidArgument, "no aggregates"),
        (lambda: Query("q", Tumbling(5), agg.sum), WrongType, "call it"),
        (lambda: Query("q", Tumbling(5), agg.sum()), InvalidArgument, "which column"),
        (lambda: Query("q", Tumbling(5), agg.sum("x"), agg.sum("x")), InvalidArgument, "two results"),
        (lambda: Query("", Tumbling(5), agg.sum("x")), InvalidArgument, "name"),
        (lambda: Query("q", Tumbling, agg.sum("x")), WrongType, "call it"),
        (lambda: Query("q", Tumbling(5), agg.sum("x"), where=5), WindlassError, "5|int"),
    ],
)
def test_bad_queries(make: Callable[[], Any], error: type[WindlassError], said: str) -> None:
    with pytest.raises(error, match=said):
        Operator(make(), time="ts")


@pytest.mark.parametrize(
    "aggregate", [agg.sum("k"), agg.avg("k"), agg.variance("k"), agg.bool_and("k"), agg.arg_max("x", by="l")], ids=repr
)
def test_an_aggregate_of_values_it_cannot_take(aggregate: Any) -> None:
    operator = Operator(Query("q", Tumbling(5), aggregate), time="ts")
    with pytest.raises(WindlassError):
        operator.process({"ts": [1, 2], "x": [1, 2], "k": ["a", "b"], "l": [[1], [2]]})
    assert operator.counters["events"] == 0


# --------------------------------------------------------------------------- the far ends of time


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize(
    "window", [Tumbling(7), Sliding(10, 3), Tumbling(2**61), Session(2**61), Landmark(-LATEST, 2**61)], ids=repr
)
def test_times_at_the_far_ends(window: Any, order: Any) -> None:
    operator = Operator(Query("q", window, agg.count().alias("n")), time="ts", order=order)
    ts = [-LATEST, 0, LATEST]
    operator.process({"ts": ts})
    operator.advance(LATEST)
    rows = operator.finish()["q"].to_pylist()
    for row in rows:
        low, high = row["window"]["start"], row["window"]["end"]
        assert low < high
        assert row["n"] == sum(1 for t in ts if low <= t < high)
    assert len(rows) > 0
