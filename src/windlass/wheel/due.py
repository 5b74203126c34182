"""What advancing a wheel hands out: the windows that are complete, in one table when someone looks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.evaluation import finish
from windlass.aggregates.monoid import Monoid
from windlass.wheel.ticks import Clock

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 16


class Complete(NamedTuple):
    """One window that is complete."""

    window: str
    start: Any
    end: Any
    value: Any
    key: Any = None


class Batch(NamedTuple):
    """Windows of one kind and key, as kernels leave them."""

    label: str
    key: Any
    starts: Array  # ticks
    ends: Array | int  # or how long all of them are
    answers: Any


class Due:
    """Windows that became complete, each once: as a table, or one by one. `late`: positions of events that were
    rejected."""

    def __init__(
        self, clock: Clock, name: str, monoid: Monoid | None, batches: list[Batch], keyed: bool, late: Array
    ) -> None:
        self._clock, self._name, self._monoid, self._batches, self._keyed = clock, name, monoid, batches, keyed
        self.late = late

    def __len__(self) -> int:
        return sum(len(batch.starts) for batch in self._batches)

    def __iter__(self) -> Iterator[Complete]:
        names = self.table.column_names
        for row in zip(*(self.table[n].to_pylist() for n in names), strict=True):
            *key, window, start, end, value = row
            yield Complete(window, start, end, value, *key)

    @cached_property
    def table(self) -> pa.Table:
        """Columns (key,) window, start, end and the answer; by window, in the order of their ends."""
        parts = [self._of(batch) for batch in _joined(self._batches)]
        if parts:
            return pa.concat_tables(parts)
        value = self._monoid.result if self._monoid is not None else pa.null()
        time = self._clock.to_arrow(np.zeros(0, np.int64))
        empty = {"window": pa.array([], pa.string()), "start": time, "end": time, self._name: pa.array([], value)}
        return pa.table({"key": pa.nulls(0), **empty} if self._keyed else empty)

    def _of(self, batch: Batch) -> pa.Table:
        n = len(batch.starts)
        assert self._monoid is not None
        ends = batch.starts + batch.ends if isinstance(batch.ends, int) else batch.ends
        columns = {
            "window": _repeated(batch.label, n),
            "start": self._clock.to_arrow(batch.starts),
            "end": self._clock.to_arrow(ends),
            self._name: finish(self._monoid, batch.answers),
        }
        return pa.table({"key": pa.array([batch.key] * n), **columns} if self._keyed else columns)

    def __repr__(self) -> str:
        late = f", {len(self.late)} late events" if len(self.late) else ""
        return f"<Due: {len(self)} windows{late}>"


def _repeated(label: str, n: int) -> pa.ChunkedArray:
    """A label n times: one block of it, again and again, as writing it out for each window takes longer than the
    window."""
    block = pa.repeat(label, min(n, _BLOCK))
    whole, rest = divmod(n, _BLOCK)
    return pa.chunked_array([block] * whole + [block[:rest]] * (rest > 0), pa.string())


def _joined(batches: list[Batch]) -> list[Batch]:
    """One batch a window and key: over a sparse stream there are many small ones."""
    found: dict[Any, list[Batch]] = {}
    for batch in batches:
        found.setdefault((batch.label, batch.key), []).append(batch)
    return [parts[0] if len(parts) == 1 else _concatenated(parts) for parts in found.values()]


def _concatenated(parts: list[Batch]) -> Batch:
    starts, lengths = np.concatenate([p.starts for p in parts]), parts[0].ends
    ends = lengths if isinstance(lengths, int) else np.concatenate([np.asarray(p.ends) for p in parts])
    columns = tuple(np.concatenate(c) for c in zip(*(p.answers[0] for p in parts), strict=True))
    return parts[0]._replace(starts=starts, ends=ends, answers=(columns, np.concatenate([p.answers[1] for p in parts])))
