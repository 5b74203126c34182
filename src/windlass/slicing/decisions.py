"""The three decision trees of general stream slicing (Scotty, Figures 4 to 6), as functions of the workload.

Each returns its decision and the reason, which `explain` prints. They look at the queries and the promised order
only, never at the data, so they are asked again only when a query is added or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from windlass.windows.window import Context


@dataclass(frozen=True)
class Workload:
    """What the trees look at in one query."""

    query: str
    context: Context
    is_session: bool
    measure: str
    commutative: bool
    invertible: bool
    selective: bool


class Decision(NamedTuple):
    yes: bool
    reason: str


def store_tuples(workloads: Sequence[Workload], in_order: bool) -> Decision:
    """Figure 4: which workload characteristics require storing individual tuples in memory?

    in-order stream?
    ├─ yes: forward context aware window?          ─ yes: STORE    no: drop
    └─ no:  non-commutative aggregate?             ─ yes: STORE
            neither context free nor a session?    ─ yes: STORE
            measure other than event time?         ─ yes: STORE    no: drop
    """
    for w in workloads:
        if in_order:
            if w.context == "FCA":
                return Decision(True, f"{w.query}: its window is forward context aware, so slices may have to be split")
        elif not w.commutative:
            return Decision(True, f"{w.query}: an aggregate is not commutative, and events come out of order")
        elif w.measure != "time":
            return Decision(True, f"{w.query}: a late event moves all later ones along the measure {w.measure!r}")
        elif w.context != "CF" and not w.is_session:
            return Decision(True, f"{w.query}: a late event may move edges of its context-aware window")
    return Decision(False, "each event is folded into its slice and dropped")


def split_slices(workloads: Sequence[Workload], in_order: bool) -> Decision:
    """Figure 5: are splits required?

    in-order stream?
    ├─ yes: forward context aware window?          ─ yes: SPLIT    no: never
    └─ no:  context free, or a session?            ─ yes: never    no: SPLIT
    """
    for w in workloads:
        if w.context == "FCA":
            return Decision(True, f"{w.query}: its windows begin at events that were not known to begin one")
        if not in_order and w.context == "FCF" and not w.is_session:
            return Decision(True, f"{w.query}: a late event can bring a new edge into a slice")
    return Decision(
        False, "edges are known before events are folded" if not in_order else "windows say when they begin"
    )


Removal = Literal["never", "subtract", "unless extreme", "recompute"]


def remove_tuples(workload: Workload, in_order: bool) -> tuple[Removal, str]:
    """Figure 6: how are tuples removed from slices?

    out-of-order stream and count measure?
    ├─ no:  never
    └─ yes: invertible?    ─ yes: SUBTRACT (⊖)
            selective?     ─ yes: RECOMPUTE the slice only if the tuple was its extreme (6.3.2)
                           ─ no:  RECOMPUTE the slice
    """
    if in_order or workload.measure != "count":
        return "never", "no event moves from one slice to the next"
    if workload.invertible:
        return "subtract", "late events shift positions; what leaves a slice is subtracted"
    if workload.selective:
        return "unless extreme", "late events shift positions; a slice is recomputed if its extreme leaves it"
    return "recompute", "late events shift positions; slices are recomputed from their tuples"
