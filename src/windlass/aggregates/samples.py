"""What a user's functions make of sample values: how many fields a partial has, and of which types.

One sample does not tell: `x if x > 10 else 0` gives an int for 1.0 and a float for 100.5. So there are several, and
the type of a field is one that holds what all of them gave.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
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


def sample_rows(types: Iterable[pa.DataType]) -> list[tuple[Any, ...]]:
    """Rows of sample values: of like values, then of unlike ones."""
    columns = [[sample(t, number) for number in _numbers(t)] for t in types]
    longest = max(map(len, columns), default=1)
    rows = [tuple(c[k % len(c)] for c in columns) for k in range(longest)]
    if len(columns) > 1:
        rows += [tuple(c[(k + j) % len(c)] for j, c in enumerate(columns)) for k in range(longest)]
    return rows


def _numbers(arrow: pa.DataType) -> tuple[float, ...]:
    """The samples of a type, as numbers; a function may be undefined for one of them."""
    t = pa.types
    few = (1, 2, 7, 0)
    if t.is_boolean(arrow):
        return (1, 0)
    if t.is_floating(arrow) or (t.is_decimal(arrow) and arrow.scale > 0):
        return (*few, -3, 100.5)
    if t.is_signed_integer(arrow) or t.is_decimal(arrow) or value_type(arrow).dtype == INT64:
        return few if t.is_unsigned_integer(arrow) else (*few, -3)
    if t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow):
        return _numbers(arrow.value_type)
    if t.is_struct(arrow) and arrow.num_fields:
        shared = [set(_numbers(field.type)) for field in arrow]
        return tuple(n for n in _numbers(arrow[0].type) if all(n in numbers for numbers in shared))
    return few


def sample(arrow: pa.DataType, number: float) -> Any:
    """A value of that type as the functions will see it."""
    t = pa.types
    dtype = value_type(arrow).dtype
    if dtype != OBJECT:
        return {INT64: int, UINT64: np.uint64, FLOAT64: float, BOOL: bool}[dtype](number)
    if t.is_decimal(arrow):
        return Decimal(str(number))
    if t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow):
        return [sample(arrow.value_type, number)]
    if t.is_struct(arrow):
        return {field.name: sample(field.type, number) for field in arrow}
    if t.is_map(arrow):
        return [(sample(arrow.key_type, 1), sample(arrow.item_type, 1))]
    letters = int(number)
    if t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_fixed_size_binary(arrow):
        return b"a" * letters
    return "a" * letters


def tried(calls: Iterable[Callable[[], Any]]) -> tuple[list[Any], Exception | None]:
    """What the calls give that raise nothing, and what the first of the others raised.

    Nothing and complex numbers (the square root of a negative sample) count only if there is nothing else.
    """
    found: list[Any] = []
    error: Exception | None = None
    with np.errstate(all="ignore"):
        for call in calls:
            try:
                found.append(call())
            except MemoryError:
                raise
            except Exception as raised:
                error = error or raised
    return [value for value in found if not _strange(value)] or found, error


def _strange(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(isinstance(item, complex) for item in value)
    return value is None or isinstance(value, complex)


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


def unified(values: Iterable[Any]) -> Shape:
    """The one type for a field that takes all of these values: bool < int < float."""
    values = list(values)
    shapes = {shape_of(value) for value in values}
    if len(shapes) == 1:
        return shapes.pop()
    dtypes = {shape.dtype for shape in shapes}
    if OBJECT in dtypes or len({shape.shape for shape in shapes}) > 1:
        return Shape(OBJECT)
    if any(shape.shape for shape in shapes):
        return Shape(np.result_type(*dtypes), next(iter(shapes)).shape)
    if FLOAT64 in dtypes:
        return Shape(FLOAT64)
    if UINT64 in dtypes:
        return Shape(UINT64 if all(value >= 0 for value in values) else OBJECT)
    return Shape(INT64)


def arrow_type(values: list[Any], scale: int) -> pa.DataType | None:
    """The one Arrow type for all of these answers; None if that is not clear. `scale` is that of decimal columns."""
    types = [_arrow_type_of(value) for value in values]
    if None in types:
        return None
    known = [t for t in dict.fromkeys(types) if t is not None and not pa.types.is_null(t)]
    if known and all(pa.types.is_decimal(t) or pa.types.is_integer(t) for t in known):
        scales = [t.scale for t in known if pa.types.is_decimal(t)]
        if scales:
            return pa.decimal128(38, max(scale, *scales))
    if len(known) == 1:
        return known[0]
    if known and all(value_type(t).dtype != OBJECT and not pa.types.is_temporal(t) for t in known):
        dtype = unified(value for value in values if value is not None).dtype
        return None if dtype == OBJECT else pa.from_numpy_dtype(dtype)
    if known and all(pa.types.is_list(t) for t in known):
        items = [item for value in values if value is not None for item in value]
        inner = arrow_type(items, scale)
        return None if inner is None else pa.list_(inner)
    return None


def _arrow_type_of(value: Any) -> pa.DataType | None:
    try:
        if isinstance(value, np.ndarray):
            return pa.list_(pa.from_numpy_dtype(value.dtype))
        return pa.from_numpy_dtype(value.dtype) if isinstance(value, np.generic) else pa.scalar(value).type
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def cast(value: Any, field: Field) -> Any:
    if field.dtype == OBJECT or value is None or field.shape:
        return value
    return {INT64: int, UINT64: np.uint64, FLOAT64: float, BOOL: bool}[field.dtype](value)
