"""A plan as a picture: a band for each tree, with its edges over one composite slide (or the beginning of it) and the
windows of its ACQs. Needs matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass import durations
from windlass.errors import MissingExtra
from windlass.sharing.acq import ACQ
from windlass.sharing.cutting import Edges
from windlass.sharing.fragments import composite_slide, edges_of
from windlass.sharing.showing import called

if TYPE_CHECKING:
    from windlass.sharing.plan import Plan, Tree

__all__ = ["draw"]

_TREES, _ACQS, _EDGES = 12, 5, 240
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def draw(plan: Plan, axes: Any = None) -> Any:
    """Draw on `axes`, or on a figure of its own; returns the figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("bench", "a picture of a plan") from error
    trees = plan.trees[:_TREES]
    rows = sum(1 + min(len(tree.acqs), _ACQS) for tree in trees)
    if axes is None:
        figure = Figure(figsize=(9, 0.8 + 0.28 * rows), layout="constrained")
        axes = figure.subplots()
    span = _span(trees)
    y = 0.0
    for k, tree in enumerate(trees):
        y = _band(plan, tree, axes, span, y, _COLOURS[k % len(_COLOURS)])
    more = f"; {len(plan.trees) - _TREES} more trees not shown" if len(plan.trees) > _TREES else ""
    axes.set_title(
        f"{len(plan.acqs)} ACQs in {len(plan.trees)} trees by {plan.optimizer}{more}", loc="left", fontsize=10
    )
    axes.set_xlim(0, span)
    axes.set_ylim(y - 0.2, 1)
    axes.set_yticks([])
    ticks = [span * k // 4 for k in range(5)]
    shown = plan.per_second > 1
    axes.set_xticks(ticks, [durations.format(t) if shown and t else str(t) for t in ticks])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    return axes.figure


def _span(trees: tuple[Tree, ...]) -> int:
    """A composite slide, or as much of it as can be seen, and some window of every tree."""
    most = max(tree.edge_rate / (1e6 if tree.acqs[0].is_time else 1) for tree in trees)
    whole = composite_slide(edges_of([q for tree in trees for q in tree.acqs]))
    longest = max(min(q.range for q in tree.acqs) for tree in trees)
    return int(max(1, min(max(whole, longest), _EDGES / most)))


def _band(plan: Plan, tree: Tree, axes: Any, span: int, y: float, colour: str) -> float:
    edges = Edges(edges_of(tree.acqs, plan.fragments)).between(0, span)
    axes.vlines(edges, y - 0.35, y + 0.35, color=colour, linewidth=0.8)
    axes.hlines(y, 0, span, color=colour, linewidth=0.8)
    label = f"{tree.describe()}, {tree.aggregate!r}, {len(tree.acqs)} ACQs"
    axes.text(span * 1.01, y, label, va="center", fontsize=7.5, color=colour)
    for q in tree.acqs[:_ACQS]:
        y -= 1
        _window(axes, q, span, y, colour)
    return y - 1


def _window(axes: Any, q: ACQ, span: int, y: float, colour: str) -> None:
    """One window, and the beginning of the next."""
    axes.barh(y, min(q.range, span - q.offset), left=q.offset, height=0.5, color=colour, alpha=0.35)
    axes.vlines(q.offset + q.slide, y - 0.25, y + 0.25, color=colour, linewidth=1.2)
    axes.text(span * 1.01, y, called(q), va="center", fontsize=6.5, color="#555555")
