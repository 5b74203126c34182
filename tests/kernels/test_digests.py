import functools
import math
import types

import numpy as np
import pytest

from windlass.kernels.digests import Undigestible, digest

LIMIT = 3


def written(source, **scope):
    exec(compile(source, "<written>", "exec"), scope)
    return scope["f"]


def test_what_it_computes_is_what_counts():
    original = written("def f(x):\n    return x + 1")
    assert digest(original) == digest(written("\n\n\ndef f(x):\n    return x + 1"))  # moved
    assert digest(original) == digest(written('def f(x):\n    "Documented."\n    return x + 1'))
    assert digest(original) != digest(written("def f(x):\n    return x + 2"))
    assert digest(original) != digest(written("def f(x):\n    return x - 1"))
    assert digest(original) != digest(written("def f(x):\n    return x + 1.0"))
    assert len(digest(original)) == 16


def test_types_of_constants_and_zeros_differ():
    digests = {digest(lambda c=c: c) for c in (0, 0.0, -0.0, False, "0", None, np.int32(0), np.int64(0))}
    assert len(digests) == 8


def test_closures():
    def close(value):
        return lambda x: x + value

    assert digest(close(1)) == digest(close(1)) != digest(close(2))
    assert digest(close(np.array([1, 2]))) != digest(close(np.array([1, 3])))
    assert digest(close((1, (2.0, "a")))) != digest(close((1, (2.0, "b"))))
    assert digest(close(close(1))) != digest(close(close(2)))


def test_globals_are_followed_through_helpers():
    source = "def g(x):\n    return x * LIMIT\ndef f(x):\n    return g(x)"
    assert digest(written(source, LIMIT=3)) == digest(written(source, LIMIT=3))
    assert digest(written(source, LIMIT=3)) != digest(written(source, LIMIT=4))
    assert digest(written(source, LIMIT=3)) != digest(written(source.replace("*", "+"), LIMIT=3))


def test_functions_of_modules():
    def module(factor):
        made = types.ModuleType("made")
        exec(f"def g(x):\n    return {factor} * x", made.__dict__)
        return made

    source = "def f(x):\n    return made.g(x)"
    assert digest(written(source, made=module(2))) == digest(written(source, made=module(2)))
    assert digest(written(source, made=module(2))) != digest(written(source, made=module(3)))


def test_nested_functions_and_defaults():
    assert digest(lambda x: [y + 1 for y in x]) != digest(lambda x: [y + 2 for y in x])
    assert digest(lambda x, y=1: x + y) != digest(lambda x, y=2: x + y)


def test_recursion_ends():
    source = "def f(x):\n    return f(x - 1) if x else {}"
    assert digest(written(source.format(0))) != digest(written(source.format(1)))
    mutual = "def g(x):\n    return f(x - 1) if x else 0\ndef f(x):\n    return g(x) + {}"
    assert digest(written(mutual.format(1))) != digest(written(mutual.format(2)))


def test_libraries_go_by_name():
    assert digest(lambda x: math.sqrt(x)) != digest(lambda x: math.exp(x))
    assert digest(lambda x: np.sqrt(x)) != digest(lambda x: np.exp(x))
    assert digest(max) != digest(min)


def test_a_jitted_function_is_the_function_it_was_made_of():
    from numba import njit

    plain = lambda x: x + LIMIT  # noqa: E731
    assert digest(njit(plain)) == digest(plain)


@pytest.mark.parametrize(
    "value",
    [object(), {}, functools.partial(max, 1), np.array([None])],
    ids=["object", "dict", "partial", "array of objects"],
)
def test_what_has_no_content_to_name_is_refused(value):
    with pytest.raises(Undigestible):
        digest(lambda: value)
