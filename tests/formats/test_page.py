"""`docs/formats.md` says what is declared; `python -m tests.formats.test_page` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.formats import records
from windlass.formats.page import groups_of, page

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
BEGIN = "python -m tests.formats.test_page -->\n\n"


def test_the_page_is_what_is_declared() -> None:
    assert PAGE.read_text().split(BEGIN)[1] == page(records())


def test_titles_differ_so_links_lead_somewhere() -> None:
    groups = {group.title: group for record in records() for group in groups_of(record)}
    assert all(groups[g.title] is g for record in records() for g in groups_of(record))
    headings = set(re.findall("^##+ (.*)$", PAGE.read_text(), re.M))
    anchors = {re.sub("[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#(.*?)\)", PAGE.read_text())) <= anchors


def test_records_are_those_that_are_promised() -> None:
    assert [record.name for record in records()] == [
        *("operator", "fine-grained", "store", "spark-head", "spark-step", "spark-block", "query"),
        *("wheel", "wheel-manifest", "wheel-state", "wheel-shared"),
    ]


if __name__ == "__main__":
    before = PAGE.read_text().split(BEGIN)[0]
    PAGE.write_text(before + BEGIN + page(records()))
