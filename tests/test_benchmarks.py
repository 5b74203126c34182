"""The benchmark harness runs: a quick case writes its results, draws its plot from them, and fills a
document.
"""

import json

import pytest

pytest.importorskip("matplotlib", reason="the bench extra is not installed")

from benchmarks import report, run


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


def test_the_cases_are_listed_and_unknown_ones_refused(capsys):
    assert run.main(["--list"]) == 0
    assert "single_query" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run.main(["no_such_case"])
    assert "no such case" in capsys.readouterr().err
