"""What the planner of `windlass.sharing` says about an operator's queries, of those that have a range and a slide.

The operator itself shares slices among all queries, which is maximum sharing; `explain(rate=…)` tells what that costs,
by the cost model, and what other plans would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.sharing import carriers
from windlass.errors import InvalidArgument
from windlass.operator.query import Query
from windlass.sharing import ACQ, Plan, plan
from windlass.windows import Sliding, Tumbling

__all__ = ["acqs_of", "explain_sharing", "shared_plan"]


def acqs_of(queries: Iterable[Query]) -> list[ACQ]:
    """An ACQ for each partial of each query with tumbling or sliding windows on time."""
    found: dict[ACQ, None] = {}
    periodic = [q for q in queries if isinstance(q.window, Tumbling | Sliding) and q.on_time]
    wanted = {_plain(a, q) for q in periodic for a in q.aggregates}
    lengths = [getattr(q.window, name, 0) for q in periodic for name in ("size", "slide")]
    unit = None if all(isinstance(length, int) for length in lengths) else "us"  # integers are in the stream's unit
    for q in periodic:
        for a in q.aggregates:
            carrier = next((c for c in (_plain(c, q) for c in carriers(_plain(a))) if c in wanted), _plain(a, q))
            found[ACQ.of(q.window, carrier, unit=unit, name=q.name)] = None
    return list(found)


def _plain(a: Aggregate, query: Query | None = None) -> Aggregate:
    """Without its alias; with a filter, which makes it another one."""
    where = () if query is None or query.where is None else (("where", repr(query.where)),)
    return replace(a, output=None, params=a.params + where)


def shared_plan(queries: Iterable[Query], rate: float) -> Plan:
    """The cheapest plan for these queries at so many events a second (or in a unit of time)."""
    found = acqs_of(queries)
    if not found:
        raise InvalidArgument("none of the queries has tumbling or sliding windows on time: there is nothing to plan")
    return plan(found, rate=rate)


def explain_sharing(queries: Iterable[Query], rate: float) -> str:
    listed = list(queries)
    chosen = shared_plan(listed, rate)
    left = sorted({q.name for q in listed} - {q.name for q in chosen.acqs})
    lines = ["sharing: slices are shared by all queries (maximum sharing); for events in order the planner says"]
    lines += [f"  {line}".rstrip() for line in chosen.explain().splitlines()]
    lines += [f"  not planned, without a range and a slide on time: {', '.join(left)}"] if left else []
    return "\n".join(lines)
