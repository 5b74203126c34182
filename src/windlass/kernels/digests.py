"""What a function does, as a short name: equal digests run equal code, in this process and in the next.

A digest covers the byte code, the constants and defaults, what the closure holds, and every global the code
refers to, followed through the functions it calls. Line numbers, file names and docstrings are left out, so
moving a function does not recompile it, while editing it, or a helper it calls, always does.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

# Their functions are identified by name: they change only with the library, and numba's own cache knows that.
_OPAQUE = {"numpy", "numba", "builtins", *sys.stdlib_module_names}


class Undigestible(TypeError):
    """A function refers to something whose content cannot be named; it must not be cached."""


def digest(function: Any) -> str:
    """Sixteen hex digits naming what `function` computes. Raises Undigestible if that cannot be known."""
    h = hashlib.blake2b(digest_size=8)
    for part in _describe(function, set()):
        h.update(part.encode())
        h.update(b"\0")
    return h.hexdigest()


def plain(function: Any) -> Any:
    """The Python function behind a numba dispatcher, or the function itself."""
    return getattr(function, "py_func", function)


def referenced(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function's code refers to, module attributes included, nested code too."""
    names = list(dict.fromkeys(_names(function.__code__)))
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value
            if isinstance(value, ModuleType) and not is_opaque(value.__name__):
                for attribute in names:
                    if attribute != name and hasattr(value, attribute):
                        yield f"{name}.{attribute}", getattr(value, attribute)


def is_opaque(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _OPAQUE


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _describe(value: Any, seen: set[int]) -> Iterator[str]:
    value = plain(value)
    if isinstance(value, FunctionType):
        yield from _describe_function(value, seen)
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__}"
    elif isinstance(value, BuiltinFunctionType | np.ufunc):
        yield f"builtin {getattr(value, '__module__', '')}.{value.__name__}"
    elif isinstance(value, type):
        yield f"type {value.__module__}.{value.__qualname__}"
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.generic):
        yield f"{value.dtype} {value.item()!r}"
    elif isinstance(value, (tuple, list, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, frozenset) else value
        yield f"{type(value).__name__} {len(items)}"
        for item in items:
            yield from _describe(item, seen)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"array {value.dtype} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}"
    elif isinstance(value, np.dtype):
        yield f"dtype {value!r}"
    else:
        raise Undigestible(f"{type(value).__name__} {value!r} has no content that could be named")


def _describe_function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function.__code__) in seen and function.__closure__ is None:
        yield f"recursion {function.__name__}"
        return
    seen.add(id(function.__code__))
    yield "function"
    yield from _describe_code(function.__code__)
    for default in function.__defaults__ or ():
        yield from _describe(default, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"free {name}"
        yield from _describe(cell.cell_contents, seen)
    for name, value in referenced(function):
        module = getattr(value, "__module__", None)
        if isinstance(value, ModuleType) or is_opaque(module):
            yield f"global {name} {getattr(value, '__name__', type(value).__name__)}"
            continue
        yield f"global {name}"
        yield from _describe(value, seen)


def _describe_code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_argcount, code.co_kwonlyargcount))
    docstring = code.co_consts[0] if code.co_consts and isinstance(code.co_consts[0], str) else None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _describe_code(constant)
        elif constant is not docstring or code.co_flags & 0x2 == 0:
            yield f"{type(constant).__name__} {constant!r}"
