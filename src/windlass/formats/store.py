"""The record of a store: one window of partials, by one incremental technique."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.errors import CorruptSnapshot
from windlass.formats.arrays import Array, ArrowSchema, Column
from windlass.formats.container import parse_json
from windlass.formats.kinds import Field, Flag, Group, Integer, ListOf, Maybe, Rule, Text
from windlass.formats.record import Record
from windlass.formats.tagged_json import decode

__all__ = ["AGGREGATE", "FIELDS", "STORE", "TECHNIQUES"]

# What techniques are called here, by what 0.1 called them.
TECHNIQUES = {
    "Recompute": "recompute",
    "SubtractOnEvict": "subtract-on-evict",
    "TwoStacks": "two-stacks",
    "DABA": "daba",
    "FlatFAT": "flatfat",
    "FlatFIT": "flatfit",
    "BInt": "b-int",
    "SlickDequeInv": "slick-deque-inv",
    "SlickDequeNonInv": "slick-deque-non-inv",
    "FiBA": "fiba",
    "ClassicBTree": "classic-b-tree",
}

AGGREGATE = Group(
    "aggregate",
    Field("name", Text()),
    Field("columns", ListOf(Maybe(Text())), "null: the values themselves"),
    Field("params", ListOf(ListOf(Text(), least=2, most=2)), "names and values, as text"),
)

FIELD = Group(
    "partial field",
    Field("name", Text()),
    Field("dtype", Text(), "as NumPy calls it"),
    Field("shape", ListOf(Integer(1), most=4), "of an array; empty: one value"),
)
FIELDS = ListOf(FIELD)

STATE = Group(
    "store state",
    Field("types", ArrowSchema(), "of the values that are aggregated"),
    Field("nullable", Flag()),
    Field("fields", FIELDS, "of a partial"),
    Field("header", ListOf(Integer(), least=1, most=64), "the technique's integers, such as the number of events"),
    Field("links", Array("int64", "links"), "positions beside the partials, if the technique has any"),
    Field("live", ListOf(Column("live"), size="fields"), "the partials that are alive, oldest first, field by field"),
    Field("running", ListOf(Column("running"), size="fields"), "the technique's running partials"),
    sizes="links live running fields",
    rules=[Rule("`live` has a column for each of `fields`", lambda s: len(s["fields"]) == len(s["live"]))],
)

OPTIONS = Group(
    "store options",
    Field("windows", ListOf(Integer(1), least=1), "SlickDeque: the ranges that can be asked for", optional=True),
    Field("min_arity", Integer(2, 1 << 10), "B-trees", optional=True),
    Field("unit", Maybe(Text()), "B-trees: of times; null: they are integers", optional=True),
)

CONTENT = Group(
    "store",
    Field("technique", Text(), f"{', '.join(f'`{name}`' for name in TECHNIQUES.values())}, or a user's own"),
    Field("layout", Integer(1), "of the technique's header and links"),
    Field("aggregate", AGGREGATE),
    Field("python", Text(), "the version whose byte code `functions` is a digest of"),
    Field("functions", Maybe(Text()), "a digest of the aggregate's functions; null: it has none of the user's own"),
    Field("options", OPTIONS),
    Field("state", Maybe(STATE), "null before the first value"),
)


def _of_0_1(head: Any, parts: list[memoryview]) -> Any:
    """What 0.1 wrote: types as text, arrays by number, objects as JSON."""
    state = None
    if head["bound"]:
        arrays, at, body = [], 0, parts[0]
        for dtype, shape, length in head["arrays"]:
            if type(length) is not int or length < 0:
                raise CorruptSnapshot(f"an array of the snapshot cannot have {length} bytes")
            arrays.append(_array_of_0_1(dtype, tuple(shape), body[at : at + length]))
            at += length
        if at != len(body):
            raise CorruptSnapshot(f"the snapshot has {len(body)} bytes of arrays, its head tells of {at}")
        width = len(head["fields"])
        if len(arrays) != 1 + 2 * width:
            raise CorruptSnapshot(f"the snapshot has {len(arrays)} arrays, expected {1 + 2 * width}")
        state = {
            "types": pa.ipc.read_schema(pa.py_buffer(base64.b64decode(head["types"], validate=True))),
            "nullable": head["nullable"],
            "fields": [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in head["fields"]],
            "header": [int(number) for number in head["header"]],
            "links": arrays[0],
            "live": arrays[1 : 1 + width],
            "running": arrays[1 + width :],
        }
    python, functions = head["definition"]
    return {
        "technique": TECHNIQUES.get(head["technique"], head["technique"]),
        "layout": head["layout"],
        "aggregate": head["aggregate"],
        "python": python,
        "functions": functions,
        "options": head["options"],
        "state": state,
    }


def _array_of_0_1(dtype: str, shape: tuple[int, ...], raw: memoryview) -> np.ndarray[Any, Any]:
    if dtype != "object":
        if np.dtype(dtype).kind not in "biuf":
            raise CorruptSnapshot(f"an array of the snapshot cannot be of {dtype}")
        return np.frombuffer(raw, dtype).reshape(shape).copy()
    items = parse_json(bytes(raw), "an array of the snapshot")
    values = np.empty(len(items), object)
    for i, item in enumerate(items):
        values[i] = decode(item)
    if values.shape != shape:
        raise CorruptSnapshot("an array of the snapshot has another length than its head says")
    return values


STORE = Record(
    "store",
    2,
    "A store of `windlass.stores`: one window of partials, kept by one incremental technique.",
    CONTENT,
    upgrades={1: _of_0_1},
)
