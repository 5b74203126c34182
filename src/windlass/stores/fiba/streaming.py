"""A stream through the window, chunk by chunk: plan, answer, then change the tree.

    plan_step       sort the chunk; plan its answers; evict what goes, insert what stays         compiled once
    stream_kernel   suffixes of the zone, leaves, one answer an event; lift into slots, repair   for each aggregate

The tree takes a whole chunk at once, so a node is repaired once a chunk, however many events fell into it, and a stream
in order builds and frees whole leaves. No answer looks further ahead than its own event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates.evaluation import Answers, Events
from windlass.aggregates.monoid import Monoid
from windlass.stores.fiba.answering import answering
from windlass.stores.fiba.changing import changing, machine_code, quick
from windlass.stores.fiba.deep import plan_deep
from windlass.stores.fiba.eviction import evict_up_to
from windlass.stores.fiba.insertion import locate, take_in
from windlass.stores.fiba.nodes import SIZE, at, put
from windlass.stores.fiba.repair import settle
from windlass.stores.fiba.staging import stages_of, staging
from windlass.stores.fiba.survey import (
    DEEP,
    DIGITS,
    EVICTED,
    SURVIVORS,
    ZONE,
    enter_part,
    enter_zone,
    older,
    plan,
    sort,
)
from windlass.stores.fiba.times import LEAST, Times

if TYPE_CHECKING:
    from windlass.stores.fiba.store import BTree

CHUNK = 1024  # events
_SMALL = 256  # below this, a chunk is longer than its window, and deep
_FEW, _MANY = 4 * _SMALL, 4 * CHUNK  # times of windows of which a chunk is so much that shorter ones may be less deep


def carve(arena: Any, told: Any) -> Any:
    """The arrays of a chunk, in one: a kernel that is handed few arrays is called sooner."""
    length, zone, leaves, pieces, gathered = told[4], told[5], told[6], told[7], told[8]
    a = length
    order, ops, fronts, new = arena[:a], arena[a : 2 * a], arena[2 * a : 3 * a], arena[3 * a : 4 * a]
    items = arena[4 * a : 5 * a], arena[5 * a : 6 * a], arena[6 * a : 7 * a], arena[7 * a : 8 * a]
    sorted_ = arena[8 * a : 9 * a]
    a = 9 * length
    gather = (
        arena[a : a + gathered],
        arena[a + gathered : a + 2 * gathered],
        arena[a + 2 * gathered : a + 3 * gathered],
    )
    a += 3 * gathered
    times, slots = arena[a : a + zone], arena[a + zone : a + 2 * zone]
    a += 2 * zone
    starts = arena[a : a + leaves]
    drop_starts, drops = arena[a + leaves : a + 2 * leaves], arena[a + 2 * leaves : a + 3 * leaves]
    leaf_times, born = arena[a + 3 * leaves : a + 4 * leaves], arena[a + 4 * leaves : a + 5 * leaves]
    olds, bits = arena[a + 5 * leaves : a + 6 * leaves], arena[a + 6 * leaves : a + 7 * leaves]
    a += 7 * leaves
    out = order, ops, fronts, starts, arena[a : a + pieces], times, slots, told
    more = drop_starts, drops, leaf_times, born, olds, bits
    return out, more, items, new, sorted_, gather, arena[a + pieces :]


def plan_step(
    tree: Any, times: Any, begin: Any, n: Any, window: Any, span: Any, newest: Any, arena: Any, told: Any
) -> Any:
    """Plan a chunk and change the tree; returns how many nodes to repair, or -1 if the chunk is deep and nothing was
    done. The plan names slots and rows, whose partials are overwritten only after the answers."""
    out, more, items, new, sorted_, gather, repairs = carve(arena, told)
    strictly = sort(times, begin, n, out[0], out[1], out[2])
    node, i = enter_zone(tree, out[5], out[6], told[ZONE])
    taken = plan(tree, times, begin, n, strictly, window, span, newest, out, node, i, items, new, True)
    told[DEEP] = taken < 0
    if taken < 0:
        return taken
    take_in(tree, items, taken, gather)
    if told[EVICTED] > 0:
        evict_up_to(tree, at(out[5], told[EVICTED] - 1))
    return settle(tree, repairs)


def deep_step(
    tree: Any, times: Any, begin: Any, n: Any, window: Any, span: Any, newest: Any, arena: Any, told: Any
) -> Any:
    """The same for a deep chunk, which was sorted already."""
    out, more, items, new, sorted_, gather, repairs = carve(arena, told)
    node, i = enter_zone(tree, out[5], out[6], told[ZONE])
    plan_deep(tree, times, begin, n, window, span, newest, out, more, node, i)
    if told[EVICTED] > 0:
        evict_up_to(tree, at(out[5], told[EVICTED] - 1))
    if told[SURVIVORS] > 0:
        for k in range(told[SURVIVORS]):
            put(sorted_, k, at(times, at(out[0], k)))
        taken = locate(tree, sorted_, told[SURVIVORS], False, items, new)
        take_in(tree, items, taken, gather)
    return settle(tree, repairs)


def part_step(
    tree: Any, times: Any, begin: Any, n: Any, evicted: Any, last: Any, newest: Any, arena: Any, told: Any
) -> Any:
    """Plan a chunk's answers over the last part of the window, and leave the tree as it is. Returns 1 if the zone is
    too short, -1 if up to `evicted` times may go that belong to the part."""
    out, more, items, new, sorted_, gather, repairs = carve(arena, told)
    zone, slots = out[5], out[6]
    strictly = sort(times, begin, n, out[0], out[1], out[2])
    newest_then = max(newest, at(times, at(out[0], n - 1)))
    first, until = LEAST, LEAST
    if newest >= LEAST + last:
        first = newest - last + 1
    if newest_then >= LEAST + last:
        until = newest_then - last
    if evicted > 0:
        enter_zone(tree, zone, slots, evicted)
        if at(zone, evicted - 1) >= first:
            return -1
    node, i, told[ZONE] = enter_part(tree, first, until, zone, slots)
    if told[ZONE] < 0:
        return 1
    taken = plan(tree, times, begin, n, strictly, 0, last, newest, out, node, i, items, new, False)
    told[DEEP] = taken < 0
    if taken < 0:
        plan_deep(tree, times, begin, n, 0, last, newest, out, more, node, i)
    return 0


def part_kernel(m: Monoid) -> Any:
    """Answer a chunk."""
    answer_chunk = answering(m)

    def answer_part(
        state: Any, events: Any, begin: Any, n: Any, arena: Any, told: Any, partials: Any, answers: Any
    ) -> Any:
        out, more, items, new, sorted_, gather, repairs = carve(arena, told)
        answer_chunk(state, events, begin, n, out, more, partials, answers)

    return answer_part


def older_step(tree: Any, t: Any) -> Any:
    return older(tree, t)


def stream_kernel(m: Monoid) -> Any:
    """Answer a chunk, then lift it into its slots and repair."""
    event_at = staging(m)[1]

    def lift_at(chunk: Any, i: Any) -> Any:
        events, begin, stages = chunk
        return event_at(events, begin, i - begin, stages)

    answer_chunk, change = answering(m), changing(m, lift_at)

    def stream(
        state: Any, events: Any, begin: Any, n: Any, arena: Any, told: Any, partials: Any, answers: Any, count: Any
    ) -> Any:
        out, more, items, new, sorted_, gather, repairs = carve(arena, told)
        answer_chunk(state, events, begin, n, out, more, partials, answers)
        change(state, (events, begin, partials[2]), out[0], new, told[SURVIVORS], repairs, count)

    return stream


class Scratch:
    """Room for a chunk, kept from chunk to chunk until the tree gets other arrays: long enough for the worst there can
    be. What is not used of it is never touched, and so takes no memory."""

    def __init__(self, store: BTree, chunk: int, zone: int) -> None:
        self.chunk, self.zone = chunk, zone
        length, leaves, gathered = max(chunk + 1, 1 << DIGITS), zone + 2 * chunk + 3, chunk + 2 * store.min_arity
        pieces = store.rows + store.capacity
        self.told = np.array([0, 0, 0, 0, length, zone, leaves, pieces, gathered, 0], np.int64)
        words = 9 * length + 3 * gathered + 2 * zone + 7 * leaves + pieces + 2 * store.rows + 2
        self.arena = np.empty(words, np.int64)
        nodes, allocate = 2 << (leaves - 1).bit_length(), store._bound.allocate
        # suffixes of the zone; leaves, and what is above them
        self.partials = allocate(zone), allocate(nodes), stages_of(store._bound, chunk)


def stream_through(
    store: BTree,
    times: Times,
    events: Events,
    window: int,
    span: int,
    answers: Answers,
    lasts: Sequence[tuple[int, Answers]] = (),
) -> None:
    """Run events through a store's window of so many times, or of a span (the other is 0); with answers over the last
    part of the window, too."""
    total = len(times)
    if window and total and len(store) > window:
        store._evict_through(int(store._live()[0][len(store) - window - 1]))
    if window and not lasts:
        _through_window(store, times, events, total, window, answers)
        return
    youngest = store._youngest()
    newest = LEAST if youngest is None or window == 1 else youngest
    if total and span and newest >= LEAST + span:
        store._evict_through(newest - span)
    store._settle()
    # Parts are answered on the tree as it was: none of the chunk's own events may have gone.
    begin, most = 0, min(CHUNK, window) if window else CHUNK
    while begin < total:
        n = min(most, total - begin)
        size, zone, newest_then = len(store), 0, max(newest, int(times[begin : begin + n].max()))
        if window:
            zone = min(size, max(0, size + n - window))
        elif newest_then >= LEAST + span:
            zone = machine_code(older_step)(store._tree, newest_then - span)
        if size + n > store.capacity:
            store._reserve(max(size + n, 2 * store.capacity))
        chunk, evicted = (begin, n), zone if window else 0
        parts = enumerate(lasts)
        missed = [part for part in parts if not _part(store, times, events, chunk, evicted, newest, part)]
        if missed and n > 1:  # of times that may go: event by event
            most = 1
            continue
        _chunk(store, times, events, (begin, n, window, span, newest), zone, answers)
        for _, (last, found) in missed:
            store._answer_range(max(LEAST, newest_then - last + 1), found, begin)
        newest = newest_then if window != 1 else LEAST  # a window of one time leaves even its youngest behind
        begin += n
    if span:
        store._shrink()


def _through_window(store: BTree, times: Times, events: Events, total: int, window: int, answers: Answers) -> None:
    """The same for a window of so many times without parts. A chunk's events take little longer than what Python does
    for it, so it does nothing here that could be left out."""
    if not store._is_settled:
        store._settle()
    begin, most, head = 0, window if _SMALL <= window < CHUNK else CHUNK, store._head
    while begin < total:
        n = total - begin if total - begin < most else most
        size = head.item(SIZE)
        if size + n > store._capacity:
            store._reserve(max(size + n, 2 * store._capacity))
        zone = min(size, size + n - window) if size + n > window else 0
        shorter = n > _SMALL and _FEW <= window <= _MANY  # if it is deep: with less of a zone it may not be
        if _chunk(store, times, events, (begin, n, window, 0, LEAST), zone, answers, unless_deep=shorter):
            begin += n
        else:
            most = _SMALL


def _chunk(
    store: BTree, times: Times, events: Events, what: Any, zone: int, answers: Answers, unless_deep: bool = False
) -> bool:
    """Plan, answer and change. False if nothing was done, because the chunk is deep and should not be."""
    begin, n = what[:2]
    scratch = _scratch(store, 0, n, zone)
    arena, told, head, nodes = scratch.arena, scratch.told, store._head, store._nodes
    tree, state = (head, nodes, store._free), (head, nodes, store._ring, store._aggregates)
    told[ZONE] = zone
    known = store._quick.get(stream_kernel)
    plan_it = machine_code(plan_step) if known is None else store._quick[plan_step]
    count = plan_it(tree, times, *what, arena, told)
    if count < 0:
        if unless_deep:
            return False
        count = machine_code(deep_step)(tree, times, *what, arena, told)
    if known is None:
        kernel = store._kernel(stream_kernel)
        arguments = events, begin, n, arena, told, scratch.partials, answers, count
        store._run(kernel, state, arguments, bulk=True)
        if store._bound.is_compiled:
            store._quick[plan_step], store._quick[stream_kernel] = quick(machine_code(plan_step)), quick(kernel)
        return True
    known(state, events, begin, n, arena, told, scratch.partials, answers, count)
    return True


def _scratch(store: BTree, number: int, n: int, zone: int) -> Scratch:
    """One for the window, and one for each part of it."""
    kept = store._scratch
    while len(kept) <= number:
        kept.append(Scratch(store, CHUNK, CHUNK))
    scratch: Scratch = kept[number]
    if n > scratch.chunk or zone > scratch.zone:
        scratch = kept[number] = Scratch(store, max(n, CHUNK), max(zone, CHUNK))
    return scratch


def _part(
    store: BTree,
    times: Times,
    events: Events,
    chunk: tuple[int, int],
    evicted: int,
    newest: int,
    part: tuple[int, tuple[int, Answers]],
) -> bool:
    """Answer a chunk over the last part of the window, before the tree changes; False if that cannot be told yet."""
    number, (last, answers) = part
    zone = max(evicted, CHUNK)
    while True:
        scratch = _scratch(store, number + 1, chunk[1], zone)
        found = machine_code(part_step)(store._tree, times, *chunk, evicted, last, newest, scratch.arena, scratch.told)
        if found <= 0:
            break
        zone = 4 * scratch.zone
    if found < 0:
        return False
    arguments = events, *chunk, scratch.arena, scratch.told, scratch.partials, answers
    store._run(store._kernel(part_kernel), store._state(), arguments, bulk=True, writes=False)
    return True
