"""Fine-grained windows: a window for every event, ending with it, whatever order the events come in (FiBA 1 and 5.2).

The other windows are coarse: they slide by minutes, and events of a slide share a slice. Here nothing can be shared
between windows, as each begins and ends with other events, so the events themselves are kept, by time, in a tree a key
and aggregate (`windlass.stores.FiBA`), and every event is answered for when it comes: over the last `span` of time, or
the last `window` distinct times, of its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.values import Column, to_arrow
from windlass.errors import InvalidArgument
from windlass.operator.events import Events, Reader
from windlass.stores import FiBA

Array = np.ndarray[Any, Any]


class FineGrained:
    """A window per event.

    `aggregates`: by the names that the answers get. `time` and `key` name columns. One of `span` (a duration) and
    `window` (a number of distinct times) says how far a window reaches back. With a span, an event that comes later
    than that is answered for with the window as it is.
    """

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate],
        *,
        time: str,
        key: str | Sequence[str] = (),
        span: Any = None,
        window: int | None = None,
    ) -> None:
        if not aggregates:
            raise InvalidArgument("give at least one aggregate, such as {'total': agg.sum('price')}")
        if (span is None) == (window is None):
            raise InvalidArgument("a window per event needs one of span= and window=")
        names = (key,) if isinstance(key, str) else tuple(key)
        taken = [name for name in aggregates if name in (time, *names)]
        if taken:
            raise InvalidArgument(f"{taken[0]!r} is a column of the stream; give the aggregate another name")
        for name, aggregate in aggregates.items():
            FiBA(aggregate)
            if any(column is None for column in aggregate.columns):
                raise InvalidArgument(f"{name!r}: {aggregate!r} names no column; write {aggregate.name}('column')")
        if span is not None:
            durations.parse(span)
        self.aggregates, self.span, self.window = dict(aggregates), span, window
        self._reader = Reader(time, names)
        self._stores: dict[Any, dict[str, FiBA]] = {}

    def process(self, batch: Any) -> pa.Table:
        """Take the events of a batch in the order they come. A row an event: its keys, its time, and every answer."""
        columns = list(dict.fromkeys(c for a in self.aggregates.values() for c in a.columns if c is not None))
        events = self._reader.read(batch, columns)
        answers: dict[str, list[pa.Array]] = {name: [] for name in self.aggregates}
        keys, order, ends = _by_key(events)
        for key, rows in zip(keys, np.split(order, ends), strict=len(events) > 0):
            stores = self._stores.get(key) or self._made(events)
            for name, aggregate in self.aggregates.items():
                values = [_taken(events.column(c), rows) for c in aggregate.columns if c is not None]
                given = (values[0] if len(values) == 1 else tuple(values)) if values else np.zeros(len(rows), np.int64)
                found = stores[name].stream(events.ts[rows], given, window=self.window, span=self.span)
                answers[name].append(found if isinstance(found, pa.Array) else pa.array(found))
            self._stores[key] = stores
        self._reader.accept(events)
        back = pa.array(np.argsort(order, kind="stable"))
        given = {name: events.table[name] for name in (*self._reader.key, self._reader.time)}
        return pa.table(given | {name: pa.concat_arrays(parts).take(back) for name, parts in answers.items() if parts})

    def _made(self, events: Events) -> dict[str, FiBA]:
        """Stores for a key, bound to the types of the stream, nulls allowed."""
        return {
            name: FiBA(a, dtype=[events.column(c).type for c in a.columns if c is not None], nullable=True)
            for name, a in self.aggregates.items()
        }

    def __repr__(self) -> str:
        reach = f"span={self.span!r}" if self.span is not None else f"window={self.window}"
        kept = sum(len(next(iter(stores.values()))) for stores in self._stores.values())
        return f"<FineGrained {', '.join(self.aggregates)}, {reach}: {len(self._stores)} keys, {kept} times>"


def _by_key(events: Events) -> tuple[list[Any], Array, Array]:
    """The keys of a batch, its rows key by key in the order they came, and where each key's rows end but the last's."""
    n = len(events)
    if not events.keys or n == 0:
        return ([()] if n else []), np.arange(n), np.zeros(0, np.int64)
    ids, values = np.zeros(n, np.int64), []
    for column in events.keys:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = array.dictionary_encode(null_encoding="encode")
        values.append(encoded.dictionary.to_pylist())
        ids = ids * len(values[-1]) + encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(ids, kind="stable")
    first = np.flatnonzero(np.diff(ids[order], prepend=-1))
    keys = []
    for id_ in ids[order][first].tolist():
        key = []
        for own in reversed(values):
            id_, place = divmod(id_, len(own))
            key.append(own[place])
        keys.append(tuple(reversed(key)))
    return keys, order, first[1:]


def _taken(column: Column, rows: Array) -> pa.Array:
    return to_arrow(column.values[rows], None if column.valid is None else column.valid[rows], column.type.arrow)
