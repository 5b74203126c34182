"""Windows that slide over the wheel: Pairs, kept by TwoStacks, subtract-on-evict or not at all (µWheel 3.5).

    range 14, slide 8     │  6  │2│  6  │2│         p2 = range mod slide, p1 = slide - p2
                          ├─────────────┤           a window: push pairs as they end, compute at its end,
                                  ├─────────────┤   pop what the next one does not hold

Idea. What is below the watermark does not change, so techniques for events in order will do, as the stores have them:
recompute for a few pairs, else subtract-on-evict where the aggregate has an inverse, else TwoStacks (`sharing` says
which). The pair that has begun is folded as slots become complete, so a window needs none of the slots that the wheel
no longer retains; several windows share that fold where it pays.

Windows are aligned to the epoch, or to `offset`. One comes out, once, when the watermark reaches its end, if there is
an event in it. Over a quiet time windows are followed until nothing is left in them; the rest is passed over at once.

Costs in ⊕: one a tick and window, or one a tick and one a window and piece; and at most two (subtract-on-evict) or
amortised three (TwoStacks) a pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Function, answer
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, state_accessors
from windlass.slicing.cuts import pair
from windlass.stores.rounds import wrap
from windlass.wheel.sharing import Pieces, no_pieces, technique_for
from windlass.wheel.slots import WATERMARK, WIDTH, identities, is_set
from windlass.wheel.writer import head_row
from windlass.windows.window import Periodic

Array = np.ndarray[Any, Any]

# What a window remembers, besides its pairs.
RANGE, SLIDE, PHASE, POSITION, OLDEST, CONTENT, BEGUN, SOME, COVERED = range(9)
BOOK = 9


def folding(m: Monoid, keyed: bool) -> Any:
    """`fold(columns, bits, first, last, width, key)`: the slots of a key in rows first:last, and whether there was an
    event."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def fold(columns: Any, bits: Any, first: Any, last: Any, width: Any, key: Any) -> Any:
        step = width if keyed else 1
        cell, end_cell = first * step + key, last * step
        x = load(columns, cell)
        some = is_set(bits, cell)
        for i in range(cell + step, end_cell, step):
            x = combine(x, load(columns, i))
        while not some and cell < end_cell:
            some = is_set(bits, cell)
            cell += step
        return x, some

    return fold


def slide_kernel(m: Monoid, technique: Any, integers: int, running: int, keyed: bool, shared: bool) -> Function:
    """Follow one window of one key to tick `to`; gives how many windows came out. `quiet`: no event until there.
    `shared`: slots come as pieces, which end at all of its edges."""
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)
    answer_at, fold = answer(m), folding(m, keyed)
    begin, end = state_accessors(integers, running, load, store)
    insert, evict, query = technique.insert, technique.evict, technique.query

    def slide(
        state: Any,
        window: Any,
        flags: Any,
        book: Any,
        unfinished: Any,
        key: Any,
        to: Any,
        quiet: Any,
        pieces: Any,
        begins: Any,
        answers: Any,
    ) -> Any:
        columns, bits, header = state[0], state[2], state[3]
        figures, slots, ring, links = window
        h, acc = begin(figures, slots), load(unfinished, 0)
        length, step, second = book[RANGE], book[SLIDE], book[RANGE] % book[SLIDE]
        position, row, out, at = book[POSITION], head_row(header) - header[WATERMARK], 0, 0
        while position < to:
            phase = (position - book[PHASE]) % step
            edge = position - phase + (second if phase < second else step)
            if quiet and book[CONTENT] == 0 and book[SOME] == 0:
                for _ in range(h[1]):
                    h = evict(ring, links, h)
                phase = (to - book[PHASE]) % step
                book[OLDEST] = to - phase + (second if phase >= second else 0)
                book[BEGUN] = 0
                acc = identity()
                position = to
                break
            stop = min(edge, to)
            if not quiet:
                if shared:
                    stops, partials, found = pieces
                    x, some = load(partials, at), found[at] != 0
                    while stops[at] < stop:
                        at += 1
                        x = combine(x, load(partials, at))
                        some = some or found[at] != 0
                    at += 1
                else:
                    x, some = fold(columns, bits, row + position, row + stop, header[WIDTH], key)
                acc = combine(acc, x) if book[BEGUN] != 0 else x
                book[BEGUN] = 1
                if some:
                    book[SOME] = 1
            position = stop
            if stop == edge:
                flags[wrap(ring, h[0] + h[1])] = book[SOME]
                book[CONTENT] += book[SOME]
                h = insert(ring, links, h, acc)
                acc = identity()
                book[BEGUN] = book[SOME] = 0
                if (stop - length - book[PHASE]) % step == 0:
                    while book[OLDEST] < stop - length:
                        book[CONTENT] -= flags[h[0]]
                        h = evict(ring, links, h)
                        phase = (book[OLDEST] - book[PHASE]) % step
                        book[OLDEST] += (second if phase < second else step) - phase
                    if book[CONTENT] > 0 and stop - length >= book[COVERED]:
                        begins[out] = stop - length
                        answer_at(answers, out, query(ring, links, h))
                        out += 1
        book[POSITION] = position
        end(figures, slots, h)
        store(unfinished, 0, acc)
        return out

    return slide


class Window:
    """One periodic window over a wheel: its pairs, for each key."""

    def __init__(self, label: str, periodic: Periodic, aggregate: Aggregate, subtracts: bool) -> None:
        self.label, self.length, self.step = label, periodic.step, periodic.period
        self.phase = periodic.origin
        self.kind = technique_for(self.length, self.step, subtracts)
        self.aggregate = aggregate
        f1, f2 = pair(periodic.step, periodic.period)
        self.pairs = (self.length // self.step) * (2 if f2 else 1) + 3
        self.position = self.covered = 0
        self.keys: list[tuple[Any, Array, Array, Any]] = []

    def use_inverse(self, subtracts: bool) -> None:
        """Once it is known whether partials can be subtracted."""
        self.kind = technique_for(self.length, self.step, subtracts)
        self.keys.clear()

    def start(self, position: int, covered: int) -> None:
        """Follow events from a tick on; windows that begin before `covered` do not come out."""
        self.keys.clear()
        self.covered = covered
        self.reach(position)

    def reach(self, position: int) -> None:
        """All keys are followed to a tick; one that is new begins there."""
        phase, second = (position - self.phase) % self.step, self.length % self.step
        self.position, self.oldest = position, position - phase + (second if phase >= second else 0)

    def _key(self, m: Monoid, key: int) -> tuple[Any, Array, Array, Any]:
        while len(self.keys) <= key:
            store = self.kind(self.aggregate)
            store._install(m, self.pairs)
            book = np.zeros(BOOK, np.int64)
            book[[RANGE, SLIDE, PHASE]] = self.length, self.step, self.phase
            book[[POSITION, OLDEST, COVERED]] = self.position, self.oldest, self.covered
            unfinished = identities(m, 1)
            self.keys.append((store, np.zeros(self.pairs, np.int64), book, unfinished))
        return self.keys[key]

    def advance(
        self, m: Monoid, state: Any, key: int, keyed: bool, to: int, quiet: bool, shared: Pieces | None = None
    ) -> tuple[Array, Any] | None:
        """Follow it to a tick; begins and answers of the windows that are complete. `shared`: the slots until there, as
        pieces."""
        store, flags, book, unfinished = self._key(m, key)
        kind = self.kind
        kernel = evaluation.kernel(
            m,
            lambda: slide_kernel(
                m, kind.technique(m), len(kind.integers), len(kind.running), keyed, shared is not None
            ),
            *("wheel window", kind, keyed, shared is not None),
        )
        most = (to - int(book[POSITION])) // self.step + 2
        if quiet:
            most = min(most, self.length // self.step + 2)
        begins, answers = np.empty(most, np.int64), evaluation.empty_answers(m, most)
        pieces = no_pieces(m) if shared is None else shared
        out = int(kernel(state, store._state(), flags, book, unfinished, key, to, quiet, pieces, begins, answers))
        if out == 0:
            return None
        columns, defined = answers
        return begins[:out], (tuple(c[:out] for c in columns), defined[:out] if len(defined) else defined)
