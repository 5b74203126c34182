"""Random streams of several keys, cut into runs, and what every discretizer has to do with them.

A test brings a brute force: given the events of one key that are final, the watermark and whether partial windows are
wanted, it returns all windows as (first, stop, start, end, complete), from the definition and from nothing else. After
every run the discretizer must have told exactly the windows that are complete by then, so neither does it depend on
how the events were cut, nor does it wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from windlass.windows.window import FOREVER, UNKNOWN, Discretizer, Run

Event = tuple[int, Any]  # time and value
Found = tuple[int, int, int, int, bool]  # first, stop, start, end, complete
BruteForce = Callable[[Sequence[Event], int, bool], list[Found]]


@dataclass
class Stream:
    events: list[list[Event]]  # of each key, in order
    cuts: list[tuple[int, list[int]]]  # watermark, and for each key how many of its events are final by then
    partial: bool


@st.composite
def streams(draw: Any, values: Any = None) -> Stream:
    """Events of up to three keys with ties and pauses, and ascending watermarks. Events of exactly the watermark's time
    may come before or after it."""
    steps = st.one_of(st.integers(0, 3), st.integers(0, 12))
    values = st.booleans() if values is None else values
    origin = draw(st.integers(-20, 5))
    events = []
    for _ in range(draw(st.integers(1, 3))):
        ts, key = origin, []
        for step, value in draw(st.lists(st.tuples(steps, values), max_size=25)):
            ts += step
            key.append((ts, value))
        events.append(key)
    cuts = []
    done = [0] * len(events)
    for watermark in sorted(draw(st.lists(st.integers(-25, 60), max_size=6))):
        for k, key in enumerate(events):
            certain = sum(ts < watermark for ts, _ in key)
            possible = sum(ts <= watermark for ts, _ in key)
            done[k] = max(done[k], draw(st.integers(certain, possible)) if certain < possible else certain)
        cuts.append((watermark, list(done)))
    cuts.append((FOREVER, [len(key) for key in events]))
    return Stream(events, cuts, draw(st.booleans()))


def run_of(
    stream: Stream, done: Sequence[int], until: Sequence[int], watermark: int, dtype: Any, only: int | None = None
) -> Run:
    keys = [k for k in range(len(done)) if done[k] < until[k] and only in (None, k)]
    events = [event for k in keys for event in stream.events[k][done[k] : until[k]]]
    columns = () if dtype is None else (np.array([value for _, value in events], dtype),)
    return Run(
        np.array(keys, np.int64),
        np.cumsum([0] + [until[k] - done[k] for k in keys], dtype=np.int64),
        np.array([done[k] for k in keys], np.int64),
        np.array([ts for ts, _ in events], np.int64),
        columns,
        watermark,
        stream.partial and watermark == FOREVER,
    )


def check(
    discretizer: Discretizer, stream: Stream, brute_force: BruteForce, dtype: Any = None, exact_marks: bool = False
) -> None:
    keys = len(stream.events)
    context, carry = np.zeros((keys, discretizer.width), np.int64), discretizer.no_carry()
    told: list[list[tuple[int, int, int, int]]] = [[] for _ in range(keys)]
    marks: list[set[int]] = [set() for _ in range(keys)]
    needed = np.zeros(keys, np.int64)
    done = [0] * keys
    for watermark, until in stream.cuts:
        run = run_of(stream, done, until, watermark, dtype)
        before = context.copy(), carry.copy()
        begins, windows, after = discretizer.consume(run, context, carry)
        assert np.array_equal(carry, before[1]), "the carry was changed"
        carry = after
        _check_order(carry, windows)
        for key, first, stop, start, end in _rows(windows, stream):
            told[key].append((first, stop, start, end))
            assert first >= min(needed[key], done[key]), "an event was not said to be needed"
        for r, key in enumerate(run.keys):
            marked = np.flatnonzero(begins[run.offsets[r] : run.offsets[r + 1]])
            marks[key] |= {int(run.first[r] + i) for i in marked}
        _check_rewind(discretizer, stream, before, (context, carry), run, windows, dtype, done, until)
        open_from, needed = discretizer.open_from(context, carry), discretizer.needed_from(context, carry)
        assert (needed <= open_from).all()
        for k in range(keys):
            found = brute_force(stream.events[k][: until[k]], watermark, run.partial)
            complete = [window[:4] for window in found if window[4]]
            assert sorted(told[k]) == sorted(complete)
            if not run.partial:
                oldest = min((window[0] for window in found if not window[4]), default=FOREVER)
                assert open_from[k] == oldest
            if not discretizer.splits:
                begun = {window[0] for window in found}
                assert begun <= marks[k]
                assert not exact_marks or run.partial or begun == marks[k]
        done = until


def _rows(windows: Any, stream: Stream) -> list[tuple[int, int, int, int, int]]:
    """The windows as plain rows; a start that only the events tell is looked up there."""
    assert np.array_equal(windows.low, windows.start) and np.array_equal(windows.high, windows.end)
    columns = windows.key, windows.first, windows.stop, windows.start, windows.end
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        (key, first, stop, stream.events[key][first][0] if start == UNKNOWN else start, end)
        for key, first, stop, start, end in rows
    ]


def _check_order(carry: Any, windows: Any) -> None:
    assert (np.diff(windows.key) >= 0).all(), "windows of a key are not together"
    same = np.diff(windows.key) == 0
    assert (np.diff(windows.end)[same] >= 0).all(), "windows are not in the order of completion"
    assert (np.diff(carry[:, 0]) >= 0).all(), "the carry is not sorted by key"


def _check_rewind(
    discretizer: Any, stream: Stream, before: Any, after: Any, run: Run, windows: Any, dtype: Any, done: Any, until: Any
) -> None:
    """Putting the rows of one key back and reading its events again leads to the same place."""
    for key in run.keys[:1]:
        context, carry = after[0].copy(), after[1]
        context[key] = before[0][key]
        old, others = before[1][before[1][:, 0] == key], carry[carry[:, 0] != key]
        carry = np.concatenate([old, others])
        carry = carry[np.argsort(carry[:, 0], kind="stable")]
        again = run_of(stream, done, until, run.watermark, dtype, only=int(key))
        again.partial = False
        _, repeated, carry = discretizer.consume(again, context, carry)
        assert np.array_equal(context, after[0]) and np.array_equal(carry, after[1])
        if not run.partial:
            expected = [row for row in _rows(windows, stream) if row[0] == key]
            assert _rows(repeated, stream) == expected


def times(events: Sequence[Event]) -> list[int]:
    return [ts for ts, _ in events]
