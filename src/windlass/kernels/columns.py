"""Partials as columns: one array a field, read and written as tuples.

A kernel never names the fields of a partial. It says `x = load(columns, i)` and `store(columns, i, x)`; the two
functions are written here for each number of fields, so the compiler sees constant indices and keeps the tuple
in registers. A field of a fixed-size array is a row of a matrix, and is loaded by value, like a scalar: what a
kernel holds does not change when the slot it came from is overwritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.kernels.integers import unsigned


@dataclass(frozen=True)
class Field:
    """One field of a partial or of a result: a scalar, a fixed-size array (`shape`), or a Python object."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    def allocate(self, slots: int) -> np.ndarray[Any, Any]:
        """Room for that many, not initialised. What is large comes from Arrow's pool: it hands out pages that are
        already mapped, where fresh ones would be faulted in one by one while a kernel fills them."""
        if slots * self.nbytes <= 1 << 17 or self.dtype.kind == "O":
            return np.empty((slots, *self.shape) if self.shape else slots, self.dtype)
        buffer = pa.allocate_buffer(slots * self.nbytes)
        return np.ndarray((slots, *self.shape), dtype=self.dtype, buffer=buffer)

    @cached_property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


def copy_row(rows: Any, i: Any, row: Any) -> Any:
    """Overwrite row i of a matrix. Compiled, it is a plain loop: numba's own assignment brings the text of its error
    about shapes with it, which takes longer to compile than the rest of a kernel."""
    rows[i] = row


def stream(column: Any, i: Any, value: Any) -> Any:
    """Overwrite one value that nobody reads soon. Compiled, a value of 8 bytes goes past the cache: a line that is
    written whole need not be read from memory first, which is half of the traffic of many answers a round."""
    column[i] = value


def prefetch(array: Any, i: Any) -> Any:
    """Have a row brought into the cache while something else is done. Compiled, it is one instruction, and any i will
    do; interpreted, nothing."""


def accessors(fields: tuple[Field, ...], streaming: bool = False) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`load(columns, i) -> tuple` and `store(columns, i, tuple)` for columns of these fields."""
    return _accessors(tuple("row" if field.shape else "streamed" if streaming else "" for field in fields))


@cache
def _accessors(kinds: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    parts = [f"columns[{k}][unsigned(i)]" + (".copy()" if kind == "row" else "") for k, kind in enumerate(kinds)]
    source = (
        f"def load(columns, i):\n    return ({''.join(part + ', ' for part in parts)})\n"
        "def store(columns, i, x):\n"
        + ("".join(f"    {_assignment(k, kind)}\n" for k, kind in enumerate(kinds)) or "    pass\n")
    )
    load, store = _written(source, "load", "store", unsigned=unsigned, copy_row=copy_row, stream=stream)
    return load, store


@cache
def prefetcher(fields: int) -> Callable[..., Any]:
    """`bring(columns, i)`: have partial i brought into the cache."""
    source = "def bring(columns, i):\n" + "".join(f"    prefetch(columns[{k}], i)\n" for k in range(fields))
    (bring,) = _written(source if fields else source + "    pass\n", "bring", prefetch=prefetch)
    return bring


def _assignment(k: int, kind: str) -> str:
    function = {"row": "copy_row", "streamed": "stream"}.get(kind)
    return f"{function}(columns[{k}], i, x[{k}])" if function else f"columns[{k}][unsigned(i)] = x[{k}]"


def chooser(fields: tuple[Field, ...]) -> Callable[..., Any]:
    """`choose(condition, a, b)`: a or b, field by field: moves, where a branch would often be guessed wrong."""
    parts = "".join(f"a[{k}] if condition else b[{k}], " for k in range(len(fields)))
    (choose,) = _written(f"def choose(condition, a, b):\n    return ({parts})\n", "choose")
    return choose


@cache
def state_accessors(
    integers: int, running: int, load: Callable[..., Any], store: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`begin(header, slots) -> h` and `end(header, slots, h)` for a state of integers and running partials.

    Between the two a kernel keeps the whole state of a technique in one tuple, that is, in registers.
    """
    words = [f"header[{k}]" for k in range(integers)] + [f"load(slots, {k})" for k in range(running)]
    source = (
        f"def begin(header, slots):\n    return ({''.join(word + ', ' for word in words)})\n"
        "def end(header, slots, h):\n"
        + "".join(f"    header[{k}] = h[{k}]\n" for k in range(integers))
        + "".join(f"    store(slots, {k}, h[{integers + k}])\n" for k in range(running))
    )
    begin, end = _written(source, "begin", "end", load=load, store=store)
    return begin, end


def _written(source: str, *names: str, **scope: Any) -> tuple[Callable[..., Any], ...]:
    exec(compile(source, "<windlass columns>", "exec"), scope)
    return tuple(scope[name] for name in names)
