"""What a store refuses, that the message says what is wrong, and that nothing has changed afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stores.matrix import FORMS, Form, forms, interpreted

from windlass import aggregates as agg
from windlass.aggregates.aggregate import Aggregate
from windlass.errors import (
    CorruptSnapshot,
    EmptyWindow,
    Interrupted,
    InvalidArgument,
    UnknownColumn,
    UnsupportedAggregate,
    WindlassError,
    WrongType,
)
from windlass.stores import (
    DABA,
    BInt,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDeque,
    SlickDequeInv,
    SlickDequeNonInv,
    SubtractOnEvict,
    TwoStacks,
)
from windlass.stores.store import Store

NUMBERS = [3, 1, 4, 1, 5]


def aggregate_for(form: Form) -> Aggregate:
    return agg.max() if form.store is SlickDequeNonInv else agg.sum()


def filled(form: Form, aggregate: Aggregate | None = None, **options: Any) -> Store:
    options = {"dtype": "int64", "nullable": False} | options
    store = form.make(interpreted(aggregate or aggregate_for(form)), **options)
    store.insert_many(np.array(NUMBERS))
    return store


def refused(store: Store, action: Callable[[Store], Any], error: type[WindlassError], message: str) -> None:
    """The action raises, the message names what is wrong, and the store is what it was."""
    before, size, answer = store.snapshot(), len(store), store.query()
    before = store.snapshot()  # FlatFIT learns from a query
    with pytest.raises(error, match=message) as caught:
        action(store)
    assert type(caught.value) is error
    assert len(store) == size
    assert store.snapshot() == before
    store.check_invariants()
    assert store.query() == answer


every_form = pytest.mark.parametrize("form", FORMS, ids=str)

ACTIONS: list[tuple[str, Callable[[Store], Any], type[WindlassError], str]] = [
    ("evict more than there is", lambda s: s.evict(6), EmptyWindow, r"cannot evict 6 event\(s\) from a \w+ of 5"),
    ("evict a negative number", lambda s: s.evict(-1), InvalidArgument, "evict must be at least 0, got -1"),
    ("evict a string", lambda s: s.evict("x"), InvalidArgument, "evict must be an integer, got 'x'"),
    ("evict a float", lambda s: s.evict(1.0), InvalidArgument, "evict must be an integer, got 1.0"),
    ("evict a boolean", lambda s: s.evict(True), InvalidArgument, "evict must be an integer, got True"),
    ("evict None", lambda s: s.evict(None), InvalidArgument, "evict must be an integer, got None"),
    ("window 0", lambda s: s.slide([1], 0), InvalidArgument, "window must be at least 1, got 0"),
    ("window -3", lambda s: s.slide([1], -3), InvalidArgument, "window must be at least 1, got -3"),
    ("window 2.5", lambda s: s.slide([1], 2.5), InvalidArgument, "window must be an integer, got 2.5"),
    ("window True", lambda s: s.slide([1], True), InvalidArgument, "window must be an integer, got True"),
    ("window '5'", lambda s: s.slide([1], "5"), InvalidArgument, "window must be an integer, got '5'"),
    ("no window at all", lambda s: s.slide([1]), InvalidArgument, "exactly one of window=, windows= and evictions="),
    ("two kinds of window", lambda s: s.slide([1], 2, windows=[2]), InvalidArgument, "exactly one of"),
    ("window and evictions", lambda s: s.slide([1], 2, evictions=[0]), InvalidArgument, "exactly one of"),
    ("windows and evictions", lambda s: s.slide([1], windows=[1], evictions=[0]), InvalidArgument, "exactly one of"),
    ("no windows", lambda s: s.slide([1], windows=[]), InvalidArgument, "at least one window"),
    ("a zero among windows", lambda s: s.slide([1], windows=[3, 0]), InvalidArgument, "at least 1, got 0"),
    ("a float among windows", lambda s: s.slide([1], windows=[2.0]), InvalidArgument, "integer, got 2.0"),
    ("one number as windows", lambda s: s.slide([1], windows=3), InvalidArgument, "windows"),
    ("too few evictions", lambda s: s.slide([1, 2], evictions=[0]), InvalidArgument, "must be 2 integers"),
    ("float evictions", lambda s: s.slide([1], evictions=[0.5]), InvalidArgument, "must be 1 integers"),
    ("negative evictions", lambda s: s.slide([1, 2], evictions=[0, -1]), EmptyWindow, r"evictions\[1\] = -1"),
    ("evictions past the end", lambda s: s.slide([1, 2, 3], evictions=[5, 1, 2]), EmptyWindow, r"evictions\[2\] = 2"),
    ("evictions of a full window", lambda s: s.slide([1], evictions=[6]), EmptyWindow, r"evictions\[0\] = 6"),
    ("huge evictions", lambda s: s.slide([1, 2], evictions=[2**63 - 1, 1]), EmptyWindow, r"evictions\[0\]"),
    ("boolean evictions", lambda s: s.slide([1], evictions=[True]), InvalidArgument, "must be 1 integers"),
    ("two-dimensional evictions", lambda s: s.slide([1], evictions=[[1]]), InvalidArgument, "must be 1 integers"),
    ("a float into integers", lambda s: s.insert(1.5), WrongType, "expected values of int64, got double"),
    ("floats into integers", lambda s: s.insert_many([1.5]), WrongType, "expected values of int64, got double"),
    ("float slide", lambda s: s.slide(np.array([0.5]), 3), WrongType, "expected values of int64, got double"),
    ("a string into numbers", lambda s: s.insert("x"), WrongType, "expected values of int64, got string"),
    ("strings into numbers", lambda s: s.insert_many(["x"]), WrongType, "expected values of int64, got string"),
    ("a boolean into numbers", lambda s: s.insert(True), WrongType, "expected values of int64, got bool"),
    ("an integer of 65 bits", lambda s: s.insert(2**64), WrongType, "int64|cannot read"),
    ("a mix of types", lambda s: s.insert_many([1, "x"]), WrongType, "cannot read these values"),
    ("a two-dimensional array", lambda s: s.insert_many(np.zeros((2, 2))), WrongType, r"shape \(2, 2\)"),
    ("two dimensions of ints", lambda s: s.slide(np.zeros((2, 2), np.int64), 3), WrongType, r"shape \(2, 2\)"),
    ("a scalar for an array", lambda s: s.insert_many(5), WrongType, "got int"),
    ("an object for an array", lambda s: s.slide(object(), 3), WrongType, "got object"),
    ("a null", lambda s: s.insert(None), InvalidArgument, "got a null.*nullable=True"),
    ("a null among values", lambda s: s.insert_many([1, None]), InvalidArgument, "got a null.*nullable=True"),
    ("a null in a slide", lambda s: s.slide(pa.array([None, 2]), 3), InvalidArgument, "got a null"),
    ("nulls only", lambda s: s.insert_many(pa.nulls(2)), InvalidArgument, "got a null"),
    ("two values an event", lambda s: s.insert(1, 2), InvalidArgument, r"takes 1 value\(s\) an event, got 2"),
    ("no value", lambda s: s.insert(), InvalidArgument, r"takes 1 value\(s\) an event, got 0"),
    (
        "a table with a choice of columns",
        lambda s: s.insert_many({"a": [1], "b": [2]}),
        UnknownColumn,
        "names no column",
    ),
    ("a range of 0", lambda s: s.query(0), InvalidArgument, "at least 1, got 0"),
    ("a range of a float", lambda s: s.query(1.5), InvalidArgument, "integer, got 1.5"),
    ("no ranges", lambda s: s.query_many([]), InvalidArgument, "at least one window"),
    ("one number as ranges", lambda s: s.query_many(3), InvalidArgument, "window"),
    ("a damaged snapshot", lambda s: s.restore(s.snapshot()[:-1] + b"!"), CorruptSnapshot, "snapshot"),
    ("half a snapshot", lambda s: s.restore(s.snapshot()[:50]), CorruptSnapshot, "snapshot"),
    ("no snapshot", lambda s: s.restore(b""), CorruptSnapshot, "snapshot"),
]


@every_form
@pytest.mark.parametrize(("action", "error", "message"), [a[1:] for a in ACTIONS], ids=[a[0] for a in ACTIONS])
def test_refused(form: Form, action: Callable[[Store], Any], error: type[WindlassError], message: str) -> None:
    refused(filled(form), action, error, message)


@every_form
def test_evicting_from_nothing(form: Form) -> None:
    store = form.make(aggregate_for(form))
    with pytest.raises(EmptyWindow, match=r"cannot evict 1 event\(s\) from a \w+ of 0"):
        store.evict()
    store.evict(0)
    bound = form.make(aggregate_for(form), dtype="int64")
    with pytest.raises(EmptyWindow):
        bound.evict()
    assert len(store) == len(bound) == 0
    assert bound.query() is None and store.query() is None


@every_form
def test_no_values_are_no_error(form: Form) -> None:
    store = filled(form)
    before = store.snapshot()
    empty = np.zeros(0, np.int64)
    store.insert_many(empty)
    assert len(store.slide(empty, 2)) == 0
    assert len(store.slide(pa.array([], pa.int64()), 2)) == 0
    assert len(store.slide(empty, evictions=np.zeros(0, np.int64))) == 0
    assert len(store.slide([], evictions=[])) == 0
    if form.store.answers_ranges and (form.store is not SlickDequeInv or form.windows):
        windows = list(form.windows or [2, 7])
        assert store.slide(empty, windows=windows).shape == (0, len(windows))
    assert store.snapshot() == before
    assert len(store) == 5


@every_form
@pytest.mark.parametrize("bad", [None, "sum", sum, 5, agg.sum])
def test_something_that_is_no_aggregate(form: Form, bad: Any) -> None:
    with pytest.raises(
        UnsupportedAggregate, match=rf"needs an aggregate such as agg.sum\(\), got {type(bad).__name__}"
    ):
        form.make(bad)
    with pytest.raises(UnsupportedAggregate, match="needs an aggregate"):
        SlickDeque(bad)


def test_a_technique_names_the_property_it_misses() -> None:
    with pytest.raises(
        UnsupportedAggregate, match=r"SubtractOnEvict subtracts .* max\(\) has no inverse; use TwoStacks"
    ):
        SubtractOnEvict(agg.max())
    with pytest.raises(UnsupportedAggregate, match=r"min\(\) has no inverse"):
        SlickDequeInv(agg.min())
    with pytest.raises(UnsupportedAggregate, match=r"needs a selective aggregate .* sum\(\) is not"):
        SlickDequeNonInv(agg.sum())
    with pytest.raises(UnsupportedAggregate, match=r"invertible or selective .* product\(\) is neither; use FlatFIT"):
        SlickDeque(agg.product())


@pytest.mark.parametrize("store", [TwoStacks, DABA, SubtractOnEvict])
def test_ranges_of_a_store_that_answers_its_whole_window_only(store: type[Store]) -> None:
    form = next(f for f in FORMS if f.store is store)
    message = rf"{store.__name__} answers its whole window only; for many ranges .* use SlickDeque"
    refused(filled(form), lambda s: s.query(2), UnsupportedAggregate, message)
    refused(filled(form), lambda s: s.query_many([2, 3]), UnsupportedAggregate, message)
    refused(filled(form), lambda s: s.slide([1], windows=[2, 3]), UnsupportedAggregate, message)


def test_ranges_a_slick_deque_does_not_keep() -> None:
    many = next(f for f in FORMS if f.windows is not None)
    refused(filled(many), lambda s: s.query(4), InvalidArgument, r"no running aggregate is kept for \[4\]; known are")
    refused(filled(many), lambda s: s.slide([1], windows=[2]), InvalidArgument, r"keeps running aggregates for windows")
    refused(filled(many), lambda s: s.slide([1], 9), InvalidArgument, "a window of 9 events.*longest range kept is 8")
    refused(
        filled(many), lambda s: s.slide(list(range(9)), evictions=[0] * 9), InvalidArgument, "a window of 14 events"
    )
    one = next(f for f in FORMS if f.store is SlickDequeInv and f.windows is None)
    refused(filled(one), lambda s: s.query(4), InvalidArgument, "construct SlickDeque with windows=")
    refused(filled(one), lambda s: s.slide([1], windows=[2]), InvalidArgument, "for one window, not for")
    for bad in ([], [0], [2.5], ["x"]):
        with pytest.raises(InvalidArgument):
            SlickDequeInv(agg.sum(), windows=bad)


@pytest.mark.parametrize("store", [Recompute, FlatFAT, BInt, FlatFIT, TwoStacks, DABA, SlickDequeNonInv])
def test_columns(store: type[Store]) -> None:
    aggregate = interpreted(agg.arg_max("price", by="volume"))
    form = next(f for f in FORMS if f.store is store)
    s = form.make(aggregate, dtype=("int64", "float64"), nullable=False)
    s.insert_many({"volume": np.array([1.0, 3.0, 2.0]), "price": np.array([7, 8, 9])})
    assert s.query() == 8
    for values, error, message in [
        (([1, 2], [1.0]), InvalidArgument, r"differ in length: \[1, 2\]"),
        ({"price": [1, 2], "volume": [1.0]}, (InvalidArgument, WrongType), "length"),
        ({"pirce": [1], "volume": [1.0]}, UnknownColumn, r"needs column 'price'; the table has \['pirce', 'volume'\]"),
        (pa.table({"price": [1]}), UnknownColumn, r"needs column 'volume'; the table has \['price'\]"),
        ([1, 2, 3], InvalidArgument, "takes 2 columns: pass a table, a dict, or a tuple of 2 arrays"),
        (([1],), InvalidArgument, "takes 2 columns"),
        (([1.5], [1.0]), WrongType, "expected values of int64, got double"),
        (([1], ["x"]), WrongType, "expected values of double, got string"),
        (([1], [None]), InvalidArgument, "got a null"),
    ]:
        before = s.snapshot()
        with pytest.raises(error, match=message):
            s.insert_many(values)
        with pytest.raises(error, match=message):
            s.slide(values, 2)
        assert s.snapshot() == before
        assert s.query() == 8
    with pytest.raises(InvalidArgument, match=r"takes 2 value\(s\) an event, got 1"):
        s.insert(1)


@every_form
@pytest.mark.parametrize("options", [{"capacity": 0}, {"capacity": -4}, {"capacity": 2.5}, {"capacity": True}], ids=str)
def test_capacity(form: Form, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="capacity must be"):
        form.make(aggregate_for(form), **options)


@every_form
@pytest.mark.parametrize("dtype", ["no such type", 5, object()], ids=["name", "number", "object"])
def test_dtype(form: Form, dtype: Any) -> None:
    with pytest.raises(WrongType, match="not a value type"):
        form.make(aggregate_for(form), dtype=dtype)


@pytest.mark.parametrize("store", [SubtractOnEvict, Recompute, TwoStacks, SlickDequeInv])
def test_values_the_aggregate_cannot_take(store: type[Store]) -> None:
    with pytest.raises(WrongType, match="sum needs numbers, decimals or durations, got values of string"):
        store(agg.sum(), dtype="string")
    s = store(agg.sum())
    with pytest.raises(WrongType, match="sum needs numbers"):
        s.insert("x")
    with pytest.raises(WrongType, match="sum needs numbers"):
        s.slide(["x", "y"], 2)
    assert s.mode == "unbound"
    with pytest.raises(InvalidArgument, match="the first value is null, so its type is unknown"):
        s.insert(None)
    with pytest.raises(WrongType, match="all values are null, so their type is unknown"):
        s.insert_many([None, None])
    assert s.mode == "unbound"


UNBOUND = [
    ("evictions", lambda s: s.slide([1, 2], evictions=[3, 0])),
    ("evictions of the wrong shape", lambda s: s.slide([1, 2], evictions=[0])),
    ("window", lambda s: s.slide([1, 2], 0)),
]


@every_form
@pytest.mark.parametrize("action", [a[1] for a in UNBOUND], ids=[a[0] for a in UNBOUND])
def test_a_refused_call_does_not_settle_the_type(form: Form, action: Callable[[Store], Any]) -> None:
    """A store binds to its types with the first values it takes, not with values it refused."""
    store = form.make(interpreted(aggregate_for(form)))
    with pytest.raises(WindlassError):
        action(store)
    assert store.mode == "unbound"
    store.insert(1.5)
    assert store.query() == 1.5


@every_form
def test_a_refused_null_does_not_settle_the_type(form: Form) -> None:
    store = form.make(interpreted(aggregate_for(form)), nullable=False)
    with pytest.raises(InvalidArgument, match="null"):
        store.insert_many([1, None])
    assert store.mode == "unbound"


# --------------------------------------------------------------------------- functions that raise


class Trap:
    """A user's ⊕ that raises at the call it is set to."""

    def __init__(self) -> None:
        self.calls_left: int | None = None

    def __call__(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise ZeroDivisionError("trapped")


def trapped(aggregate: Aggregate, trap: Trap) -> Aggregate:
    """The aggregate with every function going through the trap."""
    from dataclasses import replace

    def through(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            trap()
            return function(*arguments)

        return None if function is None else call

    def build(*types: Any) -> Any:
        m = (aggregate.build_invertible or aggregate.build)(*types)
        functions = {name: through(getattr(m, name)) for name in ("combine", "inverse", "selects", "lift")}
        return replace(m, interpreted="a test", **functions)

    return replace(aggregate, build=build, build_invertible=None)


FALLING = list(range(100, 0, -1))  # max keeps them all, so SlickDeque's ring has to grow on the way

BULK: list[tuple[str, Callable[[Store], Any]]] = [
    ("insert_many", lambda s: s.insert_many(np.array(FALLING[:40]))),
    ("slide", lambda s: s.slide(np.array(FALLING[:60]), 8)),
    ("slide evictions", lambda s: s.slide(np.array(FALLING[:60]), evictions=[1] * 60)),
    ("evict", lambda s: s.evict(4)),
]


@every_form
@pytest.mark.parametrize("calls", [0, 1, 3, 20, 45, 70])
@pytest.mark.parametrize("action", [a[1] for a in BULK], ids=[a[0] for a in BULK])
def test_a_function_that_raises_in_the_middle_changes_nothing(
    form: Form, action: Callable[[Store], Any], calls: int
) -> None:
    trap = Trap()
    store = filled(form, trapped(aggregate_for(form), trap))
    answer, before = store.query(), None
    before = store.snapshot()
    trap.calls_left = calls
    try:
        action(store)
    except ZeroDivisionError:
        trap.calls_left = None
        assert len(store) == 5
        assert store.snapshot() == before
        assert store.query() == answer
        store.check_invariants()
    trap.calls_left = None
    store.insert(6)
    store.query()


@every_form
def test_a_function_that_raises_while_the_ring_grows_changes_nothing(form: Form) -> None:
    """Trees are built anew when they grow or shrink, and call ⊕ doing so."""
    for calls in range(12):
        trap = Trap()
        store = filled(form, trapped(aggregate_for(form), trap), capacity=5)
        answer = store.query()
        before = store.snapshot()
        trap.calls_left = calls
        try:
            store.insert_many(np.arange(20))
        except ZeroDivisionError:
            trap.calls_left = None
            assert len(store) == 5
            assert store.snapshot() == before
            assert store.query() == answer
            store.check_invariants()


@every_form
def test_a_single_event_that_raises_changes_nothing(form: Form) -> None:
    for action in (lambda s: s.insert(2), lambda s: s.evict(), lambda s: s.query()):
        trap = Trap()
        store = filled(form, trapped(aggregate_for(form), trap))
        store.insert(9)
        good = store.snapshot()
        trap.calls_left = 0
        with contextlib.suppress(ZeroDivisionError):
            action(store)
            continue
        trap.calls_left = None
        assert store.snapshot() == good
        store.check_invariants()
        assert len(store) == 6


def test_a_compiled_function_that_raises_stops_the_store() -> None:
    """Compiled kernels work in place. After an exception out of one the store must not answer, until it is restored."""

    def combine(a: int, b: int) -> int:
        if b < 0:
            raise ValueError("negative")
        return a + b

    store = FlatFAT(agg.define("positive_sum", lift=lambda x: x, combine=combine, commutative=True)())
    store.slide(np.arange(1, 9), 8)
    assert store.mode == "compiled" and store.query() == 36
    good = store.snapshot()
    with pytest.raises(ValueError, match="negative"):
        store.slide(np.array([1, 2, 3, -1, 5]), 8)
    for action in (
        lambda: store.query(),
        lambda: store.query(2),
        lambda: store.insert(1),
        lambda: store.insert_many([1]),
        lambda: store.evict(),
        lambda: store.slide([1], 8),
        lambda: store.snapshot(),
    ):
        with pytest.raises(Interrupted, match=r"interrupted by ValueError: negative.*restore it from a snapshot"):
            action()
    assert store.restore(good).query() == 36


def test_the_matrix_of_forms_is_complete() -> None:
    assert {f.store for f in FORMS} == {
        Recompute,
        SubtractOnEvict,
        FlatFAT,
        BInt,
        FlatFIT,
        TwoStacks,
        DABA,
        SlickDequeInv,
        SlickDequeNonInv,
    }
    assert len(forms(agg.sum())) == 9 and len(forms(agg.max())) == 7
