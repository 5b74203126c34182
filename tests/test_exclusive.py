"""One call at a time: an object is as before after a refusal, and refuses after an interruption."""

import copy
import inspect
import os
import pickle
import signal
import threading
import traceback

import pytest

from windlass import exclusive as module
from windlass.errors import Busy, Interrupted, InvalidArgument
from windlass.exclusive import Exclusive, exclusive, reading, restoring


class Counter(Exclusive):
    def __init__(self):
        self.value = 0

    @exclusive
    def add(self, amount, raises=None, then=None):
        self.value += amount
        if then is not None:
            then()
        if raises is not None:
            raise raises
        return self.value

    @exclusive
    def add_or_undo(self, raises):
        before, self.value = self.value, self.value + 1
        self.value = before
        self.undone(raises)
        raise raises

    @exclusive
    def add_and_refuse(self):
        self.value += 1
        error = InvalidArgument("in the middle")
        self.unfinished(error)
        raise error

    @reading
    def shown(self, raises=None):
        if raises is not None:
            raise raises
        return self.value

    @restoring
    def restore(self, value, then=None):
        other = Counter()
        if then is not None:
            then()
        if value < 0:
            raise InvalidArgument("negative")
        other.value = value
        self.__dict__ = other.__dict__


@pytest.mark.parametrize("error", [MemoryError("no room"), KeyboardInterrupt(), ZeroDivisionError("x")])
def test_an_interrupted_object_refuses_every_call_until_it_is_restored(error):
    counter = Counter()
    with pytest.raises(type(error)):
        counter.add(1, raises=error)
    for call in (lambda: counter.add(1), lambda: copy.copy(counter), lambda: pickle.dumps(counter)):
        with pytest.raises(Interrupted, match=type(error).__name__):
            call()
    with pytest.raises(InvalidArgument):
        counter.restore(-1)
    with pytest.raises(Interrupted):
        counter.add(1)
    counter.restore(5)
    assert counter.add(1) == 6


def test_after_a_refusal_and_after_an_undo_the_object_goes_on():
    counter = Counter()
    with pytest.raises(InvalidArgument):
        counter.add(0, raises=InvalidArgument("no"))
    with pytest.raises(ZeroDivisionError):
        counter.add_or_undo(ZeroDivisionError())
    assert counter.add(1) == 1
    with pytest.raises(InvalidArgument):
        counter.restore(-1)
    assert counter.add(1) == 2


@pytest.mark.parametrize("error", [InvalidArgument("of another object"), Busy("another"), Interrupted("another")])
def test_a_refusal_of_another_object_says_nothing_about_this_one(error):
    def fail():
        raise error

    counter = Counter()
    with pytest.raises(type(error)):
        counter.add(1, then=fail)
    with pytest.raises(Interrupted):
        counter.add(1)


def test_an_undo_of_one_exception_says_nothing_about_the_next():
    counter = Counter()
    with pytest.raises(ZeroDivisionError):
        counter.add_or_undo(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        counter.add(1, raises=ZeroDivisionError())
    with pytest.raises(Interrupted):
        counter.add(1)


def test_a_refusal_in_the_middle_of_a_change_is_an_interruption():
    counter = Counter()
    with pytest.raises(InvalidArgument):
        counter.add_and_refuse()
    with pytest.raises(Interrupted, match="in the middle"):
        counter.shown()


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), InvalidArgument("x")])
def test_a_reader_leaves_the_object_as_it_was(error):
    counter = Counter()
    counter.add(1)
    with pytest.raises(type(error)):
        counter.shown(raises=error)
    assert counter.shown() == 1
    with pytest.raises(Busy):
        counter.add(1, then=counter.shown)


def test_an_exception_that_nobody_caught_is_an_interruption():
    counter = Counter()
    del counter._idle  # as if the call had been stopped between two statements
    with pytest.raises(Interrupted, match="an exception"):
        counter.add(1)


def test_a_call_from_within_a_call():
    counter, refused = Counter(), []

    def again():
        for call in (lambda: counter.add(1), lambda: counter.restore(1), lambda: copy.copy(counter)):
            with pytest.raises(Busy, match="one call at a time") as caught:
                call()
            refused.append(caught.value)

    assert counter.add(1, then=again) == 1
    assert len(refused) == 3
    assert counter.add(1) == 2


def test_a_call_from_another_thread():
    counter, entered, leave = Counter(), threading.Event(), threading.Event()

    def wait():
        entered.set()
        leave.wait()

    first = threading.Thread(target=counter.add, args=(1,), kwargs={"then": wait})
    first.start()
    entered.wait()
    try:
        for call in (lambda: counter.add(1), lambda: counter.restore(1), lambda: pickle.dumps(counter)):
            with pytest.raises(Busy):
                call()
    finally:
        leave.set()
        first.join()
    assert counter.add(1) == 2


def test_another_object_may_be_called_from_within_a_call():
    one, other = Counter(), Counter()
    one.add(1, then=lambda: other.add(5))
    assert (one.value, other.value) == (1, 5)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_shares_no_state(copied):
    counter = Counter()
    counter.seen = [1]
    other = copied(counter)
    other.seen.append(2)
    other.add(5)
    assert (counter.seen, counter.value, other.value) == ([1], 0, 5)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_object_is_in_a_call_while_it_is_copied(copied):
    class Calling:
        def __deepcopy__(self, memo):
            with pytest.raises(Busy, match="add has to wait"):
                counter.add(1)
            return self

    counter = Counter()
    counter.part = Calling()
    assert copied(counter).value == 0
    assert counter.add(1) == 1


def test_two_threads_that_repair_one_object(monkeypatch):
    counter, is_asked, refused = Counter(), threading.Event(), []
    with pytest.raises(MemoryError):
        counter.add(1, raises=MemoryError())
    is_broken = module._is_broken

    def asked(owner, frame):
        found = is_broken(owner, frame)
        if threading.current_thread() is other:
            is_asked.set()
        else:
            other.start()
            is_asked.wait(0.2)  # in vain: the other thread has to wait for the answer of this one
        return found

    def repair():
        try:
            counter.restore(7)
        except Busy as error:
            refused.append(error)

    other = threading.Thread(target=repair)
    monkeypatch.setattr(module, "_is_broken", asked)
    counter.restore(5, then=other.join)
    assert len(refused) == 1
    assert counter.add(1) == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_child_that_was_forked_while_another_thread_repaired_can_repair():
    counter, is_held, may_end = Counter(), threading.Event(), threading.Event()
    with pytest.raises(MemoryError):
        counter.add(1, raises=MemoryError())

    def hold():
        with module._restoring:
            is_held.set()
            may_end.wait()

    other = threading.Thread(target=hold)
    other.start()
    is_held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # instead of waiting for ever
        counter.restore(5)
        os._exit(counter.value)
    may_end.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


class Gathering(Exclusive):
    @exclusive
    def gather(self, first, *rest, last=3, **named):
        return first, rest, last, named

    @reading
    def fail(self, divisor=0):
        return 1 / divisor


def test_a_wrapper_has_the_parameters_of_its_method():
    counter = Counter()
    assert counter.add(then=None, amount=2) == 2
    for wrong in (lambda: counter.add(), lambda: counter.add(1, other=2)):
        with pytest.raises(TypeError, match=r"Counter\.add\(\)"):
            wrong()
    assert counter.add(1) == 3
    assert inspect.signature(Counter.add) == inspect.signature(Counter.add.__wrapped__)
    assert not Counter.add.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)  # they take time
    assert Gathering().gather(1, 2, 4, other=5) == (1, (2, 4), 3, {"other": 5})
    assert Gathering().gather(first=1, last=2) == (1, (), 2, {})


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: Counter().add(1, raises=KeyError()), "_result = _method({arguments})"),
        (lambda: Gathering().fail(), "return _method({arguments})"),
    ],
)
def test_a_traceback_shows_the_line_of_the_wrapper(call, line):
    with pytest.raises((KeyError, ZeroDivisionError)) as raised:
        call()
    assert line in [frame.line for frame in traceback.extract_tb(raised.value.__traceback__)]
