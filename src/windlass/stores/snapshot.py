"""A store's state as bytes, and back: versioned, checked, and nothing in it is code.

    magic "WINDLASS" · format (u32) · length of the head (u32) · head (JSON) · arrays, one after the other · BLAKE2b
    of it all

The head tells the technique and its layout version, the aggregate, the Arrow types of its columns, the fields, the
integers of the state and the arrays that follow. Only live partials are written, oldest first: where the ring happened
to begin and what was left in its free slots does not show. Python objects are written as tagged JSON.

Reading checks the digest, then that everything fits the store it is read into, then the structure (no position may
point outside of an array); only a state that passed replaces the store's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import greatest
from windlass.aggregates.values import ValueType, value_type
from windlass.errors import CorruptSnapshot, WrongType
from windlass.stores.objects import decode, encode

if TYPE_CHECKING:
    from windlass.stores.bound import Bound

MAGIC = b"WINDLASS"
FORMAT = 1
_DIGEST = 16
_PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def pack(store: Bound) -> bytes:
    head: dict[str, Any] = _kind(store) | {
        "layout": store.layout,
        "bound": store._monoid is not None,
        "options": store.options(),
        "definition": [_PYTHON, _definition(store)],
    }
    body = b""
    if store._monoid is not None:
        m = store._monoid
        columns, links = store.live()
        running = tuple(column[: len(store.running)] for column in store._running)
        arrays = [links, *columns, *running]
        parts = [_write(array, m) for array in arrays]
        head |= {
            "types": _types_to_text(m.inputs),
            "nullable": m.nullable,
            "fields": _fields(m),
            "header": [int(v) for v in store.live_header()],
            "arrays": [[str(a.dtype), list(a.shape), len(part)] for a, part in zip(arrays, parts, strict=True)],
        }
        body = b"".join(parts)
    text = json.dumps(head, sort_keys=True).encode()
    data = MAGIC + struct.pack("<II", FORMAT, len(text)) + text + body
    return data + hashlib.blake2b(data, digest_size=_DIGEST).digest()


def take_over(store: Bound, data: bytes) -> None:
    """Fill a fresh store from a snapshot; raises CorruptSnapshot, and then the fresh store is of no use."""
    try:
        head, body = _open(data)
        if head["technique"] != _kind(store)["technique"] or head["aggregate"] != _kind(store)["aggregate"]:
            raise CorruptSnapshot(
                f"the snapshot is of a {head['technique']} over {_describe(head['aggregate'])}, "
                f"not of a {type(store).__name__} over {store.aggregate!r}"
            )
        if head["layout"] > store.layout:
            raise CorruptSnapshot(
                f"the snapshot of {type(store).__name__} was written by a newer Windlass; upgrade to read it"
            )
        python, definition = head["definition"]
        # A definition's digest is one of byte code, which another Python writes differently.
        if python == _PYTHON and definition != _definition(store):
            raise CorruptSnapshot(f"the functions of {store.aggregate!r} are not those that the snapshot was made with")
        store.set_options(head["options"])
        if head["bound"]:
            _fill(store, head, body)
    except (CorruptSnapshot, WrongType, MemoryError):  # Arrow's MemoryError is an ArrowException, too
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        AssertionError,
        pa.ArrowException,
    ) as e:
        raise CorruptSnapshot(f"the snapshot's state is impossible: {type(e).__name__}: {e}") from e


def _fill(store: Bound, head: dict[str, Any], body: bytes) -> None:
    store._bind(_types_from_text(head["types"]), head["nullable"])
    if store._bound.wide is not None and head["fields"] == _fields(store._bound.wide):
        store._widen()
    m = store._bound
    if head["fields"] != _fields(m):
        raise CorruptSnapshot(f"the snapshot's partials have other fields: {head['fields']}, expected {_fields(m)}")
    links, columns, running = _arrays(head["arrays"], body, m)
    header = np.array(head["header"], np.int64)
    if header.shape != store._header.shape or any(len(c) != len(store.running) for c in running):
        raise CorruptSnapshot("the snapshot's integers do not fit this technique")
    store._header = header
    if len(store) < 0 or any(len(c) != store.live_slots() for c in columns):
        raise CorruptSnapshot("the snapshot's sizes contradict each other")
    store.lay_out(columns, links, max(store.live_slots(), store._reserved))
    for slots, saved in zip(store._running, running, strict=True):
        slots[: len(saved)] = saved
    if store._watches:  # `_size` is not in the snapshot; partials bound it as values do
        store._watch(max(greatest(column) for part in (columns, running) for column in part[:1]), len(store))
    store.check_structure()


def _open(data: Any) -> tuple[dict[str, Any], bytes]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WrongType(f"a snapshot is bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + 8 + _DIGEST:
        raise CorruptSnapshot("these bytes are not a Windlass snapshot")
    if hashlib.blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise CorruptSnapshot("the snapshot is damaged: its checksum does not match")
    form, length = struct.unpack_from("<II", data, len(MAGIC))
    if form > FORMAT:
        raise CorruptSnapshot(f"the snapshot has format {form}; this version of Windlass reads up to {FORMAT}")
    start = len(MAGIC) + 8
    return json.loads(data[start : start + length]), data[start + length : -_DIGEST]


def _arrays(described: list[Any], body: bytes, m: Monoid) -> tuple[np.ndarray[Any, Any], Columns, Columns]:
    """Links, live columns and running partials, of just the dtypes and shapes that the monoid's fields have."""
    wanted = [("int64", ())] + [(str(f.dtype), f.shape) for f in m.fields] * 2
    if len(described) != len(wanted):
        raise CorruptSnapshot(f"the snapshot has {len(described)} arrays, expected {len(wanted)}")
    arrays, at = [], 0
    for (dtype, shape, length), (expected, inner) in zip(described, wanted, strict=True):
        if dtype != expected or tuple(shape[1:]) != inner or length < 0:
            raise CorruptSnapshot(f"an array of the snapshot is {dtype}{shape}, expected {expected} of {inner}")
        arrays.append(_read(dtype, tuple(shape), body[at : at + length], m))
        at += length
    if at != len(body):
        raise CorruptSnapshot(f"the snapshot has {len(body)} bytes of arrays, its head tells of {at}")
    width = len(m.fields)
    return arrays[0], tuple(arrays[1 : 1 + width]), tuple(arrays[1 + width :])


def _write(array: np.ndarray[Any, Any], m: Monoid) -> bytes:
    if array.dtype == object:
        return json.dumps([encode(item, m.encode) for item in array]).encode()
    return np.ascontiguousarray(array).tobytes()


def _read(dtype: str, shape: tuple[int, ...], raw: bytes, m: Monoid) -> np.ndarray[Any, Any]:
    try:
        if dtype == "object":
            items = json.loads(raw)
            array = np.empty(len(items), object)
            for i, item in enumerate(items):
                array[i] = decode(item, m.decode)
            if array.shape != shape:
                raise ValueError("wrong number of objects")
            return array
        return np.frombuffer(raw, dtype).reshape(shape).copy()
    except (CorruptSnapshot, MemoryError, RecursionError):  # the last two are no fault of the data
        raise
    except Exception as error:  # whatever a decoder says about damaged data
        raise CorruptSnapshot(f"an array of the snapshot cannot be read: {error}") from error


def _kind(store: Bound) -> dict[str, Any]:
    aggregate = store.aggregate
    return {
        "technique": type(store).__name__,
        "aggregate": {
            "name": aggregate.name,
            "columns": list(aggregate.columns),
            "params": [[name, repr(value)] for name, value in aggregate.params],
        },
    }


def _definition(store: Bound) -> str | None:
    """The digest of a user's functions; None where they refer to what has no digest."""
    definition = store.aggregate.definition
    return None if definition.startswith("unnamed") else definition


def _describe(aggregate: Any) -> str:
    arguments = [str(column) for column in aggregate["columns"] if column]
    arguments += [f"{name}={value}" for name, value in aggregate["params"]]
    return f"{aggregate['name']}({', '.join(arguments)})"


def _fields(m: Monoid) -> list[Any]:
    return [[f.name, str(f.dtype), list(f.shape)] for f in m.fields]


def _types_to_text(types: tuple[ValueType, ...]) -> str:
    schema = pa.schema([pa.field(str(i), t.arrow) for i, t in enumerate(types)])
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _types_from_text(text: str) -> list[ValueType]:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return [value_type(field.type) for field in schema]
