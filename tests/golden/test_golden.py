"""Golden files: what any version has written is read, and answers what it answered then.

    tests/golden/<record>/<version>/<name>                 a file or a directory
    tests/golden/<record>/<version>/<name>.answers.json    what is read from it; if there is none, it is refused

They are never written again; `digests.txt` tells. `python -m tests.golden.write` adds those that are missing. A record
whose declaration changes needs a new version, a reader of the one before (`Record.upgrades`), and golden files.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import CASES
from tests.golden.write import DECLARATIONS, HERE, answers_of, as_json, declared, digest_of, files, listed
from windlass.errors import CorruptSnapshot
from windlass.formats import records
from windlass.formats.inspection import inspected

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


@pytest.mark.parametrize("path", [p for p in KEPT if p not in READ], ids=named)
def test_golden_files_that_are_refused(path: Path) -> None:
    """State of 0.1, by name."""
    record, version, _ = path.relative_to(HERE).parts
    assert int(version) in next(r for r in records() if r.name == record).outdated
    with pytest.raises(CorruptSnapshot, match=r"Windlass 0\.1|not written by Windlass"):
        inspected(path)
    if record == "operator":
        with pytest.raises(CorruptSnapshot, match=r"that Windlass 0\.1 wrote; this is Windlass"):
            CASES[record][path.name].answers(path)


def test_golden_declarations_are_as_they_were() -> None:
    """A record that changes without a new version is read wrongly by what has read it so far."""
    known = listed(DECLARATIONS)
    for name, digest in declared().items():
        record = name.split()[0]
        assert name in known, f"{name} is new: give {record} golden files (python -m tests.golden.write)"
        assert known[name] == digest, (
            f"the declaration of {name} has changed: give it a new version, a reader of {name} (upgrades), and golden "
            "files (python -m tests.golden.write)"
        )


@pytest.mark.parametrize("record", records(), ids=lambda record: record.name)
def test_every_version_has_golden_files_and_a_reader(record: Any) -> None:
    versions = {int(p.name) for p in (HERE / record.name).iterdir()}
    assert record.version in versions
    assert versions <= {record.version, *record.upgrades, *record.outdated}
    assert set(record.upgrades) <= versions
    assert set(record.outdated.values()) <= {"0.1"}  # from then on, all that was written is read
    written = {int(name.split()[1]) for name in listed(DECLARATIONS) if name.split()[0] == record.name}
    assert written - {record.version} <= set(record.upgrades)
    there = {p.name for p in (HERE / record.name / str(record.version)).iterdir() if p.suffix != ".json"}
    assert there == set(CASES[record.name])


@pytest.mark.parametrize("path", READ, ids=named)
def test_golden_files_are_told(path: Path) -> None:
    record = path.relative_to(HERE).parts[0]
    text = "\n".join(inspected(path))
    assert "whole" in text and (record in text or path.is_dir())
