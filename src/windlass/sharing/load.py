"""What a tree's ACQs ask of it, in the few numbers that costs are computed from.

E         edges in a unit of time                     Q      distinct ACQs (of equal ones one is answered)
P = r·E   partials in a window, on average            f = 1 / (s·E)   the share of edges that answer it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from windlass.sharing.acq import ACQ
from windlass.sharing.counters import Counter

__all__ = ["Load"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Load:
    """Distinct ACQs, by range, and their edges as a counter has them."""

    ranges: Floats
    slides: Floats
    edges: Any
    edge_rate: float  # E
    inside: float = 0.0  # answers in a unit of time that end inside of a slice (Cutty)

    @classmethod
    def of(cls, acqs: Iterable[ACQ], counter: Counter, progressions: Any, *, cutty: bool = False) -> Load:
        distinct = {q.identity: q for q in acqs}.values()
        table = np.array([(q.range, q.slide) for q in distinct], np.float64).reshape(-1, 2)
        table = table[np.argsort(table[:, 0], kind="stable")]
        edges = counter.mark(progressions)
        inside = sum(1 / q.slide for q in distinct if q.range % q.slide) if cutty else 0.0
        return cls(table[:, 0].copy(), table[:, 1].copy(), edges, counter.rate(edges), inside)

    def merged(self, other: Load, counter: Counter) -> Load:
        """Both in one tree. Their ACQs are different ones."""
        ranges = np.concatenate([self.ranges, other.ranges])
        order = np.argsort(ranges, kind="stable")
        edges = counter.union(self.edges, other.edges)
        slides = np.concatenate([self.slides, other.slides])[order]
        return Load(ranges[order], slides, edges, counter.rate(edges), self.inside + other.inside)

    def thinned(self, events: float) -> Load:
        """With no more edges than events: slices without any are not kept."""
        if self.edge_rate <= events:
            return self
        return Load(self.ranges, self.slides, self.edges, events, self.inside)

    @cached_property
    def priced(self) -> dict[Any, Any]:
        """What it was found to cost, by cost model."""
        return {}

    @property
    def acqs(self) -> int:
        return len(self.ranges)

    @cached_property
    def partials(self) -> Floats:
        return np.maximum(self.ranges * self.edge_rate, 1.0)

    @cached_property
    def most_partials(self) -> float:
        return max(float(self.ranges[-1]) * self.edge_rate, 1.0)

    @cached_property
    def answered(self) -> Floats:
        """f: which share of the edges answers each ACQ. With thinned edges several windows may end between two
        events; only one that has an event in it is answered, yet all of them can."""
        return 1 / (self.slides * self.edge_rate)

    @cached_property
    def answers(self) -> float:
        """Answers in a unit of time."""
        return float((1 / self.slides).sum())

    @cached_property
    def overlap(self) -> float:
        """Σ r / s."""
        return float((self.ranges / self.slides).sum())

    @cached_property
    def distinct_partials(self) -> Floats:
        """P of each distinct range."""
        new = np.ones(len(self.ranges), np.bool_)
        np.not_equal(self.ranges[1:], self.ranges[:-1], out=new[1:])
        distinct: Floats = self.partials[new]
        return distinct

    @property
    def distinct_ranges(self) -> int:
        return len(self.distinct_partials)
