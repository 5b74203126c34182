"""The binary container: everything that Windlass writes and that is no text is in one.

    "WINDLASS"           8 bytes
    version              u32, of the container: 2
    length of the head   u32
    head                 JSON: {"record", "version", "written_by", "content", "parts": the length of each}
    parts                one after the other: arrays, Arrow streams, bytes
    digest               BLAKE2b-128 of all bytes before it

Integers are little-endian. What `content` and the parts are is declared by the record of that name and version. Nothing
that is read is code.

Windlass 0.1 wrote stores as version 1: the same, but its head is the content of a store and does not say so. It wrote
other states in envelopes of their own. Those are known by their first bytes, and refused by name.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from windlass.errors import CorruptSnapshot, WrongType
from windlass.version import __version__

__all__ = [
    "DIGEST",
    "MAGIC",
    "Container",
    "digest_of",
    "open_container",
    "parse_json",
    "refuse_newer",
    "seal_container",
]

MAGIC = b"WINDLASS"
VERSION = 2
DIGEST = 16  # bytes
_HEAD = struct.Struct("<II")
_STORE_OF_0_1 = 1
# What 0.1 wrote in envelopes of their own: their first bytes, and what they are.
_OUTDATED = {b"WINDLASS OPERATOR": "an operator or a FineGrained", b"WINDLASS STEP": "a step of a Spark job's state"}


class Container(NamedTuple):
    """An open container, whose digest was right."""

    record: str
    version: int
    written_by: str
    content: Any
    parts: list[memoryview]


def digest_of(*parts: bytes | memoryview) -> bytes:
    hashed = hashlib.blake2b(digest_size=DIGEST)
    for part in parts:
        hashed.update(part)
    return hashed.digest()


def seal_container(record: str, version: int, content: Any, parts: Sequence[bytes | memoryview]) -> bytes:
    """Put a record into a container."""
    lengths = [len(part) for part in parts]
    head = {"record": record, "version": version, "written_by": __version__, "content": content, "parts": lengths}
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    before = [MAGIC, _HEAD.pack(VERSION, len(text)), text, *parts]
    return b"".join([*before, digest_of(*before)])


def open_container(data: Any, what: str = "these bytes") -> Container:
    """Check a container and take it apart; nothing is copied."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WrongType(f"a snapshot is bytes, got {type(data).__name__}")
    view = memoryview(data).cast("B").toreadonly()
    start = len(MAGIC) + _HEAD.size
    if bytes(view[: len(MAGIC)]) != MAGIC or len(view) < start + DIGEST:
        raise CorruptSnapshot(f"{what} were not written by Windlass, or are cut off")
    if digest_of(view[:-DIGEST]) != view[-DIGEST:]:
        raise CorruptSnapshot(f"{what} are damaged: the checksum does not match")
    for begin, name in _OUTDATED.items():
        if bytes(view[: len(begin)]) == begin:
            raise CorruptSnapshot(
                f"{what} are the state of {name} that Windlass 0.1 wrote; this is Windlass {__version__}, "
                "which does not read it: go on with 0.1, or begin anew"
            )
    version, length = _HEAD.unpack_from(view, len(MAGIC))
    if version > VERSION:
        raise CorruptSnapshot(
            f"{what} are in a container of version {version}; this is Windlass {__version__}, "
            f"which reads versions up to {VERSION}: upgrade it"
        )
    if length > len(view) - start - DIGEST:
        raise CorruptSnapshot(f"{what} have a head of {length} bytes, more than there are")
    head = parse_json(bytes(view[start : start + length]), what)
    body = view[start + length : -DIGEST]
    if version == _STORE_OF_0_1:
        return Container("store", 1, "0.1", head, [body])
    return _opened(head, body, what)


def _opened(head: Any, body: memoryview, what: str) -> Container:
    wanted = {"record": str, "version": int, "written_by": str, "content": object, "parts": list}
    if not isinstance(head, dict) or head.keys() != wanted.keys():
        raise CorruptSnapshot(f"the head of {what} has other fields than {', '.join(wanted)}")
    for name, kind in wanted.items():
        if not isinstance(head[name], kind) or isinstance(head[name], bool):
            raise CorruptSnapshot(f"{name!r} in the head of {what} is of the wrong type")
    lengths = head["parts"]
    if any(type(length) is not int or length < 0 for length in lengths) or sum(lengths) != len(body):
        raise CorruptSnapshot(f"{what} have {len(body)} bytes of parts, the head says otherwise")
    parts, at = [], 0
    for length in lengths:
        parts.append(body[at : at + length])
        at += length
    return Container(head["record"], head["version"], head["written_by"], head["content"], parts)


def parse_json(text: bytes, what: str) -> Any:
    """Read JSON. Refuse what is no JSON, NaN and infinity, and what is nested too deeply to be read."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptSnapshot(f"the JSON of {what} cannot be read: {type(error).__name__}: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def refuse_newer(what: str, version: int, known: int, written_by: str) -> NoReturn:
    """Refuse what a later version has written; name both."""
    raise CorruptSnapshot(
        f"the {what} has version {version}, which Windlass {written_by} wrote; this is Windlass {__version__}, "
        f"which reads versions up to {known}: upgrade it"
    )
