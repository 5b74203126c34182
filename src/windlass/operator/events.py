"""From whatever a user hands over to events: times as int64, keys and values as columns.

    batch ──► Reader.read ──► Events       ts, sequence, keys, columns      everything is checked here, nothing is kept
                  ▲              │
                  └── accept ◄───┘         once the operator has taken the events, their types are fixed

A batch is an Arrow table or record batch, anything that speaks Arrow's C interface, a pandas or Polars frame, or a dict
of arrays. Only the columns that are asked for are looked at. Memory is shared with the batch wherever its layout allows
it: what the operator keeps it must copy, because a user may write the next batch over this one.

Times are int64. Integers are taken as they are, in the stream's own unit; timestamps and dates become microseconds
since 1970 (UTC), rounded down. Their kind is that of the first batch.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import Column, ValueType, column, is_plain_numpy, to_arrow, value_type
from windlass.durations import UNITS
from windlass.errors import CorruptSnapshot, InvalidArgument, UnknownColumn, WrongType
from windlass.formats.record import as_corrupt_snapshot
from windlass.slicing.sorting import extent
from windlass.stateful import Stateful
from windlass.windows.predicate import Predicate

__all__ = ["LATEST", "Events", "Reader", "watermark_value"]

Array = np.ndarray[Any, Any]

# Times lie in -LATEST … LATEST, so that adding a window's length cannot overflow: 146 000 years of microseconds.
LATEST = 2**62 - 1


class Reader(Stateful):
    """Reads the batches of one stream."""

    def __init__(self, time: str, key: Sequence[str] = (), sequence: str | None = None) -> None:
        self.time, self.key, self.sequence = time, tuple(key), sequence
        self.time_type: pa.DataType | None = None  # int64 or timestamp[us, zone]; None before the first batch
        self.types: dict[str, ValueType] = {}  # of the value columns that were read
        self._returnable: pa.Schema | None = None  # of the last Arrow batch whose columns `late()` can return

    @property
    def unit(self) -> str | None:
        """The unit of the stream's time: "us", or None if times are plain integers (or not known yet)."""
        return None if self.time_type is None or pa.types.is_integer(self.time_type) else "us"

    def read(self, batch: Any, columns: Sequence[str] = (), measures: Sequence[str] = ()) -> Events:
        """The events of a batch. `columns` are values to aggregate, `measures` must be numbers without nulls.

        Whatever is wrong with any of these columns is found here. The reader itself does not change.
        """
        source = _source(batch)
        array = source.column(self.time, "the time column")
        ts, time_type = _times(array, self.time, self.time_type)
        span = _extent(ts, f"the time column {self.time!r}")
        sequence = None
        if self.sequence is not None:
            sequence = _integers(source.column(self.sequence, "the sequence column"), self.sequence, "sequence")
        keys = [source.column(name, "a key column") for name in self.key]
        events = Events(ts, span, sequence, keys, time_type, source, dict(self.types))
        for name in columns:
            events.column(name)
        for name in measures:
            events.measure(name)
        return events

    def accept(self, events: Events) -> None:
        """From now on times and columns have the types that they have in these events."""
        self.time_type = events.time_type
        if len(events.types) > len(self.types):
            self.types = {name: t for name, t in events.types.items() if not pa.types.is_null(t.arrow)}

    def check_returnable(self, events: Events) -> None:
        """Refuse events with a column that `late()` could not return. Arrow batches of one schema are checked once."""
        schema = events.source.schema
        if schema is None or schema != self._returnable:
            events.rows(np.empty(0, np.int64))
            self._returnable = schema

    @property
    def schema(self) -> pa.Schema:
        """The types that are fixed: of the time, and of the value columns; null: not yet."""
        fields = [pa.field("time", self.time_type or pa.null())]
        return pa.schema(fields + [pa.field(name, type_.arrow) for name, type_ in self.types.items()])

    def restore(self, schema: pa.Schema) -> None:
        """Fix types as they were."""
        with as_corrupt_snapshot("the snapshot's column types"):
            time, *others = list(schema)
            if not (pa.types.is_null(time.type) or time.type == pa.int64() or _is_our_time(time.type)):
                raise CorruptSnapshot(f"the snapshot's time is of {time.type}")
            types = {f.name: value_type(f.type) for f in others}
        self.time_type, self.types = (None if pa.types.is_null(time.type) else time.type), types


def _is_our_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.unit == "us")


@dataclass
class Events:
    """The events of one batch, in its order."""

    ts: Array
    extent: tuple[int, int, bool]  # the first and the last time, and whether they ascend
    sequence: Array | None
    keys: list[pa.Array | pa.ChunkedArray]
    time_type: pa.DataType | None
    source: _Source
    types: dict[str, ValueType]
    _read: dict[str, Any] = field(default_factory=dict)
    _masks: dict[Predicate, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ts)

    def count(self, which: Array) -> int:
        """How many events these rows are."""
        return len(which)

    def column(self, name: str) -> Column:
        """A column of values to aggregate. One of nothing but nulls has the type null, until a batch tells its type."""
        if name not in self._read:
            values = self.source.values(name, "a column of a query")
            try:
                read = column(values, self.types.get(name))
            except WrongType as error:
                raise WrongType(f"column {name!r}: {error}") from error
            self._read[name] = read
            self.types.setdefault(name, read.type)
        found: Column = self._read[name]
        return found

    def measure(self, name: str) -> Array:
        """A column that windows are defined on: int64, without nulls. Edges of windows are whole numbers, so the whole
        part of a fraction (rounded down) says in which ones it is."""
        array = _whole(self.source.column(name, "the measure of a window"))
        if pa.types.is_floating(array.type):
            return _whole_parts(array, f"the measure column {name!r}")
        return _integers(array, name, "measure")

    def mask(self, predicate: Predicate) -> Array:
        """Mask of the events that meet a predicate, which is evaluated once."""
        if predicate not in self._masks:
            self._masks[predicate] = predicate.mask(self.table)
        return self._masks[predicate]

    @cached_property
    def table(self) -> pa.Table:
        """All columns of the batch. Those that Arrow cannot hold are given as text."""
        return self.source.table()

    def rows(self, which: Array) -> pa.Table:
        """Some of the rows with all of their columns, by position or by a mask. Shares no memory with the batch."""
        positions = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return self.table.take(to_arrow(positions.astype(np.int64, copy=False), None, pa.int64()))


# --------------------------------------------------------------------------- batches


@dataclass
class _Source:
    """The columns of a batch, each turned into Arrow when it is asked for."""

    names: list[Any]
    rows: int
    get: Callable[[int], Any]
    hint: str = ""
    schema: pa.Schema | None = None  # of an Arrow batch
    _arrays: dict[int, Any] = field(default_factory=dict)

    def column(self, name: str, role: str) -> pa.Array | pa.ChunkedArray:
        return self._array(self._place(name, role))

    def values(self, name: str, role: str) -> Any:
        """The column as it came if it is NumPy's, else as Arrow."""
        i = self._place(name, role)
        values = self.get(i)
        return values if is_plain_numpy(values) else self._array(i)

    def _place(self, name: str, role: str) -> int:
        count = self.names.count(name)
        if count == 1:
            return self.names.index(name)
        if count:
            raise InvalidArgument(f"the batch has {count} columns named {name!r} ({role}); rename all but one")
        raise UnknownColumn(f"there is no column {name!r} ({role}); the batch has {self.names}{self.hint}")

    def table(self) -> pa.Table:
        return pa.Table.from_arrays([self._any(i) for i in range(len(self.names))], [str(n) for n in self.names])

    def _array(self, i: int) -> Any:
        if i not in self._arrays:
            array = _arrow(self.get(i), f"column {self.names[i]!r}")
            if len(array) != self.rows:
                raise InvalidArgument(f"column {self.names[i]!r} has {len(array)} rows, the batch {self.rows}")
            self._arrays[i] = array
        return self._arrays[i]

    def _any(self, i: int) -> Any:
        try:
            array = self._array(i)
        except WrongType:
            array = pa.array([None if value is None else str(value) for value in self.get(i)], pa.string())
        view = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(array.type)
        return array if view is None else array.cast(view)  # few of Arrow's functions take views


def _source(batch: Any) -> _Source:
    if isinstance(batch, pa.Table | pa.RecordBatch):
        return _Source(list(batch.column_names), batch.num_rows, batch.column, schema=batch.schema)
    if isinstance(batch, Mapping):
        return _of_mapping(batch)
    if hasattr(batch, "iloc") and hasattr(batch, "columns"):  # pandas: another column may not even fit Arrow
        index = [name for name in getattr(batch.index, "names", []) if name is not None]
        hint = f" and the index {index}; reset_index() makes columns of it" if index else ""
        return _Source(list(batch.columns), len(batch), lambda i: batch.iloc[:, i], hint)
    if hasattr(batch, "get_columns") and hasattr(batch, "to_series"):  # Polars, for the same reason
        return _Source(list(batch.columns), len(batch), lambda i: _of_polars(batch.to_series(i)))
    try:
        if hasattr(batch, "__arrow_c_stream__"):
            return _source(pa.table(batch))
        if hasattr(batch, "__arrow_c_array__"):
            return _source(pa.record_batch(batch))
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise WrongType(f"cannot read this {type(batch).__name__} as a table: {error}") from error
    hint = "; collect() it first" if hasattr(batch, "collect") else ""
    raise WrongType(
        "events come as an Arrow table or record batch, a pandas or Polars frame, or a dict of arrays, "
        f"got {type(batch).__name__}{hint}"
    )


def _of_polars(series: Any) -> Any:
    """Python objects would be exported as their addresses."""
    return series.to_list() if str(series.dtype) == "Object" else series


def _of_mapping(batch: Mapping[Any, Any]) -> _Source:
    columns = list(batch.values())
    lengths = {}
    for name, values in batch.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
            raise WrongType(f"column {name!r} must be an array or a list, got {type(values).__name__}")
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        raise InvalidArgument(f"the columns differ in length: {', '.join(f'{n!r} {k}' for n, k in lengths.items())}")
    return _Source(list(batch), next(iter(lengths.values()), 0), columns.__getitem__)


def _arrow(values: Any, what: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if is_plain_numpy(values):
            native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
            return to_arrow(native, None, pa.from_numpy_dtype(native.dtype))
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise TypeError(f"its shape is {values.shape}")
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        try:
            return pa.array(values)
        except OverflowError:  # integers beyond int64
            return pa.array(values, pa.uint64())
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise WrongType(f"{what} cannot be read as an Arrow array: {error}") from error


# --------------------------------------------------------------------------- times and other integers


def _times(array: Any, name: str, bound: pa.DataType | None) -> tuple[Array, pa.DataType | None]:
    """The times of a batch, and their type: that of the first batch, if there was one."""
    array = _whole(array)
    what = f"the time column {name!r}"
    found = _time_type(array.type)
    if found is None:
        if not pa.types.is_null(array.type):
            raise WrongType(f"{what} is of {array.type}{_place_of_nan(array)}; times are {_advice(array.type)}")
    elif bound is not None and not _same_kind(found, bound):
        raise WrongType(
            f"{what} is of {array.type}, but the first batch had {bound}: times are either integers, timestamps "
            "with a zone, or timestamps without one"
        )
    _refuse_nulls(array, what)
    if found is None:  # of type null, and empty
        return np.empty(0, np.int64), bound
    ts = _microseconds(array, what) if pa.types.is_temporal(array.type) else _int64(array, what)
    return ts, bound or found


def _extent(ts: Array, what: str) -> tuple[int, int, bool]:
    least, greatest, ascending = extent(ts) if len(ts) else (0, 0, True)
    if least < -LATEST or greatest > LATEST:
        row = int(np.flatnonzero((ts < -LATEST) | (ts > LATEST))[0])
        raise InvalidArgument(f"{what} has {ts[row]} in row {row}, which is out of range (2^62)")
    return least, greatest, ascending


def _time_type(type_: pa.DataType) -> pa.DataType | None:
    """The type that windows report their bounds in; None if these are no times."""
    t = pa.types
    if t.is_integer(type_):
        return pa.int64()
    if t.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    return pa.timestamp("us") if t.is_date(type_) else None


def _same_kind(a: pa.DataType, b: pa.DataType) -> bool:
    if pa.types.is_integer(a) or pa.types.is_integer(b):
        return bool(a == b)
    return (a.tz is None) == (b.tz is None)


def _advice(type_: pa.DataType) -> str:
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "integers or timestamps: round them to whole units, and cast to int64"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "integers or timestamps: parse the text first, for example with pyarrow.compute.strptime"
    return "integers, timestamps or dates"


def _integers(array: Any, name: str, role: str) -> Array:
    """An integer column without nulls; times become microseconds."""
    array = _whole(array)
    what = f"the {role} column {name!r}"
    if pa.types.is_null(array.type) and len(array) == 0:
        return np.empty(0, np.int64)
    _refuse_nulls(array, what)
    if _time_type(array.type) is None:
        raise WrongType(
            f"{what} is of {array.type}{_place_of_nan(array)}; it must be integers: scale and round fractions first"
        )
    return _microseconds(array, what) if pa.types.is_temporal(array.type) else _int64(array, what)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _refuse_nulls(array: pa.Array, what: str) -> None:
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidArgument(f"{what} is null in row {row} of the batch ({array.null_count} in all)")


def _place_of_nan(array: pa.Array) -> str:
    if not pa.types.is_floating(array.type):
        return ""
    values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(~np.isfinite(values))
    return f" ({values[rows[0]]} in row {rows[0]})" if len(rows) else ""


def _whole_parts(array: pa.Array, what: str) -> Array:
    _refuse_nulls(array, what)
    values = _numpy(array.cast(pa.float64()), np.float64)
    bad = np.flatnonzero(~(np.abs(values) <= LATEST))
    if len(bad):
        raise InvalidArgument(f"{what} has {values[bad[0]]} in row {bad[0]}; a measure is a finite number up to 2^62")
    return np.floor(values).astype(np.int64)


def _numpy(array: pa.Array, dtype: Any) -> Array:
    """The same memory, of an array without nulls. (`to_numpy` would import pandas where that is installed.)"""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.empty(0, dtype)
    values = np.frombuffer(buffer, dtype, len(array), array.offset * np.dtype(dtype).itemsize)
    return values if values.flags.aligned else values.copy()


def _int64(array: pa.Array, what: str) -> Array:
    if pa.types.is_uint64(array.type):
        values = _numpy(array, np.uint64)
        if len(values) and values.max() > LATEST:
            row = int(np.flatnonzero(values > LATEST)[0])
            raise InvalidArgument(f"{what} has {values[row]} in row {row}, which is out of range (2^62)")
    return _numpy(array if array.type == pa.int64() else array.cast(pa.int64()), np.int64)


def _microseconds(array: pa.Array, what: str) -> Array:
    """Zero-copy if they are that already."""
    if pa.types.is_date32(array.type):
        return _numpy(array, np.int32).astype(np.int64) * 86_400_000_000
    count = _numpy(array, np.int64)
    nanoseconds = UNITS["ms" if pa.types.is_date64(array.type) else array.type.unit]
    if nanoseconds == 1000:
        return count
    if nanoseconds < 1000:
        return np.asarray(count // 1000)
    factor = nanoseconds // 1000
    limit = LATEST // factor
    if len(count) and not (count.min() >= -limit and count.max() <= limit):
        row = int(np.flatnonzero((count < -limit) | (count > limit))[0])
        raise InvalidArgument(f"{what} is out of range in row {row}: it does not fit 62 bits of microseconds")
    return count * factor


# --------------------------------------------------------------------------- watermarks

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def watermark_value(watermark: Any, unit: str | None) -> int:
    """A watermark in the stream's unit (None: plain integers). Without a zone it is UTC; it is rounded down, which
    promises less, never more."""
    if isinstance(watermark, pa.Scalar):
        watermark = watermark.as_py()
    if isinstance(watermark, bool | np.bool_):
        raise WrongType(f"a watermark cannot be a bool, got {watermark!r}")
    # numpy.timedelta64 is a kind of numpy's integers.
    if isinstance(watermark, int | np.integer) and not isinstance(watermark, np.timedelta64):
        value = int(watermark)
    else:
        value = _count(watermark, unit)
    if not -LATEST <= value <= LATEST:
        raise InvalidArgument(f"watermark {watermark!r} is out of range (2^62); to end the stream, call finish()")
    return value


def _count(watermark: Any, unit: str | None) -> int:
    is_date = isinstance(watermark, datetime.date | np.datetime64)
    if not is_date and not isinstance(watermark, str):
        raise WrongType(
            "a watermark is an integer in the stream's unit, a datetime, or text such as '2024-05-01T12:00', "
            f"got {type(watermark).__name__}"
        )
    if unit is None:
        raise WrongType(f"the times of this stream are plain integers; a watermark cannot be {watermark!r}")
    if isinstance(watermark, str):
        try:
            watermark = datetime.datetime.fromisoformat(watermark.strip())
        except ValueError:
            raise InvalidArgument(
                f"watermark {watermark!r} is not understood; write for example '2024-05-01T12:00:00'"
            ) from None
    if hasattr(watermark, "to_datetime64"):  # pandas: it has nanoseconds
        watermark = watermark.to_datetime64()
    if isinstance(watermark, np.datetime64):
        return _of_numpy(watermark) // UNITS[unit]
    if not isinstance(watermark, datetime.datetime):
        watermark = datetime.datetime(watermark.year, watermark.month, watermark.day)
    if watermark.tzinfo is None:
        watermark = watermark.replace(tzinfo=datetime.UTC)
    since: datetime.timedelta = watermark - _EPOCH
    return since // datetime.timedelta(microseconds=1) * 1000 // UNITS[unit]


def _of_numpy(time: np.datetime64) -> int:
    """Nanoseconds since 1970, rounded down."""
    if np.isnat(time):
        raise InvalidArgument("a watermark cannot be NaT (not a time)")
    name, multiple = np.datetime_data(time.dtype)
    if name in _FINE:
        return int(time.astype(np.int64)) * multiple // _FINE[name]
    microseconds = time.astype("datetime64[us]")
    if microseconds.astype(time.dtype) != time:
        raise InvalidArgument(f"watermark {time!r} does not fit 64 bits of microseconds")
    return int(microseconds.astype(np.int64)) * 1000


_FINE = {"ns": 1, "ps": 10**3, "fs": 10**6, "as": 10**9}  # how many of them are a nanosecond
