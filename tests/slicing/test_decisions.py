"""The decision trees of Scotty's Figures 4 to 6, every leaf, as tables that read like the figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from windlass import (
    Band,
    Cumulate,
    DataDriven,
    Deterministic,
    Landmark,
    LastN,
    NonDeterministic,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)
from windlass.slicing.decisions import Workload, remove_tuples, split_slices, store_tuples

PLAIN = Workload("q", "CF", False, "time", commutative=True, invertible=True, selective=False)
SESSION = replace(PLAIN, context="FCA", is_session=True)


def workload(context: Any = "CF", session: bool = False, measure: str = "time", commutative: bool = True) -> Workload:
    return replace(PLAIN, context=context, is_session=session, measure=measure, commutative=commutative)


# --------------------------------------------------------------------------- Figure 4

STORE = [
    # order           context  session  measure  commutative     tuples
    ("in-order", "CF", False, "time", True, "drop"),
    ("in-order", "CF", False, "time", False, "drop"),
    ("in-order", "CF", False, "count", True, "drop"),
    ("in-order", "CF", False, "km", False, "drop"),
    ("in-order", "FCF", False, "time", False, "drop"),
    ("in-order", "FCF", True, "time", False, "drop"),
    ("in-order", "FCA", False, "time", True, "store"),
    ("in-order", "FCA", False, "time", False, "store"),
    ("out-of-order", "CF", False, "time", True, "drop"),
    ("out-of-order", "CF", False, "time", False, "store"),  # non-commutative
    ("out-of-order", "CF", False, "count", True, "store"),  # another measure
    ("out-of-order", "CF", False, "km", True, "store"),
    ("out-of-order", "FCF", False, "time", True, "store"),  # neither context free nor a session
    ("out-of-order", "FCF", True, "time", True, "drop"),
    ("out-of-order", "FCF", True, "time", False, "store"),
    ("out-of-order", "FCA", False, "time", True, "store"),
]


@pytest.mark.parametrize(("order", "context", "session", "measure", "commutative", "tuples"), STORE)
def test_store_tuples(order: str, context: Any, session: bool, measure: str, commutative: bool, tuples: str) -> None:
    decision = store_tuples([workload(context, session, measure, commutative)], order == "in-order")
    assert ("store" if decision.yes else "drop") == tuples
    assert decision.reason.startswith("q: ") == decision.yes  # it names the query that asks for tuples


# --------------------------------------------------------------------------- Figure 5

SPLIT = [
    # order           context  session     splits
    ("in-order", "CF", False, "never"),
    ("in-order", "FCF", False, "never"),
    ("in-order", "FCF", True, "never"),
    ("in-order", "FCA", False, "split"),
    ("out-of-order", "CF", False, "never"),
    ("out-of-order", "FCF", False, "split"),
    ("out-of-order", "FCF", True, "never"),
    ("out-of-order", "FCA", False, "split"),
]


@pytest.mark.parametrize(("order", "context", "session", "splits"), SPLIT)
def test_split_slices(order: str, context: Any, session: bool, splits: str) -> None:
    for commutative, measure in product((True, False), ("time", "count")):
        decision = split_slices([workload(context, session, measure, commutative)], order == "in-order")
        assert ("split" if decision.yes else "never") == splits
        assert decision.reason


# --------------------------------------------------------------------------- Figure 6

REMOVE = [
    # order           measure  invertible  selective     how
    ("in-order", "count", True, False, "never"),
    ("in-order", "count", False, False, "never"),
    ("out-of-order", "time", False, False, "never"),
    ("out-of-order", "count", True, False, "subtract"),
    ("out-of-order", "count", True, True, "subtract"),
    ("out-of-order", "count", False, True, "unless extreme"),
    ("out-of-order", "count", False, False, "recompute"),
]


@pytest.mark.parametrize(("order", "measure", "invertible", "selective", "how"), REMOVE)
def test_remove_tuples(order: str, measure: str, invertible: bool, selective: bool, how: str) -> None:
    w = replace(PLAIN, measure=measure, invertible=invertible, selective=selective)
    decided, reason = remove_tuples(w, order == "in-order")
    assert decided == how
    assert reason


# --------------------------------------------------------------------------- many queries, and real windows


@pytest.mark.parametrize("in_order", [True, False])
def test_one_query_is_enough(in_order: bool) -> None:
    plain = [replace(PLAIN, query=f"plain {i}") for i in range(3)]
    assert not store_tuples(plain, in_order).yes
    assert not split_slices(plain, in_order).yes
    asks = replace(workload("FCA"), query="asks")
    for at in range(4):
        together = [*plain[:at], asks, *plain[at:]]
        assert store_tuples(together, in_order).reason.startswith("asks: ")
        assert split_slices(together, in_order).reason.startswith("asks: ")


def test_no_query_needs_nothing() -> None:
    assert not store_tuples([], False).yes
    assert not split_slices([], True).yes


CONTEXTS = [
    (Tumbling(5), "CF"),
    (Sliding(5, 2), "CF"),
    (Cumulate(2, 6), "CF"),
    (Band(0, 5), "CF"),
    (Landmark(0, 5), "CF"),
    (Tumbling(5, measure="count"), "CF"),
    (Punctuation("flag"), "FCF"),
    (ThresholdFrame("flag"), "FCF"),
    (SlideByTuple(5), "FCF"),
    (Snapshot(5), "FCF"),
    (DataDriven(lambda ts: (5, 2)), "FCF"),
    (Deterministic(lambda state, ts: (state, 1, 1)), "FCF"),
    (LastN(3, 5), "FCA"),
    (NonDeterministic(lambda state, ts: (state, 0, True)), "FCA"),
]


@pytest.mark.parametrize(("window", "context"), CONTEXTS, ids=lambda x: type(x).__name__)
def test_the_class_of_each_window(window: Any, context: str) -> None:
    """Scotty 4.4."""
    assert window.context == context
    assert not window.is_session


def test_a_session_is_context_aware_but_never_splits() -> None:
    assert Session(5).is_session
    assert Session(5).context != "CF"
    assert not split_slices([replace(PLAIN, context=Session(5).context, is_session=True)], False).yes
