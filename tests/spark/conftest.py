"""One Spark session for all tests of this directory: starting one takes seconds, and a process has only one."""

import importlib.util
import os
from pathlib import Path

import pytest

if importlib.util.find_spec("pyspark") is None:  # without the extra, there is nothing to test here
    collect_ignore_glob = ["test_*.py"]


def pytest_configure(config):
    config.addinivalue_line("markers", "xdist_group(name): known also where xdist is switched off")


def pytest_collection_modifyitems(items):
    """With xdist's loadgroup, the tests here run in one worker, so that there is one session."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark():
    from windlass.spark.session import session

    # The workers find windlass as this process does, installed or not.
    source = str(Path(__file__).parents[2] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    running = session("windlass tests", master="local[2]", config={"spark.sql.shuffle.partitions": 2})
    yield running
    running.stop()


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.fixture
def settings(spark):
    """Change Spark's settings for a test."""
    before = {}

    def change(**values):
        for name, value in values.items():
            name = name.replace("_", ".")
            before.setdefault(name, spark.conf.get(name))
            spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)
