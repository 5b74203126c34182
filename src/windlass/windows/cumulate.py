"""Cumulating windows: they grow by `step` until `size` is reached, then start anew.

|──|
|─────|                      [offset + k·size, offset + k·size + j·step),  j = 1 … size/step
|────────|
         |──| …
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.durations import Duration
from windlass.errors import InvalidArgument
from windlass.windows.parameters import comparable
from windlass.windows.periodic import PeriodicWindow
from windlass.windows.window import Periodic

__all__ = ["Cumulate"]


@dataclass(frozen=True, repr=False)
class Cumulate(PeriodicWindow):
    """`Cumulate("1h", "1d")`: the day so far, every hour."""

    step: Duration
    size: Duration
    offset: Duration = field(default=0, kw_only=True)
    measure: str = field(default="time", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_rest(self.step, self.size)

    def bind(self, unit: str | None) -> Periodic:
        step, size = self._duration("step", unit), self._duration("size", unit)
        _refuse_rest(step, size)
        return Periodic(self._duration("offset", unit), size, step, size // step, measure=self.measure)


def _refuse_rest(step: Duration, size: Duration) -> None:
    both = comparable(step, size)
    if both is not None and both[1] % both[0]:
        raise InvalidArgument(f"the step {step} does not divide the size {size}: the last step would be cut short")
