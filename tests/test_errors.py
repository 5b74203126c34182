"""The exception hierarchy: one base, the natural builtin beside it, readable and picklable."""

import inspect
import pickle

import pytest

from windlass import errors

BUILTINS = {
    errors.InvalidArgument: ValueError,
    errors.WrongType: TypeError,
    errors.UnknownColumn: KeyError,
    errors.OutOfOrder: ValueError,
    errors.Overflow: OverflowError,
    errors.Unanswerable: LookupError,
    errors.EmptyWindow: IndexError,
    errors.UnsupportedAggregate: TypeError,
    errors.CorruptSnapshot: ValueError,
    errors.LawViolation: AssertionError,
    errors.MissingExtra: ImportError,
    errors.TooManyRows: ValueError,
    errors.Interrupted: RuntimeError,
    errors.Busy: RuntimeError,
}


PLAIN = [error for error in [errors.WindlassError, *BUILTINS] if error is not errors.MissingExtra]


def test_the_table_above_is_complete():
    public = {getattr(errors, name) for name in errors.__all__}
    assert public == {*BUILTINS, errors.WindlassError, errors.InterpretedAggregate}
    defined = {c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__}
    assert defined == public


@pytest.mark.parametrize(("error", "builtin"), BUILTINS.items())
def test_each_error_is_ours_and_the_builtin(error, builtin):
    assert issubclass(error, errors.WindlassError)
    assert issubclass(error, builtin)
    assert error.__doc__


@pytest.mark.parametrize("error", PLAIN)
def test_str_is_the_message(error):
    message = "no column 'pirce'; there are 'price' and 'volume'"
    assert str(error(message)) == message
    assert str(error()) == ""


@pytest.mark.parametrize("error", PLAIN)
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error("a message")))
    assert type(copy) is error
    assert str(copy) == "a message"


def test_a_missing_extra_tells_how_to_install_it():
    error = errors.MissingExtra("spark", "windlass.spark")
    assert str(error) == "windlass.spark needs the 'spark' extra: pip install 'windlass[spark]'"
    assert error.msg == str(error)
    assert error.extra == "spark"
    assert "pip install 'windlass[cli]'" in str(errors.MissingExtra("cli"))


def test_a_missing_extra_survives_pickling():
    copy = pickle.loads(pickle.dumps(errors.MissingExtra("spark", "windlass.spark")))
    assert str(copy) == "windlass.spark needs the 'spark' extra: pip install 'windlass[spark]'"
    assert (copy.extra, copy.feature) == ("spark", "windlass.spark")


def test_interpreted_aggregate_is_a_warning():
    assert issubclass(errors.InterpretedAggregate, UserWarning)
    assert not issubclass(errors.InterpretedAggregate, errors.WindlassError)
