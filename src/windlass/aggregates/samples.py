"""What a user's functions make of a sample value: how many fields a partial has, and of which types."""

from __future__ import annotations

import inspect
from decimal import Decimal
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import BOOL, FLOAT64, INT64, OBJECT, UINT64, value_type
from windlass.kernels import Field


class Shape(NamedTuple):
    """A field as a sample shows it: its dtype, and its shape if it is an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()


def parameters_of(lift: Any) -> int:
    """How many values a lift takes: its parameters without a default. A builtin, such as float, takes one."""
    if not isinstance(lift, FunctionType):
        return 1
    parameters = inspect.signature(lift).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 1
    return sum(p.default is p.empty and p.kind is not p.KEYWORD_ONLY for p in parameters)


def sample(arrow: pa.DataType, number: int) -> Any:
    """A value of that type as the functions will see it."""
    t = pa.types
    dtype = value_type(arrow).dtype
    if dtype != OBJECT:
        return {INT64: int, UINT64: np.uint64, FLOAT64: float, BOOL: bool}[dtype](number)
    if t.is_decimal(arrow):
        return Decimal(number)
    if t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_fixed_size_binary(arrow):
        return b"a" * number
    if t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow):
        return [sample(arrow.value_type, number)]
    if t.is_struct(arrow):
        return {field.name: sample(field.type, number) for field in arrow}
    if t.is_map(arrow):
        return [(sample(arrow.key_type, number), sample(arrow.item_type, number))]
    return "a" * number


def field_dtype(type_: Any) -> np.dtype[Any]:
    return OBJECT if type_ is object else value_type(type_).dtype


def shape_of(value: Any) -> Shape:
    if isinstance(value, bool | np.bool_):
        return Shape(BOOL)
    if isinstance(value, int):
        return Shape(INT64 if -(1 << 63) <= value < 1 << 63 else OBJECT)
    if isinstance(value, float | np.floating):
        return Shape(FLOAT64)
    if isinstance(value, np.integer):
        return Shape(UINT64 if value.dtype == UINT64 else INT64)
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iufb":
        return Shape(value.dtype, value.shape)
    return Shape(OBJECT)


def unified(shapes: list[Shape]) -> Shape:
    """The one type for a field that appears in all of these."""
    if len(set(shapes)) == 1:
        return shapes[0]
    dtypes = {shape.dtype for shape in shapes}
    if OBJECT in dtypes or any(shape.shape for shape in shapes):
        return Shape(OBJECT)
    for widest in (FLOAT64, UINT64, INT64):
        if widest in dtypes:
            return Shape(widest)
    return Shape(BOOL)


def cast(value: Any, field: Field) -> Any:
    if field.dtype == OBJECT or value is None or field.shape:
        return value
    return {INT64: int, UINT64: np.uint64, FLOAT64: float, BOOL: bool}[field.dtype](value)
