"""The second stage in a stream: Spark hands over a bucket's blocks and the watermark, and keeps its state.

All buckets are called for every watermark: by a block from the first partition (see `cut`), or, in a batch without
data, by a timer one millisecond after the last watermark. So quiet keys emit in time, and all keys see the same
watermarks, however many buckets there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from windlass.errors import CorruptSnapshot
from windlass.operator.operator import Operator
from windlass.spark import state
from windlass.spark.blocks import packed
from windlass.spark.buckets import labels
from windlass.spark.frame import Frame
from windlass.spark.merge import Step, change, restored, step

# What goes on to the driver: result rows as blocks, and figures about the bucket for `observe`.
FIGURES = ("events", "late", "expired", "rows", "slices", "tuples", "keys", "open_windows", "state_bytes")
OUTPUT_SCHEMA = "payload binary, " + ", ".join(f"{name} bigint" for name in FIGURES) + ", watermark bigint"

_HEAD = (
    "version int, token binary, base binary, fingerprint string, watermark bigint, timer bigint, log bigint, "
    "snapshot bigint, seal binary"
)
_ROWS = 1 << 16  # of a payload
_MANY = 1 << 16  # tuples; with more it takes too long to count the open windows, and they are not reported

# Operators of the last batch, in this worker.
_kept = state.Kept()


class Processor(StatefulProcessor):
    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.head = handle.getValueState("head", _HEAD)
        self.snapshot = handle.getValueState("snapshot", "data binary")
        self.log = handle.getListState("log", "step binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        parts = [part for part in rows if len(part)]
        given = pd.concat(parts) if len(parts) > 1 else parts[0]
        ordered = given.sort_values(["partition", "number"], kind="stable")
        blocks = [bytes(block) for block in ordered["block"] if len(block)]
        yield from self._step(int(key[0]), blocks, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._step(int(key[0]), [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def _step(self, label: int, blocks: list[bytes], milliseconds: int) -> Iterator[pd.DataFrame]:
        watermark = milliseconds * 1000 if milliseconds > 0 else None  # Spark says 0 before it knows one
        head = self.head.get()
        fingerprint = self.frame.job.fingerprint
        if head is None:
            token = base = state.first_token(fingerprint)
            known, before, timer, log, size = fingerprint, None, 0, 0, 0
        else:
            version, token, base, known, before, timer, log, size, seal = head
            state.check(version)
            token, base = bytes(token), bytes(base)
            if bytes(seal) != state.seal(token, base, known, before, timer, log, size):
                raise CorruptSnapshot(f"the state is damaged: the head of bucket {label} does not match its seal")
        keeper = self.frame.job.keeper
        if not blocks and head is not None and before == watermark:
            if keeper is not None:
                keeper.write_nothing(self._bucket(label), watermark)
            return
        operator = _kept.take((fingerprint, label), token)
        if operator is None:
            operator = self._restored(self.frame.before(known), size, log, base, token)
        changed = known != fingerprint
        if changed:
            change(self.frame.job, operator, milliseconds)
        counted = operator.counters
        done = step(self.frame, operator, blocks, watermark)
        if keeper is not None:
            keeper.write(self._bucket(label), done.results, watermark)
        written = state.encode_step(blocks, watermark)
        token = state.token_after(token, written)
        log += len(written)
        if changed or state.outgrown(log, size):  # the log is one of steps with the same queries
            data = operator.snapshot()
            self.snapshot.update((data,))
            self.log.clear()
            base, token = token, state.token_after(token, data)
            log, size = 0, len(data)
        else:
            self.log.appendValue((written,))
        timer = self._rescheduled(timer, milliseconds)
        seal = state.seal(token, base, fingerprint, watermark, timer, log, size)
        self.head.update((state.VERSION, token, base, fingerprint, watermark, timer, log, size, seal))
        _kept.put((fingerprint, label), token, operator)
        yield self._output(done, counted, operator, log + size, milliseconds)

    def _bucket(self, label: int) -> int:
        return labels(self.frame.job.buckets).index(label)

    def _restored(self, frame: Frame, size: int, log: int, base: bytes, token: bytes) -> Operator:
        snapshot = self.snapshot.get() if size else None
        if size and snapshot is None:
            raise CorruptSnapshot("the state has lost its snapshot; go back to an older checkpoint, or start a new one")
        data = None if snapshot is None else bytes(snapshot[0])
        steps = [bytes(step) for (step,) in self.log.get()] if log else []
        operator = restored(frame, data, steps)
        state.check_whole(base, data, steps, token)
        return operator

    def _rescheduled(self, timer: int, milliseconds: int) -> int:
        """One timer a bucket, for the next watermark whatever it is."""
        if timer != milliseconds + 1:
            if timer > milliseconds:  # one that has expired is deleted by Spark
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(milliseconds + 1)
        return milliseconds + 1

    def _output(
        self, done: Step, before: dict[str, int], operator: Operator, held: int, milliseconds: int
    ) -> pd.DataFrame:
        after = operator.counters
        chunks = [t.slice(i, _ROWS) for t in done.rows for i in range(0, t.num_rows, _ROWS)]
        payload = [packed(chunk, "rows") for chunk in chunks] or [b""]
        figures: dict[str, int | None] = dict.fromkeys(FIGURES, 0)
        for name, refused in (("events", done.refused), ("late", 0), ("expired", done.refused)):
            figures[name] = after[name] - before[name] + refused
        for name in ("slices", "tuples", "keys"):
            figures[name] = after[name]
        figures["open_windows"] = operator.open_windows() if after["tuples"] < _MANY else None
        figures["rows"] = sum(table.num_rows for table in done.rows)
        figures["state_bytes"] = held
        columns = {name: pd.array([value] + [0] * (len(payload) - 1), dtype="Int64") for name, value in figures.items()}
        return pd.DataFrame({"payload": payload, **columns, "watermark": milliseconds})
