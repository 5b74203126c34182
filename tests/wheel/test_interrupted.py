"""Wheels and histories after exceptions, in two calls at once, and with sizes that are too large."""

from __future__ import annotations

import contextlib
import copy
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windlass import History, Wheel, agg
from windlass.errors import Busy, CorruptSnapshot, Interrupted, InvalidArgument, UnsupportedAggregate
from windlass.formats import record
from windlass.wheel import files, history_files
from windlass.wheel.history_files import HistoryFiles, Kept
from windlass.wheel.windows import Window

FAR = 2**61


class Fuse:
    """A sum that fails once when it has been armed."""

    def __init__(self) -> None:
        self.is_armed = False

    def combine(self, a: int, b: int) -> int:
        if self.is_armed:
            self.is_armed = False
            raise ZeroDivisionError("a user's function")
        return a + b

    def aggregate(self) -> Any:
        return agg.define("fused", lift=lambda x: x, combine=self.combine, commutative=True, compile=False)()


def wheel(aggregate: Any = None, **options: Any) -> Wheel:
    return Wheel(aggregate or agg.sum(), 0, tick=1, unit="s", dtype=np.int64, **options)


# ---------------------------------------------------------------------- a user's function raises


@pytest.mark.parametrize("call", ["insert_many", "advance_to"])
def test_events_do_not_count_twice_after_a_combine_that_raises(tmp_path: Path, call: str) -> None:
    fuse = Fuse()
    w = wheel(fuse.aggregate())
    w.window(4, 2)
    w.insert_many([1, 2, 3, 4], [1, 1, 2, 3])
    w.save(tmp_path)
    calls = {"insert_many": lambda w: w.insert_many([10, 20], [2, 2]), "advance_to": lambda w: w.advance_to(10)}
    fuse.is_armed = True
    with pytest.raises(ZeroDivisionError):
        calls[call](w)
    further = [
        *calls.values(),
        lambda w: w.query(0, 4),
        lambda w: w.save(tmp_path),
        copy.copy,
        lambda w: w.insert(1, 1),
    ]
    for look in further:
        with pytest.raises(Interrupted, match=r"interrupted by ZeroDivisionError.*open it from where it was saved"):
            look(w)
    assert (repr(w)[:6], w.watermark, w.late) == ("<Wheel", 0, 0)
    again = Wheel.open(tmp_path, fuse.aggregate())
    again.insert_many([10, 20], [2, 2])
    again.advance_to(10)
    assert again.query(0, 10) == 40


def test_a_combine_that_raises_while_a_window_is_added_leaves_nothing() -> None:
    fuse = Fuse()
    w = wheel(fuse.aggregate())
    w.insert_many([1, 2, 3], [1, 2, 3])
    w.advance_to(4)
    fuse.is_armed = True
    with pytest.raises(ZeroDivisionError):
        w.window(8)
    assert w.window(8) == "8/8"
    assert [tuple(row)[1:] for row in w.advance_to(8)] == [(0, 8, 6, None)]


def test_a_merge_that_raises_leaves_both_wheels() -> None:
    fuse = Fuse()
    one, other = wheel(fuse.aggregate()), wheel(fuse.aggregate())
    for w in (one, other):
        w.insert_many([1, 2], [1, 1])
        w.advance_to(2)
    fuse.is_armed = True
    with pytest.raises(ZeroDivisionError):
        one.merge(other)
    assert one.query(0, 2) == other.query(0, 2) == 3
    assert one.merge(other).query(0, 2) == 6


def test_a_call_from_a_combine_is_refused_and_the_call_goes_on() -> None:
    refused: list[Busy] = []
    wheels: list[Wheel] = []  # none while the aggregate is tried out

    def combine(a: int, b: int) -> int:
        if not wheels:
            return a + b
        w, other = wheels
        for call in (lambda: w.insert(1, 1), lambda: w.query(0, 1), lambda: w.merge(other), lambda: other.merge(w)):
            with pytest.raises(Busy) as caught:
                call()
            refused.append(caught.value)
        return a + b

    aggregate = agg.define("nosy", lift=lambda x: x, combine=combine, commutative=True, compile=False)()
    w, other = wheel(aggregate), wheel(aggregate)
    wheels[:] = w, other
    w.insert_many([1, 2], [1, 1])
    assert len(refused) == 4
    assert other.insert(1, 1)
    with pytest.raises(InvalidArgument, match="with itself"):
        other.merge(other)


def test_of_calls_of_four_threads_each_counts_or_is_refused() -> None:
    w = wheel()
    w.insert(1, 0)
    accepted = [0] * 4

    def insert(thread: int) -> None:
        for i in range(300):
            with contextlib.suppress(Busy):
                w.insert_many([1, 1], [i, i + 1])
                accepted[thread] += 2

    threads = [threading.Thread(target=insert, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    w.advance_to(1000)
    assert w.landmark() == 1 + sum(accepted)


# ---------------------------------------------------------------------- refusals and failures leave a wheel as it was


def test_calls_that_are_refused_leave_a_wheel_as_it_was() -> None:
    w = wheel(keys=True)
    w.insert_many([1], [1], ["a"])
    with pytest.raises(TypeError):
        w.insert_many([1])  # an argument is missing
    with pytest.raises(InvalidArgument):
        w.insert_many([1, 2], [1], ["b"])
    with pytest.raises(Exception, match="got string"):
        w.insert("x", 1, "c")
    w.advance_to(3)
    assert w.by_key(0, 3).to_pydict() == {"key": ["a"], "sum()": [1]}


def disk_full(*arguments: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("owner", "step"),
    [(files.Directory, "_write"), (record, "write_document"), (files.Directory, "compact")],
    ids=["slots", "manifest", "after the manifest"],
)
def test_a_save_that_fails_is_repeated_under_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str
) -> None:
    w = wheel()
    w.insert_many([1, 2], [1, 2])
    w.advance_to(2)
    w.save(tmp_path)
    w.insert(3, 5)
    w.advance_to(6)
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, disk_full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                w.save(tmp_path)
    w.insert(4, 7)
    w.advance_to(8)
    assert w.save(tmp_path) == 1
    assert w.save(tmp_path) == 2
    assert Wheel.open(tmp_path, agg.sum()).query(0, 8) == 10
    other = wheel()
    with pytest.raises(InvalidArgument, match="another wheel"):
        other.save(tmp_path)


def test_a_wheel_of_objects_that_cannot_be_shared_goes_on(tmp_path: Path) -> None:
    w = Wheel(
        agg.collect_set() if hasattr(agg, "collect_set") else agg.count_distinct(), 0, tick=1, unit="s", dtype=int
    )
    if any(field.dtype.kind == "O" for field in w._bound.fields):
        with pytest.raises(UnsupportedAggregate, match="Python objects"):
            w.share(tmp_path)
    w.insert(3, 1)
    w.advance_to(2)
    assert w.landmark() is not None


# ---------------------------------------------------------------------- MemoryError stays what it is


def fail_with_memory_error(*arguments: Any, **options: Any) -> Any:
    raise pa.lib.ArrowMemoryError("malloc of size 1099511627776 failed")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_opening_without_memory_says_nothing_of_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Any
) -> None:
    w = wheel()
    w.insert(1, 1)
    w.advance_to(2)
    w.save(tmp_path, form)
    with monkeypatch.context() as patched:
        patched.setattr(files.pq, "read_table", fail_with_memory_error)
        patched.setattr(files.pa.ipc, "open_file", fail_with_memory_error)
        with pytest.raises(MemoryError):
            Wheel.open(tmp_path, agg.sum())
    with monkeypatch.context() as patched:
        patched.setattr(files, "_digest", lambda path: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        with pytest.raises(OSError, match="Too many") as caught:
            Wheel.open(tmp_path, agg.sum())
        assert not isinstance(caught.value, CorruptSnapshot)
    assert Wheel.open(tmp_path, agg.sum()).query(0, 2) == 1


# ---------------------------------------------------------------------- histories

KEPT = Kept(10, pa.int64(), pa.schema([("k", pa.string())]), (agg.sum("x"),), pa.schema([("x", pa.int64())]), 1)


def written(there: HistoryFiles, batch: int, rows: list[tuple[str, int, int, int]], name: str = "sum") -> None:
    k, slot, version, value = (list(column) for column in zip(*rows, strict=True))
    partials = pa.StructArray.from_arrays([pa.array(value)], [name])
    table = pa.Table.from_arrays(
        [pa.array(k), pa.array(slot), pa.array(version), partials], ["k", "slot", "version", "0"]
    )
    there.write(batch, 0, table, (batch + 1) * 10)


def test_a_refresh_that_failed_finds_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = HistoryFiles(tmp_path)
    there.create(KEPT)
    written(there, 0, [("a", 0, 0, 1), ("b", 0, 0, 2)])
    history = History(tmp_path)
    assert history.query(0, 10) == 3
    written(there, 1, [("a", 0, 1, 5), ("c", 1, 0, 7)])
    held = history.wheel()
    for owner, name in ((HistoryFiles, "read"), (Wheel, "_add_keys"), (Wheel, "_sync")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fail_with_memory_error)
            with pytest.raises(MemoryError):
                history.refresh()
        assert (history.watermark, len(history)) == (10, 2)
        assert history.query(0, 10) == 3
        assert history.by_key(0, 10).num_rows == 2
    with pytest.raises(Interrupted):
        held.query(0, 10)  # it was being changed
    assert history.refresh()
    assert (history.watermark, history.query(0, 20), history.query(0, 20, key="c")) == (20, 14, 7)
    assert not history.refresh()


def test_a_combine_that_raises_in_a_refresh_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    def combine(a: int, b: int) -> int:
        if b == 13:
            raise ZeroDivisionError("thirteen")
        return a + b

    unlucky = agg.define("unlucky", lift=lambda x: x, combine=combine, identity=0, commutative=True)("x")
    (name,) = (field.name for field in unlucky.monoid(KEPT.values(agg.sum("x")), nullable=False).fields)
    there = HistoryFiles(tmp_path)
    there.create(Kept(10, KEPT.time, KEPT.key, (unlucky,), KEPT.types, 1))
    written(there, 0, [("a", 0, 0, 1), ("b", 0, 0, 2)], name)
    history = History(tmp_path, aggregates=[unlucky])
    held = history.wheel()
    written(there, 1, [("a", 0, 1, 13)], name)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            history.refresh()
        assert (history.watermark, history.query(0, 10)) == (10, 3)
    with pytest.raises(Interrupted):
        held.landmark()
    written(there, 2, [("a", 0, 2, 14)], name)
    assert history.refresh()
    assert history.query(0, 10) == 16


def test_a_wheel_that_somebody_broke_is_made_anew(tmp_path: Path) -> None:
    there = HistoryFiles(tmp_path)
    there.create(KEPT)
    written(there, 0, [("a", 0, 0, 1)])
    history = History(tmp_path)
    del history.wheel()._idle  # as if a call of it had been interrupted
    written(there, 1, [("a", 1, 0, 9)])
    assert history.refresh()
    assert history.query(0, 20) == 10


def test_reading_a_history_without_memory_says_nothing_of_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = HistoryFiles(tmp_path)
    there.create(KEPT)
    written(there, 0, [("a", 0, 0, 1)])
    with monkeypatch.context() as patched:
        patched.setattr(history_files.pa.ipc, "open_stream", fail_with_memory_error)
        with pytest.raises(MemoryError):
            History(tmp_path)
    assert History(tmp_path).query(0, 10) == 1


# ---------------------------------------------------------------------- sizes and ranges that are refused


def test_a_window_of_more_slides_than_can_be_kept_is_refused() -> None:
    w = wheel()
    for slides in (10**9, 10**9 + 1):
        with pytest.raises(InvalidArgument, match=rf"range {slides} holds {slides:,} slides of 1, .*longer slide"):
            w.window(slides, 1)
    assert w.window(10**10, 10**9) == "10000000000/1000000000"


WITHOUT_MEMORY = """
import resource
from windlass import Wheel, agg

w = Wheel(agg.sum("x"), 0, tick=1, unit="s")  # the type of x is not known yet
w.insert_many([1, 2], [0, 1]) if {bound} else None
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, used + 2**32))
try:
    w.window(10**9 - 1, 1)
except MemoryError:
    print("refused")
w.window(4)
w.insert_many([5, 6], [2, 3])
print([tuple(row)[1:4] for row in w.advance_to(4)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the address space")
@pytest.mark.parametrize("bound", [False, True])
def test_a_window_that_does_not_get_its_memory_is_refused_when_defined(bound: bool) -> None:
    code = WITHOUT_MEMORY.format(bound=bound)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["refused", f"[(0, 4, {14 if bound else 11})]"]


def test_a_window_without_memory_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    w = wheel()
    w.insert(1, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Window, "_new_key", fail_with_memory_error)
        w.insert(1, 3)
        with pytest.raises(MemoryError):
            w.window(4)
    assert w.advance_to(4).table.num_rows == 0
    assert w.window(4) == "4/4"
    w.insert(5, 6)
    assert [tuple(row)[1:4] for row in w.advance_to(8)] == [(4, 8, 5)]


@pytest.mark.parametrize("keys", [False, True])
def test_one_far_event_costs_nothing(keys: bool) -> None:
    w = wheel(keys=keys)
    w.window(10, 5)
    w.session(3)
    w.insert_many([1, 2], [0, FAR], ["a", "b"] if keys else None)
    assert len(w.advance_to(FAR)) == 3
    assert len(w.advance_to(FAR + 20)) == 3
    assert w.landmark() == 3
    assert w.query(FAR, FAR + 1) == 2
    assert w.nbytes < 1 << 20


def test_ranges_that_end_before_they_start_are_refused() -> None:
    w = wheel(keys=True)
    w.insert(1, 1, "a")
    w.advance_to(20)
    for ask in (
        lambda: w.query(10, 0),
        lambda: w.reader().query(10, 0),
        lambda: w.query_many([0, 10], [10, 0]),
        lambda: w.by_key(10, 0),
        lambda: w.group_by(10, 0, 5),
        lambda: w.range(10, 0),
        lambda: w.explain(10, 0),
    ):
        with pytest.raises(InvalidArgument, match=r"range.* ends before it starts: start is 10 and end is 0"):
            ask()
    assert w.query(10, 10) is None
    assert w.query(30, 40) is None  # past the watermark
