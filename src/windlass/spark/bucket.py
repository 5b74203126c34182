"""A bucket in a stream: its operator takes blocks and a watermark, and Spark keeps what it takes to have it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import ListState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import Row

from windlass.operator.operator import Operator
from windlass.spark import state
from windlass.spark.buckets import labels
from windlass.spark.frame import Frame
from windlass.spark.handover import directory, leave
from windlass.spark.merge import Step, change, restored, step

_MANY = 1 << 16  # tuples; with more it takes too long to count the open windows, and they are not reported

_SHELVED = 1 << 26  # bytes of a snapshot that others may need; more are left to Spark's state


# Those of the last batch.
_kept: state.Kept[Operator] = state.Kept(lambda: directory("windlass-operators"))


@lru_cache(maxsize=16)
def frame_of(packed: bytes) -> Frame:
    """The frame of a job, unpacked once in a worker."""
    frame: Frame = cloudpickle.loads(packed)
    return frame


@dataclass(frozen=True)
class Bucket:
    """One of them, for the time of a micro-batch."""

    frame: Frame
    label: int
    handle: StatefulProcessorHandle | None  # if Spark has a watermark, there are timers
    head: ValueState
    log: ListState  # a snapshot, if the head says that there is one, and the steps since

    def step(self, blocks: Sequence[bytes], milliseconds: int, greatest: int | None = None) -> Iterator[Row]:
        """Take blocks, then advance to the watermark: Spark's, or that of the greatest event time (microseconds)."""
        job = self.frame.job
        row = self.head.get()
        head = None if row is None else state.head_of(tuple(row), self.label)
        if head is None:
            first = state.first_token(job.fingerprint)
            head = state.Head(first, first, job.fingerprint, None)
        token, base, before, log, size = head.token, head.base, head.watermark, head.log, head.snapshot
        so_far = max(milliseconds, 0 if before is None else before // 1000)
        reached = so_far if greatest is None else max(so_far, greatest // 1000 - job.delay)
        watermark = reached * 1000 if reached > 0 else None  # Spark says 0 before it knows one
        timed = self.handle is None or head.timer > milliseconds  # a timer that has expired has to be set again
        if not blocks and row is not None and before == watermark and timed:
            if job.keeper is not None:
                job.keeper.write_nothing(self._number, watermark)
            return
        operator = _kept.take(
            (job.fingerprint, self.label), token, self._again if head.job == job.fingerprint else None
        )
        if operator is None:
            operator = self._restored(self.frame.before(head.job), size, log, base, token)
        changed = head.job != job.fingerprint
        if changed:
            change(job, operator, so_far)
        counted = operator.counters
        done = step(self.frame, operator, blocks, watermark)
        if job.keeper is not None:
            job.keeper.write(self._number, done.results, watermark)
        rows = leave(done.rows) if done.rows else None
        # In a log, all steps have the same queries.
        length, data = log + sum(map(len, blocks)), None
        if changed or state.outgrown(length, state.snapshot_bytes(operator)):
            data = operator.snapshot()
        if data is not None and (changed or state.outgrown(length, len(data))):
            self.log.put([(data,)])
            base, token = token, state.token_after(token, data)
            log, size = 0, len(data)
        else:
            written = state.encode_step(blocks, watermark)
            self.log.appendValue((written,))
            token = state.token_after(token, written)
            log += len(written)
        timer = self._rescheduled(head.timer, milliseconds)
        self.head.update(state.Head(token, base, job.fingerprint, watermark, timer, log, size).row())
        if state.is_long(log, size) and state.snapshot_bytes(operator) <= _SHELVED:
            data = data or operator.snapshot()
        else:
            data = None
        _kept.put((job.fingerprint, self.label), token, operator, data)
        figures = self._figures(done, counted, operator, log + size)
        yield Row(rows_in=rows, **figures, watermark=reached, greatest=greatest)

    @property
    def _number(self) -> int:
        return labels(self.frame.job.buckets).index(self.label)

    def _again(self, snapshot: bytes) -> Operator:
        return restored(self.frame, snapshot, ())

    def _restored(self, frame: Frame, size: int, log: int, base: bytes, token: bytes) -> Operator:
        snapshot, steps = state.parted([bytes(entry) for (entry,) in self.log.get()] if log or size else [], size)
        operator = restored(frame, snapshot, steps)
        state.check_whole(base, snapshot, steps, token)
        return operator

    def _rescheduled(self, timer: int, milliseconds: int) -> int:
        """One timer a bucket, for the next watermark whatever it is."""
        if self.handle is None:
            return timer
        if timer != milliseconds + 1:
            if timer > milliseconds:  # one that has expired is deleted by Spark
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(milliseconds + 1)
        return milliseconds + 1

    def _figures(self, done: Step, before: dict[str, int], operator: Operator, size: int) -> dict[str, int | None]:
        after = operator.counters
        figures: dict[str, int | None] = {}
        for name, refused in (("events", done.refused), ("late", 0), ("expired", done.refused)):
            figures[name] = after[name] - before[name] + refused
        figures |= {name: after[name] for name in ("slices", "tuples", "keys")}
        figures["open_windows"] = operator.open_windows() if after["tuples"] < _MANY else None
        figures["rows"] = sum(table.num_rows for table in done.rows)
        figures["state_bytes"] = size
        return figures
