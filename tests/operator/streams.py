"""Random streams and random queries for Hypothesis.

Times wander forwards by steps, so that events come in disorder around them, some in bursts of equal times, some after
the watermark. Ranges are small on purpose: ties, empty windows, duplicates and exact hits of edges are what breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st
from oracle import (
    Band,
    Cumulate,
    DataDriven,
    Deterministic,
    Landmark,
    LastN,
    NonDeterministic,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)

from tests.operator.rows import AGGREGATES, CONDITIONS, Asked, Named, event

# --------------------------------------------------------------------------- windows

sizes = st.integers(1, 12)


def measured(measure: str) -> st.SearchStrategy[Any]:
    """The windows that can be on any measure. Positions have no offsets below zero."""
    offsets = st.integers(0, 5) if measure == "count" else st.integers(-5, 5)
    starts = st.integers(0, 12) if measure == "count" else st.integers(-10, 25)
    on = {"measure": st.just(measure)}
    return st.one_of(
        st.builds(Tumbling, sizes, offsets, **on),
        sizes.flatmap(lambda size: st.builds(Sliding, st.just(size), st.integers(1, size), offsets, **on)),
        st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
            lambda parts: st.builds(Cumulate, st.just(parts[0]), st.just(parts[0] * parts[1]), offsets, **on)
        ),
        st.builds(Band, starts, st.integers(1, 20), **on),
        st.builds(Landmark, starts, sizes, **on),
    )


def count_range_slide(state: Any, ts: Any) -> Any:
    """Cutty 3.2: a count window as begins and ends."""
    k, range_, slide = state
    begins = 1 if k % slide == 0 else 0
    ends = 1 if k >= range_ and (k - range_) % slide == 0 else 0
    return (k + 1, range_, slide), begins, ends


def doubled(state: Any, ts: Any, y: Any) -> Any:
    """As many windows begin as y says, up to two, and at y = 0 all end."""
    begins = 2 if y > 2 else (1 if y > 0 else 0)
    ends = state[0] if y == 0 else 0
    return (state[0] + begins - ends,), begins, ends


def last_few(state: Any, ts: Any, y: Any) -> Any:
    """The last three events whenever y is odd."""
    evict = 1 if state[0] == 3 else 0
    return (state[0] + 1 - evict,), evict, y % 2 == 1


def draining(state: Any, ts: Any, y: Any) -> Any:
    """A window at y = 4, after which nothing is kept when the next event comes."""
    kept, drain = state
    evict = kept if drain else 0
    return (kept + 1 - evict, 1 if y == 4 else 0), evict, y == 4


def ending(state: Any, ts: Any, y: Any) -> Any:
    """A window begins with every event. The oldest one ends at each even event with a high y."""
    n = state[0] + 1
    return (n,), 1, y > 1 and n % 2 == 0


def beginning(state: Any, ts: Any, y: Any) -> Any:
    """A window begins with every third event. The oldest one ends at each even event with a high y."""
    n = state[0] + 1
    return (n,), n % 3 == 1, y > 1 and n % 2 == 0


def changing(state: Any, ts: Any, y: Any) -> Any:
    """How many windows begin depends on all values so far."""
    n = state[0] + y
    return (n,), n % 3, n % 2


STEPS = [Deterministic(count_range_slide, (), (0, a, b)) for a, b in ((4, 2), (3, 3), (5, 2), (1, 1))]
STEPS += [Deterministic(step, ("y",)) for step in (doubled, ending, beginning, changing)]


def low_or_high(ts: Any, y: Any) -> Any:
    """Cutty, Figure 1: short and frequent while y is low."""
    return (5, 2) if y < 2 else (10, 5)


STEPS += [DataDriven(low_or_high, ("y",))]


def fickle(state: Any, ts: Any, y: Any) -> Any:
    """A window after every third event. How many events are evicted depends on all values so far."""
    n, total = state[0] + 1, state[1] + y
    return (n, total), 9 if total % 4 == 0 else (1 if y < 2 else 0), n % 3 == 0


NON_DETERMINISTIC = [NonDeterministic(last_few, ("y",)), NonDeterministic(draining, ("y",), (0, 0))]
NON_DETERMINISTIC += [NonDeterministic(fickle, ("y",), (0, 0))]

conditions = st.sampled_from(sorted(CONDITIONS))
named = st.builds(Named, conditions)

TYPES: dict[str, st.SearchStrategy[Any]] = {
    "time": measured("time"),
    "count": measured("count"),
    "column": measured("km"),
    "fractions": measured("miles"),
    "session": st.builds(Session, st.integers(1, 8)),
    "punctuation": st.builds(Punctuation, named),
    "frame": st.builds(ThresholdFrame, named, st.integers(1, 3)),
    "slide by tuple": st.builds(SlideByTuple, sizes, st.integers(1, 4)),
    "last n": st.builds(LastN, st.integers(1, 5), sizes),
    "snapshot": st.builds(Snapshot, sizes),
    "deterministic": st.sampled_from(STEPS),
    "non-deterministic": st.sampled_from(NON_DETERMINISTIC),
}

# --------------------------------------------------------------------------- queries


@st.composite
def queries(draw: st.DrawFn, types: tuple[str, ...] = tuple(TYPES), most: int = 4) -> list[Asked]:
    asked = []
    for i in range(draw(st.integers(1, most))):
        window = draw(st.one_of([TYPES[name] for name in types]))
        aggregates = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=3, unique=True))
        where = draw(st.none() | st.none() | conditions)
        can_be_empty = isinstance(window, Tumbling | Sliding | Cumulate | Band) and window.measure == "time"
        emit_empty = can_be_empty and draw(st.booleans())
        asked.append(Asked(f"q{i}", window, tuple(aggregates), where, emit_empty))
    return asked


# --------------------------------------------------------------------------- streams


@dataclass(frozen=True)
class Step:
    """What happens between two results: batches of events, then perhaps a restart, then the watermark."""

    batches: list[list[dict[str, Any]]]
    watermark: int
    restart: bool = False
    peek: bool = False


KEYS = [None, "a", "b", "longer"]


def rows(offsets: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, dict[str, Any]]]:
    """Events: the distance of their time to the stream's, and their columns."""
    columns = st.fixed_dictionaries(
        {
            "k": st.sampled_from(KEYS),
            "j": st.integers(0, 1),
            "seq": st.integers(0, 3),
            "x": st.none() | st.integers(-9, 9),
            "y": st.integers(0, 4),
            "f": st.integers(-8, 8).map(lambda n: n / 4),
            "flag": st.booleans(),
        }
    )
    return st.tuples(offsets, columns)


def streams(in_order: bool = False, interruptions: bool = False, most: int = 6) -> st.SearchStrategy[list[Step]]:
    # In order the time of an event counts from the one before it, otherwise from the step's.
    batch = st.lists(rows(st.integers(0, 3) if in_order else st.integers(-14, 10)), max_size=6)
    chance = st.booleans() if interruptions else st.just(False)
    jump = st.sampled_from([0, 3, 3, 6, 40])
    step = st.tuples(st.lists(batch, max_size=3), st.integers(-9, 4), chance, chance, jump)
    return st.builds(partial(assemble, in_order), st.integers(-20, 10), st.lists(step, min_size=1, max_size=most))


def assemble(in_order: bool, now: int, parts: list[Any]) -> list[Step]:
    steps, serial = [], 0
    for batches, ahead, restart, peek, jump in parts:
        made: list[list[dict[str, Any]]] = []
        for batch in batches:
            made.append([])
            for offset, columns in batch:
                now += offset if in_order else 0
                ts = now if in_order else now + offset
                made[-1].append(event(ts, id=serial, km=ts * 2 // 3, **columns))
                serial += 1
        steps.append(Step(made, now + ahead, restart, peek))
        now += jump
    return steps
