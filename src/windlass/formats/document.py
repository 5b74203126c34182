"""The document: a text that Windlass writes, as JSON.

    {"checksum": BLAKE2b-128 of `content` as below, in hex, "content": {…}, "format": 2}

All keys are sorted, and `content` has `record`, `version` and `written_by` beside its fields. Windlass 0.1 wrote
`format` 1, without these three: what a document is was known from its place.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from windlass.errors import CorruptSnapshot
from windlass.formats.container import digest_of, parse_json
from windlass.private_directories import create_file
from windlass.version import __version__

__all__ = ["Document", "open_document", "parse_document", "seal_document", "write_document"]

FORMAT = 2
_OURS = ("record", "version", "written_by")


class Document(NamedTuple):
    """A document, whose checksum was right. `record` is None if 0.1 has written it."""

    record: str | None
    version: int
    written_by: str
    content: dict[str, Any]


def seal_document(record: str | None, version: int, content: dict[str, Any]) -> str:
    """The text of a document; without a record, in the format of 0.1."""
    whole = content
    if record is not None:
        whole = {"record": record, "version": version, "written_by": __version__, **content}
    text = json.dumps(whole, sort_keys=True, allow_nan=False)
    form = 1 if record is None else FORMAT
    return json.dumps({"format": form, "checksum": digest_of(text.encode()).hex(), "content": whole}, sort_keys=True)


def parse_document(text: bytes, what: str) -> Document:
    whole = parse_json(text, what)
    if not isinstance(whole, dict) or whole.keys() != {"format", "checksum", "content"}:
        raise CorruptSnapshot(f"{what} cannot be read: it is no document of Windlass")
    form, content = whole["format"], whole["content"]
    if type(form) is not int or not isinstance(content, dict):
        raise CorruptSnapshot(f"{what} cannot be read: it is no document of Windlass")
    if form > FORMAT:
        by = content.get("written_by", "a later version")
        raise CorruptSnapshot(
            f"{what} has format {form}, which Windlass {by} wrote; this is Windlass {__version__}, "
            f"which reads up to {FORMAT}: upgrade it"
        )
    if digest_of(json.dumps(content, sort_keys=True).encode()).hex() != whole["checksum"]:
        raise CorruptSnapshot(f"{what} is damaged: its checksum does not match")
    if form == 1:
        return Document(None, 1, "0.1", content)
    record, version, by = (content.get(name) for name in _OURS)
    if not isinstance(record, str) or type(version) is not int or not isinstance(by, str):
        raise CorruptSnapshot(f"{what} does not say what it is")
    return Document(record, version, by, {name: value for name, value in content.items() if name not in _OURS})


def write_document(path: Path, text: str) -> None:
    """Atomic: under another name first, then renamed; on disk before that."""
    other = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    create_file(other)
    with other.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    other.replace(path)


def open_document(path: Path) -> Document:
    return parse_document(path.read_bytes(), str(path))
