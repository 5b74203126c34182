"""A directory of kernels, shared by installations of Windlass at different places: here in two zip files."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

PROGRAM = """
import numpy as np
import windlass
from windlass import agg
from windlass.aggregates import evaluation
total = agg.define("total", lift=lambda x: x * 2.0, combine=lambda a, b: a + b)
assert total().of(np.array([3.0, 1.0])) == 8.0
print(windlass.__file__)
print(sum(kernel.compilations for kernel in evaluation._kernels.values()))
"""


def test_what_one_installation_compiled_is_found_by_another(tmp_path):
    found = []
    for place in ("one", "two"):
        archive = tmp_path / place / "windlass.zip"
        archive.parent.mkdir()
        with zipfile.ZipFile(archive, "w") as zipped:
            for file in sorted((SOURCE / "windlass").rglob("*.py")):
                zipped.write(file, file.relative_to(SOURCE))
        environment = os.environ | {"PYTHONPATH": str(archive), "WINDLASS_CACHE_DIR": "kernels", "HOME": str(tmp_path)}
        run = [sys.executable, "-c", PROGRAM]
        said = subprocess.run(run, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        where, compilations = said.stdout.split()
        assert where.startswith(str(archive))
        found.append(int(compilations))
    assert found[0] > 0 and found[1] == 0
    assert list((tmp_path / "kernels").glob("*.nbc"))
