"""A store's state as a record, and back.

Only live partials are written, oldest first: where the ring happened to begin and what was left in its free slots does
not show. Reading checks that everything fits the store it is read into, then the structure: no position may point
outside of an array. Only a state that passed replaces the store's own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import greatest
from windlass.aggregates.partials import from_plain, to_plain
from windlass.aggregates.values import ValueType, value_type
from windlass.errors import CorruptSnapshot
from windlass.formats.record import as_corrupt_snapshot
from windlass.formats.store import STORE, TECHNIQUES

if TYPE_CHECKING:
    from windlass.stores.bound import Bound

__all__ = ["pack", "take_over"]

_PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def pack(store: Bound) -> bytes:
    """The state of a store as bytes."""
    return STORE.seal(
        {
            "technique": _technique(store),
            "layout": store.layout,
            "aggregate": _aggregate(store),
            "python": _PYTHON,
            "functions": _functions(store),
            "options": store.options(),
            "state": None if store._monoid is None else _state(store, store._monoid),
        }
    )


def _state(store: Bound, m: Monoid) -> dict[str, Any]:
    columns, links = store.live()
    return {
        "types": pa.schema([pa.field(str(i), t.arrow) for i, t in enumerate(m.inputs)]),
        "nullable": m.nullable,
        "fields": _fields(m),
        "header": store.live_header().tolist(),
        "links": links,
        "live": to_plain(m, columns),
        "running": to_plain(m, tuple(column[: len(store.running)] for column in store._running)),
    }


def take_over(store: Bound, data: Any) -> None:
    """Fill a fresh store from a snapshot; raises CorruptSnapshot, and then the fresh store is of no use."""
    found = STORE.unseal(data, "the bytes of the snapshot")
    with as_corrupt_snapshot():
        if found["technique"] != _technique(store) or found["aggregate"] != _aggregate(store):
            raise CorruptSnapshot(
                f"the snapshot is of a {found['technique']} over {_described(found['aggregate'])}, "
                f"not of a {type(store).__name__} over {store.aggregate!r}"
            )
        if found["layout"] > store.layout:
            raise CorruptSnapshot(
                f"the snapshot of {type(store).__name__} was written by a newer Windlass; upgrade to read it"
            )
        # A definition's digest is one of byte code, which another Python writes differently.
        if found["python"] == _PYTHON and found["functions"] != _functions(store):
            raise CorruptSnapshot(f"the functions of {store.aggregate!r} are not those that the snapshot was made with")
        store.set_options(found["options"])
        if found["state"] is not None:
            _fill(store, found["state"])


def _fill(store: Bound, state: dict[str, Any]) -> None:
    store._bind(_types_of(state["types"]), state["nullable"])
    if store._bound.wide is not None and state["fields"] == _fields(store._bound.wide):
        store._widen()
    m = store._bound
    if state["fields"] != _fields(m):
        raise CorruptSnapshot(f"the snapshot's partials have other fields: {state['fields']}, expected {_fields(m)}")
    header = np.array(state["header"], np.int64)
    columns, running = from_plain(m, state["live"]), from_plain(m, state["running"], len(store.running))
    if header.shape != store._header.shape:
        raise CorruptSnapshot("the snapshot's integers do not fit this technique")
    store._header = header
    if len(store) < 0 or any(len(column) != store.live_slots() for column in columns):
        raise CorruptSnapshot("the snapshot's sizes contradict each other")
    store.lay_out(columns, state["links"], max(store.live_slots(), store._reserved))
    for slots, saved in zip(store._running, running, strict=True):
        slots[: len(saved)] = saved
    if store._watches:  # `_size` is not in the snapshot; partials bound it as values do
        store._watch(max(greatest(column) for part in (columns, running) for column in part[:1]), len(store))
    store.check_structure()


def _technique(store: Bound) -> str:
    name = type(store).__name__
    return TECHNIQUES.get(name, name)  # a technique of the user's own has no other name


def _aggregate(store: Bound) -> dict[str, Any]:
    aggregate = store.aggregate
    params = [[name, repr(value)] for name, value in aggregate.params]
    return {"name": aggregate.name, "columns": list(aggregate.columns), "params": params}


def _functions(store: Bound) -> str | None:
    """The digest of a user's functions; None where they refer to what has no digest."""
    definition = store.aggregate.definition
    return None if definition.startswith("unnamed") else definition


def _described(aggregate: Any) -> str:
    arguments = [str(column) for column in aggregate["columns"] if column]
    arguments += [f"{name}={value}" for name, value in aggregate["params"]]
    return f"{aggregate['name']}({', '.join(arguments)})"


def _fields(m: Monoid) -> list[dict[str, Any]]:
    return [{"name": f.name, "dtype": str(f.dtype), "shape": list(f.shape)} for f in m.fields]


def _types_of(schema: pa.Schema) -> list[ValueType]:
    return [value_type(field.type) for field in schema]
