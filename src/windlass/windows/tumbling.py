"""Tumbling windows: each event in exactly one window.

|────|────|────|────        [offset + k·size, offset + (k + 1)·size)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.durations import Duration
from windlass.windows.periodic import PeriodicWindow
from windlass.windows.window import Periodic

__all__ = ["Tumbling"]


@dataclass(frozen=True, repr=False)
class Tumbling(PeriodicWindow):
    """`Tumbling("5m")`, `Tumbling(1000, measure="count")`, `Tumbling(10, measure="kilometres")`."""

    size: Duration
    offset: Duration = field(default=0, kw_only=True)
    measure: str = field(default="time", kw_only=True)

    def bind(self, unit: str | None) -> Periodic:
        size = self._duration("size", unit)
        return Periodic(self._duration("offset", unit), size, size, 1, measure=self.measure)
