"""Values as kernels see them: int64, uint64, float64, bool, or Python objects, beside the Arrow type they stand for.

Whatever a user hands over (Arrow, NumPy, pandas, Polars, lists) becomes a `Column`: one array of one of those
five, and a validity mask where a value may be null. Narrow numbers widen, times become integers in their own unit,
dictionaries are decoded; strings, decimals and nested values stay Python objects. Decimals are taken with all the
digits their width has (38, or 76 of decimal256), so only their scale is fixed.

A column that is already bound takes values of another type if none of them is changed by it: integers that are in
range, integers as floats or decimals, other units of time, decimals with no more digits after the point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.errors import Overflow, WrongType

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

    @cached_property
    def limits(self) -> tuple[int, int] | None:
        """The least and the greatest integer of an integer type."""
        if not pa.types.is_integer(self.arrow):
            return None
        bits = self.arrow.bit_width
        if pa.types.is_unsigned_integer(self.arrow):
            return 0, (1 << bits) - 1
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    @cached_property
    def greatest_float(self) -> float | None:
        """The greatest finite value of a floating type."""
        if not pa.types.is_floating(self.arrow):
            return None
        return float(np.finfo(f"f{self.arrow.bit_width // 8}").max)

    @cached_property
    def family(self) -> str:
        """Types of one family hold the same kind of values, more or fewer of them."""
        t, arrow = pa.types, self.arrow
        if t.is_timestamp(arrow):
            return "timestamp" if arrow.tz is None else "timestamp with a zone"
        for name in ("boolean", "integer", "floating", "decimal", "duration", "time", "date", "null"):
            if getattr(t, f"is_{name}")(arrow):
                return name
        if t.is_string(arrow) or t.is_large_string(arrow):
            return "string"
        if t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_fixed_size_binary(arrow):
            return "binary"
        return "list" if t.is_list(arrow) or t.is_large_list(arrow) else f"type {arrow.id}"


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
    if pa.types.is_decimal(arrow):
        arrow = pa.decimal256(76, arrow.scale) if arrow.bit_width == 256 else pa.decimal128(38, arrow.scale)
    arrow = _VIEWS.get(arrow, arrow)
    return ValueType(arrow, _dtype(arrow))


_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def type_of(value: Any) -> ValueType:
    """The value type that one Python or NumPy value tells."""
    try:
        return value_type(pa.scalar(value).type)
    except OverflowError:
        return value_type(pa.scalar(value, pa.uint64()).type)


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
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
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
    if kind is int:
        limits = expected.limits
        if limits is not None and limits[0] <= value <= limits[1]:
            return value
    if kind is float:
        greatest = expected.greatest_float
        if greatest is not None and (-greatest <= value <= greatest or not math.isfinite(value)):
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
            if pa.types.is_decimal(type_):
                raise _too_many_digits(items, type_) from error
            raise WrongType(f"an answer does not fit its type, {type_}: {error}") from error
    array = _wrap(values, valid)
    if array.type == type_:
        return array
    if pa.types.is_temporal(type_):
        return _narrow(array, type_).view(type_)
    return array.cast(type_, safe=not pa.types.is_floating(type_))


def _too_many_digits(items: list[Any], type_: pa.DataType) -> Overflow:
    """Describe the first decimal that has more digits than its type."""
    for row, item in enumerate(items):
        try:
            pa.array([item], type=type_)
        except pa.ArrowInvalid:
            error = Overflow(
                f"the answer is {item}, which {type_} cannot hold. Cast the column to decimal256 or float64; a sum can "
                "also be null in its place, sum(…, on_overflow='null')"
            )
            error.row = row
            return error
    raise AssertionError("each of them fits")


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
            array = _from_python(data)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise WrongType(f"cannot read these values as one Arrow array{_hint(expected)}: {error}") from error
    raise WrongType(f"expected an array of values{_hint(expected)}, got {type(data).__name__}")


def _hint(expected: ValueType | None) -> str:
    return f" of {expected}" if expected is not None else ""


def _from_python(data: Any) -> Any:
    try:
        return pa.array(data)
    except OverflowError:  # integers beyond int64
        return pa.array(data, pa.uint64())


def _convert(array: Any, natural: ValueType, expected: ValueType) -> tuple[Any, ValueType]:
    """Bring to the expected type if no value is changed by it, else refuse."""
    have, want = natural.family, expected.family
    if not (have in (want, "null") or (have == "integer" and want in ("floating", "decimal"))):
        raise WrongType(f"expected values of {expected}, got {natural}; {_advice(natural, expected)}")
    try:
        if isinstance(array, np.ndarray):
            array = _wrap(np.ascontiguousarray(array), None)
        if want == "floating":
            return _in_range(array.cast(pa.float64()), expected), expected
        if have == want and want in ("string", "binary"):
            return array, expected  # Python objects either way
        return _decoded(array).cast(expected.arrow), expected
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (pa.ArrowException, NotImplementedError) as error:
        raise WrongType(f"values of {natural} do not fit {expected}: {error}") from error


def _advice(natural: ValueType, expected: ValueType) -> str:
    if pa.types.is_timestamp(natural.arrow) and pa.types.is_timestamp(expected.arrow):
        return "times with and without a zone do not mix: give all of them the zone, or none"
    return f"cast them first, or construct with dtype='{natural}'"


def _in_range(array: pa.Array, expected: ValueType) -> pa.Array:
    """Refuse finite floats that a narrower type would make infinite."""
    greatest = expected.greatest_float
    if greatest is not None and greatest < np.finfo(np.float64).max:
        values = np.abs(array.to_numpy(zero_copy_only=False))
        beyond = values[(values > greatest) & (values < np.inf)]
        if len(beyond):
            raise WrongType(f"values of double do not fit {expected}: {beyond[0]} is out of its range")
    return array


def _decoded(array: pa.Array) -> pa.Array:
    """A dictionary's values in place of its indices."""
    if not pa.types.is_dictionary(array.type):
        return array
    dictionary = array.dictionary
    if dictionary.type in _VIEWS:  # which Arrow cannot decode
        array = pa.DictionaryArray.from_arrays(array.indices, dictionary.cast(_VIEWS[dictionary.type]))
    return array.dictionary_decode()


_WIDE = {INT64: pa.int64(), UINT64: pa.uint64(), FLOAT64: pa.float64(), BOOL: pa.bool_()}


def _from_arrow(array: pa.Array, type_: ValueType) -> Column:
    array = _decoded(array)
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
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
        array = array.fill_null(pa.scalar(0).cast(array.type))
    values = array.to_numpy(zero_copy_only=False)
    return Column(np.ascontiguousarray(values), valid, type_)
