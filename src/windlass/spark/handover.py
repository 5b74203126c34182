"""Rows on their way from a bucket to Spark, past the JVM.

    bucket ──► file ──► open ──► Spark's rows
       └── name, through Spark ──►┘

The worker that has the state can hand Spark values, not tables; those go to a second worker of the same task, which
makes rows of them. Through Spark they would be copied nine times. So they are left in a file of the executor, and what
Spark is handed is the path of it. The second worker hears of the files when all buckets of the task are done.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import time
from uuid import uuid4

import pyarrow as pa

from windlass.errors import WindlassError
from windlass.private_directories import own

_ROWS = 1 << 16  # of a record batch
_OLD = 24 * 3600  # seconds, after which nobody comes any more: no task takes as long
_OPEN = 256  # files at once


def directory(name: str) -> Path | None:
    """One that all workers of this executor share, and that goes with it, beside the files of its shuffles; None if
    this is not a worker."""
    given = os.environ.get("SPARK_LOCAL_DIRS")
    return Path(given.split(",")[0]) / name if given else None


def leave(tables: Sequence[pa.Table]) -> str:
    """Leave tables of one schema in a file, whose path is returned."""
    place = directory("windlass-rows")
    assert place is not None, "only a worker of Spark has windows to hand over"
    path = place / uuid4().hex
    try:
        own(place)
        _clear(place)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, tables[0].schema) as stream:
            for table in tables:
                stream.write_table(table, max_chunksize=_ROWS)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise WindlassError(
            f"the windows of a micro-batch cannot be left in {place} for Spark: {error}; "
            "see to it that spark.local.dir has room"
        ) from error
    return str(path)


def pick_up(paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """What is in these files, which are gone from the first batch on: who stops half-way leaves nothing behind."""
    rest = iter(paths)
    while some := list(islice(rest, _OPEN)):
        found = []
        for path in some:
            found.append(pa.memory_map(path))
            Path(path).unlink()
        for file in found:
            yield from pa.ipc.open_stream(file)


def _clear(place: Path) -> None:
    """Delete what tasks that were killed have left."""
    for path in place.iterdir():
        with suppress(OSError):  # another worker may be faster
            if path.stat().st_mtime < time() - _OLD:
                path.unlink()
