"""Integer operations that have an instruction of their own; interpreted, they are what Python has for them."""

from __future__ import annotations

from typing import Any


def unsigned(i: Any) -> Any:
    """An index that is never negative. Compiled, it is a uint64, for which numba leaves out the test for counting from
    the end, a shift and a mask at every access; interpreted, it is the index itself."""
    return i


def lowest_bit(i: Any) -> Any:
    """The position of the lowest bit that is set; i > 0."""
    return int(i & -i).bit_length() - 1


def highest_bit(i: Any) -> Any:
    """The position of the highest bit that is set; i > 0."""
    return int(i).bit_length() - 1
