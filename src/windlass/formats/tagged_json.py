"""Python objects as JSON, for partials that are objects. Unlike pickle, reading it runs no code.

Numbers (of any size), strings, None and booleans stand for themselves; everything else is {"kind": content}. What is
read is of the same type as what was written, so an object of a subclass, such as a Counter, is refused.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from windlass.errors import CorruptSnapshot, WrongType

__all__ = ["Hook", "decode", "encode"]

Hook = Callable[[Any], Any] | None

_DEEPEST = 100  # levels of objects in objects


def encode(value: Any, hook: Hook = None) -> Any:
    """A JSON value for an object; `hook` first turns an aggregate's own objects into plain ones."""
    return _encode(hook(value) if hook is not None and value is not None else value)


def decode(value: Any, hook: Hook = None) -> Any:
    """The object that `encode` was given; `hook` turns a plain one into an aggregate's own."""
    try:
        plain = _decode(value, 0)
    except (CorruptSnapshot, MemoryError):
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise CorruptSnapshot(f"an object of the snapshot cannot be read: {type(error).__name__}: {error}") from error
    return hook(plain) if hook is not None and plain is not None else plain


def _encode(value: Any) -> Any:
    if value is None or type(value) in (bool, str, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) is tuple:
        return {"tuple": [_encode(item) for item in value]}
    if type(value) is list:
        return {"list": [_encode(item) for item in value]}
    if type(value) in (set, frozenset):
        return {type(value).__name__: sorted((_encode(item) for item in value), key=repr)}
    if type(value) is dict:
        return {"dict": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if type(value) is Decimal:
        return {"decimal": str(value)}
    if type(value) is np.ndarray:
        if value.dtype == object:
            return {"objects": [_encode(item) for item in value]}
        return {"array": [str(value.dtype), list(value.shape), base64.b64encode(value.tobytes()).decode()]}
    if isinstance(value, np.generic):
        return {"scalar": [str(value.dtype), base64.b64encode(value.tobytes()).decode()]}
    for kind in (datetime.datetime, datetime.date, datetime.time):
        if type(value) is kind:
            return {kind.__name__: value.isoformat()}
    if type(value) is datetime.timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    raise WrongType(
        f"a partial holds a {type(value).__name__}, which a snapshot cannot write; "
        "keep partials to numbers, strings, tuples, lists, dicts, sets and arrays"
    )


def _decode(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        raise CorruptSnapshot("an object of the snapshot is a bare list")
    if not isinstance(value, dict):
        return value
    if depth > _DEEPEST:
        raise CorruptSnapshot(f"an object of the snapshot is nested more than {_DEEPEST} levels deep")
    if len(value) != 1:
        raise CorruptSnapshot(f"an object of the snapshot has {len(value)} kinds")
    ((kind, content),) = value.items()
    if kind in _PLAIN:
        return _PLAIN[kind](content)
    if kind == "dict":
        return {_decode(k, depth + 1): _decode(v, depth + 1) for k, v in content}
    if kind not in _NESTED:
        raise CorruptSnapshot(f"the snapshot holds an object of unknown kind {kind!r}")
    return _NESTED[kind]([_decode(item, depth + 1) for item in content])


def _objects(items: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), object)
    for i, item in enumerate(items):  # one by one: a list is a value here, not a row
        array[i] = item
    return array


def _array(content: Any) -> np.ndarray[Any, Any]:
    dtype, shape, raw = content
    if np.dtype(dtype).kind not in _KINDS:
        raise CorruptSnapshot(f"an array of the snapshot cannot be of {dtype!r}")
    return np.frombuffer(base64.b64decode(raw), dtype).reshape(shape).copy()


def _scalar(content: Any) -> Any:
    dtype, raw = content
    return _array([dtype, [1], raw])[0]


_KINDS = "biufcMmSU"
_NESTED: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "objects": _objects,
}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": base64.b64decode,
    "decimal": Decimal,
    "array": _array,
    "scalar": _scalar,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda c: datetime.timedelta(*c),
}
