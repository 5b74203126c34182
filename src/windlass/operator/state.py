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

Trees over slices are not written at all: leaves keep their places, so repaired trees are the same to the last bit. How
the rest is written is in `nodes`, what was asked in `asked`. Nothing that is read is code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import Column
from windlass.errors import CorruptSnapshot, WindlassError, WrongType
from windlass.operator.asked import asked, check_options, in_unit, options, plain_options, planned, planned_in, recalled
from windlass.operator.branch import Branch
from windlass.operator.costs import STORES
from windlass.operator.events import Events, Reader
from windlass.operator.nodes import Taken, Unsealed, Writer, is_mutable
from windlass.operator.query import Query
from windlass.operator.tuples import Tuples
from windlass.slicing.edges import LONG_AGO

if TYPE_CHECKING:
    from windlass.operator.operator import Operator

T = TypeVar("T")

MAGIC = b"WINDLASS OPERATOR"
FORMAT = 4  # version of this layout and of the engines' state
_DIGEST = 16

# Errors that a damaged state may raise when it is read. MemoryError is not one of them.
_IMPOSSIBLE: tuple[type[Exception], ...] = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
_IMPOSSIBLE += (AssertionError, RecursionError, pa.ArrowException, WindlassError)


def pack(operator: Operator) -> bytes:
    """The state of an operator, which does not change."""
    reader = operator._reader.snapshot()
    branches = [_making(branch) for branch in operator._branches]
    writer = Writer(operator._reader)
    head = {
        "asked": asked(operator),
        "branches": branches,
        "reader": base64.b64encode(reader).decode(),
        "state": writer.attributes(operator, _blank(operator, reader, branches)),
        "arrays": writer.described,
    }
    return _framed(head, writer)


def _framed(head: dict[str, Any], writer: Writer) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    data = b"".join([MAGIC, struct.pack("<IQ", FORMAT, len(text)), text, *writer.parts])
    return data + hashlib.blake2b(data, digest_size=_DIGEST).digest()


def unpack(operator: Operator, data: Any, removed: Iterable[Query] = ()) -> Operator:
    """An operator with the options and queries of this one, in the state of the snapshot."""
    head, body = _opened(data)
    with refusing():
        check_options(head["asked"], plain_options(operator))
        then = recalled(head["asked"], operator._registered, removed)
        reader = base64.b64decode(head["reader"], validate=True)
        unpinned = type(operator)(then, **{**options(operator), "plan": None})
        unpinned._planning.pin = operator._planning.pin  # as far as it goes: the trees are those of the snapshot
        other = _blank(unpinned, reader, head["branches"])
        taken = Taken(head["arrays"], body, other._reader)
        taken.fill(other, head["state"])
        other.change_queries(operator._registered)
    return other


@contextmanager
def refusing() -> Iterator[None]:
    """Whatever reading a state that could not be raises: the snapshot is corrupt."""
    try:
        yield
    except (CorruptSnapshot, MemoryError):  # Arrow's MemoryError is an ArrowException, too
        raise
    except _IMPOSSIBLE as error:
        raise CorruptSnapshot(f"the snapshot's state is impossible: {type(error).__name__}: {error}") from error


def sealed(asked: dict[str, Any], reader: Reader, write: Callable[[Writer], Any]) -> bytes:
    """The state of something else that reads events, in the same frame: what was asked, and what `write` says."""
    writer = Writer(reader)
    known = writer.node(write(writer), None)
    types = base64.b64encode(reader.snapshot()).decode()
    return _framed({"asked": asked, "reader": types, "state": known, "arrays": writer.described}, writer)


def unsealed(data: Any, reader: Reader) -> tuple[Any, bytes, Unsealed]:
    """What was asked, the reader's state, and the rest."""
    head, body = _opened(data)
    taken = Unsealed(head["arrays"], body, reader)
    taken.state = head["state"]
    return head["asked"], base64.b64decode(head["reader"], validate=True), taken


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
    making: dict[str, Any] = {"queries": [query.name for query in planned_in(branch)]}
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
    _widen_as(branch, making["partials"])
    for name in making["removed"]:
        branch.remove(name, name)
    made, gone = _making(branch), [lift.retired for lift in branch.running.lifts]
    for what in ("engine", "partials"):
        now, was = made[what], making[what]
        if what == "partials" and len(now) == len(was):  # those of removed queries are dropped
            now, was = ([part for part, is_gone in zip(of, gone, strict=True) if not is_gone] for of in (now, was))
        if now != was:
            raise CorruptSnapshot(f"another version of Windlass made the snapshot: its {what} {was} would now be {now}")


def _widen_as(branch: Branch, layouts: Sequence[list[Any]]) -> None:
    """Widen the sums whose partials were wide in the snapshot."""
    lifts = zip(branch.running.lifts, layouts, strict=False)
    wide = [i for i, (lift, layout) in enumerate(lifts) if lift.monoid.wide and _layout(lift.monoid.wide) == layout]
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
