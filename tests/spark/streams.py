"""Streams with known contents, fed to Spark file by file, and what has to come out of them.

Files         batches of rows as Parquet files, in an order; a micro-batch reads one
watermarks    which watermark each micro-batch has, as Spark defines it
Asked         a query by names, for Windlass and for the oracle
Run           a stream that ran: its rows by micro-batch, its figures
run           on Spark
stages        the same two stages without Spark, one after the other in this process
expected      what the oracle says of each micro-batch
collapsed     what is left when revisions and retractions are applied

Times are microseconds since 1970 here, and timestamps in the files.
"""

from __future__ import annotations

import math
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql.pandas.types import to_arrow_schema

import windlass
from windlass import agg, windows
from windlass.operator.operator import Operator
from windlass.spark import shared_windows, state
from windlass.spark.buckets import labels
from windlass.spark.cut import cut
from windlass.spark.frame import Frame
from windlass.spark.job import Job
from windlass.spark.merge import step

BASE = 1_700_000_000_000_000
MS = 1000

Rows = list[dict[str, Any]]

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "k": pa.string(),
        "j": pa.int32(),
        "id": pa.int64(),  # tells events apart, in the order of arrival
        "x": pa.int64(),
        "y": pa.int64(),
        "f": pa.float64(),  # quarters, whose sums are exact
        "s": pa.string(),
        "flag": pa.bool_(),
        "km": pa.int64(),  # does not decrease with time
    }
)


# --------------------------------------------------------------------------- streams


def events(times: Iterable[int], random: Random, first_id: int = 0, keys: Sequence[Any] = ("a", "b", None)) -> Rows:
    """Rows at these times, with random columns."""
    return [
        {
            "ts": ts,
            "k": random.choice(keys),
            "j": random.randrange(2),
            "id": first_id + i,
            "x": None if random.random() < 0.15 else random.randrange(-9, 10),
            "y": random.randrange(5),
            "f": None if random.random() < 0.1 else random.randrange(-8, 9) / 4,
            "s": random.choice(["p", "q", "rr", None]),
            "flag": random.random() < 0.4,
            "km": (ts - BASE) * 2 // (3 * MS),
        }
        for i, ts in enumerate(times)
    ]


def stream(
    seed: int,
    batches: int = 6,
    size: int = 60,
    *,
    pace: int = 25,
    disorder: int = 15,
    late: float = 0.08,
    how_late: int = 80,
    keys: Sequence[Any] = ("a", "b", None),
) -> list[Rows]:
    """Batches whose times wander forwards by `pace` milliseconds each, in disorder, with ties; some rows come late."""
    random = Random(seed)
    made: list[Rows] = []
    for n in range(batches):
        times = []
        for _ in range(size):
            at = random.randrange(n * pace - disorder, (n + 1) * pace)
            if random.random() < late:
                at -= random.randrange(how_late)
            tick = 0 if random.random() < 0.7 else random.randrange(MS)  # whole milliseconds, so that there are ties
            times.append(BASE + at * MS + tick)
        made.append(events(times, random, n * size, keys))
    return made


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)


class Files:
    """A directory that grows; Spark reads its files in the order of their times."""

    def __init__(self, path: Path, batches: Sequence[Rows] = ()) -> None:
        self.path, self.count = path, 0
        path.mkdir(parents=True, exist_ok=True)
        self.add(*batches)

    def add(self, *batches: Rows | pa.Table) -> None:
        for batch in batches:
            made = batch if isinstance(batch, pa.Table) else table(batch)
            name = self.path / f"{self.count:04d}.parquet"
            pq.write_table(made, name)
            os.utime(name, (1e9 + self.count, 1e9 + self.count))
            self.count += 1


def marked(batches: Sequence[Rows], delay: int, behind: bool = False) -> list[tuple[Rows, int | None]]:
    """Micro-batches and the watermark at the end of each: the greatest time so far less the delay (milliseconds), in
    whole milliseconds. Spark's own is one micro-batch `behind`, and the last has no data."""
    found: list[int | None] = [None] if behind else []
    greatest = -math.inf
    for batch in batches:
        greatest = max([greatest, *(row["ts"] for row in batch if row["ts"] is not None)])
        found.append(None if greatest == -math.inf else (int(greatest) // MS - delay) * MS)
    return list(zip([*batches, []] if behind else batches, found, strict=True))


# --------------------------------------------------------------------------- queries

Catalogue = Mapping[str, tuple[Any, oracle.Asked]]


def of_values(aggregate: Any, type_: pa.DataType) -> Callable[[Sequence[Any]], Any]:
    """A sketch has no definition but its own: the one of all values at once."""
    return lambda window: aggregate.of(pa.array(window, type_))


AGGREGATES: Catalogue = {
    "sum": (agg.sum("x"), oracle.Asked(oracle.sum_, ("x",))),
    "sum_f": (agg.sum("f"), oracle.Asked(oracle.sum_, ("f",))),
    "events": (agg.count(), oracle.Asked(oracle.count_events)),
    "count": (agg.count("x"), oracle.Asked(oracle.count, ("x",))),
    "avg": (agg.avg("x"), oracle.Asked(oracle.avg, ("x",))),
    "vwap": (agg.avg("f", weight="y"), oracle.Asked(oracle.weighted_avg, ("f", "y"))),
    "stddev": (agg.stddev("f"), oracle.Asked(oracle.stddev_samp, ("f",))),
    "var_pop": (agg.var_pop("x"), oracle.Asked(oracle.var_pop, ("x",))),
    "min": (agg.min("x"), oracle.Asked(oracle.min_, ("x",))),
    "max": (agg.max("f"), oracle.Asked(oracle.max_, ("f",))),
    "least_text": (agg.min("s"), oracle.Asked(oracle.min_, ("s",))),
    "spread": (agg.spread("x"), oracle.Asked(oracle.spread, ("x",))),
    "max_count": (agg.max_count("y"), oracle.Asked(oracle.max_count, ("y",))),
    "any": (agg.bool_or("flag"), oracle.Asked(oracle.bool_or, ("flag",))),
    "arg_max": (agg.arg_max("id", by="x"), oracle.Asked(oracle.arg_max, ("id", "x"))),
    "top_n": (agg.top_n("x", 3), oracle.Asked(lambda window: oracle.top_n(window, 3), ("x",))),
    "first": (agg.first("x"), oracle.Asked(oracle.first, ("x",))),
    "last": (agg.last("id"), oracle.Asked(oracle.last, ("id",))),
    "list": (agg.collect_list("id"), oracle.Asked(oracle.collect_list, ("id",))),
    "concat": (agg.concat("s", "-"), oracle.Asked(lambda window: oracle.concat(window, "-"), ("s",))),
    "m4": (agg.m4("f"), oracle.Asked(oracle.m4, ("f",))),
    "median": (agg.median("x"), oracle.Asked(oracle.median, ("x",))),
    "p90": (agg.percentile("f", 90), oracle.Asked(lambda window: oracle.percentile(window, 90), ("f",))),
    "distinct": (agg.count_distinct("y"), oracle.Asked(oracle.count_distinct, ("y",))),
    "mode": (agg.mode("y"), oracle.Asked(oracle.mode, ("y",))),
    "about": (
        agg.approx_count_distinct("id", precision=6),
        oracle.Asked(of_values(agg.approx_count_distinct(precision=6), pa.int64()), ("id",)),
    ),
    "bloom": (
        agg.bloom_filter("y", expected=20),
        oracle.Asked(of_values(agg.bloom_filter(expected=20), pa.int64()), ("y",)),
    ),
    "count_min": (
        agg.count_min("y", epsilon=0.1, delta=0.1),
        oracle.Asked(of_values(agg.count_min(epsilon=0.1, delta=0.1), pa.int64()), ("y",)),
    ),
}

CONDITIONS: dict[str, tuple[Any, oracle.Condition]] = {
    "flag": ("flag", "flag"),
    "y > 1": (pc.field("y") > 1, lambda columns: columns["y"] > 1),
    "odd": (lambda t: pc.equal(pc.bit_wise_and(t["y"], 1), 1), lambda columns: columns["y"] % 2 == 1),
}


@dataclass(frozen=True)
class Named:
    """A condition by its name, in the place of an oracle's own."""

    name: str


@dataclass(frozen=True)
class Asked:
    """A query for both: an oracle's window, names of aggregates, the name of a filter. A window's predicate is
    `Named`; `more` are aggregates and filters that a test brings along."""

    name: str
    window: Any
    aggregates: tuple[str, ...]
    where: str | None = None
    emit_empty: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def for_oracle(self) -> oracle.Query:
        asked = tuple((AGGREGATES | self.more)[name][1] for name in self.aggregates)
        where = None if self.where is None else (CONDITIONS | self.more)[self.where][1]
        return oracle.Query(self.name, self._window(type(self.window), 1), asked, where, self.emit_empty)

    def for_windlass(self) -> windlass.Query:
        asked = [(AGGREGATES | self.more)[name][0].alias(name) for name in self.aggregates]
        where = None if self.where is None else (CONDITIONS | self.more)[self.where][0]
        made = getattr(windows, type(self.window).__name__)
        lengths = {f.name for f in fields(made) if f.type == "Duration"} if self._on_time else set()

        def in_microseconds(**given: Any) -> Any:
            return made(**{k: np.timedelta64(v, "us") if k in lengths else v for k, v in given.items()})

        window = self._window(in_microseconds, 0)
        return windlass.Query(self.name, window, *asked, where=where, emit_empty=self.emit_empty)

    @property
    def _on_time(self) -> bool:
        return getattr(self.window, "measure", "time") == "time"

    def _window(self, make: Callable[..., Any], side: int) -> Any:
        given = {f.name: getattr(self.window, f.name) for f in fields(self.window)}
        known = CONDITIONS | self.more
        return make(**{k: known[v.name][side] if isinstance(v, Named) else v for k, v in given.items()})


# --------------------------------------------------------------------------- rows


def rows_of(mixed: pa.Table, asked: Iterable[Asked], key: Sequence[str]) -> list[oracle.Row]:
    """The windows of a mixed table, as the oracle has them."""
    found = []
    for query in asked:
        part = mixed.filter(pc.equal(mixed["query"], query.name))
        window = part["window"].combine_chunks()
        start, end = (window.field(i).cast(pa.int64()).to_pylist() for i in (0, 1))
        on_time = getattr(query.window, "measure", "time") == "time"
        low, high = (start, end) if on_time else (part["low"].to_pylist(), part["high"].to_pylist())
        keys = list(zip(*(part[name].to_pylist() for name in key), strict=True)) or [()] * part.num_rows
        values = [tuple(value[name] for name in query.aggregates) for value in part[query.name].to_pylist()]
        ordinal = [number or 0 for number in part["high"].to_pylist()] if on_time else [0] * part.num_rows
        assert not on_time or part["low"].null_count == part.num_rows
        history = part["revision"].to_pylist(), part["retraction"].to_pylist()
        columns = (keys, low, high, start, end, *history, values, ordinal)
        found += [oracle.Row(query.name, *row) for row in zip(*columns, strict=True)]
    windows_ = mixed.num_rows - mixed["query"].null_count
    assert len(found) == windows_, f"{windows_} rows are windows, but only {len(found)} of queries that were asked"
    return found


def shown(value: Any) -> str:
    """As text; floats to twelve digits, since sums may be taken in another order."""
    if isinstance(value, float):
        return f"{value + 0.0:.12g}f"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return repr(value)


def assert_same_rows(got: Iterable[Any], want: Iterable[Any], when: str = "") -> None:
    """Equal as multisets; types count, so 1 is not 1.0."""
    have, due = Counter(map(shown, got)), Counter(map(shown, want))
    missing = [f"missing    {row}" for row in (due - have).elements()]
    surplus = [f"unexpected {row}" for row in (have - due).elements()]
    report = "\n  ".join([*missing[:12], *surplus[:12]])
    assert have == due, f"{when}: {len(missing)} missing, {len(surplus)} unexpected\n  {report}"


def collapsed(rows: Iterable[oracle.Row]) -> list[oracle.Row]:
    """The latest revision of every window that is not retracted; without its number, which depends on watermarks. A
    window goes by its own bounds: the times that one on another measure covers may change."""
    latest: dict[Any, oracle.Row] = {}
    for row in rows:
        identity = (row.query, row.key, row.low, row.high, row.ordinal)
        if identity not in latest or latest[identity].revision < row.revision:
            latest[identity] = row
    return [row._replace(revision=-1) for row in latest.values() if not row.retraction]


# --------------------------------------------------------------------------- runs


@dataclass
class Expected:
    rows: list[list[oracle.Row]]  # by micro-batch
    expired: list[list[int]]  # ids of the events that came too late
    came_late: list[int]  # how many
    stream: oracle.Stream


def expected(
    batches: Sequence[Rows],
    asked: Sequence[Asked],
    *,
    delay: int,
    key: Sequence[str] = (),
    sequence: str | None = None,
    allowed_lateness: int = 0,
    behind: bool = False,
) -> Expected:
    """What the oracle says: in each micro-batch the events come in, then its watermark."""
    stream = oracle.Stream(
        [a.for_oracle() for a in asked], key=key, sequence=sequence, allowed_lateness=allowed_lateness
    )
    out = Expected([], [], [], stream)
    for batch, mark in marked(batches, delay, behind):
        before = stream.came_late
        stream.process(batch)
        out.rows.append([] if mark is None else stream.advance(mark))
        out.expired.append([row["id"] for row in stream.late()])
        out.came_late.append(stream.came_late - before)
    return out


def of_batch(
    rows: Rows, asked: Sequence[Asked], *, key: Sequence[str] = (), sequence: str | None = None
) -> list[oracle.Row]:
    """What the oracle says of all events at once."""
    stream = oracle.Stream([a.for_oracle() for a in asked], key=key, sequence=sequence)
    stream.process(rows)
    return stream.finish()


@dataclass
class Run:
    """What came out of a stream: tables by micro-batch, and its figures by micro-batch."""

    tables: dict[int, pa.Table]
    figures: dict[int, dict[str, int]]

    @property
    def mixed(self) -> pa.Table:
        return pa.concat_tables([self.tables[n] for n in sorted(self.tables)])

    def late(self, n: int | None = None) -> pa.Table:
        """The rows about late events, of one micro-batch or of all: the struct's fields as columns."""
        mixed = self.mixed if n is None else self.tables[n]
        late = mixed["late"].combine_chunks()
        return pa.Table.from_struct_array(late.filter(late.is_valid()))


def read_files(spark: Any, files: Files, schema: Any = None) -> Any:
    reader = spark.readStream.schema(schema or spark.read.parquet(str(files.path)).schema)
    return reader.option("maxFilesPerTrigger", 1).parquet(str(files.path))


def read_stream(spark: Any, files: Files, delay: int, schema: Any = None) -> Any:
    return read_files(spark, files, schema).withWatermark("ts", f"{delay} milliseconds")


def run(
    spark: Any,
    files: Files,
    queries: Any,
    checkpoint: Path,
    *,
    delay: int,
    source: Any = None,
    **options: Any,
) -> Run:
    """Run a stream of the files that are there, to its end; go on where the checkpoint left it."""
    source = read_stream(spark, files, delay) if source is None else source
    out = Run({}, {})

    def keep(frame: Any, n: int) -> None:
        out.tables[n] = frame.toArrow()

    mixed = shared_windows(source, queries, time="ts", **options)
    query = to_the_end(mixed.writeStream.foreachBatch(keep), checkpoint)
    for progress in query.recentProgress:
        figures = progress.observedMetrics.get("windlass")
        if figures is not None and progress.batchId in out.tables:
            out.figures[progress.batchId] = figures.asDict()
    return out


def to_the_end(writer: Any, checkpoint: Path) -> Any:
    """Run a query over all files that are there."""
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    for attempt in range(4):
        query = writer.start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            # Spark gives a Python process ten seconds to start, which a busy machine may need: that says nothing of us.
            if attempt == 3 or "failed to connect back" not in str(error):
                raise
    raise AssertionError


def fresh_workers(spark: Any) -> None:
    """Python processes of Spark belong to an environment; those of another one know nothing of earlier batches."""
    spark.sparkContext.environment["WINDLASS_TEST_RUN"] = uuid.uuid4().hex


def stages(
    batches: Sequence[Rows],
    queries: Sequence[windlass.Query],
    *,
    delay: int,
    key: Sequence[str] = (),
    sequence: str | None = None,
    allowed_lateness: int = 0,
    late: Any = "slices",
    buckets: int = 2,
    partitions: int = 1,
    restarts: Mapping[int, str] | None = None,
) -> Run:
    """What `run` does, without Spark. Before the micro-batches in `restarts` the operators go, and come back from a
    "snapshot" or from the "log"."""
    buckets = buckets if key else 1
    job = Job(tuple(queries), SCHEMA, "ts", tuple(key), sequence, f"{allowed_lateness}us", None, late, buckets)
    frame, names = Frame(job), labels(buckets)
    operators = {name: job.operator() for name in names}
    log: list[dict[int, bytes]] = []
    out = Run({}, {})
    for n, (batch, mark) in enumerate(marked(batches, delay)):
        if how := (restarts or {}).get(n):
            operators = {name: _restored(job, frame, how, operators[name], [s[name] for s in log]) for name in names}
        blocks: dict[int, list[bytes]] = {name: [] for name in names}
        for i in range(partitions):
            for made in cut(job, heartbeat=True)(table(batch[i::partitions]).to_batches(max_chunksize=17)):
                for row in made.to_pylist():
                    blocks[row["bucket"]] += [row["block"]] if row["block"] else []
        before = [operator.counters for operator in operators.values()]
        rows = [t for name in names for t in step(frame, operators[name], blocks[name], mark).rows]
        log.append({name: state.encode_step(blocks[name], mark) for name in names})
        after = [operator.counters for operator in operators.values()]
        out.tables[n] = _mixed(frame, [row for table_ in rows for row in table_.to_pylist()])
        out.figures[n] = {name: sum(c[name] for c in after) - sum(c[name] for c in before) for name in COUNTED}
    return out


def _mixed(frame: Frame, narrow: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows on their way to Spark as it will have them."""
    if "number" not in frame.schema.names:
        return pa.Table.from_pylist(list(narrow), schema=frame.schema)
    rows = []
    for given in narrow:
        row = {name: given[f"key_{i}"] for i, name in enumerate(frame.job.key)}
        if given["number"] < 0:
            [late] = given["late"]
            row |= {"late": late["shown"]} | {q: late.get(f"query_{i}") for i, q in enumerate(frame.queries)}
        else:
            name = frame.queries[given["number"]]
            row |= {"query": name, "window": {"start": given["starts"], "end": given["ends"]}}
            row |= {column: given.get(column) for column in ("low", "high", "revision", "retraction")}
            shape = frame.mixed[name].dataType
            place = list(dict.fromkeys(frame.mixed[query].dataType for query in frame.queries)).index(shape)
            row[name] = {field.name: given[f"answer_{place}_{i}"] for i, field in enumerate(shape)}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(frame.mixed, timezone="UTC"))


COUNTED = ("events", "late", "expired")


def _restored(job: Job, frame: Frame, how: str, operator: Operator, log: Sequence[bytes]) -> Operator:
    fresh = job.operator()
    if how == "snapshot":
        return fresh.restore(operator.snapshot())
    for written in log:
        step(frame, fresh, *state.decode_step(written))
    return fresh


def key_option(key: Sequence[str]) -> Any:
    return (list(key) if len(key) != 1 else key[0]) or None


def assert_like_the_oracle(run: Run, asked: Sequence[Asked], want: Expected, key: Sequence[str]) -> None:
    """Micro-batch by micro-batch: the same rows, the same late events, the same figures."""
    assert sorted(run.tables) == list(range(len(want.rows)))
    for n, due in enumerate(want.rows):
        got = rows_of(run.tables[n], asked, key)
        assert_same_rows(got, due, f"micro-batch {n}")
        late = run.late(n)
        assert (pc.sum(late["events"]).as_py() or 0) == len(want.expired[n]), f"late events of micro-batch {n}"
        if late.num_rows and not pc.all(pc.is_null(late["row"])).as_py():
            ids = [row.get("id") for row in late["row"].to_pylist()]  # it travels if it is needed
            assert ids == [None] * len(ids) or sorted(ids) == sorted(want.expired[n]), f"late events of micro-batch {n}"
