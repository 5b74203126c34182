"""The cache of compiled kernels: hit by the next process, and never stale. Real processes, and a cache of their own."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from windlass.kernels import CannotCompile, compiled
from windlass.kernels.compilation import adopt

PROBE, FOLD = 1, 1  # kernels: whether numba can, and the answer

# Evaluates an aggregate of the module `mine`, and tells the answer and what was compiled rather than loaded.
RUN = """
    import json
    import numpy as np
    from windlass.aggregates import evaluation
    {imports}
    answer = {aggregate}().of(np.array([3.0, 1.0, 2.0]))
    counts = [kernel.compilations for kernel in evaluation._kernels.values()]
    print(json.dumps([answer, sum(counts), len(counts)]))
"""
TOTAL = """
    import windlass.aggregates as agg

    FACTOR = 10.0

    def helper(x):
        return x + 1.0

    def lift(x):
        return FACTOR * helper(x)

    total = agg.define("total", lift=lift, combine=lambda a, b: a + b)
"""


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Run code in a new process, which shares nothing with the last but the directory."""
    monkeypatch.setenv("WINDLASS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # edits within a second must be seen

    def run(mine, aggregate="mine.total", main=""):
        (tmp_path / "mine.py").write_text(textwrap.dedent(mine))
        body = textwrap.dedent(main) + textwrap.dedent(RUN.format(imports="import mine", aggregate=aggregate))
        (tmp_path / "main.py").write_text(body)
        command = [sys.executable, "-W", "error", "main.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer, compilations, kernels = eval(done.stdout, {})
        assert kernels > 0
        return answer, compilations

    return run


def test_the_second_process_compiles_nothing(process):
    assert process(TOTAL) == (90.0, PROBE + FOLD)
    assert process(TOTAL) == (90.0, 0)


def test_an_edit_anywhere_is_compiled_and_an_edit_back_is_found(process):
    process(TOTAL)
    assert process(TOTAL.replace("a + b", "max(a, b)")) == (40.0, PROBE + FOLD)  # the function
    assert process(TOTAL.replace("x + 1.0", "x + 2.0")) == (120.0, PROBE + FOLD)  # a helper it calls
    assert process(TOTAL.replace("10.0", "100.0")) == (900.0, PROBE + FOLD)  # a constant
    assert process("# moved\n\n" + textwrap.dedent(TOTAL)) == (90.0, 0)
    assert process(TOTAL) == (90.0, 0)


def test_functions_of_main(process):
    for expected in [(90.0, PROBE + FOLD), (90.0, 0)]:
        assert process("", "total", main=TOTAL) == expected
    assert process("", "total", main=TOTAL.replace("x + 1.0", "x + 2.0")) == (120.0, PROBE + FOLD)


CLOSURES = """
    import windlass.aggregates as agg

    def scaled(factor):
        return agg.define("scaled", lift=lambda x: factor * x, combine=lambda a, b: a + b)
"""


def test_closures_over_different_constants_do_not_collide(process):
    assert process(CLOSURES, "mine.scaled(2.0)") == (12.0, PROBE + FOLD)
    assert process(CLOSURES, "mine.scaled(3.0)") == (18.0, PROBE + FOLD)
    assert process(CLOSURES, "mine.scaled(2.0)") == (12.0, 0)


JITTED = """
    import numba
    import windlass.aggregates as agg

    @numba.njit
    def plus(a, b):
        return a + b

    total = agg.define("total", lift=lambda x: x, combine=plus)
"""


def test_jitted_functions_of_the_user_are_cached_too(process):
    assert process(JITTED) == (6.0, PROBE + FOLD)
    assert process(JITTED) == (6.0, 0)
    assert process(JITTED.replace("a + b", "a * b")) == (6.0, PROBE + FOLD)


# A package `pkg` with a module `sub`, and ways to get at what is in it.
SUB = """
    from collections import namedtuple
    from enum import IntEnum
    from numba import njit

    K = 2
    P = namedtuple("P", "a b")

    class F(IntEnum):
        K = 2

    @njit
    def h(x):
        return x * 2

    def plain(x):
        return x * 2
"""
EDITED = SUB.replace("K = 2", "K = 7").replace("x * 2", "x * 7").replace('"a b"', '"b a"')
USES = """
    import pkg.sub
    import windlass.aggregates as agg
    from pkg.sub import F, P

    def closure():
        import pkg.sub as q
        return lambda x: x * q.K

    def called():
        import pkg.sub as q
        return lambda x: q.plain(x)

    LIFTS = {
        "constant": lambda x: x * pkg.sub.K,
        "jitted": lambda x: pkg.sub.h(x),
        "function": lambda x: pkg.sub.plain(x),
        "member": lambda x: x * F.K.value,
        "named tuple": lambda x: P(x, 10 * x).a,
        "module in a closure": closure(),
        "function in a closure": called(),
    }
    made = {name: agg.define("total", lift=lift, combine=lambda a, b: a + b) for name, lift in LIFTS.items()}
"""
ALL = """
    import json
    import numpy as np
    from windlass.aggregates import evaluation
    import mine
    answers = [total().of(np.array([1.0, 2.0])) for total in mine.made.values()]
    print(json.dumps([answers, sum(kernel.compilations for kernel in evaluation._kernels.values())]))
"""


def test_an_edit_of_another_module_is_seen_whatever_way_it_is_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("WINDLASS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "mine.py").write_text(textwrap.dedent(USES))

    def run(sub):
        (tmp_path / "pkg" / "sub.py").write_text(textwrap.dedent(sub))
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(ALL)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return eval(done.stdout, {})

    assert run(SUB)[0] == [6.0, 6.0, 6.0, 6.0, 3.0, 6.0, 6.0]
    assert run(SUB)[1] == 0
    assert run(EDITED)[0] == [21.0, 21.0, 21.0, 21.0, 30.0, 21.0, 21.0]


ALLOCATING = """
    import numpy as np
    import windlass.aggregates as agg

    total = agg.define("total", lift=lambda x: x, combine=lambda a, b: np.array([a, b]).sum())
    allocates = agg.define("allocates", lift=lambda x: x, combine=max)
"""


def test_whether_a_kernel_allocates_is_part_of_its_name(process):
    check = """
        import mine
        from windlass.aggregates.values import value_type
        assert mine.total().monoid([value_type("float64")]).allocates
    """
    assert process(ALLOCATING, main=check)[0] == 6.0
    assert process(ALLOCATING, main=check)[0] == 6.0  # found in the cache, and still known to allocate


# ---------------------------------------------------------------------- in one process


def closing(function):
    def kernel(values, out):
        for i in range(len(values)):
            out[i] = function(values[i])

    return kernel


def run(function, **options):
    out = np.zeros(2)
    compiled(closing(function), **options)(np.array([1.0, 2.0]), out)
    return out.tolist()


def test_closures_in_one_process():
    assert [run(lambda x, k=k: k * x) for k in (2.0, 3.0)] == [[2.0, 4.0], [3.0, 6.0]]


def test_keyword_defaults_are_kept():
    def scaled(x, *, by=3.0):
        return x * by

    assert adopt(scaled)(2.0) == 6.0


def test_recursion_through_a_closure_is_refused_and_mutual_recursion_ends():
    def countdown(x):
        return countdown(x - 1.0) if x > 0 else x

    with pytest.raises(CannotCompile, match="countdown is recursive through its closure"):
        run(countdown)
    with pytest.raises(CannotCompile, match="has no value yet"):
        run(lambda x: x * later)
    with pytest.raises(CannotCompile):
        run(lambda x: ping(x))
    later = 1.0


def ping(x):
    return pong(x - 1.0).real if x > 0 else x


def pong(x):
    return ping(x - 1.0).imag.missing


def test_what_cannot_be_named_is_not_cached():
    unnamed = {}  # a dict has no digest, and numba cannot close over it either

    def kernel(values, out):
        out[0] = len(unnamed)

    with pytest.raises(CannotCompile):
        compiled(kernel)(np.array([1.0]), np.zeros(1))


def test_the_reason_is_the_innermost_one_and_names_the_line():
    def inner(x):
        return x.missing

    with pytest.raises(
        CannotCompile, match=r"Unknown attribute 'missing' of type float64.*test_compilation\.py, line \d+"
    ):
        run(lambda x: inner(x))


def test_nothing_is_compiled_before_the_first_call():
    kernel = compiled(closing(lambda x: x.missing))
    assert kernel.compilations in (0, -1)
