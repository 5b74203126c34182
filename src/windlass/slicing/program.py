"""What happens to slices, as a short program that every aggregate then runs on its own partials.

Cutting, splitting, merging and finding slices never looks at a partial's value. So that is done once, whatever the
number of aggregates, and leaves a program, a row of integers an instruction:

    FOLD    slot  i  stop  fresh        slot ← slot ⊕ lift(event i) ⊕ … ⊕ lift(event stop - 1); fresh: slot held nothing
    ABSORB  slot  i  stop  fresh        the same of partials that came from elsewhere, i … stop - 1
    MERGE   slot  other                 slot ← slot ⊕ other
    REPAIR  base  capacity  a  b  lo  hi  the tree over a key's slices lo:hi, of which a:b are new or changed
    ANSWER  row   base  capacity  p  q    answer ← the partial of the slices p:q of the key whose slices begin at base

An aggregate runs it in one compiled loop (`run`). Lazy or eager is the same program: with a tree (Cutty 5.2, FlatFAT
over slices), an ANSWER takes O(log n) ⊕ instead of n - 1 and a changed slice costs O(log n) at the next REPAIR.

A tree's leaf j is the slice at position j of its key; node i of 1 … capacity - 1 is kept at base + i and covers its
children 2i and 2i + 1. A node is only ever read when all of its leaves are closed slices, so the rest may be garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Events
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors, unsigned
from windlass.slicing.instructions import ABSORB, FOLD, MERGE, REPAIR
from windlass.slicing.slices import SLOT

Function = Callable[..., Any]
Integers = np.ndarray[Any, np.dtype[np.int64]]


def run(
    m: Monoid, program: Integers, events: Events, rows: Integers, pool: Columns, tree: Columns, outside: Columns
) -> None:
    """Run a program on one aggregate's partials: `pool` by slot, `tree` by node.

    `outside` are partials by row: answers that are written, or what is absorbed. `rows` are the slices' own rows, which
    say in what slot each one's partial is. `events[1]` says which events count (nulls and filtered ones do not); empty:
    all of them.
    """
    if len(program):
        _kernel(m)(program, events, rows, pool, tree, outside)


def _kernel(m: Monoid) -> Function:
    make = _compiled_kernel if m.gather is None else _gathering_kernel
    return evaluation.kernel(m, lambda: make(m), "program")


def _compiled_kernel(m: Monoid) -> Function:
    combine, identity, lift = m.combine, m.identity, m.lift
    load, store = accessors(m.fields)
    load_event, _ = accessors(tuple(evaluation.value_field(t) for t in m.inputs))
    repair, answer = _repair(m), _answer(m)

    def fold_some(events: Any, i: Any, stop: Any, acc: Any) -> Any:
        counts = events[1]
        for j in range(i, stop):
            if counts[unsigned(j)]:
                acc = combine(acc, lift(*load_event(events[0], j)))
        return acc

    def fold_all(events: Any, i: Any, stop: Any, acc: Any) -> Any:
        for j in range(i, stop):
            acc = combine(acc, lift(*load_event(events[0], j)))
        return acc

    def program_loop(program: Any, events: Any, rows: Any, pool: Any, tree: Any, outside: Any) -> Any:
        for t in range(program.shape[0]):
            op, a, b = program[t, 0], program[t, 1], program[t, 2]
            if op == FOLD:
                stop, fresh = program[t, 3], program[t, 4]
                if len(events[1]) > 0:
                    acc = identity() if fresh else load(pool, a)
                    store(pool, a, fold_some(events, b, stop, acc))
                elif fresh:
                    store(pool, a, fold_all(events, b + 1, stop, lift(*load_event(events[0], b))))
                else:
                    store(pool, a, fold_all(events, b, stop, load(pool, a)))
            elif op == ABSORB:
                acc = load(outside, b) if program[t, 4] else combine(load(pool, a), load(outside, b))
                for j in range(b + 1, program[t, 3]):
                    acc = combine(acc, load(outside, j))
                store(pool, a, acc)
            elif op == MERGE:
                store(pool, a, combine(load(pool, a), load(pool, b)))
            elif op == REPAIR:
                repair(rows, pool, tree, a, b, program[t, 3], program[t, 4], program[t, 5], program[t, 6])
            else:
                store(outside, a, answer(rows, pool, tree, b, program[t, 3], program[t, 4], program[t, 5]))

    return program_loop


def _gathering_kernel(m: Monoid) -> Function:
    """For partials that are Python objects: a slice's events are lifted all at once (sorted runs, lists)."""
    combine, gather, identity = m.combine, m.gather, m.identity
    load, store = accessors(m.fields)
    repair, answer = _repair(m), _answer(m)

    def program_loop(program: Any, events: Any, rows: Any, pool: Any, tree: Any, outside: Any) -> Any:
        columns, counts, _ = events
        for op, a, b, c, d, e, f in program.tolist():
            if op == FOLD:
                taken = tuple(column[b:c] for column in columns)
                if len(counts):
                    taken = tuple(column[counts[b:c]] for column in taken)
                part = gather(*taken) if len(counts) == 0 or counts[b:c].any() else identity()  # type: ignore[misc]
                store(pool, a, part if d else combine(load(pool, a), part))
            elif op == ABSORB:
                acc = load(outside, b) if d else combine(load(pool, a), load(outside, b))
                for j in range(b + 1, c):
                    acc = combine(acc, load(outside, j))
                store(pool, a, acc)
            elif op == MERGE:
                store(pool, a, combine(load(pool, a), load(pool, b)))
            elif op == REPAIR:
                repair(rows, pool, tree, a, b, c, d, e, f)
            else:
                store(outside, a, answer(rows, pool, tree, b, c, d, e))

    return program_loop


def _repair(m: Monoid) -> Function:
    combine = m.combine
    load, store = accessors(m.fields)

    def repair(rows: Any, pool: Any, tree: Any, base: Any, capacity: Any, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        left, right, size = a >> 1, (b - 1) >> 1, 2
        while size <= capacity:
            if left == right and (left * size < lo or (left + 1) * size > hi):
                break  # nor are any of its ancestors whole
            for q in range(left, right + 1):
                leaf = q * size
                if leaf >= lo and leaf + size <= hi:
                    node = capacity // size + q
                    if size == 2:
                        x = load(pool, rows[unsigned(base + leaf), SLOT])
                        y = load(pool, rows[unsigned(base + leaf + 1), SLOT])
                    else:
                        x = load(tree, base + 2 * node)
                        y = load(tree, base + 2 * node + 1)
                    store(tree, base + node, combine(x, y))
            left, right, size = left >> 1, right >> 1, size * 2

    return repair


def _answer(m: Monoid) -> Function:
    """The partial of the slices p:q. The last one may still grow, so it is never part of the tree."""
    combine, identity = m.combine, m.identity
    load, _ = accessors(m.fields)

    def lazy(rows: Any, pool: Any, base: Any, p: Any, q: Any) -> Any:
        acc = load(pool, rows[unsigned(base + p), SLOT])
        for j in range(p + 1, q):
            acc = combine(acc, load(pool, rows[unsigned(base + j), SLOT]))
        return acc

    def eager(rows: Any, pool: Any, tree: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        x, y = p + capacity, q - 1 + capacity
        right = load(pool, rows[unsigned(base + q - 1), SLOT])
        left, any_left = right, False
        while x < y:
            if x & 1:
                part = load(tree, base + x) if x < capacity else load(pool, rows[unsigned(base + x - capacity), SLOT])
                left = combine(left, part) if any_left else part
                any_left = True
                x += 1
            if y & 1:
                y -= 1
                part = load(tree, base + y) if y < capacity else load(pool, rows[unsigned(base + y - capacity), SLOT])
                right = combine(part, right)
            x >>= 1
            y >>= 1
        return combine(left, right) if any_left else right

    def answer(rows: Any, pool: Any, tree: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        if p == q:
            return identity()
        if q - p <= 2 or len(tree[0]) == 0:
            return lazy(rows, pool, base, p, q)
        return eager(rows, pool, tree, base, capacity, p, q)

    return answer
