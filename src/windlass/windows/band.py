"""One fixed window: between two points that are known beforehand.

───────|──────────|───       [start, start + size)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.durations import Duration
from windlass.windows.parameters import Instant
from windlass.windows.periodic import PeriodicWindow
from windlass.windows.window import Periodic

__all__ = ["Band"]


@dataclass(frozen=True, repr=False)
class Band(PeriodicWindow):
    """`Band("2026-01-01T09:00", "8h")`: the hours from nine to five of that day."""

    start: Instant
    size: Duration
    measure: str = field(default="time", kw_only=True)

    def bind(self, unit: str | None) -> Periodic:
        return Periodic(self._instant("start", unit), 0, self._duration("size", unit), 1, measure=self.measure)
