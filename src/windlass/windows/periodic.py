"""What the windows have in common whose edges do not depend on the data: durations on a measure.

    tumbling   sliding   cumulate   band   landmark

They are context free on every measure: on time, on positions in the key's order ("count"), and on the values of
a column that does not decrease.
"""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

from windlass.durations import Duration
from windlass.errors import InvalidArgument
from windlass.windows.parameters import comparable, extent, in_unit, instant, instant_in_unit, measure_name
from windlass.windows.window import Context, Window

__all__ = ["PeriodicWindow"]


class PeriodicWindow(Window):
    """A window on a measure, with durations in it."""

    context: ClassVar[Context] = "CF"

    def __post_init__(self) -> None:
        """Checks the parameters and keeps them in their short form."""
        name = type(self).__name__
        measure = measure_name(name, self.measure)
        for field in fields(self):  # type: ignore[arg-type]
            what, value = f"the {field.name} of {name}", getattr(self, field.name)
            if field.name == "start":
                object.__setattr__(self, "start", instant(what, value, measure))
            elif field.name != "measure":
                object.__setattr__(self, field.name, extent(what, value, measure, positive=field.name != "offset"))

    def _duration(self, field: str, unit: str | None) -> int:
        value = getattr(self, field)
        return value if type(value) is int else in_unit(f"the {field} of {self}", value, unit)

    def _instant(self, field: str, unit: str | None) -> int:
        return instant_in_unit(f"the {field} of {self}", getattr(self, field), unit)


def refuse_longer(shorter: str, a: Duration, longer: str, b: Duration, hint: str) -> None:
    """An error if a > b. Text and integers can only be compared in the unit of a stream."""
    both = comparable(a, b)
    if both is not None and both[0] > both[1]:
        raise InvalidArgument(f"the {shorter} {a} is longer than the {longer} {b}: {hint}")
