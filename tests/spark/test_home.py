"""A home without the zip file: links that are made once, and what stands in the way of them."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

from windlass import private_directories
from windlass.errors import UntrustedDirectory
from windlass.spark import home


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    package = tmp_path / "pyspark"
    for name in ("bin", "jars", "python"):
        (package / name).mkdir(parents=True)
    monkeypatch.setattr(pyspark, "__file__", str(package / "__init__.py"))
    return package


def test_it_has_all_but_python_and_is_there_for_the_start_only(package) -> None:
    with home.without_zip():
        found = Path(os.environ["SPARK_HOME"])
        assert {entry.name: entry.resolve() for entry in found.iterdir()} == {
            name: package / name for name in ("bin", "jars")
        }
    assert "SPARK_HOME" not in os.environ
    (package / "sbin").mkdir()  # another version, in the same place
    with home.without_zip():
        assert Path(os.environ["SPARK_HOME"]) == found
        assert (found / "sbin").is_dir()
    assert [entry for entry in found.parent.iterdir() if entry != found] == []


def test_a_home_of_the_users_own_stays(package, monkeypatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with home.without_zip():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_home_that_others_could_have_written_is_not_used(package, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(private_directories.tempfile, "tempdir", str(tmp_path))
    with home.without_zip():
        first = Path(os.environ["SPARK_HOME"])
    (tmp_path / "cache").chmod(0o777)
    with (
        pytest.warns(UntrustedDirectory, match=r"windlass is not used: its parent .*cache is writable"),
        home.without_zip(),
    ):
        assert Path(os.environ["SPARK_HOME"]) == tmp_path / f"windlass-{os.geteuid()}" / first.name


def test_what_is_no_whole_spark_is_left_alone(package) -> None:
    (package / "jars").rmdir()
    with home.without_zip():
        assert "SPARK_HOME" not in os.environ


def test_workers_load_the_installed_package(spark) -> None:
    def where(batches):
        import pyarrow as pa
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(where, "file string").collect()
    assert row.file == pyspark.__file__
