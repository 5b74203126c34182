"""From queries to what is run: the windows to find, the partials to keep, and how (Scotty 5.1, Figures 4 to 6).

Equal windows are found once, equal aggregates (with equal filters) are kept once, and aggregates whose partial another
one's contains are read from that (avg holds a sum and a count). `explain` says all of this in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate, Build
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.sharing import carriers, view
from windlass.aggregates.values import ValueType
from windlass.errors import InvalidArgument
from windlass.operator.choice import Choice
from windlass.operator.query import Query
from windlass.slicing import edges
from windlass.slicing.decisions import Workload, remove_tuples, split_slices, store_tuples
from windlass.slicing.edges import LONG_AGO
from windlass.slicing.rates import Rates
from windlass.slicing.specifications import COUNT, TIME
from windlass.slicing.techniques import Technique, cut_at
from windlass.stateful import Stateful
from windlass.windows.predicate import Predicate
from windlass.windows.session import SessionGap
from windlass.windows.window import Bound, Discretizer, Periodic, Window

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Finding:
    """A distinct window of the plan: how its windows are found."""

    window: Window
    bound: Bound
    emit_empty: bool
    predicate: int | None  # which mask it reads
    measure: int  # TIME, COUNT, or 2 + the index of its column
    since: int = LONG_AGO  # of a query that was added: windows begin after this

    @property
    def is_grid(self) -> bool:
        """Whether its edges are fixed points in time."""
        return self.measure == TIME and isinstance(self.bound, Periodic)


@dataclass(frozen=True)
class Kept:
    """A distinct partial of the plan."""

    aggregate: Aggregate
    where: int | None  # which mask filters it


@dataclass(frozen=True)
class Output:
    """A result column of a query: which partial it is lowered from."""

    aggregate: Aggregate
    kept: int


@dataclass
class Plan(Stateful):
    queries: list[Query]
    unit: str | None
    in_order: bool
    store: str = "auto"
    keyed: bool = False
    technique: Technique = "auto"
    learns: bool | None = None  # whether another store may take over; None: if the user has named none
    since: int = LONG_AGO  # the last event time that the queries do not see, because they were added later
    findings: list[Finding] = field(default_factory=list)
    finding_of: list[int] = field(default_factory=list)  # by query
    kept: list[Kept] = field(default_factory=list)
    outputs: list[list[Output]] = field(default_factory=list)  # by query
    predicates: list[Predicate] = field(default_factory=list)
    measures: list[str] = field(default_factory=list)  # columns that windows are defined on
    removed: set[str] = field(default_factory=set)  # queries that were removed since
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)  # of the columns that are read, once known
    joins: list[tuple[int, int]] = field(default_factory=list)  # since when, and the first query that joined then

    def __post_init__(self) -> None:
        seen: dict[Any, int] = {}
        for query in self.queries:
            key = (query.window, query.emit_empty)
            if key not in seen:
                seen[key] = len(self.findings)
                self.findings.append(self._finding(query))
            self.finding_of.append(seen[key])
        self._keep()
        self._decide()

    def _decide(self) -> None:
        workloads = [w for q in self.queries for w in _workloads(q)]
        self.stores_tuples = store_tuples(workloads, self.in_order)
        self.splits = split_slices(workloads, self.in_order)

    def _finding(self, query: Query) -> Finding:
        window = query.window
        bound = window.bind(self.unit)
        if self.since != LONG_AGO:
            bound = bound.joining(self.since)
        _refuse_huge(query, bound)
        measure = {"time": TIME, "count": COUNT}.get(window.measure)
        if measure is None:
            if window.measure not in self.measures:
                self.measures.append(window.measure)
            measure = 2 + self.measures.index(window.measure)
        return Finding(window, bound, query.emit_empty, self._mask(window.predicate), measure, self.since)

    def _mask(self, predicate: Predicate | None) -> int | None:
        if predicate is None:
            return None
        if predicate not in self.predicates:
            self.predicates.append(predicate)
        return self.predicates.index(predicate)

    def _keep(self) -> None:
        wanted = [[(a, self._mask(q.where)) for a in q.aggregates] for q in self.queries]
        distinct = list(dict.fromkeys((_plain(a), where) for row in wanted for a, where in row))
        for a, where in distinct:
            carried = any((c, where) in distinct for c in carriers(a))
            if not carried:
                self.kept.append(Kept(a, where))
        self._wanted = wanted

    def resolve(self, types: Mapping[str, ValueType]) -> list[Monoid]:
        """The monoids of the kept partials, and which of them each result column is read from, for these types."""
        # A carrier may turn out not to hold the partial for these types (the mean of big integers is no exact sum).
        self.outputs = []
        for row in self._wanted:
            outputs = []
            for a, where in row:
                outputs.append(Output(a, self._place(_plain(a), where, types)))
            self.outputs.append(outputs)
        return [self._monoid(k.aggregate, types) for k in self.kept]

    def _place(self, a: Aggregate, where: int | None, types: Mapping[str, ValueType]) -> int:
        for i, k in enumerate(self.kept):
            if k.where == where and (
                k.aggregate == a
                or (k.aggregate in carriers(a) and view(self._monoid(k.aggregate, types), self._monoid(a, types), a))
            ):
                return i
        self.kept.append(Kept(a, where))
        return len(self.kept) - 1

    @staticmethod
    def _monoid(a: Aggregate, types: Mapping[str, ValueType]) -> Monoid:
        of = tuple(types[c or ""] for c in a.columns)
        if type(a) is not Aggregate or a.definition or a.scan is not None:
            return a.monoid(of)
        return _built_in(a, a.build, of)

    def lowering(self, output: Output, monoids: Sequence[Monoid], types: Mapping[str, ValueType]) -> Monoid:
        """The monoid whose `lower` makes this result of its partial."""
        kept = self.kept[output.kept].aggregate
        plain = _plain(output.aggregate)
        if kept == plain:
            return monoids[output.kept]
        found = view(monoids[output.kept], self._monoid(plain, types), plain)
        assert found is not None
        return found

    @property
    def unused_findings(self) -> set[int]:
        """Windows that only removed queries have asked for."""
        used = {f for q, f in zip(self.queries, self.finding_of, strict=True) if q.name not in self.removed}
        return set(range(len(self.findings))) - used

    @property
    def unused_kept(self) -> set[int]:
        """Partials that only removed queries have asked for."""
        pairs = zip(self.queries, self.outputs, strict=True)
        used = {o.kept for q, outputs in pairs if q.name not in self.removed for o in outputs}
        return set(range(len(self.kept))) - used

    def join(self, other: Plan, types: Mapping[str, ValueType]) -> list[Monoid]:
        """Take in the queries of another plan, from its `since` on. What there is keeps its place; returns the monoids
        of all kept partials."""
        self.joins.append((other.since, len(self.queries)))
        self.finding_of += [len(self.findings) + i for i in other.finding_of]
        self.findings += other.findings
        self.queries = [*self.queries, *other.queries]
        wanted = [[(a, self._mask(q.where)) for a in q.aggregates] for q in other.queries]
        self._wanted += wanted
        self.outputs += [[Output(a, self._place(_plain(a), where, types)) for a, where in row] for row in wanted]
        self.dtypes = {**other.dtypes, **self.dtypes}
        self._decide()
        for name, made in vars(Plan).items():
            if isinstance(made, cached_property) and name != "eager":  # the store stays what it is
                self.__dict__.pop(name, None)
        return [self._monoid(k.aggregate, types) for k in self.kept]

    def remove(self, name: str, gone: str) -> None:
        """A query is asked no more; what was planned with it stays, so it is known as `gone` from now on."""
        self.queries = [q.named(gone) if q.name == name else q for q in self.queries]
        self.removed.add(gone)
        for what in ("columns_read", "window_columns_read", "masks_read", "can_fail", "asked", "most_asked", "rates"):
            self.__dict__.pop(what, None)

    @cached_property
    def columns_read(self) -> set[str]:
        """Columns that queries read which were not removed; others need not be there any more."""
        left = [q for q in self.queries if q.name not in self.removed]
        return {c for q in left for a in q.aggregates for c in a.columns if c is not None} | self.window_columns_read

    @cached_property
    def window_columns_read(self) -> set[str]:
        """The columns that windows read. Only these must not contain nulls or values that do not fit."""
        return {c for q in self.queries if q.name not in self.removed for c in q.window.columns}

    def measured(self) -> Iterator[tuple[int, str, list[int]]]:
        """The measures that remaining queries use: index, column name and findings of each."""
        gone = self.unused_findings
        for c, name in enumerate(self.measures):
            on_it = [i for i, f in enumerate(self.findings) if f.measure == 2 + c and i not in gone]
            if on_it:
                yield c, name, on_it

    @cached_property
    def masks_read(self) -> set[int]:
        left = [q for q in self.queries if q.name not in self.removed]
        return {self.predicates.index(p) for q in left for p in (q.where, q.window.predicate) if p is not None}

    # ------------------------------------------------------------------ what it needs

    @cached_property
    def can_fail(self) -> bool:
        """Whether functions of the user's are called, which may raise in the middle of things."""
        left = [q for q in self.queries if q.name not in self.removed]
        return any(q.window.can_fail or any(a.definition for a in q.aggregates) for q in left)

    @cached_property
    def has_past_ends(self) -> bool:
        """Whether a key may have empty windows that end before its first event, as `Cumulate` does."""
        bounds = [f.bound for f in self.findings if f.emit_empty]
        return any(isinstance(b, Periodic) and b.period > 0 and b.ends > 1 for b in bounds)

    @cached_property
    def columns(self) -> list[str]:
        """Columns that aggregates read."""
        return list(dict.fromkeys(c for q in self.queries for a in q.aggregates for c in a.columns if c is not None))

    @cached_property
    def window_columns(self) -> list[str]:
        """Columns that windows read, those they are defined on among them."""
        return list(dict.fromkeys(c for f in self.findings for c in f.window.columns))

    @cached_property
    def given_columns(self) -> list[str]:
        """Columns that functions of windows are given."""
        return list(dict.fromkeys(c for f in self.findings if f.measure <= COUNT for c in f.window.columns))

    @cached_property
    def held(self) -> list[str]:
        """The columns of events as they are held."""
        return list(dict.fromkeys([*self.columns, *self.given_columns, *map(as_measure, self.measures)]))

    @cached_property
    def periodic(self) -> list[int]:
        return [i for i, f in enumerate(self.findings) if isinstance(f.bound, Periodic)]

    @cached_property
    def has_ordinals(self) -> Array:
        """Mask by finding: True if windows of a key may have equal bounds."""
        return np.array([f.window.has_ordinals for f in self.findings], np.bool_)

    @cached_property
    def discretizers(self) -> list[int]:
        return [i for i, f in enumerate(self.findings) if isinstance(f.bound, Discretizer)]

    @cached_property
    def sessions(self) -> list[int]:
        return [i for i, f in enumerate(self.findings) if isinstance(f.bound, SessionGap)]

    def specs(self) -> Array:
        """The periodic findings as kernels see them."""
        rows = []
        for i in self.periodic:
            f, b = self.findings[i], self.findings[i].bound
            assert isinstance(b, Periodic)
            rows.append((b.origin, b.period, b.step, b.ends, i, f.measure, f.emit_empty))
        return np.array(rows, np.int64).reshape(-1, 7)

    @cached_property
    def asked(self) -> Array:
        """For each finding, how many queries ask for it."""
        left = [at for q, at in zip(self.queries, self.finding_of, strict=True) if q.name not in self.removed]
        return np.bincount(np.array(left, np.int64), minlength=len(self.findings))

    @cached_property
    def most_asked(self) -> int:
        """How many queries ask for the same window."""
        return int(self.asked.max(initial=0))

    @cached_property
    def rates(self) -> Rates:
        """Upper bounds on the number of windows with fixed edges."""
        return Rates(self.specs(), self.asked)

    @cached_property
    def eager(self) -> bool:
        """Whether blocks of slices pay: when a window combines many slices."""
        if self.store != "auto":
            return self.store in ("eager", "flatfat") or (self.store == "fiba" and not self.general)
        lazy, eager = self.combine_rates()
        return lazy > 2 * eager

    @property
    def as_tree(self) -> bool:
        """Whether what an eager store keeps is a binary tree rather than blocks."""
        return self.store == "flatfat"

    @property
    def chosen(self) -> str:
        """What answers windows, to begin with."""
        return "fiba" if self.store == "fiba" and self.general else "eager" if self.eager else "lazy"

    @cached_property
    def is_wide(self) -> bool:
        """Whether a window may have so many slices that how deep late ones fall among them matters."""
        if not self.general or self.in_order:
            return False
        bounds = [b for b in (self.findings[i].bound for i in self.periodic) if isinstance(b, Periodic) and b.period]
        both = edges.together(edges.begins(bounds), edges.ends(bounds))
        rate = sum(1 / p for _, p, _ in both.tolist() if p)
        return any(b.step * max(1, b.ends) * rate > _WIDE for b in bounds)

    @property
    def may_learn(self) -> bool:
        """Whether late events may tell that another store is better."""
        asked = self.store == "auto" if self.learns is None else self.learns
        return asked and self.is_wide and not self.as_tree

    def combine_rates(self) -> tuple[float, float]:
        """⊕ a time unit to answer windows from slices, lazily and from blocks, if events are everywhere."""
        bounds = [b for b in (self.findings[i].bound for i in self.periodic) if isinstance(b, Periodic) and b.period]
        both = (
            cut_at(self.technique, bounds)
            if self.in_order
            else edges.together(edges.begins(bounds), edges.ends(bounds))
        )
        rate = sum(1 / p for _, p, _ in both.tolist() if p) if len(bounds) else 0.0
        lazy = eager = 2 * rate
        for b in bounds:
            windows, slices = b.ends / b.period, max(1.0, b.step * (b.ends + 1) / 2 * rate)
            lazy += windows * slices
            eager += windows * (slices if slices <= 8 else 4)
        return lazy, eager

    # ------------------------------------------------------------------ explain

    def explain(self, choice: Choice | None = None) -> str:
        """In words; with the choice of a running engine, what that has learned."""
        if self.removed:
            left = Plan(
                [q for q in self.queries if q.name not in self.removed],
                self.unit,
                self.in_order,
                self.store,
                self.keyed,
                self.technique,
                self.learns,
                self.since,
            )
            return left.explain(choice)
        q, f, k = len(self.queries), len(self.findings), len(self.kept)
        wanted = sum(len(query.aggregates) for query in self.queries)
        lines = [
            f"{_counted(q, 'query', 'queries')} over {_counted(f, 'distinct window')}; "
            f"{_counted(wanted, 'aggregate')} from {_counted(k, 'partial')} a slice",
            f"  order      {'in-order: every event is a watermark' if self.in_order else 'out-of-order'}",
            f"  slicing    {self.slicing}",
            f"  tuples     {_decided(self.stores_tuples, 'kept', 'dropped')}",
            f"  splits     {_decided(self.splits, 'possible', 'never')}",
        ]
        for query in self.queries:
            for w in _workloads(query)[:1]:
                how, _ = remove_tuples(w, self.in_order)
                if how != "never":
                    lines.append(
                        f"  removal    {query.name}: late events shift positions, so tuples replay (Figure 6: {how})"
                    )
        lazy, eager = self.combine_rates()
        shown = f" (⊕ to answer, relative: lazy {lazy / eager:.1f}, eager 1)" if eager else ""
        store = self.chosen if choice is None else choice.store
        if choice is not None and choice.explain():
            shown = f" (relative: {choice.explain()})"
        elif self.store == "fiba":
            shown = " (slices come in order here: FiBA is for general slicing)" if not self.general else ""
        elif self.may_learn:
            shown += "; another if late events fall so that it pays"
        lines.append(f"  store      {'eager: a tree of slices' if self.as_tree else _STORES[store]}{shown}")
        lines += ["  windows"]
        for i, finding in enumerate(self.findings):
            names = [q.name for q, at in zip(self.queries, self.finding_of, strict=True) if at == i]
            lines.append(f"    {finding.window!r} ({finding.window.context})  ← {_some(names)}")
        lines += ["  partials"]
        for kept in self.kept:
            where = "" if kept.where is None else f" where {self.predicates[kept.where]!r}"
            users = [
                q.name
                for q, row in zip(self.queries, self._wanted, strict=True)
                if any(
                    w == kept.where and (_plain(a) == kept.aggregate or kept.aggregate in carriers(_plain(a)))
                    for a, w in row
                )
            ]
            lines.append(f"    {kept.aggregate!r}{where}  ← {_some(users)}")
        return "\n".join(lines)

    @cached_property
    def general(self) -> bool:
        """Whether slices lie between all edges, so that a batch costs its own events, however many keys there are.

        In order, slices could begin where windows begin only (Cutty); that takes a look at every key for each batch, so
        with keys it is left to windows that need it, and to empty ones.
        """
        fixed = all(f.is_grid or isinstance(f.bound, SessionGap) for f in self.findings)
        empty = any(f.emit_empty for f in self.findings)
        in_order = self.keyed and not empty and self.technique == "auto"
        return not self.stores_tuples.yes and fixed and (not self.in_order or in_order)

    @property
    def slicing(self) -> str:
        if self.general:
            return "general: slices between all begins and ends" + (", cut where sessions may" if self.sessions else "")
        if self.technique in ("pairs", "panes"):
            return {
                "pairs": "Pairs: slices between begins and ends of windows",
                "panes": "Panes: slices of a length that divides range and slide",
            }[self.technique]
        if self.in_order:
            return "Cutty: slices begin where windows begin"
        return "Cutty on events put in order, again from the first change when one comes late"


def as_measure(name: str) -> str:
    """Under what name events hold a column that windows are defined on; under its own, aggregates read it."""
    return f"{name} as a measure"


def sharing(queries: Iterable[Query], in_order: bool) -> list[list[Query]]:
    """Which queries are planned together: those that share slices.

    Those that need tuples are apart from those that do not. Out of order, what a query refuses as too late does not
    exist for it; the slices of one that may look back over such events are its own.
    """
    groups: dict[Any, list[Query]] = {}
    for query in queries:
        keeps = store_tuples(_workloads(query), in_order).yes
        apart = keeps and not in_order and query.window.looks_back
        groups.setdefault(query.window if apart else keeps, []).append(query)
    return list(groups.values())


_STORES = {
    "lazy": "lazy: slices in order",
    "eager": "eager: blocks of slices, or prefixes where sums wrap",
    "fiba": "fiba: a finger B-tree over the slices of each key",
}
_WIDE = 128  # slices
_LONGEST, _MOST_ENDS = 2**61, 1_000_000  # sums of times and lengths stay within 64 bits


def _refuse_huge(query: Query, bound: Bound) -> None:
    for name, value in vars(bound).items():
        limit = 2 * _LONGEST if name == "origin" else _LONGEST
        if name != "since" and isinstance(value, int) and abs(value) > limit:
            raise InvalidArgument(f"query {query.name!r}: the {name} of {query.window!r} is beyond {limit}: {value}")
    if isinstance(bound, Periodic) and bound.step * max(1, bound.ends) > _LONGEST:
        raise InvalidArgument(f"query {query.name!r}: {query.window!r} is longer than {_LONGEST}")
    if isinstance(bound, Periodic) and bound.ends > _MOST_ENDS:
        raise InvalidArgument(
            f"query {query.name!r}: {query.window!r} has {bound.ends} windows for each start, more than {_MOST_ENDS}; "
            "take longer steps"
        )


@lru_cache(maxsize=256)
def _built_in(a: Aggregate, build: Build, types: tuple[ValueType, ...]) -> Monoid:
    """Made once: to find out which kernels are its own takes longer than to plan some queries. Aggregates that are
    equal may be built in different ways."""
    return a.monoid(types)


def _plain(a: Aggregate) -> Aggregate:
    return a if a.output is None else replace(a, output=None)


def _workloads(query: Query) -> list[Workload]:
    return [
        Workload(
            query.name,
            query.window.context,
            query.window.is_session,
            query.window.measure,
            a.commutative,
            a.invertible,
            a.selective,
        )
        for a in query.aggregates
    ]


def _decided(decision: Any, yes: str, no: str) -> str:
    return f"{yes if decision.yes else no}: {decision.reason}"


def _counted(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
