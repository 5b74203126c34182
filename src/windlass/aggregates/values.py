"""Values as kernels see them: int64, uint64, float64, bool, or Python objects, beside the Arrow type they stand for.

Whatever a user hands over (Arrow, NumPy, pandas, Polars, lists) becomes a `Column`: one array of one of those
five, and a validity mask where a value may be null. Narrow numbers widen, times become integers in their own unit,
dictionaries are decoded; strings, decimals and nested values stay Python objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windlass.errors import WrongType

INT64, UINT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)
BOOL, OBJECT = np.dtype(np.bool_), np.dtype(object)

# Decimal arithmetic that rounds nothing of 76 digits, whatever the thread's own context says.
EXACT = Context(prec=200, rounding=ROUND_HALF_EVEN)


@dataclass(frozen=True)
class ValueType:
    """An Arrow type and the dtype its values have inside kernels."""

    arrow: pa.DataType
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return str(self.arrow)

    @property
    def is_number(self) -> bool:
        return bool(
            pa.types.is_integer(self.arrow) or pa.types.is_floating(self.arrow) or pa.types.is_boolean(self.arrow)
        )

    @property
    def is_decimal(self) -> bool:
        return bool(pa.types.is_decimal(self.arrow))


@dataclass(frozen=True)
class Column:
    values: np.ndarray[Any, Any]
    valid: np.ndarray[Any, Any] | None  # None: no value is null
    type: ValueType

    def __len__(self) -> int:
        return len(self.values)


def value_type(type_: Any) -> ValueType:
    """The value type of an Arrow type, a NumPy dtype, a Python type, or the name of one."""
    if isinstance(type_, ValueType):
        return type_
    arrow = _arrow_type(type_)
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    return ValueType(arrow, _dtype(arrow))


def _arrow_type(type_: Any) -> pa.DataType:
    if isinstance(type_, pa.DataType):
        return type_
    try:
        if isinstance(type_, str):
            try:
                return pa.type_for_alias(type_)
            except ValueError:
                pass
        dtype = np.dtype(type_)
        if dtype.kind == "U":
            return pa.string()
        return pa.from_numpy_dtype(dtype)
    except (TypeError, ValueError, pa.ArrowException):
        raise WrongType(
            f"{type_!r} is not a value type; give an Arrow type, a NumPy dtype or a name such as 'int64'"
        ) from None


def _dtype(arrow: pa.DataType) -> np.dtype[Any]:
    t = pa.types
    if t.is_boolean(arrow):
        return BOOL
    if t.is_uint64(arrow):
        return UINT64
    if t.is_integer(arrow) or (t.is_temporal(arrow) and not t.is_interval(arrow)):
        return INT64
    if t.is_floating(arrow):
        return FLOAT64
    return OBJECT


def column(data: Any, expected: ValueType | None = None) -> Column:
    """Bring any array-like to a Column; with `expected`, of that type or not at all."""
    array = data if is_plain_numpy(data) else _as_arrow(data, expected)
    natural = value_type(array.dtype if isinstance(array, np.ndarray) else array.type)
    if expected is not None and natural != expected:
        array, natural = _convert(array, natural, expected)
    if isinstance(array, np.ndarray):
        return Column(np.ascontiguousarray(array, dtype=natural.dtype), None, natural)
    return _from_arrow(array, natural)


def scalar(value: Any, expected: ValueType) -> Any:
    """One value as the kernels see it, or None for null. Far cheaper than a column of one."""
    if value is None:
        return None
    kind = type(value)
    if kind is int and expected.dtype == INT64 and expected.is_number and -(1 << 63) <= value < 1 << 63:
        return value
    if kind is float and expected.dtype == FLOAT64:
        return value
    one = column([value] if not isinstance(value, np.generic) else np.array([value]), expected)
    return None if one.valid is not None and not one.valid[0] else one.values[0]


def to_arrow(values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None, type_: pa.DataType) -> pa.Array:
    """An array of kernel values as Arrow of the given type."""
    if values.dtype == object:
        items = values.tolist() if valid is None else [v if ok else None for v, ok in zip(values, valid, strict=True)]
        try:
            return pa.array(items, type=type_)
        except pa.ArrowInvalid as error:
            raise WrongType(f"an answer does not fit its type, {type_}: {error}") from error
    array = _wrap(values, valid)
    if array.type == type_:
        return array
    if pa.types.is_temporal(type_):
        return _narrow(array, type_).view(type_)
    return array.cast(type_, safe=not pa.types.is_floating(type_))


def _wrap(values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None) -> pa.Array:
    """The same memory as Arrow. (`pa.array` would do, but it imports pandas where that is installed: half a second.)"""
    bits = None if valid is None else _bits(valid)
    data = _bits(values) if values.dtype == BOOL else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, data])


def _bits(flags: np.ndarray[Any, Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _narrow(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array.cast(pa.int32()) if type_.bit_width == 32 else array


def is_plain_numpy(data: Any) -> bool:
    return type(data) is np.ndarray and data.ndim == 1 and data.dtype.kind in "iufb"


def _as_arrow(data: Any, expected: ValueType | None) -> pa.Array:
    if isinstance(data, pa.ChunkedArray):
        return data.combine_chunks()
    if isinstance(data, pa.Array):
        return data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.chunked_array(data).combine_chunks()
        if isinstance(data, Sequence | np.ndarray) or hasattr(data, "__arrow_c_array__") or hasattr(data, "__array__"):
            if isinstance(data, np.ndarray) and data.ndim != 1:
                raise WrongType(f"expected a one-dimensional array of values, got shape {data.shape}")
            array = pa.array(data)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise WrongType(f"cannot read these values as one Arrow array{_hint(expected)}: {error}") from error
    raise WrongType(f"expected an array of values{_hint(expected)}, got {type(data).__name__}")


def _hint(expected: ValueType | None) -> str:
    return f" of {expected}" if expected is not None else ""


def _convert(array: Any, natural: ValueType, expected: ValueType) -> tuple[Any, ValueType]:
    """Widen to the expected type if nothing can be lost, else refuse."""
    widens = (
        natural.dtype == expected.dtype == OBJECT
        or (natural.is_number and expected.is_number and natural.dtype == expected.dtype)
        or (natural.dtype in (INT64, UINT64) and natural.is_number and expected.dtype == FLOAT64)
        or (natural.dtype == INT64 and natural.is_number and expected.is_decimal)
        or pa.types.is_null(natural.arrow)
        or (pa.types.is_timestamp(natural.arrow) and pa.types.is_timestamp(expected.arrow))
    )
    if not widens:
        raise WrongType(
            f"expected values of {expected}, got {natural}; cast them first, or construct with dtype='{natural}'"
        )
    try:
        if isinstance(array, np.ndarray):
            array = _wrap(array, None)
        wide = _WIDE.get(expected.dtype) if expected.is_number else expected.arrow
        return array.cast(wide), expected
    except pa.ArrowException as error:
        raise WrongType(f"values of {natural} do not fit {expected}: {error}") from error


_WIDE = {INT64: pa.int64(), UINT64: pa.uint64(), FLOAT64: pa.float64(), BOOL: pa.bool_()}


def _from_arrow(array: pa.Array, type_: ValueType) -> Column:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = None if array.null_count == 0 else pc.is_valid(array).to_numpy(zero_copy_only=False)
    if type_.dtype == OBJECT:
        values = np.empty(len(array), dtype=object)
        for i, value in enumerate(array.to_pylist()):  # one by one: a list is a value here, not a row
            values[i] = value
        return Column(values, valid, type_)
    if pa.types.is_temporal(array.type):
        width = pa.int32() if array.type.bit_width == 32 else pa.int64()
        array = array.view(width)
    if array.type != _WIDE[type_.dtype]:
        array = array.cast(_WIDE[type_.dtype])
    if valid is not None:
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    values = array.to_numpy(zero_copy_only=False)
    return Column(np.ascontiguousarray(values), valid, type_)
