"""Undo for interpreted steps: a user's own function may raise halfway through, and then nothing must have changed."""

from __future__ import annotations

from typing import Any

import numpy as np


class Journal:
    """Hands out stand-ins for arrays that note every change, so that the changes can be taken back."""

    def __init__(self) -> None:
        self._changes: list[tuple[np.ndarray[Any, Any], int, Any]] = []

    def noting(self, state: Any) -> Any:
        """The same nested tuples with a stand-in for every array."""
        if isinstance(state, tuple):
            return tuple(self.noting(part) for part in state)
        return _Noted(state, self._changes)

    def undo(self) -> None:
        for array, i, before in reversed(self._changes):
            array[i] = before


class _Noted:
    def __init__(self, array: np.ndarray[Any, Any], changes: list[tuple[np.ndarray[Any, Any], int, Any]]) -> None:
        self._array, self._changes = array, changes

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, i: int) -> Any:
        return self._array[i]

    def __setitem__(self, i: int, value: Any) -> None:
        before = self._array[i]
        self._changes.append((self._array, i, before.copy() if self._array.ndim > 1 else before))
        self._array[i] = value
