"""Answers that are more than one value: structs and lists, assembled as whole Arrow arrays.

Both give the keyword arguments of a `Monoid` that say what its answers look like: result, results and finish.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns
from windlass.aggregates.values import INT64, OBJECT, ValueType, to_arrow
from windlass.kernels import Field

Mask = np.ndarray[Any, Any] | None


def struct_of(parts: Mapping[str, ValueType]) -> dict[str, Any]:
    """A struct; `lower` gives its parts in this order."""
    result = pa.struct([(name, type_.arrow) for name, type_ in parts.items()])

    def finish(columns: Columns, defined: Mask) -> pa.Array:
        # The parts of an undefined row were never written, so they are masked like the row itself.
        children = [to_arrow(c, defined, t.arrow) for c, t in zip(columns, parts.values(), strict=True)]
        mask = None if defined is None else pa.array(~defined)
        return pa.StructArray.from_arrays(children, fields=list(result), mask=mask)

    results = tuple(Field(name, type_.dtype) for name, type_ in parts.items())
    return {"result": result, "results": results, "finish": finish}


def list_of(type_: ValueType, longest: int | None = None) -> dict[str, Any]:
    """A list; `lower` gives one tuple, or with `longest` an array of that size and how much of it counts."""
    if longest is None:
        return {
            "result": pa.list_(type_.arrow),
            "results": (Field("values", OBJECT),),
            "finish": _from_tuples(type_),
        }
    slots = np.arange(longest)

    def finish(columns: Columns, defined: Mask) -> pa.Array:
        values, count = columns
        return _lists(to_arrow(values[slots < count[:, None]], None, type_.arrow), count)

    results = (Field("values", type_.dtype, (longest,)), Field("count", INT64))
    return {"result": pa.list_(type_.arrow), "results": results, "finish": finish}


def _from_tuples(type_: ValueType) -> Any:
    def finish(columns: Columns, defined: Mask) -> pa.Array:
        (rows,) = columns
        flat = list(chain.from_iterable(rows))
        whole = type_.dtype == OBJECT
        values = pa.array(flat, type_.arrow) if whole else to_arrow(np.array(flat, type_.dtype), None, type_.arrow)
        return _lists(values, np.fromiter(map(len, rows), np.int64, len(rows)))

    return finish


def _lists(values: pa.Array, lengths: np.ndarray[Any, Any]) -> pa.Array:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
