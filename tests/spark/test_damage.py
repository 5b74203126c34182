"""What is broken is named, nothing wrong comes out, and the run goes on once it is mended.

Each test runs a stream, breaks something for real, sees it refused, mends it, and compares all that came out with the
oracle, micro-batch by micro-batch.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracle import Tumbling
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from tests.spark.children import assert_exactly_once
from tests.spark.driver import DELAY, LATENESS, SLICED
from tests.spark.streams import (
    MS,
    Asked,
    Files,
    Run,
    assert_like_the_oracle,
    expected,
    fresh_workers,
    read_stream,
    run,
    stream,
    table,
    to_the_end,
)
from windlass.formats.container import DIGEST, MAGIC, digest_of
from windlass.formats.spark import HEAD
from windlass.spark import idempotent_parquet, parquet_events, shared_windows
from windlass.spark.buckets import labels

pytestmark = pytest.mark.xdist_group("spark")

OPTIONS: dict[str, Any] = {"key": "k", "sequence": "id", "allowed_lateness": f"{LATENESS}us", "buckets": 1}


def rows(batches: int) -> list[Any]:
    return stream(2, batches=batches, size=40, pace=60, late=0.15, how_late=250)


class Stream:
    """A stream that is run in parts: what came out of all of them, and what its micro-batches were."""

    def __init__(self, spark: Any, path: Path, asked: Any = SLICED) -> None:
        self.spark, self.asked = spark, asked
        self.files, self.checkpoint = Files(path / "in"), path / "checkpoint"
        self.out, self.seen = Run({}, {}), list[Any]()

    def go_on(self, *batches: Any, source: Any = None) -> None:
        """Up to the end of the files, after adding some."""
        self.add(*batches)
        queries = [a.for_windlass() for a in self.asked]
        got = run(self.spark, self.files, queries, self.checkpoint, delay=DELAY, source=source, **OPTIONS)
        self.out.tables |= got.tables

    def add(self, *batches: Any) -> None:
        self.files.add(*batches)
        self.seen += batches

    def check(self) -> None:
        want = expected(self.seen, self.asked, delay=DELAY, key=("k",), sequence="id", allowed_lateness=LATENESS)
        assert any(row.revision for batch in want.rows for row in batch)
        assert_like_the_oracle(self.out, self.asked, want, ("k",))


# --------------------------------------------------------------------------- the state


@contextlib.contextmanager
def rewritten(changes: Path, edit: Callable[[bytes], bytes]) -> Iterator[None]:
    """A file of changes to the state, as somebody else would have written it: compressed, with no checksum that
    tells."""
    beside = [p for p in changes.parent.iterdir() if changes.name in p.name and p != changes]
    before = {p: p.read_bytes() for p in (changes, *beside)}
    data = pa.CompressedInputStream(pa.BufferReader(before[changes]), "zstd").read()
    edited = edit(data)
    assert edited != data and len(edited) == len(data)
    with pa.CompressedOutputStream(str(changes), "zstd") as file:
        file.write(edited)
    for checksum in beside:
        checksum.unlink()
    yield
    for path, content in before.items():
        path.write_bytes(content)


def step_at(data: bytes) -> tuple[int, int]:
    """Where the last step lies."""
    found = [match.start() for match in re.finditer(re.escape(MAGIC), data)]
    start = next(start for start in reversed(found) if b'"record":"spark-step"' in data[start : start + 60])
    return start, end_of(data, start)


def end_of(data: bytes, start: int) -> int:
    """Where the container that begins there ends."""
    _, length = struct.unpack_from("<II", data, start + len(MAGIC))
    head = start + len(MAGIC) + 8
    return head + length + sum(json.loads(data[head : head + length])["parts"]) + DIGEST


def flipped(data: bytes) -> bytes:
    """One bit of a step's events."""
    start, end = step_at(data)
    middle = (start + end) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def with_newer_step(data: bytes) -> bytes:
    """A step as a later version would write it, whole and with its digest."""
    start, end = step_at(data)
    step = data[start : end - DIGEST].replace(b'"spark-step","version":5', b'"spark-step","version":9', 1)
    return data[:start] + step + digest_of(step) + data[end:]


def with_old_head(data: bytes) -> bytes:
    """The version is the first field of the head's row, before columns that are null."""
    pattern = struct.pack("<q", HEAD.version) + bytes(56)
    assert data.count(pattern) == 1
    return data.replace(pattern, struct.pack("<q", 4) + pattern[8:])


def with_another_head(data: bytes) -> bytes:
    """One bit of it."""
    start = data.index(b'"record":"spark-head"')
    return data[: start + 100] + bytes([data[start + 100] ^ 1]) + data[start + 101 :]


def without_step(data: bytes) -> bytes:
    """The step goes to a bucket that does not exist, as if it had never been written. It is the first entry: four bytes
    of the file's own, the kind, the length of the key, the key, whose last word is the bucket."""
    (length,) = struct.unpack_from(">i", data, 5)
    end = 9 + length
    assert data[end - 8 : end] == struct.pack("<q", labels(1)[0])
    assert 0 < step_at(data)[0] - end < 40
    return data[: end - 8] + struct.pack("<q", 77) + data[end:]


DAMAGES = {
    flipped: "the bytes of a step in the state's log are damaged: the checksum does not match",
    with_old_head: "written by Windlass 0.1: its state is of version 4, this is Windlass",
    without_step: "its head, its snapshot and its log do not belong together",
    with_another_head: "the bytes of the state's head of bucket",
    with_newer_step: "the spark-step record has version 9, which Windlass",
}


@pytest.mark.parametrize("many", [2, pytest.param(len(DAMAGES), marks=pytest.mark.faults)])
def test_damaged_and_outdated_state(spark, settings, tmp_path, many):
    """One after the other in a checkpoint, which is put right again each time."""
    settings(spark_sql_streaming_stateStore_compression_codec="zstd")  # which can be read here
    batches = rows(4)
    stream = Stream(spark, tmp_path)
    stream.go_on(*batches[:3])
    stream.add(batches[3])
    # The last one that says something: of two partitions only one holds the bucket.
    every = stream.checkpoint.glob("state/0/[01]/*.changelog")
    changes = max(every, key=lambda path: (int(path.stem), path.stat().st_size))
    for edit, message in list(DAMAGES.items())[:many]:
        fresh_workers(spark)
        with rewritten(changes, edit), pytest.raises(StreamingQueryException, match=re.escape(message)):
            run(spark, stream.files, [a.for_windlass() for a in SLICED], stream.checkpoint, delay=DELAY, **OPTIONS)
    stream.go_on()
    stream.check()


# --------------------------------------------------------------------------- the disk


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], capture_output=True, check=False)
    if mount.returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Take all the space but so many bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        file.truncate(file.tell() - leave)
    return ballast


def test_a_full_disk(spark, small_disk):
    """Files, checkpoint and results on one disk, which is full at several points of a run."""
    batches = rows(5)
    files = Files(small_disk / "in", batches)
    mixed = shared_windows(read_stream(spark, files, DELAY), [a.for_windlass() for a in SLICED], time="ts", **OPTIONS)
    writer = mixed.writeStream.foreachBatch(idempotent_parquet(str(small_disk / "out")))
    for leave in (0, 1 << 16):
        ballast = fill(small_disk, leave)
        with pytest.raises((StreamingQueryException, Py4JJavaError), match="No space left on device"):
            to_the_end(writer, small_disk / "checkpoint")
        ballast.unlink()
    to_the_end(writer, small_disk / "checkpoint")
    assert_exactly_once(small_disk, batches, SLICED, delay=DELAY, lateness=LATENESS)


# --------------------------------------------------------------------------- the events


@pytest.mark.faults  # `test_restart.py` has what is refused in short
def test_another_schema(spark, tmp_path):
    """The columns that queries read have other types than those that the checkpoint was written with."""
    batches = rows(3)
    stream = Stream(spark, tmp_path)
    stream.go_on(*batches[:2])
    stream.add(batches[2])
    events = read_stream(spark, stream.files, DELAY)
    with pytest.raises(StreamingQueryException, match="column 'x' was of int64, now it is of double; cast it"):
        stream.go_on(source=events.withColumn("x", events.x.cast("double")))
    stream.go_on()
    stream.check()


@pytest.mark.parametrize("reader", ["workers", pytest.param("Spark", marks=pytest.mark.faults)])
def test_a_file_with_another_schema(spark, tmp_path, reader):
    """One file of the stream has text where numbers should be. It is named; with a right one in its place the stream
    goes on."""
    batches = rows(3)
    stream = Stream(spark, tmp_path)
    schema = None

    def source() -> Any:
        if reader == "Spark":
            return read_stream(spark, stream.files, DELAY, schema)
        events = parquet_events(spark, str(stream.files.path), streaming=True, schema=schema, maxFilesPerTrigger=1)
        return events.withWatermark("ts", f"{DELAY} milliseconds")

    stream.add(*batches[:2])
    schema = spark.read.parquet(str(stream.files.path)).schema
    stream.go_on(source=source())
    right = table(batches[2])
    at = right.schema.get_field_index("x")
    stream.files.add(right.set_column(at, "x", pc.cast(right["x"], pa.string())))
    with pytest.raises(StreamingQueryException, match=r"(?s)0002\.parquet.*x.*(string|BINARY)|x.*0002\.parquet"):
        stream.go_on(source=source())
    stream.files.count -= 1
    stream.go_on(batches[2], source=source())
    stream.check()


# --------------------------------------------------------------------------- functions


def careful(t: pa.Table) -> Any:
    """A condition that cannot cope with one row."""
    if 99 in t["id"].to_pylist():
        raise ValueError("cannot cope with event 99")
    return pc.is_valid(t["id"])


def test_a_function_that_raises_on_one_row(spark, tmp_path):
    """The event is the third file's. Without it, or once it has been mended there, the stream goes on."""
    careful.__module__ = "__main__"  # as in a program of a user: it travels as it is
    batches = rows(4)
    of_oracle = (careful, lambda columns: columns["id"] is not None)
    asked = [*SLICED, Asked("careful", Tumbling(10 * MS), ("list",), "careful", more={"careful": of_oracle})]
    stream = Stream(spark, tmp_path, asked)
    stream.go_on(*batches[:2])
    with pytest.raises(StreamingQueryException, match=r"(?s)careful.*cannot cope with event 99.*predicate careful"):
        stream.go_on(*batches[2:])
    stream.seen = batches[:2]
    mended = [[row | {"id": 9999 if row["id"] == 99 else row["id"]} for row in batch] for batch in batches[2:]]
    stream.files.count = 2
    stream.go_on(*mended)
    stream.check()
