"""What every answer has to be, by definition and by brute force.

Nothing here imports the package it judges, nothing is incremental and nothing is clever: a window is a list of raw
events, oldest first, and each function below computes one answer from that list and from nothing else.

An event is a plain value, or a tuple for aggregates of several columns; None is a null. An event with a null in any
of its columns is skipped. Numbers are ordered with NaN as the greatest, equal to itself. Sums and moments of floats are
computed in exact rational arithmetic and rounded once, so an implementation may differ from them by its own rounding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

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
    """Σx. Integers (and booleans) wrap in 64 bits, decimals are exact, floats as in `exact_sum`. Null of nothing."""
    xs = values(window)
    if not xs:
        return None
    if isinstance(xs[0], Decimal):
        return sum(xs, Decimal(0))
    if isinstance(xs[0], float):
        return exact_sum(xs)
    return wrapped(sum(int(x) for x in xs))


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
    """The greatest value less the least; integers wrap in 64 bits."""
    if not values(window):
        return None
    difference = max_(window) - min_(window)
    return wrapped(difference) if isinstance(difference, int) else difference


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
