"""What the documents say is true: their examples run, their links lead somewhere, their tables agree with the code.

In a ```python block, `# → value` at the end of an expression is the expected repr, up to white space, and
`# raises Name` the expected exception. A block without a language behind a last line that prints is what it prints.
The blocks of one file share a namespace.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windlass import Query, agg, errors, stores, windows
from windlass.aggregates.values import value_type
from windlass.operator.plan import Plan

ROOT = Path(__file__).resolve().parents[1]
EXECUTED = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
    *sorted((ROOT / "docs" / "slicing").glob("*.md")),
    *sorted((ROOT / "docs" / "sharing").glob("*.md")),
]

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^print\([^\n]*\n```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def documents() -> Iterator[Path]:
    for directory, inner, files in os.walk(ROOT):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield from (Path(directory) / name for name in files if name.endswith(".md"))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --------------------------------------------------------------------------- examples


def statements(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Every statement of the file's Python blocks, at its line of the file, and the comment behind it."""
    text = path.read_text()
    for block in FENCE.finditer(text):
        if block[2] != "python":
            continue
        above = text[: block.start(3)].count("\n")
        source = "\n" * above + textwrap.dedent(block[3])
        lines, body = source.splitlines(), ast.parse(source, shown(path)).body
        for k, statement in enumerate(body):
            is_last_of_line = k + 1 == len(body) or body[k + 1].lineno > (statement.end_lineno or 0)
            comment = lines[(statement.end_lineno or 0) - 1][statement.end_col_offset :] if is_last_of_line else ""
            yield statement, comment.strip()


def run(statement: ast.stmt, name: str, scope: dict[str, Any]) -> Any:
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), name, "eval", dont_inherit=True), scope)
    exec(compile(ast.Module([statement], []), name, "exec", dont_inherit=True), scope)
    return None


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("path", EXECUTED, ids=shown)
def test_examples(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for what they write
    scope: dict[str, Any] = {"__name__": "example"}
    found = 0
    for statement, comment in statements(path):
        where = f"{shown(path)}, line {statement.lineno}"
        raises, value = re.match(r"# raises (\w+)$", comment), re.match(r"# → (.*)", comment)
        if raises:
            with pytest.raises(getattr(errors, raises[1])):
                run(statement, str(path), scope)
                pytest.fail(f"{where}: nothing was raised")
        else:
            result = run(statement, str(path), scope)
            if value:
                assert squeezed(repr(result)) == squeezed(value[1]), where
        found += 1
    assert found, f"{shown(path)} has no examples"
    printed = squeezed(capsys.readouterr().out)
    for text in PRINTED.findall(path.read_text()):
        assert squeezed(text) in printed, f"{shown(path)} does not print\n{text}"


# --------------------------------------------------------------------------- links


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", sorted(documents()), ids=shown)
def test_links(path: Path) -> None:
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{shown(path)} links to {link}"
        if anchor and file.suffix == ".md" and file.name != "benchmarks.md":  # its results bring their own headings
            assert anchor in anchors(file), f"{shown(path)} links to {link}"


# --------------------------------------------------------------------------- tables


def table(path: Path, first: str) -> list[dict[str, str]]:
    """The rows of the table whose first heading is `first`, by heading."""
    lines = iter(path.read_text().splitlines())
    heading = next(line for line in lines if line.startswith(f"| {first} |"))
    names = cells(heading)
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        assert len(cells(line)) == len(names), line
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


CATALOGUE = ROOT / "docs" / "guide" / "aggregates.md"


def catalogue() -> list[tuple[agg.Aggregate, dict[str, str]]]:
    """Every call in the first column, made, and its row."""
    rows = table(CATALOGUE, "aggregate")
    calls = [(call, row) for row in rows for call in re.findall(r"`([^`]*)`", row["aggregate"])]
    return [(eval(call, dict(vars(agg))), row) for call, row in calls]


@pytest.mark.parametrize(("aggregate", "row"), catalogue(), ids=[repr(a) for a, _ in catalogue()])
def test_the_catalogue_agrees_with_the_code(aggregate: agg.Aggregate, row: dict[str, str]) -> None:
    assert row["class"] == aggregate.kind
    for name in ("commutative", "invertible", "selective"):
        assert row[name] == ("yes" if getattr(aggregate, name) else ""), name
    assert row["answer"] == answer_type(aggregate)


def answer_type(aggregate: agg.Aggregate) -> str:
    """As the catalogue writes it: x is the type of the values, and wide where it is widened to 64 bits."""
    types = [pa.int32(), pa.float32(), pa.bool_(), pa.string()]
    answers = {}
    for arrow in types:
        try:
            answers[arrow] = aggregate.monoid([value_type(arrow)] * len(aggregate.columns)).result
        except errors.WrongType:
            continue
        except errors.MissingExtra:
            pytest.skip("an extra is not installed")
    if all(pa.types.is_struct(result) for result in answers.values()):
        return "struct"
    if len(set(answers.values())) == 1:
        result = str(next(iter(answers.values())))
        return {"double": "float64", "large_binary": "bytes"}.get(result, result)
    if all(result == arrow for arrow, result in answers.items()):
        return "x"
    if all(result == pa.list_(arrow) for arrow, result in answers.items()):
        return "list of x"
    assert answers[pa.int32()] == pa.int64() and answers[pa.float32()] == pa.float64()
    return "x, wide"


def test_the_catalogue_is_complete() -> None:
    makers = {
        getattr(agg, name).__name__  # some have two
        for name in agg.__all__
        if inspect.isfunction(getattr(agg, name))
        and inspect.signature(getattr(agg, name)).return_annotation in ("Aggregate", agg.Aggregate)
    }
    assert len(makers) > 30
    assert makers == {aggregate.name for aggregate, _ in catalogue()}


DECISIONS = ROOT / "docs" / "slicing" / "decisions.md"


@pytest.mark.parametrize("row", table(DECISIONS, "window"), ids=lambda row: row["window"])
def test_the_decisions_agree_with_the_code(row: dict[str, str]) -> None:
    def function(*arguments: Any) -> Any:
        return arguments

    window = eval(row["window"].strip("`"), vars(windows) | {"rule": function, "step": function})
    assert row["class"] == window.context
    for order, in_order in (("in order", True), ("out of order", False)):
        plan = Plan([Query("q", window, agg.sum("x"))], None, in_order)
        assert row[f"{order}: tuples"] == ("kept" if plan.stores_tuples.yes else "dropped")
        assert row[f"{order}: splits"] == ("possible" if plan.splits.yes else "never")


def test_the_decisions_are_complete() -> None:
    named = {row["window"].strip("`").partition("(")[0] for row in table(DECISIONS, "window")}
    assert named == set(windows.__all__) - {"Window"}


TECHNIQUES = ROOT / "docs" / "techniques" / "README.md"
N = 64


@pytest.mark.parametrize("row", table(TECHNIQUES, "store"), ids=lambda row: row["store"])
def test_counted_costs(row: dict[str, str]) -> None:
    """⊕ a round on a full window of 64, over whole cycles of flips (64) and resets (65)."""
    store, aggregate = re.fullmatch(r"`(\w+)\(agg\.(\w+)\(\)\)`", row["store"]).groups()  # type: ignore[union-attr]
    counting, calls = agg.counted(getattr(agg, aggregate)())
    s = getattr(stores, store)(counting, dtype="int64", nullable=False, capacity=N)
    values = np.random.default_rng(1).integers(0, 1000, N + N * (N + 1))
    s.insert_many(values[:N])
    s.query()
    counts = []
    for value in values[N:].tolist():
        calls.reset()
        s.evict()
        s.insert(value)
        s.query()
        counts.append(calls.total)
    assert row["on average"] == f"{sum(counts) / len(counts):.2f}"
    assert row["in the worst round"] == str(max(counts))
