"""Write the golden files that are missing, of the versions that are written now: `python -m tests.golden.write`.

A file that is there is never written again. What it answers is kept beside it, as `<name>.answers.json`, and its digest
goes to the end of `digests.txt`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DIGESTS = HERE / "digests.txt"


def answers_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.answers.json")


def as_json(answers: Any) -> str:
    return json.dumps(answers, ensure_ascii=False, indent=1) + "\n"


def files() -> Iterator[Path]:
    """All golden files, those in directories too."""
    return (path for path in sorted(HERE.glob("*/*/**/*")) if path.is_file() and "__pycache__" not in path.parts)


def digest_of(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def listed() -> dict[str, str]:
    """The digests of golden files, by path."""
    lines = DIGESTS.read_text().splitlines() if DIGESTS.exists() else []
    return {path: digest for digest, path in (line.split(maxsplit=1) for line in lines)}


def main() -> None:
    from tests.golden.cases import CASES
    from windlass.formats import records

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
    known = listed()
    with DIGESTS.open("a") as file:
        for path in files():
            if (name := path.relative_to(HERE).as_posix()) not in known:
                file.write(f"{digest_of(path)}  {name}\n")


if __name__ == "__main__":
    main()
