"""A plan as text and as a tree in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from windlass import durations
from windlass.sharing.acq import ACQ

if TYPE_CHECKING:
    from windlass.sharing.plan import Plan, Tree

__all__ = ["called", "explained", "html", "text"]

_SHOWN = 6  # ACQs of a tree
_UNITS = {"paper": "operations", "operations": "operations", "time": "ns"}


def called(q: ACQ) -> str:
    """An ACQ in short: its name, range and slide."""
    lengths = [durations.format(x) if q.is_time else str(x) for x in (q.range, q.slide)]
    window = lengths[0] if q.range == q.slide else f"{lengths[0]} every {lengths[1]}"
    return f"{q.name} ({window})" if q.name else window


def _several(acqs: Sequence[ACQ]) -> str:
    more = f" and {len(acqs) - _SHOWN} more" if len(acqs) > _SHOWN else ""
    return ", ".join(map(called, acqs[:_SHOWN])) + more


def _every(plan: Plan) -> str:
    return "second" if plan.per_second > 1 else "unit of time"


def _head(plan: Plan) -> str:
    n, m = len(plan.acqs), len(plan.trees)
    return (
        f"{n} ACQ{'s' if n > 1 else ''} in {m} tree{'s' if m > 1 else ''}, by {plan.optimizer} over {plan.fragments}: "
        f"{_cost(plan, plan.cost)} a {_every(plan)}, at {plan.rate:.4g} events"
    )


def _cost(plan: Plan, cost: float) -> str:
    return f"{cost:.4g} {_UNITS[plan.objective]}"


def _tree(plan: Plan, tree: Tree) -> str:
    count = f"{len(tree.acqs)} ACQ{'s' if len(tree.acqs) > 1 else ''}"
    return (
        f"{tree.aggregate!r} by {tree.describe()}: {count}, {tree.edge_rate:.4g} edges a {_every(plan)}, "
        f"{tree.omega:.4g} operations an edge, {_cost(plan, tree.cost)}"
    )


def text(plan: Plan) -> str:
    """The trees and what they cost."""
    lines = [_head(plan)]
    for k, tree in enumerate(plan.trees):
        last = k + 1 == len(plan.trees)
        lines.append(f"{'└─' if last else '├─'} {_tree(plan, tree)}")
        lines.append(f"{'   ' if last else '│  '}   {_several(tree.acqs)}")
    return "\n".join(lines)


def explained(plan: Plan) -> str:
    """The plan, what else could be done and what that would cost, and why it is this one."""
    from windlass.sharing.planning import alternatives

    others = plan.alternatives or alternatives(plan)
    width = max(len(name) for name, _ in others)
    lines = [text(plan), "", f"other plans, {_UNITS[plan.objective]} a {_every(plan)}"]
    for name, cost in others:
        chosen = "  ← this one" if name == plan.optimizer and abs(cost - plan.cost) <= 1e-9 * cost else ""
        lines.append(f"  {name:{width}}  {cost:10.4g}  {cost / plan.cost:6.2f} ×{chosen}")
    return "\n".join([*lines, "", *_reasons(plan, dict(others))])


def _reasons(plan: Plan, others: dict[str, float]) -> list[str]:
    """In words: what sharing saves, what it would cost to share more, and how edges were counted."""
    unit = _UNITS[plan.objective]
    alone, together = others["no sharing"], others["maximum sharing"]
    lines = []
    if len(plan.trees) < len(plan.acqs):
        saved = (1 - plan.cost / alone) * 100
        lines.append(f"sharing saves {saved:.3g} % of the {unit} of a tree for each ACQ")
    else:
        lines.append("no two ACQs gain by sharing: the edges of one would cut the slices of the other")
    if len(plan.trees) > 1 and together > plan.cost:
        more = together / plan.cost
        lines.append(
            f"one tree for all would take {more:.3g} times the {unit}: its slices are smaller, and answers made of more"
        )
    if plan.counting == "sample":
        lines.append(
            "edges are too many to count exactly: their rates are estimated from a part of the composite slide"
        )
    return lines


def html(plan: Plan) -> str:
    """The trees, folded; for notebooks."""
    trees = []
    for tree in plan.trees:
        items = "".join(f"<li>{escape(called(q))}</li>" for q in tree.acqs[:100])
        more = f"<li>… and {len(tree.acqs) - 100} more</li>" if len(tree.acqs) > 100 else ""
        trees.append(
            f"<li><details><summary>{escape(_tree(plan, tree))}</summary><ul>{items}{more}</ul></details></li>"
        )
    return f"<div><b>{escape(_head(plan))}</b><ul>{''.join(trees)}</ul></div>"
