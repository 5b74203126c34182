"""Sessions over the wheel: slots with events, until none comes for longer than the gap.

    gap 3      s₁ · s₃ s₄ · · · · s₉ ·         [1, 4 + 3) when the watermark is past 7;  [9, …) is open

As everything else in a wheel, a session sees times in whole ticks: an event joins if its tick is at most `gap` after
that of the one before. It begins with its first event's partial, never with the identity of another aggregate's
domain. Costs: one ⊕ for each slot with events."""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Function, answer
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import widened
from windlass.kernels import accessors
from windlass.wheel.slots import WATERMARK, WIDTH, identities, is_set
from windlass.wheel.writer import head_row

Array = np.ndarray[Any, Any]

GAP, POSITION, OPEN, BEGIN, LAST = range(5)


def session_kernel(m: Monoid) -> Function:
    combine = m.combine
    load, store = accessors(m.fields)
    answer_at = answer(m)

    def follow(state: Any, book: Any, unfinished: Any, key: Any, to: Any, quiet: Any, bounds: Any, answers: Any) -> Any:
        columns, bits, header = state[0], state[2], state[3]
        width, row, out, acc = header[WIDTH], head_row(header) - header[WATERMARK], 0, load(unfinished, 0)
        if not quiet:
            for tick in range(book[POSITION], to):
                cell = (row + tick) * width + key
                if is_set(bits, cell):
                    if book[OPEN] != 0 and tick - book[LAST] > book[GAP]:
                        bounds[out, 0], bounds[out, 1] = book[BEGIN], book[LAST] + book[GAP]
                        answer_at(answers, out, acc)
                        book[OPEN] = 0
                        out += 1
                    if book[OPEN] != 0:
                        acc = combine(acc, load(columns, cell))
                    else:
                        acc = load(columns, cell)
                        book[OPEN], book[BEGIN] = 1, tick
                    book[LAST] = tick
        if book[OPEN] != 0 and to - book[LAST] > book[GAP]:
            bounds[out, 0], bounds[out, 1] = book[BEGIN], book[LAST] + book[GAP]
            answer_at(answers, out, acc)
            book[OPEN] = 0
            out += 1
        book[POSITION] = to
        store(unfinished, 0, acc)
        return out

    return follow


class Session:
    """Sessions of each key of a wheel."""

    def __init__(self, label: str, gap: int) -> None:
        self.label, self.gap = label, gap
        self.position = 0
        self.keys: list[tuple[Array, Any]] = []

    def reach(self, position: int) -> None:
        """All keys are followed to a tick; one that is new begins there."""
        self.position = position

    def widen(self, m: Monoid) -> None:
        """Give the partials of open sessions the second field of the wide form."""
        self.keys = [(book, widened(m, unfinished)) for book, unfinished in self.keys]

    def advance(self, m: Monoid, state: Any, key: int, to: int, quiet: bool) -> tuple[Array, Any] | None:
        """Follow the sessions of a key to a tick; bounds and answers of those that are complete."""
        while len(self.keys) <= key:
            self.keys.append((np.array([self.gap, self.position, 0, 0, 0], np.int64), identities(m, 1)))
        book, unfinished = self.keys[key]
        most = 2 if quiet else (to - int(book[POSITION])) // (self.gap + 1) + 2
        bounds, answers = np.empty((most, 2), np.int64), evaluation.empty_answers(m, most)
        kernel = evaluation.kernel(m, lambda: session_kernel(m), "wheel session")
        out = int(kernel(state, book, unfinished, key, to, quiet, bounds, answers))
        if out == 0:
            return None
        columns, defined = answers
        return bounds[:out], (tuple(c[:out] for c in columns), defined[:out] if len(defined) else defined)
