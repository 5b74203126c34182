"""Partials as answers: `partial(sum("x"))` gives what a sum is made of, so that it can be combined again elsewhere.

A history keeps partials, not answers: the average of a day is not the average of the averages of its hours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import OBJECT, ValueType, to_arrow
from windlass.errors import CorruptSnapshot, UnsupportedAggregate
from windlass.kernels import Field

Array = np.ndarray[Any, Any]

__all__ = ["from_plain", "packed", "partial", "to_plain", "unpacked"]


def partial(aggregate: Aggregate) -> Aggregate:
    """The partial of an aggregate, as a struct of its fields; null where there is no value."""
    plain = replace(aggregate, output=None)
    return replace(
        plain, name="partial", build=_Partial(plain), build_invertible=None, params=(("of", plain),), selective=False
    )


@dataclass(frozen=True)
class _Partial:
    of: Aggregate

    def __call__(self, *types: ValueType) -> Monoid:
        m = self.of.build(*types)
        m = m.wide or m  # long-lived and shared by processes: no holder bounds Σ|x|
        if any(field.dtype == OBJECT for field in m.fields):
            raise UnsupportedAggregate(
                f"the partials of {self.of!r} grow with its events, so they cannot be kept as columns"
            )
        result = pa.struct([(field.name, _type(field)) for field in m.fields])

        def finish(columns: Columns, defined: Array | None) -> pa.Array:
            mask = None if defined is None else pa.array(~defined)
            return pa.StructArray.from_arrays([packed(column) for column in columns], fields=list(result), mask=mask)

        return replace(
            m, lower=_itself, result=result, results=m.fields, finish=finish, can_overflow=False, selects=None
        )


def _itself(p: Any) -> Any:
    return p


def _type(field: Field) -> pa.DataType:
    return pa.binary(field.nbytes) if field.shape or field.dtype == np.bool_ else pa.from_numpy_dtype(field.dtype)


def packed(column: Array) -> pa.Array:
    """A field of many partials as Arrow; arrays and flags as bytes."""
    if column.ndim == 1 and column.dtype != np.bool_:
        return to_arrow(np.ascontiguousarray(column), None, pa.from_numpy_dtype(column.dtype))
    width = int(column.dtype.itemsize * np.prod(column.shape[1:], dtype=np.int64))
    data = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.binary(width), len(column), [None, data])


def unpacked(array: pa.Array, field: Field) -> Array:
    """And back, in memory of its own."""
    if array.type != _type(field):
        raise UnsupportedAggregate(f"a partial is of {array.type}, {_type(field)} is needed")
    raw = array.buffers()[1]
    if raw is None or len(array) == 0:
        return field.allocate(0)
    begin = array.offset * field.nbytes
    values = field.allocate(len(array))
    values.reshape(-1).view(np.uint8)[:] = np.frombuffer(raw, np.uint8)[begin : begin + values.nbytes]
    return values


def to_plain(m: Monoid, columns: Columns) -> list[Array]:
    """Partials as a record has them: an aggregate's own objects as plain ones."""
    return [_each(m.encode, column) if column.dtype == OBJECT else column for column in columns]


def from_plain(m: Monoid, columns: Sequence[Array], rows: int | None = None) -> Columns:
    """And back; refuse columns that cannot be those of this monoid."""
    if len(columns) != len(m.fields):
        raise CorruptSnapshot(f"partials of the snapshot have {len(columns)} fields, expected {len(m.fields)}")
    for column, field in zip(columns, m.fields, strict=True):
        if column.dtype != field.dtype or column.shape[1:] != field.shape:
            raise CorruptSnapshot(f"partials of the snapshot are {column.dtype}, expected {field.dtype}")
        if len(column) != (len(columns[0]) if rows is None else rows):
            raise CorruptSnapshot(f"the snapshot has {len(column)} partials where there should be {rows}")
    return tuple(_each(m.decode, column) if column.dtype == OBJECT else column for column in columns)


def _each(hook: Callable[[Any], Any] | None, column: Array) -> Array:
    if hook is None:
        return column
    changed = np.empty(len(column), object)
    for i, item in enumerate(column):
        changed[i] = None if item is None else hook(item)
    return changed
