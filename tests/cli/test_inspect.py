"""`windlass inspect`: what a file or a directory is, and one line with exit code 1 if that cannot be told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from windlass import Operator, Query, Tumbling, Wheel, __version__, agg
from windlass.cli.inspection import inspect_command

GOLDEN = Path(__file__).parents[1] / "golden"


def told(path: Path) -> tuple[int, list[str]]:
    result = CliRunner().invoke(inspect_command, [str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output.splitlines()


def snapshot() -> bytes:
    op = Operator(Query("q", Tumbling(10), agg.sum("x")), time="ts")
    op.process({"ts": [1, 12], "x": [1, 2]})
    return op.snapshot()


def saved(path: Path) -> Path:
    w = Wheel(agg.sum(), 0, tick=1, levels=[1, 10], dtype="int64")
    w.insert_many([1, 2], [3, 14])
    w.advance_to(12)
    w.save(path)
    return path


def test_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "saved").write_bytes(data := snapshot())
    line = f"saved: operator, version 5, written by Windlass {__version__}, {len(data)} bytes, whole"
    assert told(tmp_path / "saved") == (0, [line])


def test_directories(tmp_path: Path) -> None:
    code, lines = told(saved(tmp_path))
    assert (code, len(lines)) == (0, 3)
    assert lines[0] == f"wheel.json: wheel, version 2, written by Windlass {__version__}, whole"
    code, lines = told(GOLDEN / "wheel" / "1" / "parquet")
    assert code == 0 and "version 1, written by Windlass 0.1" in lines[0]
    code, lines = told(GOLDEN / "history" / "1" / "two_buckets")
    assert (code, lines[0]) == (0, "history.json: history, version 1, whole")


DAMAGES: dict[str, Any] = {
    "cut off": lambda data: data[:-1],
    "a bit": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "more": lambda data: data + b"\0",
    "nothing": lambda data: b"",
    "text": lambda data: b"hello",
    "json": lambda data: b'{"format": 2}',
    "a later container": lambda data: data[:8] + b"\x09" + data[9:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_told_is_one_line(tmp_path: Path, damage: str) -> None:
    (tmp_path / "saved").write_bytes(DAMAGES[damage](snapshot()))
    code, lines = told(tmp_path / "saved")
    assert (code, len(lines)) == (1, 1), lines
    assert str(tmp_path / "saved") in lines[0]


def test_places_that_are_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        code, lines = told(path)
        assert (code, len(lines)) == (1, 1)


def test_a_wheel_that_is_not_whole(tmp_path: Path) -> None:
    saved(tmp_path)
    file = next((tmp_path / "slots").iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    code, lines = told(tmp_path)
    assert code == 1 and file.name in lines[-1] and "damaged" in lines[-1]
    file.unlink()
    code, lines = told(tmp_path)
    assert code == 1 and "is gone" in lines[-1]


def test_nothing_is_built(tmp_path: Path) -> None:
    (tmp_path / "saved").write_bytes(snapshot())
    script = (
        "import sys; from pathlib import Path; from windlass.formats.inspection import inspected; "
        f"print(inspected(Path({str(tmp_path / 'saved')!r}))); "
        "print([m for m in sys.modules if m == 'numba' or m.startswith('windlass.operator')])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[1] == "[]"
