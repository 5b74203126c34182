"""Calls of operators that may be interrupted anywhere, against the oracle.

A scenario is a list of steps for an operator and for the oracle alike. The last one is the call; what is read after it
is all that would still come out: the rows of `finish`, and the late events.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import oracle
import pyarrow as pa
from faults.injection import Case
from oracle import LastN, Punctuation, Session, Sliding, Tumbling

import windlass
from tests.operator.rows import Asked, Named, event, operator_rows, table
from windlass.operator.slicer import Slicer

Step = tuple[Any, ...]
Events = Sequence[Mapping[str, Any]]


def of_keys(times: Sequence[int], keys: int, first: int = 0) -> Events:
    """Events of `keys` keys in turn."""
    return [event(ts, id=first + i, k=f"k{i % keys}", x=i, flag=i % 3 == 0) for i, ts in enumerate(times)]


@dataclass(frozen=True)
class Scenario:
    """Steps are ("process", events), ("slices", events), ("advance", watermark), ("finish",), ("late",),
    ("add", query), ("remove", name) and ("change", queries)."""

    name: str
    asked: tuple[Asked, ...]
    steps: tuple[Step, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def case(self) -> Case:
        *before, last = self.steps
        return Case(
            name=f"Operator.{_METHODS[last[0]]}, {self.name}",
            make=lambda: self._operator(before),
            call=lambda operator: self._step(operator, last),
            shown=self._shown,
            read=self._rest,
            expected=self._expected,
            save=lambda operator: operator.snapshot(),
            restore=lambda operator, data: operator.restore(data),
            refused=self._refused(),
            allowed=(repr, lambda operator: operator.counters, lambda operator: operator.watermark),
        )

    def _refused(self) -> tuple[Callable[[Any], Any], ...]:
        looks: list[Callable[[Any], Any]] = [
            lambda operator: operator.snapshot(),
            lambda operator: operator.explain(),
            copy.copy,
            copy.deepcopy,
        ]
        if self.steps[-1][0] != "finish":
            looks += [lambda operator: operator.process(table([])), lambda operator: operator.peek()]
        return tuple(looks if self.asked == MINE else [*looks, pickle.dumps])  # functions of a test are not pickled

    # ------------------------------------------------------------------ the operator

    def _operator(self, steps: Sequence[Step]) -> Any:
        options = dict(self.options)
        if "watermarks" in options:
            options["watermarks"] = windlass.Watermarks(*options["watermarks"])
        operator = windlass.Operator([query.for_operator() for query in self.asked], time="ts", **options)
        operator.bind(table([]).schema)
        for step in steps:
            self._step(operator, step)
        return operator

    def _step(self, operator: Any, step: Step) -> Any:
        name, *given = step
        if name == "process":
            operator.process(table(given[0]))
        elif name == "slices":
            operator.process_slices(self._slices(given[0]))
        elif name == "add":
            operator.add(given[0].for_operator())
        elif name == "remove":
            operator.remove(given[0])
        elif name == "change":
            operator.change_queries([query.for_operator() for query in given[0]])
        else:
            return getattr(operator, name)(*given)
        return None

    def _shown(self, value: Any) -> Any:
        if isinstance(value, pa.Table):
            return sorted(row["id"] for row in value.to_pylist())
        return None if value is None else self._rows(value)

    def _slices(self, events: Events) -> pa.Table:
        queries = [query.for_operator() for query in self.asked]
        slicer = Slicer(queries, table([]).schema, time="ts", key=self.options.get("key"))
        slicer.process(table(events))
        return slicer.take()

    def _rest(self, operator: Any) -> Any:
        other = copy.copy(operator)
        late = sorted(row["id"] for row in other.late().to_pylist())
        rows = [] if other._finished else self._rows(other.finish())
        counters = operator.counters
        return rows, late, [counters[name] for name in ("events", "late", "expired")]

    def _rows(self, results: Any) -> list[str]:
        asked = [query for query in self._all_asked() if query.name in results.queries]
        return sorted(map(repr, operator_rows(results, asked, self._key())))

    def _all_asked(self) -> list[Asked]:
        added = [step[1] for step in self.steps if step[0] == "add"]
        changed = [query for step in self.steps if step[0] == "change" for query in step[1] if query not in self.asked]
        return [*self.asked, *added, *changed]

    def _key(self) -> tuple[str, ...]:
        return ("k",) if "key" in self.options else ()

    # ------------------------------------------------------------------ the oracle

    def _expected(self) -> tuple[Any, Any]:
        options = {**self.options, "key": self._key()}
        if options.pop("order", "") == "in-order":
            options["in_order"] = True
        stream = oracle.Stream([query.for_oracle() for query in self.asked], **options)
        value: Any = None
        for name, *given in self.steps:
            value = None
            if name in ("process", "slices"):
                stream.process(given[0])
            elif name == "late":
                value = sorted(row["id"] for row in stream.late())
            elif name == "add":
                stream.add(given[0].for_oracle())
            elif name == "remove":
                stream.remove(given[0])
            elif name == "change":
                self._change(stream, given[0])
            else:
                value = sorted(map(repr, getattr(stream, name)(*given)))
        counters = [stream.arrived, stream.came_late, stream.expired]
        late = sorted(row["id"] for row in stream.late())
        rows = [] if self.steps[-1][0] == "finish" else sorted(map(repr, stream.finish()))
        return value, (rows, late, counters)

    def _change(self, stream: Any, wanted: Sequence[Asked]) -> None:
        here, there = {query.name for query in self.asked}, {query.name for query in wanted}
        for query in wanted:
            if query.name not in here:
                stream.add(query.for_oracle())
        for name in here - there:
            stream.remove(name)


_METHODS = {"slices": "process_slices", "change": "change_queries"} | {
    name: name for name in ("process", "advance", "finish", "late", "add", "remove")
}

FIXED = (Asked("sliding", Sliding(10, 5), ("sum", "events")), Asked("tumbling", Tumbling(10), ("max",)))
SESSIONS = (Asked("sessions", Session(3), ("sum", "events")), Asked("fixed", Tumbling(20), ("sum",)))
TUPLES = (
    Asked("pairs", Tumbling(2, measure="count"), ("list",)),
    Asked("marks", Punctuation(Named("flag")), ("list",)),
    Asked("last", LastN(3, 5), ("list",)),
)
MINE = (Asked("mine", Sliding(10, 5), ("digits",)), Asked("some", Tumbling(10), ("sum",), "odd"))
LATE = {"key": "k", "allowed_lateness": 20}

EARLY = of_keys((1, 4, 8, 12, 3, 14), 2)
MORE = of_keys(tuple(range(15, 40)), 24, first=6)  # of more keys than there was room for
MIXED = of_keys((2, 16, 7, 18, 11, 26), 3, first=6)  # half of them late at 15
OLD = of_keys((1, 40, 2, 43), 2, first=6)

SORTED = of_keys((1, 4, 4, 9, 12, 30), 2)
FOLLOWING = {"key": "k", "allowed_lateness": 20, "watermarks": (2, 1)}
ORDERED = {"key": "k", "order": "in-order"}

SCENARIOS = (
    Scenario("slices, the first events", FIXED, (("process", EARLY),), {"key": "k"}),
    Scenario("slices, more keys", FIXED, (("process", EARLY), ("advance", 10), ("process", MORE)), {"key": "k"}),
    Scenario("slices, late events", FIXED, (("process", EARLY), ("advance", 15), ("process", MIXED)), LATE),
    Scenario("slices, expired events", FIXED, (("process", EARLY), ("advance", 30), ("process", OLD)), {"key": "k"}),
    Scenario("slices", FIXED, (("process", EARLY), ("advance", 15), ("process", MIXED), ("advance", 20)), LATE),
    Scenario("slices", FIXED, (("process", EARLY), ("advance", 15), ("process", MIXED), ("finish",)), LATE),
    Scenario("sessions", SESSIONS, (("process", EARLY), ("advance", 15), ("process", MIXED), ("advance", 25)), LATE),
    Scenario("from a slicer", FIXED, (("slices", EARLY), ("advance", 10), ("slices", MORE)), {"key": "k"}),
    Scenario("tuples, more keys", TUPLES, (("process", EARLY), ("advance", 10), ("process", MORE)), LATE),
    Scenario("tuples", TUPLES, (("process", EARLY), ("advance", 15), ("process", MIXED), ("advance", 20)), LATE),
    Scenario("tuples", TUPLES, (("process", EARLY), ("advance", 15), ("process", MIXED), ("finish",)), LATE),
    Scenario("in order", FIXED, (("process", EARLY[:4]), ("process", of_keys((15, 18, 40), 1))), {"order": "in-order"}),
    Scenario("in order", FIXED, (("process", EARLY[:4]), ("advance", 30)), {"order": "in-order"}),
    Scenario("watermarks that follow", FIXED, (("process", EARLY), ("process", MIXED)), FOLLOWING),
    Scenario("watermarks that follow", FIXED, (("process", EARLY), ("process", MIXED), ("advance",)), FOLLOWING),
    Scenario("in order, tuples", TUPLES, (("process", SORTED[:3]), ("process", SORTED[3:])), ORDERED),
    Scenario("in order, tuples", TUPLES, (("process", SORTED[:3]), ("process", SORTED[3:]), ("advance",)), ORDERED),
    Scenario("functions", MINE, (("process", EARLY), ("advance", 15), ("process", MIXED)), LATE),
    Scenario("functions", MINE, (("process", EARLY), ("advance", 15), ("process", MIXED), ("advance", 20)), LATE),
    Scenario("expired events", FIXED, (("process", EARLY), ("advance", 30), ("process", OLD), ("late",)), {"key": "k"}),
    Scenario("slices", FIXED[:1], (("process", EARLY), ("add", FIXED[1])), {"key": "k"}),
    Scenario("added", FIXED[:1], (("process", EARLY), ("add", FIXED[1]), ("process", MORE)), {"key": "k"}),
    Scenario("slices", FIXED, (("process", EARLY), ("remove", "tumbling")), {"key": "k"}),
    Scenario("slices", FIXED, (("process", EARLY), ("change", (FIXED[0], *SESSIONS[:1]))), {"key": "k"}),
)

CASES = [scenario.case() for scenario in SCENARIOS]
