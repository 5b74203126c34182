"""What a file or a directory is, which version wrote it, and whether it is whole. No engine and no kernel is built."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from windlass.errors import CorruptSnapshot
from windlass.formats.container import DIGEST, MAGIC, digest_of, open_container
from windlass.formats.document import Document, open_document
from windlass.formats.operator import FINE_GRAINED, OPERATOR
from windlass.formats.query import QUERY
from windlass.formats.record import Record
from windlass.formats.spark import BLOCK, HEAD, STEP
from windlass.formats.store import STORE
from windlass.formats.wheel import WHEEL, WHEEL_MANIFEST, WHEEL_SHARED, WHEEL_STATE

__all__ = ["inspected"]

_SEALED = {r.name: r for r in (OPERATOR, FINE_GRAINED, STORE, HEAD, STEP, BLOCK, QUERY, WHEEL_STATE, WHEEL_SHARED)}
_DOCUMENTS = {r.name: r for r in (WHEEL, WHEEL_MANIFEST, QUERY)}
_GUARD = 32  # bytes of a control file before its record
_SLOTS = re.compile(r"\d{10}-\d{10}-\d{5}\.slots$")


def inspected(path: Path) -> list[str]:
    """What there is, a line each. Raises CorruptSnapshot if that cannot be told, or if something is not whole."""
    if path.is_dir():
        return list(_directory(path))
    if not path.is_file():
        raise CorruptSnapshot(f"{path} is neither a file nor a directory")
    return [f"{path.name}: {_file(path)}"]


# --------------------------------------------------------------------------- files


def _file(path: Path) -> str:
    if path.name == "control":
        return _control(path)
    if path.suffix == ".slots":
        return _history_slots(path)
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    if begin == MAGIC:
        return _container(path.read_bytes(), str(path))
    if begin[:1] == b"{":
        return _of_document(path, open_document(path))
    raise CorruptSnapshot(f"{path} was not written by Windlass, or cannot be told by itself")


def _container(data: bytes, what: str) -> str:
    container = open_container(data, f"the bytes of {what}")
    record = _SEALED.get(container.record)
    if record is None:
        raise CorruptSnapshot(f"{what} holds a record of {container.record!r}, which this version does not know")
    record.read(container, f"the bytes of {what}")
    return _told(record, container.version, container.written_by) + f", {len(data)} bytes, whole"


def _told(record: Record, version: int, written_by: str) -> str:
    return f"{record.name}, version {version}, written by Windlass {written_by}"


def _of_document(path: Path, document: Document) -> str:
    record = _record_of(path, document)
    if record is None:
        return "history, version 1, whole"
    record.of_document(document, str(path))
    return _told(record, document.version, document.written_by) + ", whole"


def _record_of(path: Path, document: Document) -> Record | None:
    """What a document is a record of; what 0.1 wrote is known by its fields. None: of a history."""
    name = document.record
    if name is None:
        fields = document.content.keys()
        if fields == {"tick", "buckets", "aggregates", "time", "key", "types"}:
            return None
        name = "wheel" if "levels" in fields else "wheel-manifest" if "files" in fields else ""
    if name not in _DOCUMENTS:
        raise CorruptSnapshot(f"{path} holds a record of {name!r}, which this version does not know")
    return _DOCUMENTS[name]


def _control(path: Path) -> str:
    with path.open("rb") as file:
        words = np.frombuffer(file.read(_GUARD), np.int64)
        if len(words) * 8 < _GUARD or not 0 < words[2] < 1 << 32:
            raise CorruptSnapshot(f"{path} is no control file of a shared wheel, or is cut off")
        return _container(file.read(int(words[2])), str(path))


def _history_slots(path: Path) -> str:
    data = path.read_bytes()
    if digest_of(data[:-DIGEST]) != data[-DIGEST:]:
        raise CorruptSnapshot(f"{path} is damaged: its checksum does not match")
    return f"slots of a history, {len(data)} bytes, whole"


# --------------------------------------------------------------------------- directories


def _directory(path: Path) -> Iterator[str]:
    if (path / "history.json").exists():
        yield f"history.json: {_file(path / 'history.json')}"
        files = [file for file in sorted((path / "slots").iterdir()) if _SLOTS.match(file.name)]
        for file in files:
            _history_slots(file)
        yield f"slots: {len(files)} files, whole"
    elif (path / "wheel.json").exists():
        yield f"wheel.json: {_file(path / 'wheel.json')}"
        if (path / "control").exists():
            yield f"control: {_control(path / 'control')}"
        if (path / "manifests").is_dir():
            yield from _commits(path)
    else:
        raise CorruptSnapshot(f"{path} is no directory of Windlass: it has neither wheel.json nor history.json")


def _commits(path: Path) -> Iterator[str]:
    names = sorted(file for file in (path / "manifests").glob("*.json") if file.name[0] != ".")
    files: dict[str, dict[str, Any]] = {}
    written = set()
    for name in names:
        document = open_document(name)
        manifest = WHEEL_MANIFEST.of_document(document, str(name))
        written.add(document.written_by)
        files |= {file["name"]: file for file in manifest["files"]}
        if manifest["state"] is not None:
            files[manifest["state"]["name"]] = manifest["state"]
    for file in files.values():
        _check_file(path / file["name"], file["checksum"])
    by = ", ".join(sorted(written)) or "none"
    yield f"manifests: {len(names)}, written by Windlass {by}, whole"
    yield f"slots and state: {len(files)} files, whole"


def _check_file(path: Path, checksum: str) -> None:
    if path.is_symlink() or not path.is_file():
        raise CorruptSnapshot(f"{path} is gone, or is no plain file, and a manifest names it")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST)).hexdigest()
    if digest != checksum:
        raise CorruptSnapshot(f"{path} is damaged: its checksum does not match its manifest")
