"""What a user may write for a duration, what it means, and what is refused with which words."""

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass import durations
from windlass.errors import InvalidArgument, WindlassError, WrongType

MS = 1_000
S = 1_000 * MS
M = 60 * S
H = 60 * M
D = 24 * H

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

int64s = st.integers(INT64_MIN, INT64_MAX)
units = st.sampled_from(["ns", "us", "ms", "s"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 minutes", 5 * M),
        ("1 minute", M),
        ("1m", M),
        ("1 m", M),
        ("10min", 10 * M),
        ("3 mins", 3 * M),
        ("250ms", 250 * MS),
        ("250 milliseconds", 250 * MS),
        ("7us", 7),
        ("7µs", 7),  # micro sign
        ("7μs", 7),  # Greek mu
        ("7 microseconds", 7),
        ("3000ns", 3),
        ("30 secs", 30 * S),
        ("1 hr", H),
        ("2 hrs", 2 * H),
        ("2d", 2 * D),
        ("1 week", 7 * D),
        ("2w", 14 * D),
        ("1 hour 30 minutes", H + 30 * M),
        ("1h30m", H + 30 * M),
        ("1d 2h 3m 4s 5ms 6us", D + 2 * H + 3 * M + 4 * S + 5 * MS + 6),
        ("1 minute 1 minute", 2 * M),
        ("1 hour -30 minutes", 30 * M),
        ("+5 minutes", 5 * M),
        ("interval 2 days", 2 * D),
        ("INTERVAL 2 DAYS", 2 * D),
        ("5 Minutes", 5 * M),
        ("  5   minutes  ", 5 * M),
        ("5\tminutes\n", 5 * M),
        ("1.5s", 1_500 * MS),
        ("1.5 hours", H + 30 * M),
        (".5s", 500 * MS),
        ("0.000001s", 1),
        ("0.5ms", 500),
        ("007s", 7 * S),
    ],
)
def test_text(text, expected):
    assert durations.parse(text) == expected


@pytest.mark.parametrize(("unit", "expected"), [("ns", 90 * 10**9), ("us", 90 * S), ("ms", 90_000), ("s", 90)])
def test_the_result_counts_the_streams_unit(unit, expected):
    assert durations.parse("1m30s", unit=unit) == expected
    assert durations.parse(datetime.timedelta(seconds=90), unit=unit) == expected
    assert durations.parse(np.timedelta64(90, "s"), unit=unit) == expected
    assert durations.parse(pd.Timedelta(seconds=90), unit=unit) == expected


@pytest.mark.parametrize("integer", [1, 250, np.int64(250), np.int8(5), np.uint64(9), INT64_MAX])
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_integers_are_in_the_streams_unit_already(integer, unit):
    count = durations.parse(integer, unit=unit)
    assert count == integer
    assert type(count) is int


def test_numpy_durations():
    assert durations.parse(np.timedelta64(5, "m")) == 5 * M
    assert durations.parse(np.timedelta64(2, "W")) == 14 * D
    assert durations.parse(np.timedelta64(3, "D")) == 3 * D
    assert durations.parse(np.timedelta64(3_000_000, "ps")) == 3
    assert durations.parse(np.array([3], dtype="timedelta64[25s]")[0]) == 75 * S


def test_nanoseconds_of_a_pandas_timedelta_are_not_lost():
    assert durations.parse(pd.Timedelta(nanoseconds=1_001), unit="ns") == 1_001
    with pytest.raises(InvalidArgument, match="not a whole number of us"):
        durations.parse(pd.Timedelta(nanoseconds=1_001), unit="us")


@pytest.mark.parametrize(
    ("duration", "unit"),
    [
        ("1.5s", "s"),
        ("1ns", "us"),
        ("0.1us", "us"),
        ("250ms", "s"),
        ("0.0000001s", "us"),
        (datetime.timedelta(microseconds=1), "ms"),
        (np.timedelta64(1, "ps"), "ns"),
    ],
)
def test_what_is_not_whole_is_refused_rather_than_rounded(duration, unit):
    with pytest.raises(InvalidArgument, match=f"not a whole number of {unit}"):
        durations.parse(duration, unit=unit)


def test_inexact_components_may_add_up_to_something_exact():
    assert durations.parse("0.5ms 0.5ms", unit="ms") == 1


@pytest.mark.parametrize(
    "duration",
    [
        "1 month",
        "2 Months",
        "1 mon",
        "1mo",
        "1 year",
        "3 YEARS",
        "1y",
        "1 yr",
        "2 quarters",
        "1 year 2 days",
        "interval 1 month",
        np.timedelta64(1, "M"),
        np.timedelta64(1, "Y"),
    ],
)
def test_calendar_units_are_refused_with_the_reason(duration):
    with pytest.raises(InvalidArgument, match=r"length varies; use days, or group by the calendar"):
        durations.parse(duration)


def test_a_capital_m_is_neither_minute_nor_month():
    with pytest.raises(InvalidArgument, match=r"'M' is not a unit; write 'm' for minutes.*length varies"):
        durations.parse("1M")


@pytest.mark.parametrize(("text", "meant"), [("1H", "h"), ("5S", "s"), ("5MS", "ms"), ("2D", "d")])
def test_short_units_are_lower_case(text, meant):
    with pytest.raises(InvalidArgument, match=f"did you mean '{meant}'"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["", "   ", "interval", "interval  "])
def test_empty_text(text):
    with pytest.raises(InvalidArgument, match="is empty"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["5", "-5", " 5.0 ", "interval 5"])
def test_text_without_a_unit(text):
    with pytest.raises(InvalidArgument, match="has no unit"):
        durations.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "minutes",
        "five minutes",
        "5 minutes ago!",
        "1e3s",
        "1_000s",
        "5.s",
        "1..5s",
        "1,5s",
        "1 hour, 30 minutes",
        "1 hour and 30 minutes",
        "--5s",
        "interval2 days",
        "5 lightyears",
        "5 minutes 3",
        "٥ minutes",  # digits of another script
        "nan",
        "inf s",
        "PT5M",
        "00:05:00",
    ],
)
def test_text_that_is_not_a_duration(text):
    with pytest.raises(InvalidArgument):
        durations.parse(text)


def test_the_message_points_at_what_was_not_understood():
    with pytest.raises(InvalidArgument, match=r"'1 hour, 30 minutes' is not understood at ', 30 minutes'"):
        durations.parse("1 hour, 30 minutes")


@pytest.mark.parametrize("duration", [0, "0s", "0 minutes", datetime.timedelta(0), np.timedelta64(0, "s"), "1m -60s"])
def test_zero(duration):
    with pytest.raises(InvalidArgument, match=r"must be positive.*zero"):
        durations.parse(duration)
    assert durations.parse(duration, positive=False) == 0


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (-1, -1),
        ("-5 minutes", -5 * M),
        ("- 5 minutes", -5 * M),
        ("-1.5s", -1_500 * MS),
        ("30m -1h", -30 * M),
        (datetime.timedelta(microseconds=-1), -1),
        (datetime.timedelta(days=-1, seconds=1), -D + S),
        (np.timedelta64(-5, "m"), -5 * M),
        (np.int64(-7), -7),
    ],
)
def test_negative(duration, expected):
    with pytest.raises(InvalidArgument, match=r"must be positive.*negative"):
        durations.parse(duration)
    assert durations.parse(duration, positive=False) == expected


@pytest.mark.parametrize(
    ("duration", "unit"),
    [
        (INT64_MAX + 1, "us"),
        pytest.param(10**5_000, "us", id="5001 digits"),
        (np.uint64(2**63), "us"),
        (f"{INT64_MAX + 1}us", "us"),
        ("200000000 days", "us"),
        ("106752 days", "ns"),
        pytest.param("9" * 4_000 + "s", "us", id="4000 digits"),
        (datetime.timedelta.max, "ns"),
        (np.timedelta64(INT64_MAX, "s"), "us"),
    ],
)
def test_overflow(duration, unit):
    with pytest.raises(InvalidArgument, match=f"does not fit in 64 bits when counted in {unit}"):
        durations.parse(duration, unit=unit)


def test_numbers_with_more_digits_than_python_converts():
    with pytest.raises(InvalidArgument, match="too many digits"):
        durations.parse("9" * 5_000 + "s")


def test_the_extremes_of_64_bits_fit():
    assert durations.parse(f"{INT64_MAX}us") == INT64_MAX
    assert durations.parse(f"{INT64_MIN}us", positive=False) == INT64_MIN
    assert durations.parse(INT64_MIN, positive=False) == INT64_MIN


@pytest.mark.parametrize("duration", [True, False, np.True_])
def test_a_bool_is_not_a_duration(duration):
    with pytest.raises(WrongType, match="bool"):
        durations.parse(duration, positive=False)


@pytest.mark.parametrize("duration", [5.0, 1.5, math.nan, math.inf, np.float64(5), np.float32(math.nan)])
def test_a_float_is_not_a_duration(duration):
    with pytest.raises(WrongType, match=r"cannot be a float.*exact.*'1\.5s'"):
        durations.parse(duration)


@pytest.mark.parametrize(
    "duration",
    [None, b"5s", [5], Decimal(5), Fraction(5), datetime.time(1), np.array([5]), pd.NaT, 5j],
)
def test_other_types(duration):
    with pytest.raises(WrongType, match=f"got {type(duration).__name__}"):
        durations.parse(duration)


def test_not_a_time():
    with pytest.raises(InvalidArgument, match="NaT"):
        durations.parse(np.timedelta64("NaT", "s"))


def test_numpy_duration_without_a_unit():
    with pytest.raises(InvalidArgument, match="has no unit"):
        durations.parse(np.timedelta64(5))


@pytest.mark.parametrize("unit", ["m", "", "US", "seconds", None, ["us"]])
def test_unknown_stream_unit(unit):
    with pytest.raises(InvalidArgument, match="one of ns, us, ms, s"):
        durations.parse("5s", unit=unit)
    with pytest.raises(InvalidArgument, match="one of ns, us, ms, s"):
        durations.format(5, unit)


@pytest.mark.parametrize(
    ("count", "unit", "expected"),
    [
        (5 * M, "us", "5m"),
        (H + 30 * M, "us", "1h30m"),
        (250 * MS, "us", "250ms"),
        (1_500 * MS, "us", "1.5s"),
        (1_500, "us", "1.5ms"),
        (1_001_000, "us", "1.001s"),
        (1_000_001, "us", "1.000001s"),
        (1, "us", "1us"),
        (1, "ns", "1ns"),
        (1_500, "ns", "1.5us"),
        (60, "s", "1m"),
        (90, "s", "1m30s"),
        (7 * D, "us", "7d"),
        (D + 1, "us", "1d1us"),
        (D + H + M + S, "us", "1d1h1m1s"),
        (24, "s", "24s"),
        (0, "us", "0s"),
        (-5 * M, "us", "-5m"),
        (-(H + 30 * M), "us", "-1h-30m"),
        (np.int64(5 * M), "us", "5m"),
        (np.int64(INT64_MIN), "us", "-106751991d-4h-54.775808s"),
    ],
)
def test_format(count, unit, expected):
    assert durations.format(count, unit) == expected
    assert durations.parse(expected, unit=unit, positive=False) == count


@given(int64s, units)
@example(INT64_MIN, "ns")
@example(INT64_MAX, "s")
@example(0, "ms")
def test_what_is_formatted_parses_back(count, unit):
    assert durations.parse(durations.format(count, unit), unit=unit, positive=False) == count


@given(st.integers(0, 10**6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999))
def test_text_agrees_with_timedelta(days, hours, minutes, seconds, microseconds):
    text = f"{days} days {hours} hours {minutes}m {seconds}.{microseconds:06}s"
    delta = datetime.timedelta(days, seconds, microseconds, minutes=minutes, hours=hours)
    assert durations.parse(text, positive=False) == durations.parse(delta, positive=False)
    assert durations.parse(delta, positive=False) == delta // datetime.timedelta(microseconds=1)


@given(st.timedeltas(min_value=-datetime.timedelta(days=10**5), max_value=datetime.timedelta(days=10**5)))
def test_numpy_and_pandas_agree_with_timedelta(delta):
    expected = durations.parse(delta, positive=False)
    assert durations.parse(np.timedelta64(delta), positive=False) == expected
    assert durations.parse(pd.Timedelta(delta), positive=False) == expected


@given(st.text(), units)
@example("1" * 10_000, "us")
@example("interval 1\u00a0day", "us")
def test_any_text_is_parsed_or_refused_with_an_error_of_the_package(text, unit):
    try:
        count = durations.parse(text, unit=unit)
    except WindlassError:
        return
    assert 0 < count <= INT64_MAX
