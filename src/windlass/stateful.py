"""Objects that change, and how they are copied.

A class says that its objects change by deriving from `Stateful`. A copy of one has copies of its arrays, lists, dicts,
sets and other stateful objects; all else never changes and is shared.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

__all__ = ["Stateful", "copied"]

T = TypeVar("T")


class Stateful:
    """An object whose copies share no state with it."""

    __slots__ = ()


def copied(value: T, memo: dict[int, Any] | None = None) -> T:
    """The same state in memory of its own. `memo` holds, by id, what is known already: copies, or what is shared."""
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]  # type: ignore[no-any-return]
    made: Any = value
    if isinstance(value, np.ndarray):
        made = value.copy()
    elif type(value) in (list, tuple):
        made = type(value)(copied(item, memo) for item in value)  # type: ignore[attr-defined, call-arg]
    elif isinstance(value, dict):
        made = {key: copied(item, memo) for key, item in value.items()}
    elif isinstance(value, set):
        made = set(value)
    elif isinstance(value, Stateful):
        made = memo[id(value)] = object.__new__(type(value))
        for name, item in vars(value).items():
            object.__setattr__(made, name, copied(item, memo))
    memo[id(value)] = made
    return made  # type: ignore[no-any-return]
