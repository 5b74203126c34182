"""The second stage, for each bucket: blocks go into an operator, the watermark moves, rows come out.

`step` is all there is to it: process, then advance. In a batch, `finish`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windlass.errors import CorruptSnapshot
from windlass.operator.operator import Operator
from windlass.operator.results import Results
from windlass.operator.slicer import refusal
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.spark.blocks import AHEAD, EVENTS, SLICES, decode_block
from windlass.spark.frame import Frame
from windlass.spark.job import Job
from windlass.spark.state import decode_step

_NO_TIME = "its time is null"


@dataclass(frozen=True)
class Step:
    """What comes out of a bucket at one watermark."""

    rows: list[pa.Table]  # of the mixed frame
    refused: int
    results: Results | None = None  # all of them, also what goes to the history


def step(frame: Frame, operator: Operator, blocks: Iterable[bytes | memoryview], watermark: int | None) -> Step:
    """Take blocks, then advance to the watermark (microseconds; None: there is none yet)."""
    refused: list[pa.Table] = []
    results = list(_taken(frame, operator, blocks, LONG_AGO if watermark is None else watermark, refused))
    if watermark is not None:
        results.append(operator.advance(watermark))
    rows = [*refused, *map(frame.of_results, results)]
    whole = Results.concat(results) if results else None
    return Step(_with_late(frame, operator, rows), sum(table.num_rows for table in refused), whole)


def _taken(
    frame: Frame, operator: Operator, blocks: Iterable[bytes | memoryview], upto: int, refused: list[pa.Table]
) -> Iterator[Results]:
    """Take blocks by their first times. Nothing that is still to come is older than the next of them, so before it is
    taken the watermark moves to there, if not beyond `upto`: windows leave as they complete, and the slices at work
    stay few enough for the cache. The rows are those of one advance at the end."""
    for first, kind, table in _in_time(frame, blocks):
        if first != LONG_AGO and min(first - 1, upto) > _watermark(operator):
            yield operator.advance(min(first - 1, upto))
        if kind == SLICES:
            operator.process_slices(table)
        elif kind == EVENTS:
            operator.process(table)
        else:
            ahead = f"ahead: its time is more than {frame.job.max_ahead} after the time at which it came"
            refused.append(frame.of_refused(table, ahead if kind == AHEAD else _NO_TIME))


def _watermark(operator: Operator) -> int:
    return LONG_AGO if operator.watermark is None else operator.watermark


def _in_time(frame: Frame, blocks: Iterable[bytes | memoryview]) -> list[tuple[int, str, pa.Table]]:
    """Blocks by their first times, opened; or as they came, where the order of events matters, and where keys end that
    have had none for a while: of a batch, they have all."""
    given = [decode_block(block) for block in blocks if len(block)]  # an empty one says that there is nothing
    if frame.job.ships_events is not None or frame.job.key_ttl is not None:
        return [(LONG_AGO, *opened) for opened in given]
    place = len(frame.job.key)

    def first(kind: str, table: pa.Table) -> int:
        return int(pc.min(table.column(place)).as_py()) if kind == SLICES else LONG_AGO

    return sorted(((first(*opened), *opened) for opened in given), key=lambda opened: opened[0])


def restored(frame: Frame, snapshot: bytes | None, log: Iterable[bytes]) -> Operator:
    """The operator that a snapshot and the steps since lead to."""
    operator = frame.job.operator()
    if snapshot is not None:
        operator.restore(snapshot)
    for written in log:
        step(frame, operator, *decode_step(written))
    return operator


def change(job: Job, operator: Operator, milliseconds: int) -> None:
    """Let an operator that was restored go on with the queries of a job; `milliseconds` is the watermark so far.

    A query that is new starts after the greatest event time, of all buckets: that is what the watermark comes from.
    """
    since = (milliseconds + 1 + job.delay) * 1000 if milliseconds > 0 else LONG_AGO
    operator.change_queries(job.all_queries, since)
    operator.bind(job.schema)
    if job.ships_events is None and (why := refusal(operator)) is not None:
        raise CorruptSnapshot(
            f"the checkpoint keeps events, for queries that were removed since ({why}), but those that are left ship "
            "slices; start a new checkpoint, or keep one of the queries that were removed"
        )


def finish(
    frame: Frame, operator: Operator, blocks: Iterable[bytes | memoryview] = (), bucket: int | None = None
) -> Iterator[pa.Table]:
    """Take blocks, then end the stream. With the number of the bucket, the history is written, too."""
    keeper = frame.job.keeper if bucket is not None else None
    refused: list[pa.Table] = []
    held: list[Results] = []
    for results in _taken(frame, operator, blocks, NEVER, refused):
        yield frame.of_results(results)
        if keeper is not None:
            held.append(results)
    yield from refused
    last = operator.finish()
    if keeper is not None and bucket is not None:
        keeper.write_all(bucket, Results.concat([*held, last]))
    yield frame.of_results(last)


def _with_late(frame: Frame, operator: Operator, rows: list[pa.Table]) -> list[pa.Table]:
    late = operator.late()
    if late.num_rows:
        rows.append(frame.of_late(late))
    return [table for table in rows if table.num_rows]
