"""A stream through the window, chunk by chunk: plan, answer, then change the tree.

    survey      sort the chunk; plan its answers                     compiled once
    answering   suffixes of the zone, leaves, one answer an event    compiled for the aggregate
    update      evict what went, insert what stays, settle           compiled once
    change      lift into slots, repair                              compiled for the aggregate

The tree takes a whole chunk at once, so a node is repaired once a chunk, however many events fell into it, and a stream in
order builds and frees whole leaves. No answer looks further ahead than its own event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates.evaluation import Answers, Events
from windlass.aggregates.monoid import Columns, Monoid
from windlass.stores.fiba.answering import answer_kernel
from windlass.stores.fiba.changing import change_kernel, machine_code
from windlass.stores.fiba.eviction import evict_up_to
from windlass.stores.fiba.insertion import locate, take_in
from windlass.stores.fiba.nodes import at, put
from windlass.stores.fiba.repair import settle
from windlass.stores.fiba.survey import DIGITS, EVICTED, LEAVES, SURVIVORS, ZONE, older, plan, plan_deep, sort
from windlass.stores.fiba.times import LEAST, Times

if TYPE_CHECKING:
    from windlass.stores.fiba.store import BTree

CHUNK = 1024  # events
_NONE = np.zeros(0, np.int64)


def survey_step(tree: Any, times: Any, begin: Any, n: Any, window: Any, span: Any, newest: Any, out: Any) -> Any:
    order, ops, fronts, starts, pieces, zone, slots, told = out
    sort(times, begin, n, order, ops, fronts)
    return plan(tree, times, begin, n, window, span, newest, out)


def survey_deep_step(
    tree: Any, times: Any, begin: Any, n: Any, window: Any, span: Any, newest: Any, out: Any, more: Any
) -> Any:
    plan_deep(tree, times, begin, n, window, span, newest, out, more)


def older_step(tree: Any, t: Any) -> Any:
    return older(tree, t)


def update_step(tree: Any, times: Any, out: Any, items: Any, gathered: Any, repairs: Any) -> Any:
    """Evict what went and insert what stays. The slots of the events in `order` are left in `ops`."""
    order, ops, fronts, starts, pieces, zone, slots, told = out
    if told[EVICTED] > 0:
        evict_up_to(tree, at(zone, told[EVICTED] - 1))
    n = told[SURVIVORS]
    if n > 0:
        for k in range(n):
            put(fronts, k, at(times, at(order, k)))
        take_in(tree, items, locate(tree, fronts, n, items, ops), gathered)
    return settle(tree, repairs)


class Scratch:
    """Arrays that a chunk needs besides the state, kept from chunk to chunk and made longer where they must be."""

    def __init__(self, monoid: Monoid) -> None:
        self._monoid = monoid
        self._arrays: dict[str, Any] = {}
        self._columns: dict[str, Columns] = {}
        self.told = np.zeros(4, np.int64)

    def integers(self, name: str, length: int) -> Any:
        array = self._arrays.get(name)
        if array is None or len(array) < length:
            array = self._arrays[name] = np.empty(length + (length >> 2), np.int64)
        return array

    def partials(self, name: str, length: int) -> Columns:
        columns = self._columns.get(name)
        if columns is None or len(columns[0]) < length:
            columns = self._columns[name] = self._monoid.allocate(length + (length >> 2))
        return columns


def stream_through(store: BTree, times: Times, events: Events, window: int, span: int, answers: Answers) -> None:
    """Run events through a store's window of so many times, or of a span (the other is 0)."""
    newest = store.youngest()
    newest = LEAST if newest is None else newest
    if len(times):
        if window and len(store) > window:
            store._evict_through(int(store.times()[len(store) - window - 1]))
        elif span and newest >= LEAST + span:
            store._evict_through(newest - span)
    begin, most = 0, min(CHUNK, window) if window else CHUNK
    while begin < len(times):
        n = min(most, len(times) - begin)
        zone = max(0, len(store) + n - window)
        if span:
            newest_then = max(newest, int(times[begin : begin + n].max()))
            zone = machine_code(older_step)(store._tree, newest_then - span) if newest_then >= LEAST + span else 0
        _chunk(store, times, events, begin, n, zone, window, span, newest, answers)
        if span:
            newest = newest_then
        begin += n
    if span:
        store._shrink()


def _chunk(
    store: BTree,
    times: Times,
    events: Events,
    begin: int,
    n: int,
    zone: int,
    window: int,
    span: int,
    newest: int,
    answers: Answers,
) -> None:
    tree, scratch, told = store._tree, store._scratch, store._scratch.told
    told[ZONE] = zone
    length, pieces = max(n, 1 << DIGITS), store.pieces_at_most(n + 1) + zone
    out = (
        *(scratch.integers(name, length) for name in ("order", "ops", "fronts")),
        scratch.integers("starts", 2 * n + zone + 3),
        scratch.integers("pieces", pieces),
        *(scratch.integers(name, zone) for name in ("zone", "slots")),
        told,
    )
    order, ops, fronts, starts, pieces_, _, slots, _ = out
    drop_starts, drops = _NONE, _NONE
    if not machine_code(survey_step)(tree, times, begin, n, window, span, newest, out):
        leaves = zone + n + 1
        more = tuple(
            scratch.integers(name, leaves) for name in ("drop_starts", "drops", "leaf_times", "born", "olds", "bits")
        )
        machine_code(survey_deep_step)(tree, times, begin, n, window, span, newest, out, more)
        drop_starts, drops = more[0], more[1]
    width = 2 << max(0, int(told[LEAVES]) - 1).bit_length()
    plan_ = (ops, fronts, starts, pieces_, told, slots, drop_starts, drops)
    partials = scratch.partials("suffixes", int(told[ZONE])), scratch.partials("leaves", width)
    kernel = store._kernel(answer_kernel)
    store._run(kernel, store._state(), (events, begin, n, plan_, *partials, answers), bulk=True, writes=False)
    if len(store) + n > store.capacity:
        store._reserve(max(min(window or store.capacity * 2, 2 * store.capacity), len(store) + n))
        tree = store._tree
    repairs = scratch.integers("repairs", 2 * store.repairs_at_most(n))
    items = tuple(scratch.integers(name, n + 1) for name in ("item times", "item slots", "rights", "owners"))
    gathered = tuple(scratch.integers(name, n + 2 * store.min_arity) for name in ("g times", "g slots", "g rights"))
    count = machine_code(update_step)(tree, times, out, items, gathered, repairs)
    changed = events[0], events[1], int(told[SURVIVORS])
    store._run(store._kernel(change_kernel), store._state(), (changed, order, ops, repairs, count), bulk=True)
