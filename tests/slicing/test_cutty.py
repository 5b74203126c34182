"""Where slices begin, against a look at every event."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.slicing import cutty, edges
from windlass.slicing.edges import LONG_AGO

PERIODS = st.lists(st.integers(2, 60), min_size=9, max_size=12, unique=True)
# Stretches of events at a rate of their own, with a pause before each.
STRETCHES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 7), st.integers(1, 80)), min_size=1, max_size=5)


@given(st.lists(STRETCHES, min_size=1, max_size=3), PERIODS, st.booleans())
@example([[(0, 1, 1)]], [*range(2, 11)], True)
@example([[(0, 5, 80), (299, 5, 80)], [(3, 0, 40)]], [*range(7, 17)], True)
def test_a_slice_begins_with_each_event_that_an_edge_lies_before(keys, periods, laid_out) -> None:
    values = [
        np.cumsum(np.concatenate([np.r_[pause, np.full(n - 1, rate)] for pause, rate, n in stretches]))
        for stretches in keys
    ]
    offsets = np.r_[0, np.cumsum([len(own) for own in values])]
    whole = np.concatenate(values)
    progressions = edges.repeating((0, period) for period in periods)
    before = np.array([own[0] - 3 for own in values])
    started = np.arange(len(values)) % 2 == 0
    laid = edges.between(progressions, int(before.min()), int(whole.max())) if laid_out else np.empty(0, np.int64)
    marked = np.empty(len(whole), np.int64)
    n = cutty.mark_begins()(offsets, whole, before, started, progressions, laid, marked)

    expected = []
    for k, own in enumerate(values):
        last = before[k] if started[k] else LONG_AGO
        for i, value in enumerate(own.tolist()):
            if last == LONG_AGO or any(value // p > last // p for p in periods):
                expected.append(offsets[k] + i)
            last = value
    assert marked[:n].tolist() == expected
