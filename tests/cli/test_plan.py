"""`windlass plan`: what it prints, draws and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner

from windlass import agg
from windlass.cli.commands import windlass
from windlass.cli.queries import read_queries
from windlass.errors import InvalidArgument
from windlass.sharing import ACQ, Plan

TOML = """
rate = 1000

[[query]]
name = "per_minute"
range = "1m"
slide = "5s"
aggregate = ["sum(amount)", "max(amount)"]

[[query]]
name = "per_hour"
range = "1h"
aggregate = "sum(amount)"
"""


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.toml"
    path.write_text(TOML)
    return path


def test_queries_of_a_file(queries: Path, tmp_path: Path) -> None:
    wanted = [
        ACQ("1m", "5s", agg.sum("amount"), name="per_minute"),
        ACQ("1m", "5s", agg.max("amount"), name="per_minute"),
        ACQ("1h", "1h", agg.sum("amount"), name="per_hour"),
    ]
    assert read_queries(queries) == (wanted, 1000)
    as_json = tmp_path / "queries.json"
    as_json.write_text(json.dumps({"query": [{"range": 14, "slide": 8, "offset": 3}]}))
    assert read_queries(as_json) == ([ACQ(14, 8, agg.count(), offset=3, name="query 1")], 1)


def test_it_prints_the_plan_and_others(queries: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    done = CliRunner().invoke(windlass, ["plan", str(queries), "--picture", str(picture)])
    assert done.exit_code == 0, done.output
    for part in ("3 ACQs in 2 trees", "per_minute (1m every 5s)", "per_hour (1h)", "no sharing", "maximum sharing"):
        assert part in done.output
    assert picture.stat().st_size > 5000


def test_it_prints_json(queries: Path) -> None:
    done = CliRunner().invoke(windlass, ["plan", str(queries), "--json", "--technique", "flatfit", "--rate", "5"])
    names = {"sum(amount)": agg.sum("amount"), "max(amount)": agg.max("amount")}
    found = Plan.from_json(done.output, names)
    assert found.rate == 5 and {tree.technique for tree in found.trees} == {"flatfit"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate = ", "is not TOML"),
        ("rate = 5", "no queries"),
        ("speed = 1\n[[query]]\nrange = 5", "unknown speed"),
        ("[[query]]\nslide = 5", "query 1: a query needs a range"),
        ("[[query]]\nname = 'a'\nrange = 5\nstep = 5", "query a: unknown step"),
        ("[[query]]\nrange = '5 apples'", "query 1"),
        ("[[query]]\nrange = 5\nslide = 6", "longer than the range"),
        ("[[query]]\nrange = 5\naggregate = 'summ(x)'", "written like sum"),
        ("[[query]]\nrange = 5\naggregate = 'define(x)'", "query 1"),
        ("[[query]]\nrange = 5\naggregate = 'sum(x, y, z)'", "sum"),
    ],
)
def test_what_it_refuses(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "queries.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        read_queries(path)
    done = CliRunner().invoke(windlass, ["plan", str(path)])
    assert done.exit_code == 1 and message.split(": ")[-1] in done.output


def test_it_is_a_command(queries: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "windlass.cli", "plan", str(queries), "--objective", "operations"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ACQs in" in done.stdout
