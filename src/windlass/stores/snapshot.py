"""A store's state as bytes, and back: versioned, checked, and nothing in it is code.

    magic "WINDLASS" · format (u32) · length of the head (u32) · head (JSON) · arrays, one after the other · BLAKE2b of it all

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
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import ValueType, value_type
from windlass.errors import CorruptSnapshot
from windlass.stores.objects import decode, encode

MAGIC = b"WINDLASS"
FORMAT = 1
_DIGEST = 16


def pack(kind: str, layout: int, aggregate: Aggregate, state: dict[str, Any] | None) -> bytes:
    """`state`: the monoid, and what is live: header, options (JSON), links, columns and running partials."""
    head: dict[str, Any] = {"technique": kind, "layout": layout, "aggregate": _identity(aggregate), "bound": False}
    body = b""
    if state is not None:
        m: Monoid = state["monoid"]
        arrays = [state["links"], *state["columns"], *state["running"]]
        parts = [_write(array, m) for array in arrays]
        head |= {
            "bound": True,
            "types": _types_to_text(m.inputs),
            "nullable": m.nullable,
            "fields": _fields(m),
            "header": [int(v) for v in state["header"]],
            "options": state["options"],
            "arrays": [[str(a.dtype), list(a.shape), len(part)] for a, part in zip(arrays, parts, strict=True)],
        }
        body = b"".join(parts)
    text = json.dumps(head, sort_keys=True).encode()
    data = MAGIC + struct.pack("<II", FORMAT, len(text)) + text + body
    return data + hashlib.blake2b(data, digest_size=_DIGEST).digest()


def unpack(data: bytes, kind: str, layout: int, aggregate: Aggregate) -> dict[str, Any] | None:
    """The head with the arrays in it; None for a store that was not bound yet. Raises CorruptSnapshot."""
    data = bytes(data)
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + 8 + _DIGEST:
        raise CorruptSnapshot("these bytes are not a Windlass snapshot")
    if hashlib.blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise CorruptSnapshot("the snapshot is damaged: its checksum does not match")
    form, length = struct.unpack_from("<II", data, len(MAGIC))
    if form > FORMAT:
        raise CorruptSnapshot(f"the snapshot has format {form}; this version of Windlass reads up to {FORMAT}")
    start = len(MAGIC) + 8
    try:
        head = json.loads(data[start : start + length])
        found = (head["technique"], head["aggregate"])
        if found != (kind, _identity(aggregate)):
            raise CorruptSnapshot(
                f"the snapshot is of a {found[0]} over {_describe(found[1])}, not of a {kind} over {aggregate!r}"
            )
        if head["layout"] > layout:
            raise CorruptSnapshot(f"the snapshot of {kind} was written by a newer version of Windlass; upgrade to read it")
        if not head["bound"]:
            return None
        head["types"] = _types_from_text(head["types"])
        head["arrays"] = _slice(head["arrays"], data[start + length : -_DIGEST])
        return dict(head)
    except CorruptSnapshot:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, pa.ArrowException) as error:
        raise CorruptSnapshot(f"the snapshot's head cannot be read: {error}") from error


def read_arrays(head: dict[str, Any], m: Monoid, running: int) -> tuple[np.ndarray[Any, Any], Columns, Columns]:
    """Links, live columns and running partials, of just the dtypes and shapes that the monoid's fields have."""
    if head["fields"] != _fields(m):
        raise CorruptSnapshot(f"the snapshot's partials have other fields: {head['fields']}, expected {_fields(m)}")
    expected = 1 + 2 * len(m.fields)
    if len(head["arrays"]) != expected:
        raise CorruptSnapshot(f"the snapshot has {len(head['arrays'])} arrays, expected {expected}")
    dtypes = [("int64", ())] + [(str(f.dtype), f.shape) for f in m.fields] * 2
    arrays = []
    for (dtype, shape, raw), (wanted, inner) in zip(head["arrays"], dtypes, strict=True):
        if dtype != wanted or tuple(shape[1:]) != inner:
            raise CorruptSnapshot(f"an array of the snapshot is {dtype}{shape}, expected {wanted} of {inner}")
        arrays.append(_read(dtype, tuple(shape), raw, m))
    links, columns, slots = arrays[0], tuple(arrays[1 : 1 + len(m.fields)]), tuple(arrays[1 + len(m.fields) :])
    if len({len(c) for c in columns}) > 1 or any(len(c) != running for c in slots):
        raise CorruptSnapshot("the snapshot's columns differ in length")
    return links, columns, slots


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
    except CorruptSnapshot:
        raise
    except Exception as error:  # whatever a decoder says about damaged data
        raise CorruptSnapshot(f"an array of the snapshot cannot be read: {error}") from error


def _slice(arrays: list[Any], body: bytes) -> list[tuple[str, list[int], bytes]]:
    sliced, at = [], 0
    for dtype, shape, length in arrays:
        if length < 0 or any(n < 0 for n in shape):
            raise CorruptSnapshot("the snapshot gives an array a negative length")
        sliced.append((dtype, shape, body[at : at + length]))
        at += length
    if at != len(body):
        raise CorruptSnapshot(f"the snapshot has {len(body)} bytes of arrays, its head tells of {at}")
    return sliced


def _identity(aggregate: Aggregate) -> dict[str, Any]:
    return {
        "name": aggregate.name,
        "columns": list(aggregate.columns),
        "params": [[name, repr(value)] for name, value in aggregate.params],
    }


def _describe(identity: Any) -> str:
    return f"{identity['name']}({', '.join(str(c) for c in identity['columns'] if c)})"


def _fields(m: Monoid) -> list[Any]:
    return [[f.name, str(f.dtype), list(f.shape)] for f in m.fields]


def _types_to_text(types: tuple[ValueType, ...]) -> str:
    schema = pa.schema([pa.field(str(i), t.arrow) for i, t in enumerate(types)])
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _types_from_text(text: str) -> list[ValueType]:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return [value_type(field.type) for field in schema]
