"""A window over many complete slots at once: TwoStacks as straight loops (van Herk 1992; Gil, Werman 1993).

    panes      a b c d │ e f g h │ i j …          blocks of P panes, as many as a window holds
    suffixes   ◄───────                           of the block before: d, c ⊕ d, b ⊕ c ⊕ d, …
    running              ────►                    e, e ⊕ f, …      the window c … f is the suffix at c ⊕ the running one

Idea. TwoStacks flips when its front is empty, which over panes of one length is after every P of them. When many are
complete at once, what it does between two flips is a loop without a question in it, over two arrays that stay in the
cache. The ⊕ are the same, at most three a pane.

It is for windows whose range is a multiple of the slide, and for stretches of many windows' length; `windows` follows
the others, and both ends of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Function, answer
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, unsigned
from windlass.wheel.folding import folding
from windlass.wheel.slots import NEVER, WATERMARK, WIDTH
from windlass.wheel.writer import head_row

Array = np.ndarray[Any, Any]

WORTH = 6  # lengths of the window: below that, catching up at both ends takes longer than it saves


def blocks_kernel(m: Monoid, keyed: bool) -> Function:
    """The windows of one key that end after `position`, up to `to`; both are ends of windows, and what a window length
    before `position` holds is in the slots. Gives how many windows there are with an event."""
    combine = m.combine
    load, store = accessors(m.fields)
    answer_at, fold = answer(m), folding(m, keyed)

    def fold_block(state: Any, key: Any, row: Any, step: Any, panes: Any, flags: Any, base: Any, n: Any) -> Any:
        """n panes from a row on, into the places from `base` on."""
        columns, bits, width = state[0], state[2], state[3][WIDTH]
        for j in range(n):
            x, some = fold(columns, bits, row, row + step, width, key)
            store(panes, base + j, x)
            flags[unsigned(base + j)] = some
            row += step

    def to_suffixes(panes: Any, base: Any, n: Any) -> Any:
        acc = load(panes, base + n - 1)
        for j in range(n - 2, -1, -1):
            acc = combine(load(panes, base + j), acc)
            store(panes, base + j, acc)

    def slide(
        state: Any,
        key: Any,
        position: Any,
        to: Any,
        step: Any,
        length: Any,
        panes: Any,
        flags: Any,
        begins: Any,
        answers: Any,
    ) -> Any:
        row, count = head_row(state[3]) - state[3][WATERMARK], length // step
        before, now, out, latest = 0, count, 0, -NEVER
        begin = position - length
        fold_block(state, key, row + begin, step, panes, flags, before, count)
        for j in range(count):
            latest = begin + j * step if flags[unsigned(before + j)] else latest
        while position < to:
            n = min(count, (to - position) // step)
            to_suffixes(panes, before, count)
            fold_block(state, key, row + position, step, panes, flags, now, n)
            running = load(panes, now)
            for j in range(n):
                if j > 0:
                    running = combine(running, load(panes, now + j))
                latest = position + j * step if flags[unsigned(now + j)] else latest
                begin += step
                if latest >= begin:
                    whole = combine(load(panes, before + j + 1), running) if j + 1 < count else running
                    begins[unsigned(out)] = begin
                    answer_at(answers, out, whole)
                    out += 1
            position += n * step
            before, now = now, before
        return out

    return slide


def slide(
    m: Monoid, state: Any, key: int, keyed: bool, position: int, to: int, step: int, length: int, into: Any
) -> int:
    """Write begins and answers of the windows that end after `position` up to `to`, and give how many there are."""
    begins, answers = into
    panes, flags = m.allocate(2 * (length // step)), np.zeros(2 * (length // step), np.bool_)
    kernel = evaluation.kernel(m, lambda: blocks_kernel(m, keyed), "wheel blocks", keyed)
    return int(kernel(state, key, position, to, step, length, panes, flags, begins, answers))
