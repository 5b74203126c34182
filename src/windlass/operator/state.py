"""An operator's state as bytes, and back; and a second operator that goes on from the same state.

    magic "WINDLASS OPERATOR" · format (u32) · length of the head (u64) · head (JSON) · arrays · BLAKE2b of it all

What is state is not listed anywhere. An operator is a tree of objects of `windlass.operator` and `windlass.slicing`; a
blank one, made of the same queries and types, is the same tree before the first event. What differs from the blank
one is written, attribute by attribute; what queries and types determine (plans, monoids, windows) is not, and comes
from the blank one again. So an attribute that an engine is given tomorrow is in tomorrow's snapshots.

    head   asked     the options, which must be those of the operator that is restored; the queries, and digests of
                     their functions: a query that is asked again must be the same
           branches  of each branch its queries, and the dtypes of its columns once it has an engine
           reader    the types of all columns
           state     the tree; arrays by number
           arrays    (dtype, shape, axis along which the end repeats itself, bytes) of each

Slices are written without the room between them, their partials in the order of the slices, trees not at all: leaves
keep their places, so repaired trees are the same to the last bit. Nothing that is read is code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import Column
from windlass.errors import CorruptSnapshot, WindlassError, WrongType
from windlass.kernels import digest
from windlass.kernels.digests import Undigestible
from windlass.operator.answers import Answers
from windlass.operator.branch import Branch
from windlass.operator.costs import STORES
from windlass.operator.definitions import defined, definition
from windlass.operator.emitted import Emitted, Rows
from windlass.operator.events import Events, Reader
from windlass.operator.keys import KeyIndex
from windlass.operator.lift import Lift
from windlass.operator.ordered import Ordered
from windlass.operator.plan import Plan
from windlass.operator.query import Query
from windlass.operator.sliced import Sliced
from windlass.operator.tuples import Tuples
from windlass.slicing.edges import LONG_AGO
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
from windlass.stores.objects import decode, encode
from windlass.windows.predicate import Predicate
from windlass.windows.window import Window

if TYPE_CHECKING:
    from windlass.operator.operator import Operator

Array = np.ndarray[Any, Any]
T = TypeVar("T")

MAGIC = b"WINDLASS OPERATOR"
FORMAT = 3  # of this file, and of the meaning of what the engines keep
_DIGEST = 16
_PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"

_PACKAGES = ("windlass.operator.", "windlass.slicing.")
_DETERMINED = (Plan, Answers, Lift, Reader, Forest)  # by queries, types and slices; of lifts, these write the partials
_MADE = {cls.__name__: cls for cls in (Tuples, Rows)}  # what comes and goes, so a blank operator has none
# The columns of slices that an engine uses; the others hold whatever was there.
_CUTTY, _GENERAL = (FIRST, POS), (START, END, FIRST, LAST, BORN, CHANGED, BARRIER)

# What reading a state that could not be may raise.
_IMPOSSIBLE: tuple[type[Exception], ...] = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
_IMPOSSIBLE += (AssertionError, MemoryError, RecursionError, pa.ArrowException, WindlassError)


def is_mutable(value: Any) -> bool:
    """Whether an object is one of the operator's own that change."""
    frozen = getattr(getattr(type(value), "__dataclass_params__", None), "frozen", isinstance(value, tuple))
    return not frozen and type(value).__module__.startswith(_PACKAGES)


# --------------------------------------------------------------------------- to bytes and back


def pack(operator: Operator) -> bytes:
    """The state of an operator, which does not change."""
    reader = operator._reader.snapshot()
    branches = [_making(branch) for branch in operator._branches]
    writer = _Writer(operator._reader)
    head = {
        "asked": asked(operator),
        "branches": branches,
        "reader": base64.b64encode(reader).decode(),
        "state": writer.attributes(operator, _blank(operator, reader, branches)),
        "arrays": writer.described,
    }
    return _framed(head, writer)


def _framed(head: dict[str, Any], writer: _Writer) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    data = b"".join([MAGIC, struct.pack("<IQ", FORMAT, len(text)), text, *writer.parts])
    return data + hashlib.blake2b(data, digest_size=_DIGEST).digest()


def unpack(operator: Operator, data: Any, removed: Iterable[Query] = ()) -> Operator:
    """An operator with the options and queries of this one, in the state of the snapshot."""
    head, body = _opened(data)
    with refusing():
        check_options(head["asked"], asked(operator))
        then = recalled(head["asked"], operator.queries, removed)
        reader = base64.b64decode(head["reader"], validate=True)
        unpinned = type(operator)(then, **{**options(operator), "plan": None})
        unpinned._planning.pin = operator._planning.pin  # as far as it goes: the trees are those of the snapshot
        other = _blank(unpinned, reader, head["branches"])
        taken = _Taken(head["arrays"], body, other._reader)
        taken.fill(other, head["state"])
        other.change_queries(operator.queries)
    return other


@contextmanager
def refusing() -> Iterator[None]:
    """Whatever reading a state that could not be raises: the snapshot is corrupt."""
    try:
        yield
    except CorruptSnapshot:
        raise
    except _IMPOSSIBLE as error:
        raise CorruptSnapshot(f"the snapshot's state is impossible: {type(error).__name__}: {error}") from error


def sealed(asked: dict[str, Any], reader: Reader, write: Callable[[_Writer], Any]) -> bytes:
    """The state of something else that reads events, in the same frame: what was asked, and what `write` says."""
    writer = _Writer(reader)
    known = writer.node(write(writer), None)
    types = base64.b64encode(reader.snapshot()).decode()
    return _framed({"asked": asked, "reader": types, "state": known, "arrays": writer.described}, writer)


def unsealed(data: Any, reader: Reader) -> tuple[Any, bytes, Unsealed]:
    """What was asked, the reader's state, and the rest."""
    head, body = _opened(data)
    taken = Unsealed(head["arrays"], body, reader)
    taken.state = head["state"]
    return head["asked"], base64.b64decode(head["reader"], validate=True), taken


def digests(aggregate: Any) -> list[str | None]:
    """Of an aggregate's own functions."""
    return [_digest(aggregate.definition or None)]


def unpickled(
    cls: type[Operator], queries: list[Query], removed: list[Query], options: dict[str, Any], data: bytes
) -> Operator:
    return cls(queries, **options).restore(data, removed=removed)


def copied(value: T, memo: dict[int, Any] | None = None) -> T:
    """The same state in memory of its own; what does not change is shared."""
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]  # type: ignore[no-any-return]
    made: Any = value
    if isinstance(value, np.ndarray):
        made = value.copy()
    elif type(value) in (list, tuple):
        made = type(value)(copied(item, memo) for item in value)  # type: ignore[attr-defined, call-arg]
    elif isinstance(value, dict):
        made = {key: copied(item, memo) for key, item in value.items()}
    elif isinstance(value, set):
        made = set(value)
    elif is_mutable(value):
        made = memo[id(value)] = object.__new__(type(value))
        for name, item in vars(value).items():
            object.__setattr__(made, name, copied(item, memo))
    memo[id(value)] = made
    return made  # type: ignore[no-any-return]


def _opened(data: Any) -> tuple[dict[str, Any], memoryview]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WrongType(f"a snapshot is bytes, got {type(data).__name__}")
    data = bytes(data)
    start = len(MAGIC) + 12
    if not data.startswith(MAGIC) or len(data) < start + _DIGEST:
        raise CorruptSnapshot("these bytes are not the snapshot of an operator")
    if hashlib.blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise CorruptSnapshot("the snapshot is damaged: its checksum does not match")
    form, length = struct.unpack_from("<IQ", data, len(MAGIC))
    if form != FORMAT:
        raise CorruptSnapshot(f"the snapshot has format {form}; this version of Windlass reads format {FORMAT}")
    try:
        return json.loads(data[start : start + length]), memoryview(data)[start + length : -_DIGEST]
    except ValueError as error:
        raise CorruptSnapshot(f"the head of the snapshot cannot be read: {error}") from error


def _making(branch: Branch) -> dict[str, Any]:
    """What it takes, besides queries and types, to make a branch like this one before its first event."""
    making: dict[str, Any] = {"queries": [query.name for query in _planned(branch)]}
    making["technique"] = next((name for name, store in STORES.items() if store == branch.store), "auto")
    if branch.since != LONG_AGO:
        making["since"] = branch.since
    if branch.plan.joins:
        making["joins"] = [list(join) for join in branch.plan.joins]
    if branch.engine is not None:
        making["removed"] = sorted(branch.plan.removed)
        making["dtypes"] = {name: str(dtype) for name, dtype in branch.plan.dtypes.items()}
        making["engine"] = type(branch.engine).__name__
        making["partials"] = [_layout(lift.monoid) for lift in branch.engine.lifts]
    return making


def _planned(branch: Branch) -> list[Query]:
    """The queries of a branch, and those that were removed: what is kept was planned with them."""
    return branch.queries if branch.engine is None else branch.plan.queries


def planned(operator: Operator) -> list[Query]:
    """All queries that an operator must be made with to be like this one."""
    return [query for branch in operator._branches for query in _planned(branch)]


def _layout(m: Monoid) -> list[Any]:
    return [[f.name, str(f.dtype), list(f.shape)] for f in m.fields]


def _blank(operator: Operator, reader: bytes, branches: Sequence[Mapping[str, Any]]) -> Operator:
    """An operator that was asked the same and knows the types, but has seen no event."""
    queries = {query.name: query for query in planned(operator)}
    other = type(operator)(list(queries.values()), **{**options(operator), "plan": None})
    other._planning.pin = operator._planning.pin
    other._reader.restore(reader)
    other._branches = []
    for making in branches:
        made, joins = [queries[name] for name in making["queries"]], making.get("joins", [])
        ends = [first for _, first in joins] + [len(made)]
        technique = making.get("technique", "auto")
        branch = other._planning.branch(made[: ends[0]], making.get("since", LONG_AGO), technique)
        if "engine" in making:
            added = [
                other._planning.branch(made[first:end], since, technique)
                for (since, first), end in zip(joins, ends[1:], strict=True)
            ]
            _install(branch, other, making, added)
        other._branches.append(branch)
    return other


def _install(branch: Branch, operator: Operator, making: Mapping[str, Any], added: Sequence[Branch]) -> None:
    install(branch, operator, making["dtypes"], LONG_AGO)
    for other in added:
        install(other, operator, making["dtypes"], LONG_AGO)
        branch.take_in(other)
    made = _making(branch)
    for what in ("engine", "partials"):
        if made[what] != making[what]:
            raise CorruptSnapshot(
                f"another version of Windlass made the snapshot: its {what} {making[what]} would now be {made[what]}"
            )
    for name in making["removed"]:
        branch.remove(name, name)


def install(branch: Branch, operator: Operator, dtypes: Mapping[str, str], watermark: int) -> None:
    """Make a branch's engine without an event, of the types that are known."""
    reader = operator._reader
    plan = branch.bound_to(reader.unit)
    none = np.empty(0, np.int64)
    read = {name: Column(np.empty(0, t.dtype), None, t) for name, t in reader.types.items()}
    events = Events(none, (0, 0, True), None, [], reader.time_type, None, dict(reader.types), read)  # type: ignore[arg-type]
    tuples = Tuples(none, none, none, none, {n: np.empty(0, dtype) for n, dtype in dtypes.items()})
    lateness = _lateness(operator._lateness, reader.unit)
    branch.install(plan, events, tuples, lateness, reader.sequence is not None, watermark)


# --------------------------------------------------------------------------- what was asked


def options(operator: Operator) -> dict[str, Any]:
    """What an operator like this one is made with, besides its queries."""
    reader, planning = operator._reader, operator._planning
    return {
        "time": reader.time,
        "key": list(reader.key) or None,
        "sequence": reader.sequence,
        "allowed_lateness": operator._lateness,
        "order": "in-order" if operator._in_order else "out-of-order",
        "store": planning.asked.store,
        "slicing": planning.asked.slicing,
        "watermarks": operator._watermarks,
        "key_ttl": operator._key_ttl,
        "technique": planning.asked.technique,
        "plan": planning.pin,
    }


def asked(operator: Operator) -> dict[str, Any]:
    """Options and queries as plain data; equal if the operators are to do the same."""
    given = options(operator)
    given["allowed_lateness"] = _lateness(operator._lateness, "us")
    given["key_ttl"] = None if operator._key_ttl is None else _lateness(operator._key_ttl, "us")
    given["watermarks"] = None if operator._watermarks is None else repr(operator._watermarks)
    given["technique"] = None if given["technique"] == "auto" else given["technique"]  # as if it were not there
    given["plan"] = None if given["plan"] is None else [[list(names), by] for names, by in given["plan"]]
    queries = {query.name: _description(query) for query in planned(operator)}
    functions = {query.name: [_digest(f) for f in _functions(query)] for query in planned(operator)}
    definitions = {query.name: definition(query) for query in planned(operator)}
    return {
        "options": given,
        "queries": queries,
        "python": _PYTHON,
        "functions": functions,
        "definitions": definitions,
    }


def check_options(was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if a snapshot is of an operator with other options, and say which."""
    for name, value in now["options"].items():
        if name != "plan" and was["options"].get(name) != value:  # trees go on as they are
            raise CorruptSnapshot(
                f"the snapshot is of an operator with {name}={was['options'].get(name)!r}, this one has {value!r}"
            )


def recalled(was: Mapping[str, Any], queries: Sequence[Query], removed: Iterable[Query] = ()) -> list[Query]:
    """The queries that a state was made with: those of the same name here, if they are the same, and of the others what
    can be told."""
    here, others = {query.name: query for query in queries}, {query.name: query for query in removed}
    if not here.keys() & was["queries"].keys():
        names = ", ".join(repr(name) for name in was["queries"] if name == _plain_name(name))
        raise CorruptSnapshot(f"the snapshot is of other queries: {names}")
    then = []
    for name in was["queries"]:
        plain = _plain_name(name)
        query = here.get(name) or others.get(name) or others.get(plain)
        if query is not None:
            _check_query(query, was, name)
        elif (made := was["definitions"].get(name)) is not None:
            query = defined(name, made, queries)
        elif plain in here and not _difference(here[plain], was, name):
            query = here[plain]  # it went to another tree
        if query is None:
            raise CorruptSnapshot(
                f"the snapshot holds windows of the query {plain!r}, which is not asked any more. It has functions of "
                "your own, which a snapshot does not hold: give the query once more, as one of those that are removed"
            )
        then.append(query if query.name == name else query.named(name))
    return then


def _plain_name(name: str) -> str:
    """Of a query that was removed (see `Operator.remove`), what it was called."""
    return name.split("\0")[-1]


def _check_query(query: Query, was: Mapping[str, Any], name: str) -> None:
    if difference := _difference(query, was, name):
        raise CorruptSnapshot(difference)


def _difference(query: Query, was: Mapping[str, Any], name: str) -> str | None:
    """In what a query is not the one that a state was made with."""
    for part, value in _description(query).items():
        if was["queries"][name].get(part) != value:
            return (
                f"query {query.name!r} was another one when the snapshot was made: its {part} was "
                f"{was['queries'][name].get(part)}, now it is {value}; give the new one another name"
            )
    # A digest is one of byte code, which another Python writes differently; what has none cannot be compared.
    for a, b in zip(was["functions"][name], map(_digest, _functions(query)), strict=True):
        if was["python"] == _PYTHON and None not in (a, b) and a != b:
            return (
                f"the functions of query {query.name!r} are not those that the snapshot was made with; give the new "
                "query another name"
            )
    return None


def _lateness(lateness: Any, unit: str | None) -> int:
    if isinstance(lateness, int):
        return lateness
    return durations.parse(lateness, unit=unit or "us", positive=False)


def _description(query: Query) -> dict[str, Any]:
    return {
        "window": _of_window(query.window),
        "aggregates": [_of_aggregate(a) for a in query.aggregates],
        "filter": None if query.where is None else _of_value(query.where),
        "emit_empty": query.emit_empty,
    }


def _of_window(window: Window) -> str:
    values = [f"{f.name}={_of_value(getattr(window, f.name))}" for f in fields(window)]  # type: ignore[arg-type]
    return f"{type(window).__name__}({', '.join(values)})"


def _of_aggregate(a: Aggregate) -> str:
    return repr(a) if a.output is None else f"{a!r}.alias({a.output!r})"


def _of_value(value: Any) -> str:
    """As text that is the same in every process; functions are told apart by their digests."""
    if isinstance(value, Predicate):
        return "a function" if _is_function(value.condition) else repr(value)
    return "a function" if callable(value) else repr(value)


def _is_function(condition: Any) -> bool:
    return not isinstance(condition, str | pc.Expression)


def _functions(query: Query) -> list[Any]:
    """Functions of a user that a query has, or digests of them."""
    found: list[Any] = [a.definition or None for a in query.aggregates]
    values = [getattr(query.window, f.name) for f in fields(query.window)]  # type: ignore[arg-type]
    for value in [*values, query.where]:
        if isinstance(value, Predicate) and _is_function(value.condition):
            found.append(value.condition)
        elif callable(value):
            found.append(value)
    return found


def _digest(function: Any) -> str | None:
    if function is None or isinstance(function, str):
        return None if function is None or function.startswith("unnamed") else function
    try:
        return digest(function)
    except Undigestible:
        return None


# --------------------------------------------------------------------------- writing the tree


class _Writer:
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


class _Taken:
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


class Unsealed(_Taken):
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
