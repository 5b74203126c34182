"""Running a user's function over the events of a run: compiled if numba can, otherwise the same source interpreted.

The function is `step(state, ts, *values) -> (state, a, b)`: it sees the events of a key in order and hands its state on
from one to the next. The state is a tuple of numbers, whose types are those of the initial state; between runs it
rests in the key's context, one word a number, floats by their bits.

Running the function is all that is specialised for it. What a and b mean is another kernel's matter, which reads
them as columns and is compiled once for all functions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from windlass.errors import InvalidArgument, WrongType
from windlass.kernels import CannotCompile, Field, accessors, compiled
from windlass.kernels.compilation import exact_bool, exact_float64, exact_int64
from windlass.windows.window import Array, Run, Window

__all__ = ["InterpretedWindow", "Number", "Steps", "state_types"]

Number = bool | int | float

_EXACT = {"bool": exact_bool, "int64": exact_int64, "float64": exact_float64}
_ANSWERS = 1000  # the place of the first answer; those of the state come before
# Numba's words for a function that makes arrays or lists while that is switched off.
_NEEDS_MEMORY = ("NRT required", "Only accept returning of array passed")


class InterpretedWindow(UserWarning):
    """A window's function does not compile, so it runs interpreted: correct, but slower."""


def state_types(window: str, state: Any) -> tuple[str, ...]:
    """The types of the numbers of an initial state, by the names that NumPy has for them."""
    if not isinstance(state, tuple):
        raise WrongType(f"the state of {window} must be a tuple of numbers such as (0,), got {state!r}")
    types = []
    for k, value in enumerate(state):
        if isinstance(value, bool | np.bool_):
            types.append("bool")
        elif isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
            if not -(2**63) <= value < 2**63:
                raise InvalidArgument(f"state[{k}] of {window} does not fit in 64 bits: {value!r}")
            types.append("int64")
        elif isinstance(value, float | np.floating):
            types.append("float64")
        else:
            raise WrongType(f"the state of {window} must be a tuple of numbers, but state[{k}] is {value!r}")
    return tuple(types)


class Steps:
    """A step function, its initial state, and the names and the least value of its two answers. Without a state it is a
    rule, which neither takes nor returns one: `rule(ts, *values) -> (a, b)`."""

    def __init__(
        self,
        window: Window,
        step: Callable[..., Any],
        state: tuple[Number, ...] | None,
        answers: tuple[str, str],
        least: int,
    ) -> None:
        self.window, self.step, self.answers, self.least = str(window), step, answers, least
        self.values = len(window.columns)
        self.is_rule, self.state = state is None, state or ()
        self.types = state_types(self.window, self.state)
        self.reason: str | None = None  # why it runs interpreted
        self._kernel: Callable[..., Any] | None = None
        self._allocates = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kernel": None}  # another process compiles, or finds, its own

    def take(self, run: Run, context: Array, seen: int, first: int) -> tuple[Array, Array]:
        """The answers for each event of the run. The states in the words of `context` from `first` on move on; the word
        `seen` says which keys have one."""
        if len(run.columns) != self.values:
            raise InvalidArgument(f"{self.window} takes {self.values} column(s), got {len(run.columns)}")
        answers = np.empty(len(run.ts), np.int64), np.empty(len(run.ts), np.int64)
        if len(run.ts) == 0:
            return answers
        state = self._states(context[run.keys], seen, first)
        self._run(run, state, answers)
        for name, answer in zip(self.answers, answers, strict=True):
            for i in np.flatnonzero(answer < self.least)[:1]:
                wanted = f"{name} of {self.window} must be at least {self.least}"
                raise InvalidArgument(f"{wanted}, got {answer[i]} for the event at {run.ts[i]}")
        for k, column in enumerate(state):  # only now, when nothing can fail any more
            context[run.keys, first + k] = column if column.dtype == np.bool_ else column.view(np.int64)
        return answers

    def _states(self, words: Array, seen: int, first: int) -> tuple[Array, ...]:
        new = words[:, seen] == 0
        columns = []
        for k, (type_, initial) in enumerate(zip(self.types, self.state, strict=True)):
            bits = np.ascontiguousarray(words[:, first + k])
            column: Array = bits != 0 if type_ == "bool" else bits.view(type_)
            column[new] = initial
            columns.append(column)
        return tuple(columns)

    def _run(self, run: Run, state: tuple[Array, ...], answers: tuple[Array, Array]) -> None:
        if self.reason is None and any(column.dtype.kind not in "biuf" for column in run.columns):
            self._interpret("a column holds Python objects")
        while self.reason is None:
            kernel = self._kernel or compiled(self._source(self._exactly()), allocates=self._allocates)
            try:
                kernel(run.offsets, run.ts, run.columns, state, answers)
            except CannotCompile as error:
                if error.narrowed is not None:
                    raise self._narrowed(*error.narrowed) from error
                if not self._allocates and any(words in str(error) for words in _NEEDS_MEMORY):
                    self._allocates = True
                else:
                    self._interpret(str(error))
            else:
                self._kernel = kernel
                return
        # Lists hold Python's own numbers, which is what the function expects, and indexing them is faster.
        columns, states = (tuple(column.tolist() for column in table) for table in (run.columns, state))
        self._source(self._checked)(run.offsets.tolist(), run.ts.tolist(), columns, states, answers)
        for column, words in zip(state, states, strict=True):
            column[:] = words

    def _source(self, fitted: Callable[..., Any]) -> Callable[..., Any]:
        step = self.step
        load_values, _ = accessors((Field("value", np.dtype(np.int64)),) * self.values)
        load_state, store_state = accessors((Field("word", np.dtype(np.int64)),) * len(self.state))

        def take_steps(offsets: Any, ts: Any, columns: Any, states: Any, answers: Any) -> Any:
            for r in range(len(offsets) - 1):
                state = load_state(states, r)
                for i in range(offsets[r], offsets[r + 1]):
                    state, a, b = fitted(step(state, ts[i], *load_values(columns, i)))
                    answers[0][i] = a
                    answers[1][i] = b
                store_state(states, r, state)

        def apply_rule(offsets: Any, ts: Any, columns: Any, states: Any, answers: Any) -> Any:
            for i in range(len(ts)):
                _, a, b = fitted(step(ts[i], *load_values(columns, i)))
                answers[0][i] = a
                answers[1][i] = b

        return apply_rule if self.is_rule else take_steps

    def _exactly(self) -> Callable[..., Any]:
        """For compiled code: what a step returns in exactly the state's types; another type does not compile."""
        words = "".join(f"s{k}, " for k in range(len(self.types)))
        state = "".join(f"exact_{type_}(s{k}, {k}), " for k, type_ in enumerate(self.types))
        source = (
            "def fitted(x):\n"
            + ("    a, b = x\n" if self.is_rule else "    state, a, b = x\n")
            + (f"    {words}= state\n" if words else "")  # unpacked, because that also checks their number
            + f"    return ({state}), exact_int64(a, {_ANSWERS}), exact_int64(b, {_ANSWERS + 1})\n"
        )
        scope: dict[str, Any] = {function.__name__: function for function in _EXACT.values()}
        exec(source, scope)
        fitted: Callable[..., Any] = scope["fitted"]
        return fitted

    def _checked(self, x: Any) -> Any:
        """For interpreted code: the same, checked one by one."""
        if self.is_rule and isinstance(x, tuple):
            x = ((), *x)
        if not isinstance(x, tuple) or len(x) != 3 or not isinstance(x[0], tuple) or len(x[0]) != len(self.state):
            wanted = list(self.answers)
            if not self.is_rule:
                wanted.insert(0, f"a tuple of {len(self.state)} number(s) as state")
            raise WrongType(f"the function of {self.window} must return ({', '.join(wanted)}), got {x!r}")
        state = tuple(
            self._number(value, type_, k) for k, (value, type_) in enumerate(zip(x[0], self.types, strict=True))
        )
        return state, self._number(x[1], "int64", _ANSWERS), self._number(x[2], "int64", _ANSWERS + 1)

    def _number(self, value: Any, type_: str, place: int) -> Number:
        if isinstance(value, bool | np.bool_):
            return bool(value) if type_ == "bool" else float(value) if type_ == "float64" else int(value)
        if isinstance(value, int | np.integer) and type_ != "bool":
            if type_ == "int64" and not -(2**63) <= value < 2**63:
                raise InvalidArgument(f"{self._name(place)} of {self.window} does not fit in 64 bits: {value}")
            return float(value) if type_ == "float64" else int(value)
        if isinstance(value, float | np.floating) and type_ == "float64":
            return float(value)
        raise self._narrowed(place, type(value).__name__)

    def _narrowed(self, place: int, found: str) -> WrongType:
        if place >= _ANSWERS:
            return WrongType(
                f"{self._name(place)} of {self.window} must be an integer, but its function gives a {found}"
            )
        begins = f"{self._name(place)} of {self.window} begins as {self.state[place]!r}"
        return WrongType(f"{begins}, but its function makes it a {found}: begin with one")

    def _name(self, place: int) -> str:
        return f"state[{place}]" if place < _ANSWERS else self.answers[place - _ANSWERS]

    def describe(self) -> str:
        return f"{self.window}, {'interpreted' if self.reason else 'compiled'}"

    def _interpret(self, reason: str) -> None:
        self.reason = reason
        warnings.warn(
            f"the function of {self.window} runs interpreted, which is slower: {reason}",
            InterpretedWindow,
            stacklevel=_outside(),
        )


def _outside() -> int:
    """The stack level, for a warning of the caller's, of the first line that is not Windlass's own."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "windlass":
        frame, level = frame.f_back, level + 1
    return level
