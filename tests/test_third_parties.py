"""What comes from others is what it is said to be: no pickle is loaded but in named places, locks have hashes, licences
are listed."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests import licences

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "windlass"

# Modules and names whose data are code, or become it when they are read.
LOADERS = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "copyreg", "yaml"}
NAMES = {"allow_pickle", "read_pickle", "to_pickle", "PickleSerializer", "CPickleSerializer", "CloudPickleSerializer"}

ALLOWED = {
    ("kernels/cache.py", "pickle"): "machine code and its types, read from a directory that others cannot write to",
    ("kernels/cache.py", "numba.core.serialize"): "writes what the line above reads",
    ("spark/processor.py", "pyspark.cloudpickle"): "writes the job that Spark ships",
    ("spark/bucket.py", "pyspark.cloudpickle"): "reads the job that Spark ships; its submitter runs code anyway",
}


def loaders(source):
    """What a module uses of them: their names, as imported."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [(f"{node.module}.{alias.name}", alias.name) for alias in node.names]
            if node.module == "numba.core.serialize" or LOADERS & set((node.module or "").split(".")):
                yield str(node.module)
        else:
            named = []
        yield from (path for path, _ in named if LOADERS & set(path.split(".")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("__import__", "import_module"):
                yield from (c.value for c in node.args if isinstance(c, ast.Constant) and c.value in LOADERS)
        for name in (getattr(node, "arg", None), getattr(node, "attr", None), getattr(node, "id", None)):
            if name in NAMES:
                yield name


@pytest.mark.parametrize(
    "line",
    [
        "import pickle as p",
        "from pickle import loads",
        "from pyspark import cloudpickle",
        "import numba.cloudpickle",
        "from marshal import load as read",
        "np.load(path, allow_pickle=True)",
        "pd.read_pickle(path)",
        "importlib.import_module('pickle')",
    ],
)
def test_the_scan_finds(line):
    assert list(loaders(line))


def test_nothing_is_unpickled_but_the_job_that_spark_ships_and_kernels():
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in loaders(path.read_text())
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize("name", ["build", "dev", "tools"])
def test_every_locked_package_has_hashes_and_none_an_address(name):
    lock = (ROOT / "locks" / f"{name}.lock").read_text()
    packages = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert packages and all("==" in package and "--hash=sha256:" in package for package in packages)
    assert "://" not in lock and not re.search(r"^--?(index|extra|find|trusted)", lock, re.MULTILINE)


@pytest.mark.skipif(sys.platform != "linux" or sys.version_info >= (3, 14), reason="the list is that of Linux")
def test_licences_are_listed():
    assert licences.PAGE.read_text() == licences.page()


def test_each_locked_package_has_a_licence_in_the_list():
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (.+) \|$", licences.PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows if name != "package"] == licences.locked() and all(text for _, text in rows)
