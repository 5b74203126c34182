"""What a window is, before and after it meets a stream.

A `Window` is what users write: a value that is checked when it is made and knows nothing about a stream. `bind` turns
it into what the operator runs, with every duration in the stream's unit:

    Window ──bind(unit)──► Periodic       edges that do not depend on the data: arithmetic
                           Discretizer    edges found in the events, in order (Cutty 5.1)

A discretizer reads *runs*: events in order, of many keys at once. It keeps what it has to remember in two tables that
belong to the operator, so a key is rewound by putting its rows back:

    context   one row of `width` words a key; a row of zeros is a key without events
    carry     any number of rows (key, …) a key, sorted by key, and among those of a key oldest first: open windows

Whatever it finds depends on the events and the watermarks only, not on how they were cut into runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from windlass.errors import WrongType

if TYPE_CHECKING:
    from windlass.windows.predicate import Predicate

__all__ = ["FOREVER", "UNKNOWN", "Bound", "Context", "Discretizer", "Periodic", "Run", "Window", "Windows"]

Array: TypeAlias = "np.ndarray[Any, Any]"

# Context free, forward context free, forward context aware (Scotty 4.4).
Context: TypeAlias = Literal["CF", "FCF", "FCA"]

FOREVER = 2**63 - 1  # as a watermark: the stream is over; as a position: no event
UNKNOWN = -(2**63)  # as a bound: the time of the window's first event, which whoever keeps the events knows


class Window(ABC):
    """A window specification. Specifications are immutable, and equal if they say the same; functions by identity."""

    context: ClassVar[Context]
    can_fail: ClassVar[bool] = False  # it calls a function of the user's, which may raise
    is_session: ClassVar[bool] = False  # context aware, yet events never force a slice to be split (Scotty 5.1)
    measure: str = "time"  # "time", "count" or the name of a column that does not decrease
    predicate: Predicate | None = None  # the condition on events that it depends on
    has_ordinals: ClassVar[bool] = False  # windows of a key may have equal bounds; the ordinal distinguishes them

    @property
    def looks_back(self) -> bool:
        """Whether a window may come to hold events older than the first one that a late event is accepted after."""
        return self.is_session

    @abstractmethod
    def bind(self, unit: str | None) -> Bound:
        """What to run on a stream whose time is counted in `unit` ("s", "ms", "us", "ns"; None: plain integers)."""

    def refuse_plain(self) -> None:
        """Refuse positive integers as lengths over timestamps, because their unit is unclear."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        lengths = {f.name for f in fields(self) if f.type == "Duration"}  # type: ignore[arg-type]
        plain = {name: n for name, n in given.items() if name in lengths and type(n) is int and n > 0}
        if self.measure != "time" or not plain:
            return
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            name = field.name
            if repr(given[name]) != repr(field.default):
                text = repr(f"{plain[name]}s" if name in plain else given[name])
                shown.append(f"{name}={text}" if field.kw_only else text)
        name, n = next(iter(plain.items()))
        raise WrongType(
            f"`{name}` of {self!r} is the plain integer {n}, but times are timestamps: for seconds write "
            f"{type(self).__name__}({', '.join(shown)}), or give a timedelta; microseconds are '{n}us'"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns it reads, besides those of its predicate."""
        return () if self.measure in ("time", "count") else (self.measure,)

    def __repr__(self) -> str:
        """As it would be written: durations in short, what has its default left out."""
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value, default = getattr(self, field.name), field.default
            if not field.repr or repr(value) == repr(default):
                continue
            text = getattr(value, "__name__", None) or (repr(value) if field.name == "measure" else str(value))
            shown.append(text if default is MISSING or default is None else f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Bound(ABC):
    """A window in the unit of a stream: `Periodic` or a `Discretizer`."""

    # Windows of a key close in the order of their end, of their first event, or of their last event.
    closes_by: ClassVar[Literal["begin", "end", "last"]] = "end"

    def joining(self, since: int) -> Bound:
        """The same for a query that is added to a running stream, and sees no event up to `since`. A window that may
        have begun before starts at `since`, so that it is known for a fragment."""
        return self

    @property
    def doubt(self) -> int:
        """For how long after `since` a window may have begun before though its first event is known, or lack one that
        was not seen."""
        return 0

    @property
    def reach(self) -> int:
        """How far behind a key's last event the watermark may still complete one of its windows; 0 if only events
        do."""
        return 0

    @abstractmethod
    def describe(self) -> str:
        """One line for `explain`."""


@dataclass(frozen=True)
class Periodic(Bound):
    """Windows whose edges are known without looking at an event.

    They start at origin + k·period (a period of 0: only at the origin), and one that starts at s ends at s + j·step
    for j = 1 … ends (0: without limit): each of these is a window of its own.

                      period   step    ends
        tumbling      size     size    1          |────|────|────
        sliding       slide    size    1          |──────|
        band          0        size    1             |──────|
        cumulate      size     step    size/step  |─|──|───|────
        landmark      0        slide   0          |─|──|───|──── …    last_only
    """

    origin: int
    period: int
    step: int
    ends: int
    last_only: bool = False  # a window is emitted only if an event fell in its last step
    measure: str = "time"

    @property
    def reach(self) -> int:
        return self.step * max(1, self.ends) if self.measure == "time" else 0

    def describe(self) -> str:
        starts = f"{self.origin} + k·{self.period}" if self.period else f"{self.origin}"
        ends = {0: f"j·{self.step}", 1: f"{self.step}"}.get(self.ends, f"j·{self.step} (j = 1 … {self.ends})")
        return f"[s, s + {ends}) at s = {starts} on {self.measure}"


@dataclass
class Run:
    """Events in order, contiguous per key. The events of a key follow those of its earlier runs; between runs positions
    may be left out, whose events the window does not see."""

    keys: Array  # int64[m]: the ids of the keys that have events here, ascending
    offsets: Array  # int64[m + 1]: key keys[i] has the events offsets[i]:offsets[i + 1], at least one
    first: Array  # int64[m]: the position of the first of them in the key's order, from 0
    ts: Array  # int64[n]
    columns: tuple[Array, ...] = ()  # what the window asked for: its predicate's mask, or its columns
    watermark: int = FOREVER  # no event with ts < watermark is still to come; those of the run have ts <= watermark
    partial: bool = False  # the stream is over, and unfinished windows are wanted
    at: Array | None = None  # int64[n]: the position of each event, where some between them are left out

    @property
    def positions(self) -> Array:
        """Of each event in its key's order."""
        if self.at is not None:
            return self.at
        positions: Array = np.arange(len(self.ts)) + np.repeat(self.first - self.offsets[:-1], np.diff(self.offsets))
        return positions


@dataclass
class Windows:
    """Windows that are complete: those of a key together and in the order of their completion, keys ascending."""

    key: Array
    first: Array  # the window holds the events at positions first:stop of the key's order
    stop: Array
    low: Array  # bounds in the window's own measure, which for all discretizers is time
    high: Array
    start: Array  # bounds in event time; `start` and `low` may be UNKNOWN
    end: Array
    twin: Array | None = None  # how many windows had begun earlier with the same event; None: at most one begins
    failed: Windows | None = None  # runs that ended without being a window

    @classmethod
    def of(cls, found: Array, failed: Windows | None = None) -> Windows:
        """From the rows key, first, stop, start, end (and twin) of a matrix, as the kernels write them."""
        key, first, stop, start, end, *twin = found
        return cls(key, first, stop, start, end, start, end, twin[0] if twin else None, failed)

    def __len__(self) -> int:
        return len(self.key)


class Discretizer(Bound):
    """Finds the windows of one type in runs of events."""

    width: int  # words of context a key
    carried: int = 0  # columns of the carry besides the key; 0: it has no carry
    splits: bool = False  # windows may begin at events it did not mark
    closes_by: ClassVar[Literal["begin", "end", "last"]] = "begin"

    @abstractmethod
    def consume(self, run: Run, context: Array, carry: Array) -> tuple[Array, Windows, Array]:
        """Which events of the run a window begins with, the windows that are now complete, and the new carry.

        `context` (int64[keys, width]) is updated in place, and only if all went well; `carry` (int64[c, 1 + carried])
        is not changed. All keys are looked at: the watermark completes windows of keys without events here. An
        event may be marked without need, if it is not known yet whether a window begins with it.
        """

    @abstractmethod
    def open_from(self, context: Array, carry: Array) -> Array:
        """For each key, the position of the first event of its first window that has begun and is not complete; FOREVER
        if there is none."""

    def open_windows(self, context: Array, carry: Array) -> tuple[Array, Array, Array]:
        """The open windows: the key, the position of the first event, and the twin of each.
        Called only for types whose windows close in the order of their first events."""
        first = self.open_from(context, carry)
        key = np.flatnonzero(first != FOREVER)
        return key, first[key], np.zeros(len(key), np.int64)

    def needed_from(self, context: Array, carry: Array) -> Array:
        """For each key, the position of the first event so far that a window yet to complete may hold; if there is
        none, FOREVER or the position of an event that is still to come. At most `open_from`."""
        return self.open_from(context, carry)

    def no_carry(self) -> Array:
        """The carry of a stream that has not begun."""
        return np.empty((0, 1 + self.carried), np.int64)
