"""python -m benchmarks.report: write the figures of the result files into docs/benchmarks.md, between its
two marks.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import results
from benchmarks.cases import NAMES, Table, load

DOCUMENT = results.ROOT.parent / "docs" / "benchmarks.md"
BEGIN = "<!-- results: written by python -m benchmarks.report -->"
END = "<!-- end of results -->"


def main(document: Path = DOCUMENT, directory: Path = results.ROOT) -> int:
    text = document.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{document} lacks the marks {BEGIN} and {END}", file=sys.stderr)
        return 1
    parts = [section(name, directory) for name in NAMES if (directory / "results" / f"{name}.json").is_file()]
    body = "\n".join(parts) or "No results yet.\n"
    document.write_text(f"{before}{BEGIN}\n\n{body}\n{END}{after}")
    return 0


def section(name: str, directory: Path) -> str:
    result, case = results.read(directory / "results" / f"{name}.json"), load(name)
    lines = [f"### {case.TITLE}", "", f"{results.what_ran(result)}; seed {result['seed']}.", ""]
    lines += [f"- {line}" for line in case.findings(result["rows"])]
    lines += ["", f"![{case.TITLE}](../benchmarks/plots/{name}.png)", ""]
    for table in case.tables(result["rows"]):
        lines += [*markdown(table), ""]
    return "\n".join(lines)


def markdown(table: Table) -> list[str]:
    caption, header, lines = table
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return [f"{caption}:", "", *(f"| {' | '.join(cells)} |" for cells in [header, rule, *lines])]


if __name__ == "__main__":
    sys.exit(main())
