"""Timing: the first call apart from the steady state, and all entrants of a race in turn.

A shared machine is noisy, and the noise comes in stretches. So the entrants of one comparison run round-
robin, each repetition starting with another one, and a stretch of noise hits all alike. Medians of one race
may be compared; times of different races, or of different days, only with care.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class Entrant:
    """Something to run: `call` does `rounds` rounds."""

    call: Callable[[], Any]
    rounds: int
    times: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median(self.times)

    @property
    def rate(self) -> float:
        """Rounds a second, by the median time."""
        return self.rounds / self.seconds


def race(entrants: Mapping[str, Entrant], repetitions: int = 5, patience: float = 2.0, warm: bool = True) -> None:
    """Fill in the entrants' times. Who has used up `patience` seconds drops out after three repetitions."""
    with no_collection():
        if warm:
            for entrant in entrants.values():
                entrant.call()
        names = list(entrants)
        for repetition in range(repetitions):
            turn = repetition % len(names)
            for name in names[turn:] + names[:turn]:
                entrant = entrants[name]
                if len(entrant.times) < 3 or sum(entrant.times) < patience:
                    entrant.times.append(timed(entrant.call))


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's garbage collector, whose pauses belong to nobody in particular."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
