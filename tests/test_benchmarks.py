"""The benchmark harness runs: a quick case writes its results, draws its plot from them, and fills a
document.
"""

import json
import subprocess

import pytest

pytest.importorskip("matplotlib", reason="the bench extra is not installed")

from benchmarks import driving, report, results, run
from benchmarks.cases import NAMES, load, sharing_calibration, sharing_engine
from windlass.operator.costs import to_json


def test_a_quick_case_leaves_results_a_plot_and_figures_for_the_document(tmp_path, capsys):
    assert run.main(["memory", "--quick", "--into", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "results" / "memory.json").read_text())
    assert result["quick"] is True
    assert {"machine", "versions", "date", "seed"} <= result.keys()
    assert {row["technique"] for row in result["rows"]} >= {"TwoStacks", "DABA", "FlatFIT"}
    assert (tmp_path / "plots" / "memory.png").stat().st_size > 10_000
    assert "SlickDeque" in capsys.readouterr().out

    document = tmp_path / "benchmarks.md"
    document.write_text(f"above\n{report.BEGIN}\nold\n{report.END}\nbelow\n")
    assert report.main(document, tmp_path) == 0
    text = document.read_text()
    assert text.startswith("above") and text.endswith("below\n") and "| TwoStacks | 2n |" in text and "old" not in text


def test_several_cases_have_a_process_each(tmp_path, monkeypatch):
    ran = []

    def child(command, **options):
        ran.append((command[1:], options["cwd"] / "benchmarks" == results.ROOT))
        return subprocess.CompletedProcess(command, returncode=len(ran) - 1)

    monkeypatch.setattr(run.subprocess, "run", child)
    assert run.main(["memory", "latency", "--quick", "--into", str(tmp_path)]) == 1, "one has failed, all have run"
    options = ["--into", str(tmp_path), "--quick"]
    assert ran == [(["-m", "benchmarks.run", name, *options], True) for name in ("memory", "latency")]


def test_the_cases_are_listed_and_unknown_ones_refused(capsys):
    assert run.main(["--list"]) == 0
    assert "single_query" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run.main(["no_such_case"])
    assert "no such case" in capsys.readouterr().err


def test_a_quick_case_of_the_operator_compares_answers_and_races(tmp_path):
    assert run.main(["slicing_in_order", "--quick", "--into", str(tmp_path)]) == 0

    rows = json.loads((tmp_path / "results" / "slicing_in_order.json").read_text())["rows"]
    assert {row["technique"] for row in rows} >= {"Windlass lazy", "Windlass eager", "Cutty", "Buckets"}
    assert all(row["events_per_second"] > 0 and len(row["seconds"]) == 3 for row in rows)
    assert (tmp_path / "plots" / "slicing_in_order.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_what_the_harness_asks_for(name):
    case = load(name)
    assert case.TITLE and case.__doc__
    assert all(callable(getattr(case, function)) for function in ("run", "tables", "findings", "draw"))


def test_answers_that_differ_stop_a_comparison():
    driving.agree({"a": [(0, 0, 10, 1.0)], "b": [(0, 0, 10, 1.0)]})
    for wrong in ([(0, 0, 10, 2.0)], [(0, 0, 20, 1.0)], []):
        with pytest.raises(AssertionError, match="b gives"):
            driving.agree({"a": [(0, 0, 10, 1.0)], "b": wrong})
    with pytest.raises(AssertionError, match="no answer at all"):
        driving.agree({"a": [], "b": []})


def test_the_costs_of_the_engine_are_what_the_results_say():
    rows = results.read(results.ROOT / "results" / "sharing_engine.json")["rows"]
    assert sharing_engine.TABLE.read_text() == to_json(sharing_engine.fitted(rows))


def test_the_calibration_is_what_the_results_say():
    rows = results.read(results.ROOT / "results" / "sharing_calibration.json")["rows"]
    assert sharing_calibration.TABLE.read_text() == sharing_calibration.fitted(rows).to_json()
