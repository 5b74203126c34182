"""The first stage, on each partition: events become a few blocks, each for one bucket.

    Arrow batches ──► cut and pre-aggregate ──► split by bucket ──► (bucket, partition, number, block)
                      (or as they are)

Where the queries need the events themselves, these are shipped, in blocks. A block says which partition it comes from
and its number there, so events that have the same time keep their order whatever way the exchange took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from windlass.spark import ahead
from windlass.spark.blocks import AHEAD, EVENTS, SLICES, UNTIMED, encode_block
from windlass.spark.buckets import bucket_of, labels
from windlass.spark.job import Job

CUT_SCHEMA = "bucket int, partition int, number int, block binary"

_ROWS = 1 << 20  # events in a block, at most
_SLICES = 1 << 16  # slices in a block, about: few enough for the cache of whoever merges them
_NOTHING = b""

Cutter = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def cut(job: Job, heartbeat: bool) -> Cutter:
    """A function for `mapInArrow`.

    `heartbeat`: the first partition sends a block, if only an empty one, to every bucket. So all of them are there from
    the first batch on, and hear of every watermark.
    """

    return rows_of(job, lambda batches: _blocks(job, batches), heartbeat)


def rows_of(
    job: Job, found: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, bytes]]], heartbeat: bool
) -> Cutter:
    """A function for `mapInArrow`, from one that makes the blocks of a partition, with their buckets."""

    def rows_of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        silent = set(range(job.buckets)) if heartbeat and partition == 0 else set()
        for number, (bucket, block) in enumerate(found(batches)):
            silent.discard(bucket)
            yield _rows([labels(job.buckets)[bucket]], partition, number, block)
        if silent:
            yield _rows([labels(job.buckets)[bucket] for bucket in sorted(silent)], partition, 0, _NOTHING)

    return rows_of_partition


def rows_without_blocks(buckets: int) -> pa.RecordBatch:
    """A row for each bucket."""
    return _rows(labels(buckets), 0, 0, _NOTHING)


def _rows(chosen: Sequence[int], partition: int, number: int, block: bytes) -> pa.RecordBatch:
    columns = [pa.array(chosen, pa.int32())]
    columns += [pa.repeat(pa.scalar(value, pa.int32()), len(chosen)) for value in (partition, number)]
    columns.append(pa.array([block] * len(chosen), pa.binary()))
    return pa.RecordBatch.from_arrays(columns, ["bucket", "partition", "number", "block"])


def _blocks(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """Buckets and their blocks."""
    timed = _with_times(job, batches)
    if job.ships_events is None:
        slicer = job.slicer()
        for kind, table in timed:
            if kind != EVENTS:
                yield from blocks_of(job, table, kind)
                continue
            slicer.process(table)
            if len(slicer) > _SLICES or 2 * len(slicer) > slicer.events > _ROWS // 16:
                yield from blocks_of(job, slicer.take(), SLICES)
        yield from blocks_of(job, slicer.take(), SLICES)
        return
    held: list[pa.Table] = []
    for kind, table in timed:
        if kind != EVENTS:
            yield from blocks_of(job, table, kind)
            continue
        held.append(table)
        if sum(part.num_rows for part in held) >= _ROWS:
            yield from blocks_of(job, pa.concat_tables(held), EVENTS)
            held = []
    if held:
        yield from blocks_of(job, pa.concat_tables(held), EVENTS)


def _with_times(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """The columns that are needed; events apart that have no time, or one too far ahead."""
    for batch in batches:
        if batch.num_rows == 0:
            continue
        # By place: Spark's own function cannot name columns with dots, so they come under other names.
        names = job.schema.names if job.max_ahead is None else [*job.schema.names, ahead.AHEAD]
        table = pa.Table.from_batches([batch]).rename_columns(names)
        if job.max_ahead is not None:
            far, table = ahead.apart(table, job.time)
            if far.num_rows:
                yield AHEAD, far.cast(job.schema)
        if table.schema != job.schema:
            table = table.cast(job.schema)
        if table[job.time].null_count:
            yield UNTIMED, table.filter(pc.is_null(table[job.time]))
            table = table.filter(pc.is_valid(table[job.time]))
        if table.num_rows:
            yield EVENTS, table


def blocks_of(job: Job, table: pa.Table, kind: str) -> Iterator[tuple[int, bytes]]:
    """The rows of each bucket, in the order they have."""
    if table.num_rows == 0:
        return
    if job.buckets == 1:
        yield 0, encode_block(table, kind)
        return
    keys = table.columns[: len(job.key)] if kind == SLICES else [table[name] for name in job.key]
    bucket = bucket_of(keys, table.num_rows, job.buckets)
    order = np.argsort(bucket.astype(np.min_scalar_type(job.buckets)), kind="stable")  # narrow: a radix sort
    bounds = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=job.buckets))])
    ordered = table.take(pa.array(order))
    for b in range(job.buckets):
        if bounds[b + 1] > bounds[b]:
            yield b, encode_block(ordered.slice(bounds[b], bounds[b + 1] - bounds[b]), kind)
