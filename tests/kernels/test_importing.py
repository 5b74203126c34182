"""An import of numba that is interrupted leaves nothing behind: the next call imports it whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import windlass.kernels.importing as importing
from windlass.kernels.cache import VARIABLE

PROGRAM = """
import sys
from windlass import Operator, Query, Tumbling, agg

class Interrupting:
    "Raises once, as a signal would, when a module is about to be imported."

    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt(name)

def windows():
    operator = Operator(Query("q", Tumbling(10), agg.sum("x")), time="ts")
    operator.process({"ts": [1, 2, 12], "x": [1, 2, 3]})
    return operator.finish()["q"].column("sum(x)").to_pylist()

sys.meta_path.insert(0, Interrupting())
try:
    windows()
except KeyboardInterrupt as error:
    print("interrupted at", error)
print(windows())
"""


@pytest.mark.parametrize(
    "module",
    [
        "numba.core.config",
        "numba.core.types.misc",
        "llvmlite.binding.value",
        "numba.np.arrayobj",
        "numba.cpython.builtins",
        "numba.core.caching",
        "numba.core.boxing",
    ],
)
def test_a_second_import_after_an_interrupted_one(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, module], capture_output=True, text=True)
    assert done.stdout == f"interrupted at {module}\n[3, 3]\n", done.stderr


KERNELS = """
import sys
from windlass import Operator, Query, Tumbling, agg
from windlass.kernels.importing import import_numba
from windlass.stores import TwoStacks

import_numba()
before = set(sys.modules)
twice = agg.define("twice", lift=lambda x: 2.0 * x, combine=lambda a, b: a + b, identity=lambda: 0.0)
store = TwoStacks(twice())
store.insert_many([1.0, 2.0])
assert store.query() == 6.0
operator = Operator(Query("q", Tumbling(10), agg.quantile("x", 0.5)), time="ts", key="k")
operator.process({"ts": [1, 2], "k": ["a", "b"], "x": [1, 2]})
assert len(operator.finish()) == 2
print(sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in ("numba", "llvmlite")))
"""


def test_no_kernel_imports_more_of_numba(tmp_path: Path) -> None:
    environment = os.environ | dict.fromkeys((VARIABLE, "NUMBA_CACHE_DIR"), str(tmp_path))
    done = subprocess.run([sys.executable, "-c", KERNELS], capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("error", [MemoryError("no room"), KeyboardInterrupt()])
def test_an_interruption_that_python_wraps_arrives_as_itself(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise RuntimeError("Error calling __set_name__") from error

    monkeypatch.setattr(importing, "_is_whole", False)
    monkeypatch.setattr(importing, "_known", None)
    monkeypatch.setattr(importing, "import_module", fail)
    with pytest.raises(type(error)) as caught:
        importing.import_numba()
    assert caught.value is error
