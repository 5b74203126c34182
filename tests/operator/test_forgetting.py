"""Keys that nobody needs are dropped and nothing is different; with key_ttl, keys end as the oracle says.

The threshold below which keys are not worth dropping is lowered, so that they are dropped in small streams too.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import (
    Band,
    Cumulate,
    Landmark,
    LastN,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)

import windlass
from tests.operator.rows import Asked, Named, Twins, event
from tests.operator.streams import NON_DETERMINISTIC, STEPS, TYPES, Step, queries, streams
from tests.operator.test_properties import keys, lateness, run, thoroughly
from windlass import Operator, Query, agg
from windlass.errors import CorruptSnapshot, InvalidArgument, WrongType
from windlass.operator import forgetting
from windlass.operator.keys import KeyIndex


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(forgetting, "FEW", 1)
    yield


# --------------------------------------------------------------------------- streams whose keys come and go


def churning(steps: list[Step]) -> list[Step]:
    """The same stream, in which a step has keys of its own for the most part."""

    def moved(i: int, row: dict[str, Any]) -> dict[str, Any]:
        k = row["k"]
        return row if k in (None, "a") else {**row, "k": f"{k} {i // 2}"}

    return [replace(s, batches=[[moved(i, row) for row in b] for b in s.batches]) for i, s in enumerate(steps)]


changing = st.sampled_from([("k",), ("k",), ("k", "j"), ("j", "k")])


def reach(window: Any) -> int:
    """The longest time after an event at which a watermark completes a window that holds it."""
    match window:
        case Tumbling() | Sliding() | Cumulate() | Band() if window.measure == "time":
            return window.size
        case Landmark(measure="time"):
            return window.slide
        case Session():
            return window.gap + 1
        case SlideByTuple():
            return window.size
        case LastN():
            return window.every
        case Snapshot():
            return window.lifetime
    return 1


def certain(asked: list[Asked]) -> list[Asked]:
    """Without frames that have to be long: one that a late event would make long enough may be closed too early,
    whether keys end or not."""
    long = [isinstance(query.window, ThresholdFrame) for query in asked]
    return [replace(q, window=replace(q.window, min_size=1)) if is_ else q for q, is_ in zip(asked, long, strict=True)]


def least_ttl(asked: list[Asked]) -> int:
    return max(reach(query.window) for query in asked)


# --------------------------------------------------------------------------- what nobody notices


@pytest.mark.parametrize("type_", TYPES)
@thoroughly(15)
@given(st.data(), changing, lateness, streams(most=8), st.booleans())
def test_forgetting_changes_nothing(
    type_: str, data: Any, key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    asked = certain(data.draw(queries((type_,), most=2)))
    run(Twins(asked, key=key, allowed_lateness=lateness), churning(steps), partial)


@thoroughly(50)
@given(queries(("time", "session")), changing, lateness, streams(interruptions=True, most=10), st.booleans())
def test_forgetting_between_snapshots(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness), churning(steps), partial)


@pytest.mark.parametrize("store", ["lazy", "eager", "fiba"])
@thoroughly(20)
@given(queries(("time", "session")), changing, streams(in_order=True, interruptions=True, most=10))
def test_forgetting_in_order(store: str, asked: list[Asked], key: tuple[str, ...], steps: list[Step]) -> None:
    run(Twins(asked, key=key, in_order=True, store=store), churning(steps), partial=False)


@thoroughly(25)
@given(queries(("time", "session")), queries(("time",), most=2), changing, lateness, streams(most=8), st.booleans())
def test_forgetting_while_queries_come_and_go(
    asked: list[Asked], more: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], removed: bool
) -> None:
    twins = Twins(asked, key=key, allowed_lateness=lateness)
    for i, step in enumerate(churning(steps)):
        twins.process(*step.batches[:1])
        if i < len(more):
            twins.add(replace(more[i], name=f"more {i}"))
        if i == 2 and removed:
            twins.remove("q0")
        twins.process(*step.batches[1:])
        twins.advance(step.watermark)
        if not twins.asked:
            return
    twins.finish()


# --------------------------------------------------------------------------- keys that end

ttls = st.sampled_from([0, 0, 1, 4, 15])  # besides what windows need


@pytest.mark.parametrize("type_", TYPES)
@thoroughly(20)
@given(st.data(), keys, lateness, streams(interruptions=True, most=8), ttls, st.booleans(), st.booleans())
def test_keys_of_one_type_of_window_end(
    type_: str,
    data: Any,
    key: tuple[str, ...],
    lateness: int,
    steps: list[Step],
    more: int,
    partial: bool,
    churn: bool,
) -> None:
    asked = certain(data.draw(queries((type_,), most=2)))
    twins = Twins(asked, key=key, allowed_lateness=lateness, key_ttl=least_ttl(asked) + more)
    run(twins, churning(steps) if churn else steps, partial)


@thoroughly(60)
@given(queries().map(certain), keys, lateness, streams(interruptions=True, most=8), ttls, st.booleans())
def test_keys_end(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], more: int, partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness, key_ttl=least_ttl(asked) + more), steps, partial)


@thoroughly(25)
@given(queries().map(certain), keys, lateness, streams(most=8), ttls)
def test_keys_end_with_a_sequence(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], more: int
) -> None:
    twins = Twins(asked, key=key, sequence="seq", allowed_lateness=lateness, key_ttl=least_ttl(asked) + more)
    run(twins, steps, partial=False)


@thoroughly(60)
@given(queries(), keys, streams(in_order=True, interruptions=True, most=8), ttls, st.booleans(), st.booleans())
def test_keys_end_in_order(
    asked: list[Asked], key: tuple[str, ...], steps: list[Step], more: int, partial: bool, churn: bool
) -> None:
    twins = Twins(asked, key=key, in_order=True, key_ttl=least_ttl(asked) + more)
    run(twins, churning(steps) if churn else steps, partial)


def later(steps: list[Step], by: int) -> list[Step]:
    """The same steps at a later time. Only ids are others: measures begin anew."""
    return [
        replace(
            step,
            batches=[[{**row, "ts": row["ts"] + by, "id": row["id"] + 1000} for row in b] for b in step.batches],
            watermark=step.watermark + by,
        )
        for step in steps
    ]


def two_lives(first: list[Step], second: list[Step], silence: int) -> list[Step]:
    """All keys of the first stream end before the second one begins, whose events are as far apart as they were."""
    times = [row["ts"] for step in first for batch in step.batches for row in batch]
    over = max([step.watermark for step in first] + times) + silence
    return [*first, Step([[event(over, j=9, id=999)]], over), *later(second, over + 40)]


either = pytest.mark.parametrize("few", [1, 1000], ids=["dropped", "as if new"])  # what becomes of an ended key's id


@either
@pytest.mark.parametrize("type_", TYPES)
@thoroughly(10)
@given(st.data(), st.sampled_from([0, 5, 12, 20]), streams(most=3), streams(interruptions=True, most=5), st.booleans())
def test_a_second_life(
    type_: str, few: int, data: Any, lateness: int, first: list[Step], second: list[Step], partial: bool
) -> None:
    forgetting.FEW = few
    asked = certain(data.draw(queries((type_,), most=2)))
    ttl = least_ttl(asked)
    twins = Twins(asked, key=("j",), allowed_lateness=lateness, key_ttl=ttl)
    run(twins, two_lives(first, second, ttl + lateness), partial)


@either
@pytest.mark.parametrize("type_", TYPES)
@thoroughly(5)
@given(st.data(), streams(in_order=True, most=3), streams(in_order=True, interruptions=True, most=4), st.booleans())
def test_a_second_life_in_order(
    type_: str, few: int, data: Any, first: list[Step], second: list[Step], partial: bool
) -> None:
    forgetting.FEW = few
    asked = data.draw(queries((type_,), most=2))
    ttl = least_ttl(asked)
    run(Twins(asked, key=("j",), in_order=True, key_ttl=ttl), two_lives(first, second, ttl), partial)


BUSY: list[Any] = [
    *(Tumbling(3, measure="count"), Sliding(4, 2, measure="count"), Landmark(0, 2, "count"), Landmark(0, 7)),
    *(Tumbling(5, measure="km"), Landmark(0, 5, "km"), Session(3), SlideByTuple(6, 3), LastN(3, 5), Snapshot(6)),
    *(Punctuation(Named("flag")), ThresholdFrame(Named("flag")), *STEPS, *NON_DETERMINISTIC),
]


@either
@pytest.mark.parametrize("window", BUSY, ids=lambda window: type(window).__name__)
def test_three_busy_lives(few: int, window: Any) -> None:
    """Many events, of which many are late, so that keys that come back are rewound."""
    forgetting.FEW = few
    for seed in range(4):
        draw = random.Random(seed)
        twins = Twins([Asked("q", window)], key=("k",), allowed_lateness=8, key_ttl=30)
        for life in range(3):
            for step in range(6):
                now = 200 * life + 5 * step
                times = [now + draw.randrange(-6, 6) for _ in range(draw.randrange(1, 6))]
                batch = [event(ts, k=draw.choice("ab"), y=draw.randrange(5), flag=draw.random() < 0.4) for ts in times]
                for i, row in enumerate(batch):
                    row |= {"id": 100 * now + i, "km": (row["ts"] - 200 * life) // 2}
                twins.process(batch).advance(now)
            twins.advance(200 * life + 150)
        twins.finish()


def forgets_anyway(query: Asked) -> bool:
    """Whether the end of a key is nothing to a query, because all windows of the key are closed then."""
    window = query.window
    if isinstance(window, SlideByTuple):
        return window.every == 1
    return not query.emit_empty and not isinstance(window, Landmark)


@pytest.mark.parametrize("type_", ["time", "session", "snapshot", "slide by tuple"])
@thoroughly(20)
@given(st.data(), changing, lateness, streams(interruptions=True, most=8), st.booleans())
def test_some_windows_do_not_notice(
    type_: str, data: Any, key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    """The oracle knows of no end."""
    asked = [query for query in data.draw(queries((type_,), most=3)) if forgets_anyway(query)]
    if asked:
        twins = Twins(asked, key=key, allowed_lateness=lateness, key_ttl=least_ttl(asked))
        twins.oracle.key_ttl = None
        run(twins, steps, partial)


def test_a_key_that_comes_back_begins_anew() -> None:
    op = Operator(Query("pairs", windlass.Tumbling(2, measure="count"), agg.sum("x")), time="ts", key="k", key_ttl=10)
    op.process({"ts": [0, 1, 2], "k": ["a", "a", "a"], "x": [1, 2, 4]})
    assert op.advance(11)["pairs"].column("sum(x)").to_pylist() == [3]
    op.process({"ts": [11], "k": ["a"], "x": [8]})
    assert op.advance(12)["pairs"].to_pydict()["sum(x)"] == [12]  # 2 + 10 <= 12, but the event at 11 came before
    op.process({"ts": [12], "k": ["b"], "x": [16]})
    assert len(op.advance(21)) == 0  # 11 + 10 <= 21: a ends, b does not
    op.process({"ts": [21, 21, 21], "k": ["b", "a", "a"], "x": [32, 64, 128]})
    due = op.advance(22)["pairs"].select(["k", "low", "high", "revision", "sum(x)"]).to_pylist()
    assert sorted(tuple(row.values()) for row in due) == [("a", 0, 2, 0, 192), ("b", 0, 2, 0, 48)]


def test_lateness_puts_the_end_off() -> None:
    twins = Twins([Asked("q", Tumbling(2, measure="count"))], key=("k",), allowed_lateness=5, key_ttl=10)
    twins.process([event(0, k="a", id=1)]).advance(14)
    twins.process([event(9, k="a", id=2)])  # late, and accepted: its key has not ended
    assert [row.values for row in twins.advance(14)] == [([1, 2],)]
    twins.process([event(10, k="a", id=3)]).advance(25)  # 10 + 10 + 5
    twins.process([event(19, k="a", id=4), event(20, k="a", id=5), event(21, k="a", id=6)])
    rows = twins.advance(25)  # 19 is too late for a key that nobody knows
    assert [(row.low, row.revision, row.values) for row in rows] == [(0, 0, ([5, 6],))]
    assert twins.oracle.expired == 1


def test_a_stream_without_keys_ends_too() -> None:
    twins = Twins([Asked("q", Tumbling(2, measure="count"))], key_ttl=3)
    twins.process([event(0, id=1)]).advance(3)
    twins.process([event(3, id=2), event(4, id=3)])
    assert [row.values for row in twins.advance(4)] == [([2, 3],)]


def test_keys_end_at_advance_only() -> None:
    """Watermarks that come with the stream end no key in the middle of a batch, however it is cut."""
    batch = [(0, "a"), (50, "b"), (40, "b"), (60, "a"), (61, "a")]
    found = []
    for cut in (1, 2, 5):
        op = Operator(
            Query("pairs", windlass.Tumbling(2, measure="count"), agg.collect_list("ts")),
            time="ts",
            key="k",
            watermarks=windlass.Watermarks(0),
            allowed_lateness=5,
            key_ttl=3,
        )
        for i in range(0, len(batch), cut):
            ts, k = zip(*batch[i : i + cut], strict=True)
            op.process({"ts": list(ts), "k": list(k)})
        found.append(sorted(map(str, op.advance()["pairs"].to_pylist())))
    assert len(found[0]) == 1
    assert found[0] == found[1] == found[2]


# --------------------------------------------------------------------------- a key_ttl that makes sense

LONGEST = [
    (windlass.Tumbling(10), 10),
    (windlass.Sliding(10, 3), 10),
    (windlass.Cumulate(5, 10), 10),
    (windlass.Band(100, 10), 10),
    (windlass.Landmark(0, 10), 10),
    (windlass.Session(10), 11),
    (windlass.SlideByTuple(10), 10),
    (windlass.LastN(3, 10), 10),
    (windlass.Snapshot(10), 10),
    (windlass.Tumbling(10, measure="count"), 1),
    (windlass.Punctuation("p"), 1),
]


@pytest.mark.parametrize(("window", "least"), LONGEST, ids=lambda value: repr(value))
def test_a_key_does_not_end_before_its_windows(window: Any, least: int) -> None:
    query, other = Query("q", window, agg.count()), Query("other", windlass.Punctuation("p"), agg.count())
    Operator(query, time="ts", key_ttl=least)
    Operator(other, time="ts", key_ttl=least).add(query)
    if least > 1:
        with pytest.raises(InvalidArgument, match=f"at least .{least}us., or to {least} if times are integers"):
            Operator(query, time="ts", key_ttl=least - 1)
        op = Operator(other, time="ts", key_ttl=least - 1)
        with pytest.raises(InvalidArgument, match=f"at least .{least}us., or to {least} if times are integers"):
            op.add(query)
        assert [q.name for q in op.queries] == ["other"]


def test_a_key_ttl_is_a_duration() -> None:
    query = Query("q", windlass.Tumbling("10m"), agg.count())
    for ttl in ("10m", "1h", datetime.timedelta(minutes=10), np.timedelta64(10, "m"), 600_000_000):
        assert "keys end" in Operator(query, time="ts", key_ttl=ttl).explain()
    assert "keys end" not in Operator(query, time="ts").explain()
    with pytest.raises(InvalidArgument, match="at least '10m'"):
        Operator(query, time="ts", key_ttl="9m")
    for wrong in (0, -1, "0s"):
        with pytest.raises(InvalidArgument, match="key_ttl must be positive"):
            Operator(query, time="ts", key_ttl=wrong)
    with pytest.raises(WrongType):
        Operator(query, time="ts", key_ttl=1.5)
    op = Operator(Query("q", windlass.Punctuation("p"), agg.count()), time="ts", key="k", key_ttl="1h")
    op.advance(0)
    with pytest.raises(WrongType, match="key_ttl is an integer too"):
        op.process({"ts": [1], "k": [1], "p": [True]})
    assert op.counters["keys"] == 0


def test_timestamps_and_text() -> None:
    noon = datetime.datetime(2026, 1, 1, 12)
    query = Query("pairs", windlass.Tumbling(2, measure="count"), agg.count())
    op = Operator(query, time="at", key="k", key_ttl="1h", allowed_lateness="30m")
    op.process({"at": [noon], "k": ["a"]})
    op.advance(noon + datetime.timedelta(minutes=89))
    op = Operator(query, time="at", key="k", key_ttl="60m", allowed_lateness="30m").restore(op.snapshot())
    op.advance(noon + datetime.timedelta(minutes=90))
    assert op.counters["keys"] == 0
    op.process({"at": [noon + datetime.timedelta(hours=2)], "k": ["a"]})
    assert len(op.finish()) == 0


def test_a_snapshot_is_of_one_key_ttl() -> None:
    query = Query("q", windlass.Tumbling(2, measure="count"), agg.count())
    saved = Operator(query, time="ts", key_ttl=5).snapshot()
    with pytest.raises(CorruptSnapshot, match="key_ttl=5"):
        Operator(query, time="ts").restore(saved)


# --------------------------------------------------------------------------- what is held


def arrays(value: Any, seen: set[int]) -> Iterator[np.ndarray[Any, Any]]:
    """All arrays of an operator."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays(item, seen)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from arrays(item, seen)
    elif type(value).__module__.startswith("windlass.") and hasattr(value, "__dict__"):
        yield from arrays(vars(value), seen)


CHURNED: dict[str, tuple[list[Query], dict[str, Any]]] = {
    "general": ([Query("t", windlass.Sliding(10, 5), agg.sum("x")), Query("s", windlass.Session(3), agg.max("x"))], {}),
    "late": ([Query("t", windlass.Tumbling(10), agg.sum("x"))], {"allowed_lateness": 20}),
    "in order": ([Query("t", windlass.Tumbling(10), agg.sum("x"))], {"order": "in-order"}),
    "tuples": ([Query("t", windlass.Tumbling(10), agg.last("x")), Query("s", windlass.Session(3), agg.first("x"))], {}),
    "key_ttl": ([Query("c", windlass.Tumbling(3, measure="count"), agg.sum("x"))], {"key_ttl": 20}),
    "key_ttl, in order": (
        [
            Query("c", windlass.Tumbling(3, measure="count"), agg.sum("x")),
            Query("p", windlass.Punctuation("p"), agg.count()),
        ],
        {"key_ttl": 20, "order": "in-order"},
    ),
    "key_ttl, empty": ([Query("t", windlass.Tumbling(10), agg.sum("x"), emit_empty=True)], {"key_ttl": 20}),
    "key_ttl, snapshots": ([Query("s", windlass.Snapshot(5), agg.sum("x"))], {"key_ttl": 20}),
}


KEYS: list[Any] = [["text", "group"], "n", "text"]


@pytest.mark.parametrize(("name", "key"), [(name, KEYS[i % 3]) for i, name in enumerate(CHURNED)], ids=str)
def test_state_stays_flat_while_keys_come_and_go(name: str, key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "FEW", 1000)
    asked, options = CHURNED[name]
    op = Operator(asked, time="ts", key=key, **options)
    held = []
    rows = 0
    for i in range(200):
        n = np.repeat(np.arange(1000 * i, 1000 * i + 1000), 3)
        batch = pa.table(
            {
                "ts": np.full(len(n), 5 * i),
                "n": n,
                "text": pa.array(n).cast(pa.string()),
                "group": n % 7,
                "x": n,
                "p": n % 2 == 0,
            }
        )
        op.process(batch)
        rows += len(op.advance() if "order" in options else op.advance(5 * i))
        if i % 10 == 9:
            nbytes = sum(array.nbytes for array in arrays(op, set()))
            held.append((op.counters["keys"], op.counters["slices"], nbytes, len(op.snapshot())))
    early, late = np.max(held[1:6], axis=0), np.max(held[-5:], axis=0)
    assert (late <= 1.1 * early + 64).all(), held
    assert op.counters["keys"] <= 20_000
    assert rows >= 150_000


def test_keys_are_few_again_after_many() -> None:
    op = Operator(Query("t", windlass.Tumbling(10), agg.sum("x")), time="ts", key="k")
    op.process({"ts": np.zeros(50_000, np.int64), "k": np.arange(50_000), "x": np.ones(50_000)})
    many = sum(array.nbytes for array in arrays(op, set()))
    first = op.advance(10)
    for i in range(15):
        op.process({"ts": [11 + i], "k": [i], "x": [1.0]})
        op.advance(11 + i)
    assert op.counters["keys"] < 20
    assert sum(array.nbytes for array in arrays(op, set())) < many / 100
    assert first["t"].column("k").to_pylist() == list(range(50_000))  # results that were given out stay


# --------------------------------------------------------------------------- the index of keys


COLUMNS: list[pa.Array] = [
    pa.array([3, None, 5, 1 << 40, 7]),
    pa.array(["c", "longer than eight", None, "", "d"]),
    pa.array([1.5, float("nan"), None, -0.0, 2.0]),
    pa.array([True, False, None, True, False]),
    pa.array([1, 2, None, 3, 4], pa.timestamp("ms", "UTC")),
    pa.array([b"ab", b"cd", None, b"ef", b"gh"], pa.binary(2)),
    pa.array(["x", None, "y", "z", "x"]).dictionary_encode(),
    pa.nulls(5),
]


@pytest.mark.parametrize("kept", [[], [1], [0, 2, 4], [0, 1, 2, 3, 4]], ids=str)
def test_an_index_of_some_keys(kept: list[int]) -> None:
    for a in COLUMNS:
        for columns in ([a], [a, COLUMNS[1]], [COLUMNS[0], a, COLUMNS[3]]):
            index = KeyIndex([str(i) for i in range(len(columns))])
            index.encode(columns)
            chosen = np.array([k for k in kept if k < len(index)], np.int64)
            before = index.decode(np.arange(len(index)))
            fewer = index.keep(chosen)
            assert len(fewer) == len(chosen)
            assert fewer.types == index.types
            for have, want in zip(fewer.decode(np.arange(len(chosen))), index.decode(chosen), strict=True):
                assert str(have) == str(want)
            assert fewer.encode([column.take(pa.array(chosen)) for column in before]).tolist() == list(
                range(len(chosen))
            )
            fewer.truncate(len(chosen))
            restored = KeyIndex.restore(index.names, fewer.record())
            for some in (fewer, restored):
                known = len(some)
                some.encode(columns)
                some.truncate(known)  # a batch that is taken back tells no other type
                assert some.types == index.types
            assert list(map(str, index.decode(np.arange(len(index))))) == list(map(str, before))
