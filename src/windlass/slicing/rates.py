"""Upper bounds on the number of windows with fixed edges: per event, and in a span of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.slicing.specifications import EMIT_EMPTY, ENDS, FINDING, MEASURE, PERIOD, STEP, TIME

Array = np.ndarray[Any, Any]

LONGEST = 2.0**64  # no two values of int64 are farther apart


class Rates:
    """Arrays by specification. A window that n queries ask for counts n times."""

    def __init__(self, specs: Array, asked: Array) -> None:
        period, step, ends = (specs[:, column].astype(np.float64) for column in (PERIOD, STEP, ENDS))
        weight = asked[specs[:, FINDING]].astype(np.float64)
        self.size = step * np.maximum(ends, 1)  # of a landmark: the step from its last event to its end
        starts = np.where(period > 0, np.ceil(self.size / np.maximum(period, 1)), 1)
        self.an_event = weight * starts * np.maximum(ends, 1)
        self.single = (period == 0) & (ends == 1)
        self.weight, self.unit = weight, np.where((ends == 1) & ~self.single, period, step)  # distance between ends
        self.empty = (specs[:, EMIT_EMPTY] != 0) & ~self.single
        self.on_time = specs[:, MEASURE] == TIME
        self.total = float(self.an_event[~self.empty].sum())
        self.landmarks = float(weight[ends == 0].sum())

    def spanned(self, span: Array) -> Array:
        """Upper bound on the windows that end in a span of time, by specification."""
        return np.asarray(self.weight * np.where(self.single, 1, np.maximum(span, 0) / self.unit + 1))

    def most(self, events: int, keys: int, span: Array) -> float:
        """Upper bound on the windows that end in `span` and hold one of `events` events, or are empty.

        An unknown span is infinite.
        """
        spanned = keys * self.spanned(np.where(self.on_time, np.minimum(span, LONGEST), LONGEST))
        return float(np.where(self.empty, spanned, np.minimum(spanned, events * self.an_event)).sum())
