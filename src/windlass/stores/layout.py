"""How the state of a store lies in memory: a few arrays for the kernels, laid out anew to grow, shrink and be saved.

    header    the integers of the technique's state; head and size come first
    running   partials beside the ring, such as the total of subtract-on-evict
    ring      the partials of the window, one array a field
    links     integers beside the ring, such as FlatFIT's pointers

`live` gives what is alive, oldest first and without regard to where the ring begins; `lay_out` puts that into fresh
arrays. Growing, shrinking, snapshot and restore are all made of these two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.stores.rounds import Technique

Integers = np.ndarray[Any, Any]


class Layout:
    """The arrays of one store. Techniques override what differs from a plain ring."""

    integers: tuple[str, ...] = ("head", "size")
    running: tuple[str, ...] = ()

    aggregate: Aggregate
    _monoid: Monoid | None = None
    _capacity: int = 0
    _header: Integers
    _running: Columns
    _ring: Columns
    _links: Integers

    @staticmethod
    def technique(m: Monoid) -> Technique:
        """The algorithm, closed over the functions of the monoid."""
        raise NotImplementedError

    def _technique(self) -> Callable[[Monoid], Technique]:
        return type(self).technique

    def __len__(self) -> int:
        return int(self._header[1]) if self._monoid is not None else 0

    @property
    def capacity(self) -> int:
        """For how many events there is room before the arrays have to grow."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Bytes of state: partials, links and header."""
        if self._monoid is None:
            return 0
        return sum(array.nbytes for array in (*self._ring, *self._running, self._links, self._header))

    @property
    def _bound(self) -> Monoid:
        assert self._monoid is not None
        return self._monoid

    def _install(self, monoid: Monoid, capacity: int) -> None:
        """Empty arrays for the partials of this monoid."""
        self._capacity = self._round_capacity(capacity)
        self._ring = self._allocate(monoid, self._capacity)
        self._links = self._links_for(self._capacity)
        self._running = cleared(monoid, self._running_slots())
        self._header = np.zeros(len(self.integers), np.int64)
        self._monoid = monoid

    # What a technique may do in its own way.

    def _round_capacity(self, capacity: int) -> int:
        return max(1, capacity)

    def _allocate(self, monoid: Monoid, capacity: int) -> Columns:
        return monoid.allocate(capacity)

    def _links_for(self, capacity: int) -> Integers:
        return np.zeros(0, np.int64)

    def _running_slots(self) -> int:
        return max(1, len(self.running))

    def live(self) -> tuple[Columns, Integers]:
        """What is alive of ring and links, oldest first."""
        order = (int(self._header[0]) + np.arange(len(self))) % self._capacity
        return tuple(column[order] for column in self._ring), np.zeros(0, np.int64)

    def live_header(self) -> Integers:
        """The integers as `lay_out` leaves them."""
        return np.array([0, *self._header[1:]], np.int64)

    def live_slots(self) -> int:
        """How many partials `live` gives, told by the header alone."""
        return len(self)

    def lay_out(self, columns: Columns, links: Integers, capacity: int) -> None:
        """Put what `live` gave into fresh arrays with room for `capacity` events."""
        self._capacity = self._round_capacity(capacity)
        self._ring = self._allocate(self._bound, self._capacity)
        for new, alive in zip(self._ring, columns, strict=True):
            new[: len(alive)] = alive
        self._links = self._links_for(self._capacity)
        self._header = self.live_header()

    def _reserve(self, capacity: int) -> None:
        self.lay_out(*self.live(), max(capacity, len(self)))

    def check_structure(self) -> None:
        """Assert that sizes and positions are possible, whatever the partials are. Cheap; runs on every restore."""
        assert 0 <= int(self._header[0]) < self._capacity, "head"
        assert 0 <= len(self) <= self._capacity, "size"

    def check_invariants(self) -> None:
        """Assert the numbered invariants of the technique's card. Costs O(n) and more; for tests."""
        if self._monoid is not None:
            self.check_structure()

    def options(self) -> dict[str, Any]:
        """What the constructor was told beyond the aggregate and its types, for the snapshot."""
        return {}

    def set_options(self, options: dict[str, Any]) -> None:
        pass


def cleared(monoid: Monoid, slots: int) -> Columns:
    """Columns full of the identity."""
    columns = monoid.allocate(slots)
    for column, value in zip(columns, monoid.identity(), strict=True):
        if column.ndim > 1:
            column[:] = value
        else:
            column.fill(value)
    return columns


def same(a: Any, b: Any) -> bool:
    """Whether two partials are equal, NaN being equal to itself and floats up to rounding; for checks of invariants."""
    return all(_equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(_equal(i, j) for i, j in zip(x, y, strict=True))
    if isinstance(x, np.ndarray):
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
    return bool(x == y) or (x != x and y != y) or (isinstance(x, float) and bool(np.isclose(x, y, rtol=1e-9)))
