"""A history on disk: what was written by batches and buckets is answered as the events themselves would be."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import windlass
from windlass import History, Query, Tumbling, agg
from windlass.aggregates.partials import partial
from windlass.errors import CorruptSnapshot, InvalidArgument, UnknownColumn
from windlass.wheel.history_files import RUN, HistoryFiles, Kept

AGGREGATES = (agg.sum("x"), agg.max("x"), agg.avg("x").alias("mean"), agg.count(), agg.approx_count_distinct("x"))
TICK = 10


class Job:
    """What a job does: buckets of keys, each with an operator that keeps partials by tick."""

    def __init__(self, path: Path, keys: tuple[str, ...] = ("k",), buckets: int = 2) -> None:
        self.files, self.keys, self.buckets, self.batch = HistoryFiles(path), keys, buckets, 0
        types = {"k": pa.string(), "j": pa.int64()}
        self.files.create(
            Kept(
                TICK,
                pa.int64(),
                pa.schema([(name, types[name]) for name in keys]),
                AGGREGATES,
                pa.schema([("x", pa.int64())]),
                buckets,
            )
        )
        query = Query("h", Tumbling(TICK), *(partial(a).alias(str(i)) for i, a in enumerate(AGGREGATES)))
        schema = pa.schema({"ts": pa.int64(), "x": pa.int64()} | {name: types[name] for name in keys})
        self.operators = []
        for _ in range(buckets):
            operator = windlass.Operator(query, time="ts", key=list(keys) or None, allowed_lateness=10**6)
            operator.bind(schema)
            self.operators.append(operator)
        self.schema = schema

    def step(self, events: list[dict[str, Any]], watermark: int) -> None:
        for bucket, operator in enumerate(self.operators):
            mine = [e for e in events if hash(tuple(e[n] for n in self.keys)) % self.buckets == bucket]
            operator.process(pa.Table.from_pylist(mine, self.schema))
            table = operator.advance(watermark)["h"]
            start = pa.array([w["start"] // TICK for w in table["window"].to_pylist()], pa.int64())
            columns = [*(table[n] for n in self.keys), start, table["revision"]]
            columns += [table[str(i)] for i in range(len(AGGREGATES))]
            names = [*self.keys, "slot", "version", *map(str, range(len(AGGREGATES)))]
            slots = pa.Table.from_arrays(columns, names)
            for _ in range(2):  # once more, as a batch that is run again does
                self.files.write(self.batch, bucket, slots, watermark)
            if self.batch % RUN == 0:
                self.files.compact(bucket, self.batch)
        self.batch += 1


def answers(events: list[dict[str, Any]]) -> list[Any]:
    values = [e["x"] for e in events if e["x"] is not None]
    if not events:
        return [None, None, None, 0]
    if not values:
        return [None, None, None, len(events)]
    return [sum(values), max(values), sum(values) / len(values), len(events)]


NAMES = ["sum(x)", "max(x)", "mean", "count()"]


@pytest.mark.parametrize(("keys", "batches"), [(("k",), 12), ((), 5), (("k", "j"), 2 * RUN + 9)])
def test_any_range_by_any_key(tmp_path: Path, keys: tuple[str, ...], batches: int) -> None:
    random = Random(len(keys))
    job, seen, greatest = Job(tmp_path, keys, 2 if keys else 1), [], 0
    history = None
    for n in range(batches):
        events = [
            {
                "ts": n * 40 + random.randrange(-150, 60),  # late ones correct slots that were written long ago
                "k": random.choice(["a", "b", "c"]),
                "j": random.randrange(2),
                "x": random.choice([None, random.randrange(100)]),
            }
            for _ in range(12)
        ]
        job.step(events, n * 40)
        seen += events
        greatest = n * 40
        history = history or History(tmp_path)
        if n % 5 == 4 or n == batches - 1:
            assert history.refresh()
            ask(history, seen, greatest, keys, random)
    assert history is not None and not history.refresh()
    assert len(list((tmp_path / "slots").iterdir())) < 2 * (RUN + 10)
    for every in (TICK, 3 * TICK):
        found = History(tmp_path).slots(every)
        upto = greatest // every * every
        wanted: dict[Any, list[Any]] = {}
        for e in seen:
            if e["ts"] < upto:
                wanted.setdefault((*(e[n] for n in keys), e["ts"] // every * every), []).append(e)
        assert {tuple(row[n] for n in (*keys, "start")): row["sum(x)"] for row in found.to_pylist()} == {
            place: answers(some)[0] for place, some in wanted.items()
        }
    assert "sum(x), max(x), mean" in repr(history)


def ask(history: Any, seen: list[dict[str, Any]], watermark: int, keys: tuple[str, ...], random: Random) -> None:
    assert history.watermark == watermark
    upto = watermark // TICK * TICK
    for _ in range(8):
        a, b = sorted((random.randrange(-20, 60) * TICK, random.randrange(-20, watermark // TICK + 5) * TICK))
        inside = [e for e in seen if a <= e["ts"] < min(b, upto)]
        for name, want in zip(NAMES, answers(inside), strict=True):
            assert history.query(a, b, aggregate=name) == (pytest.approx(want) if name == "mean" else want), (a, b)
        if keys:
            chosen = random.choice(seen)
            key: Any = chosen["k"] if len(keys) == 1 else (chosen["k"], chosen["j"])
            mine = [e for e in inside if all(e[n] == chosen[n] for n in keys)]
            assert history.query(a, b, aggregate="sum(x)", key=key) == answers(mine)[0]
    grouped = history.group_by(0, upto, 50, aggregate="count()")
    wanted = [len([e for e in seen if s <= e["ts"] < min(s + 50, upto)]) for s in range(0, upto, 50)]
    assert grouped["count()"].to_pylist() == wanted


def everything(history: History, keys: tuple[str, ...]) -> Any:
    """What a history says, by slot and by key, and its wheels' own state."""
    found = []
    for name in NAMES:
        wheel = history.wheel(name)
        wheel.check_invariants()
        starts = list(range(-200, 6000, 70))
        found.append(wheel.query_many([s for s in starts for _ in (1, 2)], [s + d for s in starts for d in (10, 500)]))
        found.append((wheel.landmark(), wheel.query(0, 10**6)))
        if keys and wheel.keys:
            found.append(sorted(wheel.by_key(-200, 10**6).to_pylist(), key=str))
    slots = sorted(map(str, history.slots().to_pylist()))
    return found, slots, history.watermark, len(history)


@pytest.mark.parametrize("keys", [("k",), (), ("k", "j")])
def test_a_refresh_costs_what_is_new(tmp_path: Path, keys: tuple[str, ...], monkeypatch: Any) -> None:
    """One new batch: its files are read and no others. Corrections and files that are put together are honoured, and
    all is as in a history that is opened now."""
    random = Random(3)
    buckets = 2 if keys else 1
    job = Job(tmp_path, keys, buckets)
    read: list[Any] = []
    plain = HistoryFiles.read
    history = None
    made = 0
    for n in range(RUN + 12):
        late = 300 if n > 3 else 0
        quiet = 20_000 if n > 40 else 0  # longer than wheels store
        events = [
            {
                "ts": quiet + n * 40 + random.randrange(-late, 1) * random.randrange(2),
                "k": random.choice("abcdefgh"[: 2 + n // 10]),
                "j": random.randrange(2),
                "x": random.choice([None, random.randrange(100)]),
            }
            for _ in range(12)
        ]
        if n == 60:
            events[0]["ts"] = 10_000  # in a time that was left out
        job.step(events, quiet + n * 40)
        if history is None:
            history = History(tmp_path)
            continue
        before = dict(history._wheels)
        monkeypatch.setattr(HistoryFiles, "read", lambda self, name: read.append(name) or plain(self, name))
        read.clear()
        assert history.refresh() and not history.refresh()
        assert sorted(read) == [(n, n, b) for b in range(buckets)]
        monkeypatch.setattr(HistoryFiles, "read", plain)
        made += sum(before[name] is not history._wheels.get(name) for name in before)
        if n % 3 == 0 or n in (41, 42, 60, 61):
            assert everything(history, keys) == everything(History(tmp_path), keys), n
    assert made <= 3 * len(NAMES), "wheels go on, all but where a slot comes that they left out"


def test_a_refresh_over_files_that_were_put_together(tmp_path: Path) -> None:
    """A reader that slept: what it knows and what it does not are in one file by now."""
    job = Job(tmp_path)
    history = None
    for n in range(RUN + 1):
        job.step([{"ts": n * 40 - 100 * (n % 3), "k": k, "x": n} for k in "abc"], n * 40)
        if n == 20:
            history = History(tmp_path)
            history.query(0, 1000, aggregate="sum(x)")
    assert history is not None and history.refresh()
    assert everything(history, ("k",)) == everything(History(tmp_path), ("k",))


def test_a_batch_counts_when_all_buckets_have_written(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.step([{"ts": 5, "k": k, "x": 1} for k in "abcdef"], 20)
    (tmp_path / "slots" / "0000000000-0000000000-00001.slots").rename(tmp_path / "away")
    history = History(tmp_path)
    assert (history.watermark, len(history)) == (None, 0)
    assert history.query(0, 100, aggregate="count()") == 0
    (tmp_path / "away").rename(tmp_path / "slots" / "0000000000-0000000000-00001.slots")
    assert history.refresh()
    assert history.query(0, 100, aggregate="sum(x)") == 6


def test_damage_and_mistakes(tmp_path: Path) -> None:
    job = Job(tmp_path / "h")
    job.step([{"ts": 5, "k": "a", "x": 1}], 20)
    history = History(tmp_path / "h")
    with pytest.raises(InvalidArgument, match="say which aggregate"):
        history.query(0, 10)
    with pytest.raises(UnknownColumn, match="not 'sum"):
        history.query(0, 10, aggregate="sum(y)")
    with pytest.raises(InvalidArgument, match="other buckets"):
        Job(tmp_path / "h", buckets=3)
    file = next((tmp_path / "h" / "slots").iterdir())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptSnapshot, match="checksum"):
        History(tmp_path / "h")
    settings = json.loads((tmp_path / "h" / "history.json").read_text())
    settings["content"]["tick"] = 3
    (tmp_path / "h" / "history.json").write_text(json.dumps(settings))
    with pytest.raises(CorruptSnapshot, match="damaged"):
        History(tmp_path / "h")
    with pytest.raises(CorruptSnapshot, match="no history"):
        History(tmp_path / "nowhere")


def test_a_wheel_that_was_handed_out_is_of_one_watermark(tmp_path: Path) -> None:
    """It moves along as a whole, or stays as it was where another took its place."""
    job = Job(tmp_path)
    job.step([{"ts": 105, "k": "a", "x": 1}, {"ts": 113, "k": "b", "x": 2}], 120)
    history = History(tmp_path)
    held = history.wheel("sum(x)")

    def told() -> Any:
        return int(held.watermark), held.landmark(), held.query(100, 110), held.query(0, 1000)

    assert told() == (120, 3, 1, 3)
    job.step([{"ts": 106, "k": "a", "x": 10}, {"ts": 125, "k": "a", "x": 4}], 130)
    assert told() == (120, 3, 1, 3), "until it is refreshed"
    assert history.refresh() and history.wheel("sum(x)") is held
    assert told() == (130, 17, 11, 17)
    job.step([{"ts": 5, "k": "a", "x": 100}, {"ts": 135, "k": "a", "x": 8}], 140)  # before all that there was
    assert history.refresh() and history.wheel("sum(x)") is not held
    assert told() == (130, 17, 11, 17)
    assert history.wheel("sum(x)").landmark() == 125
