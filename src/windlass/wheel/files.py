"""Wheels on disk: slots in Parquet or Arrow files, and a manifest for every save (µWheel has none; versioned,
checked, incremental).

    wheel.json                          what the wheel is
    slots/0-00000007-<unique>.parquet   of level 0, commit 7: slot │ key │ version │ a column for each field of a
    partial state/00000007-<unique>.arrow       header, gaps, totals, and events ahead of the watermark, at commit 7
    manifests/00000007.json             the files of commit 7, with their checksums

Idea. Data files have names that are used once, and nobody reads a file that no manifest names. A manifest appears
whole, by renaming. So a save that dies leaves nothing behind that counts, and one that is done again under the same
number replaces itself. A save writes the slots that are new since the last. Of a slot that is in several files the
highest version counts: a correction is written as a newer version of its slot, and what is rolled up can be derived
again. Slots without events are not written.

Many writers may commit under numbers of their own. `Directory` is what a job that is no wheel writes through as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import OBJECT
from windlass.errors import CorruptSnapshot, InvalidArgument
from windlass.stores.objects import decode, encode
from windlass.wheel.settings import read_json, write_json

__all__ = ["Directory", "Form", "newest_versions", "partials_from_arrow", "partials_to_arrow"]

Array = np.ndarray[Any, Any]
Form = Literal["parquet", "arrow"]


class Directory:
    """The files of one wheel. Commits are numbered; doing one again replaces it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def commits(self) -> list[int]:
        return sorted(int(file.stem) for file in (self.path / "manifests").glob("[0-9]*.json"))

    def commit(
        self, number: int, slots: Mapping[int, pa.Table], state: pa.Table | None, form: Form = "parquet", **more: Any
    ) -> None:
        """Write tables of slots, by level, and the state; then the manifest that makes them count."""
        if form not in ("parquet", "arrow"):
            raise InvalidArgument(f"slots are saved as 'parquet' or 'arrow', not {form!r}")
        for name in ("slots", "state", "manifests"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        files = []
        for level, table in slots.items():
            name = f"slots/{level}-{number:08d}-{uuid.uuid4().hex}.{form}"
            files.append({"name": name, "level": level, "rows": len(table), "checksum": self._write(name, table)})
        kept = None
        if state is not None:
            name = f"state/{number:08d}-{uuid.uuid4().hex}.arrow"
            kept = {"name": name, "checksum": self._write(name, state)}
        write_json(
            self.path / "manifests" / f"{number:08d}.json", {"number": number, "files": files, "state": kept, **more}
        )

    def read(self, memory_map: bool = True) -> tuple[dict[int, pa.Table], pa.Table | None, dict[str, Any]]:
        """The slots of all commits by level, each in its newest version; the newest state, and its manifest."""
        tables: dict[int, list[pa.Table]] = {}
        state, newest = None, {}
        for number in self.commits:
            manifest = read_json(self.path / "manifests" / f"{number:08d}.json")
            for file in manifest["files"]:
                table = self._read(file, memory_map)
                if len(table) != file["rows"]:
                    raise CorruptSnapshot(f"{file['name']} has {len(table)} rows, its manifest says {file['rows']}")
                tables.setdefault(file["level"], []).append(table)
            if manifest["state"] is not None:
                state, newest = manifest["state"], manifest
        merged = {level: newest_versions(pa.concat_tables(found)) for level, found in tables.items()}
        return merged, None if state is None else self._read(state, memory_map), newest

    def _write(self, name: str, table: pa.Table) -> str:
        path = self.path / name
        if name.endswith(".parquet"):
            floats = [f.name for f in table.schema if pa.types.is_floating(f.type)]
            integers = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if pa.types.is_integer(f.type)}
            pq.write_table(
                table,
                path,
                compression="zstd",
                use_dictionary=False,
                column_encoding=integers | dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
            )
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        with path.open("r+b") as file:
            os.fsync(file.fileno())
        return _digest(path)

    def _read(self, file: dict[str, Any], memory_map: bool) -> pa.Table:
        path = self.path / file["name"]
        try:
            if _digest(path) != file["checksum"]:
                raise CorruptSnapshot(f"{path} is damaged: its checksum does not match its manifest")
            if file["name"].endswith(".parquet"):
                return pq.read_table(path, memory_map=memory_map)
            with pa.memory_map(str(path)) if memory_map else pa.OSFile(str(path)) as source:
                return pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowException) as error:
            raise CorruptSnapshot(f"{path} cannot be read: {error}") from error


def newest_versions(table: pa.Table) -> pa.Table:
    """One row for each slot and key: that of the highest version."""
    slot, version = table["slot"].to_numpy(), table["version"].to_numpy()
    key = table["key"].to_numpy() if "key" in table.column_names else np.zeros(len(slot), np.int64)
    order = np.lexsort((version, key, slot))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(slot[order]) != 0) | (np.diff(key[order]) != 0)
    return table.take(pa.array(order[last]))


def partials_to_arrow(m: Monoid, columns: Columns) -> dict[str, pa.Array]:
    """A column for each field of a partial; arrays as lists of fixed size, objects as JSON."""
    found = {}
    for k, (field, column) in enumerate(zip(m.fields, columns, strict=True)):
        name = f"{k}_{field.name}"
        if field.dtype == OBJECT:
            found[name] = pa.array([json.dumps(encode(item, m.encode)) for item in column], pa.string())
        elif field.shape:
            flat = pa.array(np.ascontiguousarray(column).reshape(-1))
            found[name] = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(field.shape)))
        else:
            found[name] = pa.array(np.ascontiguousarray(column))
    return found


def partials_from_arrow(m: Monoid, table: pa.Table) -> Columns:
    columns = []
    for k, field in enumerate(m.fields):
        array = table[f"{k}_{field.name}"].combine_chunks()
        if field.dtype == OBJECT:
            column = np.empty(len(array), object)
            for i, text in enumerate(array.to_pylist()):
                column[i] = decode(json.loads(text), m.decode)
            columns.append(column)
        elif field.shape:
            columns.append(array.flatten().to_numpy(zero_copy_only=False).reshape((-1, *field.shape)))
        else:
            columns.append(array.to_numpy(zero_copy_only=False))
    return tuple(columns)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
