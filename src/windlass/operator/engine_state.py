"""The state of engines as records, and back.

`engine_record` writes what an engine holds. `fill_engine` puts it into one that was made of the same queries and types
and has seen no event. What is room for keys to come is left out on the way there, and made anew when keys come. What
kernels use as an index is checked on the way back: a record can be forged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns
from windlass.aggregates.partials import from_plain, to_plain
from windlass.aggregates.values import ValueType
from windlass.errors import CorruptSnapshot
from windlass.operator import emitted as windows
from windlass.operator import revisions
from windlass.operator.choice import STORES, Choice
from windlass.operator.emitted import Emitted, Rows
from windlass.operator.engine import Engine, General, GeneralInOrder, InOrder, Reordered
from windlass.operator.lift import Lift
from windlass.operator.ordered import FAILED_FINDING, FAILED_KEY, Ordered
from windlass.operator.replay import Replay
from windlass.operator.slice_state import cutty_record, fill_cutty, fill_general, general_record
from windlass.operator.sliced import Sliced
from windlass.operator.tuples import Tuples
from windlass.slicing.edges import LONG_AGO

__all__ = ["KINDS", "Held", "engine_record", "fill_engine", "rows_from", "rows_record"]

Array = np.ndarray[Any, Any]
Record = dict[str, Any]

KINDS: dict[type[Engine], str] = {
    InOrder: "in-order",
    Reordered: "reordered",
    General: "general",
    GeneralInOrder: "general-in-order",
}


class Held:
    """What the records of a branch refer to: its lifts, the types of columns, how many keys and findings there are."""

    def __init__(self, lifts: Sequence[Lift], types: Mapping[str, ValueType], keys: int, findings: int) -> None:
        self.lifts, self.types, self.keys, self.findings = lifts, types, keys, findings

    def write(self, partials: Sequence[Columns]) -> list[list[Array]]:
        """Partials by lift. Of one that is retired, whatever was in memory is left out."""
        pairs = zip(self.lifts, partials, strict=True)
        return [[] if lift.retired else to_plain(lift.monoid, columns) for lift, columns in pairs]

    def read(self, partials: Sequence[Sequence[Array]], rows: int) -> list[Columns]:
        pairs = zip(self.lifts, partials, strict=True)
        return [
            lift.monoid.allocate(rows) if lift.retired else from_plain(lift.monoid, columns, rows)
            for lift, columns in pairs
        ]

    def check(self, findings: Array, keys: Array) -> None:
        """Refuse what refers to findings or keys that are not there."""
        for name, values, bound in (("window", findings, self.findings), ("key", keys, self.keys)):
            if len(values) and not (values.min() >= 0 and values.max() < bound):
                raise CorruptSnapshot(f"the snapshot refers to a {name} that is not there")


def engine_record(engine: Engine, held: Held) -> tuple[str, Record]:
    if isinstance(engine, InOrder):
        return "in-order", _in_order_record(engine, held)
    if isinstance(engine, Reordered):
        return "reordered", _reordered_record(engine, held)
    assert isinstance(engine, General)
    record = _sliced_record(engine.sliced, held)
    if isinstance(engine, GeneralInOrder):
        return "general-in-order", record | _due_record(engine, held)
    return "general", record


def fill_engine(engine: Engine, record: Record, held: Held) -> None:
    if not 0 <= record["keys"] <= max(1, held.keys):
        raise CorruptSnapshot(f"an engine of the snapshot has {record['keys']} keys, the operator {held.keys}")
    held = Held(held.lifts, held.types, record["keys"], held.findings)
    engine.add_keys(record["keys"])
    if isinstance(engine, InOrder):
        _fill_ordered(engine.ordered, record["windows"], held)
        engine.ordinals.last = _shaped(engine.ordinals.last, record["ordinals"], held.keys)
    elif isinstance(engine, Reordered):
        _fill_reordered(engine, record, held)
    elif isinstance(engine, General):
        _fill_sliced(engine.sliced, record, held)
    if isinstance(engine, InOrder | GeneralInOrder):
        engine.due, engine.found = [rows_from(rows, held) for rows in record["due"]], record["found"]


# --------------------------------------------------------------------------- events and rows


def _events_record(t: Tuples, held: Held) -> Record:
    return {
        "key": t.key,
        "time": t.ts,
        "sequence": t.seq,
        "arrival": t.arrival,
        "columns": {name: _column_record(values, held.types.get(name)) for name, values in t.columns.items()},
        "valid": t.valid,
        "masks": t.masks,
        "last": t.last,
        "partials": held.write(t.partials) if t.partials else [],
    }


def _column_record(values: Array, type_: ValueType | None) -> tuple[str, Any]:
    """A column of events. Objects came from Arrow, which writes them shorter than JSON."""
    if values.dtype == object and type_ is not None:
        try:
            return "arrow", pa.table({"": pa.array(values.tolist(), type_.arrow)})
        except MemoryError:  # Arrow's is an ArrowException, too
            raise
        except (pa.ArrowException, TypeError, ValueError):
            pass
    return "values", values


def _events_from(record: Record, held: Held) -> Tuples:
    columns = {name: _column_from(*column) for name, column in record["columns"].items()}
    held.check(np.empty(0, np.int64), record["key"])
    n = len(record["time"])
    return Tuples(
        record["key"],
        record["time"],
        record["sequence"],
        record["arrival"],
        columns,
        record["valid"],
        record["masks"],
        record["last"],
        held.read(record["partials"], n) if record["partials"] else [],
    )


def _column_from(kind: str, values: Any) -> Array:
    if kind == "values":
        found: Array = values
        return found
    (column,) = values.columns
    objects = np.empty(len(column), object)
    for i, item in enumerate(column.to_pylist()):  # one by one: a list is a value here, not a row
        objects[i] = item
    return objects


def _check_events(events: Iterable[Tuples], dtypes: Mapping[str, Any], masks: int) -> None:
    """Refuse events without the columns that kernels will read, or of other dtypes."""
    for t in events:
        if t.partials:
            continue
        if {name: values.dtype for name, values in t.columns.items()} != {n: np.dtype(d) for n, d in dtypes.items()}:
            raise CorruptSnapshot("events of the snapshot have other columns than the queries read")
        if len(t.masks) != masks or not t.valid.keys() <= t.columns.keys():
            raise CorruptSnapshot("events of the snapshot do not say what conditions they meet")


def rows_record(rows: Rows, held: Held) -> Record:
    return {**{name: getattr(rows, name) for name in _ROW_FIELDS}, "partials": held.write(rows.partials)}


def rows_from(record: Record, held: Held) -> Rows:
    held.check(record["finding"], record["key"])
    partials = held.read(record["partials"], len(record["key"]))
    return Rows(**{name: record[name] for name in _ROW_FIELDS}, partials=partials)


_ROW_FIELDS = ("finding", "key", "low", "high", "start", "end", "revision", "retraction")


def _due_record(engine: InOrder | GeneralInOrder, held: Held) -> Record:
    return {"due": [rows_record(rows, held) for rows in engine.due], "found": engine.found}


def _emitted_record(e: Emitted, held: Held) -> Record:
    return {"table": e.table, "partials": held.write(e.partials)}


def _fill_emitted(e: Emitted, record: Record, held: Held) -> None:
    table = record["table"]
    held.check(table[:, windows.FINDING], table[:, windows.KEY])
    if len(table) and not np.isin(table[:, windows.STATE], (windows.RETRACTED, windows.VALID, windows.CLOSED)).all():
        raise CorruptSnapshot("windows of the snapshot are in a state that is none")
    e.table, e.partials = table, held.read(record["partials"], len(table))


def _shaped(blank: Array, values: Array, keys: int, axis: int = 1) -> Array:
    """An array by key, of the shape that the blank one has but for its room."""
    wanted = list(blank.shape)
    wanted[axis] = keys
    if list(values.shape) != wanted:
        raise CorruptSnapshot(f"an array of the snapshot has the shape {list(values.shape)}, expected {wanted}")
    return values


# --------------------------------------------------------------------------- events in order

_BY_KEY = ("earliest", "latest", "after", "skipped", "seen_from", "begun", "has_begun")


def _in_order_record(engine: InOrder, held: Held) -> Record:
    keys = engine.ordered.keys
    return {
        "keys": keys,
        "windows": _ordered_record(engine.ordered, held),
        "ordinals": engine.ordinals.last[:, :keys],
        **_due_record(engine, held),
    }


def _ordered_record(e: Ordered, held: Held) -> Record:
    return {
        "watermark": e.watermark,
        "closed_upto": e.closed_upto,
        "epoch": e.epoch,
        "slices": cutty_record(e.slices, e.lifts, e.keys, held.write),
        "count": e.count[: e.keys],
        **{name: getattr(e, name)[:, : e.keys] for name in _BY_KEY},
        **_found_record(e.contexts, e.carries, e.keys),
    }


def _found_record(contexts: Sequence[Array], carries: Sequence[Array], keys: int) -> Record:
    return {"contexts": [{"words": c[:keys]} for c in contexts], "carries": [{"words": c} for c in carries]}


def _found_from(record: Record, contexts: Sequence[Array], carries: Sequence[Array], held: Held) -> Any:
    """The state of the discretizers. Each array must be as wide as its discretizer needs."""
    none = np.empty(0, np.int64)
    filled: tuple[list[Array], list[Array]] = [], []
    for blank, found in zip(contexts, record["contexts"], strict=True):
        filled[0].append(_shaped(blank, found["words"], held.keys, axis=0))
    for blank, found in zip(carries, record["carries"], strict=True):
        words = found["words"]
        held.check(none, words[:, 0])
        filled[1].append(_shaped(blank, words, len(words), axis=0))
    return filled


def _fill_ordered(e: Ordered, record: Record, held: Held) -> None:
    e.watermark, e.closed_upto, e.epoch = record["watermark"], record["closed_upto"], record["epoch"]
    fill_cutty(e.slices, e.lifts, record["slices"], held.keys, held.read)
    e.count = _shaped(e.count, record["count"], held.keys, axis=0)
    for name in _BY_KEY:
        setattr(e, name, _shaped(getattr(e, name), record[name], held.keys))
    e.contexts, e.carries = _found_from(record, e.contexts, e.carries, held)


# --------------------------------------------------------------------------- events that are kept

_BY_FINDING = ("closed", "frontier", "resume", "own", "behind")


def _reordered_record(engine: Reordered, held: Held) -> Record:
    r, keys = engine.replay, engine.replay.engine.keys
    record = {name: getattr(r, name)[:, :keys] for name in _BY_FINDING}
    unread = [i for i, finding in enumerate(r.plan.findings) if finding.is_grid or i in r.retired]
    record["frontier"] = record["frontier"].copy()
    record["frontier"][unread] = LONG_AGO
    return {
        "keys": keys,
        "windows": _ordered_record(r.engine, held),
        "emitted": _emitted_record(r.emitted, held),
        "failed": r.failed,
        "events": None if r.tuples is None else _events_record(r.tuples, held),
        "refused": [{"of": i, "mask": mask} for i, mask in r.refused.items()],
        "unfit": [{"of": c, "mask": mask} for c, mask in r.unfit.items()],
        "position": r.position[:keys],
        **record,
        **_found_record(r.contexts, r.carries, keys),
        "pending": [
            {"events": _events_record(t, held), "late": late, "refusals": refused}
            for t, late, refused in engine.pending
        ],
    }


def _fill_reordered(engine: Reordered, record: Record, held: Held) -> None:
    r: Replay = engine.replay
    _fill_ordered(r.engine, record["windows"], held)
    _fill_emitted(r.emitted, record["emitted"], held)
    r.failed = record["failed"]
    held.check(r.failed[:, FAILED_FINDING], r.failed[:, FAILED_KEY])
    r.tuples = None if record["events"] is None else _events_from(record["events"], held)
    n = 0 if r.tuples is None else len(r.tuples)
    r.refused, r.unfit = ({part["of"]: part["mask"] for part in record[name]} for name in ("refused", "unfit"))
    if any(len(mask) != n for mask in (*r.refused.values(), *r.unfit.values())):
        raise CorruptSnapshot("events of the snapshot do not say which windows refused them")
    r.position = _shaped(r.position, record["position"], held.keys, axis=0)
    for name in _BY_FINDING:
        setattr(r, name, _shaped(getattr(r, name), record[name], held.keys))
    r.contexts, r.carries = _found_from(record, r.contexts, r.carries, held)
    engine.pending = [(_events_from(p["events"], held), p["late"], p["refusals"]) for p in record["pending"]]
    for events, _, refusals in engine.pending:
        _check_refusals(refusals, len(events), held)
    kept = [] if r.tuples is None else [r.tuples]
    _check_events([*kept, *(events for events, _, _ in engine.pending)], r.plan.dtypes, len(r.plan.predicates))


def _check_refusals(refusals: Array | None, events: int, held: Held) -> None:
    if refusals is not None and refusals.shape != (held.findings, events):
        raise CorruptSnapshot("events of the snapshot do not say which windows refused them")


# --------------------------------------------------------------------------- general slices

_PLAIN = ("watermark", "epoch", "kept_from", "evict_at")


def _sliced_record(s: Sliced, held: Held) -> Record:
    keys = s.keys
    return {
        "keys": keys,
        **{name: getattr(s, name) for name in _PLAIN},
        "slices": general_record(s.slices, s.lifts, keys, held.write),
        "earliest": s.earliest[:, :keys],
        "started": s.started[:, :keys],
        "latest": s.latest[:keys],
        "pending": [{"events": _events_record(t, held), "refusals": refused} for t, refused in s.pending],
        "revisions": s.revisions.table,
        "emitted": _emitted_record(s.emitted, held),
        "choice": {"store": s.choice.store, **s.choice.costs},
    }


def _fill_sliced(s: Sliced, record: Record, held: Held) -> None:
    for name in _PLAIN:
        setattr(s, name, record[name])
    fill_general(s.slices, s.lifts, record["slices"], held.keys, held.read)
    s.earliest = _shaped(s.earliest, record["earliest"], held.keys)
    s.started = _shaped(s.started, record["started"], held.keys)
    s.latest = _shaped(s.latest, record["latest"], held.keys, axis=0)
    s.pending = [(_events_from(p["events"], held), p["refusals"]) for p in record["pending"]]
    for events, refusals in s.pending:
        _check_refusals(refusals, len(events), held)
    _check_events((events for events, _ in s.pending), s.plan.dtypes, len(s.plan.predicates))
    s.revisions.table = record["revisions"]
    held.check(s.revisions.table[:, 0], s.revisions.table[:, revisions.KEY])
    _fill_emitted(s.emitted, record["emitted"], held)
    s.choice = Choice(record["choice"]["store"], s.choice.learns)
    s.choice.costs = {name: record["choice"][name] for name in STORES}
