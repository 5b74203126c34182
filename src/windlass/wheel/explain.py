"""What the optimiser decided, to read and to assert: the plan, its cost in ⊕, its pieces, and the plans it did not
take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windlass.wheel import plans
from windlass.wheel.hierarchy import Level
from windlass.wheel.plans import (
    ADD,
    ASK,
    COST,
    FULL,
    HEADING,
    INVERSE,
    KEYED,
    KIND,
    KINDS,
    LOOK,
    MINUS_PREFIX,
    PIECES,
    PREFIX,
    PREFIX_TO,
    SUBTRACT,
    TOTALS,
    UNPACKED,
    beginning,
    make_plan,
)
from windlass.wheel.slots import HEAD, LEVELS, OFFSET, SHIFT, START, STRIDE, WATERMARK, number
from windlass.wheel.ticks import Clock

Array = np.ndarray[Any, Any]

_SIGNS = {ADD: "⊕", SUBTRACT: "⊖", TOTALS: "⊕", PREFIX_TO: "⊕", MINUS_PREFIX: "⊖"}


@dataclass(frozen=True)
class Piece:
    """Slots of one level that a plan combines (⊕) or takes off (⊖)."""

    operation: str
    level: str
    slots: int
    start: str
    end: str

    def __str__(self) -> str:
        where = f"  [{self.start}, {self.end})" if self.start else ""
        return f"{self.operation} {self.slots} {self.level}{where}"


@dataclass(frozen=True)
class Explanation:
    """The plan for one range. `cost` counts ⊕ and ⊖; None: the range cannot be answered."""

    start: str
    end: str
    plan: str
    cost: int | None
    pieces: tuple[Piece, ...]
    alternatives: dict[str, int | None]

    def __str__(self) -> str:
        cost = "cannot be answered" if self.cost is None else f"{self.cost} ⊕"
        lines = [f"[{self.start}, {self.end})  {self.plan}, {cost}", *(f"  {piece}" for piece in self.pieces)]
        others = [f"{kind} {'-' if c is None else c}" for kind, c in self.alternatives.items()]
        return "\n".join([*lines, f"  considered: {', '.join(others)}"] if others else lines)

    __repr__ = __str__


def explain(
    clock: Clock, levels: Sequence[Level], header: Array, gaps: Array, options: Array, start: int, end: int
) -> Explanation:
    count = len(levels)
    wide = plans.widest(count)
    plan, spare = np.zeros(wide, np.int64), np.zeros(wide, np.int64)
    plans.choose(header, gaps, start, end, options, plan, spare)
    a, b = max(start, int(header[START])), min(end, int(header[WATERMARK]))
    cost = None if plan[COST] < 0 else int(plan[COST])
    kind = KINDS[int(plan[KIND])] if cost is not None else "no plan"
    pieces = [_piece(clock, levels, header, gaps, plan[HEADING + 4 * p :]) for p in range(int(plan[PIECES]))]
    alternatives = costs(header, gaps, options, start, end) if kind != "none" else {}
    shown = tuple(p for p in pieces if p is not None) if cost is not None else ()
    return Explanation(clock.show(a), clock.show(max(a, b)), kind, cost, shown, alternatives)


def costs(header: Array, gaps: Array, options: Array, start: int, end: int) -> dict[str, int | None]:
    """What each kind of plan would cost; None where there is no such plan."""
    count = int(header[LEVELS])
    a, b = max(start, int(header[START])), min(end, int(header[WATERMARK]))
    known = ASK
    if a == header[START]:
        a = int(beginning(header))
        known = ASK if options[KEYED] else FULL
    plan = np.zeros(plans.widest(count), np.int64)
    found = {}
    for kind in range(PREFIX, INVERSE + 1):
        cost = int(make_plan(header, gaps, plan, kind, a, b, known, options, -1))
        found[KINDS[kind]] = None if cost < 0 else cost
    return found


def _piece(clock: Clock, levels: Sequence[Level], header: Array, gaps: Array, piece: Array) -> Piece | None:
    operation, l, first, last = (int(v) for v in piece[:4])
    kind = operation & ~UNPACKED
    if kind == LOOK:
        return None
    if kind == TOTALS:
        return Piece("⊕", "totals, one a level", last - first, "", "")
    if kind == PREFIX_TO:
        return Piece("⊕", f"prefix of {levels[l].name}", 1, "", "")
    if kind == MINUS_PREFIX:
        return Piece("⊖", f"prefix of {levels[l].name}", 1, "", "")
    offset = 0 if operation & UNPACKED else int(header[HEAD + l * STRIDE + OFFSET] - header[HEAD + l * STRIDE + SHIFT])
    low = number(header, gaps, l, first - offset) * levels[l].ticks
    high = (number(header, gaps, l, last - 1 - offset) + 1) * levels[l].ticks
    packed = " (packed)" if operation & UNPACKED else ""
    return Piece(_SIGNS[kind], f"{levels[l].name}{packed}", last - first, clock.show(low), clock.show(high))
