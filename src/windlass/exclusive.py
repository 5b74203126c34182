"""One call at a time: protects an object's state when a call is interrupted, or when two calls meet.

An object is idle, in a call, or broken:

                 call                    returns
    idle ────────────────► in a call ───────────────► idle
                               │ refused, or undone
                               ├──────────────────────► idle
                               │ any other exception
                               └──────────────────────► broken ──── restore ────► idle

The state is one slot, beside the instance's dictionary. `del` empties it atomically, and the last statement of the call
fills it again. So a call that never got there, wherever it was interrupted, leaves it empty. An object whose slot is
empty is in a call if a frame of that call is on the stack of some thread, and broken if not.

A refusal is a `WindlassError` that the package raises itself, before anything changes or after the change was undone.
Code that undoes its changes after another exception, such as one of a user's function, calls `undone`. After any other
exception nothing is assumed: the object refuses every further call until it is restored. That holds for a
`WindlassError` out of a user's function, too: another object raised it, and it says nothing about this one.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from threading import RLock
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast

from windlass.errors import Busy, Interrupted, WindlassError

__all__ = ["Exclusive", "exclusive", "reading", "restoring"]

Method = TypeVar("Method", bound=Callable[..., Any])

_BROKEN_BY = "_broken_by"
_SETTLED = "_settled"
_OWN = {"windlass", "contextlib", "functools"}  # packages whose frames may lie between a call and its refusal
_LOOKS = 20
_SPOKEN = {"__copy__": "copying", "_deepcopied": "copying", "__reduce__": "pickling", "_contents": "merge"}
_restoring = RLock()  # so that one thread at a time finds that an object is broken, and begins to repair it
_calls: set[CodeType] = set()  # code of the wrappers below: it identifies a call on a stack


class Exclusive:
    """An object that takes one call at a time, and refuses calls after one that was interrupted."""

    __slots__ = ("__dict__", "__weakref__", "_idle")
    _idle: bool
    _mend: ClassVar[str] = ""  # how to replace a broken object of a class without `restore`

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made._idle = True
        return made

    def undone(self, error: BaseException) -> None:
        """Declare that the current call has undone all its changes after it raised `error`."""
        self.__dict__[_SETTLED] = error, True

    def unfinished(self, error: BaseException) -> None:
        """Declare that the current call has not undone its changes after `error`, even if `error` is a refusal."""
        self.__dict__[_SETTLED] = error, False

    def __copy__(self) -> Self:
        """A copy that shares no state: a call of one changes nothing in the other."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return cast(Self, _deepcopied(self, memo))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle. Refused if the object is broken or in a call."""
        if not _is_idle(self):
            _refuse(self, "pickling")
        return dict(self.__dict__)


def exclusive(method: Method) -> Method:
    """Make a method exclusive: while it runs, other calls of its object are refused. Costs < 0.1 µs a call."""
    return _wrapped(method, _EXCLUSIVE)


def reading(method: Method) -> Method:
    """Make a method exclusive that never changes its object: whatever it raises, the object is not broken."""
    return _wrapped(method, _READING)


# Wrappers have the parameters of their methods: `*args, **kwargs` would cost 0.1 µs a call more.
# Each template has the number of its line in this file, for tracebacks.
_EXCLUSIVE = (
    sys._getframe().f_lineno + 1,
    """
def call({parameters}):
    try:
        del self._idle
    except AttributeError:
        _refuse(self, _method.__name__)
    try:
        _result = _method({arguments})
    except BaseException as _error:
        _settle(self, _error)
        raise
    self._idle = True
    return _result
""",
)
_READING = (
    sys._getframe().f_lineno + 1,
    """
def call({parameters}):
    try:
        del self._idle
    except AttributeError:
        _refuse(self, _method.__name__)
    try:
        return _method({arguments})
    finally:
        self._idle = True
""",
)


def _wrapped(method: Method, template: tuple[int, str]) -> Method:
    line, text = template
    parameters = [p.replace(default=p.empty, annotation=p.empty) for p in signature(method).parameters.values()]
    by_name: dict[Any, str] = {
        Parameter.KEYWORD_ONLY: "{0}={0}",
        Parameter.VAR_POSITIONAL: "*{0}",
        Parameter.VAR_KEYWORD: "**{0}",
    }
    arguments = ", ".join(by_name.get(p.kind, "{0}").format(p.name) for p in parameters)
    source = text.format(parameters=str(Signature(parameters))[1:-1], arguments=arguments)
    names: dict[str, Any] = {"__name__": __name__, "_method": method, "_refuse": _refuse, "_settle": _settle}
    exec(compile("\n" * (line - 1) + source, __file__, "exec"), names)
    call = wraps(method)(names["call"])
    call.__defaults__, call.__kwdefaults__ = method.__defaults__, method.__kwdefaults__  # type: ignore[attr-defined]
    return cast(Method, _findable(call))


def restoring(method: Method) -> Method:
    """Make a method exclusive that repairs a broken object.

    Its last statement must replace the object's dictionary. If it raises, the object stays as it was: idle or broken.
    """
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _restoring:
            was_idle = _take(self)
            if not was_idle and not _is_broken(self, sys._getframe()):
                _refuse(self, name)
            broken_by = self.__dict__.pop(_BROKEN_BY, None)  # so that another thread finds the object in a call
        try:
            result = method(self, *args, **kwargs)
        except BaseException:
            if was_idle:
                self._idle = True
            elif broken_by is not None:
                self.__dict__[_BROKEN_BY] = broken_by
            raise
        self._idle = True
        return result

    return cast(Method, _findable(call))


def _free_the_lock() -> None:
    """In a forked child: the thread that may hold the lock is not there."""
    global _restoring
    _restoring = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_the_lock)


def _is_idle(owner: Any) -> bool:
    return hasattr(owner, "_idle")


def _take(owner: Any) -> bool:
    """Empty the slot. Return False if it was empty already."""
    try:
        del owner._idle
    except AttributeError:
        return False
    return True


def _findable(call: Any) -> Any:
    """Register a wrapper, so that its calls are recognised on a stack."""
    _calls.add(call.__code__)
    return call


def _settle(owner: Any, error: BaseException) -> None:
    """Decide what an object is after an exception: idle if the call changed nothing, broken otherwise."""
    settled, is_undone = owner.__dict__.pop(_SETTLED, (None, False))
    if settled is not error:
        is_undone = isinstance(error, WindlassError) and not _is_from_outside(error, owner)
    if is_undone:
        owner._idle = True
    else:
        owner.__dict__[_BROKEN_BY] = f"{type(error).__name__}: {error}".rstrip(": ")


def _is_from_outside(error: WindlassError, owner: Any) -> bool:
    """Whether the error was raised by a function outside the package."""
    if isinstance(error, Busy | Interrupted):
        return True  # this call was let in, so another one was refused
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_locals.get("self") is not owner]
    return any(frame.f_globals.get("__name__", "").partition(".")[0] not in _OWN for frame in frames)


def _refuse(owner: Any, name: str) -> NoReturn:
    kind = type(owner).__name__
    if not _is_broken(owner, sys._getframe(1)):
        raise Busy(
            f"this {kind} is in a call, so {_SPOKEN.get(name, name)} has to wait: it takes one call at a time. "
            "Call it from one thread, or guard it with a lock; a function of a query must not call it at all"
        )
    by = owner.__dict__.get(_BROKEN_BY, "an exception")
    mend = owner._mend
    if not mend:
        mend = "restore it from a snapshot, or make another" if hasattr(owner, "restore") else "make another"
    raise Interrupted(f"an earlier call of this {kind} was interrupted by {by}, so its state is unknown: {mend}")


def _is_broken(owner: Any, asking: FrameType) -> bool:
    """Whether an object that is not idle is not in a call either.

    Calls of other threads may end and begin during the search, so it searches twice before it returns True.
    """
    if _BROKEN_BY in owner.__dict__:
        return True
    return not any(_in_call(owner, asking) or _is_idle(owner) for _ in range(_LOOKS))


def _in_call(owner: Any, asking: FrameType) -> bool:
    """Whether a call of this object is on the stack of some thread. The calling frame does not count."""
    return any(_holds_call(frame, owner, asking) for frame in sys._current_frames().values())


def _holds_call(frame: FrameType | None, owner: Any, asking: FrameType) -> bool:
    while frame is not None:
        if frame is not asking and frame.f_code in _calls and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False


@reading
def _deepcopied(self: Any, memo: dict[int, Any]) -> Any:
    kind: Any = type(self)
    made = memo[id(self)] = kind.__new__(kind)
    made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return made
