"""The operator and the oracle side by side: one description of a query for both, and the rows of both in one form.

Asked            a query by names: an oracle's window, names of aggregates, the name of a filter
operator_rows    what the operator returned, as the oracle's rows
Twins            an operator and an oracle that are given the same; every difference fails
"""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windlass
from windlass import agg, windows
from windlass.errors import OutOfOrder
from windlass.operator.slicer import Slicer

# --------------------------------------------------------------------------- events

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.string(),
        "j": pa.int64(),
        "seq": pa.int64(),
        "id": pa.int64(),  # tells events apart
        "x": pa.int64(),
        "y": pa.int64(),
        "f": pa.float64(),  # quarters, whose sums are exact
        "flag": pa.bool_(),
        "km": pa.int64(),  # does not decrease with time
        "miles": pa.float64(),  # nor do these
    }
)


def event(ts: int, **columns: Any) -> dict[str, Any]:
    """An event with the columns that are given; the others follow from its time."""
    made = {"ts": ts, "k": None, "j": 0, "seq": 0, "id": 0, "x": ts, "y": 0, "f": ts / 4, "flag": False, "km": ts // 2}
    return made | {"miles": ts * 3 / 7} | columns


def table(events: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in events], schema=SCHEMA)


# --------------------------------------------------------------------------- what queries are made of

# Non-commutative and compiled: the base-7 digits of a number, oldest first, modulo a prime.
PRIME = 1_000_003


def _lift(x: Any) -> Any:
    return x % PRIME, 7


def _combine(a: Any, b: Any) -> Any:
    return (a[0] * b[1] + b[0]) % PRIME, a[1] * b[1] % PRIME


def _lower(p: Any) -> Any:
    return p[0]


digits = agg.define("digits", lift=_lift, combine=_combine, lower=_lower)


def digits_of(window: Sequence[Any]) -> int | None:
    xs, number = oracle.values(window), 0
    for x in xs:
        number = (number * 7 + x % PRIME) % PRIME
    return number if xs else None


AGGREGATES: dict[str, tuple[Any, oracle.Asked]] = {
    "sum": (agg.sum("x"), oracle.Asked(oracle.sum_, ("x",))),
    "sum_f": (agg.sum("f"), oracle.Asked(oracle.sum_, ("f",))),
    "events": (agg.count(), oracle.Asked(oracle.count_events)),
    "count": (agg.count("x"), oracle.Asked(oracle.count, ("x",))),
    "avg": (agg.avg("x"), oracle.Asked(oracle.avg, ("x",))),
    "min": (agg.min("x"), oracle.Asked(oracle.min_, ("x",))),
    "max": (agg.max("x"), oracle.Asked(oracle.max_, ("x",))),
    "first": (agg.first("x"), oracle.Asked(oracle.first, ("x",))),
    "last": (agg.last("id"), oracle.Asked(oracle.last, ("id",))),
    "list": (agg.collect_list("id"), oracle.Asked(oracle.collect_list, ("id",))),
    "median": (agg.median("x"), oracle.Asked(oracle.median, ("x",))),
    "arg_max": (agg.arg_max("id", by="x"), oracle.Asked(oracle.arg_max, ("id", "x"))),
    "digits": (digits("x"), oracle.Asked(digits_of, ("x",))),
    "furthest": (agg.max("miles"), oracle.Asked(oracle.max_, ("miles",))),
}
# Those that need data made for them.
OTHERS: dict[str, tuple[Any, oracle.Asked]] = {
    "vwap": (agg.avg("f", weight="y"), oracle.Asked(oracle.weighted_avg, ("f", "y"))),
}

# Those that slices which were cut elsewhere have.
SLICED = ("sum", "sum_f", "events", "count", "avg", "min", "max", "arg_max", "furthest")


def _odd(table: pa.Table) -> Any:
    return pc.equal(pc.bit_wise_and(table["y"], 1), 1)


# Conditions, as the operator and as the oracle take them.
CONDITIONS: dict[str, tuple[Any, oracle.Condition]] = {
    "flag": ("flag", "flag"),
    "y > 1": (pc.field("y") > 1, lambda columns: columns["y"] > 1),
    "odd": (_odd, lambda columns: columns["y"] % 2 == 1),
}


@dataclass(frozen=True)
class Named:
    """A condition by its name, in the place of an oracle's own."""

    name: str


@dataclass(frozen=True)
class Asked:
    """A query for both. A window's predicate is `Named`."""

    name: str
    window: Any
    aggregates: tuple[str, ...] = ("list",)
    where: str | None = None
    emit_empty: bool = False

    def for_oracle(self) -> oracle.Query:
        asked = tuple((AGGREGATES | OTHERS)[name][1] for name in self.aggregates)
        where = None if self.where is None else CONDITIONS[self.where][1]
        return oracle.Query(self.name, self._window(type(self.window), 1), asked, where, self.emit_empty)

    def for_operator(self) -> Any:
        asked = [(AGGREGATES | OTHERS)[name][0].alias(name) for name in self.aggregates]
        where = None if self.where is None else CONDITIONS[self.where][0]
        window = self._window(getattr(windows, type(self.window).__name__), 0)
        return windlass.Query(self.name, window, *asked, where=where, emit_empty=self.emit_empty)

    def _window(self, make: Callable[..., Any], side: int) -> Any:
        given = {field.name: getattr(self.window, field.name) for field in fields(self.window)}
        return make(**{k: CONDITIONS[v.name][side] if isinstance(v, Named) else v for k, v in given.items()})


# --------------------------------------------------------------------------- results as rows


def operator_rows(results: Any, asked: Iterable[Asked], key: Sequence[str]) -> list[oracle.Row]:
    """What the operator returned, query by query."""
    rows = []
    for query in asked:
        for got in results[query.name].to_pylist():
            start, end = got["window"]["start"], got["window"]["end"]
            low, high = got.get("low", start), got.get("high", end)
            values = tuple(got[name] for name in query.aggregates)
            keys = tuple(got[name] for name in key)
            history = got["revision"], got["retraction"]
            rows.append(oracle.Row(query.name, keys, low, high, start, end, *history, values, got.get("ordinal", 0)))
    assert len(results) == len(rows)
    return rows


def assert_same_rows(got: Iterable[oracle.Row], want: Iterable[oracle.Row], when: str) -> None:
    """Equal as multisets; types count, so 1 is not 1.0."""
    have, due = Counter(map(repr, got)), Counter(map(repr, want))
    missing = "".join(f"\n  missing    {row}" for row in (due - have).elements())
    surplus = "".join(f"\n  unexpected {row}" for row in (have - due).elements())
    assert have == due, f"{when}:{missing}{surplus}"


class Twins:
    """An operator and an oracle, given the same events and watermarks."""

    def __init__(
        self,
        asked: Sequence[Asked],
        *,
        key: Sequence[str] = (),
        sequence: str | None = None,
        allowed_lateness: int = 0,
        in_order: bool = False,
        store: str = "auto",
        key_ttl: int | None = None,
        watermarks: tuple[int, int] | None = None,
        late_waits: bool = False,
        **options: Any,
    ) -> None:
        self.asked, self.key, self.in_order = list(asked), tuple(key), in_order
        self.options: dict[str, Any] = {
            "time": "ts",
            "key": (list(key) if len(key) != 1 else key[0]) or None,
            "sequence": sequence,
            "allowed_lateness": allowed_lateness,
            "order": "in-order" if in_order else "out-of-order",
            "store": store,
            "key_ttl": key_ttl,
            "watermarks": None if watermarks is None else windlass.Watermarks(*watermarks),
            **options,
        }
        self.late_waits = late_waits  # until it is asked for, or the end
        self.operator = self._operator()
        self.oracle = oracle.Stream(
            [query.for_oracle() for query in asked],
            key=key,
            sequence=sequence,
            allowed_lateness=allowed_lateness,
            in_order=in_order,
            key_ttl=key_ttl,
            watermarks=watermarks,
        )
        self.log: list[str] = []
        self.revisions: Counter[Any] = Counter()  # how many rows came out of each window
        self.sliced: set[int] = set()  # events that were given in slices
        self.other: Twins | None = None  # a copy, or what this is a copy of

    def _operator(self) -> Any:
        return windlass.Operator([query.for_operator() for query in self.asked], **self.options | self._plan())

    def _plan(self) -> dict[str, Any]:
        """The plan that was asked for, with the queries that are there now."""
        if self.options.get("plan") is None:
            return {}
        left = [query.name for query in self.asked]
        trees = [([name for name in names if name in left], by) for names, by in self.options["plan"]]
        known = [name for names, _ in trees for name in names]
        return {"plan": [tree for tree in trees if tree[0]] + [([n], "auto") for n in left if n not in known]}

    def process(self, *batches: Sequence[Mapping[str, Any]]) -> Twins:
        for batch in batches:
            self.log.append(f"process {[row['ts'] for row in batch]}")
            try:
                self.oracle.process(batch)
            except oracle.Refused as error:
                with pytest.raises(OutOfOrder):
                    self.operator.process(table(batch))
                self.log.append(f"refused: {error}")
            else:
                self.operator.process(table(batch))
            self._check_counters()
        return self

    def slices(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Give the events of a batch as slices, if the queries allow it. Slices have no order, and no watermarks."""
        whole = any(type(query.window) in SLIDING and query.window.measure == "time" for query in self.asked)
        if not whole or any(type(q.window) not in GRID or q.window.measure != "time" for q in self.asked):
            self.process(batch)
            return
        self.log.append(f"slices {[row['ts'] for row in batch]}")
        queries = [query.for_operator() for query in self.asked]
        slicer = Slicer(queries, SCHEMA, time="ts", key=self.options["key"])
        slicer.process(table(batch[:2]))
        slicer.process(table(batch[2:]))
        self.operator.bind(SCHEMA)
        self.operator.process_slices(slicer.take())
        self.oracle.process(batch)
        self.sliced.update(row["id"] for row in batch)
        self._check_counters()

    def advance(self, w: int | None = None) -> list[oracle.Row]:
        self.log.append(f"advance {w}")
        results = self.operator.advance() if w is None else self.operator.advance(w)
        return self._check(results, self.oracle.advance(w))

    def finish(self, partial: bool = False) -> list[oracle.Row]:
        self.log.append(f"finish {partial}")
        self._finish_other()
        rows = self._check(self.operator.finish(partial=partial), self.oracle.finish(partial))
        self.late()
        return rows

    def add(self, query: Asked) -> None:
        self.log.append(f"add {query.name}")
        self.asked.append(query)
        self.operator.add(query.for_operator())
        self.oracle.add(query.for_oracle())

    def remove(self, name: str) -> None:
        self.log.append(f"remove {name}")
        self._forget_revisions(name)
        self.asked = [query for query in self.asked if query.name != name]
        self.operator.remove(name)
        self.oracle.remove(name)

    def _forget_revisions(self, name: str) -> None:
        self.revisions = Counter({identity: n for identity, n in self.revisions.items() if identity[0] != name})

    def restart(self) -> None:
        """Go on in a new operator from a snapshot of this one."""
        self.log.append("restart")
        self.operator = self._operator().restore(self.operator.snapshot())

    def exchange(self, kept: Sequence[str], *more: Asked) -> None:
        """Go on from a snapshot in an operator that has some of the queries, and others."""
        self.log.append(f"exchange {list(kept)} {[query.name for query in more]}")
        gone = [query for query in self.asked if query.name not in kept]
        self.asked = [query for query in self.asked if query.name in kept] + list(more)
        snapshot = self.operator.snapshot()
        self.operator = self._operator().restore(snapshot, removed=[query.for_operator() for query in gone])
        self._exchange(gone, more)

    def change(self, kept: Sequence[str], since: int | None, *more: Asked) -> None:
        """Have some of the queries and others, which start after `since`, in the same operator."""
        self.log.append(f"change {list(kept)} {since} {[query.name for query in more]}")
        gone = [query for query in self.asked if query.name not in kept]
        self.asked = [query for query in self.asked if query.name in kept] + list(more)
        start = {} if since is None else {"since": since}
        self.operator.change_queries([query.for_operator() for query in self.asked], **start)
        self._exchange(gone, more, **start)

    def _exchange(self, gone: Iterable[Asked], more: Iterable[Asked], **start: int) -> None:
        for query in more:
            self.oracle.add(query.for_oracle(), **start)
        for query in gone:
            self.oracle.remove(query.name)
            self._forget_revisions(query.name)

    def copy(self, how: str = "copy") -> None:
        """Make a copy by `copy` or `pickle`, for `swap` to go on with. The last one ends."""
        self._finish_other()
        self.log.append(how)
        self.other = copy.deepcopy(self)
        self.other.operator = COPIES[how](self.operator)

    def swap(self) -> None:
        """Go on with the copy, or come back to what it is a copy of."""
        if (other := self.other) is not None:
            self.__dict__, other.__dict__ = vars(other) | {"other": other}, vars(self) | {"other": None}

    def _finish_other(self) -> None:
        if self.other is not None:
            self.other.finish()
            self.other = None

    def peek(self) -> None:
        """Early results, and how many there are. Nothing changes by it."""
        self.log.append("peek")
        early, want = self.operator.peek(), self.oracle.peek()
        assert_same_rows(operator_rows(early, self.asked, self.key), want, " | ".join(self.log))
        empty = {query.name for query in self.asked if query.emit_empty}
        if not any(row.query in empty and row.end <= self.oracle.watermark for row in want):  # complete, not due
            assert self.operator.open_windows() == len(want), f"open windows after {' | '.join(self.log)}"
        self._check_counters()

    def _check_identities(self, results: Any) -> None:
        """The table of all queries tells windows apart as sinks do: each has every revision once."""
        for got in results.to_arrow().to_pylist():
            window = tuple(got["window"].values()) if got["low"] is None else ()
            identity = (got["query"], *(got[name] for name in self.key), got["low"], got["high"], *window)
            assert got["revision"] == self.revisions[identity], f"revision {got} after {' | '.join(self.log)}"
            self.revisions[identity] += 1

    def _check(self, results: Any, want: list[oracle.Row]) -> list[oracle.Row]:
        when = " | ".join(self.log)
        got = operator_rows(results, self.asked, self.key)
        assert_same_rows(got, want, when)
        if self.options["key_ttl"] is None:  # else revisions begin again with every life of a key
            self._check_identities(results)
        if not self.late_waits:
            self.late()
        self._check_counters()
        return want

    def late(self) -> None:
        """Events that expired, with all their columns; of those in slices, how many there are."""
        table, want = self.operator.late(), self.oracle.late()
        assert "reason" in table.column_names
        rows = table.to_pylist()
        events = [{name: row[name] for name in SCHEMA.names} for row in rows if row.get("slice") is None]
        in_slices = sum(row["slice"]["events"] for row in rows if row.get("slice") is not None)
        when = f"late events after {' | '.join(self.log)}"
        assert by_id(events) == by_id(row for row in want if row["id"] not in self.sliced), when
        assert in_slices == sum(row["id"] in self.sliced for row in want), when

    def _check_counters(self) -> None:
        counters, when = self.operator.counters, f"counters after {' | '.join(self.log)}"
        assert counters["events"] == self.oracle.arrived, when
        assert counters["expired"] == self.oracle.expired, when
        if not self.sliced:  # a slice is late if its first event is
            assert counters["late"] == self.oracle.came_late, when


def by_id(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return sorted(map(dict, events), key=lambda row: row["id"])


COPIES: dict[str, Callable[[Any], Any]] = {"copy": copy.copy, "pickle": lambda some: pickle.loads(pickle.dumps(some))}
SLIDING = (oracle.Tumbling, oracle.Sliding, oracle.Cumulate)  # some window holds any event
GRID = (*SLIDING, oracle.Band, oracle.Landmark)
