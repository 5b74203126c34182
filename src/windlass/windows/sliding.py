"""Sliding windows: one begins every `slide`, and they overlap.

|──────────|
    |──────────|             [offset + k·slide, offset + k·slide + size)
        |──────────|
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.durations import Duration
from windlass.windows.periodic import PeriodicWindow, refuse_longer
from windlass.windows.window import Periodic

__all__ = ["Sliding"]

_GAPS = "events between two windows would be lost; if that is meant, filter them out before"


@dataclass(frozen=True, repr=False)
class Sliding(PeriodicWindow):
    """`Sliding("1m", "5s")`: the last minute, every five seconds."""

    size: Duration
    slide: Duration
    offset: Duration = field(default=0, kw_only=True)
    measure: str = field(default="time", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_longer("slide", self.slide, "size", self.size, _GAPS)

    def bind(self, unit: str | None) -> Periodic:
        size, slide = self._duration("size", unit), self._duration("slide", unit)
        refuse_longer("slide", slide, "size", size, _GAPS)
        return Periodic(self._duration("offset", unit), slide, size, 1, measure=self.measure)
