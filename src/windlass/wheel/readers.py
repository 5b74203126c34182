"""One writes, many read: readers in other threads, and in other processes through shared memory (µWheel 3.2).

Rows below the watermark never change, so readers share them with the writer and need no lock. What does change, the
header and the totals, is small. In one process the writer publishes a copy of it with one assignment. Between
processes it lies in a control file, twice guarded:

    control   sequence │ generation │ length │ 0 │ a wheel-shared record: header, gaps in use, totals, flags, keys
              └ odd while the writer is at it: a reader that sees it change, or an odd one, looks again (a seqlock)
    slots.g   the arrays of generation g, mapped by all; a layout that has to grow makes file g + 1 and unlinks the
    old one,
              which stays mapped where it is in use

A reader never makes the writer wait, and the writer never waits for readers. A reader is always at one watermark;
`refresh` takes it to the newest."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.partials import from_plain
from windlass.errors import CorruptSnapshot, InvalidArgument, UnsupportedAggregate
from windlass.formats.container import DIGEST, digest_of
from windlass.formats.record import as_corrupt_snapshot
from windlass.formats.wheel import WHEEL_SHARED
from windlass.private_directories import create_file, create_private
from windlass.wheel import settings
from windlass.wheel.keys import Keys
from windlass.wheel.packing import Packed
from windlass.wheel.plans import INVERTIBLE
from windlass.wheel.reading import Readable, View
from windlass.wheel.slots import GAPS, WIDTH, Memory

if TYPE_CHECKING:
    from windlass.wheel.engine import Engine
    from windlass.wheel.wheel import Wheel

Array = np.ndarray[Any, Any]

SEQUENCE, GENERATION, LENGTH, UNUSED = range(4)
_CONTROL, _GUARD = "control", 4  # words before the state
_MOST = 1 << 24  # bytes of state: a sparse file, of which only what is written takes room
_PATIENCE = 10_000  # times a reader looks again


class Reader(Readable):
    """Asks a wheel from another thread of its process. It always sees the newest watermark."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self.aggregate, self.clock, self.levels, self.keys = wheel.aggregate, wheel.clock, wheel.levels, wheel.keys
        self._set_up(wheel.hints, wheel.simd_threshold, bool(wheel._options[INVERTIBLE]))

    def _look(self) -> tuple[Monoid | None, View, tuple[Packed, ...]]:
        self._options[INVERTIBLE] = self._wheel._options[INVERTIBLE]
        return self._wheel._published


class Publisher(Memory):
    """The writer's side of shared memory: allocates arrays in files, and publishes states of them."""

    def __init__(self, path: Path, monoid: Monoid) -> None:
        if any(field.dtype.kind == "O" for field in monoid.fields):
            raise UnsupportedAggregate("partials that are Python objects cannot be shared between processes")
        self.path, self.generation, self.sequence = path, 0, 0
        create_private(path)
        self._arrays: list[tuple[str, int, Array]] = []
        self._offset = 0
        self._file: Any = None
        create_file(path / _CONTROL)
        with (path / _CONTROL).open("r+b") as file:
            file.truncate(_MOST)
            self._control = mmap.mmap(file.fileno(), _MOST)
        self._words = np.frombuffer(self._control, np.int64)
        self._fence = threading.Lock()

    def begin(self) -> None:
        """A layout begins: its arrays go to the file of the next generation."""
        path = self.path / f"slots.{self.generation + 1}"
        if self._file is not None:  # one that nobody has seen; it stays mapped as long as it is copied from
            self._file.close()
            path.unlink()
        create_file(path)
        self._file = path.open("r+b")
        self._offset, self._arrays = 0, []

    def __call__(self, slots: int, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> Array:
        count = slots * int(np.prod(shape, dtype=np.int64))
        size = max(1, -(-count * dtype.itemsize // mmap.ALLOCATIONGRANULARITY)) * mmap.ALLOCATIONGRANULARITY
        self._file.truncate(self._offset + size)
        mapped = mmap.mmap(self._file.fileno(), size, offset=self._offset)
        array = np.frombuffer(mapped, dtype, count).reshape((slots, *shape))
        self._arrays.append((dtype.str, self._offset, array))
        self._offset += size
        return array

    def publish(self, wheel: Engine) -> None:
        """Let other processes see the state."""
        slots = wheel._slots
        is_new = self._file is not None
        if is_new:
            self._file.close()
            self._file = None
            self.generation += 1
        body = WHEEL_SHARED.seal(
            {
                "arrays": [{"dtype": d, "offset": at, "shape": list(array.shape)} for d, at, array in self._arrays],
                "header": slots.header,
                "gaps": slots.gaps[: int(slots.header[GAPS])],
                "totals": list(slots.totals),
                "some": slots.some,
                "wide": wheel._bound is not wheel._plain,
                "keys": None if wheel.keys is None else list(wheel.keys),
            }
        )
        at = 8 * _GUARD
        if at + len(body) > _MOST:
            raise InvalidArgument(
                f"the state has {len(body)} bytes besides its slots, too many to share: most are gaps or keys"
            )
        self.sequence += 1
        with self._fence:  # a full barrier: rows before the sequence, the sequence before the state
            self._words[SEQUENCE] = self.sequence
        self._control[at : at + len(body)] = body
        self._words[GENERATION], self._words[LENGTH], self._words[UNUSED] = self.generation, len(body), 0
        self.sequence += 1
        with self._fence:
            self._words[SEQUENCE] = self.sequence
        if is_new and self.generation > 1:
            with contextlib.suppress(FileNotFoundError):
                (self.path / f"slots.{self.generation - 1}").unlink()

    def close(self) -> None:
        for name in (_CONTROL, f"slots.{self.generation}"):
            with contextlib.suppress(FileNotFoundError):
                (self.path / name).unlink()


class SharedReader(Readable):
    """Asks, from another process, a wheel that its writer shares under a path."""

    def __init__(self, path: str | os.PathLike[str], aggregate: Aggregate) -> None:
        self.path = Path(path)
        if not (self.path / _CONTROL).exists():
            raise InvalidArgument(
                f"no wheel is shared under {self.path}; the writer calls share({str(self.path)!r}) first"
            )
        self.settings = settings.read(self.path, aggregate)
        self.aggregate, self.clock, self.levels = aggregate, self.settings.clock, self.settings.levels
        self.keys = Keys() if self.settings.keyed else None
        self._set_up(self.settings.hints, self.settings.simd_threshold, self.settings.subtracts)
        with (self.path / _CONTROL).open("rb") as file:
            if os.fstat(file.fileno()).st_size != _MOST:
                raise CorruptSnapshot(f"{self.path / _CONTROL} is cut off: it has {_MOST} bytes when it is whole")
            self._control = mmap.mmap(file.fileno(), _MOST, access=mmap.ACCESS_READ)
        self._words = np.frombuffer(self._control, np.int64)
        self._generation = -1
        self._arrays: tuple[Array, ...] = ()
        self._fence = threading.Lock()
        self.refresh()

    def refresh(self) -> SharedReader:
        """See the newest watermark."""
        for _ in range(_PATIENCE):
            with self._fence:
                before = int(self._words[SEQUENCE])
            if before & 1 or before == 0:
                os.sched_yield() if hasattr(os, "sched_yield") else None
                continue
            generation, length = int(self._words[GENERATION]), int(self._words[LENGTH])
            if not 0 <= length <= _MOST - 8 * _GUARD:
                continue
            body = self._control[8 * _GUARD : 8 * _GUARD + length]
            with self._fence:
                after = int(self._words[SEQUENCE])
            if before != after or digest_of(body[:-DIGEST]) != body[-DIGEST:]:
                continue
            with contextlib.suppress(FileNotFoundError):  # a new generation has come meanwhile
                self._state = self._decode(body, generation)
                return self
        raise CorruptSnapshot(f"the writer of {self.path} stopped in the middle of a state; it has to share again")

    def _decode(self, body: bytes, generation: int) -> tuple[Monoid | None, View, tuple[Packed, ...]]:
        with as_corrupt_snapshot(str(self.path)):
            record = WHEEL_SHARED.unseal(body, str(self.path / _CONTROL))
            m = self.settings.monoid
            m = m.wide if record["wide"] and m.wide is not None else m
            if generation != self._generation:
                self._arrays = self._map(record["arrays"], generation)
                self._generation = generation
            header, gaps, some = record["header"], record["gaps"], record["some"]
            if len(header) != self.settings.header_length or len(gaps) != header[GAPS]:
                raise CorruptSnapshot(f"{self.path} shares a header that does not fit its wheel")
            if len(some) != len(self.levels) * int(header[WIDTH]) or len(self._arrays) < len(m.fields) + 1:
                raise CorruptSnapshot(f"{self.path} shares slots that do not fit its wheel")
            totals = from_plain(m, record["totals"], len(some))
            if self.keys is not None:
                self.keys = Keys(record["keys"] or ())
        fields = len(m.fields)
        columns = self._arrays[:fields]
        prefix = self._arrays[fields:-1] or columns
        return m, (columns, prefix, self._arrays[-1], header, gaps, totals, some), ()

    def _map(self, described: list[Any], generation: int) -> tuple[Array, ...]:
        # Writable, although nothing is written: compiled code takes arrays that are read-only for another type.
        with (self.path / f"slots.{generation}").open("r+b") as file:
            whole = mmap.mmap(file.fileno(), 0)
        found = []
        for array in described:
            dtype, shape = np.dtype(array["dtype"]), array["shape"]
            count = math.prod(shape)
            if array["offset"] + count * dtype.itemsize > len(whole):
                raise CorruptSnapshot(f"{self.path} shares an array that its file has no room for")
            found.append(np.frombuffer(whole, dtype, count, array["offset"]).reshape(shape))
        return tuple(found)

    def _look(self) -> tuple[Monoid | None, View, tuple[Packed, ...]]:
        return self._state
