"""Kinds whose values are parts of the container: arrays, Arrow tables, bytes.

An array is written row by row, little-endian, and its JSON is its shape. If it repeats its last row along an axis, as
unused room does, the repetition is left out: `[shape, axis, rows kept]`. At most 64 MB of a record are left out, so a
record never becomes much larger than its bytes.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.errors import CorruptSnapshot
from windlass.formats.container import parse_json
from windlass.formats.kinds import MOST, Group, Kind, Reader, Walk, Writer
from windlass.formats.tagged_json import decode, encode

__all__ = ["Array", "ArrowSchema", "ArrowTable", "Bytes", "Column", "Embedded", "Objects", "Tagged", "ipc_bytes"]

Values = np.ndarray[Any, Any]
Size = str | int

_ABRIDGED = 64 << 20
_MOST_AXES = 4


class Array(Kind):
    """An array of one dtype, whose axes are sizes by name or numbers. `least` and `below` bound its integers."""

    def __init__(self, dtype: str, *axes: Size, least: int | None = None, below: Size | None = None) -> None:
        self.dtype, self.axes, self.least, self.below = np.dtype(dtype), axes, least, below
        bounds = [] if least is None else [f"from {least}"]
        bounds += [] if below is None else [f"below {below}"]
        self.text = f"{dtype}[{', '.join(map(str, axes))}]{' ' if bounds else ''}{' '.join(bounds)}"

    def write(self, value: Values, to: Writer) -> Any:
        if value.dtype != self.dtype:
            to.refuse(f"is of {value.dtype}, expected {self.dtype}")
        fix_axes(value.shape, self.axes, to)
        self._check(value, to)
        return write_array(value, to)

    def read(self, node: Any, of: Reader) -> Any:
        shape, axis, kept = _shape_of(node, of)
        fix_axes(shape, self.axes, of)
        values = read_array(self.dtype, shape, axis, kept, of)
        self._check(values, of)
        return values

    def _check(self, values: Values, walk: Walk) -> None:
        if not values.size or (self.least is None and self.below is None):
            return
        if self.least is not None and values.min() < self.least:
            walk.refuse(f"has the value {values.min()}, expected {self.text}")
        if self.below is not None:
            bound = walk.below(self.below) if isinstance(self.below, str) else self.below
            if values.max() >= bound:
                walk.refuse(f"has the value {values.max()}, expected less than {bound}: {self.text}")


class Column(Kind):
    """An array of numbers or flags of any dtype, or of objects; its JSON tells the dtype, too."""

    def __init__(self, *axes: Size) -> None:
        self.axes = axes
        self.text = f"column[{', '.join(map(str, axes))}]"

    def write(self, value: Values, to: Writer) -> Any:
        if value.dtype == object:
            fix_axes(value.shape, self.axes, to)
            return ["object", write_objects(value, to)]
        if value.dtype.kind not in "biuf":
            to.refuse(f"is of {value.dtype}, expected numbers, flags or objects")
        fix_axes(value.shape[: len(self.axes)], self.axes, to)
        return [value.dtype.newbyteorder("<").str, write_array(value, to)]

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not list or len(node) != 2 or type(node[0]) is not str:
            of.refuse("is no column")
        dtype, described = node
        if dtype == "object":
            values = read_objects(described, of)
        else:
            shape, axis, kept = _shape_of(described, of)
            values = read_array(_dtype_of(dtype, of), shape, axis, kept, of)
        fix_axes(values.shape[: len(self.axes)], self.axes, of)
        return values


class Objects(Kind):
    """Python objects as tagged JSON, in a part of their own."""

    def __init__(self, axis: Size) -> None:
        self.axis = axis
        self.text = f"objects[{axis}]"

    def write(self, value: Values, to: Writer) -> Any:
        fix_axes(value.shape, (self.axis,), to)
        return write_objects(value, to)

    def read(self, node: Any, of: Reader) -> Any:
        values = read_objects(node, of)
        fix_axes(values.shape, (self.axis,), of)
        return values


class Tagged(Kind):
    """A Python object as tagged JSON, among the other fields."""

    text = "object"

    def write(self, value: Any, to: Writer) -> Any:
        return encode(value)

    def read(self, node: Any, of: Reader) -> Any:
        return decode(node)


class Bytes(Kind):
    """Bytes; `length` of them, if that is fixed. `of`: what they are, as JSON."""

    def __init__(self, length: int | None = None, *, of: Kind | None = None) -> None:
        self.length, self.of = length, of
        self.text = "bytes" if length is None else f"{length} bytes"

    def write(self, value: bytes | memoryview, to: Writer) -> Any:
        self._check(value, to)
        to.parts.append(value)
        return len(value)

    def read(self, node: Any, of: Reader) -> Any:
        part = of.part()
        if node != len(part) or type(node) is not int:
            of.refuse(f"has {len(part)} bytes, expected {node}")
        self._check(part, of)
        return part

    def groups(self) -> list[tuple[str, Group]]:
        return [] if self.of is None else self.of.groups()

    def _check(self, value: bytes | memoryview, walk: Walk) -> None:
        if self.length is not None and len(value) != self.length:
            walk.refuse(f"has {len(value)} bytes, expected {self.length}")


class ArrowTable(Kind):
    """A table, as an Arrow IPC stream of at most one batch. It is validated before it is used."""

    text = "Arrow table"

    def __init__(self, rows: Size | None = None, most: int = MOST) -> None:
        self.rows, self.most = rows, most
        if rows is not None:
            self.text = f"Arrow table[{rows}]"

    def write(self, value: pa.Table, to: Writer) -> Any:
        to.parts.append(ipc_bytes(value))
        self._check(value, to)
        return value.num_rows

    def read(self, node: Any, of: Reader) -> Any:
        table = read_ipc(of.part(), of, node)
        self._check(table, of)
        return table

    def _check(self, table: pa.Table, walk: Walk) -> None:
        if table.num_rows > self.most:
            walk.refuse(f"has {table.num_rows} rows, at most {self.most} are possible")
        if self.rows is not None:
            fix_axes((table.num_rows,), (self.rows,), walk)


class ArrowSchema(Kind):
    """Names and types of columns, as an Arrow schema."""

    text = "Arrow schema"

    def write(self, value: pa.Schema, to: Writer) -> Any:
        to.parts.append(value.serialize().to_pybytes())
        return len(value)

    def read(self, node: Any, of: Reader) -> Any:
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(bytes(of.part())))
        except MemoryError:  # Arrow's is an ArrowException, too
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            of.refuse(f"cannot be read: {error}")
        if node != len(schema):
            of.refuse(f"has {len(schema)} columns, expected {node}")
        return schema


class Embedded(Kind):
    """Another record: its version and its fields."""

    def __init__(self, name: str, version: int, content: Kind) -> None:
        self.version, self.content = version, content
        self.text = f"a [{name}](#{name}) record"

    def write(self, value: Any, to: Writer) -> Any:
        return {"version": self.version, **self.content.write(value, to)}

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not dict or type(node.get("version")) is not int:
            of.refuse("does not say its version")
        if not 1 <= node["version"] <= self.version:
            of.refuse(f"has version {node['version']}, this version of Windlass reads up to {self.version}")
        return self.content.read({name: part for name, part in node.items() if name != "version"}, of)


# --------------------------------------------------------------------------- parts


def fix_axes(shape: tuple[int, ...], axes: tuple[Size, ...], walk: Walk) -> None:
    if len(shape) != len(axes):
        walk.refuse(f"has {len(shape)} dimensions, expected {len(axes)}")
    sizes = walk.sizes
    for length, axis in zip(shape, axes, strict=True):
        if type(axis) is str:
            if sizes.setdefault(axis, length) != length:
                walk.fix(axis, length)
        elif length != axis:
            walk.refuse(f"has {length} entries along an axis, expected {axis}")


def write_array(values: Values, to: Writer) -> Any:
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    shape = list(values.shape)
    axis, kept = _repetition(values)
    if axis is not None:
        whole, values = values, values.take(np.arange(kept), axis)
        if to.abridged + whole.nbytes - values.nbytes > _ABRIDGED:
            axis, values = None, whole
        to.abridged += whole.nbytes - values.nbytes
    to.parts.append(values.tobytes())
    return shape if axis is None else [shape, axis, kept]


def read_array(dtype: np.dtype[Any], shape: tuple[int, ...], axis: int | None, kept: int, of: Reader) -> Values:
    part = of.part()
    stored = shape if axis is None else (*shape[:axis], kept, *shape[axis + 1 :])
    if _volume(stored) * dtype.itemsize != len(part):
        of.refuse(f"has {len(part)} bytes, which are not those of {dtype}{list(stored)}")
    of.abridged += (_volume(shape) - _volume(stored)) * dtype.itemsize
    if of.abridged > _ABRIDGED:
        of.refuse(f"leaves out more than the {_ABRIDGED} bytes that a record may")
    values = np.frombuffer(part, dtype).reshape(stored)
    if dtype == np.bool_ and len(part) and values.view(np.uint8).max() > 1:
        of.refuse("has flags that are neither true nor false")
    if axis is None:
        return values.copy()
    rest = np.repeat(values.take([-1], axis), shape[axis] - kept, axis)
    return np.concatenate([values, rest], axis)


def write_objects(values: Values, to: Writer) -> Any:
    to.parts.append(json.dumps([encode(item) for item in values], separators=(",", ":"), allow_nan=False).encode())
    return [len(values)]


def read_objects(node: Any, of: Reader) -> Values:
    items = parse_json(bytes(of.part()), "objects of the record")
    if type(items) is not list or node != [len(items)]:
        of.refuse("has another number of objects than it says")
    values = np.empty(len(items), object)
    for i, item in enumerate(items):  # one by one: a list is a value here, not a row
        values[i] = decode(item)
    return values


def ipc_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    table = table.combine_chunks()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def read_ipc(part: memoryview, of: Reader, rows: Any) -> pa.Table:
    """The table of an IPC stream, validated; in the memory of the part."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(part)).read_all()
        if type(rows) is not int or table.num_rows != rows:
            of.refuse(f"has {table.num_rows} rows, expected {rows}")
        table.validate(full=True)
    except (MemoryError, CorruptSnapshot):  # Arrow's MemoryError is an ArrowException, too
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        of.refuse(f"cannot be read: {error}")
    return table


def _shape_of(node: Any, of: Reader) -> tuple[tuple[int, ...], int | None, int]:
    """The shape of an array; the axis along which it was abridged, and how much of that was kept."""
    shape, axis, kept = node, None, 0
    if type(node) is list and len(node) == 1 and type(node[0]) is int and 0 <= node[0] < 1 << 48:
        return (node[0],), None, 0  # most of them
    if type(node) is list and len(node) == 3 and type(node[0]) is list:
        shape, axis, kept = node
    if type(shape) is not list or len(shape) > _MOST_AXES or not all(_is_size(length) for length in shape):
        of.refuse(f"has the impossible shape {str(shape)[:40]}")
    if axis is not None and not (_is_size(axis) and axis < len(shape) and _is_size(kept) and 1 <= kept <= shape[axis]):
        of.refuse("is abridged in an impossible way")
    return tuple(shape), axis, kept


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _dtype_of(text: str, of: Reader) -> np.dtype[Any]:
    if text not in _DTYPES:
        of.refuse(f"cannot be of {text[:40]!r}")
    return np.dtype(text)


_DTYPES = {np.dtype(name).newbyteorder("<").str for name in ("?", *"bhiqBHIQefd")}


def _volume(shape: tuple[int, ...]) -> int:
    volume = 1
    for length in shape:
        volume *= length
    return volume


def _repetition(values: Values) -> tuple[int | None, int]:
    """The axis along which the most can be left out, because its end is the same over and over; what is kept of it."""
    best: tuple[int | None, int] = (None, 0)
    saved = 0
    for axis, length in enumerate(values.shape if values.dtype.kind in "iub" and values.size > 8 else ()):
        others = tuple(i for i in range(values.ndim) if i != axis)
        last = values.take([-1], axis)
        if length < 2 or not np.array_equal(values.take([-2], axis), last):
            continue
        differs = np.flatnonzero((values != last).any(axis=others))
        kept = int(differs[-1]) + 2 if len(differs) else 1
        if (less := (length - kept) * (values.size // length)) > saved:
            best, saved = (axis, kept), less
    return best
