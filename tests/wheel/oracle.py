"""Brute force over raw events, from the definitions; imports nothing of the package.

A model keeps every event that was accepted. All times are plain integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Fold = Callable[[list[Any]], Any]

FOLDS: dict[str, Fold] = {
    "sum": lambda xs: sum(xs) if xs else None,
    "count": len,
    "min": lambda xs: min(xs) if xs else None,
    "max": lambda xs: max(xs) if xs else None,
    "avg": lambda xs: sum(xs) / len(xs) if xs else None,
    "var_pop": lambda xs: sum((x - sum(xs) / len(xs)) ** 2 for x in xs) / len(xs) if xs else None,
    "bool_or": lambda xs: any(xs) if xs else None,
    "median": lambda xs: _median(sorted(xs)) if xs else None,
}


def _median(xs: list[Any]) -> float:
    middle = len(xs) // 2
    return float(xs[middle]) if len(xs) % 2 else (xs[middle - 1] + xs[middle]) / 2


class Model:
    """The events of a wheel, and what is to be said about them."""

    def __init__(self, start: int, tick: int, fold: Fold) -> None:
        self.tick, self.fold = tick, fold
        self.start = self.watermark = start // tick * tick
        self.events: list[tuple[int, Any, Any]] = []  # time, key, value

    def insert(self, value: Any, t: int, key: Any = None) -> bool:
        """Whether it was in time."""
        if t < self.watermark:
            return False
        self.events.append((t, key, value))
        return True

    def advance(self, t: int) -> None:
        self.watermark = max(self.watermark, t // self.tick * self.tick)

    def values(self, start: int, end: int, keys: Any = None) -> list[Any]:
        end = min(end, self.watermark)
        return [v for t, k, v in self.events if start <= t < end and v is not None and (keys is None or k in keys)]

    def query(self, start: int, end: int, keys: Any = None) -> Any:
        return self.fold(self.values(start, end, keys))

    def windows(
        self, length: int, slide: int, before: int, offset: int = 0, keys: Any = None
    ) -> list[tuple[int, int, Any]]:
        """Windows that are complete now and were not at the watermark `before`, if they have an event."""
        found = []
        times = [t for t, k, v in self.events if v is not None and (keys is None or k in keys)]
        if not times:
            return []
        end = (min(times) - offset) // slide * slide + offset
        while end <= self.watermark and end - length <= max(times):
            if end > before and (end - length - offset) % slide == 0:
                values = self.values(end - length, end, keys)
                if values:
                    found.append((end - length, end, self.fold(values)))
            end += math.gcd(length % slide, slide) if length % slide else slide
        return found

    def sessions(self, gap: int, before: int, keys: Any = None) -> list[tuple[int, int, Any]]:
        """Runs of ticks with events, at most `gap` apart, that are complete now and were not at the watermark
        `before`."""
        ticks = sorted(
            {t // self.tick * self.tick for t, k, v in self.events if v is not None and (keys is None or k in keys)}
        )
        found, run = [], []
        for t in [*[t for t in ticks if t < self.watermark], None]:
            if run and (t is None or t - run[-1] > gap):
                first, last = run[0], run[-1]
                if before <= last + gap < self.watermark:
                    found.append((first, last + gap, self.fold(self.values(first, last + self.tick, keys))))
                run = []
            if t is not None:
                run.append(t)
        return found


def same(x: Any, y: Any) -> bool:
    """Equal; floats up to rounding."""
    if isinstance(x, float) or isinstance(y, float):
        if x is None or y is None:
            return x is y
        return x == y or (x != x and y != y) or math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-7)
    return bool(x == y)
