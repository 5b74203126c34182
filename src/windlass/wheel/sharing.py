"""How the windows over a wheel share work: one fold of the slots for all of them, and a technique for each (MQO 3, 4).

    slots      · · · · · · · · · · · ·        folded once, into the pieces between the edges of all windows
    pieces     ├─┼───┼─┼─────┼─┼─┤            T ⊕ for T ticks, however many windows there are
    windows    ├─────┼───────┼───┤            each folds pieces into its own pairs, and answers from these

It is TriWeave: the trees are the windows. Where time advances by a few ticks, pieces are ticks, and each window folds
them for itself: `pays` compares what either way takes.

Which technique keeps a window's pairs follows from Ω, the ⊕ a pair, of P pairs a window and an answer at a share f of
them: recompute f·(P - 1), TwoStacks 2 - 4/(P + 1) + f, and subtract-on-evict 2, where there is an inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.sharing.calibration import calibration
from windlass.sharing.load import Load
from windlass.sharing.omega import COUNTED
from windlass.slicing import edges
from windlass.slicing.cuts import pair, pairs
from windlass.stores.recompute import Recompute
from windlass.stores.subtract_on_evict import SubtractOnEvict
from windlass.stores.two_stacks import TwoStacks
from windlass.wheel.folding import folding
from windlass.wheel.slots import WATERMARK, WIDTH
from windlass.wheel.writer import head_row

if TYPE_CHECKING:
    from windlass.wheel.ticks import Clock
    from windlass.wheel.windows import Window

__all__ = ["Pieces", "edges_of", "explained", "no_pieces", "omegas", "pays", "pieces", "technique_for"]

Array = np.ndarray[Any, Any]
Pieces = tuple[Array, Any, Array]  # where each ends, their partials, and whether there are events

KINDS = {"panes": Recompute, "two_stacks": TwoStacks, "slickdeque_inv": SubtractOnEvict}
TITLES = {"panes": "recompute", "two_stacks": "TwoStacks", "slickdeque_inv": "subtract-on-evict"}


def omegas(length: int, step: int, subtracts: bool) -> dict[str, float]:
    """⊕ a pair, by technique."""
    rate = (2 if pair(length, step)[1] else 1) / step
    load = Load(np.array([length], np.float64), np.array([step], np.float64), None, rate)
    return {name: COUNTED[name](load) for name in KINDS if subtracts or name != "slickdeque_inv"}


def technique_for(length: int, step: int, subtracts: bool) -> Any:
    """The store with the fewest ⊕; among equals the one whose worst case is better."""
    found = omegas(length, step, subtracts)
    return KINDS[min(reversed(found), key=lambda name: found[name])]


def edges_of(windows: Sequence[Window]) -> Array:
    """The edges of all windows, put together."""
    return _edges(tuple((w.length, w.step, w.phase) for w in windows))


@lru_cache(maxsize=64)
def _edges(windows: tuple[tuple[int, int, int], ...]) -> Array:
    return edges.repeating(p for window in windows for p in pairs(*window))


@cache
def call() -> float:
    """⊕ that laying out edges and another call take as long as, as measured."""
    return calibration().call / calibration().partial


def pays(windows: Sequence[Window], ticks: int) -> bool:
    """Whether one fold for all, over so many ticks, takes less than one for each."""
    if (len(windows) - 1) * ticks <= call():
        return False
    rate = sum(1 / period for _, period, _ in edges_of(windows).tolist())
    return bool(ticks + len(windows) * min(1.0, rate) * ticks + call() < len(windows) * ticks)


def pieces(m: Monoid, state: Any, progressions: Array, key: int, keyed: bool, after: int, to: int) -> Pieces:
    """The slots of a key from tick `after` to `to`, folded between edges."""
    stops = edges.between(progressions, after, to)
    if len(stops) == 0 or stops[-1] != to:
        stops = np.append(stops, to)
    partials, some = m.allocate(len(stops)), np.zeros(len(stops), np.int64)
    evaluation.kernel(m, lambda: _pieces_kernel(m, folding(m, keyed)), "wheel pieces", keyed)(
        state, key, after, stops, partials, some
    )
    return stops, partials, some


def no_pieces(m: Monoid) -> Pieces:
    return np.zeros(0, np.int64), m.allocate(0), np.zeros(0, np.int64)


def _pieces_kernel(m: Monoid, fold: Any) -> Any:
    _, store = accessors(m.fields)

    def fold_pieces(state: Any, key: Any, after: Any, stops: Any, partials: Any, found: Any) -> Any:
        columns, bits, header = state[0], state[2], state[3]
        row = head_row(header) - header[WATERMARK]
        for j in range(len(stops)):
            x, some = fold(columns, bits, row + after, row + stops[j], header[WIDTH], key)
            store(partials, j, x)
            found[j] = 1 if some else 0
            after = stops[j]

    return fold_pieces


def explained(windows: Sequence[Window], subtracts: bool, clock: Clock) -> str:
    """What is shared, how each window is evaluated, and what the alternatives would take."""
    if not windows:
        return "no periodic windows"
    progressions = edges_of(windows)
    rate = sum(1 / period for _, period, _ in progressions.tolist())
    count = len(windows)
    lines = [f"{count} window{'s' if count > 1 else ''}"]
    for w in windows:
        found = omegas(w.length, w.step, subtracts)
        mine = next(name for name, kind in KINDS.items() if kind is w.kind)
        others = ", ".join(f"{TITLES[name]} {omega:.3g}" for name, omega in found.items() if name != mine)
        lines.append(f"  {w.label}  {TITLES[mine]}: {found[mine]:.3g} ⊕ a pair of {clock.span(w.step)} ({others})")
    if count > 1:
        least = next((t for t in (2**k for k in range(40)) if pays(windows, t)), None)
        together = 1 + count * min(1.0, rate)
        lines.append(f"  slots      folded once for all: {together:.3g} ⊕ a tick, {count} if each did it for itself")
        if least is None:
            lines[-1] = f"  slots      folded by each window: {count} ⊕ a tick, {together:.3g} if once for all"
        elif least > 1:
            lines.append(f"             by each where time advances by fewer than about {least:,} ticks at once")
    return "\n".join(lines)
