"""The declarations in words: the tables of `docs/formats.md`, and what may not change without a new version."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.formats.kinds import Group
from windlass.formats.record import Record

__all__ = ["groups_of", "outline", "page"]


def groups_of(record: Record) -> list[Group]:
    """The record's own group, then those inside of it, in the order in which they are met."""
    found: dict[str, Group] = {}

    def visit(group: Group) -> None:
        if group.title in found:
            return
        found[group.title] = group
        for field in group.fields:
            for _, inner in field.kind.groups():
                visit(inner)

    visit(record.content)
    return list(found.values())


def page(records: Sequence[Record]) -> str:
    """A section a record, and in it a table a group; a group that several records have is in the first one's."""
    lines: list[str] = []
    described: set[str] = set()
    for record in records:
        place = "a document" if record.is_document else "in a container"
        lines += [f"## {record.name}", "", f"Version {record.version}, {place}. {record.about}", ""]
        versions = [f"Version {v} is read." for v in sorted(record.upgrades)]
        versions += [f"Version {v}, of Windlass {by}, is refused." for v, by in sorted(record.outdated.items())]
        if versions:
            lines += [" ".join(versions), ""]
        for group in groups_of(record):
            if group.title in described:
                continue
            described.add(group.title)
            if group is not record.content:
                lines += [f"### {group.title}", ""]
            lines += _table(group)
    return "\n".join(lines)


def _table(group: Group) -> list[str]:
    lines = ["| field | what it is | |", "|---|---|---|"]
    for field in group.fields:
        name = f"`{field.name}`{' (may be absent)' if field.optional else ''}"
        lines.append(f"| {name} | {_cell(field.kind.text)} | {_cell(field.note)} |")
    rules = [f"- {rule.text[0].upper()}{rule.text[1:]}." for rule in group.rules]
    return [*lines, "", *rules, *([""] if rules else [])]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def outline(record: Record) -> str:
    """All of a declaration that readers and writers depend on: no notes, no prose."""
    lines = [f"{record.name} {record.version}"]
    for group in groups_of(record):
        lines.append(f"{group.title} {' '.join(group.sizes)}")
        lines += [f"  {f.name}{'?' * f.optional}: {f.kind.text}" for f in group.fields]
        lines += [f"  {rule.text}" for rule in group.rules]
    return "\n".join(lines)
