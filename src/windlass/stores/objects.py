"""Python objects as plain JSON, for partials that are objects. Unlike pickle, reading it runs no code.

Numbers (any size), strings, None and booleans stand for themselves; everything else is {"kind": content}. What is
read back is of the same type as what was written, so an object of a subclass, a Counter say, is refused.
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

Hook = Callable[[Any], Any] | None


def encode(value: Any, hook: Hook = None) -> Any:
    """A JSON value for an object; `hook` first turns an aggregate's own objects into plain ones."""
    return _encode(hook(value) if hook is not None and value is not None else value)


def decode(value: Any, hook: Hook = None) -> Any:
    plain = _decode(value)
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


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise CorruptSnapshot(f"an object of the snapshot has {len(value)} kinds")
    ((kind, content),) = value.items()
    if kind not in _DECODERS:
        raise CorruptSnapshot(f"the snapshot holds an object of unknown kind {kind!r}")
    return _DECODERS[kind](content)


def _objects(items: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), object)
    for i, item in enumerate(items):
        array[i] = _decode(item)
    return array


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": base64.b64decode,
    "tuple": lambda items: tuple(_decode(item) for item in items),
    "list": lambda items: [_decode(item) for item in items],
    "frozenset": lambda items: frozenset(_decode(item) for item in items),
    "set": lambda items: {_decode(item) for item in items},
    "dict": lambda items: {_decode(k): _decode(v) for k, v in items},
    "decimal": Decimal,
    "objects": _objects,
    "array": lambda c: np.frombuffer(base64.b64decode(c[2]), c[0]).reshape(c[1]).copy(),
    "scalar": lambda c: np.frombuffer(base64.b64decode(c[1]), c[0])[0],
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda c: datetime.timedelta(*c),
}
