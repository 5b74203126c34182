"""Every discretizer against its definition, on random streams that are cut at random (see streams.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from windows.streams import Event, Found, Stream, check, run_of, streams, times

from windlass.windows import LastN, Punctuation, Session, SlideByTuple, Snapshot, ThresholdFrame
from windlass.windows.window import FOREVER, Run

small = st.integers(1, 8)


@given(streams(), small)
def test_session(stream: Stream, gap: int) -> None:
    def sessions(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        ts = times(events)
        borders = [i for i in range(len(ts)) if i == 0 or ts[i] - ts[i - 1] > gap] + [len(ts)]
        return [(i, j, ts[i], ts[j - 1] + gap, watermark > ts[j - 1] + gap) for i, j in pairwise(borders)]

    check(Session(gap).bind(None), stream, sessions, exact_marks=True)


@given(streams())
def test_punctuation(stream: Stream) -> None:
    def punctuated(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        if not events:
            return []
        ts = times(events)
        borders = [0] + [i for i, (_, closes) in enumerate(events) if closes and i > 0]
        closed = [(i, j, ts[i], ts[j], True) for i, j in pairwise(borders)]
        return [*closed, (borders[-1], len(ts), ts[borders[-1]], ts[-1] + 1, partial)]

    check(Punctuation("p").bind(None), stream, punctuated, bool, exact_marks=True)


@given(streams(), st.integers(1, 3))
def test_threshold_frame(stream: Stream, min_size: int) -> None:
    def frames(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        ts, n = times(events), len(events)
        found: list[Found] = []
        for i in range(n):
            if events[i][1] and (i == 0 or not events[i - 1][1]):
                j = next((j for j in range(i, n) if not events[j][1]), n)
                if j == n:
                    found.append((i, j, ts[i], ts[-1] + 1, partial and j - i >= min_size))
                elif j - i >= min_size:
                    found.append((i, j, ts[i], ts[j], True))
        return found

    check(ThresholdFrame("p", min_size).bind(None), stream, frames, bool)


@given(streams(), small, st.integers(1, 4))
def test_slide_by_tuple(stream: Stream, size: int, every: int) -> None:
    def opened(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        ts = times(events)
        found = []
        for start in sorted({ts[i] for i in range(0, len(ts), every)}):
            inside = [i for i in range(len(ts)) if start <= ts[i] < start + size]
            found.append((inside[0], inside[-1] + 1, start, start + size, watermark >= start + size))
        return found

    check(SlideByTuple(size, every).bind(None), stream, opened)


@given(streams(), st.integers(1, 4), small)
def test_last_n(stream: Stream, n: int, every: int) -> None:
    def last(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        ts = times(events)
        found = []
        for edge in sorted({t // every * every + every for t in ts}):
            inside = [i for i in range(len(ts)) if ts[i] < edge][-n:]
            found.append((inside[0], inside[-1] + 1, ts[inside[0]], edge, watermark >= edge))
        first = max(len(ts) - n, 0)  # the last events there are belong to a window to come, at whatever edge
        return found + [(first, len(ts), t, FOREVER, False) for t in ts[first : first + 1]]

    check(LastN(n, every).bind(None), stream, last)


@given(streams(), small)
def test_snapshot(stream: Stream, lifetime: int) -> None:
    def stretches(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        ts = times(events)
        edges = sorted({*ts, *(t + lifetime for t in ts)})
        found = []
        for a, b in pairwise(edges):
            alive = [i for i in range(len(ts)) if ts[i] <= a < ts[i] + lifetime]
            if alive:
                found.append((alive[0], alive[-1] + 1, a, b, watermark >= b))
        return found

    check(Snapshot(lifetime).bind(None), stream, stretches)


def test_the_end_of_time_is_no_edge() -> None:
    """Ends that lie past it stay there, and the end of the stream completes them."""
    stream = Stream([[(FOREVER - 5, None), (FOREVER - 3, None)]], [(FOREVER - 4, [1]), (FOREVER, [2])], False)
    for window, expected in ((Session(100), 1), (SlideByTuple(100), 2), (Snapshot(100), 2), (LastN(2, 1000), 1)):
        bound = window.bind(None)
        context, carry = np.zeros((1, bound.width), np.int64), bound.no_carry()
        total, done = 0, [0]
        for watermark, until in stream.cuts:
            _, windows, carry = bound.consume(run_of(stream, done, until, watermark, None), context, carry)
            total, done = total + len(windows), until
            assert (windows.end >= FOREVER - 5).all()
        assert total == expected, window


def test_a_query_that_does_not_see_all_events_counts_its_own() -> None:
    """Positions may begin later and jump between runs: a query that was added, or an event that it did not accept.

    position   7   8   –   10  11
    time       0   1       2   3        the event at position 9 is not seen
    """
    cuts = [(1, [0, 1], 7), (9, [2, 3], 10)]
    for window, expected in (
        (SlideByTuple(1, 2), [(7, 8), (10, 11)]),
        (LastN(9, 2), [(7, 9), (7, 12)]),
        (Session(1), [(7, 12)]),
        (Snapshot(1), [(7, 8), (8, 9), (10, 11), (11, 12)]),
    ):
        bound, found = window.bind(None), []
        context, carry = np.zeros((1, bound.width), np.int64), bound.no_carry()
        for watermark, ts, position in cuts:
            run = Run(np.array([0]), np.array([0, 2]), np.array([position]), np.array(ts), (), watermark)
            _, windows, carry = bound.consume(run, context, carry)
            found += zip(windows.first.tolist(), windows.stop.tolist(), strict=True)
        assert found == expected, window
