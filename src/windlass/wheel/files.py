"""Wheels on disk: slots in Parquet or Arrow files, and a manifest for every save (µWheel has none; versioned,
checked, incremental).

    wheel.json                          what the wheel is
    slots/0-00000007-<unique>.parquet   of level 0, commit 7: slot │ key │ version │ a column a field of a partial
    state/00000007-<unique>.state       totals, and events ahead of the watermark, at commit 7
    manifests/00000007.json             the files of commit 7, with their checksums
    manifests/merged-00000015-<unique>.json     those of commits 0 to 15, put together, and which manifests it replaces

Idea. Data files have names that are used once, and nobody reads a file that no manifest names. A manifest appears
whole, by renaming. So a save that dies leaves nothing behind that counts, and one that is done again under the same
number replaces itself. A save writes the slots that are new since the last. Of a slot that is in several files the
highest version counts: a correction is written as a newer version of its slot, and what is rolled up can be derived
again. Slots without events are not written.

Files are put together, so that there are few however often a wheel is saved: of `RUN` merges of `RUN`ᵏ commits one is
made. It counts when its manifest appears, and then those that it names do not: at no point is anything missing or there
twice that matters. Then what was replaced is deleted, files before the manifest that names them. A reader that misses
one looks which manifests there are now. The last `RUN` commits are left alone, as they may be done again; one that was
put together is done for good.

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
from windlass.aggregates.overflow import HIGH
from windlass.aggregates.values import OBJECT
from windlass.errors import CorruptSnapshot, InvalidArgument
from windlass.formats.tagged_json import decode, encode
from windlass.formats.wheel import WHEEL_MANIFEST, WHEEL_STATE
from windlass.private_directories import create_file, create_like

__all__ = ["Directory", "Form", "names_of", "newest_versions", "partials_from_arrow", "partials_to_arrow"]

Array = np.ndarray[Any, Any]
Form = Literal["parquet", "arrow"]
RUN = 16  # commits, or merges of as many, that are put together


class Directory:
    """The files of one wheel. Commits are numbered; doing one again replaces it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def commits(self) -> list[int]:
        return sorted({_number(name) for name in self._names()})

    def commit(
        self, number: int, slots: Mapping[int, pa.Table], state: pa.Table | None, form: Form = "parquet", **more: Any
    ) -> None:
        """Write tables of slots, by level, and the state; then the manifest that makes them count.

        Without a state, the slots correct those of a wheel that was saved here. They are of the lowest level: the
        levels above and the totals are derived from it when the wheel is opened.
        """
        if form not in ("parquet", "arrow"):
            raise InvalidArgument(f"slots are saved as 'parquet' or 'arrow', not {form!r}")
        if state is None:
            self._check_correction(slots)
        for name in ("slots", "state", "manifests"):
            create_like(self.path / name)
        files = []
        for level, table in slots.items():
            name = f"slots/{level}-{number:08d}-{uuid.uuid4().hex}.{form}"
            files.append({"name": name, "level": level, "rows": len(table), "checksum": self._write(name, table)})
        kept = None
        if state is not None:
            name = f"state/{number:08d}-{uuid.uuid4().hex}.state"
            kept = {"name": name, "checksum": self._write(name, state)}
        content = {"number": number, "files": files, "state": kept, "corrects": state is None and bool(files), **more}
        WHEEL_MANIFEST.write_to(self.path / "manifests" / f"{number:08d}.json", content)
        self.compact()

    def read(self, memory_map: bool = True) -> tuple[dict[int, pa.Table], pa.Table | None, dict[str, Any]]:
        """The slots of all commits by level, each in its newest version; the newest state, and its manifest, in which
        `corrects` says whether any commit has slots that are in no state."""
        while True:
            names = self._names()
            try:
                manifests = self._manifests(names)
                tables, newest = self._tables(manifests, memory_map), _newest(manifests)
                if not newest:
                    return tables, None, newest
                return tables, self._read(newest["state"], memory_map), newest | {"corrects": _corrects(manifests)}
            except FileNotFoundError as error:
                if names == self._names():
                    raise CorruptSnapshot(f"{error.filename} is gone, and a manifest names it") from error
                # put together with others, since we looked

    def compact(self) -> None:
        """Put files together, if there are enough of a kind, and delete what was replaced."""
        if sum(not _is_merged(name) for name in self._names()) < 2 * RUN:
            return
        try:
            while run := self._run(self._manifests(self._names())):
                self._merge(run)
            self._sweep()
        except FileNotFoundError:  # another writer is at it
            return

    def _check_correction(self, slots: Mapping[int, pa.Table]) -> None:
        """Refuse what would leave sums behind that are out of date."""
        whole = "bring all levels, and the state that belongs to them"
        if any(level > 0 for level in slots):
            raise InvalidArgument(
                f"slots of level {max(slots)} come without a state. A correction is of level 0, from which the others "
                f"are derived; or {whole}"
            )
        saved = _newest(self._manifests(self._names()))
        if not slots or "watermark" not in saved:  # no wheel was saved here
            return
        if saved["oldest"][0] > saved["start"]:
            raise InvalidArgument(
                "slots come without a state, and the wheel that is saved here no longer keeps all slots of level 0, "
                f"from which what is rolled up could be derived; {whole}"
            )
        numbers = slots[0]["slot"].to_numpy()
        if len(numbers) and (numbers.min() < saved["start"] or numbers.max() >= saved["watermark"]):
            raise InvalidArgument(
                f"slots come without a state, and not all are of the past of the wheel that is saved here, ticks "
                f"{saved['start']} to {saved['watermark']}; {whole}"
            )

    # ------------------------------------------------------------------ manifests

    def _names(self) -> list[str]:
        return sorted(file.name for file in (self.path / "manifests").glob("*.json") if file.name[0] != ".")

    def _manifests(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """Those that count, by name, in the order of their numbers."""
        found = {name: self._manifest(name) for name in sorted(names, key=_number)}
        merged = [m for m in found.values() if "merges" in m]
        return {n: m for n, m in found.items() if not any(_replaces(by, n) for by in merged)}

    def _manifest(self, name: str) -> dict[str, Any]:
        path = self.path / "manifests" / name
        if not path.exists():
            raise FileNotFoundError(2, "no such manifest", str(path))
        return WHEEL_MANIFEST.read_from(path)

    def _run(self, manifests: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The oldest manifests to put together: of the smallest size of which there are enough."""
        sizes: dict[int, list[str]] = {}
        for name, manifest in manifests.items():
            sizes.setdefault(manifest.get("merges", 0), []).append(name)
        for size, names in sorted(sizes.items()):
            if len(names) >= (RUN if size else 2 * RUN):
                return {name: manifests[name] for name in names[:RUN]}
        return {}

    def _merge(self, run: dict[str, dict[str, Any]]) -> None:
        """One manifest in place of several: slots of all of them in their newest versions, and the newest state."""
        last = max(manifest["number"] for manifest in run.values())
        forms = [file["name"].rpartition(".")[2] for manifest in run.values() for file in manifest["files"]]
        files = []
        for level, table in self._tables(run, memory_map=False).items():
            name = f"slots/{level}-{last:08d}-{uuid.uuid4().hex}.{forms[-1]}"
            files.append({"name": name, "level": level, "rows": len(table), "checksum": self._write(name, table)})
        content = {**(_newest(run) or {"state": None}), "number": last, "files": files, "corrects": _corrects(run)}
        # Merges of merges are named too if they are still there: deleting may have been interrupted.
        there = set(self._names())
        merges = {n for name, m in run.items() for n in (name, *m.get("merged", ())) if _is_merged(n) and n in there}
        content["merged"] = sorted(merges)
        content["commits"] = _ranges([r for name, m in run.items() for r in m.get("commits", [[_number(name)] * 2])])
        content["merges"] = 1 + max(m.get("merges", 0) for m in run.values())
        name = f"merged-{last:08d}-{uuid.uuid4().hex}.json"
        WHEEL_MANIFEST.write_to(self.path / "manifests" / name, content)
        _fsync_directory(self.path / "manifests")

    def _sweep(self) -> None:
        """Delete what was replaced, also by one that died before it came to that."""
        names = self._names()
        counting = self._manifests(names)
        kept = {file["name"] for manifest in counting.values() for file in _files(manifest)}
        for name in names:
            if name not in counting:
                for file in _files(self._manifest(name)):
                    if file["name"] not in kept:
                        (self.path / file["name"]).unlink(missing_ok=True)
                (self.path / "manifests" / name).unlink(missing_ok=True)

    def _tables(self, manifests: dict[str, dict[str, Any]], memory_map: bool) -> dict[int, pa.Table]:
        """The slots by level, each in its newest version."""
        tables: dict[int, list[pa.Table]] = {}
        for manifest in manifests.values():
            for file in manifest["files"]:
                table = self._read(file, memory_map)
                self._check_rows(file, len(table))
                tables.setdefault(file["level"], []).append(table)
        return {level: newest_versions(_together(found)) for level, found in tables.items()}

    # ------------------------------------------------------------------ data

    def _write(self, name: str, table: pa.Table) -> str:
        path = self.path / name
        create_file(path)
        if name.endswith(".state"):
            path.write_bytes(WHEEL_STATE.seal({"cells": table}))
        elif name.endswith(".parquet"):
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

    @staticmethod
    def _check_rows(file: dict[str, Any], rows: int) -> None:
        if rows != file["rows"]:
            raise CorruptSnapshot(f"{file['name']} has {rows} rows, its manifest says {file['rows']}")

    def _read(self, file: dict[str, Any], memory_map: bool) -> pa.Table:
        path = self.path / file["name"]
        try:
            if path.is_symlink() or path.parent.is_symlink():
                raise CorruptSnapshot(f"{path} is a link, which no file of a wheel is")
            if _digest(path) != file["checksum"]:
                raise CorruptSnapshot(f"{path} is damaged: its checksum does not match its manifest")
            if file["name"].endswith(".state"):
                return WHEEL_STATE.unseal(path.read_bytes(), str(path))["cells"]
            if file["name"].endswith(".parquet"):
                self._check_rows(file, pq.read_metadata(path).num_rows)
                return pq.read_table(path, memory_map=memory_map)
            with pa.memory_map(str(path)) if memory_map else pa.OSFile(str(path)) as source:
                return pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
                raise  # no fault of the file
            raise CorruptSnapshot(f"{path} cannot be read: {error}") from error


def _number(name: str) -> int:
    """Of a manifest: that of its commit, or of the last that it is made of."""
    return int(name.removesuffix(".json").removeprefix("merged-").split("-")[0])


def _is_merged(name: str) -> bool:
    return name.startswith("merged-")


def _replaces(merged: dict[str, Any], name: str) -> bool:
    """Whether a merge stands for a manifest."""
    if _is_merged(name):
        return name in merged["merged"]
    return any(first <= _number(name) <= last for first, last in merged["commits"])


def _ranges(ranges: list[list[int]]) -> list[list[int]]:
    """The same numbers in as few ranges as possible."""
    found: list[list[int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(found[-1][1], last)
        else:
            found.append([first, last])
    return found


def _newest(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The last manifest with a state; empty if there is none."""
    return next((m for m in reversed(manifests.values()) if m["state"] is not None), {})


def _corrects(manifests: dict[str, dict[str, Any]]) -> bool:
    return any(m.get("corrects", False) for m in manifests.values())


def _files(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [*manifest["files"], *([manifest["state"]] if manifest["state"] is not None else [])]


def _fsync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _together(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables. Those from before the sums were widened get the second field, 0."""
    whole = pa.concat_tables(tables, promote_options="default")
    for i, name in enumerate(whole.column_names):
        if name.endswith(f"_{HIGH.name}") and whole.column(i).null_count:
            whole = whole.set_column(i, name, whole.column(i).fill_null(0))
    return whole


def newest_versions(table: pa.Table) -> pa.Table:
    """One row for each slot and key: that of the highest version."""
    slot, version = table["slot"].to_numpy(), table["version"].to_numpy()
    key = table["key"].to_numpy() if "key" in table.column_names else np.zeros(len(slot), np.int64)
    order = np.lexsort((version, key, slot))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(slot[order]) != 0) | (np.diff(key[order]) != 0)
    return table.take(pa.array(order[last]))


def names_of(m: Monoid) -> list[str]:
    """The columns of partials."""
    return [f"{k}_{field.name}" for k, field in enumerate(m.fields)]


def partials_to_arrow(m: Monoid, columns: Columns) -> dict[str, pa.Array]:
    """A column for each field of a partial; arrays as lists of fixed size, objects as JSON."""
    found = {}
    for name, field, column in zip(names_of(m), m.fields, columns, strict=True):
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
    for name, field in zip(names_of(m), m.fields, strict=True):
        array = table[name].combine_chunks()
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
