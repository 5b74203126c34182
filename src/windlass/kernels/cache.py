"""Where compiled kernels are kept, if one says so: a directory in which they go by name, wherever Windlass lies.

    WINDLASS_CACHE_DIR=/var/cache/windlass

Numba keeps machine code beside the source, or under a digest of the source's path. On a cluster that path is a new one
for every application, and each of them would compile again. A kernel's name carries a digest of all that it was made
of, so its name is enough: such a directory can be shared by applications and versions, and shipped.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "WINDLASS_CACHE_DIR"


@cache
def keep_by_name(module: str) -> None:
    """Let numba keep the functions of that module in the directory that the environment names, if it does."""
    named = os.environ.get(VARIABLE)
    if not named:
        return
    from numba.core.caching import CacheImpl, _CacheLocator

    directory = str(Path(named).absolute())

    class ByName(_CacheLocator):
        def get_cache_path(self) -> str:
            return directory

        def get_source_stamp(self) -> str:
            return VARIABLE  # what is in the name need not be looked at again

        def get_disambiguator(self) -> str:
            return "kernel"

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> ByName | None:
            if py_func.__module__ != module:
                return None
            locator = cls()
            try:
                locator.ensure_cache_path()  # type: ignore[no-untyped-call]
            except OSError:
                return None  # then where numba keeps everything
            return locator

    locators: list[Any] = [ByName, *CacheImpl._locator_classes]
    CacheImpl._locator_classes = locators
