"""Following a schedule: partials come one by one, and each has a list of ranges to answer before the next one comes.

    partials   0   1   2   3   4 …        due (after so many partials)    2  2  4
                       │       │          size (the youngest so many)     1  2  4
                     answers  answers     row (where the answer goes)     0  7  1

It is what a tree of a shared plan does: `slide` answers all windows at every event, a schedule each at its own
edges. Partials come ready made and answers go out as partials, so one kernel serves any way of lifting and lowering.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.stores.layout import Integers
from windlass.stores.rounds import Parts
from windlass.stores.store import Store

__all__ = ["Schedule", "follow", "store_for"]


class Schedule(NamedTuple):
    """What to answer when. `due` does not decrease; positions count all partials that ever came."""

    due: Integers  # how many partials have come
    size: Integers  # how many of the youngest are asked for; at least one
    row: Integers  # where the answer goes


def store_for(technique: type[Store], aggregate: Aggregate, monoid: Monoid) -> Store:
    """An empty store over partials of this monoid."""
    store = technique(aggregate)
    store._install(monoid, 0)
    return store


def follow(store: Store, partials: Columns, first: int, oldest: Integers, schedule: Schedule, out: Columns) -> None:
    """Take partials (`first` of all is partials[0]) and answer into the rows of `out`. Before partial i is taken, those
    older than oldest[i] are evicted."""
    n = len(oldest)
    if n and store.capacity < (most := int((first + np.arange(1, n + 1) - oldest).max())):
        store._reserve(max(most, 2 * store.capacity))
    kernel = _suffixes if store.answers_ranges else _whole_windows
    done = 0
    while True:
        place = np.array([done, np.searchsorted(schedule.due, first + done, "right") if done else 0], np.int64)
        done = int(store._call(kernel, partials, first, oldest, schedule, out, place, bulk=n > 1))
        if done == n:
            return
        store._make_room()


def _suffixes(p: Parts) -> Any:
    """For a store that answers for any of its youngest partials."""
    insert, evict, _, suffix, room, _ = p.technique
    begin, end, load, store = p.begin, p.end, p.load, p.store
    assert suffix is not None

    def follow_suffixes(state: Any, partials: Any, first: Any, oldest: Any, schedule: Any, out: Any, place: Any) -> Any:
        header, slots, ring, links = state
        due, size, row = schedule
        j, a = place[0], place[1]
        h = begin(header, slots)
        while a < len(due) and due[a] <= first + j:
            store(out, row[a], suffix(ring, links, h, 0, size[a]))
            a += 1
        while j < len(oldest):
            while h[1] > 0 and first + j - h[1] < oldest[j]:
                h = evict(ring, links, h)
            if not room(ring, links, h):
                break
            h = insert(ring, links, h, load(partials, j))
            j += 1
            while a < len(due) and due[a] == first + j:
                store(out, row[a], suffix(ring, links, h, 0, size[a]))
                a += 1
        end(header, slots, h)
        return j

    return follow_suffixes


def _whole_windows(p: Parts) -> Any:
    """For a store that answers for its whole window: it holds what was asked for last."""
    insert, evict, query, _, room, _ = p.technique
    begin, end, load, store = p.begin, p.end, p.load, p.store

    def follow_windows(state: Any, partials: Any, first: Any, oldest: Any, schedule: Any, out: Any, place: Any) -> Any:
        header, slots, ring, links = state
        due, size, row = schedule
        j, a = place[0], place[1]
        h = begin(header, slots)
        while a < len(due) and due[a] <= first + j:
            while h[1] > size[a]:
                h = evict(ring, links, h)
            store(out, row[a], query(ring, links, h))
            a += 1
        while j < len(oldest):
            while h[1] > 0 and first + j - h[1] < oldest[j]:
                h = evict(ring, links, h)
            if not room(ring, links, h):
                break
            h = insert(ring, links, h, load(partials, j))
            j += 1
            while a < len(due) and due[a] == first + j:
                while h[1] > size[a]:
                    h = evict(ring, links, h)
                store(out, row[a], query(ring, links, h))
                a += 1
        end(header, slots, h)
        return j

    return follow_windows
