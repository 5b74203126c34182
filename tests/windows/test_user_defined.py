"""User-defined windows: compiled and interpreted, against a plain simulation; and what their functions may not do."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from windows.streams import Event, Found, Stream, check, run_of, streams

from windlass.errors import InvalidArgument, WrongType
from windlass.windows import DataDriven, Deterministic, NonDeterministic
from windlass.windows.steps import InterpretedWindow
from windlass.windows.window import FOREVER

values = st.integers(0, 4)


# --------------------------------------------------------------------------- the functions under test


def marks_of_value(state: Any, ts: Any, value: Any) -> Any:
    """Windows begin and end as the value and the number of the event have it: none, one or several."""
    k = state[0]
    return (k + 1,), value % 3, (value + k) % 4


def total_passes_ten(state: Any, ts: Any, value: Any) -> Any:
    """Begins a window, and ends the one before, whenever the values since add up to more than ten. Keeps a float and a
    bool besides an integer."""
    total, fresh, n = state
    over = total + value > 10.0
    return (0.0 if over else total + value, over, n + 1), over or n == 0, over


def keep_as_valued(state: Any, ts: Any, value: Any) -> Any:
    """Evicts as many as the value says, every other event, and emits at values above one."""
    return (state[0] + 1,), value if state[0] % 2 else 0, value > 1


def needs_no_state(state: Any, ts: Any) -> Any:
    return (), 1, 1


class _Opaque:
    """What numba cannot compile."""

    def __call__(self, x: Any) -> Any:
        return x


_opaque = _Opaque()


def interpreted_marks(state: Any, ts: Any, value: Any) -> Any:
    return _opaque(marks_of_value(state, ts, value))


def interpreted_total(state: Any, ts: Any, value: Any) -> Any:
    return _opaque(total_passes_ten(state, ts, value))


def interpreted_keep(state: Any, ts: Any, value: Any) -> Any:
    return _opaque(keep_as_valued(state, ts, value))


# --------------------------------------------------------------------------- what they mean


def marked(step: Any, state: Any) -> Any:
    def windows(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        now, waiting, found = state, [], []
        for i, (ts, value) in enumerate(events):
            now, begins, ends = step(now, ts, value)
            found += [(first, i, events[first][0], ts, True) for first in waiting[:ends]]
            waiting = waiting[ends:] + [i] * begins
        return found + [(i, len(events), events[i][0], events[-1][0] + 1, partial) for i in waiting]

    return windows


def kept(step: Any, state: Any) -> Any:
    def windows(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        now, inside, found, emitted = state, [], [], False
        for i, (ts, value) in enumerate(events):
            now, evict, emit = step(now, ts, value)
            inside = [*inside, i][evict:]
            emitted = bool(emit and inside)
            if emitted:
                found.append((inside[0], i + 1, events[inside[0]][0], ts + 1, True))
        if inside and not (partial and emitted):
            found.append((inside[0], len(events), events[inside[0]][0], events[-1][0] + 1, partial))
        return found

    return windows


def ruled(rule: Any) -> Any:
    def windows(events: Sequence[Event], watermark: int, partial: bool) -> list[Found]:
        begun: list[int] = []
        ended: dict[int, int] = {}
        for i, (ts, value) in enumerate(events):
            size, slide = rule(ts, value)
            for first in begun:
                if first not in ended and ts - events[first][0] >= size:
                    ended[first] = i
            if not begun or ts - events[begun[-1]][0] >= slide:
                begun.append(i)
        end = events[-1][0] + 1 if events else 0
        return [
            (i, ended[i], events[i][0], events[ended[i]][0], True)
            if i in ended
            else (i, len(events), events[i][0], end, partial)
            for i in begun
        ]

    return windows


# --------------------------------------------------------------------------- the tests


@given(streams(values))
def test_deterministic(stream: Stream) -> None:
    window = Deterministic(marks_of_value, columns=("value",))
    check(window.bind(None), stream, marked(marks_of_value, (0,)), np.int64, exact_marks=True)


@given(streams(values))
def test_deterministic_with_a_state_of_several_types(stream: Stream) -> None:
    window = Deterministic(total_passes_ten, columns=("value",), state=(0.0, False, 0))
    check(window.bind(None), stream, marked(total_passes_ten, (0.0, False, 0)), np.float64, exact_marks=True)


@given(streams(values))
def test_non_deterministic(stream: Stream) -> None:
    window = NonDeterministic(keep_as_valued, columns=("value",))
    check(window.bind(None), stream, kept(keep_as_valued, (0,)), np.int64)


@pytest.mark.filterwarnings("ignore::windlass.windows.steps.InterpretedWindow")
@given(streams(values))
def test_interpreted(stream: Stream) -> None:
    check(INTERPRETED[0], stream, marked(marks_of_value, (0,)), np.int64)
    check(INTERPRETED[1], stream, marked(total_passes_ten, (0.0, False, 0)), np.float64)
    check(INTERPRETED[2], stream, kept(keep_as_valued, (0,)), np.int64)
    check(INTERPRETED[3], stream, ruled(rule_of_value), np.int64)


def interpreted_rule(ts: Any, value: Any) -> Any:
    return _opaque(rule_of_value(ts, value))


INTERPRETED = [
    Deterministic(interpreted_marks, columns=("value",)).bind(None),
    Deterministic(interpreted_total, columns=("value",), state=(0.0, False, 0)).bind(None),
    NonDeterministic(interpreted_keep, columns=("value",)).bind(None),
    DataDriven(interpreted_rule, columns=("value",)).bind(None),
]


def rule_of_value(ts: Any, value: Any) -> Any:
    return (10, 5) if value > 2 else (3, 2)


@given(streams(values))
def test_data_driven(stream: Stream) -> None:
    window = DataDriven(rule_of_value, columns=("value",))
    check(window.bind(None), stream, ruled(rule_of_value), np.int64, exact_marks=True)


def one_key(ts: Sequence[int], column: Any = None, partial: bool = False) -> tuple[Stream, Any]:
    events = [[(t, None if column is None else column[i]) for i, t in enumerate(ts)]]
    stream = Stream(events, [(FOREVER, [len(ts)])], partial)
    return stream, run_of(stream, [0], [len(ts)], FOREVER, None if column is None else np.asarray(column).dtype)


def bounds(window: Any, run: Any) -> list[tuple[int, int]]:
    bound = window.bind(None)
    _, windows, _ = bound.consume(run, np.zeros((1, bound.width), np.int64), bound.no_carry())
    return list(zip(windows.start.tolist(), windows.end.tolist(), strict=True))


def test_cutty_figure_1() -> None:
    """Ten minutes every five; from minute 25 on, when the price has fallen to 10, five minutes every two.

    minute   0    5    10   15   20   25 27 29   32   35
    price    12 ..........................  9 ...........
             |─────────|
                  |─────────|
                       |─────────|
                            |─────────|
                                 |────|              ends early: what is wanted now is the last five minutes
                                      |────|
                                         |────|
                                            |────|
    """
    minutes = range(36)
    price = [12.0 if minute < 25 else 9.0 for minute in minutes]
    window = DataDriven(lambda ts, price: (10, 5) if price > 10 else (5, 2), columns=("price",))
    _, run = one_key(minutes, price)
    assert bounds(window, run) == [
        (0, 10), (5, 15), (10, 20), (15, 25), (20, 25), (25, 30), (27, 32), (29, 34)
    ]  # fmt: skip


def test_cutty_figure_7() -> None:
    """A count window of range 10 and slide 3; the formula of section 3.2, which holds from the tenth event on."""

    def step(state: Any, ts: Any) -> Any:
        k = state[0]
        return (k + 1,), k % 3 == 0, k >= 10 and (k - 10) % 3 == 0

    _, run = one_key(range(100, 120))
    assert bounds(Deterministic(step), run) == [(100, 110), (103, 113), (106, 116), (109, 119)]


def test_more_ends_than_open_windows_end_them_all() -> None:
    _, run = one_key([1, 2, 3])
    assert bounds(Deterministic(lambda state, ts: (state, 2, 99)), run) == [(1, 2), (1, 2), (2, 3), (2, 3)]


def test_a_function_that_makes_arrays_is_compiled() -> None:
    def step(state: Any, ts: Any) -> Any:
        ends = np.zeros(3, np.int64)
        ends[0] = 1
        return state, 1, ends.sum()

    window = Deterministic(step).bind(None)
    _, run = one_key([1, 2])
    _, windows, _ = window.consume(run, np.zeros((1, window.width), np.int64), window.no_carry())
    assert windows.end.tolist() == [2]
    assert window.steps.reason is None


def test_an_empty_state() -> None:
    _, run = one_key([1, 2, 2, 5])
    assert bounds(Deterministic(needs_no_state, state=()), run) == [(1, 2), (2, 2), (2, 5)]


def test_interpreted_functions_see_plain_numbers_and_any_column() -> None:
    seen = []

    def step(state: Any, ts: Any, text: Any) -> Any:
        seen.append((type(state[0]), type(ts), text))
        return (state[0] + 1,), 1, 1

    bound = Deterministic(step, columns=("text",)).bind(None)
    _, run = one_key([1, 2])
    run.columns = (np.array(["a", "b"], object),)
    with pytest.warns(InterpretedWindow, match="Deterministic\\(step, columns=\\('text',\\)\\) runs interpreted"):
        bound.consume(run, np.zeros((1, bound.width), np.int64), bound.no_carry())
    assert seen == [(int, int, "a"), (int, int, "b")]
    assert "interpreted" in bound.describe()


def test_a_warning_points_at_the_users_line() -> None:
    bound = Deterministic(interpreted_marks, columns=("value",)).bind(None)
    _, run = one_key([1], [1])
    with pytest.warns(InterpretedWindow) as told:
        bound.consume(run, np.zeros((1, bound.width), np.int64), bound.no_carry())
    assert told[0].filename == __file__


CASES: list[tuple[Any, type[Exception], str]] = [
    (Deterministic(lambda s, t: (s, -1, 0)), InvalidArgument, "begins of .* at least 0, got -1 for the event at 7"),
    (Deterministic(lambda s, t: (s, 0, -2)), InvalidArgument, "ends of .* at least 0, got -2"),
    (NonDeterministic(lambda s, t: (s, -1, 0)), InvalidArgument, "evict of .* at least 0"),
    (DataDriven(lambda t: (0, 1)), InvalidArgument, "size of DataDriven.* at least 1, got 0"),
    (DataDriven(lambda t: (1, 0)), InvalidArgument, "slide of DataDriven.* at least 1, got 0"),
    (Deterministic(lambda s, t: ((s[0] + 0.5,), 0, 0)), WrongType, r"state\[0\] .* begins as 0, .* makes it a float"),
    (Deterministic(lambda s, t: (s, 0.5, 0)), WrongType, "begins of .* must be an integer, .* a float"),
    (DataDriven(lambda t: (1.5, 1)), WrongType, "size of .* must be an integer, .* a float"),
    (Deterministic(lambda s, t: (0, 0, 0)), WrongType, "must return .a tuple of 1 number.s. as state, begins, ends."),
    (Deterministic(lambda s, t: ((0, 0), 0, 0)), WrongType, "a tuple of 1 number"),
    (Deterministic(lambda s, t: (s, 0), state=()), WrongType, "must return .* as state, begins, ends"),
    (DataDriven(lambda t: t), WrongType, "must return .size, slide., got 7"),
    (DataDriven(lambda t: (1, 2, 3)), WrongType, "must return .size, slide."),
    (Deterministic(lambda s, t: _opaque((s, 0, 0.5))), WrongType, "ends of .* must be an integer"),
    (Deterministic(lambda s, t: _opaque((("x",), 0, 0))), WrongType, r"state\[0\] .* makes it a str"),
    (Deterministic(lambda s, t: _opaque(((2**63,), 0, 0))), InvalidArgument, "does not fit in 64 bits"),
]


@pytest.mark.filterwarnings("ignore::windlass.windows.steps.InterpretedWindow")
@pytest.mark.parametrize(("window", "error", "message"), CASES)
def test_what_a_function_may_not_do(window: Any, error: type[Exception], message: str) -> None:
    bound = window.bind(None)
    context = np.zeros((1, bound.width), np.int64)
    _, run = one_key([7, 8])
    with pytest.raises(error, match=message):
        bound.consume(run, context, bound.no_carry())
    assert not context.any()


def test_an_exception_of_the_function_leaves_the_context_alone() -> None:
    def step(state: Any, ts: Any) -> Any:
        if ts == 8:
            raise ValueError("no eights")
        return (state[0] + 1,), 1, 0

    bound = Deterministic(step).bind(None)
    context = np.zeros((1, bound.width), np.int64)
    _, run = one_key([7, 8])
    with pytest.raises(ValueError, match="no eights"):
        bound.consume(run, context, bound.no_carry())
    assert not context.any()


def test_the_columns_must_be_those_that_were_asked_for() -> None:
    bound = Deterministic(marks_of_value, columns=("value",)).bind(None)
    _, run = one_key([7])
    with pytest.raises(InvalidArgument, match="takes 1 column"):
        bound.consume(run, np.zeros((1, bound.width), np.int64), bound.no_carry())


def test_bound_windows_pickle() -> None:
    bound = Deterministic(marks_of_value, columns=("value",)).bind(None)
    _, run = one_key([7, 8], [1, 2])
    bound.consume(run, np.zeros((1, bound.width), np.int64), bound.no_carry())
    again = pickle.loads(pickle.dumps(bound))
    context = np.zeros((1, bound.width), np.int64)
    again.consume(run, context, again.no_carry())
    assert context[0, 3] == 2  # the state: how many events there were
