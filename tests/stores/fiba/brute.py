"""Windows by brute force: a dict of times to values. Imports nothing from the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

ANSWERS: dict[str, Callable[[list[int]], Any]] = {
    "collect_list": list,
    "sum": sum,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


def streamed(held: dict[int, list[int]], events: Iterable[tuple[int, int]], window: int, span: int) -> list[list[int]]:
    """The values in the window after each event; `held` is the window before and, in the end, after."""
    answers = []
    if window:
        while len(held) > window:
            del held[min(held)]
    newest = max(held) if held else None
    if span and newest is not None:
        for old in [t for t in held if t <= newest - span]:
            del held[old]
    for t, v in events:
        if window:
            if t not in held and len(held) == window:
                del held[min(held)]
            held[t] = [*held.get(t, []), v]
        elif newest is None or t > newest - span:
            newest = t if newest is None else max(newest, t)
            held[t] = [*held.get(t, []), v]
            for old in [x for x in held if x <= newest - span]:
                del held[old]
        answers.append([value for time in sorted(held) for value in held[time]])
    return answers
