"""Directories for objects that keep files, removed when the tests end."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


def directory() -> Path:
    """A new directory."""
    return Path(tempfile.mkdtemp(dir=_all()))


@cache
def _all() -> str:
    path = tempfile.mkdtemp(prefix="windlass-faults-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
