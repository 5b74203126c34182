"""What `save` and `share` create is for the user alone; who may read a directory that was there may read its files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass import Wheel, agg

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture(params=[0o000, 0o002, 0o077])
def umask(request: Any) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def written(path: Path, how: str) -> dict[str, set[int]]:
    """Write a wheel under a path; gives the modes of directories and of files."""
    w = Wheel(agg.sum(), tick="1s", start=0, dtype="int64")
    w.insert(3, 1)
    w.advance_to(10)
    for form in ("parquet", "arrow") if how == "save" else ():
        w.save(path, form=form)  # type: ignore[arg-type]
        w.insert(12, 1)
        w.advance_to(20)
    if how == "share":
        w.share(path)
    places = [path, *path.rglob("*")]
    modes = {kind: {stat.S_IMODE(p.stat().st_mode) for p in places if kind == _kind(p)} for kind in ("dir", "file")}
    assert modes["file"]
    return modes


def _kind(path: Path) -> str:
    return "dir" if path.is_dir() else "file"


@pytest.mark.parametrize("how", ["save", "share"])
def test_a_new_directory_is_private(tmp_path: Path, how: str, umask: int) -> None:
    assert written(tmp_path / "above" / "wheel", how) == {"dir": {0o700}, "file": {0o600}}
    assert stat.S_IMODE((tmp_path / "above").stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["save", "share"])
def test_a_directory_that_was_there_says_who_may_read(tmp_path: Path, how: str, umask: int) -> None:
    tmp_path.chmod(0o2770)  # of a group that works together
    found = written(tmp_path, how)
    assert found["file"] == {0o640 & ~umask}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o2770
    assert {mode & 0o777 for mode in found["dir"]} - {0o770} <= {0o750 & ~umask}
