"""The loops around a technique, written once for all of them.

A technique is a few functions over `(ring, links, h)`: `ring` holds partials as columns, `links` integers beside
them, and `h` is the rest of the state as one tuple that begins with `(head, size, …)`. Between calls the integers of
`h` rest in `header` and its partials in `slots`; `state` is `(header, slots, ring, links)`. `events` are `(columns,
validity, number)`. A round is evict, insert, query. Because `h` is a value and not an object, the compiled loop below
keeps it in registers, and because the loop calls the very functions that single events go through, the bulk form of a
technique *is* the technique: the same ⊕ calls, the same state left behind.

Each `…_kernel` returns a plain function; the store compiles it or runs it as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from windlass.aggregates.evaluation import answer, lifted
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, state_accessors

Function = Callable[..., Any]


def wrap(ring: Any, p: Any) -> Any:
    """A position behind the ring's end is one at its beginning."""
    return p - len(ring[0]) if p >= len(ring[0]) else p


def always_room(ring: Any, links: Any, h: Any) -> Any:
    """Most techniques keep every partial of the window, so a ring of the window's size always has room."""
    return True


def no_run(ring: Any, links: Any, h: Any, events: Any, i: Any, answers: Any) -> Any:
    """Most techniques have no straight stretch of rounds worth a loop of its own."""
    return i, h


class Technique(NamedTuple):
    """What an algorithm brings. `x` and what the queries return are partials.

    insert(ring, links, h, x) -> h       append the youngest
    evict(ring, links, h) -> h           remove the oldest; never called when empty
    query(ring, links, h) -> x           combine the whole window; never called when empty
    suffix(ring, links, h, q, r) -> x    combine the youngest r <= size; this is query number q of its round
    room(ring, links, h) -> bool         whether one more insert fits
    run(…) -> i, h                       do a stretch of rounds on a full window at once, or none
    """

    insert: Function
    evict: Function
    query: Function
    suffix: Function | None = None
    room: Function = always_room
    run: Function = no_run


class Parts(NamedTuple):
    """A technique joined with the monoid's functions: what the kernels close over."""

    monoid: Monoid
    technique: Technique
    load: Function
    store: Function
    begin: Function
    end: Function
    lifted: Function
    answer: Function
    stream_answer: Function  # the same past the cache: for answers that outgrow it


def parts(m: Monoid, technique: Technique, integers: int, running: int) -> Parts:
    load, store = accessors(m.fields)
    begin, end = state_accessors(integers, running, load, store)
    return Parts(m, technique, load, store, begin, end, lifted(m), answer(m), answer(m, streaming=True))


def insert_kernel(p: Parts) -> Function:
    insert, room = p.technique.insert, p.technique.room
    begin, end, lift_at = p.begin, p.end, p.lifted

    def insert_many(state: Any, events: Any, i: Any) -> Any:
        header, slots, ring, links = state
        h = begin(header, slots)
        while i < events[2] and room(ring, links, h):
            h = insert(ring, links, h, lift_at(events, i))
            i += 1
        end(header, slots, h)
        return i

    return insert_many


def evict_kernel(p: Parts) -> Function:
    evict, begin, end = p.technique.evict, p.begin, p.end

    def evict_many(state: Any, count: Any) -> Any:
        header, slots, ring, links = state
        h = begin(header, slots)
        for _ in range(count):
            h = evict(ring, links, h)
        end(header, slots, h)

    return evict_many


def query_kernel(p: Parts) -> Function:
    query, begin, answer_at = p.technique.query, p.begin, p.answer

    def query_one(state: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        answer_at(answers, 0, query(ring, links, begin(header, slots)))

    return query_one


def suffix_kernel(p: Parts) -> Function:
    suffix, begin, answer_at = p.technique.suffix, p.begin, p.answer
    assert suffix is not None

    def query_suffixes(state: Any, ranges: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        h = begin(header, slots)
        for q in range(len(ranges)):
            answer_at(answers, q, suffix(ring, links, h, q, min(ranges[q], h[1])))

    return query_suffixes


def slide_kernel(p: Parts) -> Function:
    """A window that holds at most `window` events slides over the events: one answer a round. Returns how many rounds
    fitted."""
    insert, evict, query, _, room, run = p.technique
    begin, end, lift_at, answer_at = p.begin, p.end, p.lifted, p.answer

    def slide(state: Any, events: Any, i: Any, window: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        n = events[2]
        h = begin(header, slots)
        while i < n and h[1] < window and room(ring, links, h):
            h = insert(ring, links, h, lift_at(events, i))
            answer_at(answers, i, query(ring, links, h))
            i += 1
        while i < n and h[1] == window:
            h = evict(ring, links, h)
            if not room(ring, links, h):  # what leaves may make the room that what comes needs
                break
            h = insert(ring, links, h, lift_at(events, i))
            answer_at(answers, i, query(ring, links, h))
            i, h = run(ring, links, h, events, i + 1, answers)
        end(header, slots, h)
        return i

    return slide


def slide_many_kernel(p: Parts) -> Function:
    """Answers for several ranges at each slide: of k queries, query q of round i goes to row i·k + q."""
    insert, evict, _, suffix, room, _ = p.technique
    begin, end, lift_at, answer_at = p.begin, p.end, p.lifted, p.answer
    assert suffix is not None

    def slide_many(state: Any, events: Any, i: Any, windows: Any, longest: Any, scratch: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        h = begin(header, slots)
        while i < events[2]:
            if h[1] == longest:
                h = evict(ring, links, h)
            if not room(ring, links, h):
                break
            h = insert(ring, links, h, lift_at(events, i))
            for q in range(len(windows)):
                answer_at(answers, i * len(windows) + q, suffix(ring, links, h, q, min(windows[q], h[1])))
            i += 1
        end(header, slots, h)
        return i

    return slide_many


def roll_kernel(p: Parts) -> Function:
    """A window of varying size: round i evicts `evictions[i]` events, inserts one and queries."""
    insert, evict, query, _, room, _ = p.technique
    begin, end, lift_at, answer_at = p.begin, p.end, p.lifted, p.answer

    def roll(state: Any, events: Any, i: Any, evictions: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        h = begin(header, slots)
        while i < events[2]:
            for _ in range(evictions[i]):
                h = evict(ring, links, h)
            if not room(ring, links, h):
                evictions[i] = 0  # done; the round goes on when there is room
                break
            h = insert(ring, links, h, lift_at(events, i))
            answer_at(answers, i, query(ring, links, h))
            i += 1
        end(header, slots, h)
        return i

    return roll
