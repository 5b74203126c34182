"""windlass build-history, as it is run: a process of its own, with a Spark of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windlass import History

pytest.importorskip("pyspark")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(__file__).parents[2] / "src")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    return subprocess.run(
        [sys.executable, "-m", "windlass.cli", *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_a_table_becomes_a_history(tmp_path: Path) -> None:
    times = pa.array([1_700_000_000_000_000 + i * 500_000 for i in range(1000)], pa.timestamp("us", "UTC"))
    table = pa.table({"at": times, "station": ["a", "b"] * 500, "fare": pa.array(range(1000), pa.int64())})
    pq.write_table(table, tmp_path / "rides.parquet")
    made = command(
        *("build-history", str(tmp_path / "rides.parquet"), str(tmp_path / "history")),
        *("--time", "at", "--key", "station", "--tick", "1m"),
        *("--aggregate", "sum(fare)", "--aggregate", "count()"),
        *("--master", "local[2]"),
    )
    assert made.returncode == 0, made.stderr
    assert "History sum(fare), count() by station" in made.stdout
    history = History(tmp_path / "history")
    assert history.wheel("sum(fare)").landmark() == sum(range(1000))
    assert history.wheel("count()").landmark(key="a") == 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t", "h", "--time", "at", "--aggregate", "nothing(x)"], "written like sum(amount)"),
        (["t", "h", "--time", "at", "--aggregate", "sum(x)", "--option", "header"], "NAME=VALUE"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    made = command("build-history", *arguments)
    assert made.returncode == 1
    assert message in made.stderr
