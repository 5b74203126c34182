"""What the store tests run over: every technique, and for every aggregate its events and its brute force.

A `Case` is an aggregate with the events that bring out its corners; `INTERPRETED` has them all, `COMPILED` a few that
differ in shape. A `Form` is a way to construct a store. `forms(aggregate)` are those that can serve the aggregate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
from hypothesis import strategies as st

from windlass import aggregates as agg
from windlass.aggregates.aggregate import Aggregate
from windlass.stores import (
    DABA,
    BInt,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDequeInv,
    SlickDequeNonInv,
    SubtractOnEvict,
    TwoStacks,
)
from windlass.stores.store import Store

# --------------------------------------------------------------------------- stores


@dataclass(frozen=True)
class Form:
    """A way to construct a store. `windows` are the only ranges it answers, where it has to know them beforehand."""

    name: str
    store: type[Store]
    windows: tuple[int, ...] | None = None

    def make(self, aggregate: Aggregate, **options: Any) -> Store:
        if self.windows is not None:
            options["windows"] = list(self.windows)
        return self.store(aggregate, **options)

    def serves(self, aggregate: Aggregate) -> bool:
        if self.store is SlickDequeNonInv:
            return aggregate.selective
        return aggregate.invertible or not self.store.subtractable

    def answers(self, ranges: list[int]) -> bool:
        """Whether these ranges can be asked of it."""
        if self.store is SlickDequeInv:
            return self.windows is not None and set(ranges) <= set(self.windows)
        return self.store.answers_ranges

    def __str__(self) -> str:
        return self.name


KNOWN_WINDOWS = (3, 1, 8, 5)

FORMS = [
    Form("Recompute", Recompute),
    Form("SubtractOnEvict", SubtractOnEvict),
    Form("FlatFAT", FlatFAT),
    Form("BInt", BInt),
    Form("FlatFIT", FlatFIT),
    Form("TwoStacks", TwoStacks),
    Form("DABA", DABA),
    Form("SlickDequeInv", SlickDequeInv),
    Form("SlickDequeInv-windows", SlickDequeInv, KNOWN_WINDOWS),
    Form("SlickDequeNonInv", SlickDequeNonInv),
]


def forms(aggregate: Aggregate) -> list[Form]:
    return [form for form in FORMS if form.serves(aggregate)]


def interpreted(aggregate: Aggregate) -> Aggregate:
    """The same aggregate with its kernels run as plain Python, which is the source that is compiled otherwise."""

    def plainly(build: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *types: replace(build(*types), interpreted="a test asked for it")

    invertible = aggregate.build_invertible
    return replace(
        aggregate,
        build=plainly(aggregate.build),
        build_invertible=None if invertible is None else plainly(invertible),
    )


# --------------------------------------------------------------------------- aggregates

INTS = st.integers(-50, 50)
FEW = st.integers(-3, 3)  # many ties
# Quarters add without rounding, so sums of them can be compared exactly; NaN and the infinities pass through.
QUARTERS = st.integers(-200, 200).map(lambda n: n / 4)
FLOATS = st.one_of(QUARTERS, QUARTERS, st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0]))
POSITIVE = st.one_of(st.integers(1, 64).map(lambda n: n / 4), st.sampled_from([0.0, float("inf"), float("nan"), -1.5]))
SMALL = st.sampled_from([0.5, 1.0, 2.0, -1.0, 0.0, float("inf"), float("nan"), 1.5])
WEIGHTS = st.integers(1, 4)
BOOLS = st.booleans()
TEXTS = st.text("abé ", max_size=3)
DECIMALS = st.integers(-999, 999).map(lambda n: Decimal(n) / 100)


@dataclass(frozen=True)
class Case:
    """An aggregate, the type and strategy of each of its columns, and the name of its answer in the oracle."""

    name: str
    aggregate: Aggregate
    columns: tuple[tuple[Any, st.SearchStrategy[Any]], ...]
    oracle: str
    params: dict[str, Any] = field(default_factory=dict)
    rel: float = 0.0
    nullable: bool = True

    @property
    def dtype(self) -> Any:
        return tuple(type_ for type_, _ in self.columns)[: len(self.aggregate.columns)]

    @property
    def events(self) -> st.SearchStrategy[Any]:
        """Events of plain values, or of tuples for several columns; some of them null."""
        parts = [
            st.one_of(strategy, strategy, strategy, st.none()) if self.nullable else strategy
            for _, strategy in self.columns
        ]
        return parts[0] if len(parts) == 1 else st.tuples(*parts)

    def answer(self, window: list[Any]) -> Any:
        return oracle.answer(self.oracle, window, **self.params)

    def same(self, got: Any, expected: Any) -> bool:
        return oracle.same(got, expected, self.rel)

    def arrays(self, events: list[Any]) -> Any:
        """The events as Arrow columns, as a store takes them in bulk."""
        if len(self.columns) == 1:
            return pa.array(events, type=pa_type(self.columns[0][0]))
        rows = list(zip(*events, strict=True)) or [()] * len(self.columns)
        return tuple(pa.array(list(c), type=pa_type(t)) for c, (t, _) in zip(rows, self.columns, strict=True))

    def __str__(self) -> str:
        return self.name


def pa_type(type_: Any) -> pa.DataType:
    return type_ if isinstance(type_, pa.DataType) else pa.from_numpy_dtype(np.dtype(type_))


def one(name: str, aggregate: Aggregate, type_: Any, strategy: Any, oracle_: str, **more: Any) -> Case:
    return Case(name, aggregate, ((type_, strategy),), oracle_, **more)


def two(name: str, aggregate: Aggregate, types: Any, strategies: Any, oracle_: str, **more: Any) -> Case:
    return Case(name, aggregate, tuple(zip(types, strategies, strict=True)), oracle_, **more)


I, F, B, T = "int64", "float64", "bool", pa.string()

CASES = [
    one("sum int", agg.sum(), I, INTS, "sum"),
    one("sum float", agg.sum(), F, FLOATS, "sum"),
    one("sum decimal", agg.sum(), pa.decimal128(10, 2), DECIMALS, "sum"),
    one("count", agg.count("x"), I, INTS, "count"),
    one("count events", agg.count(), I, INTS, "count_events"),
    one("avg int", agg.avg(), I, INTS, "avg", rel=1e-12),
    one("avg float", agg.avg(), F, FLOATS, "avg", rel=1e-12),
    two("avg weighted", agg.avg("x", weight="w"), (F, I), (FLOATS, WEIGHTS), "weighted_avg", rel=1e-12),
    one("var_pop", agg.var_pop(), F, FLOATS, "var_pop", rel=1e-9),
    one("var_samp int", agg.variance(), I, INTS, "var_samp", rel=1e-9),
    one("stddev_pop", agg.stddev(sample=False), F, FLOATS, "stddev_pop", rel=1e-6),
    one("stddev_samp", agg.stddev_samp(), F, FLOATS, "stddev_samp", rel=1e-6),
    one("product", agg.product(), F, SMALL, "product"),
    one("geomean", agg.geomean(), F, POSITIVE, "geomean", rel=1e-9),
    one("bool_and", agg.bool_and(), B, BOOLS, "bool_and"),
    one("bool_or", agg.bool_or(), B, BOOLS, "bool_or"),
    one("min int", agg.min(), I, FEW, "min"),
    one("max int", agg.max(), I, FEW, "max"),
    one("min float", agg.min(), F, FLOATS, "min"),
    one("max float", agg.max(), F, FLOATS, "max"),
    one("min float, no nulls", agg.min(), F, FLOATS, "min", nullable=False),
    one("max text", agg.max(), T, TEXTS, "max"),
    one("min_max", agg.min_max(), F, FLOATS, "min_max"),
    one("spread int", agg.spread(), I, INTS, "spread"),
    one("spread float", agg.spread(), F, FLOATS, "spread"),
    two("arg_min", agg.arg_min("x", by="y"), (I, F), (INTS, FLOATS), "arg_min"),
    two("arg_max", agg.arg_max("x", by="y"), (F, I), (FLOATS, FEW), "arg_max"),
    one("min_count", agg.min_count(), I, FEW, "min_count"),
    one("max_count", agg.max_count(), F, FLOATS, "max_count"),
    one("top_n", agg.top_n(n=3), F, FLOATS, "top_n", params={"n": 3}),
    one("top_n least", agg.top_n(n=2, largest=False), T, TEXTS, "top_n", params={"n": 2, "largest": False}),
    one("first", agg.first(), I, INTS, "first"),
    one("first text", agg.first(), T, TEXTS, "first"),
    one("last", agg.last(), F, FLOATS, "last"),
    one("collect_list", agg.collect_list(), I, INTS, "collect_list"),
    one("concat", agg.concat(), T, TEXTS, "concat"),
    one("concat with commas", agg.concat(separator=","), T, TEXTS, "concat", params={"separator": ","}),
    one("ith_youngest", agg.ith_youngest(i=3), I, INTS, "ith_youngest", params={"i": 3}),
    one("ith_youngest text", agg.ith_youngest(i=2), T, TEXTS, "ith_youngest", params={"i": 2}),
    one("m4", agg.m4(), F, FLOATS, "m4"),
    two("m4 timed", agg.m4("x", time="t"), (F, I), (FLOATS, FEW), "m4_timed"),
    one("median", agg.median(), I, FEW, "median"),
    one("percentile", agg.percentile(p=90), F, FLOATS, "percentile", params={"p": 90}, rel=1e-12),
    one("quantile", agg.quantile(q=0.25), F, QUARTERS, "quantile", params={"q": 0.25}, rel=1e-12),
    one("count_distinct", agg.count_distinct(), F, FLOATS, "count_distinct"),
    one("count_distinct text", agg.count_distinct(), T, TEXTS, "count_distinct"),
    one("mode", agg.mode(), I, FEW, "mode"),
]


def case(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


MEAN = agg.define(
    "mean",
    lift=lambda x: (x, 1),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lower=lambda p: p[0] / p[1],
    inverse=lambda c, a: (c[0] - a[0], c[1] - a[1]),
    commutative=True,
)

COMPILED = [
    case("sum int"),
    case("max float"),
    case("avg float"),
    case("first"),
    case("collect_list"),
    one("user-defined mean", MEAN("x"), F, QUARTERS, "avg", rel=1e-12),
]
