"""Compiled kernels on disk: a file for each kernel and the types it was compiled for.

    fold_3f0c…_91ab…-5d2e….kernel      name and digest of the kernel │ digest of types, processor and versions
      └ pickle of machine code │ 16 bytes: BLAKE2b of the file's name and of the pickle

A kernel's name carries a digest of all that it was made of, so a directory of kernels can be shipped, and used by
several versions. It lies at the first of these places:

1. `WINDLASS_CACHE_DIR`, if it is set
2. `NUMBA_CACHE_DIR`, if it is set
3. `__pycache__` beside this module, if it is there or can be created
4. the user's cache directory

Such a file is code, so it is read only from a directory that no other user can write to (`private_directories`). A
directory that this user may only read is not written to: kernels that it lacks go to the user's cache directory.

A file that is missing, damaged or under another's name is no error. The kernel is compiled again, and the file replaced
by renaming. The digest finds damage; it does not prove who wrote the file. That is what the directory is checked for.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from windlass.private_directories import create_file, create_like, trusted, user_cache

__all__ = ["KernelCache"]

VARIABLE = "WINDLASS_CACHE_DIR"
_DIGEST = 16  # bytes


class KernelCache:
    """What numba asks for the compiled forms of one kernel, in place of its own cache."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def cache_path(self) -> str:
        return str(_places()[0])

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the kernel compiled for this signature, or None if it is not there or not as it was written."""
        target.refresh()
        name = self._file(signature, target.codegen())
        for place in _places():
            if (content := _read(place / name)) is not None and (found := _rebuild(content, target)) is not None:
                return found
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a kernel that has just been compiled. It runs without that, too, so a full disk is no error."""
        from numba.core.serialize import dumps

        if compiled.library.has_dynamic_globals or any(not code.can_cache for code in compiled.lifted):
            return  # holds addresses of this process
        name = self._file(signature, compiled.codegen)
        with suppress(OSError):
            _write(_places()[-1] / name, dumps(compiled._reduce()))  # type: ignore[no-untyped-call]

    def _file(self, signature: Any, codegen: Any) -> str:
        import numba

        made_for = (str(signature), codegen.magic_tuple(), numba.__version__, sys.implementation.cache_tag)
        return f"{self.name}-{hashlib.blake2b(repr(made_for).encode(), digest_size=8).hexdigest()}.kernel"


@cache
def _places() -> tuple[Path, ...]:
    """The directories of kernels: all are read, the last one is written to."""
    for variable in (VARIABLE, "NUMBA_CACHE_DIR"):
        if named := os.environ.get(variable):
            chosen = trusted(Path(named), variable)
            break
    else:
        chosen = _beside_source()
    if chosen is not None and os.access(chosen, os.W_OK):
        return (chosen,)
    private = user_cache("kernels")
    return (private,) if chosen is None else (chosen, private)


def _beside_source() -> Path | None:
    path = Path(__file__).with_name("__pycache__")
    with suppress(OSError):  # in a zip file, or in a directory of the system
        create_like(path)  # Python's own files lie there, too
    return trusted(path, "the directory") if path.is_dir() else None


def _read(path: Path) -> bytes | None:
    """Return what was written under this name, if it is whole."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content, digest = whole[:-_DIGEST], whole[-_DIGEST:]
    return content if digest == _digest(path.name, content) else None


def _write(path: Path, content: bytes) -> None:
    staged = path.with_name(f".{uuid.uuid4().hex}")
    try:
        create_file(staged)
        staged.write_bytes(content + _digest(path.name, content))
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + content, digest_size=_DIGEST).digest()


def _rebuild(content: bytes, target: Any) -> Any:
    from numba.core.compiler import CompileResult

    try:
        return CompileResult._rebuild(target, *pickle.loads(content))  # type: ignore[no-untyped-call]
    except (ImportError, AttributeError):  # it refers to a module or name that this process does not have
        return None
