"""Wheels that are saved, opened, merged, shared: they answer as the wheel, or wheels, that they came from."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.wheel.oracle import FOLDS, Model, same
from windlass import agg
from windlass.errors import CorruptSnapshot, InvalidArgument, UnsupportedAggregate
from windlass.wheel import files
from windlass.wheel.files import RUN, Directory
from windlass.wheel.hierarchy import Level
from windlass.wheel.wheel import Wheel

LEVELS = [1, 10, 60, 600]
EVENTS = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 300), st.booleans()), max_size=40)


def wheel(start: int = 0, aggregate: Any = None, **options: Any) -> Wheel:
    options = {"tick": 1, "levels": LEVELS, "write_ahead": 16, "dtype": "int64"} | options
    return Wheel(aggregate or agg.sum(), start, **options)


def model_of(events: Any, watermark: int, name: str = "sum") -> Model:
    model = Model(-1000, 1, FOLDS[name])
    for value, t, *key in events:
        model.insert(value, t, key[0] if key else None)
    model.advance(watermark)
    return model


def check(w: Wheel, model: Model, ranges: Any = None, **which: Any) -> None:
    end = model.watermark
    for a, b in ranges or [(0, 300), (3, 77), (60, 240), (119, 121), (0, end), (end - 50, end), (-5, 1000)]:
        assert same(w.query(a, b, **which), model.query(a, b, which.get("keys"))), (a, b, w.explain(a, b))
    w.check_invariants()


# --------------------------------------------------------------------------- merging


@given(
    st.lists(st.tuples(EVENTS, st.integers(0, 200), st.integers(-40, 0)), min_size=2, max_size=3),
    st.sampled_from(["sum", "max", "avg"]),
    st.booleans(),
)
@settings(suppress_health_check=list(HealthCheck))
def test_merging_is_associative_and_commutative_and_loses_nothing(parts: Any, name: str, prefix: bool) -> None:
    aggregate = agg.sum() if name == "sum" else agg.counted(getattr(agg, name)())[0]
    wheels, events, least = [], [], min(w for _, w, _ in parts)
    for some, watermark, start in parts:
        w = wheel(start, aggregate, prefix=prefix and aggregate.invertible)
        w.insert_many(np.array([v for v, _, _ in some], np.int64), np.array([t for _, t, _ in some], np.int64))
        w.advance_to(watermark)
        wheels.append(w)
        events += [(v, t) for v, t, _ in some]
    model = model_of(events, least, name)
    one = wheels[0]
    for other in wheels[1:]:
        one = one.merge(other)
    two = wheels[-1]
    for other in reversed(wheels[:-1]):
        two = other.merge(two)
    three = wheels[-1]
    for other in reversed(wheels[:-1]):
        three = three.merge(other)
    for merged in (one, two, three):
        check(merged, model)
        assert merged.watermark == least
    for merged in (one, two, three):  # what one of them has beyond is still there
        merged.advance_to(300)
    model.advance(300)
    for merged in (one, two, three):
        check(merged, model)


def test_wheels_that_differ_are_not_merged() -> None:
    with pytest.raises(InvalidArgument, match="differ in tick"):
        wheel().merge(wheel(tick=2, levels=[2, 10]))
    with pytest.raises(InvalidArgument, match="differ in aggregate"):
        wheel().merge(wheel(aggregate=agg.max()))
    ahead, behind = wheel(retention="drop"), wheel(retention="drop")
    ahead.advance_to(5000)
    behind.advance_to(7)
    with pytest.raises(InvalidArgument, match="advance that one first"):
        ahead.merge(behind)


def test_wheels_with_keys_merge_by_key() -> None:
    a, b = wheel(keys=True), wheel(keys=True)
    a.insert_many([1, 2, 3], [0, 1, 15], ["x", "y", "x"])
    b.insert_many([10, 20], [1, 2], ["z", "x"])
    for w in (a, b):
        w.advance_to(20)
    merged = a.merge(b)
    assert merged.query(0, 20) == 36
    assert merged.query(0, 20, key="x") == 24
    assert merged.by_key(0, 2).to_pydict() == {"key": ["x", "y", "z"], "sum()": [1, 2, 10]}


# --------------------------------------------------------------------------- files


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_wheel_comes_back_and_goes_on(tmp_path: Path, form: Any) -> None:
    rng = np.random.default_rng(3)
    w, model = wheel(-20), model_of([], 0)
    reopened = None
    for round_, watermark in enumerate((50, 51, 5000, 5100)):  # a gap is in it
        times = rng.integers(max(int(w.watermark), 0), watermark + 40, 60)
        values = rng.integers(-9, 9, 60)
        for v, t in zip(values.tolist(), times.tolist(), strict=True):
            model.insert(v, t)
        w.insert_many(values, times)
        w.advance_to(watermark)
        model.advance(watermark)
        assert w.save(tmp_path / "w", form) == round_
        reopened = Wheel.open(tmp_path / "w", agg.sum())
        check(reopened, model, [(0, 300), (40, 60), (0, watermark), (4990, 5100), (49, 5000)])
        assert (reopened.watermark, reopened.late) == (w.watermark, w.late)
    assert reopened is not None
    for one in (w, reopened):
        one.advance_to(5200)
    model.advance(5200)
    check(reopened, model, [(0, 5200), (5000, 5200)])
    assert reopened.save(tmp_path / "w", form) == 4


def test_a_save_writes_only_what_is_new(tmp_path: Path) -> None:
    w = wheel()
    w.insert_many(np.ones(1000, np.int64), np.arange(1000) % 300)
    w.advance_to(300)
    w.save(tmp_path)
    w.insert_many(np.ones(2, np.int64), np.array([301, 302]))
    w.advance_to(310)
    w.save(tmp_path)
    newest = [pa.parquet.read_table(f) for f in (tmp_path / "slots").glob("0-00000001-*")]
    assert [t["slot"].to_pylist() for t in newest] == [[301, 302]]


def test_the_newest_version_of_a_slot_counts(tmp_path: Path) -> None:
    w = wheel(levels=[1])
    w.insert_many([1, 2], [3, 4])
    w.advance_to(10)
    w.save(tmp_path)
    corrected = pa.table({"slot": [4], "version": [1], "0_sum": [50]})
    Directory(tmp_path).commit(1, {0: corrected}, None)
    Directory(tmp_path).commit(1, {0: corrected}, None)  # again: it replaces itself
    again = Wheel.open(tmp_path, agg.sum())
    assert again.query(3, 5) == 51


@pytest.mark.parametrize("merged", [False, True])
def test_what_is_rolled_up_follows_a_correction(tmp_path: Path, merged: bool, monkeypatch: Any) -> None:
    """Levels above, totals, and quiet times that it falls into; also once files were put together."""
    monkeypatch.setattr(files, "RUN", 2)
    w, events = wheel(), [(1, 3), (2, 64), (3, 9000), (4, 9130)]
    w.insert_many(*zip(*events, strict=True))
    w.advance_to(9140)
    w.save(tmp_path)
    directory = Directory(tmp_path)
    corrected = dict([(64, 50), (2, 7), (5000, 9), (9130, 60)][: None if merged else 2])
    for number, (slot, value) in enumerate(corrected.items(), 1):
        directory.commit(number, {0: pa.table({"slot": [slot], "version": [number], "0_sum": [value]})}, None)
    assert merged == any(f.name.startswith("merged-") for f in (tmp_path / "manifests").iterdir())
    now = {slot: value for value, slot in events} | corrected
    model = model_of([(value, slot) for slot, value in now.items()], 9140)
    again = Wheel.open(tmp_path, agg.sum())
    check(again, model, [(0, 600), (60, 120), (0, 60), (0, 9140), (4800, 5400), (9000, 9120), (9060, 9200), (1, 9139)])
    assert again.landmark() == model.query(0, 9140)


def test_a_correction_that_would_leave_sums_out_of_date_is_refused(tmp_path: Path) -> None:
    row = {"version": [1], "0_sum": [50]}
    for name, options in (("all", {}), ("some", {"retention": {1: 20}})):
        w = wheel(**options)
        w.insert_many([1, 2], [3, 64])
        w.advance_to(200)
        w.save(tmp_path / name)
    directory = Directory(tmp_path / "all")
    for slots, why in (
        ({0: pa.table({"slot": [64], **row}), 1: pa.table({"slot": [6], **row})}, "level 1 come without a state"),
        ({0: pa.table({"slot": [200], **row})}, "ticks 0 to 200"),
        ({0: pa.table({"slot": [-1], **row})}, "ticks 0 to 200"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            directory.commit(1, slots, None)
    with pytest.raises(InvalidArgument, match="no longer keeps"):
        Directory(tmp_path / "some").commit(1, {0: pa.table({"slot": [190], **row})}, None)
    assert Wheel.open(tmp_path / "all", agg.sum()).landmark() == 3


def test_damage_is_found(tmp_path: Path) -> None:
    w = wheel()
    w.insert_many([1, 2], [3, 4])
    w.advance_to(10)
    w.save(tmp_path)
    with pytest.raises(CorruptSnapshot, match="not max"):
        Wheel.open(tmp_path, agg.max())
    file = next((tmp_path / "slots").iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptSnapshot, match="checksum"):
        Wheel.open(tmp_path, agg.sum())
    file.write_bytes(whole)
    manifest = next((tmp_path / "manifests").iterdir())
    manifest.write_text(manifest.read_text().replace('"watermark": 10', '"watermark": 11'))
    with pytest.raises(CorruptSnapshot, match="checksum"):
        Wheel.open(tmp_path, agg.sum())
    with pytest.raises(CorruptSnapshot, match="no wheel"):
        Wheel.open(tmp_path / "nowhere", agg.sum())


def test_files_that_no_manifest_names_do_not_count(tmp_path: Path) -> None:
    w = wheel()
    w.insert_many([1, 2], [3, 4])
    w.advance_to(10)
    w.save(tmp_path)
    for file in list((tmp_path / "slots").iterdir()):  # what a save that died leaves behind
        (tmp_path / "slots" / f"{file.name}.orphan.parquet").write_bytes(file.read_bytes())
    (tmp_path / "manifests" / ".00000001.json.abc").write_text("half of a manif")
    assert Wheel.open(tmp_path, agg.sum()).landmark() == 3


class Killed(BaseException):
    """As kill -9: nothing in the package handles it."""


def saved_often(path: Path, times: int) -> Any:
    w = wheel(levels=[1, 10])
    for n in range(times):
        w.insert_many([n, 1], [10 * n, 10 * n + 3])
        w.advance_to(10 * n + 10)
        if path is not None:
            w.save(path)
    return w


def told(w: Any) -> Any:
    return [w.query(a, a + d) for a in range(0, 400, 7) for d in (3, 50)], w.landmark(), w.watermark


def test_a_directory_puts_its_files_together(tmp_path: Path) -> None:
    w = saved_often(tmp_path, RUN * RUN + 3 * RUN)
    assert told(Wheel.open(tmp_path, agg.sum())) == told(w)
    manifests = [json.loads(f.read_text())["content"] for f in (tmp_path / "manifests").iterdir()]
    assert len(manifests) < 4 * RUN and {m.get("merges", 0) for m in manifests} == {0, 1, 2}
    named = {f["name"] for m in manifests for f in [*m["files"], m["state"]]}
    there = {str(f.relative_to(tmp_path)) for d in ("slots", "state") for f in (tmp_path / d).iterdir()}
    assert there == named, "nothing is left behind"
    assert w.save(tmp_path) == RUN * RUN + 3 * RUN


def test_commits_that_were_put_together_are_done_for_good(tmp_path: Path) -> None:
    """And one that comes late, under a number that was not there, counts."""
    w = wheel(levels=[1])
    w.insert_many([1, 2], [3, 4])
    w.advance_to(10)
    w.save(tmp_path)
    directory = Directory(tmp_path)
    for number in [*range(1, 5), *range(6, 3 * RUN)]:
        directory.commit(number, {0: pa.table({"slot": [4], "version": [number], "0_sum": [number]})}, None)
    assert any(f.name.startswith("merged-") for f in (tmp_path / "manifests").iterdir())
    directory.commit(2, {0: pa.table({"slot": [4], "version": [2], "0_sum": [2]})}, None)
    directory.commit(5, {0: pa.table({"slot": [3], "version": [5], "0_sum": [100]})}, None)
    assert Wheel.open(tmp_path, agg.sum()).query(3, 5) == 100 + 3 * RUN - 1


def test_a_save_may_be_killed_at_any_point(tmp_path: Path, monkeypatch: Any) -> None:
    """Before and after each file operation of a save that puts files together, twice over. What is there is the state
    before or after it, and the next save goes on."""
    monkeypatch.setattr(files, "RUN", 2)
    base = tmp_path / "base"
    saved_often(base, 11)  # the next save merges commits, and merges of them
    before = told(Wheel.open(base, agg.sum()))
    operations = [(Path, "replace"), (Path, "unlink"), (Path, "open"), (os, "fsync"), (pa.parquet, "write_table")]
    outcomes, k = set(), 0
    while True:
        path = tmp_path / str(k)
        shutil.copytree(base, path)
        w = Wheel.open(path, agg.sum())
        w.insert_many([7], [112])
        w.advance_to(120)
        left = k

        def interrupted(plain: Any) -> Any:
            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal left
                for after in (False, True):
                    if left == 0:
                        raise Killed
                    left -= 1
                    if not after:
                        result = plain(*arguments, **named)
                return result

            return call

        with monkeypatch.context() as patch:
            for where, name in operations:
                patch.setattr(where, name, interrupted(getattr(where, name)))
            try:
                w.save(path)
                done = True
            except Killed:
                done = False
        found = Wheel.open(path, agg.sum())
        outcomes.add(told(found) == told(w))
        assert told(found) in (before, told(w)), k
        found.insert_many([9], [125])
        found.advance_to(130)
        for _ in range(5):
            found.save(path)
        again = Wheel.open(path, agg.sum())
        assert told(again) == told(found), k
        shutil.rmtree(path)
        if done:
            break
        k += 1
    assert outcomes == {True, False} and k > 40


def test_a_reader_that_is_opening_while_files_are_put_together(tmp_path: Path, monkeypatch: Any) -> None:
    """Another process merges and deletes, between any two files that this one reads."""
    monkeypatch.setattr(files, "RUN", 4)
    base = tmp_path / "base"
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "compact", lambda self: None)
        want = told(saved_often(base, 12))
    plain, compact = (Directory._manifest, Directory._read), Directory.compact
    for k in range(24 + 12):
        path = tmp_path / str(k)
        shutil.copytree(base, path)
        left = k

        def meanwhile(call: Any, path: Path = path) -> Any:
            def read(self: Any, *arguments: Any) -> Any:
                nonlocal left
                left -= 1
                if left == -1:
                    compact(Directory(path))
                return call(self, *arguments)

            return read

        with monkeypatch.context() as patch:
            patch.setattr(Directory, "_manifest", meanwhile(plain[0]))
            patch.setattr(Directory, "_read", meanwhile(plain[1]))
            assert told(Wheel.open(path, agg.sum())) == want, k


def test_objects_and_arrays_are_saved_too(tmp_path: Path) -> None:
    for name, aggregate in (("median", agg.median()), ("distinct", agg.count_distinct())):
        w = wheel(aggregate=aggregate)
        w.insert_many([5, 1, 9, 5], [3, 4, 50, 51])
        w.advance_to(60)
        w.save(tmp_path / name)
        again = Wheel.open(tmp_path / name, aggregate)
        assert again.query(0, 60) == w.query(0, 60)
        assert again.query(4, 51) == w.query(4, 51)


# --------------------------------------------------------------------------- readers


def test_threads_see_one_watermark_while_the_writer_goes_on() -> None:
    w = wheel(levels=[1, 10, 100], write_ahead=64)
    w.insert_many(np.ones(1, np.int64), np.array([0]))
    w.advance_to(1)
    wrong: list[Any] = []
    answered = [0, 0]
    stop = threading.Event()

    def read(which: int) -> None:
        reader = w.reader()
        while not stop.is_set():
            watermark = int(reader.watermark)
            whole = reader.landmark()
            if not watermark <= whole <= int(reader.watermark):  # one event a tick, from 0 on
                wrong.append((watermark, whole))
            part = reader.query(watermark // 2, watermark)
            if part != watermark - watermark // 2:
                wrong.append((watermark, part))
            answered[which] += 1

    threads = [threading.Thread(target=read, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    t = 1
    while t < 3000 or (min(answered) < 5 and t < 300_000):  # until both have asked, who may have to compile first
        w.insert_many(np.ones(3, np.int64), np.arange(t, t + 3))
        w.advance_to(t + 3)
        t += 3
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert min(answered) > 0


def _read_in_another_process(path: str, out: Any) -> None:
    reader = Wheel.attach(path, agg.sum())
    wrong, seen = [], set()
    reader.landmark()
    out.put("ready")
    while True:
        reader.refresh()
        watermark = int(reader.watermark)
        seen.add(watermark)
        whole, part = reader.landmark(), reader.query(watermark // 3, watermark)
        if whole != watermark or part != watermark - watermark // 3:
            wrong.append((watermark, whole, part))
        if watermark >= 6000:
            out.put((wrong, len(seen)))
            return


def test_another_process_sees_one_watermark_while_the_writer_goes_on(tmp_path: Path) -> None:
    w = wheel(levels=[1, 10, 100], write_ahead=64)
    w.insert_many(np.ones(1, np.int64), np.array([0]))
    w.advance_to(1)
    w.share(tmp_path)
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=_read_in_another_process, args=(str(tmp_path), out))
    process.start()
    assert out.get(timeout=600) == "ready"
    for t in range(1, 6000, 3):  # slots grow from 128 to thousands meanwhile: new generations
        w.insert_many(np.ones(3, np.int64), np.arange(t, t + 3))
        w.advance_to(t + 3)
    wrong, watermarks = out.get(timeout=600)
    process.join()
    assert not wrong
    assert watermarks > 3


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_shared_wheel_is_not_shared(tmp_path: Path, again: Any) -> None:
    w = wheel()
    w.insert_many(np.arange(10), np.arange(10))
    w.advance_to(5)
    w.share(tmp_path)
    copied = again(w)
    copied.insert_many(np.full(400, 100), np.arange(5, 405))
    copied.advance_to(405)
    w.advance_to(10)
    assert copied.query(0, 405) == 45 + 400 * 100
    assert Wheel.attach(tmp_path, w.aggregate).query(0, 10) == w.query(0, 10) == 45


def test_what_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedAggregate, match="Python objects"):
        wheel(aggregate=agg.median()).share(tmp_path)
    with pytest.raises(InvalidArgument, match="no wheel is shared"):
        Wheel.attach(tmp_path / "nowhere", agg.sum())


# --------------------------------------------------------------------------- compression and keys


@pytest.mark.parametrize("kind", ["small", "wide", "negative", "prices", "floats", "bool"])
def test_packed_slots_answer_as_they_were(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    n = 7000
    values = {
        "small": rng.integers(0, 300, n),
        "wide": rng.integers(-(2**62), 2**62, n),
        "negative": -rng.integers(0, 3, n),
        "prices": np.round(rng.random(n) * 100, 2),
        "floats": rng.standard_normal(n) * 10.0 ** rng.integers(-200, 200, n),
        "bool": rng.random(n) < 0.001,
    }[kind]
    aggregate = agg.bool_or() if kind == "bool" else agg.max()
    times = np.sort(rng.choice(9000, n, replace=False))
    plain, packed = (wheel(aggregate=aggregate, dtype=None, compressed=c) for c in (False, True))
    for w in (plain, packed):
        for part in np.array_split(np.arange(n), 9):
            w.insert_many(values[part], times[part])
            w.advance_to(int(times[part[-1]]))
        w.advance_to(9000)
    starts = rng.integers(0, 9000, 400)
    ends = np.minimum(starts + rng.integers(0, 9000, 400), 9000)
    assert packed.query_many(starts, ends).equals(plain.query_many(starts, ends))
    for a, b in zip(starts[:50].tolist(), ends[:50].tolist(), strict=True):
        assert packed.query(a, b) == plain.query(a, b)
    if kind in ("small", "negative", "prices", "bool"):
        assert packed.nbytes < 0.7 * plain.nbytes or kind == "bool"
    packed.save(tmp_path)
    again = Wheel.open(tmp_path, aggregate)
    assert again.query_many(starts, ends).equals(plain.query_many(starts, ends))


def test_keys_are_of_one_type() -> None:
    w = wheel(keys=True)
    assert w.insert(1, 0, "a")
    for wrong in (1.5, 7, ["b"]):
        with pytest.raises(Exception, match=r"key|Arrow") as error:
            w.insert(1, 0, wrong)
        assert isinstance(error.value, TypeError | ValueError)
    assert w.insert(2, 0, "b")
    w.advance_to(5)
    assert w.by_key(0, 5).to_pydict() == {"key": ["a", "b"], "sum()": [1, 2]}


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(UnsupportedAggregate, match="packs numbers"):
        wheel(aggregate=agg.median(), compressed=True)
    with pytest.raises(InvalidArgument, match="choose one"):
        wheel(levels=[Level(1, prefix=True, compressed=True)])


KEYED = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 200), st.sampled_from("abcdefghij")), max_size=60)


@given(KEYED, KEYED, st.integers(0, 120), st.sampled_from(["sum", "min", "count"]), st.booleans())
@settings(suppress_health_check=list(HealthCheck))
def test_many_keys_in_one_wheel(first: Any, second: Any, watermark: int, name: str, prefix: bool) -> None:
    aggregate = {"sum": agg.sum(), "min": agg.counted(agg.min())[0], "count": agg.counted(agg.count("x"))[0]}[name]
    w = wheel(aggregate=aggregate, keys=True, prefix=prefix and aggregate.invertible, retention={10: 40})
    model = model_of([], 0, name)
    model.start = model.watermark = 0
    w.window(30, 20)
    w.session(7)
    before = 0
    for events, to in ((first, watermark), (second, 250)):
        late = (
            []
            if not events
            else w.insert_many(*zip(*[(v, t) for v, t, _ in events], strict=True), [k for *_, k in events])
        )
        assert list(late) == [i for i, (v, t, k) in enumerate(events) if not model.insert(v, t, k)]
        due = w.advance_to(to).table.to_pylist()
        model.advance(to)
        w.check_invariants()
        for key in w.keys:
            mine = [
                (d["start"], d["end"], d[aggregate.output_name])
                for d in due
                if d["key"] == key and d["window"] == "30/20"
            ]
            assert mine == model.windows(30, 20, before, keys=[key])
            mine = [
                (d["start"], d["end"], d[aggregate.output_name])
                for d in due
                if d["key"] == key and d["window"] == "session 7"
            ]
            assert mine == model.sessions(7, before, keys=[key])
        before = max(before, to)
    ranges = [(0, 250), (13, 88), (60, 180), (100, 101)]
    check(w, model, ranges)
    for keys in (["a"], ["b", "c"], list("abcdefghij")):
        known = [k for k in keys if k in w.keys.places]
        if known:
            check(w, model, ranges, keys=known)
    for a, b in ranges:
        table = w.by_key(a, b).to_pydict()
        assert table[aggregate.output_name] == [model.query(a, b, [k]) for k in table["key"]]
