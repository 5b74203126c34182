"""What advancing a wheel hands out: the windows that are complete, in one table when someone looks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.evaluation import finish
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import located
from windlass.errors import Overflow
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
        parts = [self._of(batches) for batches in _by_window(self._batches)]
        if parts:
            return pa.concat_tables(parts)
        value = self._monoid.result if self._monoid is not None else pa.null()
        time = self._clock.to_arrow(np.zeros(0, np.int64))
        empty = {"window": pa.array([], pa.string()), "start": time, "end": time, self._name: pa.array([], value)}
        return pa.table({"key": pa.nulls(0), **empty} if self._keyed else empty)

    def _of(self, batches: list[Batch]) -> pa.Table:
        """What batches of one window and key come to: over a sparse stream there are many small ones."""
        assert self._monoid is not None
        label, key, _, length, _ = batches[0]
        starts = _joined([batch.starts for batch in batches], self._clock.tick)
        if isinstance(length, int):
            ends = starts + length * self._clock.tick
        else:
            ends = _joined([np.asarray(batch.ends) for batch in batches], self._clock.tick)
        bounds = self._clock.times_to_arrow(starts), self._clock.times_to_arrow(ends)
        named = f", key {key!r}" if self._keyed else ""
        try:
            values = finish(self._monoid, _answers(batches))
        except Overflow as error:
            place = f"{self._name}, window {label} [{{}}, {{}}){named}"
            raise located(error, lambda row: place.format(bounds[0][row], bounds[1][row])) from None
        columns = {
            "window": _repeated(label, len(starts)),
            "start": bounds[0],
            "end": bounds[1],
            self._name: values,
        }
        return pa.table({"key": pa.array([key] * len(starts)), **columns} if self._keyed else columns)

    def __repr__(self) -> str:
        late = f", {len(self.late)} late events" if len(self.late) else ""
        return f"<Due: {len(self)} windows{late}>"


def _repeated(label: str, n: int) -> pa.ChunkedArray:
    """A label n times: one block of it, again and again, as writing it out for each window takes longer than the
    window."""
    block = pa.repeat(label, min(n, _BLOCK))
    whole, rest = divmod(n, _BLOCK)
    return pa.chunked_array([block] * whole + [block[:rest]] * (rest > 0), pa.string())


def _by_window(batches: list[Batch]) -> list[list[Batch]]:
    found: dict[Any, list[Batch]] = {}
    for batch in batches:
        found.setdefault((batch.label, batch.key), []).append(batch)
    return list(found.values())


def _joined(ticks: list[Array], size: int) -> Array:
    """All of them one after the other, as times."""
    times = np.empty(sum(map(len, ticks)), np.int64)
    at = 0
    for part in ticks:
        np.multiply(part, size, out=times[at : at + len(part)])
        at += len(part)
    return times


def _answers(batches: list[Batch]) -> Any:
    if len(batches) == 1:
        return batches[0].answers
    columns = tuple(np.concatenate(c) for c in zip(*(b.answers[0] for b in batches), strict=True))
    return columns, np.concatenate([b.answers[1] for b in batches])
