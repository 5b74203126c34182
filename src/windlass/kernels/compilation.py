"""From a closure over plain functions to machine code that the next process finds on disk.

Two things must hold for a cached kernel to be found by a new process, and never to be stale:

1. The cells hold plain functions that numba knows as overloads (`register_jitable`), not dispatchers (`@njit`). `adopt`
   puts a copy of each function into this module, under a name made of its digest: the same name in every process, and
   another one after an edit.
2. The kernel's file name carries the digest of the whole closure, helpers in other files too.

What the copies close over and the global functions they call are adopted or registered in turn. All of them are
forced inline: then LLVM sees a round of insert, evict and query as one piece of straight code.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cache
from types import CellType, FunctionType
from typing import Any

import numpy as np

from windlass.kernels.cache import KernelCache
from windlass.kernels.columns import copy_row, prefetch, stream
from windlass.kernels.digests import Undigestible, digest, is_opaque, plain, referenced
from windlass.kernels.floats import plus_in_any_order
from windlass.kernels.importing import import_numba
from windlass.kernels.integers import highest_bit, lowest_bit, unsigned

# NaN and infinity are data (never fastmath) and dividing by zero gives them, as in Arrow and NumPy.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class CannotCompile(Exception):
    """Numba cannot compile a kernel; the message is its reason in a few lines.

    `narrowed`: where an `exact_…` function was given more than its type holds, its place and the type it was given.
    """

    def __init__(self, reason: str, narrowed: tuple[int, str] | None = None) -> None:
        super().__init__(reason)
        self.narrowed = narrowed


def exact_int64(value: Any, place: int) -> Any:
    """The value as that type. Compiled code that could give something else is refused, and `place` says where."""
    return int(value) if isinstance(value, bool | np.bool_) else value


def exact_uint64(value: Any, place: int) -> Any:
    return np.uint64(int(value))


def exact_float64(value: Any, place: int) -> Any:
    return float(value)


def exact_bool(value: Any, place: int) -> Any:
    return bool(value)


def compiled(kernel: Callable[..., Any], *, allocates: bool = False) -> _Explained:
    """Compile a kernel (on first call, for the types it is called with) through the cache on disk.

    `allocates` says that the aggregate makes arrays; otherwise the reference counting of arrays is left out.
    """
    import_numba()
    from numba import njit

    _teach_numba()
    try:
        memory = "_allocating" if allocates else ""
        name, cacheable = f"{_word(kernel)}{memory}_{digest(kernel)}_{_scheme()}", True
    except Undigestible:
        name, cacheable = _word(kernel), False
    options = _OPTIONS | {"_nrt": allocates}
    dispatcher = njit(**options)(_copy(kernel, name))
    if cacheable:
        dispatcher._cache = KernelCache(name)
    return _Explained(dispatcher)


_registered: set[FunctionType] = set()
_TAUGHT = (
    *(unsigned, lowest_bit, highest_bit, plus_in_any_order, copy_row, prefetch, stream),
    *(exact_int64, exact_uint64, exact_float64, exact_bool),
)


@cache
def _scheme() -> str:
    """What this file makes of functions that Python and machine code do differently, which no digest of them sees."""
    loader: Any = sys.modules[__name__].__loader__  # which reads it also where windlass is in a zip file
    return hashlib.blake2b(loader.get_data(__file__), digest_size=4).hexdigest()


@cache
def _teach_numba() -> None:
    """What the functions that Python and machine code do differently mean in compiled code."""
    from llvmlite.ir import Constant, FunctionType, IntType, VoidType
    from numba import types
    from numba.core.cgutils import get_or_insert_function
    from numba.core.errors import TypingError
    from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros
    from numba.extending import intrinsic, overload

    @intrinsic
    def as_unsigned(typing_context: Any, i: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.cast(builder, arguments[0], signature.args[0], types.uint64)

        return types.uint64(i), generate

    @overload(unsigned, inline="always")
    def _(i: Any) -> Any:
        def convert(i: Any) -> Any:
            return as_unsigned(i)  # type: ignore[call-arg]

        return convert

    @overload(lowest_bit, inline="always")
    def _(i: Any) -> Any:
        def count(i: Any) -> Any:
            return trailing_zeros(i)  # type: ignore[call-arg]

        return count

    @overload(highest_bit, inline="always")
    def _(i: Any) -> Any:
        def count(i: Any) -> Any:
            return 63 - leading_zeros(i)  # type: ignore[call-arg]

        return count

    @intrinsic
    def reassociable(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fadd(*arguments, flags=["reassoc"])

        return types.float64(types.float64, types.float64), generate

    @overload(plus_in_any_order, inline="always")
    def _(a: Any, b: Any) -> Any:
        def plus(a: Any, b: Any) -> Any:
            return reassociable(a, b)  # type: ignore[call-arg]

        return plus

    @intrinsic
    def store_past_cache(typing_context: Any, column: Any, i: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(column)(context, builder, arguments[0])
            stored = builder.store(arguments[2], builder.gep(array.data, [arguments[1]]))
            one = builder.module.add_metadata([Constant(IntType(32), 1)])
            stored.set_metadata("nontemporal", one)
            return context.get_dummy_value()

        return types.void(column, types.uint64, column.dtype), generate

    @intrinsic
    def fetch_row(typing_context: Any, array: Any, i: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word, address = IntType(32), IntType(8).as_pointer()
            function = get_or_insert_function(  # type: ignore[no-untyped-call]
                builder.module, FunctionType(VoidType(), [address, word, word, word]), "llvm.prefetch.p0i8"
            )
            rows = context.make_array(array)(context, builder, arguments[0])
            offset = builder.mul(arguments[1], builder.extract_value(rows.strides, 0))
            row = builder.gep(builder.bitcast(rows.data, address), [offset])
            builder.call(function, [row, Constant(word, 0), Constant(word, 3), Constant(word, 1)])
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    @overload(prefetch, inline="always")
    def _(array: Any, i: Any) -> Any:
        def fetch(array: Any, i: Any) -> Any:
            fetch_row(array, i)  # type: ignore[call-arg]

        return fetch

    @overload(stream)
    def _(column: Any, i: Any, value: Any) -> Any:
        def past_cache(column: Any, i: Any, value: Any) -> Any:
            store_past_cache(column, unsigned(i), value)  # type: ignore[call-arg]

        def ordinary(column: Any, i: Any, value: Any) -> Any:
            column[unsigned(i)] = value

        return past_cache if column.dtype in (types.int64, types.uint64, types.float64) else ordinary

    def exact(function: Any, target: Any, holds: Callable[[Any], bool]) -> None:
        @overload(function, inline="always", prefer_literal=True)
        def _(value: Any, place: Any) -> Any:
            if not holds(value):
                where = getattr(place, "literal_value", "unknown")
                raise TypingError(f"compiled, a {target} of its samples is a {value} [place {where}]")

            def convert(value: Any, place: Any) -> Any:
                return target(value)

            return convert

    def is_int(t: Any) -> bool:
        return isinstance(t, types.Integer | types.Boolean) and t != types.uint64

    exact(exact_int64, types.int64, is_int)
    exact(exact_uint64, types.uint64, lambda t: t in types.unsigned_domain or isinstance(t, types.Boolean))
    exact(exact_float64, types.float64, lambda t: isinstance(t, types.Integer | types.Float | types.Boolean))
    exact(exact_bool, types.boolean, lambda t: isinstance(t, types.Boolean))

    @overload(copy_row)
    def _(rows: Any, i: Any, row: Any) -> Any:
        def copy(rows: Any, i: Any, row: Any) -> Any:
            for j in range(rows.shape[1]):
                rows[unsigned(i), unsigned(j)] = row[unsigned(j)]

        return copy


# Numba's message if the callback that receives compiled code from LLVM was interrupted. The exception itself is lost.
_SWALLOWED = "no compiled object yet"


class _Explained:
    """A dispatcher whose typing errors are raised as CannotCompile, with the reason and without the trace."""

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.dispatcher(*arguments)
        except _numba_errors() as error:
            raise CannotCompile(_reason(str(error)), _narrowed(str(error))) from error
        except RuntimeError as error:
            if _SWALLOWED in str(error):
                raise KeyboardInterrupt("while a kernel was compiled") from error
            raise

    @property
    def compilations(self) -> int:
        """How many times this process compiled rather than loaded from the cache."""
        return sum(self.dispatcher.stats.cache_misses.values()) if self.dispatcher.stats.cache_path else -1


def direct(kernel: Any) -> Any:
    """A kernel that has run, without the explanation of why it might not compile: a tenth of a microsecond less."""
    return kernel.dispatcher if isinstance(kernel, _Explained) else kernel


@cache
def _numba_errors() -> tuple[type[BaseException], ...]:
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    return (NumbaError, UnsupportedBytecodeError, NotImplementedError)


def _reason(message: str) -> str:
    """What a user can act on in a numba error: its innermost cause, and the line of code it is about."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", message).splitlines()
    stages = [k for k, line in enumerate(lines) if "Failed in nopython mode pipeline" in line]
    innermost = max(stages, key=lambda k: (len(lines[k]) - len(lines[k].lstrip()), k), default=-1)
    cause: list[str] = []
    for line in lines[innermost + 1 :]:
        text = line.strip().removeprefix(">>> ")
        if text.startswith(("There are ", "During: ", "File ", "raised from ")):
            break
        if text and not text.startswith("- Resolution failure"):
            cause.append(text)
    # Numba's own files are no place a user could look at.
    where = re.search(r'File "(?!\S*numba/)([^"]+)", line (\d+):', "\n".join(lines[innermost + 1 :]))
    place = f" ({where[1].rpartition('/')[2]}, line {where[2]})" if where else ""
    return " ".join(cause[:4])[:300] + place if cause else message.strip()[:300]


def _narrowed(message: str) -> tuple[int, str] | None:
    found = re.search(r"is a (.+?) \[place (\d+)\]", message)
    return (int(found[2]), found[1]) if found else None


def adopt(function: Any, inside: tuple[FunctionType, ...] = ()) -> Any:
    """A copy of a plain function that numba can call and that pickles as its digest.

    `inside`: the functions whose copying has led to this one.
    """
    function = plain(function)
    if not isinstance(function, FunctionType) or is_opaque(function.__module__):
        return function
    if function in inside:
        raise CannotCompile(f"{function.__name__} is recursive through its closure")
    try:
        name = f"{_word(function)}_{digest(function)}"
    except Undigestible:
        name = f"{_word(function)}_at_{id(function)}"  # the copy keeps the original, so its id stays taken
    here = sys.modules[__name__]
    if not hasattr(here, name):
        copy = _copy(function, name, (*inside, function))
        copy.__dict__["original"] = function
        _register(copy)
        setattr(here, name, copy)
    return getattr(here, name)


def _copy(function: Any, name: str, inside: tuple[FunctionType, ...] = ()) -> FunctionType:
    function = plain(function)
    try:
        cells = tuple(CellType(_adopted_cell(cell.cell_contents, inside)) for cell in function.__closure__ or ())
    except ValueError:
        raise CannotCompile(f"a variable of the closure of {function.__name__} has no value yet") from None
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = __name__, name
    for _, value in referenced(function):
        called = plain(value)
        if isinstance(called, FunctionType) and not is_opaque(called.__module__) and called is value:
            _register_global(called)
    return copy


def _adopted_cell(value: Any, inside: tuple[FunctionType, ...]) -> Any:
    return adopt(value, inside) if isinstance(plain(value), FunctionType) else value


def _register(function: FunctionType) -> None:
    from numba.extending import register_jitable

    register_jitable(forceinline=True, **_OPTIONS)(function)


def _register_global(function: FunctionType, inside: tuple[FunctionType, ...] = ()) -> None:
    """Register the original of a function that is called through its global name, after all that it calls.

    Such a function cannot be replaced by a copy.
    """
    if function in _TAUGHT or function in _registered or function in inside:
        return
    try:
        called = [plain(value) for _, value in referenced(function)]
    except Undigestible as error:
        raise CannotCompile(str(error)) from error
    for helper in called:
        if isinstance(helper, FunctionType) and not is_opaque(helper.__module__):
            _register_global(helper, (*inside, function))
    _register(function)
    _registered.add(function)


def _word(function: Any) -> str:
    return re.sub(r"\W", "", plain(function).__name__) or "function"
