"""The keys of a wheel: values of any hashable type, each with a place in the vector that every slot is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import column
from windlass.durations import INT64_MAX, INT64_MIN
from windlass.errors import InvalidArgument, UnknownColumn, WrongType

Array = np.ndarray[Any, Any]


class Keys:
    """Key values and their places, in the order in which they came."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.places: dict[Any, int] = {}
        self.kind: type | None = None  # of all keys
        for value in values:
            self.places.setdefault(value, len(self.places))
            self.kind = type(value)

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Any:
        return iter(self.places)

    def accepts(self, key: Any) -> bool:
        """Whether `encode` certainly accepts this key. If False, it may still accept it."""
        kind = type(key)
        if kind is not self.kind:
            return False
        if kind is int:
            return bool(INT64_MIN <= key <= INT64_MAX)
        return kind is bytes or (kind is str and key.isascii()) or key in self.places

    def encode(self, data: Any, n: int) -> tuple[Array, list[Any]]:
        """The places of a column of keys, and the keys among them that are new: these count on from the last."""
        read = column(data)
        if len(read) != n:
            raise InvalidArgument(f"there are {len(read)} keys for {n} events; give one for each")
        if read.valid is not None:
            raise InvalidArgument(f"the key in row {int(np.argmin(read.valid))} is null; every event needs a key")
        if read.values.dtype == np.float64:
            raise WrongType("keys cannot be floats: equal keys must be equal bit by bit; give integers or text")
        try:
            distinct, inverse = _distinct(read.values)
        except MemoryError:  # Arrow's is an ArrowException, too
            raise
        except (pa.ArrowException, NotImplementedError) as error:
            raise WrongType(
                f"keys are integers, text, bytes or booleans, got values of {read.type}: {error}"
            ) from error
        kind = type(distinct[0]) if distinct else self.kind
        if self.kind is not None and kind is not self.kind:
            raise WrongType(f"the keys of this wheel are of type {self.kind.__name__}, got {kind.__name__}")  # type: ignore[union-attr]
        new: list[Any] = []
        places = np.empty(len(distinct), np.int64)
        for i, value in enumerate(distinct):
            place = self.places.get(value)
            if place is None:
                place = len(self.places) + len(new)
                new.append(value)
            places[i] = place
        return places[inverse], new

    def add(self, new: list[Any]) -> None:
        for key in new:
            self.places[key] = len(self.places)
            self.kind = type(key)

    def place(self, key: Any) -> int:
        found = self.places.get(key)
        if found is None:
            raise UnknownColumn(f"there is no key {key!r}; the wheel has {len(self)} keys")
        return found

    def to_arrow(self) -> pa.Array:
        if self.kind is tuple:  # of several columns, whose types may differ
            return pa.array([{str(i): part for i, part in enumerate(key)} for key in self.places])
        return pa.array(list(self.places))


def _distinct(values: Array) -> tuple[list[Any], Array]:
    if values.dtype == object:
        encoded = pa.array(values.tolist()).dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    if len(values) and values.dtype != np.bool_:
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + 1024:  # a table of them is smaller than sorting
            shifted = (values - low).astype(np.int64)
            present = np.zeros(high - low + 1, np.bool_)
            present[shifted] = True
            rank = np.cumsum(present) - 1
            return (np.flatnonzero(present) + low).tolist(), rank[shifted]
    distinct, inverse = np.unique(values, return_inverse=True)
    return distinct.tolist(), inverse
