"""The invariants of the tree, checked from the root down by recursion; shares nothing with the steps it judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.kernels import accessors
from windlass.stores.fiba import nodes as words
from windlass.stores.layout import same

if TYPE_CHECKING:
    from windlass.stores.fiba.memory import Memory


def check(store: Memory) -> None:
    """Assert the numbered invariants of the package's card."""
    _Check(store).run()


class _Check:
    def __init__(self, store: Memory) -> None:
        self.store, self.m = store, store._bound
        self.head, self.rows = [int(w) for w in store._head], store._nodes
        self.arity, self.height = store.min_arity, self.head[words.HEIGHT]
        self.most = 2 * self.arity - 1
        self.load, _ = accessors(self.m.fields)
        self.seen: list[int] = []
        self.slots: list[int] = []
        self.times: list[int] = []
        self.left: dict[int, int] = {}
        self.right: dict[int, int] = {}

    def run(self) -> None:
        head, root = self.head, self.head[words.ROOT]
        assert self.rows[root + words.PARENT] == words.NONE, "5: the root has a parent"
        self._shape(root, self.height, True, True)
        assert self.times == sorted(set(self.times)), "2: times"
        assert len(self.times) == head[words.SIZE], "1: size"
        assert len(set(self.slots)) == len(self.slots), "6: a slot is used twice"
        free = [int(slot) for slot in self.store._free[: head[words.FREE_SLOTS]]]
        assert sorted(self.slots + free) == list(range(head[words.FRESH_SLOT])), "6: slots"
        node, unused = head[words.FREE_NODE], []
        while node != words.NONE:
            unused.append(node)
            node = int(self.rows[node + words.NEXT])
        every = [row * head[words.STRIDE] for row in range(head[words.FRESH_NODE])]
        assert sorted(self.seen + unused) == every, "6: nodes"
        for level in range(words.LEVELS):
            assert head[words.LEFT + level] == self.left.get(level, words.NONE), f"4: left spine, level {level}"
            assert head[words.RIGHT + level] == self.right.get(level, words.NONE), f"4: right spine, level {level}"
            assert head[words.DIRTY + level] == words.NONE, "7: a change was not settled"
        if self.times:
            self._aggregates(root)

    def _entries(self, node: int) -> int:
        return int(self.rows[node + words.ENTRIES])

    def _children(self, node: int) -> list[int]:
        if int(self.rows[node + words.LEVEL]) == 0:
            return []
        at = node + words.TIMES + 2 * self.most
        return [int(child) for child in self.rows[at : at + self._entries(node) + 1]]

    def _slots(self, node: int) -> list[int]:
        at = node + words.TIMES + self.most
        return [int(slot) for slot in self.rows[at : at + self._entries(node)]]

    def _shape(self, node: int, level: int, leftmost: bool, rightmost: bool) -> None:
        arity, children = self._entries(node) + 1, self._children(node)
        assert int(self.rows[node + words.LEVEL]) == level, "1: all leaves are at the same depth"
        assert int(self.rows[node + words.MARK]) == words.CLEAN, "7: a change was not settled"
        least = 1 if level == self.height == 0 else 2 if level == self.height else self.arity
        assert least <= arity <= 2 * self.arity, f"1: a node of arity {arity}"
        self.seen.append(node)
        self.slots += self._slots(node)
        if leftmost:
            self.left[level] = node
        if rightmost:
            self.right[level] = node
        for i in range(arity):
            if children:
                assert int(self.rows[children[i] + words.PARENT]) == node, "5: parents"
                self._shape(children[i], level - 1, leftmost and i == 0, rightmost and i == arity - 1)
            if i < arity - 1:
                self.times.append(int(self.rows[node + words.TIMES + i]))

    def _fold(self, parts: list[Any]) -> Any:
        acc = parts[0]
        for part in parts[1:]:
            acc = self.m.combine(acc, part)
        return acc

    def _parts(self, node: int, first: bool = True, last: bool = True) -> list[Any]:
        """The partials of a subtree in order, event by event; perhaps without its outer children."""
        parts: list[Any] = []
        children, slots = self._children(node), self._slots(node)
        for i in range(len(slots) + 1):
            if children and (i > 0 or first) and (i < len(slots) or last):
                parts += self._parts(children[i])
            if i < len(slots):
                parts.append(self.load(self.store._ring, slots[i]))
        return parts

    def _aggregates(self, node: int) -> None:
        level = int(self.rows[node + words.LEVEL])
        is_root, fingers = level == self.height, self.store.fingers
        if not fingers:
            expected, kind = self._parts(node), "up"
        elif is_root:
            expected, kind = self._parts(node, first=level == 0, last=level == 0), "inner"
        elif self.left[level] == node:
            expected, kind = self._parts(node, first=False), "left"
            for above in range(level + 1, self.height):
                expected = expected + self._parts(self.left[above], first=False)
        elif self.right[level] == node:
            expected, kind = self._parts(node, last=False), "right"
            for above in range(level + 1, self.height):
                expected = self._parts(self.right[above], last=False) + expected
        else:
            expected, kind = self._parts(node), "up"
        found = self.load(self.store._aggregates, int(self.rows[node + words.ROW]))
        assert same(found, self._fold(expected)), f"3: the {kind} aggregate of a node on level {level}"
        for child in self._children(node):
            self._aggregates(child)
