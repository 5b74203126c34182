"""What a function does, as a short name: equal digests run equal code, in this process and in the next.

A digest covers the byte code, the constants and defaults, what the closure holds, and every global the code
refers to, followed through the functions it calls and the attributes of modules. Line numbers, file names and
docstrings are left out, so moving a function does not recompile it, while editing it, or a helper it calls, always
does. What might change without a trace in the digest, such as a class, has none.
"""

from __future__ import annotations

import datetime
import dis
import hashlib
import sys
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

# Their functions are identified by name: they change only with the library, and numba's own cache knows that.
_OPAQUE = {"numpy", "numba", "builtins", *sys.stdlib_module_names}

# What prints all of its content.
_PRINTED = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(...), Decimal, Fraction),
    *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
)
_OF_NAMED_TUPLES = {"__new__", "_make", "_replace", "__replace__", "__repr__", "_asdict", "__getnewargs__"}


class Undigestible(TypeError):
    """A function refers to something whose content cannot be named; it must not be cached."""


def digest(function: Any) -> str:
    """Sixteen hex digits naming what `function` computes. Raises Undigestible if that cannot be known."""
    h = hashlib.blake2b(digest_size=8)
    for part in _describe(function, {}):
        h.update(part.encode())
        h.update(b"\0")
    return h.hexdigest()


def plain(function: Any) -> Any:
    """The Python function behind a numba dispatcher, or the function itself."""
    return getattr(function, "py_func", function)


def referenced(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function's code refers to, nested code too, and what it may take from modules, also from
    modules in its closure."""
    names = list(dict.fromkeys(_names(function.__code__)))
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value
            yield from _attributes(name, value, names, ())
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from _attributes(name, _content(cell), names, ())


def is_opaque(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _OPAQUE


def _attributes(path: str, value: Any, names: list[str], above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """What code that uses these names may mean by them where the value is a module: `package.module.constant`."""
    if not isinstance(value, ModuleType) or is_opaque(value.__name__) or value in above:
        return
    for name in names:
        if hasattr(value, name):
            attribute = getattr(value, name)
            yield f"{path}.{name}", attribute
            yield from _attributes(f"{path}.{name}", attribute, names, (*above, value))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise Undigestible("a variable of the closure has no value yet") from None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _describe(value: Any, seen: dict[int, int]) -> Iterator[str]:
    """`seen` numbers the functions that were met, so recursion ends; by identity: equal code may close over others."""
    value = plain(value)
    if isinstance(value, ModuleType):
        yield f"module {value.__name__}"  # what is taken from it, `referenced` tells
    elif _is_of_a_library(value):
        yield f"library {getattr(value, '__module__', '')}.{value.__name__}"
    elif isinstance(value, FunctionType):
        yield from _describe_function(value, seen)
    elif isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | None):
        yield f"builtin {value.__module__}.{value.__name__}"
    elif isinstance(value, type):
        yield from _describe_class(value, seen)
    elif isinstance(value, Enum):
        yield f"member {value.name}"
        yield from _describe(type(value), seen)
        yield from _describe(value.value, seen)
    elif type(value) in _PRINTED or type(value).__module__.startswith("numba.core.types."):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.generic) and value.dtype != object:
        yield f"{value.dtype} {value.item()!r}"
    elif isinstance(value, tuple) and type(value) is not tuple:
        yield from _describe(type(value), seen)
        yield from _describe(tuple(value), seen)
    elif type(value) in (tuple, list, frozenset):
        items = sorted(value, key=repr) if isinstance(value, frozenset) else value
        yield f"{type(value).__name__} {len(items)}"
        for item in items:
            yield from _describe(item, seen)
    elif type(value) is np.ndarray and not value.dtype.hasobject:
        yield f"array {value.dtype} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}"
    elif isinstance(value, np.dtype):
        yield f"dtype {value!r}"
    else:
        raise Undigestible(f"{type(value).__name__} {value!r} has no content that could be named")


def _is_of_a_library(value: Any) -> bool:
    """Whether its name says what it is. An instance has the module of its class, which says nothing about it."""
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not is_opaque(module):
        return False
    return isinstance(value, FunctionType | type) or getattr(sys.modules.get(module), name, None) is value


def _describe_class(value: type, seen: dict[int, int]) -> Iterator[str]:
    name = f"{value.__module__}.{value.__qualname__}"
    own = {key for key, item in vars(value).items() if isinstance(item, FunctionType | classmethod | staticmethod)}
    if issubclass(value, BaseException):
        yield f"exception {name}"
    elif issubclass(value, Enum):
        yield f"enumeration {name}"
        for member, item in value.__members__.items():
            yield member
            yield from _describe(item.value, seen)
    elif value.__bases__ == (tuple,) and hasattr(value, "_fields") and own <= _OF_NAMED_TUPLES:
        yield f"named tuple {name} {value._fields}"
        for field, default in value._field_defaults.items():  # type: ignore[attr-defined]
            yield field
            yield from _describe(default, seen)
    else:
        raise Undigestible(f"the class {name} has no content that could be named")


def _describe_function(function: FunctionType, seen: dict[int, int]) -> Iterator[str]:
    if id(function) in seen:
        yield f"the function met as number {seen[id(function)]}"
        return
    seen[id(function)] = len(seen)
    yield "function"
    yield from _describe_code(function.__code__, function.__doc__)
    yield from _describe(function.__defaults__, seen)
    for name, default in sorted((function.__kwdefaults__ or {}).items()):
        yield f"default {name}"
        yield from _describe(default, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"free {name}"
        yield from _describe(_content(cell), seen)
    for name, value in referenced(function):
        yield f"global {name}"
        yield from _describe(value, seen)


def _describe_code(code: CodeType, documentation: str | None = None) -> Iterator[str]:
    yield code.co_code.hex()
    yield code.co_exceptiontable.hex()
    yield repr((code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars))
    yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 0xFF))
    for k, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _describe_code(constant)
        elif k == 0 and isinstance(constant, str) and constant is documentation and not _loads_first(code):
            yield "NoneType None"  # a docstring has the place of that
        else:
            yield from _describe_constant(constant)


def _describe_constant(constant: Any) -> Iterator[str]:
    if isinstance(constant, tuple | frozenset):  # a set of strings prints differently in each process
        items = sorted(constant, key=repr) if isinstance(constant, frozenset) else constant
        yield f"{type(constant).__name__} {len(items)}"
        for item in items:
            yield from _describe_constant(item)
    else:
        yield f"{type(constant).__name__} {constant!r}"


def _loads_first(code: CodeType) -> bool:
    return any(i.opcode in dis.hasconst and i.arg == 0 for i in dis.get_instructions(code))
