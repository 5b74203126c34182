"""Users' functions made to fit the scheme of monoids: partials are tuples, of exactly the fields' types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns
from windlass.aggregates.samples import Shape, cast
from windlass.aggregates.values import BOOL, FLOAT64, INT64, OBJECT, UINT64, to_arrow
from windlass.errors import InvalidArgument, WrongType
from windlass.kernels import Field
from windlass.kernels.compilation import exact_bool, exact_float64, exact_int64, exact_uint64

_EXACT = {INT64: exact_int64, UINT64: exact_uint64, FLOAT64: exact_float64, BOOL: exact_bool}


def bare(arity: int, lift: Any, combine: Any, inverse: Any, selects: Any) -> tuple[Any, Any, Any, Any]:
    """The functions over partials that are one value, as functions over tuples of one."""
    # Written out, because numba does not call a builtin such as `float` with *values.
    values = ", ".join(f"v{k}" for k in range(arity))
    scope: dict[str, Any] = {}
    exec(f"def make(lift):\n    def lift_({values}):\n        return (lift({values}),)\n    return lift_\n", scope)
    lift_ = scope["make"](lift)

    def combine_(a: Any, b: Any) -> Any:
        return (combine(a[0], b[0]),)

    def inverse_(c: Any, a: Any) -> Any:
        return (inverse(c[0], a[0]),)

    def selects_(a: Any, b: Any) -> Any:
        return selects(a[0], b[0])

    return lift_, combine_, inverse and inverse_, selects and selects_


def cast_to(fields: tuple[Field, ...], function: Any, made: Sequence[Shape] | None = None, first: int = 0) -> Any:
    """The function with what it returns in exactly the fields' types.

    Compiled, what a field does not hold fails to compile and names the place of the field, counted from `first`.
    `made`: the types that samples showed; arrays of another type are converted.
    """
    items = []
    for k, field in enumerate(fields):
        if not field.shape:
            items.append(f"{_EXACT[field.dtype].__name__}(x[{k}], {first + k})")
        elif made is None or made[k].dtype == field.dtype:
            items.append(f"x[{k}]")
        else:
            items.append(f"x[{k}].astype(np.{field.dtype.name})")
    scope: dict[str, Any] = {"np": np} | {exact.__name__: exact for exact in _EXACT.values()}
    exec(f"def cast(x):\n    return ({', '.join(items)},)\n", scope)
    cast = scope["cast"]

    def exact(*arguments: Any) -> Any:
        return cast(function(*arguments))

    return exact


def fitted(lower: Any, types: Sequence[pa.DataType], name: str) -> Any:
    """lower with its answers as these Arrow types take them; an answer that would be changed by that is refused."""

    def lower_(p: Any) -> Any:
        answers = lower(p)
        if len(answers) != len(types):
            raise WrongType(f"{name}: the answer {answers!r} should have {len(types)} items; give result=")
        return tuple(_fit(value, type_, name) for value, type_ in zip(answers, types, strict=True))

    return lower_


def _fit(value: Any, type_: pa.DataType, name: str) -> Any:
    t = pa.types
    if value is None or (type(value) is str and t.is_string(type_)) or (type(value) is float and t.is_float64(type_)):
        return value
    try:
        if isinstance(value, np.datetime64 | np.timedelta64):
            return pa.scalar(value, type_).as_py()
        if t.is_floating(type_):
            return float(value)
        if t.is_integer(type_) or (t.is_temporal(type_) and isinstance(value, float | np.number)):
            whole = int(value)
            if whole == value:
                pa.scalar(whole, type_)  # raises where it is out of range
                return whole
        elif t.is_boolean(type_):
            if bool(value) == value:
                return bool(value)
        elif t.is_list(type_):
            return [_fit(item, type_.value_type, name) for item in value]
        else:
            pa.scalar(value, type_)
            return value
    except (WrongType, MemoryError):  # Arrow's MemoryError is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise WrongType(
        f"{name}: the answer {value!r} does not fit {type_}, which is what result= says or samples showed; "
        "give the type of all answers as result="
    )


def same_as_younger(combine: Any, fields: tuple[Field, ...]) -> Any:
    """selects(a, b) by comparing a ⊕ b with b, where NaN equals NaN."""
    if any(field.shape for field in fields):
        raise InvalidArgument("a selective aggregate whose partials hold arrays needs selects=")
    tests = [f"(c[{k}] == b[{k}] or (c[{k}] != c[{k}] and b[{k}] != b[{k}]))" for k in range(len(fields))]
    scope: dict[str, Any] = {}
    exec(f"def same(c, b):\n    return {' and '.join(tests)}\n", scope)
    same = scope["same"]

    def selects(a: Any, b: Any) -> Any:
        return same(combine(a, b), b)

    return selects


def lowered(lower: Any, bare: bool, struct: bool) -> Any:
    if lower is None:
        return lambda p: p

    def of_bare(p: Any) -> Any:
        return (lower(p[0]),)

    def of_tuple(p: Any) -> Any:
        return (lower(p),)

    def struct_of_bare(p: Any) -> Any:
        return lower(p[0])

    if struct:
        return struct_of_bare if bare else lower
    return of_bare if bare else of_tuple


def constant(identity: Any, fields: tuple[Field, ...], bare: bool) -> Any:
    """identity(): the user's, or where there is none a placeholder that ⊕ never sees."""
    if identity is None:
        values = [None if f.dtype == OBJECT else np.zeros(f.shape, f.dtype) if f.shape else 0 for f in fields]
    else:
        values = [identity] if bare else list(identity)
    scope: dict[str, Any] = {f"c{k}": cast(v, f) for k, (v, f) in enumerate(zip(values, fields, strict=True))}
    items = [f"c{k}.copy()" if field.shape else f"c{k}" for k, field in enumerate(fields)]
    exec(f"def identity():\n    return ({', '.join(items)},)\n", scope)
    return scope["identity"]


def struct_of(result: pa.DataType) -> Callable[[Columns, np.ndarray[Any, Any] | None], pa.Array]:
    def finish(columns: Columns, defined: np.ndarray[Any, Any] | None) -> pa.Array:
        arrays = [to_arrow(c, defined, field.type) for c, field in zip(columns, result, strict=True)]
        mask = None if defined is None else pa.array(~defined)
        return pa.StructArray.from_arrays(arrays, fields=list(result), mask=mask)

    return finish
