"""A B-tree in flat arrays of integers: the rows of its nodes, and the few words of state above them.

    tree = (head, nodes, free)

    head     size, root, height, free lists, counts, and for every level the leftmost and the rightmost node: the
             spines, whose lowest are the two fingers
    nodes    one row a node: how many entries, parent, level, …, times, slots, children
    free     slots that can be used again

A node is known by the place where its row begins. A *slot* is a place for one partial in the columns of an aggregate:
an entry of the tree is a time and a slot, so searching, splitting, merging and moving never touch a partial. They are
compiled once for all aggregates. A node's partial aggregate lies in other columns, at the number of its row.

Every function of this package is plain Python over these arrays: compiled it is machine code, interpreted it is its own
bounds-checked twin.
"""

from __future__ import annotations

from typing import Any

from windlass.kernels import unsigned

LEVELS = 48  # min_arity 2 and 2^40 events have 41

# head
SIZE, ROOT, HEIGHT, ARITY, STRIDE, FINGERS = range(6)
FREE_NODE, FRESH_NODE, FREE_SLOTS, FRESH_SLOT = range(6, 10)
VISITS, SPLITS, MERGES, MOVES, REPAIRS, HEIGHTS = range(10, 16)  # counted since the store was made
LEFT = 16
RIGHT = LEFT + LEVELS
DIRTY = RIGHT + LEVELS
WORDS = DIRTY + LEVELS

# a node's row: ARITY is the smallest number of children, 2 * ARITY the greatest
ENTRIES, PARENT, LEVEL, MARK, NEXT, ROW, TIMES = range(7)
CLEAN, CHANGED, FREED = range(3)
NONE = -1

# FINGERS, what a tree keeps: aggregates of subtrees alone, as the classic B-tree does; those of the spines, too; or
# none on the spines, where nothing but ranges are asked for.
CLASSIC, SPINES, RANGES = range(3)


def stride_of(arity: Any) -> Any:
    """Words in a row: times and slots of 2·arity - 1 entries, and 2·arity children."""
    return TIMES + 3 * (2 * arity - 1) + 1


def at(words: Any, i: Any) -> Any:
    return words[unsigned(i)]


def put(words: Any, i: Any, value: Any) -> Any:
    words[unsigned(i)] = value


def slots_of(head: Any) -> Any:
    """Where in a row the slots begin."""
    return TIMES + 2 * head[ARITY] - 1


def children_of(head: Any) -> Any:
    """Where in a row the children begin."""
    return TIMES + 2 * (2 * head[ARITY] - 1)


def new_node(tree: Any, level: Any) -> Any:
    head, nodes, free = tree
    node = head[FREE_NODE]
    if node != NONE:
        head[FREE_NODE] = at(nodes, node + NEXT)
    else:
        node = head[FRESH_NODE] * head[STRIDE]
        put(nodes, node + ROW, head[FRESH_NODE])
        head[FRESH_NODE] += 1
    put(nodes, node + ENTRIES, 0)
    put(nodes, node + PARENT, NONE)
    put(nodes, node + LEVEL, level)
    put(nodes, node + MARK, CLEAN)
    return node


def free_node(tree: Any, node: Any) -> Any:
    """A node that waits to be repaired is in a list by its level, and becomes free when that list is read."""
    head, nodes, free = tree
    if at(nodes, node + MARK) == CLEAN:
        put(nodes, node + NEXT, head[FREE_NODE])
        head[FREE_NODE] = node
    else:
        put(nodes, node + MARK, FREED)


def new_slot(tree: Any) -> Any:
    head, nodes, free = tree
    if head[FREE_SLOTS] > 0:
        head[FREE_SLOTS] -= 1
        return at(free, head[FREE_SLOTS])
    head[FRESH_SLOT] += 1
    return head[FRESH_SLOT] - 1


def new_slots(tree: Any, slots: Any, k: Any, count: Any) -> Any:
    """As many new slots, in the order in which `new_slot` would give them."""
    head, nodes, free = tree
    stack, fresh = head[FREE_SLOTS], head[FRESH_SLOT]
    used = min(count, stack)
    for j in range(used):
        put(slots, k + j, at(free, stack - 1 - j))
    for j in range(used, count):
        put(slots, k + j, fresh + j - used)
    head[FREE_SLOTS] = stack - used
    head[FRESH_SLOT] = fresh + count - used


def free_slot(tree: Any, slot: Any) -> Any:
    head, nodes, free = tree
    put(free, head[FREE_SLOTS], slot)
    head[FREE_SLOTS] += 1


def mark(tree: Any, node: Any) -> Any:
    """What this node combines has changed."""
    head, nodes, free = tree
    if at(nodes, node + MARK) == CLEAN:
        level = DIRTY + at(nodes, node + LEVEL)
        put(nodes, node + MARK, CHANGED)
        put(nodes, node + NEXT, at(head, level))
        put(head, level, node)


def rank(nodes: Any, node: Any, t: Any) -> Any:
    """How many times of a node are before t. Counted without branches: where t falls cannot be predicted."""
    before = 0
    for i in range(node + TIMES, node + TIMES + at(nodes, node + ENTRIES)):
        before += at(nodes, i) < t
    return before


def is_found(nodes: Any, node: Any, i: Any, t: Any) -> Any:
    return i < at(nodes, node + ENTRIES) and at(nodes, node + TIMES + i) == t


def place_of(tree: Any, parent: Any, node: Any) -> Any:
    """Which child of its parent a node is."""
    head, nodes, free = tree
    children = parent + children_of(head)
    i = 0
    while at(nodes, children + i) != node:
        i += 1
    return i


def clear(tree: Any) -> Any:
    """The empty tree, and no other in its arrays."""
    head, nodes, free = tree
    head[FRESH_NODE] = head[FRESH_SLOT] = head[FREE_SLOTS] = 0
    head[FREE_NODE] = NONE
    plant(tree)


def plant(tree: Any) -> Any:
    """The empty tree: a root that is a leaf without entries."""
    head, nodes, free = tree
    head[SIZE] = head[HEIGHT] = 0
    for level in range(LEVELS):
        put(head, LEFT + level, NONE)
        put(head, RIGHT + level, NONE)
        put(head, DIRTY + level, NONE)
    root = new_node(tree, 0)
    head[ROOT] = root
    head[LEFT] = root
    head[RIGHT] = root


def prepare(head: Any, arity: Any, fingers: Any) -> Any:
    for word in range(WORDS):
        head[word] = 0
    head[ARITY] = arity
    head[STRIDE] = stride_of(arity)
    head[FINGERS] = fingers
