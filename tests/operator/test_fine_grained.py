"""A window per event, against brute force."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import windlass
from windlass import agg
from windlass.errors import InvalidArgument, UnknownColumn


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
