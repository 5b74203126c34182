"""Running plans: pieces of rows folded, subtracted or looked up, for one range or for many (µWheel 3.4.2, 3.4.3).

`scan` is the wheel aggregation of the paper. A wheel's aggregate is commutative, so the scan may add up in any order:
it runs four sums side by side. For integers, minima and maxima LLVM makes vector instructions of it; floats, which it
must not reorder by itself, at least do not wait for each other. An aggregate that brings a bulk combine of its own
(the paper's combine_simd; `Aggregate.with_scan`) is given the rows instead: sums and means of floats do, and it is
vector instructions again.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.evaluation import Function, answer
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, prefetcher
from windlass.wheel.plans import (
    ASK,
    FULL,
    HEADING,
    KIND,
    KNOWN,
    LANDMARK,
    LOOK,
    MINUS_PREFIX,
    PIECES,
    PREFIX_TO,
    SUBTRACT,
    TOTALS,
    UNPACKED,
    parts,
)
from windlass.wheel.slots import any_set, is_set

ALL_KEYS = -1
EARLY = 6  # plans: so much before a plan is run, its rows are asked for


def scanning(m: Monoid) -> Function:
    """`scan(columns, first, last)`: the partial of cells first … last - 1, of which there is at least one."""
    if m.scan is not None:
        return m.scan
    combine = m.combine
    load, _ = accessors(m.fields)

    def scan(columns: Any, first: Any, last: Any) -> Any:
        a = load(columns, first)
        i = first + 1
        if last - first >= 16:
            b, c, d = load(columns, i), load(columns, i + 1), load(columns, i + 2)
            i = first + 4
            while i + 4 <= last:
                a, b = combine(a, load(columns, i)), combine(b, load(columns, i + 1))
                c, d = combine(c, load(columns, i + 2)), combine(d, load(columns, i + 3))
                i += 4
            a = combine(combine(a, c), combine(b, d))
        while i < last:
            a = combine(a, load(columns, i))
            i += 1
        return a

    return scan


def strided(m: Monoid) -> Function:
    """The same for one key: every `width`-th cell."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def scan(columns: Any, first: Any, last: Any, width: Any) -> Any:
        a = load(columns, first)
        for i in range(first + width, last, width):
            a = combine(a, load(columns, i))
        return a

    return scan


def run_kernel(m: Monoid, keyed: bool, lowers: bool, packs: bool) -> Function:
    """Run n plans: answers lowered, or partials. `keys`: the keys to combine, or -1 for all; nothing in a wheel
    without keys."""
    combine, identity, scan, scan_key = m.combine, m.identity, scanning(m), strided(m)
    inverse: Any = m.inverse or combine
    (_, store), bring = accessors(m.fields), prefetcher(len(m.fields))
    answer_at = answer(m)
    always = m.answers_empty

    def bring_rows(slots: Any, program: Any, at: Any, width: Any) -> Any:
        """Have the rows of a plan brought into the cache: over days they lie far apart, and waiting for them takes
        longer than combining them."""
        for p in range(program[at + PIECES]):
            piece = at + HEADING + 4 * p
            operation, first, last = program[piece], program[piece + 2], program[piece + 3]
            if operation in (PREFIX_TO, MINUS_PREFIX):
                bring(slots[1], (last - 1) * width)
            else:
                bring(slots[0], first * width)

    def fold(columns: Any, first: Any, last: Any, width: Any, keys: Any) -> Any:
        if not keyed:
            return scan(columns, first, last)
        if keys[0] == ALL_KEYS:
            return scan(columns, first * width, last * width)
        x = scan_key(columns, first * width + keys[0], last * width, width)
        for k in range(1, len(keys)):
            x = combine(x, scan_key(columns, first * width + keys[k], last * width, width))
        return x

    def look(bits: Any, first: Any, last: Any, width: Any, keys: Any) -> Any:
        if not keyed:
            return any_set(bits, first, last)
        if keys[0] == ALL_KEYS:
            return any_set(bits, first * width, last * width)
        for k in range(len(keys)):
            for cell in range(first * width + keys[k], last * width, width):
                if is_set(bits, cell):
                    return True
        return False

    def look_totals(some: Any, levels: Any, width: Any, keys: Any) -> Any:
        for l in range(levels):
            for k in range(len(keys)):
                for key in range(0 if keys[k] < 0 else keys[k], width if keys[k] < 0 else keys[k] + 1):
                    if some[l * width + key]:
                        return True
        return False

    def run(
        slots: Any, width: Any, unpacked: Any, desk: Any, n: Any, keys: Any, q: Any, answers: Any, full: Any
    ) -> Any:
        columns, prefix, bits, totals, some = slots
        offsets, program = parts(desk)[2:]
        for j in range(n):
            if j + EARLY < n:
                bring_rows(slots, program, offsets[j + EARLY], width)
            at = offsets[j]
            seen, asks = program[at + KNOWN] == FULL, program[at + KNOWN] == ASK
            acc = identity()
            is_first = True
            for p in range(program[at + PIECES]):
                piece = at + HEADING + 4 * p
                operation, first, last = program[piece], program[piece + 2], program[piece + 3]
                if asks and not seen:
                    if operation == TOTALS:
                        seen = program[at + KIND] == LANDMARK and look_totals(some, last, width, keys)
                    elif packs and operation & UNPACKED:
                        seen = operation != SUBTRACT + UNPACKED and look(unpacked[1], first, last, width, keys)
                    elif operation != SUBTRACT and operation != MINUS_PREFIX:
                        seen = look(bits, first, last, width, keys)
                if operation & ~UNPACKED == LOOK:
                    continue
                source = columns
                if operation == TOTALS:
                    source = totals
                elif packs and operation & UNPACKED:
                    source = unpacked[0]
                elif operation in (PREFIX_TO, MINUS_PREFIX):
                    source = prefix
                    first = last - 1
                x = fold(source, first, last, width, keys)
                if operation & ~UNPACKED == SUBTRACT or operation == MINUS_PREFIX:
                    acc = inverse(acc, x)
                else:
                    acc = x if is_first else combine(acc, x)
                    is_first = False
            full[q + j] = seen
            if lowers:
                if seen or always:
                    answer_at(answers, q + j, acc)
            else:
                store(answers[0], q + j, acc)

    return run


def run_keys_kernel(m: Monoid) -> Function:
    """Run one plan for each key by itself. A slot is a vector over keys: rows are combined across it, so that the
    inner loop runs over contiguous memory whatever the number of keys."""
    combine, identity = m.combine, m.identity
    inverse: Any = m.inverse or combine
    load, store = accessors(m.fields)
    answer_at = answer(m)
    always = m.answers_empty

    def run(slots: Any, width: Any, desk: Any, accs: Any, answers: Any, full: Any) -> Any:
        columns, prefix, bits, totals, some = slots
        offsets, program = parts(desk)[2:]
        at, n = offsets[0], min(len(full), width)
        for key in range(n):
            store(accs, key, identity())
        for p in range(program[at + PIECES]):
            piece = at + HEADING + 4 * p
            operation, first, last = program[piece], program[piece + 2], program[piece + 3]
            for row in range(first, last):
                if operation == TOTALS:
                    for key in range(n):
                        full[key] = full[key] or (program[at + KIND] == LANDMARK and some[row * width + key])
                elif operation != SUBTRACT and operation != MINUS_PREFIX:
                    for key in range(n):
                        full[key] = full[key] or is_set(bits, row * width + key)
            if operation == LOOK:
                continue
            source = columns
            if operation == TOTALS:
                source = totals
            elif operation in (PREFIX_TO, MINUS_PREFIX):
                source = prefix
                first = last - 1
            for row in range(first, last):
                if operation in (SUBTRACT, MINUS_PREFIX):
                    for key in range(n):
                        store(accs, key, inverse(load(accs, key), load(source, row * width + key)))
                else:
                    for key in range(n):
                        store(accs, key, combine(load(accs, key), load(source, row * width + key)))
        for key in range(n):
            if full[key] or always:
                answer_at(answers, key, load(accs, key))
        for key in range(n, len(full)):
            if always:
                answer_at(answers, key, identity())

    return run
