"""The two steps of a change, and of a query, as kernels.

The first rearranges times and slots and leaves a list of the nodes to repair (or of the pieces to combine). It never
sees a partial and is compiled once for all aggregates. The second lifts new events into their slots and repairs those
nodes (or combines the pieces). It is compiled for the aggregate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from windlass.aggregates.evaluation import answer, lifted
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, compiled
from windlass.stores.fiba import nodes
from windlass.stores.fiba.eviction import evict, evict_up_to
from windlass.stores.fiba.insertion import is_ascending, locate, take_in
from windlass.stores.fiba.nodes import ARITY, SIZE, at, put
from windlass.stores.fiba.ranges import folding, walk, whole
from windlass.stores.fiba.repair import repairing, settle
from windlass.stores.fiba.search import down, start

Function = Callable[..., Any]

# ---------------------------------------------------------------------- first steps, for all aggregates


def carve(arena: Any, n: Any, arity: Any) -> Any:
    """The arrays for a change of n events, in one: items, gathered entries, slots, repairs. A kernel that is handed few
    arrays is called sooner."""
    a, g = n + 1, n + 2 * arity
    items = arena[:a], arena[a : 2 * a], arena[2 * a : 3 * a], arena[3 * a : 4 * a]
    a *= 4
    gathered = arena[a : a + g], arena[a + g : a + 2 * g], arena[a + 2 * g : a + 3 * g]
    a += 3 * g
    return items, gathered, arena[a : a + n], arena[a + n :]


def room_of(n: int, arity: int, rows: int) -> int:
    """Words that an arena for n events needs, in a tree with room for so many nodes."""
    return 4 * (n + 1) + 3 * (n + 2 * arity) + n + 2 * rows + 2


def insert_step(tree: Any, times: Any, arena: Any) -> Any:
    """Insert a batch in order; -1 if it is not, and then nothing was done."""
    ascending, strictly = is_ascending(times, 0, len(times))
    if not ascending:
        return -1, 0
    items, gathered, slots, repairs = carve(arena, len(times), tree[0][ARITY])
    take_in(tree, items, locate(tree, times, len(times), strictly, items, slots), gathered)
    return 0, settle(tree, repairs)


def evict_step(tree: Any, t: Any, arena: Any) -> Any:
    items, gathered, slots, repairs = carve(arena, 0, tree[0][ARITY])
    return int(evict(tree, t)), settle(tree, repairs)


def evict_up_to_step(tree: Any, t: Any, arena: Any) -> Any:
    items, gathered, slots, repairs = carve(arena, 0, tree[0][ARITY])
    return evict_up_to(tree, t), settle(tree, repairs)


def cut_step(tree: Any, t: Any) -> Any:
    """The same, and what is marked waits until the tree is changed or asked: more may go, and what comes next has to be
    settled, too."""
    return evict_up_to(tree, t)


def settle_step(tree: Any, arena: Any) -> Any:
    items, gathered, slots, repairs = carve(arena, 0, tree[0][ARITY])
    return settle(tree, repairs)


def range_step(tree: Any, first: Any, last: Any, pieces: Any) -> Any:
    node, i, found, bounded, bound = down(tree, start(tree, first), first)
    node, i, n, leaf, holder = walk(tree, node, i, last, pieces, 0, node)
    return n


def whole_step(tree: Any, pieces: Any) -> Any:
    return whole(tree, pieces)


def contains_step(tree: Any, t: Any) -> Any:
    node, i, found, bounded, bound = down(tree, start(tree, t), t)
    return found


def live_step(tree: Any, times: Any, slots: Any) -> Any:
    """All times and slots in order."""
    head, rows, free = tree
    node, i, n = head[nodes.LEFT], 0, 0
    slot_column, child_column = nodes.slots_of(head), nodes.children_of(head)
    while n < head[SIZE]:
        if i < at(rows, node + nodes.ENTRIES):
            put(times, n, at(rows, node + nodes.TIMES + i))
            put(slots, n, at(rows, node + slot_column + i))
            n, i = n + 1, i + 1
            while at(rows, node + nodes.LEVEL) > 0:
                node = at(rows, node + child_column + i)
                i = 0
        else:
            i = nodes.place_of(tree, at(rows, node + nodes.PARENT), node)
            node = at(rows, node + nodes.PARENT)


@cache
def machine_code(step: Function) -> Function:
    """A step, compiled; these have no function of a user's that may not be, so nothing has to be explained."""
    made: Function = compiled(step).dispatcher
    return made


def quick(kernel: Any) -> Function:
    """What a kernel that has run was compiled to, as long as that is for one set of types: numba finds out the types of
    all arguments at each call, and for a small batch that takes as long as its events. The caller knows that they are
    of the same types as at the first call."""
    dispatcher = getattr(kernel, "dispatcher", kernel)
    overloads = list(dispatcher.overloads.values())
    found: Function = overloads[0].entry_point if len(overloads) == 1 else dispatcher
    return found


# ---------------------------------------------------------------------- second steps, for one aggregate


def changing(m: Monoid, lift_at: Function) -> Function:
    """`change(state, events, order, slots, n, repairs, count)`: put n events, in the order given (empty: as they are),
    each lifted by `lift_at(events, i)`, into their slots, and repair."""
    combine, repair = m.combine, repairing(m)
    load, store = accessors(m.fields)

    def change(state: Any, events: Any, order: Any, slots: Any, n: Any, repairs: Any, count: Any) -> Any:
        head, rows, values, aggregates = state
        for k in range(n):
            slot = at(slots, k)
            x = lift_at(events, at(order, k) if len(order) > 0 else k)
            if slot < 0:
                store(values, ~slot, x)
            else:
                store(values, slot, combine(load(values, slot), x))
        repair(head, rows, repairs, count, values, aggregates)

    return change


def change_kernel(m: Monoid) -> Function:
    change = changing(m, lifted(m))

    def change_batch(state: Any, events: Any, order: Any, n: Any, arena: Any, count: Any) -> Any:
        items, gathered, slots, repairs = carve(arena, n, state[0][ARITY])
        change(state, events, order, slots, n, repairs, count)

    return change_batch


def repair_kernel(m: Monoid) -> Function:
    repair = repairing(m)

    def repair_only(state: Any, arena: Any, n: Any, count: Any) -> Any:
        head, rows, values, aggregates = state
        items, gathered, slots, repairs = carve(arena, n, head[ARITY])
        repair(head, rows, repairs, count, values, aggregates)

    return repair_only


def query_kernel(m: Monoid) -> Function:
    fold, answer_at = folding(m), answer(m)

    def query(state: Any, pieces: Any, n: Any, answers: Any, row: Any) -> Any:
        head, rows, values, aggregates = state
        answer_at(answers, row, fold(pieces, 0, n, values, aggregates))

    return query
