"""A bucket's state: a snapshot of its operator, and a log of the steps since.

    snapshot │ step │ step │ step │ …          restore: read the snapshot, take the steps again
                                               commit: append a step; when the log is four times the snapshot, write a
                                               new one

A batch writes what came in, not what is held, so a long window costs no more than a short one: amortised, at most a
constant times the blocks of the batch. Taking steps again gives the same state, because an operator's results depend on
its events and watermarks alone.

A worker keeps the operators of its last batch. Every state has a *token*, a digest of all that led to it, so an
operator that is kept is used only if it is in exactly the state that Spark has committed. And one that is restored has
come from all the steps that there were, in their order, or it is refused: what Spark reads back is not checked by it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from windlass.errors import CorruptSnapshot, WindlassError
from windlass.formats.container import DIGEST, digest_of
from windlass.formats.record import as_corrupt_snapshot
from windlass.formats.spark import HEAD, STEP
from windlass.operator.operator import Operator
from windlass.private_directories import own
from windlass.version import __version__

T = TypeVar("T")

_KEPT = 256  # operators that a worker keeps, of all streams; with fewer than it has buckets, none is there in time
_SMALL = 1 << 16  # bytes of log that are not worth a snapshot
_LONG = 1 << 20  # bytes of log and snapshot
_SLICE, _TUPLE, _REST = 72, 160, 1 << 15  # bytes in a snapshot, about
_OUTGROWN = 4  # times a snapshot that its log may be: taking steps again is faster than writing snapshots


@dataclass(frozen=True)
class Head:
    """The head of a bucket's state."""

    token: bytes  # a digest of all that led to this state
    base: bytes  # the token before the snapshot
    job: str  # the fingerprint of the job that wrote it
    watermark: int | None  # microseconds
    timer: int = 0  # milliseconds
    log: int = 0  # bytes
    snapshot: int = 0  # bytes

    def row(self) -> tuple[Any, ...]:
        """As Spark keeps it: the record is in the last column; the first is there for versions that cannot read it."""
        record = {**vars(self), "job": self.job.encode()}
        return (HEAD.version, *[None] * 7, HEAD.seal(record))


def head_of(row: Sequence[Any], bucket: int) -> Head:
    """The head in a row of Spark's. Refuse one that another version has written, or that is damaged."""
    version, sealed = row[0], row[-1]
    if version is None or version < HEAD.version or sealed is None:
        raise CorruptSnapshot(
            f"the checkpoint was written by Windlass {HEAD.outdated.get(version, '(unknown)')}: its state is "
            f"of version {version}, this is Windlass {__version__}, which reads version {HEAD.version}; finish the "
            "stream with that version, or start a new checkpoint"
        )
    record = HEAD.unseal(bytes(sealed), f"the bytes of the state's head of bucket {bucket}")
    with as_corrupt_snapshot("the state"):
        job = bytes(record.pop("job")).decode()
        return Head(bytes(record.pop("token")), bytes(record.pop("base")), job, **record)


def encode_step(blocks: Sequence[bytes], watermark: int | None) -> bytes:
    return STEP.seal({"watermark": watermark, "blocks": blocks})


def decode_step(data: bytes) -> tuple[list[memoryview], int | None]:
    """The blocks and the watermark of a step."""
    found = STEP.unseal(data, "the bytes of a step in the state's log")
    return found["blocks"], found["watermark"]


def token_after(token: bytes, written: bytes) -> bytes:
    """The token of the state that a step, or a snapshot in the place of steps, leads to; both end with a digest."""
    return digest_of(token, written[-DIGEST:])


def first_token(fingerprint: str) -> bytes:
    return digest_of(fingerprint.encode())


def check_whole(base: bytes, snapshot: bytes | None, log: Iterable[bytes], token: bytes) -> None:
    """Refuse a snapshot and steps that do not lead from `base`, the token before the snapshot, to `token`."""
    reached = base if snapshot is None else token_after(base, snapshot)
    for written in log:
        reached = token_after(reached, written)
    if reached != token:
        raise CorruptSnapshot(
            "the state is damaged: its head, its snapshot and its log do not belong together, so steps are missing or "
            "there twice; put back the files of the checkpoint, or start a new one"
        )


def parted(entries: Sequence[bytes], size: int) -> tuple[bytes | None, Sequence[bytes]]:
    """The entries of a log as a snapshot of so many bytes, if there is to be one, and the steps since."""
    if not size:
        return None, entries
    if not entries or len(entries[0]) != size:
        raise CorruptSnapshot("the state has lost its snapshot; go back to an older checkpoint, or start a new one")
    return entries[0], entries[1:]


def outgrown(log: int, snapshot: int) -> bool:
    """Whether a log of so many bytes is to be replaced by a snapshot of so many."""
    return log > max(_SMALL, _OUTGROWN * snapshot)


def is_long(log: int, snapshot: int) -> bool:
    """Whether it takes long to have an operator again from a snapshot and a log of so many bytes."""
    return log + snapshot > _LONG


def snapshot_bytes(operator: Operator) -> int:
    """How long a snapshot would be, about."""
    counted = operator.counters
    return counted["slices"] * _SLICE + counted["tuples"] * _TUPLE + _REST


class Kept(Generic[T]):
    """Operators that a worker has at hand, by stream and bucket; each is taken out to be used, and put back under its
    new token. Those that were not used for longest go.

    Spark gives a bucket to whichever worker is free. For the others of an executor, a worker leaves on a shelf, a
    directory that they share, a snapshot of the operator, by token, too. What is not there, or damaged, Spark's state
    has.
    """

    def __init__(self, shelf: Callable[[], Path | None] = lambda: None) -> None:
        self._operators: OrderedDict[Hashable, tuple[bytes, T]] = OrderedDict()
        self._shelf = shelf

    def take(self, bucket: Hashable, token: bytes, again: Callable[[bytes], T] | None = None) -> T | None:
        """The operator of a bucket in this state; from what is on the shelf, made `again`."""
        found = self._operators.pop(bucket, None)
        shelf = self._shelf()
        place = None if shelf is None else shelf / token.hex()
        try:
            if found is not None and found[0] == token:
                return found[1]
            if place is not None and again is not None:
                return again(place.read_bytes())
        except (OSError, WindlassError):
            pass
        finally:
            if place is not None:
                with suppress(OSError):
                    place.unlink()
        return None

    def put(self, bucket: Hashable, token: bytes, operator: T, left: bytes | None = None) -> None:
        self._operators[bucket] = token, operator
        while len(self._operators) > _KEPT:
            self._operators.popitem(last=False)
        if left is not None and (shelf := self._shelf()) is not None:
            staged = shelf / f"{token.hex()}.{os.getpid()}"
            try:
                own(shelf)
                staged.write_bytes(left)
                staged.rename(shelf / token.hex())
            except OSError:  # of a full disk, say; there is the state
                with suppress(OSError):
                    staged.unlink()
