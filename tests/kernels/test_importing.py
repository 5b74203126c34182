"""An import of numba that is interrupted leaves nothing behind: the next call imports it whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    ],
)
def test_a_second_import_after_an_interrupted_one(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, module], capture_output=True, text=True)
    assert done.stdout == f"interrupted at {module}\n[3, 3]\n", done.stderr
