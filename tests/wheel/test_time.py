"""Time in a wheel: ticks of any length, unaligned starts, before the epoch, calendars, and quiet years."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import Wheel, agg
from windlass.errors import InvalidArgument, UnsupportedAggregate, WrongType
from windlass.wheel.overflow import Overflow, claim, earliest, schedule, take
from windlass.wheel.ticks import divided


@pytest.mark.parametrize("tick", ["1ms", "250ms", "1s", "7s", "1m", "1h", "1d"])
@pytest.mark.parametrize("start", ["1959-03-02 12:34:56.500", "2023-10-01 00:00:31"])
def test_any_tick_and_any_start(tick: str, start: str) -> None:
    w = Wheel(agg.sum(), start, tick=tick, dtype="int64")
    size = w.clock.tick
    first = int(w.start.astype(np.int64))
    rng = np.random.default_rng(5)
    times = first + rng.integers(0, 3000 * size, 500)
    values = rng.integers(-100, 100, 500)
    w.insert_many(values, times)
    w.advance_to(np.datetime64(first + 2500 * size, "us"))
    for _ in range(50):
        a, b = sorted((first + rng.integers(0, 2600, 2) * size).tolist())
        inside = (times >= a) & (times < min(b, first + 2500 * size))
        assert w.query(np.datetime64(a, "us"), np.datetime64(b, "us")) == (
            int(values[inside].sum()) if inside.any() else None
        )


def test_a_query_past_the_watermark_clips_and_does_not_shift() -> None:
    w = Wheel(agg.sum(), 0, tick=1, unit="s")
    w.insert_many([1, 2, 4, 8], [0, 1, 2, 3])
    w.advance_to(3)
    assert w.query(1, 100) == 6
    assert w.query(3, 100) is None
    assert w.query(-50, 2) == 3
    assert w.group_by(0, 100, 2).to_pydict() == {"start": [0, 2], "end": [2, 3], "sum()": [3, 4]}


def test_quiet_years_cost_nothing() -> None:
    aggregate, calls = agg.counted(agg.sum())
    w = Wheel(aggregate, "1990-01-01", tick="1ms", dtype="int64")
    w.window("1h", "1s")
    w.session("10s")
    w.insert(1, "1990-01-01 00:00:01")
    w.insert(2, "2020-05-05 05:05:05")  # waits in the overflow wheel for thirty years
    calls.reset()
    w.advance_to("2020-05-05 05:05:05.001")
    assert calls.total < 12_000  # a window each second for an hour; 9 · 10^11 ticks
    assert w.nbytes < 200_000
    assert w.query("1990-01-01", "2020-05-05 05:05:05") == 1
    assert w.landmark() == 3
    assert w.query("1990-01-02", "2020-05-05") is None
    w.check_invariants()


@pytest.mark.parametrize("short", [1, 500, 1023, 1024, 1025])
def test_an_event_that_waits_behind_a_quiet_time_holds_nothing_up(short: int) -> None:
    """The watermark stops before the event, near enough that nothing is left out; it once never got there."""
    w = Wheel(agg.sum(), 0, tick=1, write_ahead=16, dtype="int64")
    w.insert_many([1, 2], [3, 5000])
    w.advance_to(4 + 1024)
    w.advance_to(4 + 1024 + short)
    assert w.query(0, 6000) == 1
    w.advance_to(5001)
    assert w.query(0, 6000) == 3
    w.check_invariants()


def test_events_without_values_are_null_as_in_sql() -> None:
    w = Wheel(agg.min(), 0, tick=1, unit="s", dtype="int64")
    w.insert_many([None, 5, None], [0, 1, 2])
    w.advance_to(10)
    assert w.query(0, 1) is None
    assert w.query(0, 3) == 5
    assert w.query_many([0, 0, 5], [1, 3, 9]).to_pylist() == [None, 5, None]
    count = Wheel(agg.count(), 0, tick=1, unit="s")
    assert count.query(0, 5) == 0
    count.insert_many([None, None], [1, 1])
    count.advance_to(5)
    assert (count.query(0, 5), count.query(3, 5)) == (2, 0)


def test_late_events_are_reported() -> None:
    w = Wheel(agg.sum(), 100, tick=1, unit="s", dtype="int64")
    assert w.insert(1, 99) is False
    assert w.insert(1, 100) is True
    assert w.insert_many([1, 1, 1], [99, 105, 3]).tolist() == [0, 2]
    due = w.ingest([1, 1, 1, 1], [110, 111, 101, 112], every=2)
    assert due.late.tolist() == [2]
    assert w.late == 4


# --------------------------------------------------------------------------- calendars

ZONES = ("Europe/Stockholm", "America/New_York", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia")


@pytest.mark.parametrize("zone", ZONES)
def test_days_of_a_time_zone(zone: str) -> None:
    from zoneinfo import ZoneInfo

    w = Wheel(agg.count(), "2011-12-01", tick="15m")
    edges = [datetime.datetime(2011, 12, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=h) for h in range(24 * 400)]
    w.insert_many(np.zeros(len(edges)), [e.replace(tzinfo=None) for e in edges])
    w.advance_to("2013-01-01")
    table = w.group_by("2011-12-01", "2013-01-01", "day", zone=zone).to_pydict()
    expected: dict[datetime.date, int] = {}
    for e in edges:
        if e < datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC):
            day = e.astimezone(ZoneInfo(zone)).date()
            expected[day] = expected.get(day, 0) + 1
    assert table["count()"] == list(expected.values())
    days = [s.astimezone(ZoneInfo(zone)).date() for s in table["start"]]
    assert days == list(expected)
    if zone == "Europe/Stockholm":
        lengths = {(e - s) for s, e in zip(table["start"], table["end"], strict=True)}
        assert {datetime.timedelta(hours=h) for h in (23, 24, 25)} <= lengths


@pytest.mark.parametrize("unit", ["week", "month", "quarter", "year"])
def test_calendar_groups(unit: str) -> None:
    w = Wheel(agg.count(), "2019-12-15", tick="1d")
    days = np.arange("2019-12-15", "2022-03-10", dtype="M8[D]")
    w.insert_many(np.zeros(len(days)), days)
    w.advance_to("2022-03-10")
    table = w.group_by("2019-12-15", "2022-03-10", unit).to_pydict()
    expected: dict[Any, int] = {}
    for day in days.astype(object):
        key = {
            "week": day.isocalendar()[:2],
            "month": (day.year, day.month),
            "quarter": (day.year, (day.month - 1) // 3),
            "year": day.year,
        }[unit]
        expected[key] = expected.get(key, 0) + 1
    assert table["count()"] == list(expected.values())


def test_groups_are_checked() -> None:
    w = Wheel(agg.count(), "2020-01-01", tick="1h")
    w.advance_to("2020-02-01")
    with pytest.raises(InvalidArgument, match="not a time zone"):
        w.group_by("2020-01-01", "2020-01-02", "day", zone="Mars/Olympus")
    with pytest.raises(InvalidArgument, match="does not begin with a tick"):
        w.group_by("2020-01-01", "2020-01-03", "day", zone="Asia/Kathmandu")
    with pytest.raises(InvalidArgument, match="is for calendar groups"):
        w.group_by("2020-01-01", "2020-01-02", "2h", zone="UTC")
    with pytest.raises(InvalidArgument, match="finer than the tick"):
        w.query("2020-01-01 00:30", "2020-01-02")


# --------------------------------------------------------------------------- windows that come later, bad input, parts


@pytest.mark.parametrize("gap", [0, 5000])
def test_a_window_that_is_added_later_sees_what_is_retained(gap: int) -> None:
    w = Wheel(agg.sum(), 0, tick=1, unit="s", dtype="int64", retention={1: 50} if not gap else "keep")
    w.insert_many(np.ones(200, np.int64), np.arange(200))
    w.advance_to(100)
    w.insert_many(np.ones(100, np.int64), np.arange(200 + gap, 300 + gap))
    w.advance_to(250 + gap)
    w.window(40, 10)
    w.window(100, 50, label="long")
    due = w.advance_to(300 + gap).table.to_pylist()
    short = [(d["start"] - gap, d["sum()"]) for d in due if d["window"] == "40s/10s" or d["window"] == "40/10"]
    assert short == [(220, 40), (230, 40), (240, 40), (250, 40), (260, 40)]
    long = [(d["start"] - gap, d["sum()"]) for d in due if d["window"] == "long"]
    assert long == [(200, 100)]


def test_bad_input_is_refused_before_anything_changes() -> None:
    with pytest.raises(UnsupportedAggregate, match="commutative"):
        Wheel(agg.first(), 0)
    with pytest.raises(UnsupportedAggregate, match="inverse"):
        Wheel(agg.max(), 0, prefix=True)
    with pytest.raises(InvalidArgument, match="multiple of the level below"):
        Wheel(agg.sum(), 0, tick=1, levels=[1, 7, 10])
    with pytest.raises(InvalidArgument, match="one tick"):
        Wheel(agg.sum(), 0, tick=1, levels=[2, 10])
    with pytest.raises(InvalidArgument, match="no level of that length"):
        Wheel(agg.sum(), 0, tick=1, levels=[1, 10], retention={5: "drop"})
    w = Wheel(agg.sum(), 0, tick=1, unit="s")
    with pytest.raises(InvalidArgument, match="3 values and 2 times"):
        w.insert_many([1, 2, 3], [0, 1])
    with pytest.raises(WrongType):
        w.insert_many(["a", "b"], [0, 1])
    with pytest.raises(InvalidArgument, match="time in row 1 is null"):
        w.insert_many([1, 2], [0, None])
    w.insert_many([1], [0])
    with pytest.raises(WrongType):
        w.insert(1.5, 3)
    with pytest.raises(InvalidArgument, match="slide"):
        w.window(5, 10)
    with pytest.raises(InvalidArgument, match="no keys"):
        w.query(0, 1, key="x")
    with pytest.raises(InvalidArgument, match="has a key"):
        Wheel(agg.sum(), 0, keys=True).insert(1, 2)
    w.advance_to(10)
    assert w.landmark() == 1


def test_plain_integers_are_no_lengths_over_timestamps() -> None:
    with pytest.raises(WrongType, match="the tick of the wheel is the plain integer 60, but times are timestamps"):
        Wheel(agg.sum(), "2024-05-01", tick=60)
    with pytest.raises(WrongType, match="a level is the plain integer"):
        Wheel(agg.sum(), "2024-05-01", levels=["1s", 60])
    w = Wheel(agg.sum(), "2024-05-01", tick="1s", dtype="int64")
    for call in (lambda: w.window(60, "1s"), lambda: w.window("1m", 1), lambda: w.session(30)):
        with pytest.raises(WrongType, match="plain integer"):
            call()
    assert w.explain_windows() == "no periodic windows"


@given(st.lists(st.integers(0, 10**12), max_size=30), st.lists(st.integers(1, 10**12), max_size=10))
def test_the_timing_wheel_hands_out_entries_in_time(ticks: list[int], advances: list[int]) -> None:
    overflow = Overflow(agg.count().monoid([], nullable=False))
    for tick in ticks:
        entry = claim(overflow.wheel)
        if entry < 0:
            overflow.grow()
            entry = claim(overflow.wheel)
        overflow.ticks[entry] = tick
        schedule(overflow.wheel, entry)
    overflow.check_invariants()
    found = []
    for limit in [*sorted(advances), 2 * 10**12]:
        slot, begin = earliest(overflow.wheel)
        while slot >= 0 and begin < limit:
            entry = int(take(overflow.wheel, slot, begin))
            while entry >= 0:
                following = int(overflow.links[entry])
                if slot < 32:
                    assert overflow.ticks[entry] == begin
                    found.append(int(begin))
                else:
                    schedule(overflow.wheel, entry)
                entry = following
            slot, begin = earliest(overflow.wheel)
    assert found == sorted(ticks)


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**45))
def test_divided_is_floor_division(n: int, size: int) -> None:
    assert divided(n, size) == n // size
