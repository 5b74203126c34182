"""What a tree of queries costs this engine, in nanoseconds: the constants are measured, the counts derived.

A tree is a branch: queries that share slices (see `branch`). Per unit of time it has, with μ events of each of K keys,

    events    λ = K·μ                     each is placed, and folded for every partial the tree keeps
    slices    S = K·min(E, μ)             E edges, but slices without events are not kept; `far`: H slices are held, and
                                          the more, the farther each is from the cache
    answers   A = K·Σ min(1, μ·r) / s     windows without events do not come out
    ⊕         S·repairs + Σ answers·Ω     for every partial the tree keeps, whoever asked for it

    technique   what an eager store is       repairs    Ω of P slices
    panes       nothing: slices in order     0          P - 1
    flatfat     a binary tree                1          cover(P) + 1
    blocks      blocks and spans of them     3          at most 4

One ⊕ takes `operation` and, for each byte of the partial, `byte`; partials that are Python objects take `object`. So
trees are worth their events where slices are many and some windows long, and where a large partial would be kept in
the slices of others. `benchmarks/cases/sharing_engine.py` measures the constants and writes costs.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from math import log2
from typing import Any, NamedTuple

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.values import ValueType, value_type
from windlass.errors import InvalidArgument, WindlassError
from windlass.sharing.cost import Priced
from windlass.sharing.omega import cover

__all__ = ["STORES", "TITLES", "Constants", "Counts", "EngineCost", "EngineLoad", "Observed", "Weight", "weight_of"]

Floats = np.ndarray[Any, np.dtype[np.float64]]

# The engine's techniques, and the stores of a branch that they are.
STORES = {"panes": "lazy", "flatfat": "flatfat", "blocks": "eager"}
TITLES = {"panes": "Panes", "flatfat": "FlatFAT", "blocks": "blocks"}
REPAIRS = {"panes": 0, "flatfat": 1, "blocks": 3}
_LOOKUPS: dict[str, Callable[[Floats], Floats]] = {
    "panes": lambda p: p - 1,
    "flatfat": lambda p: np.minimum(p - 1, cover(p) + 1),
    "blocks": lambda p: np.where(p <= 8, p - 1, 4.0),
}
NEAR = 1024  # slices that are always at hand


class Observed(NamedTuple):
    """What is known of the input: rows in a unit of time, of how many keys, how many at once."""

    rate: float
    keys: int
    batch: int


class Weight(NamedTuple):
    """What matters of a partial."""

    bytes: int
    is_object: bool
    is_folded_one_by_one: bool = False  # each event is a ⊕ of Python


def weight_of(aggregate: Aggregate, types: dict[str, ValueType]) -> Weight:
    """Columns of which the type is not known yet are taken for floats; functions of a user are not tried with these."""
    if aggregate.definition and any((c or "") not in types for c in aggregate.columns):
        return Weight(16, False)
    try:
        known = [types.get(c or "") or value_type(_FLOAT) for c in aggregate.columns]
        m = aggregate.monoid(known)
    except WindlassError:
        return Weight(16, False)
    return Weight(m.partial_nbytes, not m.is_compiled, not m.is_compiled and m.gather is None)


def _float() -> Any:
    import pyarrow as pa

    return pa.float64()


_FLOAT = _float()


@dataclass(frozen=True)
class Constants:
    """Nanoseconds: of a batch, of an event and more of it where there are keys, of a slice, and more of it for each
    doubling of those that are held, of an answer; of an event, a slice and an answer for each partial; of a byte that
    an event or a ⊕ touches, of a ⊕ of Python objects; and of one of a technique."""

    batch: float
    event: float
    keyed: float
    slice: float
    far: float
    answer: float
    event_partial: float
    slice_partial: float
    answer_partial: float
    event_byte: float
    byte: float
    object: float
    operation: dict[str, float]

    @classmethod
    def parse(cls, read: dict[str, Any]) -> Constants:
        try:
            return cls(**{**read, "operation": {name: float(read["operation"][name]) for name in STORES}})
        except (KeyError, TypeError) as error:
            raise InvalidArgument(f"these are no costs of the engine: {type(error).__name__}: {error}") from error


def to_json(engines: dict[str, Constants]) -> str:
    return json.dumps({name: asdict(c) for name, c in engines.items()}, indent=2) + "\n"


@cache
def constants(engine: str) -> Constants:
    """Those that come with the package, of the engine for events "in order" or the "general" one."""
    return Constants.parse(json.loads((files("windlass.operator") / "costs.json").read_text())[engine])


@dataclass(frozen=True)
class EngineLoad:
    """What a tree is asked: which windows, which partials; and its edges, as a counter has them."""

    windows: frozenset[int]
    lifts: frozenset[int]
    edges: Any  # None: no fixed ones
    edge_rate: float
    open: bool = False  # with windows whose edges depend on the data

    def merged(self, other: EngineLoad, counter: Any) -> EngineLoad:
        both = [load.edges for load in (self, other) if load.edges is not None]
        edges = counter.union(*both) if len(both) == 2 else both[0] if both else None
        rate = counter.rate(edges) if len(both) == 2 else max(self.edge_rate, other.edge_rate)
        return EngineLoad(self.windows | other.windows, self.lifts | other.lifts, edges, rate, self.open or other.open)


class Counts(NamedTuple):
    """What a tree does in a unit of time."""

    events: float
    batches: float
    slices: float
    held: float
    answers: float
    operations: dict[str, float]  # by technique, for each partial
    partials: int
    bytes: int  # of the compiled ones, together
    objects: int
    folded: int = 0  # objects that events are folded into one by one


_CUT_EVERY = 16  # events: how often windows that depend on the data cut, for want of anything better


class EngineCost:
    """The cost model that trees are woven by. `lengths` (on average) and `slides` are of windows, `longest` each one's
    longest, `weights` of partials."""

    def __init__(
        self,
        observed: Observed,
        lengths: Sequence[float],
        longest: Sequence[float],
        slides: Sequence[float],
        weights: Sequence[Weight],
        techniques: Sequence[str],
        engine: str,
        keyed: bool,
    ) -> None:
        self.observed, self.techniques, self.keyed = observed, list(techniques), keyed
        self.lengths, self.slides = np.array(lengths, np.float64), np.array(slides, np.float64)
        self.longest, self.weights = np.array(longest, np.float64), list(weights)
        self.constants = constants(engine)

    def counts(self, load: EngineLoad) -> Counts:
        rate, keys, batch = self.observed
        of_key = rate / keys
        edges = min(load.edge_rate + (of_key / _CUT_EVERY if load.open else 0.0), of_key)
        which = np.fromiter(load.windows, np.int64, len(load.windows))
        lengths, slides = self.lengths[which], self.slides[which]
        partials = np.maximum(lengths * edges, 1.0)
        answers = keys * np.minimum(1.0, of_key * lengths) / slides
        longest = float(self.longest[which].max(initial=0.0))
        operations = {
            name: keys * edges * REPAIRS[name] + float(answers @ _LOOKUPS[name](partials)) for name in self.techniques
        }
        weights = [self.weights[i] for i in load.lifts]
        return Counts(
            rate,
            rate / batch,
            keys * edges,
            keys * edges * longest,
            float(answers.sum()),
            operations,
            len(weights),
            sum(w.bytes for w in weights if not w.is_object),
            sum(w.is_object for w in weights),
            sum(w.is_folded_one_by_one for w in weights),
        )

    def tree(self, load: EngineLoad) -> Priced:
        """With the technique that is cheapest for it. Ω is by slice, for one partial."""
        n = self.counts(load)
        best = min(self.techniques, key=lambda name: nanoseconds(n, name, self.constants, self.keyed))
        cost = nanoseconds(n, best, self.constants, self.keyed)
        return Priced(cost, best, n.operations[best] / n.slices)

    @property
    def common(self) -> float:
        return 0.0


def nanoseconds(n: Counts, technique: str, c: Constants, keyed: bool) -> float:
    return float(np.dot(features(n, technique, keyed), flat(c, technique)))


def features(n: Counts, technique: str, keyed: bool) -> list[float]:
    """What each constant is multiplied by, in the order of `flat`."""
    compiled, operations = n.partials - n.objects, n.operations[technique]
    return [
        n.batches,
        n.events,
        n.events if keyed else 0.0,
        n.slices,
        n.slices * log2(1 + n.held / NEAR),
        n.answers,
        n.events * n.partials,
        n.slices * n.partials,
        n.answers * n.partials,
        n.events * n.bytes,
        (n.slices + operations) * n.bytes,
        (n.slices + operations) * n.objects + n.events * n.folded,
        operations * compiled,
    ]


def flat(c: Constants, technique: str) -> list[float]:
    return [*(getattr(c, f.name) for f in fields(c)[:-1]), c.operation[technique]]
