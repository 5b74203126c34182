"""Stores after exceptions that are not about their events, and with times that are far away."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windlass import agg
from windlass.errors import Busy, Interrupted, WrongType
from windlass.formats import arrays, record
from windlass.stores import DABA, ClassicBTree, FiBA, FlatFIT, SlickDeque, TwoStacks, bound, snapshot

FAR = 2**61


@pytest.mark.parametrize("error", [MemoryError("no room"), pa.lib.ArrowMemoryError("no room")])
@pytest.mark.parametrize(
    "where", [(record, "open_container"), (snapshot, "_types_of"), (arrays, "decode")], ids=lambda where: where[1]
)
def test_restoring_without_memory_says_nothing_of_damage(
    monkeypatch: pytest.MonkeyPatch, error: Exception, where: tuple[Any, str]
) -> None:
    store = TwoStacks(agg.concat())
    store.insert("a")
    data = store.snapshot()

    def fail(*arguments: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(*where, fail)
        with pytest.raises(type(error)):
            store.restore(data)
    store.insert("b")  # it is as it was
    assert store.query() == "ab"
    assert store.restore(data).query() == "a"


def test_an_interrupted_store_refuses_everything_until_it_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DABA(agg.sum(), dtype=np.int64)
    store.insert_many([1, 2, 3])
    data = store.snapshot()

    def interrupted(*arguments: Any, **options: Any) -> Any:
        call(*arguments, **options)
        raise KeyboardInterrupt

    call = bound.Bound._run
    with monkeypatch.context() as patched:
        patched.setattr(bound.Bound, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.insert(4)
    for look in (lambda s: s.insert(4), lambda s: s.evict(), lambda s: s.query(), lambda s: s.snapshot(), copy.copy):
        with pytest.raises(Interrupted, match=r"interrupted by KeyboardInterrupt, .*restore it from a snapshot"):
            look(store)
    with pytest.raises(Interrupted):
        pickle.dumps(store)
    assert repr(store).startswith("<DABA sum(): ")
    assert store.restore(data).query() == 6


def test_memory_that_runs_out_while_the_state_is_copied_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = agg.define("plain", lift=lambda x: x, combine=lambda a, b: a + b, compile=False)
    store = DABA(plain(), dtype=np.int64)
    store.insert_many([1, 2, 3])

    def fail(_: Any) -> Any:
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(DABA, "_copies", fail)
        with pytest.raises(MemoryError, match="no room"):
            store.insert_many([4, 5])
    store.insert_many([4, 5])
    assert store.query() == 15


def test_a_call_with_arguments_that_it_does_not_have_changes_nothing() -> None:
    store = FlatFIT(agg.sum())
    store.insert(1)
    with pytest.raises(TypeError):
        store.slide([1], 3, 4)
    with pytest.raises(TypeError):
        store.evict(number=1)
    assert store.query() == 1


@pytest.mark.parametrize("make", [TwoStacks, FlatFIT, SlickDeque])
def test_a_combine_that_asks_its_own_store_is_refused(make: Any) -> None:
    refused = []

    def combine(a: int, b: int) -> int:
        for call in (
            lambda: store.insert(1),
            lambda: store.query(),
            lambda: store.snapshot(),
            lambda: store.restore(b""),
        ):
            with pytest.raises(Busy, match="one call at a time"):
                call()
            refused.append(1)
        return a + b

    nosy = agg.define("nosy", lift=lambda x: x, combine=combine, inverse=lambda a, b: a - b, compile=False)
    store = make(nosy())
    store.insert_many([1, 2, 3])
    assert store.query() == 6
    assert refused


def test_a_refusal_out_of_a_user_s_function_leaves_the_store_as_it_was() -> None:
    def combine(a: int, b: int) -> int:
        if b == 13:
            raise WrongType("thirteen")
        return a + b

    unlucky = agg.define("unlucky", lift=lambda x: x, combine=combine, compile=False)
    store, tree = TwoStacks(unlucky()), FiBA(unlucky())
    store.insert_many([1, 2])
    tree.bulk_insert([1, 2], [1, 2])
    for call in (lambda: store.insert(13), lambda: store.insert_many([3, 13]), lambda: store.slide([3, 13], 2)):
        with pytest.raises(WrongType, match="thirteen"):
            call()
        assert (len(store), store.query()) == (2, 3)
    for change in (lambda: tree.insert(2, 13), lambda: tree.bulk_insert([0, 2], [1, 13])):
        with pytest.raises(WrongType, match="thirteen"):
            change()
        assert (list(tree), tree.query()) == ([1, 2], 3)


@pytest.mark.parametrize("make", [DABA, FiBA])
def test_of_calls_of_four_threads_each_counts_or_is_refused(make: Any) -> None:
    store = make(agg.sum(), dtype=np.int64)
    store.insert(*([0, 1] if make is FiBA else [1]))
    accepted = [0] * 4

    def insert(thread: int) -> None:
        for i in range(500):
            with contextlib.suppress(Busy):
                if make is FiBA:
                    store.bulk_insert([4 * i + thread + 1, 0], [1, 1])
                else:
                    store.insert_many([1, 1])
                accepted[thread] += 2

    threads = [threading.Thread(target=insert, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.query() == 1 + sum(accepted)
    store.check_invariants()


@pytest.mark.parametrize("make", [FiBA, ClassicBTree])
def test_one_far_event_costs_nothing(make: Any) -> None:
    near, far = (make(agg.sum(), dtype=np.int64) for _ in range(2))
    for tree, last in ((near, 1), (far, FAR)):
        tree.bulk_insert([0, last], [1, 2])
        tree.insert(-last, 4)
        assert tree.query() == 7
        assert tree.query(last, last + 1) == 2
        assert tree.bulk_evict(0) == 1
        assert list(tree.stream([last, 0], [1, 1], span=FAR)) == [4 if last == 1 else 3, 5 if last == 1 else 3]
    assert far.nbytes == near.nbytes
