"""A private directory for the sockets between Spark and its Python processes.

    windlass-sockets-k3x9q2ab/.1f6c…e0.sock        in the temporary directory

Unix sockets are faster than TCP. But Spark creates them in the temporary directory with the mode that the umask leaves,
and asks for no secret on them: a user who can connect can have a worker run any code. In a directory of mode 0700 only
this user can. Where there is no place for such a directory, the session uses TCP, where Spark does ask for a secret.

The driver holds a lock on its directory, and removes it at its end. One without a lock was left by a driver that was
killed: the next session removes it.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from windlass.private_directories import remove_at_exit, weakness

__all__ = ["socket_settings"]

ENABLED, DIRECTORY = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
LONGEST = 61  # characters of the directory that Spark takes: the path of a socket has at most 108 bytes
PREFIX = "windlass-sockets-"


def socket_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for its sockets, given those that the user chose."""
    if chosen.get(ENABLED) == "false" or not hasattr(socket, "AF_UNIX"):
        return {ENABLED: "false"}
    if DIRECTORY in chosen:
        return {ENABLED: "true"}
    found = _directory(os.getpid())
    return {ENABLED: "false"} if found is None else {ENABLED: "true", DIRECTORY: str(found)}


@cache
def _directory(process: int) -> Path | None:
    """Return the directory of this process, which lasts as long as its JVM."""
    for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", "/tmp")]):
        with suppress(OSError):
            _remove_stale(Path(parent))
            if found := _locked(Path(parent)):
                return found
    return None


def _locked(parent: Path) -> Path | None:
    """Return a new directory there with a lock on it, or None if Spark cannot use it, or others can replace it."""
    import fcntl

    while True:
        found = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent.resolve()))
        found.chmod(0o700)
        remove_at_exit(found)
        if not _fits(str(found)) or weakness(found) is not None:
            found.rmdir()
            return None
        handle = os.open(found, os.O_RDONLY)  # open as long as this process lives
        fcntl.flock(handle, fcntl.LOCK_EX)
        if found.exists():
            return found
        os.close(handle)  # another session took it for one without an owner, before it was locked


def _fits(path: str) -> bool:
    """Return whether Spark can use a path. It tells workers the paths of its state's sockets in lower case."""
    return len(os.fsencode(path)) <= LONGEST and path == path.lower()


def _remove_stale(parent: Path) -> None:
    """Remove the directories of this user that no process holds a lock on."""
    import fcntl

    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # of another user, or held
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(handle)
