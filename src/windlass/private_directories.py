"""Directories that code is loaded from, and directories that hold a user's data: who else could change or read them.

    /home/ada/.cache/windlass     after links are resolved
      │    │     │      └ owned by the user or by root, writable by its owner only
      └────┴─────┴─────── the same, or sticky as /tmp is: there users can rename only their own files

Kernels, the Java wrapper and Spark's home are code: who can replace such a file runs code as the user who loads it. So
these are taken only from directories that keep the rule above. From any other directory nothing is read, whatever lies
in it. A warning names it once, and `user_cache` takes its place.

What is created here has mode 0700 whatever the umask is. The mode of a directory that exists is the user's choice.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import warnings
from functools import cache
from pathlib import Path

from windlass.errors import UntrustedDirectory

__all__ = [
    "create_file",
    "create_like",
    "create_private",
    "own",
    "remove_at_exit",
    "temporary_directory",
    "trusted",
    "user_cache",
    "weakness",
]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_WHO = {stat.S_IWGRP: "its group", stat.S_IWOTH: "everyone", _OTHERS_WRITE: "its group and everyone"}
_warned: set[str] = set()


def weakness(directory: Path) -> str | None:
    """Return why others could replace files of a directory, or None if only this user and root can.

    The path must be resolved: a link in it is followed by its target's parents, not by its own.
    """
    if os.name != "posix":
        return None
    for place in (directory, *directory.parents):
        found = weakness_of(os.lstat(place), os.geteuid(), is_parent=place != directory)
        if found is not None:
            return found if place == directory else f"its parent {place} {found.removeprefix('it ')}"
    return None


def weakness_of(status: os.stat_result, user: int, *, is_parent: bool) -> str | None:
    """Return what is wrong with one directory on the way, given its status."""
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if status.st_uid not in (user, 0):
        return f"it belongs to another user (uid {status.st_uid})"
    if (others := status.st_mode & _OTHERS_WRITE) and not (is_parent and status.st_mode & stat.S_ISVTX):
        return f"it is writable by {_WHO[others]} (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def trusted(directory: Path, role: str) -> Path | None:
    """Return the resolved path of a directory that code can be loaded from. It is created if it is missing.

    If it cannot be trusted, warn once and return None; `role` says what the directory is to the user.
    """
    try:
        resolved = directory.expanduser().resolve()
        create_private(resolved)
        reason = weakness(resolved)
    except (OSError, RuntimeError) as error:  # a RuntimeError: links in a circle, or no home
        resolved, reason = directory, f"it cannot be used: {error}"
    if reason is None:
        return resolved
    target = f" (which is {resolved})" if resolved != directory.absolute() else ""
    message = f"{role} {directory}{target} is not used: {reason}. A private directory takes its place."
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, UntrustedDirectory, stacklevel=2)
    return None


def user_cache(name: str = "") -> Path:
    """Return a directory in this user's cache: one that the next process finds, or else one of this process."""
    places = [Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "windlass")]
    if os.name == "posix":
        places.append(Path(tempfile.gettempdir(), f"windlass-{os.geteuid()}"))
    for place in places:
        found = trusted(place / name, "the cache directory")
        if found is not None and os.access(found, os.W_OK | os.X_OK):
            return found
    last = temporary_directory() / name
    create_private(last)
    return last


@cache
def temporary_directory() -> Path:
    """Return a directory of this process, which is removed at its end."""
    path = Path(tempfile.mkdtemp(prefix="windlass-"))
    path.chmod(0o700)  # mkdtemp leaves out what the umask forbids the owner, too
    remove_at_exit(path)
    return path


def remove_at_exit(path: Path) -> None:
    """Remove a directory when this process ends, not when a fork of it does."""
    process = os.getpid()
    atexit.register(lambda: shutil.rmtree(path, ignore_errors=True) if os.getpid() == process else None)


def create_private(path: Path) -> None:
    """Create a directory and its missing parents for this user alone. Leave an existing one as it is."""
    if path.is_dir():
        return
    if path.parent != path:
        create_private(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(0o700)


def own(path: Path) -> None:
    """Create a directory in a place where others may write. Refuse one that is not this user's alone."""
    create_private(path)
    status = os.lstat(path)
    if os.name == "posix" and (
        not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o77
    ):
        raise PermissionError(f"{path} is not a directory of this user alone")


def create_like(path: Path) -> None:
    """Create a directory that who may enter its parent may enter, and only its owner may change."""
    create_private(path.parent)
    path.mkdir(mode=0o700 | path.parent.stat().st_mode & 0o055, exist_ok=True)


def create_file(path: Path) -> None:
    """Create an empty file, or empty it. Who may list its directory may read it, and only its owner may write."""
    readable = path.parent.stat().st_mode & 0o044
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 | readable))
