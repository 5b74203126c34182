"""An operator's state as a record, and back.

A record says what was asked and how the stream went on. It is read into a *blank* operator: one that is made of the
same queries, has the same types and branches, and has seen no event. Plans, monoids and windows come from there, since
queries and types determine them. What engines hold is in `engine_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import Column
from windlass.errors import CorruptSnapshot
from windlass.formats.operator import OPERATOR
from windlass.formats.record import as_corrupt_snapshot
from windlass.operator.asked import asked, check_options, in_unit, options, plain_options, planned, planned_in, recalled
from windlass.operator.branch import Branch
from windlass.operator.costs import STORES
from windlass.operator.engine_state import KINDS, Held, engine_record, fill_engine, rows_from, rows_record
from windlass.operator.events import Events
from windlass.operator.keys import KeyIndex
from windlass.operator.query import Query
from windlass.operator.tuples import Tuples
from windlass.slicing.edges import LONG_AGO

if TYPE_CHECKING:
    from windlass.operator.operator import Operator

__all__ = ["install", "restored", "seal_state", "unpickled"]

Record = dict[str, Any]

_STREAM = ("watermark", "next", "greatest", "sequence", "passed", "arrivals", "finished")
_PLANNING = ("rows", "batches", "greatest")


def seal_state(operator: Operator) -> bytes:
    """The state of an operator, which does not change, as bytes."""
    return OPERATOR.seal(
        {
            "asked": asked(operator),
            "types": operator._reader.schema,
            "keys": operator._keys.record(),
            "stream": {name: getattr(operator, f"_{name}") for name in _STREAM},
            "counters": operator._counters,
            "lifetimes": {
                "latest": operator._lifetimes.latest[: len(operator._keys)],
                "credit": operator._lifetimes.credit,
            },
            "planning": _planning_record(operator),
            "expired": operator._expired,
            "branches": [_branch_record(branch, operator) for branch in operator._branches],
        }
    )


def restored(operator: Operator, data: Any, removed: Iterable[Query] = ()) -> Operator:
    """An operator with the options and queries of this one, in the state of the snapshot."""
    record = OPERATOR.unseal(data, "the bytes of the snapshot")
    with as_corrupt_snapshot():
        check_options(record["asked"], plain_options(operator))
        then = recalled(record["asked"], operator._registered, removed)
        unpinned = type(operator)(then, **{**options(operator), "plan": None})
        unpinned._planning.pin = operator._planning.pin  # as far as it goes: the trees are those of the snapshot
        other = _blank(unpinned, record)
        _fill(other, record)
        other.change_queries(operator._registered)
    return other


def unpickled(
    cls: type[Operator], queries: list[Query], removed: list[Query], options: dict[str, Any], data: bytes
) -> Operator:
    return cls(queries, **options).restore(data, removed=removed)


# --------------------------------------------------------------------------- the operator


def _fill(operator: Operator, record: Record) -> None:
    operator._keys = KeyIndex.restore(operator._reader.key, record["keys"])
    for name, value in record["stream"].items():
        setattr(operator, f"_{name}", value)
    operator._counters, operator._expired = record["counters"], record["expired"]
    operator._lifetimes.latest = record["lifetimes"]["latest"]
    operator._lifetimes.credit = record["lifetimes"]["credit"]
    if len(operator._lifetimes.latest) > len(operator._keys):
        raise CorruptSnapshot("more keys of the snapshot live than there are")
    _fill_planning(operator, record["planning"])
    for branch, of in zip(operator._branches, record["branches"], strict=True):
        _fill_branch(branch, of, len(operator._keys))


def _planning_record(operator: Operator) -> Record:
    planning, watched = operator._planning, operator._planning.watched
    return {
        "observed": _observation(planning.observed),
        "seen": _observation(watched.seen),
        **{name: getattr(watched, name) for name in _PLANNING},
        "removals": planning.removals,
    }


def _observation(seen: tuple[float, int, int] | None) -> Record | None:
    return None if seen is None else dict(zip(("rate", "keys", "batch"), seen, strict=True))


def _fill_planning(operator: Operator, record: Record) -> None:
    planning, watched = operator._planning, operator._planning.watched
    planning.observed, watched.seen = (
        None if seen is None else (seen["rate"], seen["keys"], seen["batch"])
        for seen in (record["observed"], record["seen"])
    )
    for name in _PLANNING:
        setattr(watched, name, record[name])
    planning.removals = record["removals"]


# --------------------------------------------------------------------------- branches


def _branch_record(branch: Branch, operator: Operator) -> Record:
    record = {
        "queries": [query.name for query in planned_in(branch)],
        "technique": next((name for name, store in STORES.items() if store == branch.store), "auto"),
        "since": branch.since,
        "joins": [{"since": since, "first": first} for since, first in branch.plan.joins],
        "removed": [],
        "dtypes": {},
        "lifts": [],
        "sizes": [{"lift": lift, "bound": bound} for lift, bound in branch.sizes.items()],
        "due": [],
        "found": branch.found,
        "engine": None,
    }
    if branch.engine is not None:
        lifts, plan = branch.engine.lifts, branch.plan
        held = Held(lifts, operator._reader.types, len(operator._keys), len(plan.findings))
        record |= {
            "removed": sorted(plan.removed),
            "dtypes": {name: str(dtype) for name, dtype in plan.dtypes.items()},
            "lifts": [_fields(lift.monoid) for lift in lifts],
            "due": [rows_record(rows, held) for rows in branch.due],
            "engine": engine_record(branch.engine, held),
        }
    return record


def _fields(m: Monoid) -> list[Record]:
    return [{"name": f.name, "dtype": str(f.dtype), "shape": list(f.shape)} for f in m.fields]


def _fill_branch(branch: Branch, record: Record, keys: int) -> None:
    branch.sizes = {part["lift"]: part["bound"] for part in record["sizes"]}
    branch.found = record["found"]
    if record["engine"] is not None:
        held = Held(branch.running.lifts, {}, keys, len(branch.plan.findings))
        branch.due = [rows_from(rows, held) for rows in record["due"]]
        fill_engine(branch.running, record["engine"][1], held)


def _blank(operator: Operator, record: Record) -> Operator:
    """An operator that was asked the same and knows the types, but has seen no event."""
    queries = {query.name: query for query in planned(operator)}
    other = type(operator)(list(queries.values()), **{**options(operator), "plan": None})
    other._planning.pin = operator._planning.pin
    other._reader.restore(record["types"])
    other._branches = []
    for of in record["branches"]:
        made, joins = [queries[name] for name in of["queries"]], of["joins"]
        ends = [join["first"] for join in joins] + [len(made)]
        branch = other._planning.branch(made[: ends[0]], of["since"], of["technique"])
        if of["engine"] is not None:
            added = [
                other._planning.branch(made[join["first"] : end], join["since"], of["technique"])
                for join, end in zip(joins, ends[1:], strict=True)
            ]
            _install(branch, other, of, added)
        other._branches.append(branch)
    return other


def _install(branch: Branch, operator: Operator, record: Record, added: Sequence[Branch]) -> None:
    install(branch, operator, record["dtypes"], LONG_AGO)
    for other in added:
        install(other, operator, record["dtypes"], LONG_AGO)
        branch.take_in(other)
    _widen_as(branch, record["lifts"])
    for name in record["removed"]:
        branch.remove(name, name)
    kind = KINDS[type(branch.running)]
    if record["engine"][0] != kind:
        raise CorruptSnapshot(f"the snapshot has the engine {record['engine'][0]!r} for queries that need {kind!r}")
    if len(record["lifts"]) != len(branch.running.lifts):
        raise CorruptSnapshot(f"the snapshot has {len(record['lifts'])} partials, not {len(branch.running.lifts)}")
    for lift, fields in zip(branch.running.lifts, record["lifts"], strict=True):
        if not lift.retired and _fields(lift.monoid) != fields:
            raise CorruptSnapshot(f"the partials of {lift.aggregate!r} are {fields}, not {_fields(lift.monoid)}")


def _widen_as(branch: Branch, lifts: Sequence[list[Record]]) -> None:
    """Widen the sums whose partials were wide in the snapshot."""
    pairs = enumerate(zip(branch.running.lifts, lifts, strict=False))
    wide = [i for i, (lift, fields) in pairs if lift.monoid.wide and _fields(lift.monoid.wide) == fields]
    if wide:
        branch.widen(wide)


def install(branch: Branch, operator: Operator, dtypes: Mapping[str, str], watermark: int) -> None:
    """Make a branch's engine without an event, of the types that are known."""
    reader = operator._reader
    plan = branch.bound_to(reader.unit)
    none = np.empty(0, np.int64)
    read = {name: Column(np.empty(0, t.dtype), None, t) for name, t in reader.types.items()}
    events = Events(none, (0, 0, True), None, [], reader.time_type, None, dict(reader.types), read)  # type: ignore[arg-type]
    tuples = Tuples(none, none, none, none, {n: np.empty(0, dtype) for n, dtype in dtypes.items()})
    lateness = in_unit(operator._lateness, reader.unit)
    branch.install(plan, events, tuples, lateness, reader.sequence is not None, watermark)
