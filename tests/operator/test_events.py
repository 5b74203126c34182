"""Reading batches: every kind of input gives the same events, and what cannot be read is refused before anything is."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.aggregates.values import value_type
from windlass.errors import CorruptSnapshot, InvalidArgument, UnknownColumn, WrongType
from windlass.operator.events import LATEST, Reader, watermark_value

UTC = dt.UTC
TS, USERS, VALUES = [10, 20, 15], ["ann", None, "bob"], [1.5, 2.5, -1.0]


class CStream:
    """Anything that speaks Arrow's C stream interface and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class CArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)


TABLE = pa.table({"ts": TS, "user": USERS, "v": VALUES})
BATCHES: dict[str, Any] = {
    "table": TABLE,
    "chunks": pa.concat_tables([TABLE[:1], TABLE[1:1], TABLE[1:]]),
    "record batch": TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "C stream": CStream(TABLE),
    "C array": CArray(TABLE.to_batches()[0]),
    "pandas": pd.DataFrame({"ts": TS, "user": USERS, "v": VALUES}),
    "polars": pl.DataFrame({"ts": TS, "user": USERS, "v": VALUES}),
    "lists": {"ts": TS, "user": USERS, "v": VALUES},
    "numpy": {"ts": np.array(TS), "user": USERS, "v": np.array(VALUES)},
    "arrow": {"ts": pa.array(TS), "user": pa.chunked_array([USERS]), "v": pa.array(VALUES)},
    "series": {"ts": pd.Series(TS), "user": pl.Series(USERS), "v": pl.Series(VALUES)},
    "big endian": {"ts": np.array(TS, ">i8"), "user": USERS, "v": np.array(VALUES, ">f8")},
    "strided": {"ts": np.repeat(TS, 2)[::2], "user": USERS, "v": np.repeat(VALUES, 2)[::2]},
    "tuples": {"ts": tuple(TS), "user": tuple(USERS), "v": tuple(VALUES)},
    "categories": pd.DataFrame({"ts": TS, "user": pd.Categorical(USERS), "v": VALUES}),
}


def read(batch: Any, **names: Any) -> Any:
    return Reader(names.pop("time", "ts"), **names).read(batch)


def times(array: Any, bound: Any = None) -> list[int]:
    reader = Reader("ts")
    reader.time_type = bound
    return reader.read({"ts": array}).ts.tolist()


# --------------------------------------------------------------------------- kinds of batches


@pytest.mark.parametrize("kind", BATCHES)
def test_all_kinds_of_batches_give_the_same_events(kind):
    batch = BATCHES[kind]() if callable(BATCHES[kind]) else BATCHES[kind]
    events = Reader("ts", ["user"], "ts").read(batch, columns=["v"])
    assert len(events) == 3
    assert events.ts.dtype == events.sequence.dtype == np.int64
    assert events.ts.tolist() == events.sequence.tolist() == TS
    (users,) = events.keys
    assert [u.as_py() for u in users] == USERS
    assert events.column("v").values.tolist() == VALUES
    assert events.column("v").valid is None
    assert events.table.column_names == ["ts", "user", "v"]
    rows = events.rows(np.array([False, True, True])).to_pydict()
    assert {name: list(column) for name, column in rows.items()} == {"ts": TS[1:], "user": USERS[1:], "v": VALUES[1:]}
    assert events.rows(np.array([2, 0]))["v"].to_pylist() == [-1.0, 1.5]


def test_memory_is_shared_where_it_can_be():
    ts = np.arange(5)
    assert np.shares_memory(read({"ts": ts}).ts, ts)
    table = pa.table({"ts": pa.array(ts, pa.timestamp("us", "UTC"))})
    assert read(table).ts.__array_interface__["data"][0] == table["ts"].chunk(0).buffers()[1].address
    sliced = table.slice(2)
    assert read(sliced).ts.tolist() == [2, 3, 4]


def test_misaligned_memory():
    raw = pa.py_buffer(b"\0" + np.array(TS).tobytes())[1:]
    assert times(pa.Array.from_buffers(pa.int64(), 3, [None, raw])) == TS


@pytest.mark.parametrize(
    "batch",
    [
        TABLE[:0],
        {"ts": [], "user": [], "v": []},
        {"ts": np.array([], np.int64), "user": [], "v": []},
        pd.DataFrame({"ts": [], "user": [], "v": []}, dtype="int64"),
        pl.DataFrame({"ts": [], "user": [], "v": []}),
        pa.Table.from_batches([], TABLE.schema),
    ],
)
def test_empty_batches(batch):
    events = Reader("ts", ["user"], "ts").read(batch, columns=["v"], measures=["ts"])
    assert len(events) == 0
    assert events.ts.dtype == events.sequence.dtype == np.int64
    assert len(events.column("v")) == len(events.measure("ts")) == 0
    assert events.rows(np.array([], np.int64)).num_rows == 0


def test_an_empty_batch_of_no_type_fixes_nothing():
    reader = Reader("ts")
    reader.accept(reader.read({"ts": [], "v": []}, columns=["v"]))
    assert reader.time_type is None
    assert reader.types == {}
    reader.accept(reader.read({"ts": [], "v": np.array([1.0])[:0]}, columns=["v"]))
    assert reader.types == {"v": value_type("float64")}


@pytest.mark.parametrize(
    "batch", [None, 3, "ts", [{"ts": 1}], [1, 2], np.zeros(3), pa.array([1]), pd.Series([1]), pl.Series([1]), object()]
)
def test_what_is_no_batch(batch):
    with pytest.raises(WrongType):
        read(batch)


def test_a_lazy_frame_must_be_collected():
    with pytest.raises(WrongType, match="collect"):
        read(pl.DataFrame({"ts": [1]}).lazy())


@pytest.mark.parametrize("values", [3, "abc", b"abc", {"a": 1}, None, iter([1]), np.zeros((2, 2)), [1, "a"], [[1], 2]])
def test_what_is_no_column(values):
    with pytest.raises(WrongType, match="'ts'"):
        read({"ts": values})


def test_columns_that_are_not_needed_are_not_looked_at():
    strange = [object(), {1, 2}, 3 + 4j]
    for batch in (
        {"ts": TS, "x": strange},
        pd.DataFrame({"ts": TS, "x": strange}),
        pl.DataFrame({"ts": TS, "x": pl.Series(strange, dtype=pl.Object)}),
    ):
        events = read(batch)
        assert events.ts.tolist() == TS
        rows = events.rows(np.array([2]))  # as text: nothing that is late gets lost
        assert rows["x"].to_pylist() == ["(3+4j)"]


def test_the_table_of_a_frame_with_views_can_be_computed_with():
    events = read(pl.DataFrame({"ts": [1, 2], "s": ["a", "long enough not to be inlined"]}))
    assert events.rows(np.array([1]))["s"].to_pylist() == ["long enough not to be inlined"]
    assert pa.compute.equal(events.table["s"], "a").to_pylist() == [True, False]


# --------------------------------------------------------------------------- names and lengths


@pytest.mark.parametrize("batch", [TABLE, BATCHES["pandas"], BATCHES["polars"], BATCHES["lists"]])
def test_unknown_columns_say_what_there_is(batch):
    for names in ({"time": "when"}, {"key": ["who"]}, {"sequence": "seq"}):
        with pytest.raises(UnknownColumn, match=r"no column '(when|who|seq)'.*\['ts', 'user', 'v'\]"):
            read(batch, **names)
    with pytest.raises(UnknownColumn, match="'price'"):
        Reader("ts").read(batch, columns=["price"])
    with pytest.raises(UnknownColumn, match="'km'"):
        Reader("ts").read(batch, measures=["km"])


def test_a_pandas_index_is_not_a_column():
    frame = pd.DataFrame({"v": [1]}, index=pd.Index([1], name="ts"))
    with pytest.raises(UnknownColumn, match="reset_index"):
        read(frame)


def test_duplicate_names():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["ts", "ts"])
    with pytest.raises(InvalidArgument, match="2 columns named 'ts'"):
        read(twice)
    with pytest.raises(InvalidArgument, match="2 columns named 'ts'"):
        read(pd.DataFrame([[1, 2]], columns=["ts", "ts"]))
    others = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["ts", "x", "x"])
    assert read(others).rows(np.array([0])).num_columns == 3


def test_columns_of_different_lengths():
    with pytest.raises(InvalidArgument, match="'ts' 2, 'v' 1"):
        read({"ts": [1, 2], "v": [1]})


# --------------------------------------------------------------------------- times


@pytest.mark.parametrize("type_", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_integers_are_taken_as_they_are(type_):
    events = read({"ts": np.array([3, 1], type_)})
    assert events.ts.tolist() == [3, 1]
    assert events.ts.dtype == np.int64
    assert events.time_type == pa.int64()


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_become_microseconds(unit, per_second, zone):
    array = pa.array([0, per_second, -per_second, None][:3], pa.timestamp(unit, zone))
    events = read({"ts": array})
    assert events.ts.tolist() == [0, 10**6, -(10**6)]
    assert events.time_type == pa.timestamp("us", zone)


@pytest.mark.parametrize(
    "type_", ["int8", "uint64", "timestamp[s]", "timestamp[us]", "timestamp[ns]", "date32", "date64"]
)
def test_slices_of_times(type_):
    day = 86_400_000 if type_ == "date64" else 1
    whole = pa.array([0, day, 2 * day, 3 * day], "int32" if type_ == "date32" else "int64").cast(type_)
    assert times(whole.slice(1, 2)) == times(whole)[1:3]


def test_before_1970_rounds_down():
    assert times(pa.array([-1, -999, -1000, -1001, 999], pa.timestamp("ns"))) == [-1, -1, -1, -2, 0]
    assert times(pa.array([-1, 1], pa.date32())) == [-86_400_000_000, 86_400_000_000]
    assert times(pa.array([-86_400_000], pa.date64())) == [-86_400_000_000]


@pytest.mark.parametrize(
    "values",
    [
        [dt.datetime(1970, 1, 1, 0, 0, 1)],
        np.array(["1970-01-01T00:00:01"], "datetime64[s]"),
        np.array(["1970-01-01T00:00:01"], "datetime64[ns]"),
        pd.to_datetime(["1970-01-01T00:00:01"]),
        pd.Series(pd.to_datetime(["1970-01-01T00:00:01"])),
        pl.Series([dt.datetime(1970, 1, 1, 0, 0, 1)]),
        pa.array([10**6], pa.timestamp("us")).dictionary_encode(),
    ],
)
def test_times_as_users_have_them(values):
    events = read({"ts": values})
    assert events.ts.tolist() == [10**6]
    assert events.time_type == pa.timestamp("us")


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_nanoseconds_round_down_everywhere(nanoseconds):
    assert times(pa.array(nanoseconds, pa.timestamp("ns"))) == [n // 1000 for n in nanoseconds]


@pytest.mark.parametrize("values", [[1, None, 3], [None] * 3, pd.to_datetime(["2024-01-01", None]), [None]])
def test_null_times_name_the_row(values):
    row = 0 if values[0] is None else 1
    with pytest.raises(InvalidArgument, match=f"'ts' is null in row {row}"):
        read({"ts": values})
    with pytest.raises(InvalidArgument, match="null in row 3"):
        read(pa.table({"ts": pa.chunked_array([[1, 2], [3, None]])}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.5], "round them"),
        ([1.0, math.nan], r"nan in row 1.*round them"),
        ([math.inf, math.nan], r"inf in row 0"),
        (["2024-01-01"], "parse the text"),
        ([True], "integers, timestamps or dates"),
        ([[1]], "integers, timestamps or dates"),
        ([dt.timedelta(1)], "integers, timestamps or dates"),
        ([dt.time(1)], "integers, timestamps or dates"),
    ],
)
def test_what_is_no_time(values, message):
    with pytest.raises(WrongType, match=message):
        read({"ts": values})


@pytest.mark.parametrize(
    "array",
    [
        np.array([0, 2**63], np.uint64),
        np.array([0, 2**62]),
        np.array([0, -(2**63)]),
        pa.array([0, 2**61], pa.timestamp("s")),
        pa.array([0, -(2**61)], pa.timestamp("ms")),
        pa.array([0, 2**62], pa.timestamp("us")),
        pa.array([0, 86_400_000 * 10**11], pa.date64()),
        [0, 2**64 - 1],
    ],
)
def test_times_that_are_out_of_range_name_the_row(array):
    with pytest.raises(InvalidArgument, match="row 1"):
        read({"ts": array})


def test_the_limits_of_time():
    assert times([LATEST, -LATEST]) == [LATEST, -LATEST]


NAIVE, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), NAIVE),
        (NAIVE, pa.int64()),
        (NAIVE, ZONED),
        (ZONED, NAIVE),
        (ZONED, pa.date32()),
        (pa.date32(), pa.int64()),
    ],
)
def test_the_kind_of_time_is_that_of_the_first_batch(first, second):
    reader = Reader("ts")
    reader.accept(reader.read({"ts": pa.array([1], first)}))
    with pytest.raises(WrongType, match="first batch"):
        reader.read({"ts": pa.array([1], second)})
    assert reader.read({"ts": pa.array([1], first)}).time_type == reader.time_type


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), pa.int8()),
        (pa.int32(), pa.uint64()),
        (pa.timestamp("s"), pa.timestamp("ns")),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "Asia/Tokyo")),
        (pa.date32(), NAIVE),
        (NAIVE, pa.date64()),
    ],
)
def test_other_widths_units_and_zones_are_taken(first, second):
    reader = Reader("ts")
    reader.accept(reader.read({"ts": pa.array([0], first)}))
    before = reader.time_type
    reader.accept(reader.read({"ts": pa.array([0], second)}))
    assert reader.time_type == before


def test_units():
    reader = Reader("ts")
    assert reader.unit is None
    reader.accept(reader.read({"ts": [1]}))
    assert reader.unit is None
    reader = Reader("ts")
    reader.accept(reader.read({"ts": pa.array([1], ZONED)}))
    assert reader.unit == "us"


# --------------------------------------------------------------------------- other columns


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([1, None], InvalidArgument, "null in row 1"),
        (["a", "b"], WrongType, "must be integers"),
        ([True, False], WrongType, "must be integers"),
        ([1, 2**63], InvalidArgument, "row 1"),
    ],
)
def test_sequences_and_measures_are_integers(values, error, message):
    batch = {"ts": [1, 2], "x": values}
    with pytest.raises(error, match=message):
        read(batch, sequence="x")
    with pytest.raises(error, match=message):
        Reader("ts").read(batch, measures=["x"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], "must be integers"),
        ([math.nan, 2.0], "nan in row 0.*must be integers"),
    ],
)
def test_sequences_are_no_fractions(values, message):
    with pytest.raises(WrongType, match=message):
        read({"ts": [1, 2], "x": values}, sequence="x")


def test_measures_may_be_fractions():
    km = pa.array([-0.5, -0.0, 0.999, 1.0, 2.0**52 + 0.5])
    for values in (km, km.to_numpy(), pa.chunked_array([km[:2], km[2:]])):
        whole = Reader("ts").read({"ts": range(5), "km": values}, measures=["km"]).measure("km")
        assert whole.tolist() == [-1, 0, 0, 1, 2**52]
    assert Reader("ts").read({"ts": [1], "km": np.float32([7.9])}, measures=["km"]).measure("km").tolist() == [7]
    for bad in (math.nan, math.inf, -math.inf, 2.0**63):
        with pytest.raises(InvalidArgument, match="in row 1; a measure is a finite number"):
            Reader("ts").read({"ts": [1, 2], "km": [0.0, bad]}, measures=["km"])
    with pytest.raises(InvalidArgument, match="null in row 1"):
        Reader("ts").read({"ts": [1, 2], "km": pa.array([0.5, None])}, measures=["km"])


def test_times_are_measures_too():
    arrived = pa.array([1, 2], pa.timestamp("s"))
    assert read({"ts": [1, 2], "arrived": arrived}).measure("arrived").tolist() == [10**6, 2 * 10**6]


def test_types_of_values_are_fixed_once_their_events_are_accepted():
    reader = Reader("ts")
    events = reader.read({"ts": [1], "v": [1]}, columns=["v"])
    assert reader.read({"ts": [1], "v": [1.5]}, columns=["v"]).column("v").values.tolist() == [1.5]  # nothing is yet
    reader.accept(events)
    with pytest.raises(WrongType, match=r"column 'v'.*int64.*double"):
        reader.read({"ts": [1], "v": [1.5]}, columns=["v"])
    assert reader.read({"ts": [1], "v": [None]}, columns=["v"]).column("v").type == value_type("int64")
    assert reader.read({"ts": [1], "v": np.array([1], np.int8)}).column("v").values.tolist() == [1]


def test_a_column_of_nulls_has_no_type_yet():
    reader = Reader("ts")
    events = reader.read({"ts": [1], "v": [None]}, columns=["v"])
    assert pa.types.is_null(events.column("v").type.arrow)
    reader.accept(events)
    reader.accept(reader.read({"ts": [1], "v": ["x"]}, columns=["v"]))
    assert reader.types == {"v": value_type("string")}


def test_pandas_nan_is_null_and_arrow_nan_is_a_number():
    frame = pd.DataFrame({"ts": [1, 2], "v": [1.0, math.nan]})
    assert read(frame).column("v").valid.tolist() == [True, False]
    assert read(pa.table({"ts": [1, 2], "v": [1.0, math.nan]})).column("v").valid is None


def test_types_that_were_fixed_go_on():
    reader = Reader("ts")
    reader.accept(reader.read({"ts": pa.array([1], ZONED), "v": ["x"], "w": [1.5]}, columns=["v", "w"]))
    other = Reader("ts")
    other.restore(reader.schema)
    assert (other.time_type, other.types) == (reader.time_type, reader.types)
    fresh = Reader("ts")
    fresh.restore(Reader("ts").schema)
    assert fresh.time_type is None
    for damaged in (pa.schema([]), pa.schema([("time", pa.string())]), pa.schema([("time", pa.timestamp("ns"))])):
        with pytest.raises(CorruptSnapshot):
            other.restore(damaged)
    assert other.types == reader.types


# --------------------------------------------------------------------------- watermarks

NOON = 1_714_564_800_000_000  # 2024-05-01T12:00Z


@pytest.mark.parametrize(
    "watermark",
    [
        NOON,
        np.int64(NOON),
        dt.datetime(2024, 5, 1, 12),
        dt.datetime(2024, 5, 1, 12, tzinfo=UTC),
        dt.datetime(2024, 5, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        np.datetime64("2024-05-01T12:00"),
        np.datetime64("2024-05-01T12:00:00.000000999", "ns"),
        np.datetime64(NOON * 10**6, "ps") if NOON * 10**6 < 2**63 else np.datetime64("2024-05-01T12", "h"),
        pd.Timestamp("2024-05-01T12:00:00.000000001"),
        pd.Timestamp("2024-05-01T14:00", tz="Europe/Berlin"),
        "2024-05-01T12:00",
        " 2024-05-01 12:00:00Z",
        "2024-05-01T14:00+02:00",
        pa.scalar(NOON),
        pa.scalar(dt.datetime(2024, 5, 1, 12)),
    ],
)
def test_watermarks_as_users_write_them(watermark):
    assert watermark_value(watermark, "us") == NOON
    if not isinstance(watermark, int | np.integer | pa.Int64Scalar):
        assert watermark_value(watermark, "ms") == NOON // 1000
        with pytest.raises(WrongType, match="plain integers"):
            watermark_value(watermark, None)


def test_dates_and_times_before_1970():
    assert watermark_value(dt.date(1970, 1, 2), "us") == 86_400_000_000
    assert watermark_value("1970-01-02", "us") == 86_400_000_000
    assert watermark_value(dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "us") == -1
    assert watermark_value(np.datetime64(-1, "ns"), "us") == -1
    assert watermark_value(pd.Timestamp(-1), "us") == -1
    assert watermark_value(np.datetime64("1969"), "us") == -365 * 86_400_000_000
    assert watermark_value(-5, None) == -5


@pytest.mark.parametrize(
    ("watermark", "error"),
    [
        (None, WrongType),
        (True, WrongType),
        (1.0, WrongType),
        (math.inf, WrongType),
        (dt.timedelta(1), WrongType),
        (np.timedelta64(1, "s"), WrongType),
        (dt.time(1), WrongType),
        (b"2024", WrongType),
        ("soon", InvalidArgument),
        ("", InvalidArgument),
        (np.datetime64("NaT"), InvalidArgument),
        (pd.NaT, InvalidArgument),
        (np.datetime64(10**15, "Y"), InvalidArgument),
        (2**63, InvalidArgument),
        (-(2**63), InvalidArgument),
        (pa.scalar(None, pa.int64()), WrongType),
    ],
)
def test_what_is_no_watermark(watermark, error):
    with pytest.raises(error):
        watermark_value(watermark, "us")
