"""Additions of floats that may be done in any order.

LLVM makes vector instructions of a sum only if it may reorder it, and of floats it may not: another order rounds
otherwise. `fastmath` would allow it everywhere in a kernel, also where the order is the point (compensated sums). Here
it is allowed for one addition: that of partials of a commutative aggregate. Machine code has one order, so the same
rows give the same bits every time."""

from __future__ import annotations

from typing import Any


def plus_in_any_order(a: Any, b: Any) -> Any:
    """a + b, as part of a sum whose order is left to the compiler."""
    return a + b
