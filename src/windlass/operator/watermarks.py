"""Watermarks that follow the stream: a delay behind the greatest event time so far, raised in steps.

    Watermarks(delay="2s", every="1s")

After each event the watermark is the greatest event time less the delay, rounded down to a multiple of `every`: what a
source that tolerates two seconds of disorder and reports once a second would send. Events are judged one by one as
they come, but work is only done at a watermark where a later event of the batch turns out to be late; all others
change nothing that the next `advance()` would not find as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windlass import durations
from windlass.durations import Duration
from windlass.errors import InvalidArgument, WrongType
from windlass.slicing.edges import LONG_AGO

Array = np.ndarray[Any, Any]

NO_WATERMARKS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Watermarks:
    """A watermark that lags `delay` behind the greatest event time and moves in steps of `every`.

    Without `every` it moves in the finest steps that event times can have.
    """

    delay: Duration
    every: Duration | None = None

    def __post_init__(self) -> None:
        given: list[tuple[str, Duration, bool]] = [("delay", self.delay, False)]
        if self.every is not None:
            given.append(("every", self.every, True))
        for name, value, positive in given:
            if not isinstance(value, int | np.integer):
                durations.parse(value, positive=positive)
            elif isinstance(value, bool) or value < int(positive):
                raise InvalidArgument(
                    f"`{name}` of Watermarks must be {'positive' if positive else '0 or more'}, got {value}"
                )

    def bind(self, unit: str | None) -> tuple[int, int]:
        """Delay and step in the stream's unit."""
        every = 1 if self.every is None else _in_unit("every", self.every, unit, positive=True)
        return _in_unit("delay", self.delay, unit, positive=False), every


def _in_unit(name: str, length: Duration, unit: str | None, positive: bool) -> int:
    if unit is not None:
        durations.refuse_plain(f"`{name}` of Watermarks", length)
    elif not isinstance(length, int | np.integer):
        raise WrongType(f"time is a column of integers, so Watermarks takes integers too, got {length!r}")
    return durations.parse(length, unit=unit or "us", positive=positive)


def segments(
    ts: Array, greatest: int, watermark: int, delay: int, every: int
) -> tuple[list[tuple[int, int]], int, Array]:
    """Where a batch must be interrupted by a watermark: (row, watermark before it), because an event is late then, or
    just final: it must not be there yet when the windows that the watermark completes come out.

    Also gives the greatest time after the batch, and the watermark after each event.
    """
    highest = np.maximum.accumulate(ts if greatest == LONG_AGO else np.concatenate([[greatest], ts]))
    if greatest == LONG_AGO:
        highest = np.concatenate([[ts[0]], highest])
    marks = np.maximum((highest - delay) // every * every, watermark)
    before = marks[:-1]
    if greatest == LONG_AGO:
        before = np.concatenate([[watermark], marks[1:-1]])
    late = np.flatnonzero((ts <= before) & (before > watermark))
    cuts: list[tuple[int, int]] = []
    if len(late):
        values, first = np.unique(before[late], return_index=True)
        cuts = [(int(late[i]), int(w)) for w, i in zip(values, first, strict=True)]
    return cuts, int(highest[-1]), marks[1:]


def closed_by(first: Array, closed: int, passed: Array, lateness: int) -> Array:
    """The time up to which windows were closed when keys began, by the last watermark before each key's first event.

    `first` holds the times of these events. `passed` are the watermarks since the last run; before these, windows up to
    `closed` were closed.
    """
    known = np.concatenate([[closed], passed - lateness])
    return np.asarray(known[np.searchsorted(passed, first)])
