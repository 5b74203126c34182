"""The records of a wheel: what it is, its commits, its state beside the slots, and what it shares with other processes.

    wheel.json               wheel            what the wheel is
    manifests/*.json         wheel-manifest   the files of a commit, or of commits that were put together
    state/*.state            wheel-state      totals, and what is ahead of the watermark
    slots/*.parquet, .arrow                   slots of one level: the columns of a wheel-state, `key` only with keys
    control                  wheel-shared     behind a counter and a length, which the writer changes as it goes on

Times are ticks since 1970. The slots are plain Parquet or Arrow files, for other readers too: a manifest has their
checksums.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from windlass.formats.arrays import Array, ArrowTable, Column, Tagged
from windlass.formats.kinds import Field, Flag, Group, Integer, ListOf, Maybe, Rule, Text
from windlass.formats.record import Record
from windlass.formats.store import FIELDS

__all__ = ["WHEEL", "WHEEL_MANIFEST", "WHEEL_SHARED", "WHEEL_STATE"]

TICK = Integer(-(2**62), 2**62)
LENGTH = Integer(1, 2**62)
_MOST_LEVELS = 16
_CHECKSUM = Text(pattern="[0-9a-f]{32}")
_UNIQUE = "[0-9a-f]{32}"


def _is_schema(settings: dict[str, Any]) -> bool:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(settings["types"], validate=True)))
    return len(schema) >= 0


AGGREGATE = Group(
    "wheel's aggregate",
    Field("name", Text()),
    Field("columns", ListOf(Maybe(Text()))),
    Field("params", ListOf(ListOf(Text(), least=2, most=2)), "names and values, as text"),
    Field("definition", Text(), "a digest of the user's functions; empty: there are none"),
)

LEVEL = Group(
    "level",
    Field("every", LENGTH, "a slot, in the unit of times"),
    Field("keep", Tagged(), "`keep`, `drop`, or how many slots"),
    Field("prefix", Flag()),
    Field("compressed", Flag()),
    Field("ticks", LENGTH, "a slot"),
    Field("rotation", LENGTH, "slots until the level above gets one"),
    Field("name", Text()),
    rules=[Rule("`keep` is a retention", lambda l: l["keep"] in ("keep", "drop") or type(l["keep"]) is int)],
)

WHEEL_CONTENT = Group(
    "wheel",
    Field("aggregate", AGGREGATE),
    Field("types", Text(), "of the values: an Arrow schema, in base64"),
    Field("fields", FIELDS, "of a partial"),
    Field("tick", LENGTH, "in the unit of times"),
    Field("unit", Text()),
    Field("plain", Flag(), "times are integers"),
    Field("levels", ListOf(LEVEL, least=1, most=_MOST_LEVELS)),
    Field("start", TICK),
    Field("write_ahead", Integer(1, 1 << 40), "ticks"),
    Field("hints", Flag()),
    Field("simd_threshold", Integer()),
    Field("subtracts", Flag()),
    Field("invertible", Maybe(Flag())),
    Field("keyed", Flag()),
    rules=[Rule("`types` is a schema", _is_schema)],
)


def _fields_of_0_1(content: Any, parts: list[memoryview]) -> Any:
    """0.1 wrote each field of a partial as a list."""
    fields = [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in content["fields"]]
    return {**content, "fields": fields}


WHEEL = Record(
    "wheel",
    2,
    "What a wheel is: `wheel.json` in its directory.",
    WHEEL_CONTENT,
    is_document=True,
    upgrades={1: _fields_of_0_1},
)

# --------------------------------------------------------------------------- commits

SLOTS_FILE = Group(
    "file of slots",
    Field("name", Text(pattern=rf"slots/\d+-\d{{8,}}-{_UNIQUE}\.(parquet|arrow)")),
    Field("level", Integer(0, _MOST_LEVELS - 1)),
    Field("rows", Integer(0, 1 << 40)),
    Field("checksum", _CHECKSUM, "BLAKE2b-128 of the file"),
)
STATE_FILE = Group(
    "file of state",
    Field("name", Text(pattern=rf"state/\d{{8,}}-{_UNIQUE}\.(state|arrow)"), "0.1 wrote `.arrow` files"),
    Field("checksum", _CHECKSUM),
)
RANGE = ListOf(TICK, least=2, most=2)
NUMBERS = ListOf(Integer(0), least=2, most=2)


def _gaps_ascend(manifest: dict[str, Any]) -> bool:
    ends = [tick for gap in manifest.get("gaps", []) for tick in gap]
    return all(a < b for a, b in manifest.get("gaps", [])) and ends == sorted(ends)


def _runs_on(manifest: dict[str, Any]) -> bool:
    return "watermark" not in manifest or manifest["start"] <= manifest["watermark"]


MANIFEST = Group(
    "wheel-manifest",
    Field("number", Integer(0), "of the commit, or of the last that was put together"),
    Field("files", ListOf(SLOTS_FILE)),
    Field("state", Maybe(STATE_FILE)),
    Field("corrects", Flag(), "slots of the lowest level were corrected: the others are derived again"),
    Field("watermark", TICK, "this and the following are there if a wheel was saved", optional=True),
    Field("start", TICK, optional=True),
    Field("first", TICK, "of the first event; 2^62: there was none", optional=True),
    Field("oldest", ListOf(TICK, most=_MOST_LEVELS), "the number of each level's oldest slot", optional=True),
    Field("gaps", ListOf(RANGE), "quiet times, which are not stored", optional=True),
    Field("keys", Maybe(ListOf(Tagged())), "in the order of their places", optional=True),
    Field("late", Integer(0), "events that were rejected", optional=True),
    Field("merges", Integer(1, 64), "this and the following: of one that was put together", optional=True),
    Field("merged", ListOf(Text(pattern=rf"merged-\d{{8,}}-{_UNIQUE}\.json")), "that it replaces", optional=True),
    Field("commits", ListOf(NUMBERS), "first and last numbers that it replaces", optional=True),
    rules=[
        Rule("gaps ascend", _gaps_ascend),
        Rule("the watermark is not before the start", _runs_on),
        Rule("one that was put together says of what",
             lambda m: len({"merges", "merged", "commits"} & m.keys()) in (0, 3)),
        Rule("a wheel that was saved says all of it", lambda m: len(
            {"watermark", "start", "first", "oldest", "gaps", "keys", "late"} & m.keys()) in (0, 7)),
    ],
)  # fmt: skip

WHEEL_MANIFEST = Record(
    "wheel-manifest",
    2,
    "The files of a commit of a wheel: those in `manifests`.",
    MANIFEST,
    is_document=True,
    upgrades={1: lambda content, parts: content},
)

# --------------------------------------------------------------------------- state


def _has_columns(state: dict[str, Any]) -> bool:
    table = state["cells"]
    return all(name in table.column_names and table[name].type == pa.int64() for name in ("slot", "key", "version"))


WHEEL_STATE = Record(
    "wheel-state",
    2,
    "Totals of a wheel's levels, and what is ahead of its watermark: `slot`, `key`, `version` (-1: a total, of which "
    "`slot` is the level; -2: ahead), and a column for each field of a partial. 0.1 wrote the table as an Arrow file.",
    Group(
        "wheel-state",
        Field("cells", ArrowTable(most=1 << 32)),
        rules=[Rule("`cells` has the columns `slot`, `key` and `version`", _has_columns)],
    ),
    outdated={1: "0.1"},
)

# --------------------------------------------------------------------------- shared between processes

MAPPED = Group(
    "shared array",
    Field("dtype", Text(pattern=r"[<>|=][biuf]\d{1,2}")),
    Field("offset", Integer(0, 1 << 48), "in the file of slots"),
    Field("shape", ListOf(Integer(0, 1 << 48), least=1, most=4)),
)

WHEEL_SHARED = Record(
    "wheel-shared",
    2,
    "What a wheel shares with other processes besides its slots: in `control`, from the fifth word on. The words "
    "before: a counter that is odd while the writer changes the rest, the number of the file with the slots, the "
    "length, 0.",
    Group(
        "wheel-shared",
        Field("arrays", ListOf(MAPPED), "partials, prefixes if there are any, and which slots have events"),
        Field("header", Array("int64", "header")),
        Field("gaps", Array("int64", "gaps", "gap words")),
        Field("totals", ListOf(Column("totals"))),
        Field("some", Array("bool", "totals"), "which totals have seen events"),
        Field("wide", Flag(), "sums have 128 bits"),
        Field("keys", Maybe(ListOf(Tagged()))),
    ),
    outdated={1: "0.1"},
)
