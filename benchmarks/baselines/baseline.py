"""What all baselines have in common: batches in, answers out, a kernel in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.baselines.schedule import AnySchedule, Batch, Schedule, Windows
from windlass import agg
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import kernel
from windlass.aggregates.values import INT64, ValueType
from windlass.kernels import compiled

Array = np.ndarray

# Places in the header of every kernel's state.
HEAD, TAIL, BASE, SESSIONS, TAKEN, FINAL, UPDATES, MERGES, WORDS = range(9)


class Answers(NamedTuple):
    """One row a window. `columns`: what the aggregate lowers to."""

    query: Array
    start: Array
    end: Array
    columns: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.query)

    def rows(self) -> list[tuple[Any, ...]]:
        """For comparison: sorted, as Python values."""
        return sorted(zip(*(c.tolist() for c in (self.query, self.start, self.end, *self.columns)), strict=True))


class Baseline:
    """`process` a batch in arrival order, `finish` at the end; both return the windows that became complete.

    After a run: `updates` and `merges` are the ⊕ calls made when events arrive and when windows end (Cutty 7.2),
    `most_kept` the most tuples or partials kept at the end of a batch, `produced` how many there were in all.
    """

    any_order = True
    sessions = False
    holistic = False  # takes aggregates whose partials are not of a fixed size: the median

    def __init__(
        self,
        windows: Windows | AnySchedule,
        aggregate: Aggregate | None = None,
        *,
        delay: int | None = None,
        every: int = 1,
        interpreted: bool = False,
    ) -> None:
        self.schedule = Schedule(windows, delay, every) if isinstance(windows, Windows) else windows
        self.windows: Windows = self.schedule.windows
        self.aggregate = aggregate or agg.sum()
        assert self.any_order or self.schedule.in_order, f"{type(self).__name__} takes events in order only"
        assert self.sessions or self.windows.gap is None, f"{type(self).__name__} has no sessions"
        value = ValueType(pa.int64(), INT64)
        self.monoid = self.aggregate.monoid((value,) * len(self.aggregate.columns), nullable=False)
        assert self.holistic or self.monoid.is_compiled, f"{type(self).__name__} cannot serve {self.aggregate!r}"
        self.header = np.zeros(WORDS, np.int64)
        self.most_kept = self.produced = 0
        self._interpreted = interpreted
        self._begin()

    def process(self, ts: Array, value: Array, *extra: Array) -> Answers:
        return self._run(ts, value, self.schedule.batch(ts, *extra))

    def finish(self) -> Answers:
        none = np.empty(0, np.int64)
        return self._run(none, none, self.schedule.rest())

    @property
    def updates(self) -> int:
        return int(self.header[UPDATES])

    @property
    def merges(self) -> int:
        return int(self.header[MERGES])

    @property
    def kept(self) -> int:
        """Tuples or partials."""
        return int(self.header[TAIL] - self.header[HEAD])

    @property
    def nbytes(self) -> int:
        """Of what is kept, without spare room."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Make the state."""
        raise NotImplementedError

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        """Run the kernel over one batch; how many answers it gave."""
        raise NotImplementedError

    def _run(self, ts: Array, value: Array, batch: Batch) -> Answers:
        self.header[TAKEN] = 0
        self.header[FINAL] = self.schedule.settled or 0
        room = len(batch.end) + (len(ts) + int(self.header[SESSIONS]) if self.windows.gap is not None else 0)
        bounds = tuple(np.empty(room, np.int64) for _ in range(3))
        columns = tuple(np.empty(room, field.dtype) for field in self._result_fields())
        n = self._step(ts, value, batch, (bounds, columns))
        if self.windows.by_count and not self.schedule.in_order:
            self.schedule.settled = int(self.header[FINAL])
        self.most_kept = max(self.most_kept, self.kept)
        return Answers(*(c[:n] for c in bounds), tuple(c[:n] for c in columns))

    def _result_fields(self) -> Any:
        return self.monoid.result_fields

    def _kernel(self, make: Callable[..., Any], *flags: Any) -> Callable[..., Any]:
        """The loop for this aggregate, compiled once for all baselines of one kind."""
        if self._interpreted:
            return make(self.monoid, *flags)
        if not self.monoid.is_compiled:  # the kernel selects instead of combining, and never touches a partial
            return _holistic(make, self.aggregate.name, *flags)
        return kernel(self.monoid, lambda: make(self.monoid, *flags), "baseline", make.__module__, *flags)


_holistic_kernels: dict[Any, Callable[..., Any]] = {}


def _holistic(make: Callable[..., Any], *flags: Any) -> Callable[..., Any]:
    key = (make.__module__, *flags)
    if key not in _holistic_kernels:
        _holistic_kernels[key] = compiled(make(None, *flags[1:]))
    return _holistic_kernels[key]


def grown(array: Array, size: int) -> Array:
    """The array with room for at least that many rows, doubled as often as needed."""
    if len(array) >= size:
        return array
    room = max(len(array), 64)
    while room < size:
        room *= 2
    bigger = np.zeros((room, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger
