"""A SPARK_HOME for the package pyspark, from which Spark's Python processes start sooner.

Spark tells every Python process to load pyspark from a zip file in its home, and what is in a zip file Python compiles
anew whenever a process starts, which takes longer than all else it does: each daemon, and one for each streaming
query. Without the zip file, the process finds the installed package, whose modules are compiled. So here is a directory
that links to all of Spark's home but its `python`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from windlass.private_directories import user_cache

__all__ = ["without_zip"]

_PARTS = ("bin", "jars", "sbin", "conf")


@contextmanager
def without_zip() -> Iterator[None]:
    """While a JVM is started: Spark's home is one without the zip file. Not if the user has chosen a home."""
    home = None if "SPARK_HOME" in os.environ or os.name != "posix" else _linked(Path(pyspark.__file__).parent)
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME", None)


def _linked(package: Path) -> Path | None:
    """A directory of links to a package's parts; None if it is not a whole Spark, or cannot be made."""
    parts = {name: package / name for name in _PARTS if (package / name).is_dir()}
    if not {"bin", "jars"} <= set(parts):
        return None
    home = user_cache() / ("spark-" + hashlib.sha256(str(package).encode()).hexdigest()[:16])
    if _is_like(home, parts):
        return home
    staged = Path(tempfile.mkdtemp(dir=home.parent, prefix=".spark-"))
    try:
        for name, part in parts.items():
            (staged / name).symlink_to(part)
        if home.exists():  # of another version that was installed there
            shutil.rmtree(home)
        staged.rename(home)
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
    return home if _is_like(home, parts) else None  # another process may have been faster


def _is_like(home: Path, parts: dict[str, Path]) -> bool:
    try:
        return {entry.name: entry.readlink() for entry in home.iterdir()} == parts
    except OSError:
        return False
