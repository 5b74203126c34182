"""Seeded event streams, generated to what the papers say about theirs: they are not the papers' data.

football   2000 positions of a ball a second, 84 232 distinct values, 5 gaps a minute between sessions (Scotty 6.1)
machine    100 readings a second, 37 distinct values, in plateaus (Scotty 6.1, 6.3.2)
sensors    beside the machine: 20 binary sensors that change at random, some often, some seldom (Cutty 7.3). The paper
           draws their frequencies in a figure without numbers; here the times between changes are spread evenly, on a
           logarithmic scale, from 2 s to 5 min.

Times are int64 microseconds from 0. A stream is in the order of arrival: `disordered` delays some events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from benchmarks.workloads import SEED

Array = np.ndarray

SECOND = 1_000_000  # in the streams' unit
BATCH = 1 << 16  # events
DISTINCT = {"football": 84_232, "machine": 37}
RATE = {"football": 2000, "machine": 100}  # events a second
GAPS_A_MINUTE = 5
SENSORS = 20


@dataclass(frozen=True)
class Stream:
    """Columns of equal length, in the order of arrival. `extra`: more columns, by name."""

    ts: Array
    value: Array
    extra: tuple[tuple[str, Array], ...] = ()

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def columns(self) -> dict[str, Array]:
        return {"ts": self.ts, "value": self.value, **dict(self.extra)}

    def batches(self, size: int = BATCH) -> list[pa.RecordBatch]:
        """As an operator is fed: Arrow batches, over the same memory."""
        whole = pa.RecordBatch.from_pydict(self.columns)
        return [whole.slice(start, size) for start in range(0, len(self), size)]

    def arrays(self, size: int = BATCH) -> Iterator[tuple[Array, Array]]:
        """As a baseline is fed: (ts, value) of one batch after the other."""
        for start in range(0, len(self), size):
            yield self.ts[start : start + size], self.value[start : start + size]

    def head(self, n: int) -> Stream:
        return replace(
            self, ts=self.ts[:n], value=self.value[:n], extra=tuple((name, column[:n]) for name, column in self.extra)
        )


def football(n: int, seed: int = SEED, *, gaps: bool = True) -> Stream:
    """A ball that moves steadily over a field of 84 232 places; at each gap nothing comes for 1.1 to 2 s."""
    rng = np.random.default_rng(seed)
    ts = np.arange(n) * (SECOND // RATE["football"])
    if gaps:
        minutes = n // (60 * RATE["football"]) + 1
        at = rng.integers(0, 60 * RATE["football"], (minutes, GAPS_A_MINUTE))
        at = np.unique(at + np.arange(minutes)[:, None] * 60 * RATE["football"])
        pause = np.zeros(n, np.int64)
        pause[at[at < n]] = rng.integers(11 * SECOND // 10, 2 * SECOND, int(np.sum(at < n)))
        pause[0] = 0
        ts = ts + np.cumsum(pause)
    places = DISTINCT["football"]
    path = np.cumsum(rng.integers(-400, 401, n)) + places // 2
    return Stream(ts, _reflected(path, places))


def machine(n: int, seed: int = SEED, *, rate: int = RATE["machine"]) -> Stream:
    """A reading that stays on one of 37 levels for half a second on average, then moves to a level nearby.

    `rate`: events a second. Scotty raises it by tuples made from the original ones.
    """
    rng = np.random.default_rng(seed)
    moves = np.where(rng.random(n) < 1 / (0.5 * rate), rng.integers(-6, 7, n), 0)
    levels = DISTINCT["machine"]
    ts = np.arange(n) * (SECOND // rate)
    return Stream(ts, _reflected(np.cumsum(moves) + levels // 2, levels))


def with_sensors(stream: Stream, sensors: int = SENSORS, seed: int = SEED) -> Stream:
    """The stream beside boolean columns change_0, change_1, …: whether that sensor changed its state at the event."""
    rng = np.random.default_rng(seed + 1)
    between = np.geomspace(2 * SECOND, 300 * SECOND, SENSORS)
    step = int(stream.ts[1] - stream.ts[0])
    extra = []
    for k in range(sensors):
        # Beyond 20 queries, frequencies are picked at random from those of the 20 sensors, as in Cutty 7.3.
        mean = between[k] if k < SENSORS else between[rng.integers(SENSORS)]
        extra.append((f"change_{k}", rng.random(len(stream)) < step / mean))
    return replace(stream, extra=stream.extra + tuple(extra))


def disordered(
    stream: Stream, fraction: float = 0.2, delay: tuple[int, int] = (0, 2 * SECOND), seed: int = SEED
) -> Stream:
    """That fraction of the events arrives later by a delay drawn evenly from the range."""
    rng = np.random.default_rng(seed + 2)
    late = rng.random(len(stream)) < fraction
    arrival = stream.ts + np.where(late, rng.integers(delay[0], delay[1] + 1, len(stream)), 0)
    order = np.argsort(arrival, kind="stable")
    extra = tuple((name, column[order]) for name, column in stream.extra)
    return Stream(stream.ts[order], stream.value[order], extra)


def keyed(stream: Stream, keys: int, seed: int = SEED) -> Stream:
    """The stream beside a column `key`, each event of a key drawn evenly from that many."""
    key = np.random.default_rng(seed + 3).integers(0, keys, len(stream))
    return replace(stream, extra=(*stream.extra, ("key", key)))


def tumbling_lengths(windows: int, longest: int = 20 * SECOND) -> list[int]:
    """So many lengths, evenly spread over 1 to 20 s (Scotty 6.2.1), in whole milliseconds."""
    if windows == 1:
        return [longest // 2]
    millisecond = SECOND // 1000
    return [int(length) // millisecond * millisecond for length in np.linspace(SECOND, longest, windows)]


def _reflected(path: Array, size: int) -> Array:
    """A walk kept within 0 … size - 1 by reflection at both ends."""
    place = np.abs(path) % (2 * size)
    return np.minimum(place, 2 * size - 1 - place)
