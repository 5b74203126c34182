"""Events as the operator holds them: plain columns of equal length, one entry an event.

`key` (id) and `ts` are always there; `seq` (what orders events of one time) unless they come in that order, and
`arrival` (a number of its own for each event) where events are kept; the rest are the columns that aggregates and
windows read, `valid` masks where a value may be null, and the masks of predicates, which are evaluated once, when an
event arrives.

Slices that were cut elsewhere look the same: `ts` is the time of the first event, `last` of the last, and there are
`partials` (by lift) in place of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns
from windlass.slicing.sorting import order_of
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]


@dataclass
class Tuples(Stateful):
    key: Array
    ts: Array
    seq: Array
    arrival: Array
    columns: dict[str, Array] = field(default_factory=dict)
    valid: dict[str, Array] = field(default_factory=dict)  # only of columns that have held a null
    masks: list[Array] = field(default_factory=list)
    last: Array | None = None
    partials: list[Columns] = field(default_factory=list)
    ascending: bool = False  # whether their times are known to

    def __len__(self) -> int:
        return len(self.ts)

    def without_order(self) -> Tuples:
        """The same events, once it no longer matters how they compare: without `seq` and `arrival`."""
        none = np.empty(0, np.int64)
        return replace(self, seq=none, arrival=none)

    def take(self, rows: Array | slice) -> Tuples:
        return Tuples(
            self.key[rows],
            self.ts[rows],
            self.seq[rows] if len(self.seq) else self.seq,
            self.arrival[rows] if len(self.arrival) else self.arrival,
            {name: values[rows] for name, values in self.columns.items()},
            {name: values[rows] for name, values in self.valid.items()},
            [mask[rows] for mask in self.masks],
            None if self.last is None else self.last[rows],
            [tuple(column[rows] for column in columns) for columns in self.partials],
        )

    def renumbered(self, kept: Array) -> Tuples:
        """The same events, once key kept[i] is key i; they are of these keys only."""
        return replace(self, key=np.searchsorted(kept, self.key))

    def order(self, keys: int) -> Array | None:
        """The order by key, and each key's by (ts, seq); None if that is the order they are in."""
        if self.ascending and keys == 1 and len(self.seq) == 0:
            return None
        return order_of(self.key, self.ts, self.seq, keys)

    @property
    def nbytes(self) -> int:
        held = [self.key, self.ts, self.seq, self.arrival, *self.columns.values(), *self.valid.values(), *self.masks]
        return sum(array.nbytes for array in held)

    @classmethod
    def concat(cls, parts: Sequence[Tuples]) -> Tuples:
        if len(parts) == 1:
            return parts[0]
        nullable = {name for part in parts for name in part.valid}
        return cls(
            np.concatenate([p.key for p in parts]),
            np.concatenate([p.ts for p in parts]),
            np.concatenate([p.seq for p in parts]),
            np.concatenate([p.arrival for p in parts]),
            {name: np.concatenate([p.columns[name] for p in parts]) for name in parts[0].columns},
            {
                name: np.concatenate([p.valid.get(name, np.ones(len(p), np.bool_)) for p in parts])
                for name in sorted(nullable)
            },
            [np.concatenate([p.masks[i] for p in parts]) for i in range(len(parts[0].masks))],
            None if parts[0].last is None else np.concatenate([p.last for p in parts if p.last is not None]),
            [_joined([p.partials[i] for p in parts]) for i in range(len(parts[0].partials))],
        )

    def copy(self) -> Tuples:
        """The same events in memory of their own."""
        return Tuples(
            self.key,
            self.ts.copy(),
            self.seq.copy(),
            self.arrival,
            {name: values.copy() for name, values in self.columns.items()},
            {name: values.copy() for name, values in self.valid.items()},
            [mask.copy() for mask in self.masks],
        )


def _joined(parts: Sequence[Columns]) -> Columns:
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
