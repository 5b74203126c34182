"""A record: what a state is that leaves the process, by name and version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from windlass.errors import CorruptSnapshot, WindlassError
from windlass.formats.container import Container, open_container, refuse_newer, seal_container
from windlass.formats.document import Document, open_document, seal_document, write_document
from windlass.formats.kinds import Group, Reader, Writer
from windlass.version import __version__

__all__ = ["Record", "as_corrupt_snapshot"]


@dataclass(frozen=True)
class Record:
    """The declaration of a record. `upgrades` turns what an earlier version wrote into content of this one; `outdated`
    are earlier versions that are refused, and who wrote them."""

    name: str
    version: int
    about: str
    content: Group
    is_document: bool = False
    upgrades: Mapping[int, Callable[[Any, list[memoryview]], Any]] = field(default_factory=dict)
    outdated: Mapping[int, str] = field(default_factory=dict)

    # ------------------------------------------------------------------ in a container

    def seal(self, value: Any) -> bytes:
        """A value of this record as bytes."""
        writer = Writer()
        content = self.content.write(value, writer)
        return seal_container(self.name, self.version, content, writer.parts)

    def unseal(self, data: Any, what: str = "these bytes") -> Any:
        """The value of this record that is in a container."""
        return self.read(open_container(data, what), what)

    def read(self, container: Container, what: str = "these bytes") -> Any:
        name, version, written_by, content, parts = container
        self._check(name, version, written_by, what)
        if version in self.upgrades:
            with as_corrupt_snapshot(what):
                return self.upgrades[version](content, parts)
        reader = Reader(parts)
        value = self.content.read(content, reader)
        reader.end()
        return value

    def _check(self, name: str, version: int, written_by: str, what: str) -> None:
        if name != self.name:
            raise CorruptSnapshot(f"{what} hold a record of {name!r}, expected {self.name!r}")
        if version > self.version:
            refuse_newer(f"{self.name} record", version, self.version, written_by)
        if version != self.version and version not in self.upgrades:
            raise CorruptSnapshot(
                f"the {self.name} record has version {version}, which Windlass {written_by} wrote; this is Windlass "
                f"{__version__}, which does not read it"
            )

    # ------------------------------------------------------------------ as a document

    def write_to(self, path: Path, value: dict[str, Any]) -> None:
        """Write a value of this record as a document."""
        write_document(path, seal_document(self.name, self.version, self.content.write(value, Writer())))

    def read_from(self, path: Path) -> dict[str, Any]:
        return self.of_document(open_document(path), str(path))

    def of_document(self, document: Document, what: str) -> dict[str, Any]:
        """The value of this record in a document. One that 0.1 wrote does not say what it is."""
        content = document.content
        if document.record is not None:
            self._check(document.record, document.version, document.written_by, what)
        if document.version in self.upgrades:
            with as_corrupt_snapshot(what):
                content = self.upgrades[document.version](content, [])
        value: dict[str, Any] = self.content.read(content, Reader([]))
        return value


# What a state that is impossible may make other code raise. MemoryError is not one of them.
_IMPOSSIBLE: tuple[type[Exception], ...] = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
_IMPOSSIBLE += (AssertionError, RecursionError, pa.ArrowException, WindlassError)


@contextmanager
def as_corrupt_snapshot(what: str = "the snapshot") -> Iterator[None]:
    """Whatever is raised because a state is impossible becomes CorruptSnapshot."""
    try:
        yield
    except (CorruptSnapshot, MemoryError):  # Arrow's MemoryError is an ArrowException, too
        raise
    except _IMPOSSIBLE as error:
        raise CorruptSnapshot(f"the state of {what} is impossible: {type(error).__name__}: {error}") from error
