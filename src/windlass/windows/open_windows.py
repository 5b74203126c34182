"""Where a discretizer keeps the windows that have begun and are not complete.

`OneOpen` is for types whose windows do not overlap: the open window of a key is in its context. `ManyOpen` is for types
whose windows do, and end in the order in which they began: those of a key are a queue, which between runs rests in
the carry. While a kernel works on a key, the queue is the rows head:tail of the new carry:

    new carry   | keys that are done |  ended  |  head … tail  |  room  |
                                     base
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.windows.window import FOREVER, Array, Discretizer

# The words of a context with one open window: whether there is one, its positions and its times so far.
OPEN, FIRST, STOP, START, LAST = range(5)


class OneOpen(Discretizer):
    """At most one open window a key."""

    width = 5

    def open_from(self, context: Array, carry: Array) -> Array:
        return np.where(context[:, OPEN] != 0, context[:, FIRST], FOREVER)


class ManyOpen(Discretizer):
    """Any number of open windows a key, each a row (key, position of its first event, start) of the carry.

    Where several may begin with one event, the row also has its twin: how many of them had begun before.
    """

    carried = 2

    def open_windows(self, context: Array, carry: Array) -> tuple[Array, Array, Array]:
        twin = carry[:, 3] if self.carried > 2 else np.zeros(len(carry), np.int64)
        return carry[:, 0], carry[:, 1], twin

    def open_from(self, context: Array, carry: Array) -> Array:
        oldest = np.full(len(context), FOREVER)
        oldest[carry[::-1, 0]] = carry[::-1, 1]  # of several rows of a key the last one assigned stays: the oldest
        return oldest


def take_up(carry: Any, c: Any, key: Any, queue: Any, base: Any) -> Any:
    """Copy the rows of a key, the first of which is row c of the carry, to the queue. Returns the row after them, and
    the tail."""
    tail = base
    while c < len(carry) and carry[c, 0] == key:
        _move(carry, c, queue, tail)
        tail += 1
        c += 1
    return c, tail


def begin(queue: Any, tail: Any, key: Any, first: Any, start: Any) -> Any:
    """A window begins. Returns the new tail."""
    queue[tail, 0] = key
    queue[tail, 1] = first
    queue[tail, 2] = start
    return tail + 1


def put_down(queue: Any, base: Any, head: Any, tail: Any) -> Any:
    """Leave no room in front of the rows that are still open. Returns where the next key's queue begins."""
    for i in range(head, tail):
        _move(queue, i, queue, base)
        base += 1
    return base


def _move(rows: Any, i: Any, to: Any, j: Any) -> Any:
    for field in range(to.shape[1]):
        to[j, field] = rows[i, field]
