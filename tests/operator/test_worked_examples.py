"""The worked examples of the papers, drawn as timelines.

Cutty: Carbone et al., "Cutty: Aggregate Sharing for User-Defined Windows" (CIKM 2016). Scotty: Traub et al., "Efficient
Window Aggregation with General Stream Slicing" (EDBT 2019). `Twins` compares each step with the oracle besides.
"""

from __future__ import annotations

from typing import Any

import pytest
from oracle import (
    DataDriven,
    Deterministic,
    LastN,
    Punctuation,
    Row,
    Session,
    Sliding,
    Tumbling,
)

from tests.operator.rows import Asked, Named, Twins, event
from tests.operator.streams import count_range_slide


def at(*times: int, ids: int = 0, **columns: Any) -> list[dict[str, Any]]:
    return [event(ts, id=ids + i, x=ts, **columns) for i, ts in enumerate(times)]


def said(rows: list[Row], *parts: str, query: str | None = None) -> list[tuple[Any, ...]]:
    """The named parts of rows, in order."""
    return sorted(tuple(getattr(row, part) for part in parts) for row in rows if query in (None, row.query))


@pytest.fixture(params=["in-order", "out-of-order"])
def in_order(request: Any) -> bool:
    return bool(request.param == "in-order")


# --------------------------------------------------------------------------- Cutty


def test_cutty_figure_1_a_dynamic_window(in_order: bool) -> None:
    """The volume-weighted price of the last 10 minutes every 5; when the price falls to $10, of the last 5 every 2."""
    # minute  0    5    10   15   20   25 27 29   32   34
    # price   |---------- $12 ---------|------ $9 ------
    #         |---------|
    #              |---------|
    #                   |---------|
    #                        |---------|
    #                             |----|               open when the price falls: 5 minutes are enough now
    #                                  |----|          ends before minute 30, the first at which it is 5 old
    #                                     |----|
    #                                       |----|

    def rule(ts: Any, price: Any) -> Any:
        return (10, 5) if price > 10 else (5, 2)

    twins = Twins([Asked("q", DataDriven(rule, ("f",)), ("vwap", "events"))], in_order=in_order)
    price = {True: 12.0, False: 9.0}
    trades = [event(m, id=m, f=price[m < 25], y=1 + m % 3) for m in range(36)]
    twins.process(trades[:20], trades[20:])
    rows = twins.advance(None if in_order else 35)
    assert said(rows, "low", "high", "values") == [
        (0, 10, (12.0, 10)),
        (5, 15, (12.0, 10)),
        (10, 20, (12.0, 10)),
        (15, 25, (12.0, 10)),
        (20, 25, (12.0, 5)),
        (25, 30, (9.0, 5)),
        (27, 32, (9.0, 5)),
        (29, 34, (9.0, 5)),
    ]
    assert said(twins.finish(partial=True), "low", "high") == [(31, 36), (33, 36), (35, 36)]


def scripted(state: Any, ts: Any) -> Any:
    """Figure 4: two windows begin with s1, one each with s3, s6, s8; one each ends before s6, s7, s9."""
    k = state[0] + 1
    begins = 2 if k == 1 else (1 if k == 3 or k == 6 or k == 8 else 0)
    ends = 1 if k == 6 or k == 7 or k == 9 else 0
    return (k,), begins, ends


def test_cutty_figure_4_deterministic_windows_share_slices(in_order: bool) -> None:
    # s        1  2  3  4  5  6  7  8  9
    # slices   |-----|--------|-----|--|        P(s[1,2]) P(s[3,5]) P(s[6,7]) P(s[8,8])
    # s[1,5]   |--------------|
    # s[1,6]   |-----------------|
    # s[3,8]         |-----------------|
    twins = Twins([Asked("q", Deterministic(scripted), ("sum", "list"))], in_order=in_order)
    twins.process(at(*range(1, 10), ids=1))
    rows = twins.advance(None if in_order else 9)
    assert said(rows, "low", "high", "values") == [
        (1, 6, (15, [1, 2, 3, 4, 5])),
        (1, 7, (21, [1, 2, 3, 4, 5, 6])),
        (3, 9, (33, [3, 4, 5, 6, 7, 8])),
    ]


def test_cutty_figure_5_two_user_defined_windows(in_order: bool) -> None:
    # record      0  1  2  3  4  5  6  7  8
    # 4 by 2      |-----------|
    #                   |-----------|
    #                         |-----------|
    # 5 by 3      |--------------|
    #                      |--------------|
    # The same as count windows, which know their range beforehand.
    asked = [
        Asked("upper", Deterministic(count_range_slide, (), (0, 4, 2))),
        Asked("lower", Deterministic(count_range_slide, (), (0, 5, 3))),
        Asked("count upper", Sliding(4, 2, measure="count")),
        Asked("count lower", Sliding(5, 3, measure="count")),
    ]
    twins = Twins(asked, in_order=in_order)
    twins.process(at(*range(9)))
    rows = twins.advance(None if in_order else 8)
    assert [lists for ((lists,),) in said(rows, "values", query="upper")] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert [lists for ((lists,),) in said(rows, "values", query="lower")] == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]
    for name in ("upper", "lower"):
        assert said(rows, "values", query=name) == said(rows, "values", query=f"count {name}")


def test_cutty_figure_6_two_measures(in_order: bool) -> None:
    # A vehicle reports its mileage. Windows of 10 s every 6 s, and of 10 km every 5 km.
    # s      0   2   4   6   8   10  12  14  16  18  20
    # km     0   1   3   6   9   11  12  12  14  19  21
    #        |-------------------|                           10 s
    #                    |-------------------|
    #        |-------------------|                           10 km: ends where 10 is reached
    #                    |-----------------------|           5 to 15 km
    km = [0, 1, 3, 6, 9, 11, 12, 12, 14, 19, 21]
    twins = Twins([Asked("s", Sliding(10, 6)), Asked("km", Sliding(10, 5, measure="km"))], in_order=in_order)
    twins.process([event(2 * i, id=i, km=at_km) for i, at_km in enumerate(km)])
    rows = twins.advance(None if in_order else 20)
    assert said(rows, "low", "high", "values", query="s") == [
        (-6, 4, ([0, 1],)),
        (0, 10, ([0, 1, 2, 3, 4],)),
        (6, 16, ([3, 4, 5, 6, 7],)),
    ]
    assert said(rows, "low", "high", "start", "end", "values", query="km") == [
        (-5, 5, 0, 5, ([0, 1, 2],)),
        (0, 10, 0, 9, ([0, 1, 2, 3, 4],)),
        (5, 15, 6, 17, ([3, 4, 5, 6, 7, 8],)),
        (10, 20, 10, 19, ([5, 6, 7, 8, 9],)),
    ]


def test_cutty_figure_7_a_count_window_of_range_10_and_slide_3(in_order: bool) -> None:
    # |-----------------------------|
    #          |-----------------------------|
    #                   |-----------------------------|
    # 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16
    # Panes cut after each record, Pairs after 1 and 2 in turn, Cutty after every 3.
    twins = Twins([Asked("q", Sliding(10, 3, measure="count"), ("sum", "max"))], in_order=in_order)
    twins.process(at(*range(17)))
    rows = twins.advance(None if in_order else 16)
    assert said(rows, "low", "values") == [(0, (45, 9)), (3, (75, 12)), (6, (105, 15))]


def test_cutty_3_2_the_last_10_records_every_5_seconds(in_order: bool) -> None:
    # Non-deterministic: r1 arrives first, then another 10 before the edge, and r1 is not part of the window.
    # s   0 1 1 1 1 1 1 1 1 1 1 | 5      12 |       at 10, of the first ten and the one at 5, the last ten
    twins = Twins([Asked("q", LastN(10, 5))], in_order=in_order)
    twins.process(at(0, *[1] * 10, 5, 12))
    rows = twins.advance(None if in_order else 12)
    assert said(rows, "low", "high", "values") == [(1, 5, (list(range(1, 11)),)), (1, 10, (list(range(2, 12)),))]
    assert said(twins.finish(), "low", "high", "values") == [(1, 15, (list(range(3, 13)),))]


# --------------------------------------------------------------------------- Scotty


def test_scotty_figure_1_common_window_types(in_order: bool) -> None:
    # ts          1  3     7 8        14 15          22
    # tumbling    |--- 0 ---|--- 10 ---|--- 20 ---|          length 10
    # sliding     |--- 0 ---|
    #                  |--- 5 ---|                           length 10, slide 5
    # sessions    |---------|      |----|        |--|        gap 4
    asked = [Asked("tumbling", Tumbling(10)), Asked("sliding", Sliding(10, 5)), Asked("session", Session(4))]
    twins = Twins(asked, in_order=in_order)
    twins.process(at(1, 3, 7, 8), at(14, 15, 22, ids=4))
    rows = twins.advance(None if in_order else 22) + twins.finish()
    assert said(rows, "low", "values", query="tumbling") == [(0, ([0, 1, 2, 3],)), (10, ([4, 5],)), (20, ([6],))]
    assert said(rows, "low", "values", query="sliding") == [
        (-5, ([0, 1],)),
        (0, ([0, 1, 2, 3],)),
        (5, ([2, 3, 4],)),
        (10, ([4, 5],)),
        (15, ([5, 6],)),
        (20, ([6],)),
    ]
    assert said(rows, "low", "high", "values", query="session") == [
        (1, 12, ([0, 1, 2, 3],)),
        (14, 19, ([4, 5],)),
        (22, 26, ([6],)),
    ]


def test_scotty_figure_2_windows_are_combined_from_shared_slices() -> None:
    # slices    |  2   3  | 1 4 | 6 |     5   |       partial sums   5, 5, 6, 5
    # ts        0  1   2  4 4 5 6 6 8     9   10
    # A         |---------------|                     10
    # B                   |---------|                 11
    # C                         |-------------|       11
    x = [(1, 2), (2, 3), (4, 1), (5, 4), (6, 6), (9, 5)]
    asked = [
        Asked("A", Tumbling(6), ("sum",)),
        Asked("B", Tumbling(4), ("sum",)),
        Asked("C", Sliding(4, 2), ("sum",)),
    ]
    twins = Twins(asked)
    twins.process([event(ts, id=i, x=v) for i, (ts, v) in enumerate(x)])
    rows = twins.advance(10)
    assert said(rows, "low", "values", query="A") == [(0, (10,))]
    assert said(rows, "low", "values", query="B") == [(0, (5,)), (4, (11,))]
    assert said(rows, "low", "values", query="C") == [(-2, (2,)), (0, (5,)), (2, (8,)), (4, (11,)), (6, (11,))]


def test_scotty_2_a_tuple_after_the_watermark_but_in_the_allowed_lateness_updates_the_aggregate() -> None:
    twins = Twins([Asked("q", Tumbling(10), ("sum",))], allowed_lateness=5)
    twins.process(at(1, 5, 12))
    assert said(twins.advance(12), "low", "revision", "values") == [(0, 0, (6,))]
    twins.process(at(7, ids=3))
    assert said(twins.advance(14), "low", "revision", "values") == [(0, 1, (13,))]
    twins.advance(15)
    twins.process(at(8, ids=4))  # [0, 10) is past correction, and so is the tuple
    assert twins.advance(16) == []
    assert said(twins.finish(), "low", "values") == [(10, (12,))]


def test_scotty_3_3_a_tuple_is_in_10_windows_of_20_seconds_every_2() -> None:
    twins = Twins([Asked("q", Sliding(20, 2))])
    twins.process(at(21))
    assert said(twins.finish(), "low") == [(low,) for low in range(2, 21, 2)]


def test_scotty_4_3_an_out_of_order_tuple_changes_the_count_of_all_tuples_after_it() -> None:
    # ts     1  2 | 4  5 | 7  8                1  2 | 3  4 | 5  7 | 8
    # the last tuple of each window shifts to the next one
    twins = Twins([Asked("q", Tumbling(2, measure="count"), ("list", "sum"))], allowed_lateness=100)
    twins.process(at(1, 2, 4, 5, 7, 8))
    twins.advance(8)
    twins.process(at(3, ids=6))
    assert said(twins.advance(8), "low", "revision", "values") == [(2, 1, ([6, 2], 7)), (4, 1, ([3, 4], 12))]
    assert said(twins.process(at(9, ids=7)).finish(), "low", "values") == [(6, ([5, 7], 17))]


def test_scotty_4_4_punctuations_are_forward_context_free() -> None:
    # Once all tuples up to t have been processed, all windows up to t are known, whatever came out of order.
    # ts     1  P3  4  P6  8         then the punctuation at 5 comes
    twins = Twins([Asked("q", Punctuation(Named("flag")))], allowed_lateness=100)
    twins.process([event(ts, id=ts, flag=ts in (3, 6)) for ts in (1, 6, 4, 3, 8)])
    assert said(twins.advance(8), "low", "high", "values") == [(1, 3, ([1],)), (3, 6, ([3, 4],))]
    twins.process([event(5, id=5, flag=True)])
    assert said(twins.advance(8), "low", "high", "retraction", "values") == [
        (3, 5, False, ([3, 4],)),
        (3, 6, True, ([3, 4],)),
        (5, 6, False, ([5],)),
    ]


def test_scotty_5_2_sessions_never_need_the_tuples_of_a_slice_again() -> None:
    # gap 3      0  2      8  10            two sessions
    #            0  2  5   8  10            5 is within the gap of both and merges them
    twins = Twins([Asked("q", Session(3), ("sum", "max"))], allowed_lateness=100)
    twins.process(at(8, 0, 10, 2))
    assert said(twins.advance(20), "low", "high", "values") == [(0, 5, (2, 2)), (8, 13, (18, 10))]
    twins.process(at(5, ids=4))
    assert said(twins.advance(20), "low", "high", "retraction", "values") == [
        (0, 5, True, (2, 2)),
        (0, 13, False, (25, 10)),
        (8, 13, True, (18, 10)),
    ]
