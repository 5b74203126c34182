"""The second stage, for each bucket: blocks go into an operator, the watermark moves, rows come out.

`step` is all there is to it, in streaming and in batch: process, in the order of the source, then advance.
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
from windlass.slicing.edges import LONG_AGO
from windlass.spark.blocks import AHEAD, EVENTS, SLICES, unpacked
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


def step(frame: Frame, operator: Operator, blocks: Iterable[bytes], watermark: int | None) -> Step:
    """Take blocks, then advance to the watermark (microseconds; None: there is none yet)."""
    rows: list[pa.Table] = []
    refused = 0
    for block in blocks:
        if not len(block):  # only to say that there is nothing
            continue
        kind, table = unpacked(block)
        if kind == SLICES:
            operator.process_slices(table)
        elif kind == EVENTS:
            operator.process(table)
        else:
            ahead = f"ahead: its time is more than {frame.job.max_ahead} after the time at which it came"
            rows.append(frame.of_refused(table, ahead if kind == AHEAD else _NO_TIME))
            refused += table.num_rows
    results = None
    if watermark is not None:
        results = operator.advance(watermark)
        rows.append(frame.of_results(results))
    return Step(_with_late(frame, operator, rows), refused, results)


def restored(frame: Frame, snapshot: bytes | None, log: Iterable[bytes]) -> Operator:
    """The operator that a snapshot and the steps since lead to."""
    operator = frame.job.operator()
    if snapshot is not None:
        operator.restore(snapshot)
    for written in log:
        step(frame, operator, *decode_step(written))
    return operator


def change(job: Job, operator: Operator, milliseconds: int) -> None:
    """Let an operator that was restored go on with the queries of a job; `milliseconds` is Spark's watermark.

    A query that is new starts after the greatest event time, of all buckets: that is what Spark's watermark comes from.
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
    frame: Frame, operator: Operator, blocks: Iterable[bytes] = (), bucket: int | None = None
) -> Iterator[pa.Table]:
    """Take blocks, then end the stream. With the number of the bucket, the history is written, too."""
    job = frame.job
    keeper = job.keeper if bucket is not None else None
    if job.ships_events is None and keeper is None and job.key_ttl is None:
        yield from _in_time(frame, operator, blocks)
    else:  # the order of events may matter; a history is written in one piece; no key ends within a table
        yield from step(frame, operator, blocks, None).rows
    results = operator.finish()
    if keeper is not None and bucket is not None:
        keeper.write_all(bucket, results)
    yield frame.of_results(results)


def _in_time(frame: Frame, operator: Operator, blocks: Iterable[bytes]) -> Iterator[pa.Table]:
    """Take blocks of slices by their first times, and advance as far as the next one lets: windows come out as they
    complete, and the slices at work stay few enough for the cache. Partitions that are in no order come all before the
    first advance: slower, with the same rows."""
    place = len(frame.job.key)

    def first(block: bytes) -> int:
        kind, table = unpacked(block)
        return int(pc.min(table.column(place)).as_py()) if kind == SLICES else LONG_AGO

    ordered = sorted(((first(block), block) for block in blocks if len(block)), key=lambda found: found[0])
    for i, (_, block) in enumerate(ordered):
        following = ordered[i + 1][0] if i + 1 < len(ordered) else LONG_AGO
        yield from step(frame, operator, [block], None if following == LONG_AGO else following - 1).rows


def _with_late(frame: Frame, operator: Operator, rows: list[pa.Table]) -> list[pa.Table]:
    late = operator.late()
    if late.num_rows:
        rows.append(frame.of_late(late))
    return [table for table in rows if table.num_rows]
