"""Write the golden files that are missing, of the versions that are written now: `python -m tests.golden.write`.

A file that is there is never written again. What it answers is kept beside it, as `<name>.answers.json`, and its digest
goes to the end of `digests.txt`. `declarations.txt` has a digest of each record's declaration, by version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windlass.formats import records
from windlass.formats.page import outline

HERE = Path(__file__).parent
DIGESTS = HERE / "digests.txt"
DECLARATIONS = HERE / "declarations.txt"


def answers_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.answers.json")


def as_json(answers: Any) -> str:
    return json.dumps(answers, ensure_ascii=False, indent=1) + "\n"


def files() -> Iterator[Path]:
    """All golden files, those in directories too."""
    return (path for path in sorted(HERE.glob("*/*/**/*")) if path.is_file() and "__pycache__" not in path.parts)


def digest_of(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def listed(place: Path = DIGESTS) -> dict[str, str]:
    """The digests of golden files by path, or of declarations by record and version."""
    lines = place.read_text().splitlines() if place.exists() else []
    return {of: digest for digest, of in (line.split(maxsplit=1) for line in lines)}


def declared() -> dict[str, str]:
    """The digests of the declarations as they are now."""
    return {
        f"{record.name} {record.version}": hashlib.blake2b(outline(record).encode(), digest_size=16).hexdigest()
        for record in records()
    }


def main() -> None:
    from tests.golden.cases import CASES

    versions = {record.name: record.version for record in records()}

    for record, cases in CASES.items():
        if record not in versions:
            continue
        for name, case in cases.items():
            path = HERE / record / str(versions[record]) / name
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            case.write(path)
            answers_of(path).write_text(as_json(case.answers(path)))
            print(path.relative_to(HERE))
    known = listed(DECLARATIONS)
    with DECLARATIONS.open("a") as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in declared().items() if name not in known)
    known = listed()
    with DIGESTS.open("a") as file:
        for path in files():
            if (name := path.relative_to(HERE).as_posix()) not in known:
                file.write(f"{digest_of(path)}  {name}\n")


if __name__ == "__main__":
    main()
