"""Processes that need the same kernel at the same time compile it once.

The workers of a Spark executor, or of a test run, start together and want the same kernels. Numba's cache is for those
that come later: all that find nothing in it compile, each for itself. Here the first one holds a lock on the kernel's
name, one byte of a file in the cache's directory, until it has saved the machine code; the others wait, and load it.
"""

from __future__ import annotations

import os
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # on Windows, where each process compiles for itself
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 120.0  # seconds; a process that holds a lock for longer may have been stopped
_PAUSE = 0.01


@cache
def once() -> Any:
    """The class of caches that do so, in the place of numba's own."""
    from numba.core.caching import FunctionCache

    class Once(FunctionCache):
        held = False

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            if found is None and not self.held:
                self.held = _lock(self.cache_path, self._impl.filename_base)
                if self.held:  # it may have been saved just now
                    found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
                    if found is not None:
                        self.release()
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
            finally:
                self.release()

        def release(self) -> None:
            if self.held:
                self.held = False
                fcntl.lockf(_file(self.cache_path), fcntl.LOCK_UN, 1, _place(self._impl.filename_base))

    return Once


def release(dispatcher: Any) -> None:
    """Its kernel could not be compiled: let the others try."""
    if isinstance(dispatcher._cache, once()):
        dispatcher._cache.release()


def _lock(directory: str, name: str) -> bool:
    """Wait until no other process compiles this kernel. False if that cannot be told, or takes too long."""
    if fcntl is None:
        return False
    try:
        file, until = _file(directory), time.monotonic() + _PATIENCE
    except OSError:  # one that may only be read
        return False
    while time.monotonic() < until:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(name))
            return True
        except (BlockingIOError, PermissionError):  # it is held; which of the two depends on the system
            time.sleep(_PAUSE)
        except OSError:  # a file system without locks
            return False
    return False


@cache
def _file(directory: str) -> int:
    """Open for as long as the process lives: to close it would release all locks on it."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    return os.open(place / "windlass.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _place(name: str) -> int:
    return zlib.crc32(name.encode())
