"""What every answer has to be, by definition and by brute force.

Nothing here imports the package it judges, nothing is incremental and nothing is clever: a window is a list of raw
events, oldest first, and each function below computes one answer from that list and from nothing else.

An event is a plain value, or a tuple for aggregates of several columns; None is a null. An event with a null in any
of its columns is skipped. Numbers are ordered with NaN as the greatest, equal to itself. Sums and moments of floats are
computed in exact rational arithmetic and rounded once, so an implementation may differ from them by its own rounding.

The second half says what comes out of a stream: `Stream` is the contract of docs/guide/semantics.md as a program. It
keeps every event, finds all windows anew at each watermark, and compares them with what it has emitted before.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

Window = Sequence[Any]

# --------------------------------------------------------------------------- what is in a window


def is_null(event: Any) -> bool:
    """A null value, or an event of several columns of which one is null."""
    return event is None or (isinstance(event, tuple) and any(part is None for part in event))


def values(window: Window) -> list[Any]:
    """The events that count: those without nulls, in order."""
    return [event for event in window if not is_null(event)]


def is_nan(x: Any) -> bool:
    return isinstance(x, float) and math.isnan(x)


def rank(x: Any) -> tuple[Any, ...]:
    """A sort key under which NaN is the greatest number and equal to itself."""
    return (1,) if is_nan(x) else (0, x)


def wrapped(n: int, bits: int = 64) -> int:
    """An integer as a signed register of that many bits holds it."""
    half = 1 << (bits - 1)
    return (n + half) % (1 << bits) - half


def exact_sum(numbers: Window) -> float:
    """The sum of floats, rounded once. NaN wins, infinities of both signs give NaN, one sign gives that infinity."""
    special = {x for x in map(float, numbers) if math.isinf(x)}
    if any(math.isnan(x) for x in numbers) or len(special) == 2:
        return math.nan
    if special:
        return special.pop()
    return to_float(sum((Fraction(x) for x in numbers), Fraction(0)))


def to_float(x: Fraction) -> float:
    """The nearest float; beyond the greatest one, an infinity."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def magnitude(window: Window) -> float:
    """Σ|x| over the finite values: what the rounding of a sum is measured against."""
    return to_float(sum((abs(Fraction(x)) for x in values(window) if math.isfinite(x)), Fraction(0)))


# --------------------------------------------------------------------------- sums


def sum_(window: Window) -> Any:
    """Σx. Integers and booleans have to fit 64 bits, decimals are exact, floats as in `exact_sum`. Nothing: null."""
    xs = values(window)
    if not xs:
        return None
    if isinstance(xs[0], Decimal):
        return sum(xs, Decimal(0))
    if isinstance(xs[0], float):
        return exact_sum(xs)
    total = sum(int(x) for x in xs)
    if total != wrapped(total):
        raise OverflowError(f"{total} does not fit 64 bits")
    return total


def sum_or_null(window: Window) -> int | None:
    """Σx of integers; null if it does not fit 64 bits."""
    xs = values(window)
    total = sum(xs)
    return total if xs and total == wrapped(total) else None


def wrapped_sum(window: Window) -> int | None:
    """Σx of integers, modulo 2^64."""
    xs = values(window)
    return wrapped(sum(xs)) if xs else None


def count(window: Window) -> int:
    """How many events have a value."""
    return len(values(window))


def count_events(window: Window) -> int:
    """How many events there are, nulls among them."""
    return len(window)


def avg(window: Window) -> float | None:
    """Σx / n."""
    xs = values(window)
    if not xs:
        return None
    if all(math.isfinite(x) for x in xs):
        return to_float(sum((Fraction(x) for x in xs), Fraction(0)) / len(xs))
    return exact_sum(xs)  # NaN and the infinities do not change when they are divided


def weighted_avg(window: Window) -> float | None:
    """Σxw / Σw over events (x, w); IEEE division, so weights that sum to zero give NaN or an infinity."""
    events = values(window)
    if not events:
        return None
    top = exact_sum([float(x) * float(w) for x, w in events])
    bottom = exact_sum([float(w) for _, w in events])
    if bottom == 0.0:
        return math.nan if top == 0.0 or math.isnan(top) else math.copysign(math.inf, top)
    return top / bottom


# --------------------------------------------------------------------------- moments

OUT_OF_REACH = 2.0**450


def squared_distances(xs: Window) -> float:
    """Σ(x - mean)², exactly. NaN if a value is not finite; infinite if one of several is 2^450 or more in size."""
    if not all(math.isfinite(x) for x in xs):
        return math.nan
    if len(xs) > 1 and any(abs(x) >= OUT_OF_REACH for x in xs):
        return math.inf
    mean = sum((Fraction(x) for x in xs), Fraction(0)) / len(xs)
    return to_float(sum(((Fraction(x) - mean) ** 2 for x in xs), Fraction(0)))


def var_pop(window: Window) -> float | None:
    """Σ(x - mean)² / n."""
    xs = values(window)
    return squared_distances(xs) / len(xs) if xs else None


def var_samp(window: Window) -> float | None:
    """Σ(x - mean)² / (n - 1); null of fewer than two values."""
    xs = values(window)
    return squared_distances(xs) / (len(xs) - 1) if len(xs) > 1 else None


def stddev_pop(window: Window) -> float | None:
    """The root of the population's variance."""
    variance = var_pop(window)
    return None if variance is None else math.sqrt(variance)


def stddev_samp(window: Window) -> float | None:
    """The root of the sample's variance."""
    variance = var_samp(window)
    return None if variance is None else math.sqrt(variance)


# --------------------------------------------------------------------------- products


def product(window: Window) -> float | None:
    """Πx in floats."""
    xs = values(window)
    return math.prod(map(float, xs)) if xs else None


def geomean(window: Window) -> float | None:
    """exp(Σ log x / n). NaN and negative values give NaN, 0 gives 0, infinity infinity, both of these NaN."""
    xs = [float(x) for x in values(window)]
    if not xs:
        return None
    if any(math.isnan(x) or x < 0 for x in xs) or (0.0 in xs and math.inf in xs):
        return math.nan
    if 0.0 in xs:
        return 0.0
    return math.inf if math.inf in xs else math.exp(math.fsum(map(math.log, xs)) / len(xs))


# --------------------------------------------------------------------------- logic


def bool_and(window: Window) -> bool | None:
    """Whether every value is true."""
    xs = values(window)
    return all(xs) if xs else None


def bool_or(window: Window) -> bool | None:
    """Whether any value is true."""
    xs = values(window)
    return any(xs) if xs else None


# --------------------------------------------------------------------------- extremes


def min_(window: Window) -> Any:
    """The least value."""
    return min(values(window), key=rank, default=None)


def max_(window: Window) -> Any:
    """The greatest value."""
    return max(values(window), key=rank, default=None)


def min_max(window: Window) -> dict[str, Any] | None:
    """Both of them."""
    return {"min": min_(window), "max": max_(window)} if values(window) else None


def spread(window: Window) -> Any:
    """The greatest value less the least."""
    return max_(window) - min_(window) if values(window) else None


def arg_min(window: Window) -> Any:
    """Of events (value, by): the value where `by` is least; of several such events the smallest value."""
    best = min(values(window), key=lambda event: (rank(event[1]), rank(event[0])), default=None)
    return None if best is None else best[0]


def arg_max(window: Window) -> Any:
    """Of events (value, by): the value where `by` is greatest; of several such events the smallest value."""
    events = values(window)
    if not events:
        return None
    most = max(rank(by) for _, by in events)
    return min((value for value, by in events if rank(by) == most), key=rank)


def min_count(window: Window) -> dict[str, Any] | None:
    """The least value and how often it occurs."""
    return _with_count(min_(window), window)


def max_count(window: Window) -> dict[str, Any] | None:
    """The greatest value and how often it occurs."""
    return _with_count(max_(window), window)


def _with_count(extreme: Any, window: Window) -> dict[str, Any] | None:
    xs = values(window)
    return {"value": extreme, "count": sum(rank(x) == rank(extreme) for x in xs)} if xs else None


def top_n(window: Window, n: int, largest: bool = True) -> list[Any]:
    """The n greatest values in descending order, or the n least in ascending order, repetitions included."""
    return sorted(values(window), key=rank, reverse=largest)[:n]


# --------------------------------------------------------------------------- order of events


def first(window: Window) -> Any:
    """The oldest value."""
    return next(iter(values(window)), None)


def last(window: Window) -> Any:
    """The youngest value."""
    return next(reversed(values(window)), None)


def collect_list(window: Window) -> list[Any]:
    """All values, oldest first."""
    return values(window)


def concat(window: Window, separator: str = "") -> str | None:
    """All texts joined, oldest first."""
    xs = values(window)
    return separator.join(xs) if xs else None


def ith_youngest(window: Window, i: int) -> Any:
    """The i-th value from the young end, counted from 1; null if there are fewer."""
    xs = values(window)
    return xs[-i] if len(xs) >= i else None


def m4(window: Window) -> dict[str, Any] | None:
    """Least, greatest, oldest and youngest value."""
    if not values(window):
        return None
    return {"min": min_(window), "max": max_(window), "first": first(window), "last": last(window)}


def m4_timed(window: Window) -> dict[str, Any] | None:
    """The same for events (value, time), each part with its time. First and last go by time, and among events of one
    time by event order; an extreme that occurs more than once is reported at its earliest time."""
    events = values(window)
    if not events:
        return None
    least = min(events, key=lambda e: (rank(e[0]), e[1]))
    most = max(rank(x) for x, _ in events)
    greatest = min((e for e in events if rank(e[0]) == most), key=lambda e: e[1])
    by_time = sorted(events, key=lambda e: e[1])
    parts = {"min": least, "max": greatest, "first": by_time[0], "last": by_time[-1]}
    return {k: e[0] for k, e in parts.items()} | {f"{k}_time": e[1] for k, e in parts.items()}


# --------------------------------------------------------------------------- holistic


def quantile(window: Window, q: float) -> float | None:
    """The value at rank q·(n - 1) of the sorted values, counted from 0, interpolated linearly between two ranks."""
    xs = [float(x) for x in sorted(values(window), key=rank)]
    if not xs:
        return None
    at = q * (len(xs) - 1)
    low, high, part = xs[math.floor(at)], xs[math.ceil(at)], at - math.floor(at)
    return low if rank(low) == rank(high) else (1.0 - part) * low + part * high


def percentile(window: Window, p: float) -> float | None:
    """The quantile of p percent."""
    return quantile(window, p / 100.0)


def median(window: Window) -> float | None:
    """The quantile of one half."""
    return quantile(window, 0.5)


def count_distinct(window: Window) -> int:
    """How many different values there are; all NaN are one value."""
    return len({rank(x) for x in values(window)})


def mode(window: Window) -> Any:
    """The most frequent value; of several, the least."""
    counts = Counter(rank(x) for x in values(window))
    if not counts:
        return None
    most = max(counts.values())
    least = min(key for key, n in counts.items() if n == most)
    return next(x for x in values(window) if rank(x) == least)


# --------------------------------------------------------------------------- by name

ANSWERS: dict[str, Callable[..., Any]] = {
    "sum": sum_,
    "count": count,
    "count_events": count_events,
    "avg": avg,
    "weighted_avg": weighted_avg,
    "var_pop": var_pop,
    "var_samp": var_samp,
    "stddev_pop": stddev_pop,
    "stddev_samp": stddev_samp,
    "product": product,
    "geomean": geomean,
    "bool_and": bool_and,
    "bool_or": bool_or,
    "min": min_,
    "max": max_,
    "min_max": min_max,
    "spread": spread,
    "arg_min": arg_min,
    "arg_max": arg_max,
    "min_count": min_count,
    "max_count": max_count,
    "top_n": top_n,
    "first": first,
    "last": last,
    "collect_list": collect_list,
    "concat": concat,
    "ith_youngest": ith_youngest,
    "m4": m4,
    "m4_timed": m4_timed,
    "quantile": quantile,
    "percentile": percentile,
    "median": median,
    "count_distinct": count_distinct,
    "mode": mode,
}


def answer(name: str, window: Window, **params: Any) -> Any:
    """The answer of the named aggregate over a window."""
    return ANSWERS[name](window, **params)


# --------------------------------------------------------------------------- windows of a stream


def sliding(events: Window, window: int, before: Window = ()) -> list[list[Any]]:
    """The window after each event: the youngest `window` events so far. `before` was there already."""
    stream = [*before, *events]
    return [stream[max(0, end - window) : end] for end in range(len(before) + 1, len(before) + len(events) + 1)]


def rolling(events: Window, evictions: Sequence[int], before: Window = ()) -> list[list[Any]]:
    """The window after each event when round i first removes the `evictions[i]` oldest events."""
    current, rounds = list(before), []
    for event, gone in zip(events, evictions, strict=True):
        current = [*current[gone:], event]
        rounds.append(current)
    return rounds


# --------------------------------------------------------------------------- comparing


def same(got: Any, expected: Any, rel: float = 0.0) -> bool:
    """Whether two answers are equal: NaN equals NaN, null only null, an int is not a float; floats within `rel`."""
    if got is None or expected is None:
        return got is None and expected is None
    if isinstance(expected, dict):
        return set(got) == set(expected) and all(same(got[k], expected[k], rel) for k in expected)
    if isinstance(expected, list):
        return len(got) == len(expected) and all(same(g, e, rel) for g, e in zip(got, expected, strict=True))
    if type(got) is not type(expected):
        return False
    if isinstance(expected, float):
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        return got == expected or (rel > 0 and math.isclose(got, expected, rel_tol=rel, abs_tol=rel))
    return bool(got == expected)


# --------------------------------------------------------------------------- queries

# A condition on events: the name of a boolean column, or a function of the event's columns. Null is no.
Condition = str | Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Tumbling:
    size: int
    offset: int = 0
    measure: str = "time"


@dataclass(frozen=True)
class Sliding:
    size: int
    slide: int
    offset: int = 0
    measure: str = "time"


@dataclass(frozen=True)
class Cumulate:
    step: int
    size: int
    offset: int = 0
    measure: str = "time"


@dataclass(frozen=True)
class Band:
    start: int
    size: int
    measure: str = "time"


@dataclass(frozen=True)
class Landmark:
    start: int
    slide: int
    measure: str = "time"


@dataclass(frozen=True)
class Session:
    gap: int


@dataclass(frozen=True)
class Punctuation:
    predicate: Condition


@dataclass(frozen=True)
class ThresholdFrame:
    predicate: Condition
    min_size: int = 1


@dataclass(frozen=True)
class SlideByTuple:
    size: int
    every: int = 1


@dataclass(frozen=True)
class LastN:
    n: int
    every: int


@dataclass(frozen=True)
class Snapshot:
    lifetime: int


@dataclass(frozen=True)
class Deterministic:
    """step(state, ts, *values) -> (state, begins, ends): the `ends` oldest open windows end before the event, then
    `begins` windows begin with it."""

    step: Callable[..., Any]
    columns: tuple[str, ...] = ()
    state: tuple[Any, ...] = (0,)


@dataclass(frozen=True)
class DataDriven:
    """rule(ts, *values) -> (size, slide): the windows that began `size` ago or longer end before the event, and one
    begins with it if the last began `slide` ago or longer."""

    rule: Callable[..., Any]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class NonDeterministic:
    """step(state, ts, *values) -> (state, evict, emit): the event joins, the `evict` oldest leave, and if `emit`, those
    that are left are a window."""

    step: Callable[..., Any]
    columns: tuple[str, ...] = ()
    state: tuple[Any, ...] = (0,)


Grid = Tumbling | Sliding | Cumulate | Band | Landmark


@dataclass(frozen=True)
class Asked:
    """An aggregate of a query: an answer from above, and the columns whose values it is computed from."""

    answer: Callable[[Window], Any]
    columns: tuple[str, ...] = ()

    def over(self, events: Sequence[Event]) -> Any:
        if len(self.columns) == 1:
            return self.answer([event.columns[self.columns[0]] for event in events])
        return self.answer([tuple(event.columns[name] for name in self.columns) for event in events])


@dataclass(frozen=True)
class Query:
    name: str
    window: Any
    aggregates: tuple[Asked, ...]
    where: Condition | None = None
    emit_empty: bool = False


# --------------------------------------------------------------------------- events and rows


@dataclass(frozen=True, eq=False)
class Event:
    """A row of the input. Events are ordered by time, then by sequence number (if there is one), then by arrival."""

    ts: int
    sequence: int
    arrival: int
    columns: Mapping[str, Any]

    @property
    def place(self) -> tuple[int, int, int]:
        return (self.ts, self.sequence, self.arrival)

    def meets(self, condition: Condition) -> bool:
        return bool(self.columns[condition] if isinstance(condition, str) else condition(self.columns))


class Row(NamedTuple):
    """A row of the output. `low` and `high` are the bounds in the window's own measure, `start` and `end` in time;
    `ordinal` tells windows with the same bounds apart."""

    query: str
    key: tuple[Any, ...]
    low: int
    high: int
    start: int
    end: int
    revision: int
    retraction: bool
    values: tuple[Any, ...]
    ordinal: int = 0


@dataclass
class Standing:
    """A window as it stands at a watermark."""

    low: Any
    high: Any
    start: Any
    end: Any
    events: list[Event]
    complete: bool
    due: bool  # whether it comes out when it is complete
    completion: Any = None  # its place in the order in which the windows of a key become complete
    ordinal: int = 0  # how many windows with the same bounds come before it


# --------------------------------------------------------------------------- which windows there are


def standing(window: Any, events: list[Event], w: float) -> list[Standing]:
    """The windows of a key, given its events in order, none of them after the watermark. Complete ones and those that
    have begun, in the order of their completion."""
    if isinstance(window, Grid):
        return {"time": on_time, "count": on_count}.get(window.measure, on_column)(window, events, w)
    return FINDERS[type(window)](window, events, w)


def holding(grid: Grid, x: float) -> Iterator[tuple[int, int]]:
    """The windows of a grid that hold the point x; of a landmark's windows, the one whose last slide holds it."""
    if isinstance(grid, Tumbling):
        grid = Sliding(grid.size, grid.size, grid.offset)
    if isinstance(grid, Sliding):
        low = grid.offset + int((x - grid.offset) // grid.slide) * grid.slide
        while low + grid.size > x:
            yield low, low + grid.size
            low -= grid.slide
    elif isinstance(grid, Cumulate):
        low = grid.offset + int((x - grid.offset) // grid.size) * grid.size
        for high in range(low + grid.step, low + grid.size + 1, grid.step):
            if x < high:
                yield low, high
    elif isinstance(grid, Band):
        if grid.start <= x < grid.start + grid.size:
            yield grid.start, grid.start + grid.size
    elif x >= grid.start:
        yield grid.start, grid.start + (int((x - grid.start) // grid.slide) + 1) * grid.slide


def between(events: list[Event], points: Sequence[float], low: float, high: float) -> list[Event]:
    return [event for event, x in zip(events, points, strict=True) if low <= x < high]


def with_points(grid: Grid, points: Iterable[float]) -> list[tuple[int, int]]:
    """The windows of a grid that hold one of these points, by their ends."""
    return sorted({bounds for x in points for bounds in holding(grid, x)}, key=lambda bounds: bounds[::-1])


def on_time(grid: Grid, events: list[Event], w: float) -> list[Standing]:
    times = [event.ts for event in events]
    return [
        Standing(low, high, low, high, between(events, times, low, high), w >= high, True, high)
        for low, high in with_points(grid, times)
    ]


def on_count(grid: Grid, events: list[Event], w: float) -> list[Standing]:
    positions = range(len(events))
    found = []
    for low, high in with_points(grid, positions):
        if low >= 0:  # a window begins with an event
            held = between(events, positions, low, high)
            found.append(Standing(low, high, *extent(held), held, high <= len(events), True, high))
    return found + endless(grid, events, positions)


def on_column(grid: Grid, events: list[Event], w: float) -> list[Standing]:
    points = [event.columns[grid.measure] for event in events]
    found = []
    for low, high in with_points(grid, points):
        held = between(events, points, low, high)
        found.append(Standing(low, high, *extent(held), held, any(x >= high for x in points), True, high))
    return found + endless(grid, events, points)


def extent(events: list[Event]) -> tuple[int, int]:
    """The times that events cover."""
    return events[0].ts, events[-1].ts + 1


def endless(grid: Grid, events: list[Event], points: Sequence[float]) -> list[Standing]:
    """A landmark has windows that no event has reached the end of; they have begun with the landmark."""
    held = between(events, points, grid.start, math.inf) if isinstance(grid, Landmark) else []
    return [Standing(grid.start, math.inf, held[0].ts, math.inf, held, False, False)] if held else []


def sessions(window: Session, events: list[Event], w: float) -> list[Standing]:
    groups: list[list[Event]] = []
    for event in events:
        if groups and event.ts - groups[-1][-1].ts <= window.gap:
            groups[-1].append(event)
        else:
            groups.append([event])
    found = []
    for group in groups:
        start, end = group[0].ts, group[-1].ts + window.gap
        found.append(Standing(start, end, start, end, group, w > end, True, end))
    return found


def ended(group: list[Event], closing: Event | None, due: bool = True, twin: int = 0) -> Standing:
    """A window that ends before the closing event; if there is none yet, one tick after its last event so far. Windows
    that events end do so in the order in which they began; `twin` counts those that began with the same event."""
    start, end = group[0].ts, group[-1].ts + 1 if closing is None else closing.ts
    return Standing(start, end, start, end, group, closing is not None, due, (group[0].place, twin))


def punctuations(window: Punctuation, events: list[Event], w: float) -> list[Standing]:
    found: list[Standing] = []
    group: list[Event] = []
    for event in events:
        if group and event.meets(window.predicate):
            found.append(ended(group, event))
            group = []
        group.append(event)
    return found + ([ended(group, None)] if group else [])


def frames(window: ThresholdFrame, events: list[Event], w: float) -> list[Standing]:
    found: list[Standing] = []
    run: list[Event] = []
    for event in [*events, None]:
        if event is not None and event.meets(window.predicate):
            run.append(event)
        elif run:
            found.append(ended(run, event, due=len(run) >= window.min_size))
            run = []
    return found


def slides_by_tuple(window: SlideByTuple, events: list[Event], w: float) -> list[Standing]:
    times = [event.ts for event in events]
    found = []
    for start in sorted({event.ts for event in events[:: window.every]}):
        end = start + window.size
        found.append(Standing(start, end, start, end, between(events, times, start, end), w >= end, True, end))
    return found


def last_ns(window: LastN, events: list[Event], w: float) -> list[Standing]:
    found = []
    for edge in sorted({(event.ts // window.every + 1) * window.every for event in events}):
        held = [event for event in events if event.ts < edge][-window.n :]
        found.append(Standing(held[0].ts, edge, held[0].ts, edge, held, w >= edge, True, edge))
    # The last events there are belong to a window to come, at whatever edge.
    last = events[-window.n :]
    return found + ([Standing(last[0].ts, math.inf, last[0].ts, math.inf, last, False, False)] if last else [])


def snapshots(window: Snapshot, events: list[Event], w: float) -> list[Standing]:
    edges = sorted({edge for event in events for edge in (event.ts, event.ts + window.lifetime)})
    found = []
    for start, end in pairwise(edges):
        alive = [event for event in events if event.ts <= start and end <= event.ts + window.lifetime]
        if alive:
            found.append(Standing(start, end, start, end, alive, w >= end, True, end))
    return found


def values_of(event: Event, columns: Sequence[str]) -> list[Any]:
    return [event.columns[name] for name in columns]


def deterministic(window: Deterministic, events: list[Event], w: float) -> list[Standing]:
    state, found = window.state, []
    open_: list[tuple[int, int]] = []  # where the open windows begin, oldest first
    for i, event in enumerate(events):
        state, begins, ends = window.step(state, event.ts, *values_of(event, window.columns))
        found += [ended(events[begin:i], event, twin=twin) for begin, twin in open_[: int(ends)]]
        open_ = open_[int(ends) :] + [(i, twin) for twin in range(int(begins))]
    return found + [ended(events[begin:], None, twin=twin) for begin, twin in open_]


def data_driven(window: DataDriven, events: list[Event], w: float) -> list[Standing]:
    found: list[Standing] = []
    open_: list[int] = []
    last_begin = -math.inf
    for i, event in enumerate(events):
        size, slide = window.rule(event.ts, *values_of(event, window.columns))
        found += [ended(events[begin:i], event) for begin in open_ if event.ts - events[begin].ts >= size]
        open_ = [begin for begin in open_ if event.ts - events[begin].ts < size]
        if event.ts - last_begin >= slide:
            open_.append(i)
            last_begin = event.ts
    return found + [ended(events[begin:], None) for begin in open_]


def non_deterministic(window: NonDeterministic, events: list[Event], w: float) -> list[Standing]:
    state, found = window.state, []
    kept: list[Event] = []
    emit = False
    for event in events:
        state, evict, emit = window.step(state, event.ts, *values_of(event, window.columns))
        kept = [*kept, event][int(evict) :]
        if emit and kept:
            start, end = kept[0].ts, event.ts + 1
            found.append(Standing(start, end, start, end, kept, True, True, (event.place, 0)))
    # What is kept belongs to a window to come. It comes out as a partial one, unless just that came out already.
    return found + ([replace(ended(kept, None, due=not emit), completion=None)] if kept else [])


FINDERS: dict[type, Callable[..., list[Standing]]] = {
    Session: sessions,
    Punctuation: punctuations,
    ThresholdFrame: frames,
    SlideByTuple: slides_by_tuple,
    LastN: last_ns,
    Snapshot: snapshots,
    Deterministic: deterministic,
    DataDriven: data_driven,
    NonDeterministic: non_deterministic,
}


def without_events(grid: Grid, events: list[Event], w: float) -> list[Standing]:
    """The empty windows of a key that `emit_empty` asks for."""
    if isinstance(grid, Band) or not events:
        return []
    held = {bounds for event in events for bounds in holding(grid, event.ts)}
    first, last = min(low for low, _ in held), max(event.ts for event in events)
    period = grid.slide if isinstance(grid, Sliding) else grid.size
    found, start = [], first
    while start <= (last if w == math.inf else w):
        ends = {high for low, high in holding(grid, start) if low == start}
        found += [(start, end) for end in sorted(ends) if (start, end) not in held and w >= end]
        start += period
    return [Standing(start, end, start, end, [], True, True, end) for start, end in found]


# --------------------------------------------------------------------------- what comes out, and when


@dataclass
class Track:
    """What a query knows of a key."""

    events: list[Event] = field(default_factory=list)  # all it accepted, in order
    stood: list[Standing] = field(default_factory=list)  # its windows at the last watermark
    emitted: list[tuple[Standing, Row]] = field(default_factory=list)  # what came out and is not closed
    closed: Any = None  # windows whose completion is up to here are closed
    floor: Any = None  # for LastN and NonDeterministic: what comes before this place is too late
    taken: list[Event] = field(default_factory=list)  # accepted since the last watermark
    rows: Counter[Any] = field(default_factory=Counter)  # how many came out, by the window's identity
    gone: Counter[Any] = field(default_factory=Counter)  # how many windows that came out are closed, by their bounds


NEVER = (math.inf, 0, 0)  # a place after all events


class Refused(ValueError):
    """The contract refuses an event. Its batch has changed nothing."""


class Running:
    """A query at work."""

    def __init__(self, query: Query, lateness: int, since: float = -math.inf) -> None:
        self.query, self.window = query, query.window
        self.lateness = lateness
        self.since = since  # windows that begin up to here are not its own
        self.horizon = -math.inf  # the last watermark less the lateness
        self.tracks: dict[tuple[Any, ...], Track] = {}

    @property
    def fixed(self) -> bool:
        """Whether its edges are fixed in time."""
        return isinstance(self.window, Grid) and self.window.measure == "time"

    # ----------------------------------------------------------------------- late events

    def accepts(self, key: tuple[Any, ...], event: Event, w: float, late: bool) -> bool:
        if event.ts <= self.since:
            return False
        horizon = w - self.lateness
        if not late or event.ts >= horizon:
            return True
        if self.fixed:
            return any(high > horizon for _, high in self.grid_windows(event.ts))
        track = self.tracks.get(key, Track())
        open_ = [window for window in track.stood if not self.is_past(track, window, horizon)]
        if isinstance(self.window, Session):
            gap = self.window.gap
            alone = event.ts + gap
            near = (abs(event.ts - member.ts) <= gap for session in open_ for member in session.events)
            return not (w > alone and alone <= horizon) or any(near)
        if isinstance(self.window, LastN | NonDeterministic):
            return track.floor is not None and event.place >= track.floor
        return bool(open_) and event.place >= min(window.events[0].place for window in open_)

    def grid_windows(self, ts: int) -> list[tuple[float, float]]:
        if isinstance(self.window, Landmark):
            return [(self.window.start, math.inf)] if ts >= self.window.start else []
        return list(holding(self.window, ts))

    def take(self, key: tuple[Any, ...], event: Event) -> None:
        track = self.tracks.setdefault(key, Track())
        track.events = sorted([*track.events, event], key=lambda e: e.place)
        track.taken.append(event)
        if isinstance(self.window, Grid) and self.window.measure not in ("time", "count"):
            values = [math.floor(e.columns[self.window.measure]) for e in track.events]
            if any(b < a for a, b in pairwise(values)):
                raise Refused(f"{self.window.measure} decreases: {values}")

    # ----------------------------------------------------------------------- watermarks

    def advance(self, w: float, partial: bool) -> list[Row]:
        rows = [row for key, track in self.tracks.items() for row in self.advance_key(key, track, w, partial)]
        self.horizon = w - self.lateness
        return rows

    def advance_key(self, key: tuple[Any, ...], track: Track, w: float, partial: bool) -> list[Row]:
        final = [event for event in track.events if event.ts <= w]
        stood = standing(self.window, final, w)
        if self.query.emit_empty and self.fixed:
            empty = without_events(self.window, final, w)
            if w == math.inf:  # what came out at the last watermark stays
                known = set(map(bounds_of, empty))
                before = without_events(self.window, final, self.horizon + self.lateness)
                empty += [window for window in before if bounds_of(window) not in known]
            stood += empty
        now = [
            window for window in stood if window.due and (window.complete or partial) and self.is_whole(window, final)
        ]
        now = [window for window in now if not self.is_closed(track, window)]
        numbers = Counter(track.gone)
        for window in now:  # in their order
            window.ordinal = numbers[bounds_of(window)]
            numbers[bounds_of(window)] += 1
        rows = list(self.compare(key, track, now))
        self.close(track, stood, w)
        return rows

    def is_whole(self, window: Standing, events: list[Event]) -> bool:
        """Whether the events that a later-added query has seen so far show that it has seen all of a window."""
        if self.since == -math.inf:
            return True
        asked, first = self.window, window.events[0] if window.events else None
        if isinstance(asked, Session):
            return bool(window.start > self.since + asked.gap)
        if isinstance(asked, Snapshot):
            return bool(window.start > self.since + asked.lifetime)
        if isinstance(asked, Punctuation):
            return first is not None and first.meets(asked.predicate)
        if isinstance(asked, ThresholdFrame):
            return first is not events[0]
        if isinstance(asked, LastN):
            return len(window.events) == asked.n
        if isinstance(asked, Grid) and asked.measure not in ("time", "count"):
            return bool(window.low > events[0].columns[asked.measure])
        return bool(window.start > self.since)

    def is_closed(self, track: Track, window: Standing) -> bool:
        """Whether it was closed at the last watermark. Where edges are fixed, a window is there before its events."""
        if self.fixed:
            return window.end <= self.horizon
        return self.comes_before_a_closed_one(track, window)

    @staticmethod
    def comes_before_a_closed_one(track: Track, window: Standing) -> bool:
        """Or is the closed one, with whatever events it has now."""
        return track.closed is not None and window.completion is not None and window.completion <= track.closed

    def is_past(self, track: Track, window: Standing, horizon: float) -> bool:
        """Whether late events are not accepted for its sake."""
        return (window.complete and window.end <= horizon) or self.comes_before_a_closed_one(track, window)

    def compare(self, key: tuple[Any, ...], track: Track, now: list[Standing]) -> Iterator[Row]:
        """Rows for what has changed since the last output. Windows are equal if identity and events are."""
        before, kept = list(track.emitted), []
        changed = []
        for window in now:
            same_window = next((old for old in before if same_set(old[0], window)), None)
            if same_window is None:
                changed.append(window)
            else:
                before.remove(same_window)
                kept.append(same_window)
        for window in changed:
            row = self.row(key, track, window)
            kept.append((window, row))
            before_it = next((old for old in before if identity_of(old[0]) == identity_of(window)), None)
            if before_it is not None:
                before.remove(before_it)  # it comes out again
            yield row
        for window, row in before:
            yield row._replace(revision=self.revision(track, window), retraction=True)
        track.emitted = kept

    def row(self, key: tuple[Any, ...], track: Track, window: Standing) -> Row:
        where = self.query.where
        events = [event for event in window.events if where is None or event.meets(where)]
        values = tuple(asked.over(events) for asked in self.query.aggregates)
        low, high, start, end = window.low, window.high, window.start, window.end
        revision = self.revision(track, window)
        return Row(self.query.name, key, low, high, start, end, revision, False, values, window.ordinal)

    def revision(self, track: Track, window: Standing) -> int:
        track.rows[identity_of(window)] += 1
        return track.rows[identity_of(window)] - 1

    def close(self, track: Track, stood: list[Standing], w: float) -> None:
        horizon = w - self.lateness
        closed = [window for window in stood if window.complete and window.end <= horizon]
        if isinstance(self.window, Session):
            # A closed session takes no part in anything.
            gone = {event for session in closed for event in session.events}
            track.events = [event for event in track.events if event not in gone]
            stood = [session for session in stood if not session.complete or session.end > horizon]
        elif closed:
            completion = max(window.completion for window in closed)
            track.closed = completion if track.closed is None else max(track.closed, completion)
        if isinstance(self.window, LastN | NonDeterministic):
            # A window that a late event makes may begin before all others. What was too late before then still is,
            # unless an event that came since was accepted before it.
            firsts = [window.events[0].place for window in stood if not window.complete or window.end > horizon]
            point = min([*firsts, *(event.place for event in track.events if horizon <= event.ts <= w)], default=NEVER)
            least = min([event.place for event in track.taken], default=NEVER)
            track.floor = point if track.floor is None else max(point, min(track.floor, least))
            track.taken = [event for event in track.taken if event.ts > w]
        track.stood = stood
        over = [window for window, _ in track.emitted if window.complete and window.end <= horizon]
        track.gone.update(map(bounds_of, over))
        track.emitted = [(window, row) for window, row in track.emitted if window not in over]


def bounds_of(window: Standing) -> tuple[int, int]:
    return (window.low, window.high)


def identity_of(window: Standing) -> tuple[int, int, int]:
    return (*bounds_of(window), window.ordinal)


def same_set(a: Standing, b: Standing) -> bool:
    return identity_of(a) == identity_of(b) and set(a.events) == set(b.events)


class Stream:
    """All queries over one stream. Events are mappings from columns to values."""

    def __init__(
        self,
        queries: Sequence[Query],
        *,
        time: str = "ts",
        key: Sequence[str] = (),
        sequence: str | None = None,
        allowed_lateness: int = 0,
        in_order: bool = False,
        key_ttl: int | None = None,
        watermarks: tuple[int, int] | None = None,
    ) -> None:
        self.time, self.key, self.sequence = time, tuple(key), sequence
        self.lateness = allowed_lateness
        self.watermarks = (0, 1) if in_order else watermarks  # the delay and the step of those that follow the events
        self.due: list[Row] = []  # what they brought
        self.key_ttl = key_ttl
        self.last: dict[tuple[Any, ...], int] = {}  # the greatest event time of each key that has not ended
        self.in_order = in_order
        self.running = [Running(query, allowed_lateness) for query in queries]
        self.watermark = -math.inf
        self.greatest = -math.inf  # the greatest event time so far
        self.last_place: tuple[float, float] = (-math.inf, -math.inf)  # (ts, sequence) of the last event
        self.arrived = self.came_late = self.expired = 0
        self.undelivered: list[Mapping[str, Any]] = []

    def process(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take a batch of events, or refuse all of them."""
        measured = any(isinstance(r.window, Grid) and r.window.measure not in ("time", "count") for r in self.running)
        before = copy.deepcopy(vars(self)) if measured or self.in_order else vars(self)
        try:
            for row in rows:
                self.take(row)
        except Refused:
            self.__dict__ = before
            raise

    def take(self, row: Mapping[str, Any]) -> None:
        ts = row[self.time]
        event = Event(ts, 0 if self.sequence is None else row[self.sequence], self.arrived, row)
        self.arrived += 1
        if self.in_order and (ts, event.sequence) < self.last_place:
            raise Refused(f"row {event.arrival}: {ts, event.sequence} after {self.last_place}")
        self.last_place = (ts, event.sequence)
        self.greatest = max(self.greatest, ts)
        late = not self.in_order and (ts < self.watermark or (self.sequence is not None and ts == self.watermark))
        self.came_late += late
        key = tuple(row[name] for name in self.key)
        self.last[key] = max(self.last.get(key, ts), ts)
        takers = [running for running in self.running if running.accepts(key, event, self.watermark, late)]
        for running in takers:
            running.take(key, event)
        if not takers:
            self.expired += 1
            self.undelivered.append(row)
        if self.watermarks is not None:
            delay, step = self.watermarks
            if (reached := (self.greatest - delay) // step * step) > self.watermark:
                self.due += self.pass_(reached)

    def pass_(self, w: float) -> list[Row]:
        """The rows that a watermark brings."""
        self.watermark = max(self.watermark, w)
        return [row for running in self.running for row in running.advance(self.watermark, partial=False)]

    def advance(self, w: float | None = None) -> list[Row]:
        """The rows that are due at a watermark; those that the events brought are among them."""
        rows = self.due + self.pass_(self.watermark if w is None else w)
        self.due = []
        if self.key_ttl is not None:
            over = self.watermark - self.lateness - self.key_ttl
            for key in [key for key, last in self.last.items() if last <= over]:
                rows += self.end(key)
        return rows

    def end(self, key: tuple[Any, ...]) -> list[Row]:
        """A key is over: what comes out is what would if the stream were, and then nothing is left of it."""
        del self.last[key]
        tracks = [(running, running.tracks.pop(key, Track())) for running in self.running]
        return [row for running, track in tracks for row in running.advance_key(key, track, math.inf, partial=False)]

    def finish(self, partial: bool = False) -> list[Row]:
        """The watermark that was reached comes before the last one, so a window may change twice."""
        rows, self.due = self.due + self.pass_(self.watermark), []
        self.watermark = math.inf
        return rows + [row for running in self.running for row in running.advance(self.watermark, partial)]

    def peek(self) -> list[Row]:
        """What `finish(partial=True)` would give, but for the rows that are due at the watermark that was reached."""
        other = copy.deepcopy(self)
        other.due = []
        other.pass_(other.watermark)
        return other.finish(partial=True)

    def late(self) -> list[Mapping[str, Any]]:
        """The expired events since the last call."""
        expired, self.undelivered = self.undelivered, []
        return expired

    def add(self, query: Query, since: float = -math.inf) -> None:
        self.running.append(Running(query, self.lateness, max(self.greatest, since)))
        self.running[-1].horizon = self.watermark - self.lateness

    def remove(self, name: str) -> None:
        self.running = [running for running in self.running if running.query.name != name]
        self.due = [row for row in self.due if row.query != name]
