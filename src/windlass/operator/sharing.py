"""The operator's plan in words: its trees, what they and others would cost, and why these."""

from __future__ import annotations

from windlass.errors import InvalidArgument
from windlass.operator.costs import TITLES
from windlass.operator.trees import Trees

__all__ = ["ASKED", "checked_rate", "explained"]

ASKED = "as was asked"


def explained(plan: Trees, source: str) -> str:
    """`source` says where the plan comes from."""
    trees = plan.trees
    per, scale = ("a second", 1e6) if plan.unit is not None else ("a unit of time", 1.0)
    rate, keys, batch = plan.observed
    known = f"{_counted(rate * scale)} events {per}, {keys:,} key{'s' if keys != 1 else ''}, batches of {batch:,}"
    queries = sum(len(tree.queries) for tree in trees)
    lines = [f"sharing: {queries} queries in {len(trees)} tree{'s' if len(trees) != 1 else ''}, {source} ({known})"]
    found = {tree.queries: (cost, slices, held) for tree, cost, slices, held in plan.details}
    for tree in trees:
        names = ", ".join(tree.queries[:4]) + (f" and {len(tree.queries) - 4} more" if len(tree.queries) > 4 else "")
        by = TITLES.get(tree.technique, "the store's own way")
        figures = ""
        if tree.queries in found:
            cost, slices, held = found[tree.queries]
            figures = f"{_counted(slices * scale)} slices {per}, {_counted(held)} held, {_time(cost * scale)} {per}"
        lines.append(f"  by {by}: {figures or 'not planned'}  ← {names}")
    if plan.costs and plan.cost > 0:
        others = sorted(plan.costs.items(), key=lambda item: item[1])
        lines.append(
            "  others     " + ", ".join(f"{name} {cost / plan.cost:.2f}" for name, cost in others) + " times the cost"
        )
        lines.append(f"  because    {'the plan is pinned' if source == ASKED else _why(plan)}")
    return "\n".join(lines)


def _why(plan: Trees) -> str:
    if len(plan.details) == 1:
        return "one tree folds every event once, and more of them would save less than that"
    _, _, slices, held = max(plan.details, key=lambda d: d[3])
    finest = max(d[2] for d in plan.details)
    if held and finest > 2 * slices:
        together = _counted(held / slices * finest)
        return f"the longest windows hold {_counted(held)} slices, and would hold {together} if these had all edges"
    return "slices with the partials of some queries only save more than folding events again costs"


def _counted(n: float) -> str:
    return f"{n:,.0f}" if n >= 10 else f"{n:.3g}"


def _time(nanoseconds: float) -> str:
    for unit, length in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= length:
            return f"{nanoseconds / length:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def checked_rate(rate: float) -> float:
    if not 0 < rate < float("inf"):
        raise InvalidArgument(f"the rate of events must be a positive number, got {rate!r}")
    return float(rate)
