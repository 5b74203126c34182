"""What golden files hold: for each record, things of fixed content, how they are written, and what they answer.

A case writes a file or a directory and reads one back. It must give the same answers whichever version has written
what it reads. Everything here is arithmetic, so that each run sees the same events.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import windlass
from windlass import FineGrained, History, Level, Query, Watermarks, Wheel, agg
from windlass.aggregates.partials import partial
from windlass.formats.query import QUERY
from windlass.formats.spark import HEAD
from windlass.formats.wheel import WHEEL_SHARED
from windlass.operator.asked import query_record
from windlass.operator.definitions import defined
from windlass.operator.slicer import Slicer
from windlass.operator.stand_ins import Parts
from windlass.spark.blocks import decode_block, encode_block
from windlass.spark.job import Job
from windlass.spark.state import Head, decode_step, encode_step, head_of
from windlass.stores import (
    DABA,
    BInt,
    FiBA,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDeque,
    SlickDequeInv,
    SlickDequeNonInv,
    SubtractOnEvict,
    TwoStacks,
)
from windlass.wheel.history_files import HistoryFiles, Kept
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
)


@dataclass(frozen=True)
class Case:
    """`write` puts the case into a place; `answers` says, as JSON, what is read from there."""

    write: Callable[[Path], object]
    answers: Callable[[Path], Any]


def in_bytes(write: Callable[[], bytes], answers: Callable[[bytes], Any]) -> Case:
    return Case(lambda path: path.write_bytes(write()), lambda path: answers(path.read_bytes()))


# --------------------------------------------------------------------------- stores

VALUES = [3, 9, -4, 7, 7, 1, 12, -8, 5, 2]


def _store(technique: Any, aggregate: Any, values: Any = VALUES, **options: Any) -> Case:
    def write() -> bytes:
        store = technique(aggregate, **options)
        for value in values:
            if len(store) == 6:
                store.evict()
            store.insert(value)
        data: bytes = store.snapshot()
        return data

    def answers(data: bytes) -> Any:
        store = technique(aggregate).restore(data)
        store.check_invariants()
        found = [len(store), store.query()]
        store.evict()
        store.insert(values[0])
        return [*found, store.query()]

    return in_bytes(write, answers)


def _fiba() -> Case:
    def write() -> bytes:
        store = FiBA(agg.sum())
        for i, value in enumerate(VALUES * 5):
            store.insert(i * 7 % 50, value)
        data: bytes = store.snapshot()
        return data

    def answers(data: bytes) -> Any:
        store = FiBA(agg.sum()).restore(data)
        found = [len(store), store.query(), store.query(10, 20)]
        store.insert(12, 100)
        return [*found, store.query(10, 20)]

    return in_bytes(write, answers)


STORES = {
    "recompute_sum": _store(Recompute, agg.sum()),
    "subtract_on_evict_avg": _store(SubtractOnEvict, agg.avg()),
    "flatfat_max": _store(FlatFAT, agg.max()),
    "bint_min": _store(BInt, agg.min()),
    "flatfit_first": _store(FlatFIT, agg.first()),
    "two_stacks_collect_list": _store(TwoStacks, agg.collect_list()),
    "daba_variance": _store(DABA, agg.var_pop()),
    "slick_deque_inv_sum": _store(SlickDequeInv, agg.sum()),
    "slick_deque_non_inv_max": _store(SlickDequeNonInv, agg.max()),
    "two_stacks_median": _store(TwoStacks, agg.median()),
    "slick_deque_windows": _store(SlickDeque, agg.sum(), windows=[2, 6]),
    "two_stacks_words": _store(TwoStacks, agg.concat(), ["a", "ä", "", "long word", "b", "c", "d"]),
    "recompute_wide_sum": _store(Recompute, agg.sum(), [2**62, 2**62, -(2**62), 5, -(2**62), -(2**62), 1]),
    "daba_nullable": _store(DABA, agg.sum(), [1, None, 3, None, 5], nullable=True, dtype="int64"),
    "fiba_sum": _fiba(),
}

# --------------------------------------------------------------------------- operators


def events(begin: int, rows: int, in_order: bool = False) -> pa.Table:
    """Some rows of a stream, which is the same in each run."""
    i = np.arange(begin, begin + rows)
    ts = i // 2 if in_order else i // 2 + i * 7 % 11 - 5
    words = ["ä", "", None, "word", "another"]
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "user": [["ann", "bob", None, "a longer name"][n] for n in i * 5 % 7 % 4],
            "place": pa.array(i % 2, pa.int8()),
            "seq": pa.array(i, pa.int64()),
            "x": pa.array([None if n % 6 == 4 else int(n * 13 % 19) - 9 for n in i], pa.int64()),
            "y": pa.array(i * 3 % 5, pa.int64()),
            "f": pa.array(i * 37 % 64 / 64),  # sums of these are exact
            "word": [words[n] for n in i % 5],
            "flag": [bool(n) for n in i * 11 % 17 % 3 == 0],
            "km": pa.array(ts * 2 // 3, pa.int64()),
        }
    )


def told(results: windlass.Results) -> list[str]:
    """A line a row, in an order of their own."""
    return sorted(" ".join(_shown(name, value) for name, value in row.items() if value is not None) for row in results)


def _shown(name: str, value: Any) -> str:
    if name == "window":
        return f"{value['start']}…{value['end']}"
    if isinstance(value, dict):  # the answers of a query
        return " ".join(_shown(part, of) for part, of in value.items() if of is not None)
    return f"{name}={round(value, 9) if isinstance(value, float) else value}"


INTEGERS = (agg.sum("x"), agg.count(), agg.avg("x"), agg.min("x"), agg.max("x"))
OBJECTS = (agg.median("x"), agg.count_distinct("word"), agg.top_n("x", 2), agg.collect_list("word"))
IN_ORDER = (agg.first("f"), agg.last("word"), agg.stddev("f"))


def total(x: int) -> tuple[int, int]:
    return x, 1


def added(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] + b[1]


def mean(p: Any) -> float:
    return float(p[0] / p[1])


def step(state: Any, ts: Any, y: Any) -> Any:
    begins = 1 if y > 1 else 0
    ends = state[0] if y == 0 else 0
    return (state[0] + begins - ends,), begins, ends


def every_third(state: Any, ts: Any) -> Any:
    return (state[0] + 1,), state[0] % 3 == 0, 1


def rule(ts: Any, y: Any) -> Any:
    return (5, 2) if y < 2 else (10, 5)


MEAN = agg.define("mean", lift=total, combine=added, lower=mean, commutative=True)

FIXED = [
    Query("tumbling", Tumbling(5), *INTEGERS),
    Query("sliding", Sliding(12, 4), *OBJECTS),
    Query("cumulate", Cumulate(3, 12), agg.sum("x")),
    Query("band", Band(3, 20), agg.count()),
    Query("landmark", Landmark(2, 4), agg.min("y")),
    Query("dear", Tumbling(4, offset=1), agg.sum("x"), where=pc.field("x") > 0),
    Query("flagged", Sliding(6, 2), agg.sum("y"), where="flag"),
]
SESSIONS = [
    Query("visits", Session(2), *INTEGERS),
    Query("long", Session(4), agg.median("x")),
    Query("t", Tumbling(6), agg.count()),
]
FOUND = [
    Query("frames", ThresholdFrame("flag"), *IN_ORDER),
    Query("marks", Punctuation("flag"), agg.collect_list("x")),
    Query("rows", Tumbling(4, measure="count"), *OBJECTS),
    Query("road", Sliding(9, 3, measure="km"), agg.sum("x")),
    Query("last", LastN(3, 5), agg.last("word")),
    Query("pairs", SlideByTuple(8, 2), agg.count()),
    Query("now", Snapshot(6), agg.max("x")),
]
FUNCTIONS = [
    Query("driven", DataDriven(rule, columns=("y",)), agg.count()),
    Query("three", Deterministic(every_third), MEAN("x")),
    Query("open", NonDeterministic(step, columns=("y",)), agg.sum("x")),
    Query("mean", Tumbling(7), MEAN("x")),
]


def _operator(queries: list[Query], *, change: Any = None, **options: Any) -> Case:
    """One that has seen events, late ones among them, and has rows that wait; it goes on to the end."""
    in_order = options.get("order") == "in-order"
    given = {"time": "ts", "key": "user"} | options

    def write() -> bytes:
        op = windlass.Operator(queries, **given)
        op.process(events(0, 60, in_order))
        if not in_order and "watermarks" not in given:
            op.advance(18)
        op.process(events(40 if not in_order else 60, 40, in_order))
        if change is not None:
            change(op)
            op.process(events(80 if not in_order else 100, 20, in_order))
        return op.snapshot()

    def answers(data: bytes) -> Any:
        now = windlass.Operator(queries, **given)
        if change is not None:
            change(now)
        op = windlass.Operator(now.queries, **given).restore(data)
        found = [op.watermark, op.counters["events"], op.counters["late"]]
        op.process(events(100 if not in_order else 130, 40, in_order))
        rows = told(op.advance() if in_order or "watermarks" in given else op.advance(45))
        return [*found, rows, told(op.finish()), op.late().to_pylist()]

    return in_bytes(write, answers)


def _remove_and_add(op: Any) -> None:
    op.add(Query("fresh", Sliding(9, 3), agg.sum("f")))
    op.remove("sliding")
    op.add(Query("tuples", Tumbling(3, measure="count"), agg.sum("x")))


OPERATORS = {
    "fixed_late": _operator(FIXED, allowed_lateness=9),
    "fixed_no_key": _operator(FIXED, key=None, allowed_lateness=9),
    "fixed_two_keys": _operator(FIXED, key=["user", "place"], allowed_lateness=9),
    "fixed_in_order": _operator(FIXED, order="in-order"),
    "fixed_in_order_no_key": _operator(FIXED, order="in-order", key=None),
    "fixed_empty": _operator([Query("e", Tumbling(3), agg.sum("x"), emit_empty=True), *FIXED], allowed_lateness=6),
    "fixed_eager": _operator(FIXED, allowed_lateness=9, store="eager"),
    "fixed_fiba": _operator(FIXED, allowed_lateness=9, store="fiba"),
    "fixed_trees": _operator(FIXED, allowed_lateness=9, technique="flatfat"),
    "following_watermarks": _operator(FIXED, watermarks=Watermarks(4, 2), allowed_lateness=3),
    "sessions": _operator(SESSIONS, allowed_lateness=9),
    "found_in_events": _operator(FOUND, allowed_lateness=9, sequence="seq"),
    "found_in_order": _operator([q for q in FOUND if q.name != "now"], order="in-order"),
    "functions": _operator(FUNCTIONS, allowed_lateness=5),
    "removed_and_added": _operator(FIXED, change=_remove_and_add, allowed_lateness=9),
    "key_ttl": _operator([FIXED[0], FIXED[1]], key_ttl=30, allowed_lateness=3),
}

# --------------------------------------------------------------------------- fine-grained


def _fine_grained(**options: Any) -> Case:
    aggregates = {"total": agg.sum("x"), "most": agg.max("f"), "words": agg.collect_list("word")}

    def make() -> FineGrained:
        return FineGrained(aggregates, time="ts", **options)

    def write() -> bytes:
        fine = make()
        fine.process(events(0, 40))
        fine.process(events(30, 30))
        return fine.snapshot()

    def answers(data: bytes) -> Any:
        fine = make().restore(data)
        return fine.process(events(50, 20)).select(["ts", *aggregates]).to_pylist()

    return in_bytes(write, answers)


FINE_GRAINED = {
    "span_by_key": _fine_grained(key="user", span=9),
    "span": _fine_grained(span=9),
    "window_by_two_keys": _fine_grained(key=["user", "place"], window=4),
}

# --------------------------------------------------------------------------- wheels

MINUTES = [Level(every=1, keep="all"), Level(every=10, keep="all"), Level(every=60, keep="all")]


def _saved(path: Path, form: str, saves: int = 2, aggregate: Any = None, **options: Any) -> None:
    options = {"tick": 1, "levels": [1, 10, 60, 600], "write_ahead": 16, "dtype": "int64"} | options
    w = Wheel(aggregate or agg.sum(), 0, **options)
    for save in range(saves):
        i = np.arange(save * 20, save * 20 + 30)
        given = [i * 7 % 23 - 5, i * 3 + 200 * (i > 33)]
        if options.get("keys"):
            given.append(np.array([["ann", "bob", "é"][n] for n in i % 3]))
        w.insert_many(*given)
        w.advance_to(int(save * 60 + 47))
        w.save(path, form)


def _told_by(path: Path, aggregate: Any = None) -> Any:
    w = Wheel.open(path, aggregate or agg.sum())
    w.check_invariants()
    ranges = [(0, 20), (3, 77), (47, 60), (0, w.watermark), (10, 11)]
    found: list[Any] = [w.watermark, w.late, *(w.query(a, b) for a, b in ranges)]
    if w.keys is not None:
        found.append(w.by_key(0, 60).to_pylist())
    w.advance_to(w.watermark + 300)
    return [*found, w.query(0, w.watermark)]


def _wheel(form: str, **options: Any) -> Case:
    aggregate = options.get("aggregate")
    return Case(lambda path: _saved(path, form, **options), lambda path: _told_by(path, aggregate))


WHEELS = {
    "parquet": _wheel("parquet"),
    "arrow_keys": _wheel("arrow", keys=True),
    "average": _wheel("parquet", aggregate=agg.avg()),
    "prefix": _wheel("arrow", prefix=True),
}
MANIFESTS = {"merged": _wheel("arrow", saves=33)}
STATES = {"ahead_by_key": _wheel("parquet", keys=True, saves=1), "words": _wheel("arrow", aggregate=agg.max(), saves=1)}

# --------------------------------------------------------------------------- histories

HISTORY = (agg.sum("x"), agg.max("x"), agg.avg("x").alias("mean"), agg.count())


def _history(path: Path) -> None:
    """As a job of two buckets writes it, of which the first batches were put together."""
    files, schema = HistoryFiles(path), pa.schema([("k", pa.string())])
    files.create(Kept(10, pa.int64(), schema, HISTORY, pa.schema([("x", pa.int64())]), 2))
    query = Query("h", Tumbling(10), *(partial(a).alias(str(i)) for i, a in enumerate(HISTORY)))
    operators = [windlass.Operator(query, time="ts", key="k", allowed_lateness=10**6) for _ in range(2)]
    for batch in range(66):
        for bucket, op in enumerate(operators):
            i = np.arange(batch * 4, batch * 4 + 4)
            op.process({"ts": i * 5, "k": [f"{bucket}{n % 2}" for n in i], "x": i * 7 % 13})
            table = op.advance(int(batch * 20))["h"]
            start = pa.array([w["start"] // 10 for w in table["window"].to_pylist()], pa.int64())
            columns = [table["k"], start, table["revision"], *(table[str(n)] for n in range(len(HISTORY)))]
            names = ["k", "slot", "version", *map(str, range(len(HISTORY)))]
            files.write(batch, bucket, pa.Table.from_arrays(columns, names), int(batch * 20))
            files.compact(bucket, batch)


def _told_by_history(path: Path) -> Any:
    history = History(path)
    ranges = [(0, 200), (50, 730), (0, 1300)]
    found = [history.query(a, b, aggregate=name) for name in history.aggregates for a, b in ranges]
    return [history.watermark, *found, history.by_key(0, 500, aggregate="mean").to_pylist()]


HISTORIES = {"two_buckets": Case(_history, _told_by_history)}

# --------------------------------------------------------------------------- queries, Spark, what is shared


def _query(query: Query) -> Case:
    def answers(path: Path) -> Any:
        record = QUERY.read_from(path)
        made = None if record["definition"] is None else defined(record["name"], record["definition"])
        return [record["name"], record["window"], record["aggregates"], record["filter"], repr(made)]

    return Case(lambda path: QUERY.write_to(path, query_record(query)), answers)


def _removed() -> Case:
    """A query with functions, which was removed beside one that has the same window."""
    live = Query("live", Punctuation("flag"), agg.count(), where=pc.field("x") > 0)
    gone = Query("gone", Punctuation("flag"), MEAN("x"), agg.sum("y"), where=lambda table: table["flag"])

    def answers(path: Path) -> Any:
        record = QUERY.read_from(path)
        made = defined(record["name"], record["definition"], [live])
        return [record["name"], made is not None and made.window == live.window, repr(record["definition"])]

    return Case(lambda path: QUERY.write_to(path, query_record(gone, Parts([live], None))), answers)


QUERIES = {query.name: _query(query) for query in (*FIXED, *SESSIONS, *FOUND, FUNCTIONS[0])} | {"removed": _removed()}


def _slices() -> pa.Table:
    slicer = Slicer([FIXED[0], FIXED[5], FIXED[6]], events(0, 1).schema, time="ts", key="user")
    slicer.process(events(0, 40))
    return slicer.take()


def _block(make: Callable[[], pa.Table], kind: str) -> Case:
    def answers(data: bytes) -> Any:
        found, table = decode_block(data)
        return [found, str(table.schema.remove_metadata()).splitlines(), repr(table.to_pylist())]

    return in_bytes(lambda: encode_block(make(), kind), answers)


BLOCKS = {"events": _block(lambda: events(0, 9), "events"), "slices": _block(_slices, "slices")}


def _step() -> Case:
    def answers(data: bytes) -> Any:
        blocks, watermark = decode_step(data)
        return [watermark, [None if not len(block) else decode_block(block)[1].num_rows for block in blocks]]

    def write() -> bytes:
        first, last = (encode_block(some, "events") for some in (events(0, 9), events(9, 3)))
        return encode_step([first, b"", last], 1000)

    return in_bytes(write, answers)


def _head() -> Case:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.int64())])
    job = Job((Query("sum", Tumbling("10s"), agg.sum("x")),), schema, "ts", (), None, 0, None, "slices", 4)

    def answers(data: bytes) -> Any:
        head = head_of((HEAD.version, data), 3)
        was = job.before(head.job)
        return [
            head.token.hex(),
            head.base.hex(),
            head.watermark,
            head.timer,
            head.log,
            head.snapshot,
            repr(was.queries),
        ]

    return in_bytes(lambda: Head(b"t" * 16, b"b" * 16, job.fingerprint, 7, 8, 9, 10).row()[-1], answers)


def _shared() -> Case:
    """The record that lies in a control file."""

    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            w = Wheel(agg.sum(), 0, tick=1, levels=[1, 10], write_ahead=16, dtype="int64", keys=True)
            w.share(place)
            w.insert_many([1, 2, 3], [0, 5, 17], ["a", "b", "a"])
            w.advance_to(40)
            with (Path(place) / "control").open("rb") as file:
                words = np.frombuffer(file.read(32), np.int64)
                path.write_bytes(file.read(int(words[2])))

    def answers(path: Path) -> Any:
        found = WHEEL_SHARED.unseal(path.read_bytes())
        arrays = {name: found[name].tolist() for name in ("header", "gaps", "some")}
        some = found["some"]
        totals = [column[some].tolist() for column in found["totals"]]
        return [arrays, totals, found["keys"], found["wide"], len(found["arrays"])]

    return Case(write, answers)


CASES: dict[str, dict[str, Case]] = {
    "query": QUERIES,
    "spark-block": BLOCKS,
    "spark-step": {"two_blocks": _step()},
    "spark-head": {"head": _head()},
    "wheel-shared": {"keys": _shared()},
    "store": STORES,
    "operator": OPERATORS,
    "fine-grained": FINE_GRAINED,
    "wheel": WHEELS,
    "wheel-manifest": MANIFESTS,
    "wheel-state": STATES,
    "history": HISTORIES,
}
