"""Calls of stores that may be interrupted anywhere. What must come out is computed from lists and dicts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from faults.injection import Case

from windlass import agg
from windlass.stores import (
    DABA,
    BInt,
    ClassicBTree,
    FiBA,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDequeInv,
    SlickDequeNonInv,
    SubtractOnEvict,
    TwoStacks,
)

TECHNIQUES = (
    *(Recompute, SubtractOnEvict, FlatFAT, BInt, FlatFIT, TwoStacks, DABA),
    *(SlickDequeInv, SlickDequeNonInv),
)
BEFORE = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]
NEWS = [3, 2, 3, 8, 4, 6]
WINDOWS = [2, 5]


def as_it_is(x: Any) -> Any:
    return x


def added(a: Any, b: Any) -> Any:
    return a + b


def subtracted(a: Any, b: Any) -> Any:
    return a - b


plus = agg.define("plus", lift=as_it_is, combine=added, inverse=subtracted, commutative=True, compile=False)


def snapshot(store: Any) -> Any:
    return store.snapshot()


def query(store: Any) -> Any:
    return store.query()


def restored(store: Any, data: bytes) -> Any:
    return store.restore(data)


REFUSED = (snapshot, copy.copy, copy.deepcopy, pickle.dumps, query)
ALLOWED = (repr, len, lambda store: (store.capacity, store.nbytes, store.mode))


# ---------------------------------------------------------------------- events in order


def answer(technique: Any, values: list[int]) -> int | None:
    return (max(values) if technique is SlickDequeNonInv else sum(values)) if values else None


def in_order(technique: Any, interpreted: bool) -> Iterator[Case]:
    name = technique.__name__ + (", interpreted" if interpreted else "")

    def case(
        what: str, call: Callable[[Any], Any], value: Any, left: list[int], before: list[int] = BEFORE, **options: Any
    ) -> Case:
        def make() -> Any:
            aggregate = agg.max() if technique is SlickDequeNonInv else plus() if interpreted else agg.sum()
            store = technique(aggregate, dtype=np.int64, **options)
            store.insert_many(np.array(before, np.int64))
            return store

        return Case(
            name=f"{what} of {name}",
            make=make,
            call=call,
            read=lambda store: (len(store), store.query()),
            expected=lambda: (value, (len(left), answer(technique, left))),
            save=snapshot,
            restore=restored,
            refused=REFUSED,
            allowed=ALLOWED,
        )

    slid = [answer(technique, (BEFORE + NEWS)[: len(BEFORE) + i + 1][-5:]) for i in range(len(NEWS))]
    rolled = [answer(technique, (BEFORE + NEWS[: i + 1])[2 * (i + 1) :]) for i in range(len(NEWS))]
    many = [[answer(technique, NEWS[: i + 1][-w:]) for w in WINDOWS] for i in range(len(NEWS))]
    yield case("insert, the last that fits,", lambda s: s.insert(7), None, [*BEFORE, 7])
    yield case("insert, which grows,", lambda s: s.insert(7), None, [*BEFORE, 4, 7], [*BEFORE, 4])
    yield case("insert_many", lambda s: s.insert_many(np.array(NEWS)), None, BEFORE + NEWS)
    yield case("evict", lambda s: s.evict(), None, BEFORE[1:])
    yield case("evict, many,", lambda s: s.evict(13), None, BEFORE[13:])
    yield case("slide", lambda s: list(s.slide(np.array(NEWS), 5)), slid, (BEFORE + NEWS)[-5:])
    two = np.full(len(NEWS), 2)
    yield case("slide by evictions", lambda s: list(s.slide(np.array(NEWS), evictions=two)), rolled, BEFORE[12:] + NEWS)
    yield case("query", lambda s: s.query(), answer(technique, BEFORE), BEFORE)
    yield case("restore", broken_and_restored(BEFORE), None, BEFORE)
    if technique.answers_ranges:
        known = {"windows": WINDOWS} if technique is SlickDequeInv else {}
        slide = lambda s: s.slide(np.array(NEWS), windows=WINDOWS).tolist()  # noqa: E731
        yield case("slide of several windows", slide, many, NEWS[-5:], [], **known)


def broken_and_restored(values: list[int]) -> Callable[[Any], None]:
    """Restore a store that is broken, and so gives no snapshot."""
    data: dict[str, bytes] = {}

    def restore(store: Any) -> None:
        if "snapshot" not in data:
            data["snapshot"] = store.snapshot()  # in the parent: a child inherits it
        store.restore(data["snapshot"])

    return restore


# ---------------------------------------------------------------------- events by time

HELD = {2 * i: i for i in range(20)}
LATE = [(41, 100), (3, 200), (5, 300), (4, 400), (6, 500)]


def by_time(technique: type[FiBA | ClassicBTree], interpreted: bool = False) -> Iterator[Case]:
    name = technique.__name__ + (", interpreted" if interpreted else "")

    def case(
        what: str,
        call: Callable[[Any], Any],
        value: Any,
        left: dict[int, int],
        prepare: Callable[[Any], Any] = lambda store: None,
    ) -> Case:
        def make() -> FiBA | ClassicBTree:
            store = technique(plus() if interpreted else agg.sum(), min_arity=2, dtype=np.int64)
            store.bulk_insert(np.array(list(HELD)), np.array(list(HELD.values())))
            prepare(store)
            return store

        return Case(
            name=f"{what} of {name}",
            make=make,
            call=call,
            read=lambda store: (store.times().tolist(), store.query(), store.query(5, 33)),
            expected=lambda: (
                value,
                (sorted(left), sum(left.values()), sum(v for t, v in left.items() if 5 <= t < 33) or None),
            ),
            save=snapshot,
            restore=restored,
            refused=(*REFUSED, lambda s: s.times(), lambda s: s.oldest(), lambda s: 4 in s, lambda s: list(s)),
            allowed=(*ALLOWED, lambda s: (s.height, s.rows, s.counts)),
        )

    times, values = (np.array(column) for column in zip(*LATE, strict=True))
    grown, news, after = dict(HELD), range(42, 58, 2), []
    for t, v in LATE:
        grown[t] = grown.get(t, 0) + v
    streamed = dict(HELD)
    for t in news:
        streamed[t] = 1
        streamed = dict(sorted(streamed.items())[-12:])
        after.append(sum(streamed.values()))
    ascending = np.arange(42, 58, 2)
    spanned, parts = dict(HELD), []
    for t in news:
        spanned[t] = 1
        spanned = {x: v for x, v in spanned.items() if x > t - 15}
        parts.append((sum(spanned.values()), sum(v for x, v in spanned.items() if x > t - 5)))
    left = {t: v for t, v in HELD.items() if t >= 10}
    warm = lambda store: (store.bulk_insert([8], [0]), store.bulk_evict(1))  # noqa: E731
    now = {t: v for t, v in HELD.items() if t >= 1}
    yield case("insert", lambda s: s.insert(7, 70), None, HELD | {7: 70})
    yield case("evict", lambda s: s.evict(8), True, {t: v for t, v in HELD.items() if t != 8})
    yield case("bulk_insert", lambda s: s.bulk_insert(times, values), None, grown)
    yield case("bulk_evict", lambda s: s.bulk_evict(10), 5, left)
    ones = np.ones(8, np.int64)
    yield case("stream", lambda s: list(s.stream(ascending, ones, window=12)), after, streamed)
    if technique is ClassicBTree:
        return
    yield case("insert, of a time that is there,", lambda s: s.insert(8, 70), None, HELD | {8: 74})
    yield case("bulk_insert, once more,", lambda s: s.bulk_insert(ascending, ascending * 0), None,
               now | dict.fromkeys(news, 0), warm)  # fmt: skip
    yield case("bulk_evict, which shrinks,", lambda s: s.bulk_evict(34), 17, {t: HELD[t] for t in (34, 36, 38)})
    yield case("bulk_evict, once more,", lambda s: s.bulk_evict(10), 4, left, warm)
    yield case("query after bulk_evict", lambda s: s.query(12, 20), 6 + 7 + 8 + 9, left, lambda s: s.bulk_evict(10))
    yield case(
        "stream of a span and its part",
        lambda s: list(zip(*(a.tolist() for a in s.stream(ascending, ones, span=15, last=[5])), strict=True)),
        parts,
        spanned,
    )
    yield case("restore", broken_and_restored([]), None, HELD)


CASES = [
    *(case for technique in TECHNIQUES for case in in_order(technique, interpreted=False)),
    *(case for technique in (FlatFIT, SubtractOnEvict) for case in in_order(technique, interpreted=True)),
    *by_time(FiBA),
    *by_time(FiBA, interpreted=True),
    *by_time(ClassicBTree),
]
