"""The exception hierarchy: one base, the natural builtin beside it, readable and picklable."""

import ast
import inspect
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import windlass
from windlass import Operator, Query, Tumbling, agg, errors
from windlass.operator import key_tables

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
    assert public == {*BUILTINS, errors.WindlassError, errors.InterpretedAggregate, errors.UntrustedDirectory}
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


# --------------------------------------------------------------------------- memory that runs out

SOURCES = sorted(Path(windlass.__file__).parent.rglob("*.py"))


def _takes(handler: ast.ExceptHandler, *names: str) -> bool:
    """Whether a handler names one of these exceptions."""
    taken = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(error).rpartition(".")[2] in names for error in taken if error is not None)


def _swallows(handlers: list[ast.ExceptHandler]) -> list[int]:
    """The lines of handlers that would take a MemoryError of Arrow, which is an ArrowException, for something else."""
    found = []
    for handler in handlers:
        passes_on = any(isinstance(part, ast.Raise) and part.exc is None for part in ast.walk(handler))
        if passes_on and _takes(handler, "MemoryError", "Exception", "BaseException", "ArrowException"):
            return found
        if _takes(handler, "ArrowException", "Exception"):
            found.append(handler.lineno)
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_handler_turns_a_memory_error_into_another_one(source):
    tree = ast.parse(source.read_text())
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    assert [line for node in tries for line in _swallows(node.handlers)] == []


def test_memory_of_arrow_that_runs_out_while_a_snapshot_is_restored(monkeypatch):
    op = Operator(Query("q", Tumbling(10), agg.count()), time="ts", key="k")
    op.process({"ts": [1], "k": ["a"]})
    saved = op.snapshot()

    def fail(*_):
        raise pa.ArrowMemoryError("no room")

    monkeypatch.setattr(key_tables.BytesTable, "restore", fail)
    with pytest.raises(MemoryError, match="no room"):
        op.restore(saved)


@pytest.mark.parametrize("part", ["lift", "combine", "lower"])
def test_memory_that_runs_out_in_a_function_of_the_user(part):
    def identical(value):
        if part == "lift":
            raise MemoryError("no room")
        return value

    def combined(a, b):
        if part == "combine":
            raise MemoryError("no room")
        return a + b

    def lowered(value):
        if part == "lower":
            raise MemoryError("no room")
        return value

    total = agg.define("total", lift=identical, combine=combined, lower=lowered)
    with pytest.raises(MemoryError, match="no room"):
        total().of([1, 2])
