import collections
import datetime
import enum
import functools
import math
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from windlass.kernels.digests import Undigestible, digest

LIMIT = 3


class Plain:
    K = 2


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


def test_one_code_object_with_different_defaults():
    def scaled(k):
        return lambda x, k=k: x * k

    def both(f, g):
        return lambda x: f(x) + g(x)

    assert digest(both(scaled(2), scaled(3))) == digest(both(scaled(2), scaled(3)))
    assert digest(both(scaled(2), scaled(3))) != digest(both(scaled(2), scaled(5)))


def test_recursion_through_closures_ends():
    def make(step):
        def countdown(x):
            return countdown(x - step) if x > 0 else x

        return countdown

    assert digest(make(1)) == digest(make(1)) != digest(make(2))


def test_an_empty_cell_is_refused():
    def early():
        return late

    with pytest.raises(Undigestible, match="no value yet"):
        digest(early)
    late = 1
    assert digest(early)


def test_keyword_defaults():
    assert digest(lambda x, *, k=2: x * k) != digest(lambda x, *, k=3: x * k)


def test_only_docstrings_are_left_out():
    assert digest(lambda x: ["a" for _ in x]) != digest(lambda x: ["b" for _ in x])
    assert digest(lambda x: "a") != digest(lambda x: "b")
    documented = "def f(x):\n    '{0}'\n    return '{0}'"
    assert digest(written(documented.format("a"))) != digest(written(documented.format("b")))


def test_chains_of_modules_and_modules_in_closures():
    def package(factor):
        made, inner = types.ModuleType("made"), types.ModuleType("made.inner")
        made.inner, inner.K, inner.made = inner, factor, made
        return made

    def close(module):
        return lambda x: x * module.inner.K

    source = "def f(x):\n    return x * made.inner.K"
    assert digest(written(source, made=package(2))) == digest(written(source, made=package(2)))
    assert digest(written(source, made=package(2))) != digest(written(source, made=package(3)))
    assert digest(close(package(2))) == digest(close(package(2))) != digest(close(package(3)))


def test_enumerations_and_named_tuples_go_by_content():
    def close(value):
        return lambda x: value

    def member(value):
        return enum.IntEnum("F", {"K": value}, module="made")

    def fields(names):
        return collections.namedtuple("P", names, module="made")

    assert digest(close(member(2))) == digest(close(member(2))) != digest(close(member(7)))
    assert digest(close(member(2).K)) == digest(close(member(2).K)) != digest(close(member(7).K))
    assert digest(close(fields("a b"))) == digest(close(fields("a b"))) != digest(close(fields("b a")))
    assert digest(close(fields("a b")(1, 2))) != digest(close(fields("b a")(1, 2)))


def test_instances_of_library_classes_go_by_content():
    source = "def f(x):\n    return x * K"
    for one, other in [
        (Fraction(1, 2), Fraction(1, 3)),
        (Decimal(1), Decimal(2)),
        (datetime.timedelta(1), datetime.timedelta(2)),
    ]:
        assert digest(written(source, K=one)) == digest(written(source, K=one)) != digest(written(source, K=other))
    with pytest.raises(Undigestible):
        digest(written(source, K=collections.Counter("a")))


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
    [object(), {}, functools.partial(max, 1), np.array([None]), Plain, Plain(), [].append],
    ids=["object", "dict", "partial", "array of objects", "class", "instance", "method"],
)
def test_what_has_no_content_to_name_is_refused(value):
    with pytest.raises(Undigestible):
        digest(lambda: value)
