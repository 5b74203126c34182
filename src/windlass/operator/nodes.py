"""A tree of objects as JSON and arrays, and back: what of it differs from a blank one.

A node is a plain value, or {kind: content}. Arrays are apart, by number; slices are written without the room between
them, their partials in the order of the slices. Nothing that is read is code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns
from windlass.errors import CorruptSnapshot
from windlass.formats.tagged_json import decode, encode
from windlass.operator.answers import Answers
from windlass.operator.branch import Branch
from windlass.operator.emitted import Emitted, Rows
from windlass.operator.events import Reader
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import Lift
from windlass.operator.ordered import Ordered
from windlass.operator.plan import Plan
from windlass.operator.sliced import Sliced
from windlass.operator.tuples import Tuples
from windlass.slicing.forest import Forest
from windlass.slicing.slices import (
    BARRIER,
    BASE,
    BORN,
    CAPACITY,
    CHANGED,
    END,
    ENTRY,
    FIRST,
    HI,
    LAST,
    LO,
    MEASURES,
    POS,
    SLOT,
    START,
    Slices,
    lines,
)

Array = np.ndarray[Any, Any]

_PACKAGES = ("windlass.operator.", "windlass.slicing.")
_DETERMINED = (Plan, Answers, Lift, Reader, Forest)  # by queries, types and slices; of lifts, these write the partials
_MADE = {cls.__name__: cls for cls in (Tuples, Rows)}  # what comes and goes, so a blank operator has none
# The columns of slices that an engine uses; the others hold whatever was there.
_CUTTY, _GENERAL = (FIRST, POS), (START, END, FIRST, LAST, BORN, CHANGED, BARRIER)


def is_mutable(value: Any) -> bool:
    """Whether an object is one of the operator's own that change."""
    frozen = getattr(getattr(type(value), "__dataclass_params__", None), "frozen", isinstance(value, tuple))
    return not frozen and type(value).__module__.startswith(_PACKAGES)


# --------------------------------------------------------------------------- writing the tree


class Writer:
    """Turns values into JSON and arrays. A node is a plain value, or {kind: content}."""

    def __init__(self, reader: Reader) -> None:
        self.types = reader.types
        self.lifts: list[Lift] = []  # of the branch that is being written
        self.described: list[Any] = []
        self.parts: list[bytes] = []

    def attributes(self, value: Any, blank: Any) -> dict[str, Any]:
        """The attributes of an object that differ from those of a blank one."""
        if isinstance(value, Branch) and value.engine is not None:
            self.lifts = value.engine.lifts
        nodes: dict[str, Any] = {}
        for name, item in vars(value).items():
            if isinstance(vars(type(value)).get(name), cached_property):
                continue
            if isinstance(item, Slices):
                nodes[name] = {"slices": self.slices(item, value)}
            elif name == "partials" and isinstance(value, Rows | Emitted):
                nodes[name] = {"partials": self.partials(item)}
            elif name == "columns" and isinstance(value, Tuples):
                nodes[name] = {"dict": [[column, self.column(column, values)] for column, values in item.items()]}
            elif not _is_same(item, vars(blank).get(name, _NOTHING) if blank is not None else _NOTHING):
                nodes[name] = self.node(item, None if blank is None else vars(blank).get(name))
        return nodes

    def node(self, value: Any, blank: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float | np.generic):
            return {"plain": encode(value)}
        if isinstance(value, np.ndarray):
            return {"array": self.array(value)}
        if isinstance(value, pa.Table):
            return {"table": self.raw(_ipc(value))}
        if isinstance(value, bytes):
            return {"bytes": self.raw(value)}
        if isinstance(value, dict):
            known = blank if isinstance(blank, dict) else {}
            return {"dict": [[self.node(k, None), self.node(v, known.get(k))] for k, v in value.items()]}
        if isinstance(value, set):
            return {"set": [self.node(item, None) for item in sorted(value)]}
        if isinstance(value, list | tuple):
            before = blank if isinstance(blank, list | tuple) else ()
            items = [self.node(v, before[i] if i < len(before) else None) for i, v in enumerate(value)]
            return {type(value).__name__: items}
        if isinstance(value, KeyIndex):
            return {"keys": self.node(value.snapshot(), None)}
        if is_mutable(value) and not isinstance(value, _DETERMINED):
            like = blank if type(blank) is type(value) else None
            if like is None and type(value).__name__ not in _MADE:
                raise TypeError(f"a {type(value).__name__} is not part of a blank operator")
            return {"object": [type(value).__name__, self.attributes(value, like)]}
        return {"made": type(value).__name__}  # the blank one is just so

    def slices(self, s: Slices, owner: Any) -> dict[str, Any]:
        """Directory, rows and partials of the slices that are alive, key by key."""
        d = s.directory
        sizes = d[:, HI] - d[:, LO]
        starts = np.cumsum(sizes) - sizes
        live = s.rows[np.arange(int(sizes.sum())) + np.repeat(d[:, BASE] + d[:, LO] - starts, sizes)]
        slots = live[:, SLOT]
        return {
            "directory": self.array(d[:, [LO, HI, CAPACITY]]),
            "rows": self.array(live[:, _used(owner, s)]),
            "partials": self.partials([tuple(column[slots] for column in _pool(lift, s)) for lift in owner.lifts]),
        }

    def partials(self, columns: Sequence[Columns]) -> list[list[int]]:
        """Partials of all lifts of the branch."""
        written = []
        for lift, of_lift in zip(self.lifts, columns, strict=True):
            if lift.retired:  # whatever was in memory
                of_lift = tuple(np.full_like(column, None if column.dtype == object else 0) for column in of_lift)
            written.append([self.array(column, lift.monoid.encode) for column in of_lift])
        return written

    def column(self, name: str, values: Array) -> Any:
        """A column of events. Objects came from Arrow, which writes them shorter than JSON."""
        if values.dtype == object and name in self.types:
            try:
                array = pa.array(values.tolist(), self.types[name].arrow)
                return {"column": self.raw(_ipc(pa.table({"": array})))}
            except MemoryError:  # Arrow's is an ArrowException, too
                raise
            except (pa.ArrowException, TypeError, ValueError):
                pass
        return {"array": self.array(values)}

    def array(self, values: Array, hook: Callable[[Any], Any] | None = None) -> int:
        if values.dtype == object:
            raw = json.dumps([encode(item, hook) for item in values]).encode()
            return self._add(["object", list(values.shape), None, len(raw)], raw)
        axis, kept = _repeats(values)
        raw = np.ascontiguousarray(values if axis is None else values.take(np.arange(kept), axis)).tobytes()
        return self._add([values.dtype.str, list(values.shape), axis, len(raw)], raw)

    def raw(self, raw: bytes) -> int:
        return self._add(["bytes", [], None, len(raw)], raw)

    def _add(self, described: list[Any], raw: bytes) -> int:
        self.described.append(described)
        self.parts.append(raw)
        return len(self.parts) - 1


_NOTHING = object()


def _is_same(value: Any, blank: Any) -> bool:
    """Whether a value needs not be written, because a blank operator has it too."""
    if type(value) is not type(blank):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype == blank.dtype and value.dtype != object and np.array_equal(value, blank)
    if isinstance(value, list | tuple):
        return len(value) == len(blank) and all(map(_is_same, value, blank))
    if isinstance(value, dict):
        return list(value) == list(blank) and all(_is_same(item, blank[key]) for key, item in value.items())
    if isinstance(value, bool | int | str | float):
        return bool(value == blank)
    if isinstance(value, set):
        return bool(value == blank)
    return value is None or isinstance(value, _DETERMINED) or not (is_mutable(value) or isinstance(value, pa.Table))


def _used(owner: Any, s: Slices) -> list[int]:
    measures = list(range(MEASURES, s.rows.shape[1]))
    if isinstance(owner, Ordered):
        return [*_CUTTY, *measures]
    return [*_GENERAL, *measures] if isinstance(owner, Sliced) else [*range(SLOT), *range(SLOT + 1, s.rows.shape[1])]


def _pool(lift: Lift, s: Slices) -> Columns:
    if lift.retired:
        return lift.monoid.allocate(s.slots)
    lift.reserve(s)  # one that has run nothing yet has no room
    return lift.pool


def _repeats(values: Array) -> tuple[int | None, int]:
    """An axis along which the end is the same over and over, and how much of it to keep: room for keys to come."""
    best: tuple[int | None, int] = (None, 0)
    saved = 0
    for axis, length in enumerate(values.shape if values.dtype.kind in "iub" and values.size > 8 else ()):
        others = tuple(i for i in range(values.ndim) if i != axis)
        differs = np.flatnonzero((values != values.take([-1], axis)).any(axis=others))
        kept = int(differs[-1]) + 2 if len(differs) else 1
        if (less := (length - kept) * (values.size // length)) > saved:
            best, saved = (axis, kept), less
    return best


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    table = table.combine_chunks()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


# --------------------------------------------------------------------------- reading it


class Taken:
    """Turns nodes back into values, in the place of those of a blank operator."""

    def __init__(self, described: list[Any], body: memoryview, reader: Reader) -> None:
        ends = np.cumsum([length for _, _, _, length in described], dtype=np.int64).tolist()
        if any(length < 0 for _, _, _, length in described) or (ends[-1] if ends else 0) != len(body):
            raise CorruptSnapshot(f"the snapshot has {len(body)} bytes of arrays, its head tells of others")
        self.arrays = [(*what, body[end - what[3] : end]) for what, end in zip(described, ends, strict=True)]
        self.reader = reader
        self.lifts: list[Lift] = []

    def fill(self, blank: Any, nodes: Mapping[str, Any]) -> None:
        """Set the attributes that were written."""
        if isinstance(blank, Branch) and blank.engine is not None:
            self.lifts = blank.engine.lifts
        known = {f.name for f in fields(blank)} if type(blank).__name__ in _MADE else set(vars(blank))
        for name, node in nodes.items():
            if name not in known:
                raise CorruptSnapshot(
                    f"another version of Windlass made the snapshot: a {type(blank).__name__} has no {name!r} here"
                )
            before = vars(blank).get(name)
            if isinstance(before, Slices):
                self.slices(before, blank, node["slices"])
                continue
            value = self.value(node, before)
            if before is not None and _kind(before) != _kind(value):
                raise CorruptSnapshot(f"{name} of the snapshot is of {_kind(value)}, expected {_kind(before)}")
            setattr(blank, name, value)

    def value(self, node: Any, blank: Any) -> Any:
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "array":
            return self.array(content)
        if kind == "object":
            return self.object(content, blank)
        if kind in ("list", "tuple"):
            before = blank if isinstance(blank, list | tuple) else ()
            items = [self.value(item, before[i] if i < len(before) else None) for i, item in enumerate(content)]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            known = blank if isinstance(blank, dict) else {}
            pairs = ((self.value(key, None), item) for key, item in content)
            return {key: self.value(item, known.get(key)) for key, item in pairs}
        if kind == "set":
            return {self.value(item, None) for item in content}
        if kind == "made":
            if type(blank).__name__ != content:
                raise CorruptSnapshot(f"the snapshot refers to a {content} where there is a {type(blank).__name__}")
            return blank
        if kind == "keys":
            return KeyIndex.restore(self.reader.key, self.value(content, None))
        if kind == "partials":
            return self.partials(content)
        if kind == "column":
            return _objects(self.table(content).column(0).to_pylist())
        if kind == "plain":
            return decode(content)
        if kind == "table":
            return self.table(content)
        if kind == "bytes":
            return bytes(self.arrays[content][-1])
        raise CorruptSnapshot(f"the snapshot holds a value of unknown kind {kind!r}")

    def object(self, content: Any, blank: Any) -> Any:
        name, nodes = content
        if type(blank).__name__ != name:
            if name not in _MADE:
                raise CorruptSnapshot(f"another version of Windlass made the snapshot: there is no {name} here")
            blank = object.__new__(_MADE[name])
        self.fill(blank, nodes)
        return blank

    def slices(self, s: Slices, owner: Any, nodes: Mapping[str, Any]) -> None:
        """Lay slices out anew: runs of the same capacity one after the other, slots in the order of the slices."""
        lo, hi, capacity = self.array(nodes["directory"]).T
        live, used = self.array(nodes["rows"]), _used(owner, s)
        n, sizes = len(live), hi - lo
        if (
            (lo < 0).any()
            or (sizes < 0).any()
            or (hi > capacity).any()
            or sizes.sum() != n
            or live.shape[1] != len(used)
        ):
            raise CorruptSnapshot("the slices of the snapshot do not add up")
        base, starts = np.cumsum(capacity) - capacity, np.cumsum(sizes) - sizes
        s.top = int(capacity.sum())
        s.directory, s.rows = lines(len(lo), ENTRY), lines(s.top, s.rows.shape[1])
        s.directory[:] = 0  # no tree is right yet
        for word, values in ((BASE, base), (LO, lo), (HI, hi), (CAPACITY, capacity)):
            s.directory[:, word] = values
        at = np.arange(n) + np.repeat(base + lo - starts, sizes)
        s.rows[at[:, np.newaxis], used] = live
        s.rows[at, SLOT] = np.arange(n)
        s.slots, s.free, s.free_count = n, np.empty(n, np.int64), 0
        for lift, columns in zip(owner.lifts, self.partials(nodes["partials"]), strict=True):
            if any(len(column) != n for column in columns):
                raise CorruptSnapshot("the snapshot has not one partial for each slice")
            lift.pool = lift.monoid.allocate(0) if lift.retired else columns
            lift.nodes = lift.monoid.allocate(0)

    def partials(self, content: Any) -> list[Columns]:
        found = []
        for lift, numbers in zip(self.lifts, content, strict=True):
            if lift.retired:  # only their number matters: nothing reads them
                found.append(lift.monoid.allocate(self.arrays[numbers[0]][1][0] if numbers else 0))
                continue
            columns = tuple(self.array(number, lift.monoid.decode) for number in numbers)
            for column, field in zip(columns, lift.monoid.fields, strict=True):
                if column.dtype != field.dtype or column.shape[1:] != field.shape:
                    raise CorruptSnapshot(f"partials of the snapshot are {column.dtype}, expected {field.dtype}")
            found.append(columns)
        return found

    def array(self, number: int, hook: Callable[[Any], Any] | None = None) -> Array:
        dtype, shape, axis, _, raw = self.arrays[number]
        if dtype == "object":
            values = _objects([decode(item, hook) for item in json.loads(bytes(raw))])
            if list(values.shape) != shape:
                raise CorruptSnapshot("an array of the snapshot has another length than its head says")
            return values
        if np.dtype(dtype).hasobject:
            raise CorruptSnapshot(f"an array of the snapshot cannot be of {dtype}")
        if axis is None:
            return np.frombuffer(raw, dtype).reshape(shape).copy()
        kept = [-1 if i == axis else length for i, length in enumerate(shape)]
        values = np.frombuffer(raw, dtype).reshape(kept)
        rest = np.repeat(values.take([-1], axis), shape[axis] - values.shape[axis], axis)
        return np.concatenate([values, rest], axis)

    def table(self, number: int) -> pa.Table:
        return pa.ipc.open_stream(pa.py_buffer(bytes(self.arrays[number][-1]))).read_all()


class Unsealed(Taken):
    """What `sealed` has written."""

    state: Any

    @property
    def known(self) -> Any:
        return self.value(self.state, None)


def _kind(value: Any) -> str:
    """What an attribute does not change."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} in {value.ndim} dimension(s)"
    return "int" if isinstance(value, np.integer) else type(value).__name__


def _objects(items: list[Any]) -> Array:
    array = np.empty(len(items), object)
    for i, item in enumerate(items):  # one by one: a list is a value here, not a row
        array[i] = item
    return array
