"""The levels of a wheel: how long a slot is, how many of them are kept, and how they are laid out (µWheel 3.4.1).

    seconds(60)  minutes(60)  hours(24)  days(7)  weeks(52)  years(10)       the paper's default, from a tick of 1s

Each level's slot is a whole number of the level below: its rotation. Another tick has the same levels above it, as
far as they are multiples of it. The paper's wheels drop what is older than a rotation unless told otherwise; here
they keep it unless told otherwise, because an answer that was there a minute ago should not be gone by surprise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from windlass import durations
from windlass.durations import Duration
from windlass.errors import InvalidArgument, WrongType
from windlass.wheel.ticks import Clock

__all__ = ["Level", "Retention", "levels_of"]

Retention: TypeAlias = 'Literal["keep", "drop"] | int'

_DAY = 86_400
_NAMES = {1: "seconds", 60: "minutes", 3_600: "hours", _DAY: "days", 7 * _DAY: "weeks", 364 * _DAY: "years"}
_TOP = 10  # slots of a rotation where there is no level above: ten years, in the paper
_MOST = 16  # levels


@dataclass(frozen=True)
class Level:
    """One wheel of the hierarchy.

    every       the length of a slot
    keep        "keep": all slots; "drop": those of one rotation, as the paper's wheels; n: the last n
    prefix      also keep sums of all slots up to each, so that any range of slots is one ⊖ (invertible aggregates)
    compressed  slots that are old enough are packed into few bits
    """

    every: Duration
    keep: Retention = "keep"
    prefix: bool = False
    compressed: bool = False
    ticks: int = 0  # a slot, in ticks
    rotation: int = _TOP  # slots until the level above gets one
    name: str = ""

    @property
    def limit(self) -> int:
        """How many slots are kept; -1: all."""
        if self.keep == "keep":
            return -1
        return self.rotation if self.keep == "drop" else int(self.keep)


def levels_of(
    given: Sequence[Level | Duration] | None,
    clock: Clock,
    retention: Retention | Mapping[Any, Retention],
    prefix: bool,
    compressed: bool,
) -> tuple[Level, ...]:
    """The levels as users gave them, or the paper's, checked and with their sizes in ticks."""
    defaults = Level(1, prefix=prefix, compressed=compressed)
    found = _default(clock) if given is None else list(given)
    levels = [level if isinstance(level, Level) else replace(defaults, every=level) for level in found]
    if not 1 <= len(levels) <= _MOST:
        raise InvalidArgument(f"a wheel has 1 to {_MOST} levels, got {len(levels)}")
    sized = [replace(level, ticks=clock.length("a level of", level.every)) for level in levels]
    if sized[0].ticks != 1:
        raise InvalidArgument(f"the lowest level has slots of one tick, {clock.span(1)}, not of {levels[0].every!r}")
    for k, level in enumerate(sized):
        if k + 1 < len(sized):
            above = sized[k + 1].ticks
            if above <= level.ticks or above % level.ticks:
                raise InvalidArgument(
                    f"a level of {clock.span(above)} is not a multiple of the level below it, {clock.span(level.ticks)}"
                )
            level = replace(level, rotation=above // level.ticks)
        sized[k] = replace(level, name=_name(level, clock))
    if isinstance(retention, Mapping):
        unknown = [e for e in retention if clock.length("retention of a level of", e) not in [v.ticks for v in sized]]
        if unknown:
            raise InvalidArgument(f"retention names {unknown[0]!r}, but there is no level of that length")
    kept = [replace(level, keep=_keep(level, retention, clock)) for level in sized]
    for level in kept:
        if level.prefix and level.compressed:
            raise InvalidArgument(f"the level of {level.name} cannot be compressed and have prefixes: choose one")
    return tuple(kept)


def _default(clock: Clock) -> list[Duration]:
    """The tick, and those of the paper's slots that are multiples of it."""
    scale = durations.UNITS["s"] // durations.UNITS[clock.unit]
    sizes = [clock.tick, *(s * scale for s in _NAMES if s * scale > clock.tick and s * scale % clock.tick == 0)]
    return list(sizes) if clock.plain else [durations.format(size, clock.unit) for size in sizes]


def _name(level: Level, clock: Clock) -> str:
    seconds, rest = divmod(level.ticks * clock.tick * durations.UNITS[clock.unit], durations.UNITS["s"])
    return _NAMES[seconds] if rest == 0 and seconds in _NAMES else clock.span(level.ticks)


def _keep(level: Level, retention: Any, clock: Clock) -> Retention:
    keep: Any = level.keep
    if isinstance(retention, Mapping):
        sizes = {clock.length("retention of a level of", every): policy for every, policy in retention.items()}
        keep = sizes.get(level.ticks, keep)
    elif keep == "keep":
        keep = retention
    if isinstance(keep, str):
        if keep not in ("keep", "drop"):
            raise InvalidArgument(f"retention is 'keep', 'drop' or a number of slots, got {keep!r}")
    elif isinstance(keep, bool) or not isinstance(keep, int | np.integer):
        raise WrongType(f"retention is 'keep', 'drop' or a number of slots, got {keep!r}")
    elif keep < 1:
        raise InvalidArgument(f"a level keeps at least one slot, got {keep}")
    found: Retention = keep if isinstance(keep, str) else int(keep)  # type: ignore[assignment]
    return found
