"""Checks of the parameters of aggregates, with one wording for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.errors import InvalidArgument


def number(name: str, value: Any, least: float, most: float, *, ends: bool = True) -> float:
    """A number from `least` to `most`; without the ends, strictly between them."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if is_number and (least < value < most or (ends and value in (least, most))):
        return float(value)
    wanted = f"from {least:g} to {most:g}" if ends else f"between {least:g} and {most:g}"
    raise InvalidArgument(f"{name} must be a number {wanted}, got {value!r}")


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """An integer from `least` to `most`."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_integer and least <= value and (most is None or value <= most):
        return int(value)
    wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise InvalidArgument(f"{name} must be an integer {wanted}, got {value!r}")
