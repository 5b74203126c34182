"""What a field of a record can be. A kind writes values, reads them back, checks both, and says what it is in words.

A value becomes JSON; arrays, Arrow tables and bytes become parts of the container, in the order of the declaration, so
nothing in a record refers to a part by number. Sizes have names: the first field that has one fixes it for the fields
that follow, up to the end of the group that names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, NoReturn

from windlass.errors import CorruptSnapshot

__all__ = [
    "Either",
    "Field",
    "Flag",
    "Float",
    "Group",
    "Integer",
    "Kind",
    "ListOf",
    "MapOf",
    "Maybe",
    "Reader",
    "Rule",
    "Text",
    "Walk",
    "Writer",
]

LEAST, MOST = -(2**63), 2**63 - 1


class Refused(CorruptSnapshot):
    """A value that a record cannot have. The kinds around it add their names on the way out."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(reversed(self.path)) or 'the record'} {self.args[0]}"


class Walk:
    """The sizes that are known where a writer or a reader is in a record."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def refuse(self, why: str) -> NoReturn:
        raise Refused(why)

    def fix(self, name: str, size: int) -> None:
        """A size, which must be the same wherever it has this name."""
        known = self.sizes.setdefault(name, size)
        if known != size:
            self.refuse(f"has {size} {name}, expected {known}")

    def below(self, bound: str) -> int:
        return self.sizes[bound]


class Writer(Walk):
    """Takes the parts of a record that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes | memoryview] = []
        self.abridged = 0  # bytes that were left out of arrays


class Reader(Walk):
    """Gives the parts of a record that is read, one after the other."""

    def __init__(self, parts: Sequence[memoryview]) -> None:
        super().__init__()
        self._parts, self._taken = parts, 0
        self.abridged = 0

    def part(self) -> memoryview:
        if self._taken == len(self._parts):
            self.refuse("has a part that is not there")
        self._taken += 1
        return self._parts[self._taken - 1]

    def end(self) -> None:
        if self._taken != len(self._parts):
            raise CorruptSnapshot(f"the record has {len(self._parts) - self._taken} parts too many")


class Kind:
    """What a value can be."""

    text: str

    def write(self, value: Any, to: Writer) -> Any:
        """The JSON of a value; its arrays go to the writer."""
        raise NotImplementedError

    def read(self, node: Any, of: Reader) -> Any:
        """The value of this JSON, or an error if it cannot be one."""
        raise NotImplementedError

    def groups(self) -> list[tuple[str, Group]]:
        """Groups that are declared in here, to be described on their own, each with what it is called there."""
        return []


# --------------------------------------------------------------------------- plain values


class Integer(Kind):
    """An integer in a range; `size` gives it the name of a size, `below` another size as its bound."""

    def __init__(self, least: int = LEAST, most: int = MOST, *, size: str | None = None, below: str | None = None):
        self.least, self.most, self.size, self.below = least, most, size, below
        self.text = f"integer{_range(least, most)}{f', below {below}' if below else ''}{f': {size}' if size else ''}"

    def write(self, value: Any, to: Writer) -> Any:
        if isinstance(value, bool) or not isinstance(value, Integral):
            to.refuse(f"is {_shown(value)}, expected an integer")
        return self._checked(int(value), to)

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not int:
            of.refuse(f"is {_shown(node)}, expected an integer")
        return self._checked(node, of)

    def _checked(self, value: int, walk: Walk) -> int:
        if not self.least <= value <= self.most or (self.below is not None and value >= walk.below(self.below)):
            walk.refuse(f"is {value}, expected {self.text}")
        if self.size is not None:
            walk.fix(self.size, value)
        return value


class Float(Kind):
    """A finite number."""

    def __init__(self, least: float = -math.inf) -> None:
        self.least = least
        self.text = "number" if least == -math.inf else f"number of at least {least:g}"

    def write(self, value: Any, to: Writer) -> Any:
        return self.read(float(value), to)

    def read(self, node: Any, of: Walk) -> Any:
        if type(node) not in (int, float) or not math.isfinite(node) or node < self.least:
            of.refuse(f"is {_shown(node)}, expected a {self.text}")
        return node


class Flag(Kind):
    text = "true or false"

    def write(self, value: Any, to: Writer) -> Any:
        return bool(value)

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not bool:
            of.refuse(f"is {_shown(node)}, expected {self.text}")
        return node


class Text(Kind):
    """A text; one of `choices` if there are any, or one that matches a `pattern` as a whole."""

    def __init__(self, *choices: str, pattern: str | None = None, most: int = 1 << 20) -> None:
        self.choices, self.most = choices, most
        self.pattern = None if pattern is None else re.compile(pattern, re.ASCII)
        self.text = " or ".join(f"`{choice}`" for choice in choices) or (
            f"text like `{pattern}`" if pattern else "text"
        )

    def write(self, value: Any, to: Writer) -> Any:
        return self.read(value, to)

    def read(self, node: Any, of: Walk) -> Any:
        if type(node) is not str or (self.choices and node not in self.choices) or len(node) > self.most:
            of.refuse(f"is {_shown(node)}, expected {self.text}")
        if self.pattern is not None and not self.pattern.fullmatch(node):
            of.refuse(f"is {_shown(node)}, expected {self.text}")
        return node


# --------------------------------------------------------------------------- values in values


class Maybe(Kind):
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.text = f"{kind.text}, or null"

    def write(self, value: Any, to: Writer) -> Any:
        return None if value is None else self.kind.write(value, to)

    def read(self, node: Any, of: Reader) -> Any:
        return None if node is None else self.kind.read(node, of)

    def groups(self) -> list[tuple[str, Group]]:
        return self.kind.groups()


class ListOf(Kind):
    """A list; `size` names its length."""

    def __init__(self, kind: Kind, *, size: str | None = None, least: int = 0, most: int = 1 << 24) -> None:
        self.kind, self.size, self.least, self.most = kind, size, least, most
        count = f"{least} " if least == most else f"at least {least} " if least else ""
        self.text = f"list of {count}{f'{size}, each ' if size else ''}{kind.text}"

    def write(self, value: Any, to: Writer) -> Any:
        return self._each(list(value), to, self.kind.write)

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not list:
            of.refuse(f"is {_shown(node)}, expected a list")
        return self._each(node, of, self.kind.read)

    def _each(self, items: list[Any], walk: Any, of: Callable[[Any, Any], Any]) -> list[Any]:
        if not self.least <= len(items) <= self.most:
            walk.refuse(f"has {len(items)} entries, expected {self.text}")
        if self.size is not None:
            walk.fix(self.size, len(items))
        found: list[Any] = []
        try:
            for item in items:
                found.append(of(item, walk))  # noqa: PERF401 - its length says where a refusal is
        except Refused as error:
            error.path.append(str(len(found)))
            raise
        return found

    def groups(self) -> list[tuple[str, Group]]:
        return self.kind.groups()


class MapOf(Kind):
    """Names and what each stands for."""

    def __init__(self, kind: Kind, most: int = 1 << 16) -> None:
        self.kind, self.most = kind, most
        self.text = f"by name, {kind.text}"

    def write(self, value: Mapping[str, Any], to: Writer) -> Any:
        return self._each(value, to, self.kind.write)

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not dict or len(node) > self.most:
            of.refuse(f"is {_shown(node)}, expected values by name")
        return self._each(node, of, self.kind.read)

    @staticmethod
    def _each(items: Mapping[str, Any], walk: Any, of: Callable[[Any, Any], Any]) -> dict[str, Any]:
        found, name = {}, ""
        try:
            for name, item in items.items():
                found[name] = of(item, walk)
        except Refused as error:
            error.path.append(name)
            raise
        return found

    def groups(self) -> list[tuple[str, Group]]:
        return self.kind.groups()


class Field:
    """A field of a group. One that is `optional` may be absent."""

    def __init__(self, name: str, kind: Kind, note: str = "", *, optional: bool = False) -> None:
        self.name, self.kind, self.note, self.optional = name, kind, note, optional


class Rule:
    """What must hold between fields: in words, and as a function of the group's values."""

    def __init__(self, text: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        self.text, self.holds = text, holds


class Group(Kind):
    """Fields that belong together. `sizes` are names of sizes that are its own."""

    def __init__(self, title: str, *fields: Field, sizes: str = "", rules: Sequence[Rule] = ()) -> None:
        self.title, self.fields, self.rules, self.sizes = title, fields, tuple(rules), tuple(sizes.split())
        self.text = f"[{title}](#{re.sub('[^a-z -]', '', title).replace(' ', '-')})"
        self._names = frozenset(field.name for field in fields)
        self._needed = frozenset(field.name for field in fields if not field.optional)
        self._writes = [(field.name, field.kind.write) for field in fields]
        self._reads = [(field.name, field.kind.read) for field in fields]

    def write(self, value: Mapping[str, Any], to: Writer) -> Any:
        if value.keys() != self._names:
            self._check(value.keys(), to)
        outer = self._enter(to)
        node, name = {}, ""
        try:
            for name, write in self._writes:
                if name in value:
                    node[name] = write(value[name], to)
        except Refused as error:
            error.path.append(name)
            raise
        self._leave(dict(value), outer, to)
        return node

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not dict:
            of.refuse(f"is {_shown(node)}, expected the fields {', '.join(sorted(self._names))}")
        if node.keys() != self._names:
            self._check(node.keys(), of)
        outer = self._enter(of)
        value, name = {}, ""
        try:
            for name, read in self._reads:
                if name in node:
                    value[name] = read(node[name], of)
        except Refused as error:
            error.path.append(name)
            raise
        self._leave(value, outer, of)
        return value

    def _check(self, names: Any, walk: Walk) -> None:
        if unknown := names - self._names:
            walk.refuse(f"has an unknown field {min(unknown)!r}")
        if missing := self._needed - names:
            walk.refuse(f"lacks its field {min(missing)!r}")

    def _enter(self, walk: Walk) -> dict[str, int]:
        if not self.sizes:
            return {}
        return {name: walk.sizes.pop(name) for name in self.sizes if name in walk.sizes}

    def _leave(self, value: dict[str, Any], outer: dict[str, int], walk: Walk) -> None:
        for rule in self.rules:
            if not rule.holds(value):
                walk.refuse(f"is impossible: it does not hold that {rule.text}")
        for name in self.sizes:
            walk.sizes.pop(name, None)
        walk.sizes |= outer

    def groups(self) -> list[tuple[str, Group]]:
        return [(self.title, self)]


class Either(Kind):
    """One of several groups, as [its name, its fields]."""

    def __init__(self, **kinds: Kind) -> None:
        self.kinds = {name.replace("_", "-"): kind for name, kind in kinds.items()}
        self.text = " or ".join(f"[`{name}`, {kind.text}]" for name, kind in self.kinds.items())

    def write(self, value: tuple[str, Any], to: Writer) -> Any:
        name, content = value
        return [name, self.kinds[name].write(content, to)]

    def read(self, node: Any, of: Reader) -> Any:
        if type(node) is not list or len(node) != 2 or type(node[0]) is not str or node[0] not in self.kinds:
            of.refuse(f"is {_shown(node)}, expected one of {', '.join(self.kinds)}")
        name, content = node
        return name, self.kinds[name].read(content, of)

    def groups(self) -> list[tuple[str, Group]]:
        return [found for kind in self.kinds.values() for found in kind.groups()]


def _range(least: int, most: int) -> str:
    if (least, most) == (LEAST, MOST):
        return ""
    return f" from {least}" if most == MOST else f" {_power(least)} … {_power(most)}"


def _power(number: int) -> str:
    exponent = abs(number).bit_length() - 1
    return str(number) if abs(number) < 1 << 16 or abs(number) != 1 << exponent else f"{'-' * (number < 0)}2^{exponent}"


def _shown(node: Any) -> str:
    text = repr(node)
    return text if len(text) <= 40 else f"{text[:37]}…"
