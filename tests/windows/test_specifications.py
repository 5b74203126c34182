"""Window specifications: what they become in a stream's unit, how they read, when they are equal, what is refused."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

from windlass import windows
from windlass.errors import InvalidArgument, WindlassError, WrongType
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
    Window,
)
from windlass.windows.session import SessionGap
from windlass.windows.window import Discretizer, Periodic

UTC = datetime.UTC
MINUTE = 60_000_000


def rule(ts: Any, *values: Any) -> Any:
    return 10, 5


def step(state: Any, ts: Any, *values: Any) -> Any:
    return state, 1, 1


def is_late(table: Any) -> Any:
    return pc.greater(table["delay"], 5)


# Each with its repr.
READ = [
    (Tumbling("5 minutes"), "Tumbling(5m)"),
    (Tumbling(5, offset=-2, measure="count"), "Tumbling(5, offset=-2, measure='count')"),
    (Tumbling("1h", offset="15m"), "Tumbling(1h, offset=15m)"),
    (Tumbling(10, measure="kilometres"), "Tumbling(10, measure='kilometres')"),
    (Sliding("60s", datetime.timedelta(seconds=5)), "Sliding(1m, 5s)"),
    (Cumulate("1h", "1d"), "Cumulate(1h, 1d)"),
    (Band("2026-01-01T09:00", "8h"), "Band(2026-01-01T09:00:00, 8h)"),
    (Band(100, 50), "Band(100, 50)"),
    (Landmark("2026-01-01", "1d"), "Landmark(2026-01-01T00:00:00, 1d)"),
    (Session("30m"), "Session(30m)"),
    (Punctuation("closing"), "Punctuation('closing')"),
    (Punctuation(pc.field("price") < 10), "Punctuation((price < 10))"),
    (Punctuation(is_late), "Punctuation(is_late)"),
    (ThresholdFrame("fast"), "ThresholdFrame('fast')"),
    (ThresholdFrame("fast", 3), "ThresholdFrame('fast', min_size=3)"),
    (SlideByTuple("10s"), "SlideByTuple(10s)"),
    (SlideByTuple("10s", 100), "SlideByTuple(10s, every=100)"),
    (LastN(10, "5s"), "LastN(10, 5s)"),
    (Snapshot("8h"), "Snapshot(8h)"),
    (DataDriven(rule), "DataDriven(rule)"),
    (DataDriven(rule, ("price",)), "DataDriven(rule, columns=('price',))"),
    (Deterministic(step, "price"), "Deterministic(step, columns=('price',))"),
    (NonDeterministic(step, ("a", "b"), (0, 0.5)), "NonDeterministic(step, columns=('a', 'b'), state=(0, 0.5))"),
]
SPECIFICATIONS = [window for window, _ in READ]


@pytest.mark.parametrize(("window", "text"), READ)
def test_repr(window: Window, text: str) -> None:
    assert repr(window) == text


@pytest.mark.parametrize("window", SPECIFICATIONS)
def test_all_are_values(window: Window) -> None:
    """Equal to their copies and to nothing else, usable as keys, and not to be changed."""
    assert [window == other for other in SPECIFICATIONS].count(True) == 1
    assert hash(window) == hash(pickle.loads(pickle.dumps(window)))
    assert window == pickle.loads(pickle.dumps(window))
    assert window != "something else"
    with pytest.raises(AttributeError):
        window.measure = "count"


@pytest.mark.parametrize("window", SPECIFICATIONS)
def test_all_bind(window: Window) -> None:
    bound = window.bind("us")
    assert isinstance(bound, Periodic if window.context == "CF" else Discretizer)
    assert bound.describe()
    assert pickle.loads(pickle.dumps(bound)).describe() == bound.describe()


def test_the_package_has_them_all() -> None:
    assert {type(window).__name__ for window in SPECIFICATIONS} | {"Window"} == set(windows.__all__)


def test_one_duration_in_many_ways() -> None:
    same = {Tumbling("60s"), Tumbling("1 minute"), Tumbling(datetime.timedelta(minutes=1)), Tumbling("interval 1m")}
    assert same | {Tumbling(np.timedelta64(1, "m")), Tumbling(pd.Timedelta("1min"))} == {Tumbling("1m")}
    assert Tumbling(MINUTE) != Tumbling("1m")  # they agree only in streams that count microseconds
    assert Tumbling("250ns").bind("ns").period == 250
    assert Tumbling("40000 weeks").bind("s").period == 40_000 * 7 * 86_400


def test_one_instant_in_many_ways() -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    same = {
        Landmark("2026-01-01", "1d"),
        Landmark("2026-01-01T01:00+01:00", "1d"),
        Landmark(datetime.date(2026, 1, 1), "1d"),
        Landmark(datetime.datetime(2026, 1, 1), "1d"),
        Landmark(datetime.datetime(2026, 1, 1, 1, tzinfo=berlin), "1d"),
        Landmark(np.datetime64("2026", "Y"), "1d"),
        Landmark(np.datetime64("2026-01-01T00:00:00.000000000"), "1d"),
        Landmark(pd.Timestamp("2026-01-01", tz="UTC"), "1d"),
        Landmark(pd.Timestamp("2026-01-01T01:00", tz="Europe/Berlin"), "1d"),
    }
    assert len(same) == 1
    assert {unit: Landmark("1970-01-02T00:00:00.5", "1d").bind(unit).origin for unit in ("ms", "us", "ns")} == {
        "ms": 86_400_500,
        "us": 86_400_500_000,
        "ns": 86_400_500_000_000,
    }
    assert Landmark("1969-12-31T23:59:59.75", "1s").bind("ms").origin == -250
    assert Landmark(pd.Timestamp("1970-01-01T00:00:00.000000007"), "1s").bind("ns").origin == 7


def test_fixed_edges_in_the_unit_of_a_stream() -> None:
    assert Tumbling("1m", offset="10s").bind("us") == Periodic(10_000_000, MINUTE, MINUTE, 1)
    assert Tumbling("1m", offset="-10s").bind("s") == Periodic(-10, 60, 60, 1)
    assert Tumbling(7).bind(None) == Periodic(0, 7, 7, 1)
    assert Sliding("1m", "5s").bind("ms") == Periodic(0, 5_000, 60_000, 1)
    assert Sliding(10, 3, measure="count").bind("us") == Periodic(0, 3, 10, 1, measure="count")
    assert Cumulate("1h", "1d").bind("s") == Periodic(0, 86_400, 3_600, 24)
    assert Band(100, 50).bind(None) == Periodic(100, 0, 50, 1)
    assert Landmark("1970-01-02", "1h").bind("s") == Periodic(86_400, 0, 3_600, 0, last_only=True)
    assert Session("30m").bind("s") == SessionGap(1_800)


def test_integers_count_the_unit_of_the_stream() -> None:
    assert Sliding("1s", 500).bind("ms") == Periodic(0, 500, 1_000, 1)
    with pytest.raises(InvalidArgument, match="slide 500 is longer than the size 1"):
        Sliding("1s", 500).bind("s")
    with pytest.raises(InvalidArgument, match="step 7 does not divide the size 1000"):
        Cumulate(7, "1s").bind("ms")


def test_what_they_read() -> None:
    assert Tumbling("1m").columns == () and Tumbling("1m").predicate is None
    assert Tumbling(5, measure="count").columns == ()
    assert Tumbling(5, measure="km").columns == ("km",)
    assert Deterministic(step, "price").columns == ("price",)
    assert Punctuation("closing").columns == () and Punctuation("closing").predicate is not None


def test_classes_of_context() -> None:
    """Scotty 4.4."""
    classes = {type(window): window.context for window in SPECIFICATIONS}
    assert {window for window, context in classes.items() if context == "CF"} == {
        Tumbling, Sliding, Cumulate, Band, Landmark
    }  # fmt: skip
    assert {window for window, context in classes.items() if context == "FCA"} == {LastN, NonDeterministic}
    assert {window.bind("us").splits for window in SPECIFICATIONS if window.context == "FCA"} == {True}
    assert {window.bind("us").splits for window in SPECIFICATIONS if window.context == "FCF"} == {False}


def test_states_are_told_apart_by_type() -> None:
    assert Deterministic(step, state=(0,)) != Deterministic(step, state=(0.0,))
    assert Deterministic(step, state=(0,)) != Deterministic(step, state=(False,))
    assert Deterministic(step) == Deterministic(step, state=(0,))
    assert Deterministic(step) != Deterministic(lambda state, ts: (state, 1, 1))
    assert Deterministic(step) != NonDeterministic(step)


REFUSED: list[tuple[Any, type[WindlassError], str]] = [
    (lambda: Tumbling(0), InvalidArgument, "size of Tumbling: .* positive, but 0 is zero"),
    (lambda: Tumbling("-5s"), InvalidArgument, "size of Tumbling: .* negative"),
    (lambda: Tumbling(datetime.timedelta(0)), InvalidArgument, "zero"),
    (lambda: Tumbling("1 month"), InvalidArgument, "size of Tumbling: .* length varies"),
    (lambda: Tumbling("2 years"), InvalidArgument, "length varies"),
    (lambda: Tumbling("soon"), InvalidArgument, "not understood"),
    (lambda: Tumbling(1.5), WrongType, "cannot be a float"),
    (lambda: Tumbling(True), WrongType, "cannot be a bool"),
    (lambda: Tumbling(None), WrongType, "got NoneType"),
    (lambda: Tumbling(2**63), InvalidArgument, "64 bits"),
    (lambda: Tumbling("1m", offset=0.5), WrongType, "offset of Tumbling"),
    (lambda: Tumbling("1m", measure="count"), WrongType, "integer, because the window is on 'count'"),
    (lambda: Tumbling(1, offset="1m", measure="km"), WrongType, "offset .* on 'km'"),
    (lambda: Tumbling(1, measure=""), InvalidArgument, "measure of Tumbling"),
    (lambda: Tumbling(1, measure=None), WrongType, "measure of Tumbling"),
    (lambda: Sliding("5s", "1m"), InvalidArgument, "slide 1m is longer than the size 5s: .* lost"),
    (lambda: Sliding(5, 6), InvalidArgument, "slide 6 is longer than the size 5"),
    (lambda: Sliding(5, 0), InvalidArgument, "slide of Sliding: .* zero"),
    (lambda: Cumulate("7s", "1m"), InvalidArgument, "step 7s does not divide the size 1m"),
    (lambda: Cumulate(10, 5), InvalidArgument, "does not divide"),
    (lambda: Band("noon", "1h"), InvalidArgument, "start of Band must be an ISO date"),
    (lambda: Band(None, "1h"), WrongType, "start of Band .* NoneType"),
    (lambda: Band(1.5, "1h"), WrongType, "start of Band .* float"),
    (lambda: Band(2**63, "1h"), InvalidArgument, "64 bits"),
    (lambda: Band(pd.NaT, "1h"), InvalidArgument, "NaT"),
    (lambda: Band(np.datetime64(5, "ps"), "1h"), InvalidArgument, "finer than a nanosecond"),
    (lambda: Landmark("2026-01-01", 5, measure="count"), WrongType, "start of Landmark must be an integer"),
    (lambda: Landmark(0, -1), InvalidArgument, "slide of Landmark: .* negative"),
    (lambda: Session(0), InvalidArgument, "gap of Session: .* zero"),
    (lambda: Punctuation(5), WrongType, "predicate is the name"),
    (lambda: Punctuation(""), InvalidArgument, "needs a name"),
    (lambda: ThresholdFrame("p", 0), InvalidArgument, "min_size of ThresholdFrame .* at least 1, got 0"),
    (lambda: ThresholdFrame("p", 1.0), WrongType, "min_size of ThresholdFrame must be an integer"),
    (lambda: SlideByTuple("1s", 0), InvalidArgument, "`every` of SlideByTuple .* at least 1"),
    (lambda: SlideByTuple("1s", True), WrongType, "`every` of SlideByTuple must be an integer"),
    (lambda: SlideByTuple(0), InvalidArgument, "size of SlideByTuple"),
    (lambda: LastN(0, "5s"), InvalidArgument, "n of LastN .* at least 1"),
    (lambda: LastN("5s", 10), WrongType, "n of LastN must be an integer"),
    (lambda: LastN(5, "1 month"), InvalidArgument, "`every` of LastN: .* length varies"),
    (lambda: Snapshot(-1), InvalidArgument, "lifetime of Snapshot"),
    (lambda: DataDriven("rule"), WrongType, "rule of DataDriven must be a function, got str"),
    (lambda: DataDriven(rule, (1,)), WrongType, "columns of DataDriven are names"),
    (lambda: DataDriven(rule, 5), WrongType, "columns of DataDriven are names"),
    (lambda: Deterministic(None), WrongType, "step of Deterministic must be a function"),
    (lambda: Deterministic(step, ""), InvalidArgument, "columns of Deterministic need names"),
    (lambda: Deterministic(step, state=0), WrongType, "state of Deterministic must be a tuple of numbers"),
    (lambda: Deterministic(step, state=("a",)), WrongType, r"state\[0\] is 'a'"),
    (lambda: Deterministic(step, state=(0, 2**63)), InvalidArgument, r"state\[1\] of Deterministic .* 64 bits"),
    (
        lambda: Tumbling("1m").bind(None),
        WrongType,
        "size of Tumbling.1m. is 1m, but the stream's time is plain integers",
    ),
    (lambda: Tumbling(5, offset="1s").bind(None), WrongType, "offset of .* plain integers"),
    (lambda: Landmark("2026-01-01", 5).bind(None), WrongType, "start of .* plain integers"),
    (lambda: Session("1m").bind(None), WrongType, "gap of Session.1m. is 1m, but"),
    (lambda: LastN(1, "1m").bind(None), WrongType, "plain integers"),
    (lambda: Tumbling("1m").bind("fortnight"), InvalidArgument, "stream's unit is one of"),
    (lambda: Tumbling("1500ms").bind("s"), InvalidArgument, "not a whole number of s"),
    (lambda: Landmark("2026-01-01T00:00:00.5", "1s").bind("s"), InvalidArgument, "start of .* not a whole number of s"),
    (lambda: Landmark("9999-01-01", "1s").bind("ns"), InvalidArgument, "start of .* 64 bits when counted in ns"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_refused(make: Any, error: type[WindlassError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_importing_them_does_not_import_the_compiler() -> None:
    import subprocess
    import sys

    code = "import sys, windlass.windows; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
