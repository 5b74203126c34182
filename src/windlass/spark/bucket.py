"""A bucket in a stream: its operator takes blocks and a watermark, and Spark keeps what it takes to have it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pyspark import SparkFiles, cloudpickle
from pyspark.sql.streaming.stateful_processor import ListState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import Row

from windlass.errors import CorruptSnapshot, WindlassError
from windlass.operator.operator import Operator
from windlass.spark import state
from windlass.spark.blocks import packed
from windlass.spark.buckets import labels
from windlass.spark.frame import Frame
from windlass.spark.merge import Step, change, counted_in, restored, step
from windlass.spark.processor import FIGURES

_ROWS = 1 << 16  # of a payload
_MOST = (1 << 31) - (1 << 20)  # bytes of payloads: Spark puts all that a bucket hands over into one Arrow array
_NOTHING = b""
_MANY = 1 << 16  # tuples; with more it takes too long to count the open windows, and they are not reported

_SHELVED = 1 << 26  # bytes of a snapshot that others may need; more are left to Spark's state


def _shelf() -> Path | None:
    """A directory of this executor, that goes with it."""
    root = SparkFiles._root_directory
    return None if root is None else Path(root) / "windlass-operators"


@dataclass(frozen=True)
class Held:
    """An operator, and blocks from beyond its watermark that it has still to take."""

    operator: Operator
    waiting: Sequence[bytes] = ()
    events: int = 0  # in them
    slices: int = 0

    @classmethod
    def of(cls, frame: Frame, operator: Operator, waiting: Sequence[bytes]) -> Held:
        return cls(operator, waiting, *counted_in(frame, waiting))


# Those of the last batch.
_kept: state.Kept[Held] = state.Kept(_shelf)


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
    handle: StatefulProcessorHandle
    head: ValueState
    log: ListState  # a snapshot, if the head says that there is one, and the steps since

    def step(self, blocks: Sequence[bytes], milliseconds: int) -> Iterator[Row]:
        """Take blocks, then advance to Spark's watermark."""
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
                raise CorruptSnapshot(f"the state is damaged: the head of bucket {self.label} does not match its seal")
        keeper = self.frame.job.keeper
        if not blocks and head is not None and before == watermark:
            if keeper is not None:
                keeper.write_nothing(self._number, watermark)
            return
        again = self._again if known == fingerprint else None
        held = _kept.take((fingerprint, self.label), token, again)
        if held is None:
            held = Held(self._restored(self.frame.before(known), size, log, base, token))
        operator = held.operator
        changed = known != fingerprint
        if changed:
            change(self.frame.job, operator, milliseconds)
        counted = operator.counters
        counted["events"] += held.events  # in the batch before
        written = state.encode_step(blocks, watermark)
        log += len(written)
        shelved: list[tuple[bytes, bytes]] = []
        waiting: list[bytes] = []

        def shelve(rest: Sequence[bytes]) -> bool:
            """At a watermark an operator holds least. Blocks beyond it wait for whoever is given the bucket next."""
            if state.snapshot_bytes(operator) > _SHELVED:
                return False
            # Mostly that is all that came, in the order of time, which it is taken in anyway.
            same = {*map(id, rest)} == {*map(id, blocks)}
            shelved.append((operator.snapshot(), written if same else state.encode_step(rest, watermark)))
            waiting.extend(rest)
            return True

        shared = state.is_long(log, size)
        done = step(self.frame, operator, [*held.waiting, *blocks], watermark, shelve if shared else None)
        if keeper is not None:
            keeper.write(self._number, done.results, watermark)
        yield from self._payloads(done)
        if shared and not shelved:
            shelve(())
        token = state.token_after(token, written)
        held, data = Held.of(self.frame, operator, waiting), None
        if changed or state.outgrown(log, state.snapshot_bytes(operator, held.slices)):
            step(self.frame, operator, waiting, watermark)  # a snapshot is of all that there is
            held, data = Held(operator), operator.snapshot()
        # In a log, all steps have the same queries.
        if data is not None and (changed or state.outgrown(log, len(data))):
            self.log.put([(data,)])
            base, token = token, state.token_after(token, data)
            log, size = 0, len(data)
        else:
            self.log.appendValue((written,))
        timer = self._rescheduled(timer, milliseconds)
        seal = state.seal(token, base, fingerprint, watermark, timer, log, size)
        self.head.update((state.VERSION, token, base, fingerprint, watermark, timer, log, size, seal))
        _kept.put((fingerprint, self.label), token, held, shelved[0] if shelved else None)
        yield _output(_NOTHING, self._figures(done, counted, held, log + size), milliseconds)

    @property
    def _number(self) -> int:
        return labels(self.frame.job.buckets).index(self.label)

    def _again(self, snapshot: bytes, written: bytes) -> Held:
        waiting, _ = state.decode_step(written)
        return Held.of(self.frame, restored(self.frame, snapshot, ()), waiting)

    def _restored(self, frame: Frame, size: int, log: int, base: bytes, token: bytes) -> Operator:
        snapshot, steps = state.parted([bytes(entry) for (entry,) in self.log.get()] if log or size else [], size)
        operator = restored(frame, snapshot, steps)
        state.check_whole(base, snapshot, steps, token)
        return operator

    def _rescheduled(self, timer: int, milliseconds: int) -> int:
        """One timer a bucket, for the next watermark whatever it is."""
        if timer != milliseconds + 1:
            if timer > milliseconds:  # one that has expired is deleted by Spark
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(milliseconds + 1)
        return milliseconds + 1

    def _payloads(self, done: Step) -> Iterator[Row]:
        size = 0
        for table in done.rows:
            for start in range(0, table.num_rows, _ROWS):
                payload = packed(table.slice(start, _ROWS), "rows")
                size += len(payload)
                if size > _MOST:
                    raise WindlassError(
                        "the windows that one bucket has for one micro-batch do not fit into one Arrow array of 2 GiB: "
                        "take fewer rows in a micro-batch (maxFilesPerTrigger, say), or start anew with more buckets"
                    )
                yield _output(payload, dict.fromkeys(FIGURES, 0))

    def _figures(self, done: Step, before: dict[str, int], held: Held, size: int) -> dict[str, int | None]:
        after = held.operator.counters
        after["events"] += held.events
        after["slices"] += held.slices
        figures: dict[str, int | None] = {}
        for name, refused in (("events", done.refused), ("late", 0), ("expired", done.refused)):
            figures[name] = after[name] - before[name] + refused
        figures |= {name: after[name] for name in ("slices", "tuples", "keys")}
        figures["open_windows"] = held.operator.open_windows() if after["tuples"] < _MANY else None
        figures["rows"] = sum(table.num_rows for table in done.rows)
        figures["state_bytes"] = size
        return figures


def _output(payload: bytes, figures: Mapping[str, int | None], watermark: int | None = None) -> Row:
    return Row(payload=payload, **figures, watermark=watermark)
