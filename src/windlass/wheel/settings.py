"""What a wheel is, besides what is in it: as JSON, checked when it is read."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import value_type
from windlass.errors import CorruptSnapshot
from windlass.formats.wheel import WHEEL
from windlass.wheel.hierarchy import Level
from windlass.wheel.slots import HEAD, STRIDE
from windlass.wheel.ticks import Clock

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel

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
        if _fields(m) != self.content["fields"]:
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
        "fields": _fields(m),
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
    WHEEL.write_to(path / FILE, describe(w))


def read(path: Path, aggregate: Aggregate) -> Settings:
    try:
        content = WHEEL.read_from(path / FILE)
    except FileNotFoundError:
        raise CorruptSnapshot(f"there is no wheel in {path}: it has no {FILE}") from None
    if content["aggregate"] != _identity(aggregate):
        raise CorruptSnapshot(f"{path} holds {_shown(content['aggregate'])}, not {aggregate!r}")
    return Settings(aggregate, content)


def _fields(m: Monoid) -> list[dict[str, Any]]:
    return [{"name": f.name, "dtype": str(f.dtype), "shape": list(f.shape)} for f in m.fields]


def _identity(aggregate: Aggregate) -> dict[str, Any]:
    definition = "" if aggregate.definition.startswith("unnamed") else aggregate.definition
    params = [[name, repr(value)] for name, value in aggregate.params]
    return {"name": aggregate.name, "columns": list(aggregate.columns), "params": params, "definition": definition}


def _shown(identity: dict[str, Any]) -> str:
    return f"{identity['name']}({', '.join(str(c) for c in identity['columns'] if c)})"
