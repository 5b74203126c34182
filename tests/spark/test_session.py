"""Sessions: the settings, a running one, and refusing one that cannot run Windlass."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.errors import InvalidArgument
from windlass.spark.session import PROVIDER, ROCKSDB, _cores, _has_collector, _text, check, session

pytestmark = pytest.mark.xdist_group("spark")


def test_settings(spark):
    assert spark.conf.get(PROVIDER) == ROCKSDB
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def test_the_running_session_is_reused_and_given_what_can_be_set(spark):
    assert session() is spark
    try:
        assert session(config={"spark.sql.ansi.doubleQuotedIdentifiers": True}) is spark
        assert spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers") == "true"
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # nothing that was not asked for


def test_a_session_without_rocksdb_is_refused(spark):
    spark.conf.unset(PROVIDER)
    try:
        with pytest.raises(InvalidArgument, match=r"keeps its state in RocksDB, .*HDFSBacked.*spark.conf.set"):
            session()
    finally:
        spark.conf.set(PROVIDER, ROCKSDB)
    assert session() is spark


def test_a_session_whose_workers_have_another_python_is_refused(spark, tmp_path, monkeypatch):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    with pytest.raises(InvalidArgument, match="cannot import windlass: stop it, set PYSPARK_PYTHON to"):
        check(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "none"))
    with pytest.raises(InvalidArgument, match="which is not there"):
        check(spark)


def test_workers_run_in_this_python(spark):
    def where(batches):
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1, numPartitions=1).mapInArrow(where, "python string").collect()
    assert [row.python for row in rows] == [sys.executable]


def test_cores_and_text():
    assert [_cores(m) for m in ("local", "local[3]", "local[3,2]", "local[*]")] == [1, 3, 3, os.cpu_count()]
    assert _cores("local-cluster[3,2,1024]") == 6
    assert _cores("yarn") is None
    assert (_text(True), _text(2), _text("x")) == ("true", "2", "x")


QUIET = """
import subprocess, sys
from windlass.spark.session import session
spark = session("quiet", master="local[1]", config={"spark.sql.shuffle.partitions": 3})
assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
assert spark.sparkContext.appName == "quiet"
assert spark.read.format("windlass-generator").options(rows=10).load().count() == 10
print(spark._jvm.java.lang.ProcessHandle.current().pid())
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
try:
    print(subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True).stdout)
except FileNotFoundError:
    pass
"""

# Python processes that plan a data source are forked by Spark's own daemon. They may find their sockets closed at the
# end, and say so.
CLOSED = r"Traceback .*\n(  .*daemon\.py.*\n(    .*\n)+)+(BrokenPipe|ConnectionReset)Error: .*\n"


@pytest.mark.slow
def test_a_new_session_is_quiet_and_listens_on_loopback_only(tmp_path):
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_", "JDK_"))
    }
    environment["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    run = subprocess.run(
        [sys.executable, "-c", QUIET], env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    said = re.sub(CLOSED, "", run.stderr)
    noise = [line for line in said.splitlines() if "incubator modules" not in line]  # said by Java itself
    assert noise == []
    pid, *sockets = run.stdout.splitlines()
    ours = [line.split()[3] for line in sockets if f"pid={pid}," in line]
    assert all("127.0.0.1" in address or "[::1]" in address for address in ours)
    assert list(tmp_path.iterdir()) == []  # no spark-warehouse, no metastore, no logs


def test_java_is_told_of_one_collector(monkeypatch):
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    assert not _has_collector({})
    assert not _has_collector({"spark.driver.defaultJavaOptions": "-XX:+UseStringDeduplication"})
    assert _has_collector({"spark.driver.defaultJavaOptions": "-Dx=y -XX:+UseG1GC"})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xss2m -XX:+UseZGC")
    assert _has_collector({})
