"""User-defined windows: a function says, event by event, what begins and ends (Cutty 3.2).

`Deterministic` windows know at an event whether a window begins with it. That is enough to slice at beginnings only:

    event     1   2   3   4   5   6
    begins    1   0   1   0   0   0
    ends      0   0   0   0   1   1       before the event; the oldest that are open
              |───────────────|
                      |───────────|

`NonDeterministic` windows only know, after an event, how many of the oldest events have expired and whether the
rest is a window now, so each event has to be kept by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from windlass.kernels import compiled
from windlass.windows.edges import TWIN, emit, later, room
from windlass.windows.open_windows import ManyOpen, begin, put_down, take_up
from windlass.windows.parameters import column_names, function
from windlass.windows.steps import Number, Steps, state_types
from windlass.windows.window import FOREVER, UNKNOWN, Array, Context, Discretizer, Run, Window, Windows

__all__ = ["Deterministic", "NonDeterministic"]


class _UserDefined(Window):
    """A step function, the columns it reads and the state it begins with."""

    has_ordinals: ClassVar[bool] = True

    step: Callable[..., Any]
    columns: tuple[str, ...]
    state: tuple[Number, ...]

    def __post_init__(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "step", function(f"the step of {name}", self.step))
        object.__setattr__(self, "columns", column_names(name, self.columns))
        object.__setattr__(self, "types", state_types(name, self.state))


@dataclass(frozen=True, repr=False)
class Deterministic(_UserDefined):
    """`step(state, ts, *values) -> (state, begins, ends)`: the `ends` oldest open windows (all, if there are fewer) end
    before the event, then `begins` windows begin with it.

    Count windows of 10 events, a new one every 3 (Cutty 3.2):

        def step(state, ts):
            k = state[0]
            return (k + 1,), k % 3 == 0, (k - 10) % 3 == 0 and k >= 10
    """

    context: ClassVar[Context] = "FCF"
    can_fail: ClassVar[bool] = True

    step: Callable[..., Any]
    columns: tuple[str, ...] = ()
    state: tuple[Number, ...] = (0,)
    types: tuple[str, ...] = field(init=False, repr=False, default=())  # 0 and 0.0 are equal, but not the same state

    def bind(self, unit: str | None) -> Marked:
        return Marked(Steps(self, self.step, self.state, ("begins", "ends"), least=0))


@dataclass(frozen=True, repr=False)
class NonDeterministic(_UserDefined):
    """`step(state, ts, *values) -> (state, evict, emit)`: the event joins, then the `evict` oldest events (all, if
    there are fewer) leave, then, if `emit`, those that are left are a window.

    The last 10 events each time the price has doubled:

        def step(state, ts, price):
            kept, reference = state
            emit = price >= 2 * reference
            evict = max(kept + 1 - 10, 0)
            return (kept + 1 - evict, price if emit else reference), evict, emit
    """

    context: ClassVar[Context] = "FCA"
    can_fail: ClassVar[bool] = True

    step: Callable[..., Any]
    columns: tuple[str, ...] = ()
    state: tuple[Number, ...] = (0,)
    types: tuple[str, ...] = field(init=False, repr=False, default=())

    @property
    def looks_back(self) -> bool:
        return True  # it may keep events for as long as it likes

    def bind(self, unit: str | None) -> Evicting:
        return Evicting(Steps(self, self.step, self.state, ("evict", "emit"), least=0))


# The context of a key: the position after its last event; whether there was one; its time. `Evicting` adds how many
# events are kept, and whether they were emitted just as they are. Then comes the user's state.
_STOP, _SEEN, _LAST, _KEPT, _EMITTED = range(5)


class Marked(ManyOpen):
    """Windows between the beginnings and ends that a step function marks."""

    carried = 3

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.width = 3 + len(steps.state)

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        begins, ends = self.steps.take(run, context, _SEEN, 3)
        most = len(carry) + int(begins.sum())
        queue, found = np.empty((most, 4), np.int64), room(most, twins=True)
        events = run.keys, run.offsets, run.first, run.ts, begins, ends
        n, left = _marked_kernel()(run.partial, events, context, carry, queue, found)
        return begins > 0, Windows.of(found[:, :n]), queue[:left]

    def describe(self) -> str:
        return self.steps.describe()


class Evicting(Discretizer):
    """The events that a step function keeps, whenever it says so."""

    splits = True
    closes_by = "last"

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.width = 5 + len(steps.state)

    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        evict, emits = self.steps.take(run, context, _SEEN, 5)
        found = room(int(np.count_nonzero(emits)) + (len(context) if run.partial else 0), twins=True)
        events = run.keys, run.offsets, run.first, run.ts, evict, emits
        n = _kept_kernel()(run.partial, events, context, found)
        return np.zeros(len(run.ts), np.bool_), Windows.of(found[:, :n]), carry

    def open_from(self, context: Array, carry: Array) -> Array:
        return np.where(context[:, _KEPT] > 0, context[:, _STOP] - context[:, _KEPT], FOREVER)

    def describe(self) -> str:
        return self.steps.describe()


def _find_marked(partial: Any, events: Any, context: Any, carry: Any, queue: Any, found: Any) -> Any:
    keys, offsets, positions, ts, begins, ends = events
    n = r = c = base = 0
    for key in range(len(context)):
        c, tail = take_up(carry, c, key, queue, base)
        head = base
        if r < len(keys) and keys[r] == key:
            stop = context[key, _STOP]
            for i in range(offsets[r], offsets[r + 1]):
                at = positions[r] + i - offsets[r]
                for _ in range(min(ends[i], tail - head)):
                    found[TWIN, n] = queue[head, 3]
                    n = emit(found, n, key, queue[head, 1], stop, queue[head, 2], ts[i])
                    head += 1
                for twin in range(begins[i]):
                    queue[tail, 3] = twin
                    tail = begin(queue, tail, key, at, ts[i])
                stop = at + 1
            context[key, _STOP], context[key, _SEEN], context[key, _LAST] = stop, 1, ts[offsets[r + 1] - 1]
            r += 1
        if partial:
            for w in range(head, tail):
                found[TWIN, n] = queue[w, 3]
                n = emit(found, n, key, queue[w, 1], context[key, _STOP], queue[w, 2], later(context[key, _LAST], 1))
        base = put_down(queue, base, head, tail)
    return n, base


def _find_kept(partial: Any, events: Any, context: Any, found: Any) -> Any:
    keys, offsets, positions, ts, evict, emits = events
    n = r = 0
    for key in range(len(context)):
        if r < len(keys) and keys[r] == key:
            stop, kept, emitted = positions[r], context[key, _KEPT], 0
            for i in range(offsets[r], offsets[r + 1]):
                stop += 1
                kept = max(kept + 1 - evict[i], 0)
                emitted = 0
                if emits[i] and kept > 0:
                    found[TWIN, n] = 0
                    n = emit(found, n, key, stop - kept, stop, UNKNOWN, later(ts[i], 1))
                    emitted = 1
            context[key, _STOP], context[key, _SEEN], context[key, _LAST] = stop, 1, ts[offsets[r + 1] - 1]
            context[key, _KEPT], context[key, _EMITTED] = kept, emitted
            r += 1
        if partial and context[key, _KEPT] > 0 and not context[key, _EMITTED]:
            stop = context[key, _STOP]
            found[TWIN, n] = 1  # it follows a window that came out with the same event
            n = emit(found, n, key, stop - context[key, _KEPT], stop, UNKNOWN, later(context[key, _LAST], 1))
    return n


@cache
def _marked_kernel() -> Callable[..., Any]:
    return compiled(_find_marked)


@cache
def _kept_kernel() -> Callable[..., Any]:
    return compiled(_find_kept)
