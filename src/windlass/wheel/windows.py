"""Windows that slide over the wheel: Pairs, kept by TwoStacks, subtract-on-evict or not at all (µWheel 3.5).

    range 14, slide 8     │  6  │2│  6  │2│         p2 = range mod slide, p1 = slide - p2
                          ├─────────────┤           a window: push pairs as they end, compute at its end,
                                  ├─────────────┤   pop what the next one does not hold

Idea. What is below the watermark does not change, so techniques for events in order will do, as the stores have them:
recompute for a few pairs, else subtract-on-evict where the aggregate has an inverse, else TwoStacks (`sharing` says
which). The pair that has begun is folded as slots become complete, so a window needs none of the slots that the wheel
no longer retains; several windows share that fold where it pays.

Windows are aligned to the epoch, or to `offset`. One comes out, once, when the watermark reaches its end, if there is
an event in it.

Pairs without events need not be kept, so each that is carries its begin. Where events are rare, a window passes from
one to the next: until the oldest pair leaves, all answers are the same, and when nothing is left the rest of the quiet
time is passed over at once. Where they are not, keeping an empty pair is cheaper than asking whether it is one.

Costs in ⊕: one a tick and window, or one a tick and one a window and piece; and at most two (subtract-on-evict) or
amortised three (TwoStacks) a pair. None over a quiet time of `RARE` ticks; what is left is to write the answers.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Function, answer
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import widened
from windlass.kernels import accessors, state_accessors
from windlass.slicing.cuts import pair
from windlass.stores.rounds import wrap
from windlass.wheel import blocks
from windlass.wheel.folding import folding
from windlass.wheel.sharing import Pieces, no_pieces, technique_for
from windlass.wheel.slots import NEVER, WATERMARK, WIDTH, identities, is_set
from windlass.wheel.writer import head_row
from windlass.windows.window import Periodic

Array = np.ndarray[Any, Any]

# What a window remembers, besides its pairs. LATEST: the begin of the youngest pair with an event. SOME: whether there
# is one in the pair that has begun.
RANGE, SLIDE, PHASE, POSITION, LATEST, SOME, COVERED = range(7)
BOOK = 7
RARE = 16  # ticks without an event that are worth passing over


def next_event(bits: Any, row: Any, tick: Any, to: Any, width: Any, key: Any) -> Any:
    """The first tick from `tick` on with an event of a key; `to` if there is none before. Tick t lies at row + t."""
    while tick < to:
        cell = (row + tick) * width + key
        if width == 1 and cell & 7 == 0 and bits[cell >> 3] == 0:
            tick += 8
        elif is_set(bits, cell):
            return tick
        else:
            tick += 1
    return to


def slide_kernel(m: Monoid, technique: Any, integers: int, running: int, keyed: bool, shared: bool) -> Function:
    """Follow one window of one key to tick `to`; gives how many windows came out. `quiet`: no event until there.
    `shared`: slots come as pieces, which end at all of its edges."""
    combine = m.combine
    load, store = accessors(m.fields)
    answer_at, fold = answer(m), folding(m, keyed)
    begin, end = state_accessors(integers, running, load, store)
    insert, evict, query = technique.insert, technique.evict, technique.query

    def slide(
        state: Any,
        window: Any,
        tags: Any,
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
        length, step, second, covered = book[RANGE], book[SLIDE], book[RANGE] % book[SLIDE], book[COVERED]
        position, latest, some = book[POSITION], book[LATEST], book[SOME] != 0
        row, out, at, looked = head_row(header) - header[WATERMARK], 0, 0, position
        phase = (position - book[PHASE]) % step
        while position < to:
            if not some and (quiet or position >= looked):
                looked = position + RARE
                upto = to if quiet else next_event(bits, row, position, min(looked, to), header[WIDTH], key)
                if quiet or (upto == looked and upto < to):
                    if not quiet:
                        upto = next_event(bits, row, upto, to, header[WIDTH], key)
                    end_ = position - phase + (second if phase < second else step + second)
                    while end_ <= upto and latest >= end_ - length:
                        while tags[h[0]] < end_ - length:
                            h = evict(ring, links, h)
                        x, same = query(ring, links, h), min(upto, tags[h[0]] + length)
                        if end_ - length < covered:
                            end_ += step
                            continue
                        count = (same - end_) // step + 1
                        for i in range(count):
                            begins[out + i] = end_ - length + i * step
                            answer_at(answers, out + i, x)
                        out += count
                        end_ += count * step
                    if end_ <= upto:  # nothing is left
                        for _ in range(h[1]):
                            h = evict(ring, links, h)
                    phase = (upto - book[PHASE]) % step
                    if upto < to:  # the pair of the next event is followed from its begin, or from here
                        back = min(upto - position, phase - second if phase >= second else phase)
                        position, phase = upto - back, phase - back
                    else:
                        position = upto
                    looked = upto
                    if shared and not quiet:
                        while at < len(pieces[0]) and pieces[0][at] <= position:
                            at += 1
                    continue
            edge = position - phase + (second if phase < second else step)
            stop = min(edge, to)
            if not quiet:
                if shared:
                    stops, partials, found = pieces
                    x, there = load(partials, at), found[at] != 0
                    while stops[at] < stop:
                        at += 1
                        x = combine(x, load(partials, at))
                        there = there or found[at] != 0
                    at += 1
                else:
                    x, there = fold(columns, bits, row + position, row + stop, header[WIDTH], key)
                acc = combine(acc, x) if some else x
                some = some or there
            phase += stop - position
            position = stop
            if stop == edge:
                opened = edge - (second if phase == second and second > 0 else step - second)
                phase = 0 if phase == step else phase
                tags[wrap(ring, h[0] + h[1])] = opened
                latest = opened if some else latest
                h = insert(ring, links, h, acc)
                some = False
                if phase == second:
                    while tags[h[0]] < stop - length:
                        h = evict(ring, links, h)
                    if latest >= stop - length and stop - length >= covered:
                        begins[out] = stop - length
                        answer_at(answers, out, query(ring, links, h))
                        out += 1
        book[POSITION], book[LATEST], book[SOME] = position, latest, 1 if some else 0
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

    def reserve(self) -> None:
        """Raise MemoryError if there is no room for the pairs, whose type is not known yet."""
        np.empty((self.pairs, 2), np.int64)  # a tag and a partial of one field each

    def use_inverse(self, subtracts: bool) -> None:
        """Once it is known whether partials can be subtracted."""
        self.kind = technique_for(self.length, self.step, subtracts)
        self.keys.clear()

    def widen(self, m: Monoid) -> None:
        """Give the kept partials the second field of the wide form."""
        for k, (store, tags, book, unfinished) in enumerate(self.keys):
            store._widen()
            self.keys[k] = store, tags, book, widened(m, unfinished)

    def start(self, position: int, covered: int) -> None:
        """Follow events from a tick on; windows that begin before `covered` do not come out."""
        self.keys.clear()
        self.covered = covered
        self.reach(position)

    def reach(self, position: int) -> None:
        """All keys are followed to a tick; one that is new begins there."""
        self.position = position

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with arrays of its own. Its stores stay bound to the wheel's monoid and keep the room in their rings,
        which their snapshots do not."""
        other = copy.copy(self)
        other.keys = [(store.copied(), *copy.deepcopy(rest, memo)) for store, *rest in self.keys]
        return other

    def _key(self, m: Monoid, key: int) -> tuple[Any, Array, Array, Any]:
        while len(self.keys) <= key:
            self.keys.append(self._new_key(m, self.position, self.covered))
        return self.keys[key]

    def _new_key(self, m: Monoid, position: int, covered: int) -> tuple[Any, Array, Array, Any]:
        store = self.kind(self.aggregate)
        store._install(m, self.pairs)
        book = np.zeros(BOOK, np.int64)
        book[[RANGE, SLIDE, PHASE]] = self.length, self.step, self.phase
        book[[POSITION, LATEST, COVERED]] = position, -NEVER, covered
        return store, np.zeros(self.pairs, np.int64), book, identities(m, 1)

    def advance(
        self, m: Monoid, state: Any, key: int, keyed: bool, to: int, quiet: bool, shared: Pieces | None = None
    ) -> tuple[Array, Any] | None:
        """Follow it to a tick; begins and answers of the windows that are complete. `shared`: the slots until there, as
        pieces."""
        most = (to - int(self._key(m, key)[2][POSITION])) // self.step + 2
        if quiet:
            most = min(most, self.length // self.step + 2)
        begins, answers = np.empty(most, np.int64), evaluation.empty_answers(m, most)
        out = 0
        if not quiet and shared is None:
            out = self._follow_blocks(m, state, key, keyed, to, (begins, answers))
        rest = _behind(begins, answers, out)
        out += self._follow(m, state, key, keyed, to, quiet, no_pieces(m) if shared is None else shared, rest)
        if out == 0:
            return None
        columns, defined = answers
        return begins[:out], (tuple(c[:out] for c in columns), defined[:out] if len(defined) else defined)

    def _follow_blocks(self, m: Monoid, state: Any, key: int, keyed: bool, to: int, into: Any) -> int:
        """Where many windows are complete, follow all but the last; gives how many came out."""
        position = int(self._key(m, key)[2][POSITION])
        first, last = (t - (t - self.phase) % self.step for t in (position + self.length + self.step - 1, to))
        if self.length % self.step or self.length == self.step or last - first < blocks.WORTH * self.length:
            return 0
        out = self._follow(m, state, key, keyed, first, False, no_pieces(m), into)
        rest = _behind(into[0], into[1], out)
        out += blocks.slide(m, state, key, keyed, first, last, self.step, self.length, rest)
        # What the last window holds is in the slots: it is read once more, and comes out no more.
        self.keys[key] = self._new_key(m, last - self.length, max(self.covered, last - self.length + 1))
        return out

    def _follow(
        self, m: Monoid, state: Any, key: int, keyed: bool, to: int, quiet: bool, pieces: Pieces, into: Any
    ) -> int:
        store, tags, book, unfinished = self._key(m, key)
        kind, shared = self.kind, len(pieces[0]) > 0
        kernel = evaluation.kernel(
            m,
            lambda: slide_kernel(m, kind.technique(m), len(kind.integers), len(kind.running), keyed, shared),
            *("wheel window", kind, keyed, shared),
        )
        return int(kernel(state, store._state(), tags, book, unfinished, key, to, quiet, pieces, *into))


def _behind(begins: Array, answers: Any, n: int) -> tuple[Array, Any]:
    """Room for answers behind the first n."""
    columns, defined = answers
    return begins[n:], (tuple(c[n:] for c in columns), defined[n:] if len(defined) else defined)
