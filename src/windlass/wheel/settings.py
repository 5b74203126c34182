"""What a wheel is, besides what is in it: as JSON, checked when it is read."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import value_type
from windlass.errors import CorruptSnapshot
from windlass.private_directories import create_file
from windlass.wheel.hierarchy import Level
from windlass.wheel.slots import HEAD, STRIDE
from windlass.wheel.ticks import Clock

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel

FORMAT = 1
FILE = "wheel.json"


@dataclass(frozen=True)
class Settings:
    aggregate: Aggregate
    content: dict[str, Any]

    @cached_property
    def clock(self) -> Clock:
        return Clock(self.content["tick"], self.content["unit"], self.content["plain"])

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return tuple(Level(**level) for level in self.content["levels"])

    @cached_property
    def monoid(self) -> Monoid:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.content["types"])))
        types = [value_type(field.type) for field in schema]
        m = self.aggregate.monoid(types, nullable=False, subtractable=self.subtracts)
        if [[f.name, str(f.dtype), list(f.shape)] for f in m.fields] != self.content["fields"]:
            raise CorruptSnapshot(f"the partials of {self.aggregate!r} have other fields than those in {FILE}")
        return m

    @property
    def header_length(self) -> int:
        return HEAD + STRIDE * len(self.levels)

    def __getattr__(self, name: str) -> Any:
        if name in ("start", "write_ahead", "hints", "simd_threshold", "subtracts", "keyed", "invertible"):
            return self.content[name]
        raise AttributeError(name)


def describe(w: Wheel) -> dict[str, Any]:
    m = w._plain
    schema = pa.schema([pa.field(str(i), t.arrow) for i, t in enumerate(m.inputs)])
    return {
        "aggregate": _identity(w.aggregate),
        "types": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        "fields": [[f.name, str(f.dtype), list(f.shape)] for f in m.fields],
        "tick": w.clock.tick,
        "unit": w.clock.unit,
        "plain": w.clock.plain,
        "levels": [
            {
                **{"every": level.ticks * w.clock.tick, "keep": level.keep, "prefix": level.prefix},
                **{
                    "compressed": level.compressed,
                    "ticks": level.ticks,
                    "rotation": level.rotation,
                    "name": level.name,
                },
            }
            for level in w.levels
        ],
        "start": w._start,
        "write_ahead": w.write_ahead,
        "hints": w.hints,
        "simd_threshold": w.simd_threshold,
        "subtracts": bool(w.subtracts),
        "invertible": w.invertible,
        "keyed": w.keys is not None,
    }


def write(path: Path, w: Wheel) -> None:
    write_json(path / FILE, describe(w))


def read(path: Path, aggregate: Aggregate) -> Settings:
    content = read_json(path / FILE)
    if content["aggregate"] != _identity(aggregate):
        raise CorruptSnapshot(f"{path} holds {_shown(content['aggregate'])}, not {aggregate!r}")
    return Settings(aggregate, content)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Atomic: under another name first, then renamed; on disk before that."""
    text = json.dumps(content, sort_keys=True)
    whole = json.dumps({"format": FORMAT, "checksum": _digest(text.encode()), "content": content}, sort_keys=True)
    other = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    create_file(other)
    with other.open("w") as file:
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
    other.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    try:
        whole = json.loads(path.read_text())
        content: dict[str, Any] = whole["content"]
        if whole["format"] > FORMAT:
            raise CorruptSnapshot(f"{path} has format {whole['format']}; this version of Windlass reads up to {FORMAT}")
        if _digest(json.dumps(content, sort_keys=True).encode()) != whole["checksum"]:
            raise CorruptSnapshot(f"{path} is damaged: its checksum does not match")
    except FileNotFoundError:
        raise CorruptSnapshot(f"there is no wheel in {path.parent}: it has no {path.name}") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, CorruptSnapshot):
            raise
        raise CorruptSnapshot(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    return content


def _identity(aggregate: Aggregate) -> dict[str, Any]:
    definition = "" if aggregate.definition.startswith("unnamed") else aggregate.definition
    params = [[name, repr(value)] for name, value in aggregate.params]
    return {"name": aggregate.name, "columns": list(aggregate.columns), "params": params, "definition": definition}


def _shown(identity: dict[str, Any]) -> str:
    return f"{identity['name']}({', '.join(str(c) for c in identity['columns'] if c)})"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
