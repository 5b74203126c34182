"""Every store × every aggregate it can serve, against brute force.

A Hypothesis machine holds one window as a plain list and beside it one store of every technique. Each rule changes the
list in the obvious way and every store by the operation under test; whatever is asked, all must say what the list says.
An operation that a technique refuses must raise, leave the store as it was, and is then done event by event instead,
which proves the bulk and the single form equal as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from stores.matrix import CASES, COMPILED, KNOWN_WINDOWS, Case, Form, forms, interpreted

from windlass.errors import InvalidArgument, UnsupportedAggregate
from windlass.stores import SlickDeque, SlickDequeInv, SlickDequeNonInv
from windlass.stores.store import Store

LONGEST = max(KNOWN_WINDOWS)

# Interpreted kernels compute with NumPy scalars, which warn where inf - inf gives NaN.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:divide by zero:RuntimeWarning")


class StoresMachine(RuleBasedStateMachine):
    """One window, kept by every technique that can serve the case's aggregate."""

    case: Case
    compiled: bool
    lean: bool  # without the rules that need kernels of their own, for the time it takes to compile them

    @initialize()
    def begin(self) -> None:
        self.aggregate = self.case.aggregate if self.compiled else interpreted(self.case.aggregate)
        self.forms = forms(self.aggregate)
        self.stores = {form: self.fresh(form) for form in self.forms}
        self.window: list[Any] = []

    def fresh(self, form: Form) -> Store:
        return form.make(self.aggregate, dtype=self.case.dtype, nullable=self.case.nullable)

    def events(self, data: st.DataObject, most: int = 24) -> list[Any]:
        return data.draw(st.lists(self.case.events, max_size=most), label="events")

    def expect(self, form: Form, got: Any, window: list[Any]) -> None:
        expected = self.case.answer(window)
        assert self.case.same(got, expected), f"{form}: {got!r}, by definition {expected!r} over {window}"

    # ------------------------------------------------------------------ one event at a time

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        event = data.draw(self.case.events, label="event")
        for store in self.stores.values():
            store.insert(*(event if isinstance(event, tuple) else (event,)))
        self.window.append(event)

    @precondition(lambda self: self.window)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, min(3, len(self.window))), label="count")
        for store in self.stores.values():
            store.evict(count)
        del self.window[:count]

    @precondition(lambda self: self.window)
    @rule(data=st.data())
    def evict_most(self, data: st.DataObject) -> None:
        """Down to a few events or none: rings shrink."""
        left = data.draw(st.integers(0, min(2, len(self.window))), label="left")
        for store in self.stores.values():
            store.evict(len(store) - left)
        self.window = self.window[len(self.window) - left :]

    @rule()
    def query(self) -> None:
        for form, store in self.stores.items():
            if form.windows is not None and len(self.window) > LONGEST:
                with pytest.raises(InvalidArgument, match="longest"):
                    store.query()
            else:
                self.expect(form, store.query(), self.window)

    @precondition(lambda self: not self.lean)
    @rule(lasts=st.one_of(st.just(list(KNOWN_WINDOWS)), st.lists(st.integers(1, 30), min_size=1, max_size=5)))
    def query_ranges(self, lasts: list[int]) -> None:
        for form, store in self.stores.items():
            if form.answers(lasts):
                for last, got in zip(lasts, store.query_many(lasts), strict=True):
                    self.expect(form, got, self.window[-last:])
                self.expect(form, store.query(last=lasts[0]), self.window[-lasts[0] :])

    # ------------------------------------------------------------------ bulk

    @rule(data=st.data())
    def insert_many(self, data: st.DataObject) -> None:
        events = self.events(data, most=40)
        for store in self.stores.values():
            store.insert_many(self.case.arrays(events))
        self.window += events

    @rule(data=st.data(), size=st.integers(1, 20))
    def slide_window(self, data: st.DataObject, size: int) -> None:
        events = self.events(data)
        expected = oracle.sliding(events, size, self.window)
        end = (self.window + events)[-size:] if events else self.window
        for form, store in self.stores.items():
            if form.windows is not None and size > LONGEST:
                with pytest.raises(InvalidArgument, match="longest"):
                    store.slide(self.case.arrays(events), size)
                self.catch_up(store, events, len(end))
                continue
            answers = store.slide(self.case.arrays(events), size)
            self.expect_rounds(form, answers, expected)
        self.window = end

    @precondition(lambda self: not self.lean)
    @rule(
        data=st.data(),
        sizes=st.one_of(st.just(list(KNOWN_WINDOWS)), st.lists(st.integers(1, 20), min_size=1, max_size=4)),
    )
    def slide_windows(self, data: st.DataObject, sizes: list[int]) -> None:
        events = self.events(data)
        end = (self.window + events)[-max(sizes) :] if events else self.window
        for form, store in self.stores.items():
            arrays = self.case.arrays(events)
            if not form.store.answers_ranges:
                with pytest.raises(UnsupportedAggregate, match="whole window only"):
                    store.slide(arrays, windows=sizes)
                self.catch_up(store, events, len(end))
            elif form.store is SlickDequeInv and list(form.windows or ()) != sizes:
                self.catch_up(store, events, len(end))
            else:
                answers = store.slide(arrays, windows=sizes)
                columns = [answers.column(k) for k in range(len(sizes))]
                for size, column in zip(sizes, columns, strict=True):
                    self.expect_rounds(form, column, oracle.sliding(events, size, self.window))
        self.window = end

    @precondition(lambda self: not self.lean)
    @rule(data=st.data())
    def slide_evictions(self, data: st.DataObject) -> None:
        events, size, evictions, most = self.events(data), len(self.window), [], 0
        for _ in events:
            evictions.append(data.draw(st.integers(0, min(size, 4)), label="evict"))
            size += 1 - evictions[-1]
            most = max(most, size)
        expected = oracle.rolling(events, evictions, self.window)
        end = expected[-1] if expected else self.window
        for form, store in self.stores.items():
            arrays, counts = self.case.arrays(events), np.array(evictions, np.int64)
            if form.windows is not None and most > LONGEST:
                with pytest.raises(InvalidArgument, match="longest"):
                    store.slide(arrays, evictions=counts)
                self.catch_up(store, events, len(end))
                continue
            self.expect_rounds(form, store.slide(arrays, evictions=counts), expected)
        self.window = list(end)

    def catch_up(self, store: Store, events: list[Any], size: int) -> None:
        """The same in steps: all events in, then the oldest out."""
        assert len(store) == len(self.window)
        for event in events:
            store.insert(*(event if isinstance(event, tuple) else (event,)))
        store.evict(len(store) - size)

    def expect_rounds(self, form: Form, answers: Any, windows: list[list[Any]]) -> None:
        got = answers.to_pylist()
        assert len(got) == len(windows)
        for answer, window in zip(got, windows, strict=True):
            self.expect(form, answer, window)

    # ------------------------------------------------------------------ snapshots

    @rule()
    def restore_into_fresh(self) -> None:
        for form, store in self.stores.items():
            data = store.snapshot()
            copy = self.fresh(form).restore(data)
            assert copy.snapshot() == data, f"{form}: a restored store packs to other bytes"
            self.stores[form] = copy

    @rule()
    def restore_into_unbound(self) -> None:
        for form, store in self.stores.items():
            self.stores[form] = form.make(self.aggregate).restore(store.snapshot())

    # ------------------------------------------------------------------ always

    @invariant()
    def stores_are_sound(self) -> None:
        for form, store in getattr(self, "stores", {}).items():
            assert len(store) == len(self.window), f"{form}: {len(store)} events, not {len(self.window)}"
            store.check_invariants()


def run(case: Case, share: int, compiled: bool = False, lean: bool = False) -> None:
    machine = type("Machine", (StoresMachine,), {"case": case, "compiled": compiled, "lean": lean})
    examples = max(4, settings().max_examples // share)
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=16))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_store_agrees_with_the_definition(case: Case) -> None:
    run(case, share=6)


@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_compiled_stores_agree_with_the_definition(case: Case) -> None:
    run(case, share=10, compiled=True, lean=case.name not in ("sum int", "max float"))


def test_every_store_has_a_non_commutative_aggregate() -> None:
    ordered = [case.aggregate for case in CASES if not case.aggregate.commutative]
    for form in forms(CASES[0].aggregate) + forms(next(a for a in ordered if a.selective)):
        assert any(form.serves(a) for a in ordered), form


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slick_deque_chooses_what_fits(case: Case) -> None:
    if case.aggregate.invertible:
        assert type(SlickDeque(case.aggregate)) is SlickDequeInv
    elif case.aggregate.selective:
        assert type(SlickDeque(case.aggregate)) is SlickDequeNonInv
    else:
        with pytest.raises(UnsupportedAggregate, match="invertible or selective"):
            SlickDeque(case.aggregate)


@pytest.mark.parametrize("case", [c for c in CASES if c.aggregate.invertible], ids=str)
def test_slide_over_new_windows_makes_a_slick_deque_of_many_ranges(case: Case) -> None:
    """Asked for several windows before the first event, SlickDeque (Inv) keeps a running aggregate for each."""
    store = SlickDeque(interpreted(case.aggregate), dtype=case.dtype, nullable=True)
    events = [None, *(_example(case, k) for k in range(30))]
    if len(case.columns) > 1:
        events[0] = (None,) * len(case.columns)
    answers = store.slide(case.arrays(events), windows=[4, 1, 9])
    for k, size in enumerate((4, 1, 9)):
        for got, window in zip(answers.column(k).to_pylist(), oracle.sliding(events, size), strict=True):
            assert case.same(got, case.answer(window)), (got, window)


def _example(case: Case, k: int) -> Any:
    """The k-th of a fixed sequence of events for a case."""
    pools = {
        "int64": [3, -1, 4, 1, -5, 9, 2, 6],
        "float64": [0.5, 1.5, float("nan"), 2.0, float("inf"), 0.25, 3.0],
        "bool": [True, True, False],
    }
    parts = []
    for type_, _ in case.columns:
        pool = pools.get(type_) or (["a", "", "bé"] if str(type_) == "string" else [None, None])
        parts.append(pool[k % len(pool)])
    return parts[0] if len(parts) == 1 else tuple(parts)
