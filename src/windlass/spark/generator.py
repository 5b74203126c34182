"""A stream that makes itself: `format("windlass-generator")`, a rate source with disorder, for trying out and testing.

    spark.readStream.format("windlass-generator").options(rowsPerSecond=500, disorder=0.05, maxDelay="2s").load()
    spark.read.format("windlass-generator").options(rows=1_000_000).load()
    windlass.spark.generate(0, 1000, disorder=0.05)          # rows 0 to 999 as an Arrow table, without Spark

    ts timestamp, sensor string, value double, seq bigint    # or, with keyType="int": ts, key bigint, value, seq

Row `seq` is a pure function of the options and `seq`: a restart replays the same rows, and rows are the same however
batches and partitions are cut. Rows come in the order of `seq`; the time of row i is

    start + i / rowsPerSecond - delay        delay = 0, or for a share of `disorder` of the rows up to `maxDelay`

so a watermark `maxDelay` behind the greatest time loses nothing, except in bursts: with burstEvery, burstLength and
burstDelay, the last `burstLength` of every `burstEvery` of stream is `burstDelay` older still, as when a gateway
was cut off. Values are multiples of 1/64 from 0 to 100, so that float sums are exact in any order.
"""

from __future__ import annotations

import datetime
import difflib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from windlass import durations
from windlass.errors import InvalidArgument, WindlassError

__all__ = ["Generator", "generate", "register"]

NAME = "windlass-generator"

_SECOND = 1_000_000
_CHUNK = 65_536  # rows a record batch: small enough to stay in cache while its columns are made
_INT64_MAX = 2**63 - 1

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def register(spark: SparkSession) -> None:
    """Make `format("windlass-generator")` and `format("windlass-history")` known to this session."""
    from windlass.spark.history_source import HistorySource

    spark.dataSource.register(Generator)
    spark.dataSource.register(HistorySource)


def generate(begin: int, end: int, **options: object) -> pa.Table:
    """Rows `begin` to `end - 1` of the stream with these options, as an Arrow table.

    Options are those of the source, in either spelling: rowsPerSecond or rows_per_second.
    """
    stream = Options.read(options)
    if not 0 <= begin <= end:
        raise InvalidArgument(f"rows begin to end need 0 <= begin <= end, got {begin} and {end}")
    if stream.rows is not None:
        begin, end = min(begin, stream.rows), min(end, stream.rows)
    return pa.Table.from_batches(stream.batches(begin, end), stream.schema())


@dataclass(frozen=True)
class Options:
    """What the stream is like, checked. The names are those of the options, in Python's spelling."""

    rows_per_second: Fraction = Fraction(1000)  # of event time
    rows: int | None = None  # in all; None: without end
    rows_per_batch: int = 100_000  # of a stream: at most so many in a micro-batch
    speed: Fraction | None = None  # of a stream: event time over clock time; None: as fast as it is read
    partitions: int = 0  # 0: as many as there are cores
    keys: int = 10
    key_type: str = "string"
    disorder: float = 0.0  # share of rows
    max_delay: int = _SECOND
    burst_every: int = 0
    burst_length: int = 0
    burst_delay: int = 0
    start: int = 1_704_067_200 * _SECOND  # 2024-01-01
    seed: int = 0

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Options:
        """From options as users and Spark write them."""
        known = {_folded(name): name for name in _READERS}
        values: dict[str, Any] = {}
        for option, value in given.items():
            name = known.get(_folded(option))
            if name is None:
                near = difflib.get_close_matches(_folded(option), known, 1)
                meant = f"; did you mean {_camel(known[near[0]])!r}?" if near else "."
                raise InvalidArgument(
                    f"{NAME} has no option {option!r}{meant} It has {', '.join(map(_camel, _READERS))}"
                )
            try:
                values[name] = _READERS[name](value)
            except WindlassError as error:
                raise InvalidArgument(f"option {_camel(name)} of {NAME}: {error}") from None
            except (ValueError, TypeError, OverflowError, ZeroDivisionError):
                raise InvalidArgument(
                    f"option {_camel(name)} of {NAME} is {_WANTED[_READERS[name]]}, got {value!r}"
                ) from None
        options = cls(**values)
        options._check_bursts()
        return options

    def _check_bursts(self) -> None:
        said = {name: getattr(self, name) for name in ("burst_every", "burst_length", "burst_delay")}
        if any(said.values()):
            if missing := [_camel(name) for name, value in said.items() if not value]:
                raise InvalidArgument(
                    f"{NAME}: bursts need burstEvery, burstLength and burstDelay; {', '.join(missing)} "
                    f"{'is' if len(missing) == 1 else 'are'} not set"
                )
            if self.burst_length > self.burst_every:
                raise InvalidArgument(f"{NAME}: burstLength is longer than burstEvery")

    def schema(self) -> pa.Schema:
        key = ("sensor", pa.string()) if self.key_type == "string" else ("key", pa.int64())
        return pa.schema([("ts", pa.timestamp("us", "UTC")), key, ("value", pa.float64()), ("seq", pa.int64())])

    def batches(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """Rows begin to end - 1."""
        for low in range(begin, end, _CHUNK):
            yield self.batch(low, min(low + _CHUNK, end))

    def batch(self, begin: int, end: int) -> pa.RecordBatch:
        i = np.arange(begin, end, dtype=np.int64)
        elapsed = self.elapsed(i)
        keys = _below(self._words(i, 1), self.keys)
        # A level of the key's own, a wave of ten minutes, and noise: 3200 + 1600 + 2 * 800 = 6400 sixty-fourths.
        phase = elapsed // 1_000 % 600_000
        wave = np.minimum(phase, 600_000 - phase) * 1600 // 300_000
        noise = self._words(i, 2)
        value = _below(self._words(keys, 3), 3201) + wave + _below(noise, 801) + _below(noise << np.uint64(32), 801)
        columns = [
            pa.array(self.start + elapsed - self._delays(i, elapsed)).cast(pa.timestamp("us", "UTC")),
            _names(keys, self.keys) if self.key_type == "string" else pa.array(keys),
            pa.array(value / 64),
            pa.array(i),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema())

    def elapsed(self, i: Ints) -> Ints:
        """Microseconds of event time from the start to rows i, by the rate alone."""
        rows, seconds = self.rows_per_second.numerator, self.rows_per_second.denominator
        # Whole rounds of `rows` rows apart, so that nothing overflows.
        return i // rows * (seconds * _SECOND) + i % rows * (seconds * _SECOND) // rows

    def arrived(self, seconds: float) -> int:
        """How many rows come in the first seconds by the clock."""
        assert self.speed is not None
        return int(seconds * float(self.speed * self.rows_per_second))

    def _delays(self, i: Ints, elapsed: Ints) -> Ints:
        delays = np.zeros(len(i), np.int64)
        if self.disorder:
            share = min(int(self.disorder * 2.0**32), 2**32)
            late = np.flatnonzero(self._words(i, 4) >> np.uint64(32) < share)
            delays[late] = 1 + _below(self._words(i[late], 5), self.max_delay)
        if self.burst_every:
            delays[elapsed % self.burst_every >= self.burst_every - self.burst_length] += self.burst_delay
        return delays

    def _words(self, i: Ints, purpose: int) -> Words:
        """64 random bits for each of i: the i-th output of a SplitMix64 of this seed and purpose."""
        state = _mixed(np.array([self.seed * 8 + purpose & 2**64 - 1], np.uint64))
        return _mixed(i.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + state)


def _mixed(x: Words) -> Words:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _below(words: Words, n: int) -> Ints:
    """Evenly distributed in [0, n), from the upper 32 bits where they suffice: a multiplication is cheaper than %."""
    if n <= 2**31:
        return ((words >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)).astype(np.int64)
    return (words % np.uint64(n)).astype(np.int64)


def _names(keys: Ints, of: int) -> pa.Array:
    """The names of keys out of `of` ones: looked up where there are few, written for each row where not."""
    return _all_names(of).take(pa.array(keys)) if of <= _CHUNK else _named(keys)


@cache
def _all_names(of: int) -> pa.Array:
    return _named(np.arange(of))


def _named(keys: Ints) -> pa.Array:
    return pc.binary_join_element_wise("sensor", pc.cast(pa.array(keys), pa.string()), "-")


class Generator(DataSource):
    """The source of this module, for Spark."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        key = "sensor string" if Options.read(self.options).key_type == "string" else "key bigint"
        return f"ts timestamp, {key}, value double, seq bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._checked(schema)
        if options.rows is None:
            raise InvalidArgument(f"{NAME} without the option rows has no end: set it, or read a stream")
        return _Reader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(self._checked(schema))

    def _checked(self, schema: StructType) -> Options:
        options = Options.read(self.options)
        if schema.fieldNames() != options.schema().names:
            raise InvalidArgument(f"{NAME} has the columns {self.schema()}; a schema cannot be given")
        return options


@dataclass
class _Rows(InputPartition):
    begin: int
    end: int


def _partitions(options: Options, begin: int, end: int) -> Sequence[InputPartition]:
    count = min(options.partitions or os.cpu_count() or 1, max(1, end - begin))
    cuts = [begin + (end - begin) * k // count for k in range(count + 1)]
    return [_Rows(low, high) for low, high in pairwise(cuts) if low < high]


class _Reader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return _partitions(self.options, 0, self.options.rows or 0)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Rows)
        return self.options.batches(partition.begin, partition.end)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of rows before it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.origin: tuple[float, int] | None = None  # when the first rows were asked for, and from which on
        self.last: int | None = options.rows

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.rows_per_batch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        begin = start["row"]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.rows_per_batch
        if isinstance(limit, ReadAllAvailable) and self.last is not None:
            most = max(0, self.last - begin)
        end = begin + most
        if self.options.speed is not None:
            end = min(end, max(begin, self._arrived(begin)))
        if self.last is not None:
            end = min(end, max(begin, self.last))
        return {"row": end}

    def _arrived(self, begin: int) -> int:
        """Up to which row the clock has come. After a restart it goes on from where the stream stood."""
        if self.origin is None:
            self.origin = (time.monotonic(), begin)
        since, first = self.origin
        return first + self.options.arrived(time.monotonic() - since)

    def prepareForTriggerAvailableNow(self) -> None:
        if self.last is None:
            raise InvalidArgument(f"{NAME} without the option rows has no end, so availableNow would not: set it")

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _partitions(self.options, start["row"], end["row"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Rows)
        return self.options.batches(partition.begin, partition.end)


# How each option is read. Spark hands all of them over as text.


def _whole(value: object) -> int:
    number = Fraction(str(value).replace("_", ""))
    if isinstance(value, bool) or number.denominator != 1 or abs(number) > _INT64_MAX:
        raise ValueError
    return number.numerator


def _at_least_one(value: object) -> int:
    number = _whole(value)
    if number < 1:
        raise ValueError
    return number


def _not_negative(value: object) -> int:
    number = _whole(value)
    if number < 0:
        raise ValueError
    return number


def _rate(value: object) -> Fraction:
    number = Fraction(str(value).replace("_", "")).limit_denominator(1_000_000)
    if isinstance(value, bool) or not Fraction(1, 1_000_000) <= number <= 1_000_000_000:
        raise ValueError
    return number


def _share(value: object) -> float:
    number = float(str(value))
    if isinstance(value, bool) or math.isnan(number) or not 0 <= number <= 1:
        raise ValueError
    return number


def _kind(value: object) -> str:
    if value not in ("string", "int"):
        raise ValueError
    return str(value)


def _duration(value: object) -> int:
    return durations.parse(value)  # type: ignore[arg-type]


def _moment(value: object) -> int:
    moment = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


_READERS: dict[str, Callable[[object], Any]] = {
    "rows_per_second": _rate,
    "rows": _not_negative,
    "rows_per_batch": _at_least_one,
    "speed": _rate,
    "partitions": _at_least_one,
    "keys": _at_least_one,
    "key_type": _kind,
    "disorder": _share,
    "max_delay": _duration,
    "burst_every": _duration,
    "burst_length": _duration,
    "burst_delay": _duration,
    "start": _moment,
    "seed": _whole,
}
assert list(_READERS) == [field.name for field in fields(Options)]

_WANTED: dict[Callable[[object], Any], str] = {
    _rate: "a number from 0.000001 to 1000000000",
    _not_negative: "a whole number, 0 or more",
    _at_least_one: "a whole number, 1 or more",
    _kind: "'string' or 'int'",
    _share: "a share from 0 to 1",
    _duration: "a duration such as '2 seconds'",
    _moment: "a date and time such as '2024-01-01' or '2024-01-01T12:00:00+01:00'",
    _whole: "a whole number",
}


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
