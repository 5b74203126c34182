"""Raise an exception at any line of a call, and look at what the object is afterwards.

A `Case` is an object, a call of it, and what must come out. Each attempt runs in a forked child, which inherits a ready
object and warm kernels, so it takes milliseconds:

    parent   make ─► save ─┬─ fork ─► call, interrupted at line n ─► look ─► verdict ─┐
                           └─ wait for the verdict; no verdict is a crash or a hang ◄─┘

After the interruption the object must be in one of two states, and `look` finds out which.

    as before      the call is repeated: its value, and what is read then, are as expected
    broken         every call raises Interrupted; restored, it is as before

Lines are those of every Python function that the call runs, of NumPy and pyarrow too. Inside machine code there are no
lines: `signalled_after` sends real signals, which Python delivers when the machine code returns.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import windlass
from windlass.errors import Busy, Interrupted

PACKAGE = str(Path(windlass.__file__).parent)
ENVELOPE = str(Path(PACKAGE) / "exclusive.py")  # whose lines lie outside of the call itself
HERE = str(Path(__file__))
# Code that cannot handle an exception: the import system, numba at work, code that the garbage collector runs.
_APART = (HERE, "<frozen", os.sep + "numba" + os.sep, os.sep + "llvmlite" + os.sep, os.sep + "importlib" + os.sep)
PATIENCE = 120  # seconds until a child counts as hung; a child takes milliseconds

Look = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A call that may be interrupted anywhere.

    name       class, method, and what is special: "FiBA.bulk_insert, tree grows"
    make       a new object, as it is before the call
    call       the call
    shown      converts its value to a form that can be compared; never interrupted
    read       what the object answers after the call, without changing it
    expected   the value of the call and what is read then, by brute force
    save       what `restore` needs, taken before the call: a snapshot, say
    restore    mends a broken object; gives the mended object, which may be another one
    refused    more calls that a broken object refuses and a busy one refuses too: snapshot, copy, pickle, query, …
    allowed    what works at all times: repr, counters, watermark, …
    """

    name: str
    make: Callable[[], Any]
    call: Look
    read: Look
    expected: Callable[[], tuple[Any, Any]]
    shown: Look = lambda value: value
    save: Look = lambda made: None
    restore: Callable[[Any, Any], Any] | None = None
    refused: tuple[Look, ...] = ()
    allowed: tuple[Look, ...] = (repr,)
    errors: tuple[type[BaseException], ...] = field(default=(MemoryError, KeyboardInterrupt))

    def __str__(self) -> str:
        return self.name


class Verdict(NamedTuple):
    """The outcome of one attempt. `problem` is empty if all is well."""

    place: str  # file:line that was interrupted
    problem: str
    state: str  # "as before", "broken" or "committed"


# ---------------------------------------------------------------------- one case


class Trial:
    """A case that is ready to be forked: kernels are compiled, and the object is made."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._check_uninterrupted()  # compiles and loads kernels, and imports what is imported late
        self.before, self.saved = self._made()
        gc.collect()
        gc.freeze()  # children share what is there

    def close(self) -> None:
        gc.unfreeze()

    def lines(self) -> int:
        """How many lines the call runs."""
        found = in_child(lambda: run_traced(lambda: self.case.call(self.before), 0, MemoryError)[0])
        assert isinstance(found, int), f"{self.case.name}: {found}"
        return found

    def interrupted_at(self, n: int, error: type[BaseException]) -> Verdict:
        """Raise an error at the n-th line."""
        found = in_child(lambda: self._attempt(lambda call: _at_line(call, n, error)))
        return self._verdict(found, f"line event {n}")

    def signalled_after(self, seconds: float) -> Verdict:
        """Raise KeyboardInterrupt by a signal that a timer sends."""
        found = in_child(lambda: self._attempt(lambda call: _by_timer(call, seconds)))
        return self._verdict(found, f"a signal after {seconds * 1e6:.0f} µs")

    def seconds(self) -> float:
        """How long the call takes, about; only delays of signals depend on it."""

        def measured() -> float:
            began = time.perf_counter()
            self.case.call(self.before)
            return time.perf_counter() - began

        found = in_child(measured)
        assert isinstance(found, float), f"{self.case.name}: {found}"
        return found

    def met_at(self, lines: Sequence[int]) -> list[str]:
        """Call from another thread while the call is paused at each of these lines. Return what went wrong."""
        found = in_child(lambda: self._met(set(lines)))
        return found if isinstance(found, list) else [f"{self.case.name}: {found}"]

    # ------------------------------------------------------------------ in the child

    def _attempt(self, interrupt: Callable[[Callable[[], Any]], tuple[Any, BaseException | None, str]]) -> Verdict:
        case, made = self.case, self.before
        _, read = case.expected()
        value, raised, place = interrupt(lambda: case.call(made))
        if raised is None:
            if place:
                return Verdict(place, "the exception was swallowed", "")
            problem = self._differing_value(value, "the call gives") or _differing(case.read(made), read, "then it is")
            return Verdict("after the call", problem, "committed")
        for look in case.allowed:
            look(made)
        if not _inside(raised) and self._reads(made, read):
            return Verdict(place, "", "committed")
        try:
            value = case.call(made)
        except Interrupted:
            return Verdict(place, self._broken(made, read, is_committed=not _inside(raised)), "broken")
        except Exception as error:
            return Verdict(place, f"the repeated call raises {_shown(error)}", "")
        problem = self._differing_value(value, "the repeated call gives")
        return Verdict(
            place, problem or _differing(case.read(made), read, "after the repeated call it is"), "as before"
        )

    def _reads(self, made: Any, expected: Any) -> bool:
        try:
            return bool(self.case.read(made) == expected)
        except Interrupted:
            return False

    def _broken(self, made: Any, read: Any, is_committed: bool) -> str:
        """What is wrong with a broken object. A committed call had done all of its work. If `restore` keeps what it
        did, as an operator keeps queries, the call is not repeated."""
        case = self.case
        for look in (case.call, *case.refused):
            try:
                look(made)
            except Interrupted:
                continue
            except Exception as error:
                return f"{_name(look)} of the broken object raises {_shown(error)}"
            return f"{_name(look)} of the broken object is not refused"
        for look in case.allowed:
            look(made)
        if case.restore is None:
            return ""
        try:
            mended = case.restore(made, self.saved)
            if is_committed and self._reads(mended, read):
                return ""
            return self._differing_value(case.call(mended), "restored, the call gives") or _differing(
                case.read(mended), read, "restored, it is"
            )
        except Exception as error:
            return f"restoring it raises {_shown(error)}"

    def _met(self, lines: set[int]) -> list[str]:
        case, made, problems = self.case, self.before, []
        _, read = case.expected()

        def meet(frame: FrameType) -> None:
            if not _is_in_call(frame, made):
                return
            for look in (case.call, *case.refused):
                try:
                    look(made)
                except Busy:
                    continue
                except Exception as error:
                    problems.append(f"{_name(look)} from a second thread raises {_shown(error)} at {_place(frame)}")
                else:
                    problems.append(f"{_name(look)} from a second thread is not refused at {_place(frame)}")
            for look in case.allowed:
                look(made)

        def at(n: int, frame: FrameType) -> None:
            if n in lines:
                other = threading.Thread(target=meet, args=(frame,))
                other.start()
                other.join()

        value = _traced(lambda: case.call(made), at)
        found = self._differing_value(value, "the first call gives") or _differing(case.read(made), read, "then it is")
        return [f"{case.name}: {problem}" for problem in [*problems, found] if problem]

    # ------------------------------------------------------------------ in the parent

    def _made(self) -> tuple[Any, Any]:
        made = self.case.make()
        return made, self.case.save(made)

    def _check_uninterrupted(self) -> None:
        case = self.case
        _, read = case.expected()
        made, saved = self._made()
        problem = self._differing_value(case.call(made), "the call gives") or _differing(
            case.read(made), read, "then it is"
        )
        if case.restore is not None and not problem:
            made, saved = self._made()
            mended = case.restore(made, saved)
            problem = self._differing_value(case.call(mended), "restored, the call gives")
            problem = problem or _differing(case.read(mended), read, "restored, it is")
        for look in (*case.refused, *case.allowed):
            look(made)
        assert not problem, f"{case.name}, not interrupted at all: {problem}"

    def _differing_value(self, value: Any, what: str) -> str:
        return _differing(self.case.shown(value), self.case.expected()[0], what)

    def _verdict(self, found: Any, where: str) -> Verdict:
        if isinstance(found, Verdict):
            problem = f"{self.case.name}, interrupted at {found.place}: {found.problem}" if found.problem else ""
            return found._replace(problem=problem)
        return Verdict(where, f"{self.case.name}, interrupted at {where}: {found}", "")


# ---------------------------------------------------------------------- children


class Died(str):
    """How a child ended without an answer."""


def in_child(work: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Return what `work` gives in a forked child; `Died` with the last place reported, if it crashed or hung."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_live(work, writing))
    os.close(writing)
    data, deadline, hung = b"", time.monotonic() + patience, False
    while True:
        if not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
            hung = True
            break
        part = os.read(reading, 1 << 16)
        if not part:
            break
        data += part
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    place, _, answer = data.partition(b"\n")
    where = f" (interrupted at {place.decode()})" if place else ""
    if hung:
        return Died(f"it hangs{where}")
    if os.WIFSIGNALED(status):
        return Died(f"it crashes by {signal.Signals(os.WTERMSIG(status)).name}{where}")
    return pickle.loads(answer)


_telling: list[int] = []  # in a child: the pipe to report the interrupted place to; empty once it has


def _live(work: Callable[[], Any], writing: int) -> int:
    try:
        faulthandler.disable()
        sys.unraisablehook = lambda _: None
        threading.excepthook = lambda _: None
        gc.disable()  # so that the same lines run in each child
        _telling[:] = [writing]
        try:
            found = work()
        except BaseException:
            found = Died("the child fails: " + traceback.format_exc())
        answer = pickle.dumps(found)
        if _telling:
            _tell("")
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
    except BaseException:
        return 1
    return 0


def _tell(place: str) -> None:
    """Report the place at once, because a child that crashes reports nothing else."""
    if _telling:
        os.write(_telling.pop(), place.encode() + b"\n")


# ---------------------------------------------------------------------- interrupting


def _traced(call: Callable[[], Any], at: Callable[[int, FrameType], None]) -> Any:
    """Run a call, and `at(n, frame)` before its n-th line."""
    count = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            at(count, frame)
        return local

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return None if _is_apart(frame) else local

    sys.settrace(entered)
    try:
        return call()
    finally:
        sys.settrace(None)


def run_traced(
    call: Callable[[], Any], n: int, error: type[BaseException]
) -> tuple[int, Any, BaseException | None, str]:
    """Run a call and raise an error before its n-th line: lines, value, exception, place."""
    lines, place, injected = 0, "", error("injected")

    def at(k: int, frame: FrameType) -> None:
        nonlocal lines, place
        lines = k
        if k == n:
            place = _place(frame)
            _tell(place)
            raise injected

    value = raised = None
    try:
        value = _traced(call, at)
    except BaseException as found:
        raised = found
    return lines, value, raised, place


def _at_line(call: Callable[[], Any], n: int, error: type[BaseException]) -> tuple[Any, BaseException | None, str]:
    _, value, raised, place = run_traced(call, n, error)
    if raised is not None and type(raised) is not error:
        raise AssertionError(f"interrupted at {place}, {error.__name__} arrives as {_shown(raised)}") from raised
    return value, raised, place


def _by_timer(call: Callable[[], Any], seconds: float) -> tuple[Any, BaseException | None, str]:
    """The same by a signal. One that comes after the call interrupts nothing."""
    value = raised = None
    fired = False

    def handler(number: int, frame: Any) -> None:
        nonlocal fired
        if not fired:
            fired = True
            raise KeyboardInterrupt("a signal")

    signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        value = call()
        fired = True
    except BaseException as found:
        raised = found
    signal.setitimer(signal.ITIMER_REAL, 0)
    if raised is None:
        return value, None, ""
    place = _place_raised(raised)
    _tell(place)
    if type(raised) is not KeyboardInterrupt:
        raise AssertionError(f"at {place}, KeyboardInterrupt arrives as {_shown(raised)}") from raised
    return None, raised, place


# ---------------------------------------------------------------------- looking


def _is_apart(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return frame.f_code.co_name == "__del__" or any(part in name for part in _APART)


def _inside(raised: BaseException) -> bool:
    """Whether an exception came from within the call, and not from what lies around it."""
    frames = [frame for frame, _ in traceback.walk_tb(raised.__traceback__)]
    files = [frame.f_code.co_filename for frame in frames]
    return any(name.startswith(PACKAGE) and name != ENVELOPE for name in files)


def _is_in_call(frame: FrameType | None, made: Any) -> bool:
    """Whether a frame runs in an exclusive call of this object."""
    if frame is not None and frame.f_code.co_filename == ENVELOPE:
        return False
    while frame is not None:
        if frame.f_code.co_filename == ENVELOPE and frame.f_locals.get("self") is made:
            return not hasattr(made, "_idle")
        frame = frame.f_back
    return False


def _place(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    return f"{os.path.relpath(name, Path(PACKAGE).parent) if name.startswith(PACKAGE) else name}:{frame.f_lineno}"


def _place_raised(raised: BaseException) -> str:
    found = [(frame, line) for frame, line in traceback.walk_tb(raised.__traceback__)]
    inner = [(frame, line) for frame, line in found if frame.f_code.co_filename != HERE]
    frame, line = (inner or found)[-1]
    return f"{Path(frame.f_code.co_filename).name}:{line}"


def _differing(found: Any, expected: Any, what: str) -> str:
    return "" if found == expected else f"{what} {found!r}, not {expected!r}"


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _name(look: Look) -> str:
    return getattr(look, "__name__", repr(look))


def sample(count: int, most: int, seed: int) -> list[int]:
    """At most `most` of the lines 1 … count: the first, the last, and others at random."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1, count, *Random(seed).sample(range(2, count), most - 2)})
