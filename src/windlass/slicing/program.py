"""What happens to slices, as a short program that every aggregate then runs on its own partials.

Cutting, splitting, merging and finding slices never looks at a partial's value. So that is done once, whatever the
number of aggregates, and leaves a program, a row of integers an instruction:

    FOLD    slot  i  stop  fresh        slot ← slot ⊕ lift(event i) ⊕ … ⊕ lift(event stop - 1); fresh: slot held nothing
    FOLDS   r     upto  shift  stop     the same of new slices, the rows r … upto - 1: of the events from POS + shift on
    ABSORB  slot  i  stop  fresh        the same of partials that came from elsewhere, i … stop - 1
    MERGE   slot  other                 slot ← slot ⊕ other
    REPAIR  base  capacity  a  b  lo  hi  what is kept over a key's slices lo:hi, of which a:b are new or changed
    ANSWER  row   base  capacity  p  q    answer ← the partial of the slices p:q of the key whose slices begin at base
    ANSWERS row   base  capacity  stop    the same for all answers row … stop - 1, of the slices that `ranges` says
    COMBINE row   i  stop               answer ← pieces i ⊕ … ⊕ stop - 1: slots, or ~node; of ~node: that node ←

An aggregate runs it in one compiled loop (`run`). Lazy or eager is the same program: an eager store keeps partials of
many slices together, so that an ANSWER takes a few ⊕ instead of n - 1, and brings them up to date at a REPAIR.
Which, see `blocks`, `prefixes` and `tree`. COMBINE is all that `forest` needs; its programs bring the pieces in place
of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Events
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors, prefetcher, unsigned
from windlass.slicing import blocks, prefixes, tree
from windlass.slicing.instructions import ABSORB, ANSWERS, COMBINE, FOLD, FOLDS, MERGE, REPAIR
from windlass.slicing.slices import AHEAD, POS, SLOT

Function = Callable[..., Any]
Integers = np.ndarray[Any, np.dtype[np.int64]]

NO_RANGES = (np.empty(0, np.int64), np.empty(0, np.int64))


def run(
    m: Monoid,
    program: Integers,
    events: Events,
    rows: Integers,
    pool: Columns,
    nodes: Columns,
    outside: Columns,
    as_tree: bool = False,
    ranges: tuple[Integers, Integers] = NO_RANGES,
) -> None:
    """Run a program on one aggregate's partials: `pool` by slot, `nodes` of an eager store.

    `outside` are partials by row: answers that are written, or what is absorbed. `rows` are the slices' own rows, which
    say in what slot each one's partial is. `events[1]` says which events count (nulls and filtered ones do not); empty:
    all of them. `as_tree`: what an eager store is of, whatever the partials. `ranges`: for each answer the slice that
    it begins with and the one before which it ends; less than 0, it is not meant.
    """
    if len(program):
        _kernel(m, as_tree)(program, events, rows, pool, nodes, outside, ranges)


def _kernel(m: Monoid, as_tree: bool) -> Function:
    if m.gather is not None:
        return evaluation.kernel(m, lambda: _gathering_kernel(m), "program")
    eager = _eager(m, as_tree)
    return evaluation.kernel(m, lambda: _compiled_kernel(m, eager), f"program over {eager.__name__}")


def _eager(m: Monoid, as_tree: bool) -> Any:
    """What an eager store keeps over slices: a tree where blocks would copy events too often, or if asked for."""
    return tree if m.gather is not None or as_tree else prefixes if m.wraps else blocks


def _compiled_kernel(m: Monoid, eager: Any) -> Function:
    combine, identity, lift = m.combine, m.identity, m.lift
    (load, store), bring = accessors(m.fields), prefetcher(len(m.fields))
    load_event, _ = accessors(tuple(evaluation.value_field(t) for t in m.inputs))
    repair, answer = eager.repairing(m), _answer(m, eager)

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

    def piece(pieces: Any, j: Any, pool: Any, nodes: Any) -> Any:
        i = pieces[unsigned(j), 0]
        return load(pool, i) if i >= 0 else load(nodes, ~i)

    def program_loop(program: Any, events: Any, rows: Any, pool: Any, nodes: Any, outside: Any, ranges: Any) -> Any:
        for t in range(program.shape[0]):
            op, a, b = program[t, 0], program[t, 1], program[t, 2]
            if op == FOLD:
                if t + AHEAD < program.shape[0]:
                    bring(pool, program[t + AHEAD, 1])  # of many keys, each slot lies elsewhere
                stop, fresh = program[t, 3], program[t, 4]
                if len(events[1]) > 0:
                    acc = identity() if fresh else load(pool, a)
                    store(pool, a, fold_some(events, b, stop, acc))
                elif fresh:
                    store(pool, a, fold_all(events, b + 1, stop, lift(*load_event(events[0], b))))
                else:
                    store(pool, a, fold_all(events, b, stop, load(pool, a)))
            elif op == FOLDS:
                shift, stop = program[t, 3], program[t, 4]
                for r in range(a, b):
                    i, until = rows[unsigned(r), POS] + shift, stop
                    if r + 1 < b:
                        until = rows[unsigned(r + 1), POS] + shift
                    if len(events[1]) > 0:
                        acc = fold_some(events, i, until, identity())
                    else:
                        acc = fold_all(events, i + 1, until, lift(*load_event(events[0], i)))
                    store(pool, rows[unsigned(r), SLOT], acc)
            elif op == ABSORB:
                acc = load(outside, b) if program[t, 4] else combine(load(pool, a), load(outside, b))
                for j in range(b + 1, program[t, 3]):
                    acc = combine(acc, load(outside, j))
                store(pool, a, acc)
            elif op == MERGE:
                store(pool, a, combine(load(pool, a), load(pool, b)))
            elif op == REPAIR:
                repair(rows, pool, nodes, a, b, program[t, 3], program[t, 4], program[t, 5], program[t, 6])
            elif op == COMBINE:
                acc = identity() if b == program[t, 3] else piece(rows, b, pool, nodes)
                for j in range(b + 1, program[t, 3]):
                    acc = combine(acc, piece(rows, j, pool, nodes))
                if a < 0:
                    store(nodes, ~a, acc)
                else:
                    store(outside, a, acc)
            elif op == ANSWERS:
                for i in range(a, program[t, 4]):
                    q = ranges[1][unsigned(i)]
                    p = min(ranges[0][unsigned(i)], q)
                    if q >= 0:
                        store(outside, i, answer(rows, pool, nodes, b, program[t, 3], p, q))
            else:
                store(outside, a, answer(rows, pool, nodes, b, program[t, 3], program[t, 4], program[t, 5]))

    return program_loop


def _gathering_kernel(m: Monoid) -> Function:
    """For partials that are Python objects: a slice's events are lifted all at once (sorted runs, lists)."""
    combine, gather, identity = m.combine, m.gather, m.identity
    load, store = accessors(m.fields)
    repair, parts = tree.repairing(m), tree.parts(m)
    unite = m.unite or (lambda partials: reduce(combine, partials))

    def answer(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        if p == q:
            return identity()
        if q - p > 2 and len(nodes[0]) > 0:
            return unite(parts(rows, pool, nodes, base, capacity, p, q))
        return unite([load(pool, slot) for slot in rows[base + p : base + q, SLOT].tolist()])

    def program_loop(program: Any, events: Any, rows: Any, pool: Any, nodes: Any, outside: Any, ranges: Any) -> Any:
        columns, counts, _ = events

        def gathered(i: int, stop: int) -> Any:
            taken = tuple(column[i:stop] for column in columns)
            if len(counts):
                taken = tuple(column[counts[i:stop]] for column in taken)
            return gather(*taken) if len(counts) == 0 or counts[i:stop].any() else identity()  # type: ignore[misc]

        for op, a, b, c, d, e, f in program.tolist():
            if op == FOLD:
                part = gathered(b, c)
                store(pool, a, part if d else combine(load(pool, a), part))
            elif op == FOLDS:
                bounds = [*(rows[a:b, POS] + c).tolist(), d]
                for slot, i, stop in zip(rows[a:b, SLOT].tolist(), bounds, bounds[1:], strict=False):
                    store(pool, slot, gathered(i, stop))
            elif op == ABSORB:
                acc = load(outside, b) if d else combine(load(pool, a), load(outside, b))
                for j in range(b + 1, c):
                    acc = combine(acc, load(outside, j))
                store(pool, a, acc)
            elif op == MERGE:
                store(pool, a, combine(load(pool, a), load(pool, b)))
            elif op == REPAIR:
                repair(rows, pool, nodes, a, b, c, d, e, f)
            elif op == COMBINE:
                found = [load(pool, i) if i >= 0 else load(nodes, ~i) for i in rows[b:c, 0].tolist()]
                acc = unite(found) if found else identity()
                store(nodes if a < 0 else outside, ~a if a < 0 else a, acc)
            elif op == ANSWERS:
                for i in range(a, d):
                    q = int(ranges[1][i])
                    if q >= 0:
                        store(outside, i, answer(rows, pool, nodes, b, c, min(int(ranges[0][i]), q), q))
            else:
                store(outside, a, answer(rows, pool, nodes, b, c, d, e))

    return program_loop


def nodes(m: Monoid, rows: int, as_tree: bool = False) -> int:
    """How many nodes an eager store has for so many rows of slices."""
    return int(_eager(m, as_tree).NODES * rows)


def _answer(m: Monoid, eager: Any) -> Function:
    """The partial of the slices p:q."""
    combine, identity = m.combine, m.identity
    load, _ = accessors(m.fields)
    cover = eager.covering(m)

    def answer(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        if p == q:
            return identity()
        if q - p > 2 and len(nodes[0]) > 0:
            return cover(rows, pool, nodes, base, capacity, p, q)
        acc = load(pool, rows[unsigned(base + p), SLOT])
        for j in range(p + 1, q):
            acc = combine(acc, load(pool, rows[unsigned(base + j), SLOT]))
        return acc

    return answer
