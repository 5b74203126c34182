"""The examples run, and show what they are there to show."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def output(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.slow
def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    said = output("demo.py", capsys)
    assert said.count("agrees") == 6 and "DIFFERS" not in said


def test_custom_window(capsys: pytest.CaptureFixture[str]) -> None:
    said = output("custom_window.py", capsys)
    assert "VolumeBar(6000) (FCF)  ← bars" in said
    assert "5 aggregates from 2 partials a slice" in said
    assert "tuples     dropped" in said  # neither the window nor the aggregate asks more of the slicing core


def test_dashboard(capsys: pytest.CaptureFixture[str]) -> None:
    said = output("dashboard.py", capsys)
    assert "revision 1" in said and "withdrawn" in said
    assert "too late for all queries:\n  12:" in said  # and there are some, with the reason


@pytest.mark.slow
def test_spark_demo() -> None:
    """In a process of its own: it starts and stops a Spark session."""
    pytest.importorskip("pyspark")
    demo = [sys.executable, str(EXAMPLES / "spark_demo.py"), "--rows", "100000"]
    run = subprocess.run(demo, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("all as expected") == 3 and "the same in both" in run.stdout
    assert Path(run.stdout.split("two minutes of sensor-7: ")[1].splitlines()[0]).exists()


def test_there_is_a_test_of_every_example() -> None:
    tested = {"demo.py", "custom_window.py", "dashboard.py", "spark_demo.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
