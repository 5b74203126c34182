"""The licences of third-party packages, as a page: `.venv/bin/python -m tests.licences > docs/licences.md`."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"

# Locked packages that are only installed on another system, or with another version of Python.
ELSEWHERE = {"colorama": "BSD License"}

HEAD = """\
# Third-party licences

The packages that Windlass uses, at the versions in `locks/dev.lock`, with the licences that their
metadata declares. Windlass contains none of them. Without extras it needs numpy, numba with
llvmlite, and pyarrow. The rest belongs to an extra or to development. The full texts come with the
packages.

| package | licence |
|---|---|
"""


def locked() -> list[str]:
    """The names in the lock."""
    return re.findall(r"^([a-z0-9-]+)==", (ROOT / "locks" / "dev.lock").read_text(), re.MULTILINE)


def licence(name: str) -> str | None:
    """The licence that an installed package declares; None if it is not installed."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return None
    classifiers = [c.rpartition(" :: ")[2] for c in found.get_all("Classifier") or () if c.startswith("License ::")]
    declared = found.get("License-Expression") or ", ".join(classifiers) or (found.get("License") or "").split("\n")[0]
    return declared.strip() or "see its files"


def page() -> str:
    rows = [f"| {name} | {licence(name) or ELSEWHERE[name]} |\n" for name in locked()]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
