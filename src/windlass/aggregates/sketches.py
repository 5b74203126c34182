"""What the sketches share: a 64-bit hash of any value, and the sketch as bytes.

Equal numbers hash alike whatever their type, so a filter over a float column can be asked for the integer 3, or
for the decimal 3.00. Numbers are mixed with one step of splitmix64 (Steele, Lea, Flood 2014), a handful of
instructions, from 2^63 with a second step that keeps them apart from negative ones. Strings, bytes and decimals
that are no float64 are Python objects and go through BLAKE2b. Times are hashed as integers in their own unit.

One source runs compiled on a value, interpreted on a value, and on whole NumPy arrays, with equal results.
"""

from __future__ import annotations

from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import refuse_type
from windlass.aggregates.monoid import Function
from windlass.aggregates.values import EXACT, FLOAT64, OBJECT, UINT64, ValueType, column
from windlass.errors import InvalidArgument, WrongType

Array = np.ndarray[Any, Any]

_ALL_BITS, _GOLDEN = 0xFFFFFFFFFFFFFFFF, 0x9E3779B97F4A7C15
_INT64_RANGE, _UINT64_RANGE = 2.0**63, 2.0**64
_NAN = int(np.float64(np.nan).view(np.uint64))
_HEADER = 8  # bytes before a sketch: four letters, the layout's version, one parameter, two zeros
_VERSION = 1


def mix(h: Any) -> Any:
    """A bijection of 64 bits in which every bit of the result depends on every bit of h."""
    h = (h + _GOLDEN) & _ALL_BITS
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & _ALL_BITS
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & _ALL_BITS
    return h ^ (h >> 31)


def hash_function(aggregate: str, type_: ValueType) -> Function:
    """`hash(x)`: 64 bits for one value of that type, as a kernel sees it."""
    if type_.dtype == FLOAT64:
        return _hash_float
    if type_.dtype == UINT64:
        return _hash_unsigned
    if type_.dtype != OBJECT:
        return _hash_integer
    t = pa.types
    arrow = type_.arrow
    is_text = t.is_string(arrow) or t.is_large_string(arrow) or t.is_string_view(arrow)
    is_bytes = t.is_binary(arrow) or t.is_large_binary(arrow) or t.is_fixed_size_binary(arrow)
    if not (is_text or is_bytes or type_.is_decimal):
        raise refuse_type(aggregate, type_, "numbers, times, strings, bytes or decimals")
    return _hash_object


def hashes(values: Any) -> tuple[Array, Array | None]:
    """The hashes of many values, and which of them are not null (None: all)."""
    c = column(values)
    if c.values.dtype == OBJECT:
        valid = np.ones(len(c), np.bool_) if c.valid is None else c.valid
        hashed = [_hash_object(x) if ok else 0 for x, ok in zip(c.values, valid, strict=True)]
        return np.array(hashed, np.uint64), c.valid
    bits, great = _bits(c.values)
    h = mix(bits)
    return np.where(great, mix(h), h), c.valid


def _hash_integer(x: Any) -> Any:
    return mix(int(np.int64(x).view(np.uint64)))


def _hash_unsigned(x: Any) -> Any:
    h = mix(int(np.uint64(x)))
    return mix(h) if np.uint64(x) >> np.uint64(63) != 0 else h  # not as the negative number of the same bits


def _hash_float(x: Any) -> Any:
    if x != x:
        return mix(int(np.float64(np.nan).view(np.uint64)))
    if -_INT64_RANGE <= x < _INT64_RANGE and x == np.floor(x):
        return _hash_integer(int(x))
    if _INT64_RANGE <= x < _UINT64_RANGE:
        return _hash_unsigned(np.uint64(x))
    return mix(int(np.float64(x).view(np.uint64)))


def _hash_object(x: Any) -> int:
    if isinstance(x, str):
        data = x.encode()
    elif isinstance(x, bytes):
        data = x
    elif isinstance(x, Decimal):
        as_float = float(x)
        if x == int(x) and -_INT64_RANGE <= x < _UINT64_RANGE:
            return int(_hash_integer(int(x)) if x < _INT64_RANGE else _hash_unsigned(int(x)))
        if x == as_float:
            return int(_hash_float(as_float))
        data = str(x.normalize(EXACT)).encode()
    else:
        raise WrongType(f"{x!r} is not a number, a time, a string, bytes or a decimal")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _bits(values: Array) -> tuple[Array, Array]:
    """What is mixed of each number, and which of them are integers from 2^63."""
    if values.dtype == FLOAT64:
        whole = (values >= -_INT64_RANGE) & (values < _INT64_RANGE) & (values == np.floor(values))
        great = (values >= _INT64_RANGE) & (values < _UINT64_RANGE)
        bits = np.where(np.isnan(values), np.uint64(_NAN), values.view(np.uint64))
        bits = np.where(whole, np.where(whole, values, 0.0).astype(np.int64).view(np.uint64), bits)
        return np.where(great, np.where(great, values, 0.0).astype(np.uint64), bits), great
    if values.dtype == UINT64:
        return values, values >= np.uint64(1 << 63)
    return values.astype(np.int64).view(np.uint64), np.zeros(len(values), np.bool_)


def as_bytes(letters: bytes, parameter: int, rows: Array) -> pa.Array:
    """Fixed-size sketches, a row each, as an Arrow array of bytes that say what they are."""
    if len(rows) == 0:
        return pa.array([], pa.large_binary())
    body = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<")).view(np.uint8).reshape(len(rows), -1)
    size = _HEADER + body.shape[1]
    data = np.empty((len(rows), size), np.uint8)
    data[:, :_HEADER] = np.frombuffer(letters + bytes((_VERSION, parameter, 0, 0)), np.uint8)
    data[:, _HEADER:] = body
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * size
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def from_bytes(sketch: bytes, letters: bytes, dtype: Any, made_by: str) -> tuple[int, Array]:
    """The parameter and the body of a sketch that `as_bytes` wrote."""
    if not isinstance(sketch, bytes | bytearray | memoryview):
        raise WrongType(f"expected the bytes that {made_by} gives, got {type(sketch).__name__}")
    sketch = bytes(sketch)
    if len(sketch) <= _HEADER or sketch[:5] != letters + bytes((_VERSION,)) or (len(sketch) - _HEADER) % 8:
        raise InvalidArgument(f"these {len(sketch)} bytes are not what {made_by} gives")
    return sketch[5], np.frombuffer(sketch, dtype, offset=_HEADER)


def object_reason(type_: ValueType) -> str | None:
    return f"values of {type_} are Python objects" if type_.dtype == OBJECT else None
