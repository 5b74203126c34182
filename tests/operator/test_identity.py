"""Windows of a key with the same bounds: ordinals tell them apart, for a sink too, whatever comes late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import Deterministic, NonDeterministic, Punctuation, ThresholdFrame, Tumbling

import windlass
from tests.operator.rows import Asked, Named, Twins, event
from windlass import agg
from windlass.errors import InvalidArgument
from windlass.operator.ordinals import Ordinals


def at(*times: int, first: int = 0, **columns: Any) -> list[dict[str, Any]]:
    """Events at these times. A column is one value for all, or a list of one value each; ids count from `first`."""
    given = [{k: v[i] if isinstance(v, list) else v for k, v in columns.items()} for i in range(len(times))]
    return [event(ts, id=first + i, **given[i]) for i, ts in enumerate(times)]


def said(rows: list[Any], query: str = "q") -> list[str]:
    parts = [(r.low, r.high, r.ordinal, r.revision, r.retraction, r.values[0]) for r in rows if r.query == query]
    return [
        f"[{low},{high})#{n} {''.join(map(str, ids))} r{revision}{' gone' * gone}"
        for low, high, n, revision, gone, ids in sorted(parts, key=repr)
    ]


def upserted(table: Any) -> list[list[int]]:
    """What a sink holds that keeps the latest revision of each window, by the rule of the guide."""
    latest: dict[Any, Any] = {}
    for row in table.to_pylist():
        window = tuple(row["window"].values()) if row["low"] is None else None
        identity = (row["query"], row["low"], row["high"], window)
        if identity not in latest or latest[identity]["revision"] < row["revision"]:
            latest[identity] = row
    return sorted(row["q"]["ids"] for row in latest.values() if not row["retraction"])


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("key", [(), ("k",)])
def test_punctuations_at_one_time(in_order: bool, key: tuple[str, ...]) -> None:
    twins = Twins([Asked("q", Punctuation(Named("flag")))], in_order=in_order, key=key)
    twins.process(at(38, 38, flag=True, k="a"), at(38, 40, first=2, flag=True, k="a"))
    rows = twins.advance(None if in_order else 40)
    assert said(rows) == ["[38,38)#0 0 r0", "[38,38)#1 1 r0", "[38,40)#0 2 r0"]
    twins.finish()


def test_a_sink_that_keeps_the_latest_revision_loses_none() -> None:
    query = windlass.Query("q", windlass.Punctuation("mark"), agg.collect_list("x").alias("ids"))
    op = windlass.Operator(query, time="ts", sequence="seq", allowed_lateness=10)
    op.process({"ts": [38, 38, 38, 40], "seq": [0, 2, 4, 0], "mark": [True] * 4, "x": [1, 2, 3, 4]})
    first = op.advance(40)
    assert first["q"].column_names == ["window", "ordinal", "revision", "retraction", "ids"]
    tables = [first.to_arrow()]
    assert tables[0]["low"].null_count == 3
    assert tables[0]["high"].to_pylist() == [None, 1, None]
    assert upserted(tables[0]) == [[1], [2], [3]]
    op.process({"ts": [38], "seq": [1], "mark": [True], "x": [5]})  # in front of the second one
    tables.append(op.advance(40).to_arrow())
    assert upserted(pa.concat_tables(tables)) == [[1], [2], [3], [5]]


def test_a_late_window_moves_the_ordinals_of_those_behind_it() -> None:
    twins = Twins([Asked("q", Punctuation(Named("flag")))], sequence="seq", allowed_lateness=10)
    twins.process(at(38, 38, 38, 40, flag=True, seq=[0, 2, 4, 0]))
    assert said(twins.advance(40)) == ["[38,38)#0 0 r0", "[38,38)#1 1 r0", "[38,40)#0 2 r0"]
    twins.process(at(38, first=4, flag=True, seq=1))
    assert said(twins.advance(40)) == ["[38,38)#1 4 r1", "[38,38)#2 1 r0"]
    twins.finish()


@pytest.mark.parametrize("restart", [True, False])
def test_closed_windows_keep_their_ordinals(restart: bool) -> None:
    twins = Twins([Asked("q", Punctuation(Named("flag"))), Asked("t", Tumbling(5))])
    twins.process(at(5, 5, 5, flag=True))
    assert said(twins.advance(5)) == ["[5,5)#0 0 r0", "[5,5)#1 1 r0"]
    if restart:
        twins.restart()
    twins.process(at(5, 6, first=3, flag=True))
    assert said(twins.advance(6)) == ["[5,5)#2 2 r0", "[5,6)#0 3 r0"]
    twins.finish()


@pytest.mark.parametrize("restart", [True, False])
def test_ordinals_go_on_in_order(restart: bool) -> None:
    twins = Twins([Asked("q", ThresholdFrame(Named("flag")))], in_order=True, key=("k",))
    flags = [True, False, True, False]
    twins.process(at(5, 5, 5, 5, flag=flags, k=["a", "a", "b", "b"]))
    assert said(twins.advance()) == ["[5,5)#0 0 r0", "[5,5)#0 2 r0"]
    if restart:
        twins.restart()
    twins.process(at(5, 5, 5, 5, first=4, flag=flags, k="a"))
    assert said(twins.advance()) == ["[5,5)#1 4 r0", "[5,5)#2 6 r0"]
    twins.finish()


def two_at_once(state: Any, ts: Any, y: Any) -> Any:
    """Two windows begin where y is 1, and one ends where it is 2."""
    return state, 2 * (y == 1), y == 2


def test_two_windows_that_begin_with_one_event() -> None:
    # One is closed when the other ends. A late event changes what is in the other one only.
    twins = Twins([Asked("q", Deterministic(two_at_once, ("y",)))], allowed_lateness=1)
    twins.process(at(1, 2, 5, y=[1, 0, 2]))
    assert said(twins.advance(7)) == ["[1,5)#0 01 r0"]
    twins.process(at(3, first=3, y=2))  # now the first of them would end here, and the other one at 5
    assert said(twins.advance(7)) == ["[1,5)#1 013 r0"]
    assert said(twins.finish()) == []


def test_two_windows_that_come_out_at_one_time() -> None:
    def emitting(state: Any, ts: Any, y: Any) -> Any:
        return state, 0, y > 0

    twins = Twins([Asked("q", NonDeterministic(emitting, ("y",)))], allowed_lateness=3, sequence="seq")
    twins.process(at(1, 4, 4, y=[0, 1, 1], seq=[0, 1, 3]))
    assert said(twins.advance(5)) == ["[1,5)#0 01 r0", "[1,5)#1 012 r0"]
    twins.process(at(4, first=3, y=1, seq=2))
    assert said(twins.advance(5)) == ["[1,5)#1 013 r1", "[1,5)#2 0132 r0"]
    twins.finish()


def every_third(state: Any, ts: Any, flag: Any) -> Any:
    n = state[0] + 1
    return (n,), n % 3 == 1, flag and n % 2 == 0


@pytest.mark.parametrize("restart", [True, False])
def test_a_window_that_was_retracted_and_comes_back(restart: bool) -> None:
    twins = Twins([Asked("q", Deterministic(every_third, ("flag",)))], allowed_lateness=3)
    twins.process(at(1, 3, 6, 8, 11, 14, flag=[True, True, True, True, False, True]))
    assert said(twins.advance(15)) == ["[1,3)#0 0 r0", "[8,14)#0 34 r0"]
    twins.process(at(9, first=6, flag=True))
    assert said(twins.advance(17)) == ["[8,14)#0 34 r1 gone"]
    if restart:
        twins.restart()
    twins.process(at(13, first=7, flag=False))
    assert said(twins.advance(21)) == ["[8,14)#0 3647 r2"]
    twins.finish()


def test_a_window_that_comes_back_without_a_late_event() -> None:
    def ends(state: Any, ts: Any, y: Any) -> Any:
        """One window begins with the first event. It ends where the sum of y is 3."""
        total = state[0] + y
        return (total,), total == 0, total == 3

    twins = Twins([Asked("q", Deterministic(ends, ("y",), (-1,)))], allowed_lateness=20)
    twins.process(at(1, 5, y=[1, 3]))
    assert said(twins.advance(5)) == ["[1,5)#0 0 r0"]
    twins.process(at(3, first=2, y=-2))
    assert said(twins.advance(5)) == ["[1,5)#0 0 r1 gone"]
    twins.process(at(5, first=3, y=2))  # at the watermark, so in time
    assert said(twins.advance(5)) == ["[1,5)#0 021 r2"]
    twins.finish()


def test_a_snapshot_after_the_only_query_with_ordinals_was_removed() -> None:
    twins = Twins([Asked("q", Deterministic(every_third, ("flag",))), Asked("t", Tumbling(5))], in_order=True)
    twins.process(at(1, 2, 3, 4, flag=True))
    twins.remove("q")
    twins.restart()
    twins.process(at(9, first=4))
    twins.finish()


def test_nothing_is_remembered_for_ever() -> None:
    query = windlass.Query("q", windlass.Punctuation("flag"), agg.count())
    op = windlass.Operator(query, time="ts", key="k", allowed_lateness=5)
    for i in range(200):
        op.process({"ts": np.repeat(i, 6), "k": np.arange(6) % 2, "flag": np.ones(6, bool)})
        op.advance(i)
        assert op.counters["correctable"] <= 2 * 3 * 7


def test_a_result_needs_the_name() -> None:
    for window in (windlass.Punctuation("p"), windlass.ThresholdFrame("p"), windlass.Deterministic(every_third, "p")):
        with pytest.raises(InvalidArgument, match="every result has a column 'ordinal'"):
            windlass.Query("q", window, agg.count().alias("ordinal"))
        query = windlass.Query("q", window, agg.count())
        with pytest.raises(InvalidArgument, match="a key column cannot be named 'ordinal'"):
            windlass.Operator(query, time="ts", key="ordinal")
    plain = windlass.Query("q", windlass.Tumbling(5), agg.count().alias("ordinal"))
    events = {"ts": [1], "x": [2]}
    assert windlass.aggregate(events, plain, time="ts")["q"].column("ordinal").to_pylist() == [1]


def test_ordinals_of_windows_in_order() -> None:
    def following(*windows: tuple[int, int, int, int]) -> list[int]:
        return ordinals.next(*np.array(windows).T).tolist()

    ordinals = Ordinals(4)
    ordinals.add_keys(3)
    assert following((0, 1, 5, 5), (0, 1, 5, 5), (0, 1, 5, 9), (0, 2, 5, 9), (3, 1, 5, 9)) == [0, 1, 0, 0, 0]
    assert following((0, 1, 5, 9), (0, 2, 5, 9), (0, 2, 5, 9), (0, 2, 6, 9), (3, 1, 5, 10)) == [1, 1, 2, 0, 0]
    ordinals.renumber(np.array([0, 2]))
    assert following((0, 1, 6, 9)) == [1]
    assert following((0, 1, 6, 9), (0, 1, 6, 9), (0, 1, 7, 9)) == [2, 3, 0]
    ordinals.forget(np.array([1]))
    assert following((0, 1, 7, 9)) == [0]
