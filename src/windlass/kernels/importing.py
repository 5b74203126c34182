"""Numba, imported whole or not at all.

The import takes tenths of a second, and may be interrupted. Python then removes the module whose import failed from
`sys.modules`, but keeps the modules that it had imported in turn. With these in place, every further import of numba
fails. So the modules that an interrupted import has loaded are removed before the next attempt.

Modules that numba imports with the first kernel register themselves, too, so they are imported here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from threading import Lock

__all__ = ["import_numba"]

_PACKAGES = ("numba", "llvmlite")
# Modules used here, and modules that numba would otherwise import with the first kernel.
_MODULES = (
    *("numba", "numba.extending", "numba.core.boxing", "numba.core.caching", "numba.cpython.unsafe.numbers"),
    "llvmlite.ir",
)

_importing = Lock()
_is_whole = False
_known: frozenset[str] | None = None  # the modules loaded before an import that is still running


def import_numba() -> None:
    """Import numba once."""
    if not _is_whole:
        with _importing:
            _import()


def _import() -> None:
    global _is_whole, _known
    if _is_whole:
        return
    if _known is not None:
        _forget(_known)
    _known = frozenset(sys.modules)
    try:
        for name in _MODULES:
            import_module(name)
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
    except Exception as error:
        if (interruption := _interruption(error)) is not None:
            raise interruption from None
        raise
    _is_whole, _known = True, None


def _interruption(error: BaseException | None) -> BaseException | None:
    """The interruption that caused an error. Until Python 3.12, one in `__set_name__` becomes a RuntimeError."""
    while error is not None and not isinstance(error, MemoryError | KeyboardInterrupt):
        error = error.__cause__
    return error


def _forget(known: frozenset[str]) -> None:
    """Forget the modules of an import that was interrupted."""
    for name in list(sys.modules):
        if name.partition(".")[0] in _PACKAGES and name not in known:
            del sys.modules[name]
