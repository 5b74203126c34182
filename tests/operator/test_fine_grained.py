"""A window per event, against brute force."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass
from windlass import agg
from windlass.aggregates.counting import counted
from windlass.errors import CorruptSnapshot, InvalidArgument, UnknownColumn


def brute(rows: list[tuple[str, int, int | None]], span: int, window: int) -> list[list[int]]:
    """The values in each event's window, in order of time, then arrival."""
    held: dict[str, dict[int, list[int | None]]] = {}
    newest: dict[str, int] = {}
    answers = []
    for key, t, v in rows:
        mine = held.setdefault(key, {})
        if window:
            if t not in mine and len(mine) == window:
                del mine[min(mine)]
            mine.setdefault(t, []).append(v)
        elif key not in newest or t > newest[key] - span:
            newest[key] = max(t, newest.get(key, t))
            mine.setdefault(t, []).append(v)
            for old in [x for x in mine if x <= newest[key] - span]:
                del mine[old]
        answers.append([x for time in sorted(mine) for x in mine[time] if x is not None])
    return answers


def made(reach: dict[str, int], key: Any = "k", **more: Any) -> Any:
    aggregates = {"total": agg.sum("v"), "all": agg.collect_list("v"), "n": agg.count()} | more
    return windlass.FineGrained(aggregates, time="t", key=key, **reach)


def batch(rows: list[tuple[str, int, int | None]]) -> dict[str, Any]:
    return {"k": [r[0] for r in rows], "t": [r[1] for r in rows], "v": pa.array([r[2] for r in rows], pa.int64())}


rows_drawn = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 60), st.none() | st.integers(0, 9)), min_size=1, max_size=120
)


@pytest.mark.parametrize("reach", [{"span": 8}, {"window": 1}, {"window": 5}, {"span": 40}])
@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(rows_drawn, st.integers(0, 120), st.integers(0, 120))
def test_batches_and_snapshots_do_not_matter(
    reach: dict[str, int], keyed: bool, rows: Any, cut: int, other: int
) -> None:
    rows = [(k if keyed else "a", t + i // 3, v) for i, (k, t, v) in enumerate(rows)]
    key = "k" if keyed else ()
    fine, found = made(reach, key), []
    first, second = sorted((min(cut, len(rows)), min(other, len(rows))))
    for part in (rows[:first], rows[first:second], rows[second:]):
        found += fine.process(batch(part))["all"].to_pylist() if part else []
        fine = made(reach, key).restore(fine.snapshot())
    assert [x or [] for x in found] == brute(rows, reach.get("span", 0), reach.get("window", 0))


@pytest.mark.parametrize("key", ["k", ()])
def test_a_new_time_takes_the_place_of_the_oldest_even_if_it_is_earlier(key: Any) -> None:
    rows = [("a", 10, 1), ("a", 20, 2), ("a", 5, 3), ("a", 5, 4), ("a", 15, 5)]
    assert made({"window": 2}, key).process(batch(rows))["all"].to_pylist() == [[1], [1, 2], [3, 2], [3, 4, 2], [5, 2]]


def test_a_damaged_snapshot_or_one_of_others_is_refused() -> None:
    for key in ("k", ()):
        fine = made({"window": 5}, key)
        fine.process(batch([("a", 3, 1), ("b", 4, 2), ("a", 5, None)]))
        data = fine.snapshot()
        answer = fine.process(batch([("a", 9, 7)])).to_pylist()
        for i in range(0, len(data), 7):
            with pytest.raises(CorruptSnapshot):
                made({"window": 5}, key).restore(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        for others in (made({"window": 6}, key), made({"span": 5}, key), made({"window": 5}, key, m=agg.max("v"))):
            with pytest.raises(CorruptSnapshot, match="another window per event"):
                others.restore(data)
        assert made({"window": 5}, key).restore(data).process(batch([("a", 9, 7)])).to_pylist() == answer


def test_many_keys_at_a_constant_number_of_combines_an_event() -> None:
    aggregate, calls = counted(agg.max("v"))
    fine = windlass.FineGrained({"m": aggregate}, time="t", key="k", window=50)
    n, keys = 20_000, 100
    ids, times = np.arange(n) % keys, np.arange(n)
    fine.process({"k": ids[: n // 2], "t": times[: n // 2], "v": times[: n // 2] % 97})
    calls.reset()
    found = fine.process({"k": ids[n // 2 :], "t": times[n // 2 :], "v": times[n // 2 :] % 97})
    assert calls.combine <= 30 * (n // 2)
    last = [max((t - keys * j) % 97 for j in range(50)) for t in range(n - 5, n)]
    assert found["m"].to_pylist()[-5:] == last
    assert "100 keys, 5000 times" in repr(fine)


def test_what_raises_changes_nothing() -> None:
    def combine(x: int, y: int) -> int:
        if y > 100:
            raise ValueError("too much")
        return x + y

    mine = agg.define("mine", lift=lambda x: x, combine=combine, lower=lambda x: x, compile=False)("v")
    for key in ("k", ()):
        fine = windlass.FineGrained({"mine": mine, "n": agg.count()}, time="t", key=key, window=5)
        fine.process(batch([("a", 1, 1), ("a", 2, 2)]))
        with pytest.raises(ValueError, match="too much"):
            fine.process(batch([("a", 3, 3), ("a", 3, 101)]))
        assert fine.process(batch([("a", 4, 4)])).to_pylist()[0] | {"k": "a"} == {"k": "a", "t": 4, "mine": 7, "n": 3}


@pytest.mark.parametrize("reach", [{"span": 30}, {"window": 7}])
def test_every_event_is_answered_for(reach: dict[str, int]) -> None:
    random = Random(4)
    rows = [
        (random.choice("abc"), i - random.randrange(40), None if random.random() < 0.1 else random.randrange(100))
        for i in range(300)
    ]
    fine = windlass.FineGrained(
        {"total": agg.sum("v"), "all": agg.collect_list("v"), "n": agg.count()}, time="t", key="k", **reach
    )
    tables = []
    for begin in (0, 100, 130):
        end = {0: 100, 100: 130, 130: 300}[begin]
        part = rows[begin:end]
        table = fine.process(
            {"k": [r[0] for r in part], "t": [r[1] for r in part], "v": pa.array([r[2] for r in part])}
        )
        assert table.column_names == ["k", "t", "total", "all", "n"] and table["t"].to_pylist() == [r[1] for r in part]
        tables.append(table)
    got = pa.concat_tables(tables)
    expected = brute(rows, reach.get("span", 0), reach.get("window", 0))
    assert [x or [] for x in got["all"].to_pylist()] == expected
    assert got["total"].to_pylist() == [sum(x) if x else None for x in expected]
    assert "3 keys" in repr(fine)


def test_bad_input() -> None:
    made: Any = windlass.FineGrained
    with pytest.raises(InvalidArgument, match="one of span= and window="):
        made({"n": agg.count()}, time="t")
    with pytest.raises(InvalidArgument, match="at least one aggregate"):
        made({}, time="t", span=5)
    with pytest.raises(InvalidArgument, match="names no column"):
        made({"total": agg.sum()}, time="t", span=5)
    with pytest.raises(InvalidArgument, match="another name"):
        made({"t": agg.sum("v")}, time="t", span=5)
    fine = made({"total": agg.sum("v")}, time="t", span="5 minutes")
    with pytest.raises(UnknownColumn, match="'v'"):
        fine.process({"t": [1]})
    assert fine.process({"t": [1], "v": [3]})["total"].to_pylist() == [3]
    assert fine.process({"t": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}).num_rows == 0
