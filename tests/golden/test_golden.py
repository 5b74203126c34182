"""Golden files: what any version has written is read, and answers what it answered then.

    tests/golden/<record>/<version>/<name>                 a file or a directory
    tests/golden/<record>/<version>/<name>.answers.json    what is read from it; if there is none, it is refused

They are never written again; `digests.txt` tells. `python -m tests.golden.write` adds those that are missing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import CASES
from tests.golden.write import HERE, answers_of, as_json, digest_of, files, listed

KEPT = [p for p in sorted(HERE.glob("*/*/*")) if p.suffix != ".json" and "__pycache__" not in p.parts]
READ = [p for p in KEPT if answers_of(p).exists()]


def named(path: Path) -> str:
    return path.relative_to(HERE).as_posix()


def same(a: Any, b: Any) -> bool:
    """Whether answers are equal; floats but for the last bits."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == pytest.approx(b) if isinstance(a, float) and isinstance(b, float) else a == b)


def test_no_golden_file_was_written_again() -> None:
    there = {named(path): digest_of(path) for path in files()}
    assert there == listed()


@pytest.mark.parametrize("path", READ, ids=named)
def test_golden_files_are_read(path: Path, tmp_path: Path) -> None:
    record, _, name = path.relative_to(HERE).parts
    kept = tmp_path / name
    shutil.copytree(path, kept) if path.is_dir() else shutil.copy(path, kept)
    answers = json.loads(as_json(CASES[record][name].answers(kept)))
    assert same(answers, json.loads(answers_of(path).read_text()))
