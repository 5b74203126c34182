"""The answers of an ACQ from the definition alone: no code of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Rows = list[tuple[int, int, Any]]


def windows(
    length: int, slide: int, offset: int, ts: Sequence[int], values: Sequence[Any], fold: Callable[[list[Any]], Any]
) -> Rows:
    """(start, end, value) of every window [offset + k·slide, … + length) that has an event, in the order of ends."""
    found: Rows = []
    if not ts:
        return found
    start = offset + (ts[0] - offset - length) // slide * slide
    while start <= ts[-1]:
        inside = [v for t, v in zip(ts, values, strict=True) if start <= t < start + length]
        if inside:
            found.append((start, start + length, fold(inside)))
        start += slide
    return found
