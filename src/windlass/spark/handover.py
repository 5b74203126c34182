"""Rows on their way from a bucket to Spark, past the JVM.

    bucket ──► file ──► open ──► Spark's rows
       └── name, through Spark ──►┘

The worker that has the state can hand Spark values, not tables; those go to a second worker of the same task, which
makes rows of them. Through Spark they would be copied nine times. So they are left in a file of the executor, and what
Spark is handed is the name of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkFiles

from windlass.errors import WindlassError

_ROWS = 1 << 16  # of a record batch
_OLD = 3600  # seconds, after which nobody comes any more: a file is picked up as soon as its bucket is done


def directory(name: str) -> Path | None:
    """One that all workers of this executor share, and that goes with it."""
    root = SparkFiles._root_directory
    return None if root is None else Path(root) / name


def leave(tables: Sequence[pa.Table]) -> str:
    """Leave tables of one schema in a file."""
    path = _place(uuid4().hex)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _clear(path.parent)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, tables[0].schema) as stream:
            for table in tables:
                stream.write_table(table, max_chunksize=_ROWS)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise WindlassError(
            f"the windows of a micro-batch cannot be left in {path.parent} for Spark: {error}; "
            "see to it that spark.local.dir has room"
        ) from error
    return path.name


def pick_up(names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """What is in these files, which are gone from the first batch on: who stops half-way leaves nothing behind."""
    found = []
    for name in names:
        path = _place(name)
        found.append(pa.memory_map(str(path)))
        path.unlink()
    for file in found:
        yield from pa.ipc.open_stream(file)


def _clear(place: Path) -> None:
    """Delete what tasks that were killed have left."""
    for path in place.iterdir():
        with suppress(OSError):  # another worker may be faster
            if path.stat().st_mtime < time() - _OLD:
                path.unlink()


def _place(name: str) -> Path:
    found = directory("windlass-rows")
    assert found is not None, "only a worker of Spark has windows to hand over"
    return found / name
