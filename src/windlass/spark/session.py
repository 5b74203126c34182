"""A Spark session that Windlass runs well on, in one process and without a word of configuration.

    spark = windlass.spark.session()                                        # all cores of this machine
    spark = windlass.spark.session(config={"spark.driver.memory": "8g"})    # what you set wins

A session that is already running is returned as it is, as `SparkSession.builder.getOrCreate` does; it has to be one
that can run Windlass.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from windlass.errors import InvalidArgument
from windlass.spark.generator import register
from windlass.spark.home import without_zip
from windlass.spark.java import java_home
from windlass.spark.sockets import socket_settings

__all__ = ["check", "is_classic", "session"]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ARROW_BYTES, NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

# Spark's other settings stay as they are. Switching off whole-stage code generation, adaptive execution or checksums of
# checkpoint files was tried, and showed no gain beyond the noise of a busy machine (a fifth of a micro-batch). Batches
# without data have to be run: where the watermark is Spark's, windows become due in them.
_SETTINGS = {
    # Keyed state of one's own (transformWithState) exists on this provider only.
    PROVIDER: ROCKSDB,
    # A commit writes what changed rather than a snapshot of the store. Measured on two busy cores: 260 to 280 ms of
    # commit in a micro-batch, against 410 to 600. What that is of the whole batch was lost in the noise.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Else every write to the state first reads what is there, just to count rows; of a bucket's log, all of it.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Rows cross to Python in Arrow batches: the fewer, the better. With a limit to their bytes, Spark adds up the
    # buffers of a batch after every row, which takes longer than all else that it does with the row. This is no limit.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    ARROW_BYTES: NO_LIMIT,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Of a row's columns, a few to a method: Spark's choice is one, as soon as there are structs, and a call for each.
    "spark.sql.codegen.methodSplitThreshold": "3072",
    # Windows are cut in UTC, and what is shown should be what was cut.
    "spark.sql.session.timeZone": "UTC",
    # Of Python workers: memory that was freed is used again, by the next task if not by this one. Else it goes back to
    # the system, whose pages cost more to have anew, at every task, than what is written on them.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 28),
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",  # milliseconds; Arrow's allocator
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Arrow's Java library checks bounds and nulls at every value that Spark reads from it, which Spark has checked already.
_JAVA = ["-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false"]
# From the first line on; spark.log.level and setLogLevel come after the first warnings. Not in a zip file.
_QUIET = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"] if _LOGGING.is_file() else []

# Blocks are large for objects. Java's usual collector goes through the whole heap beside the tasks, again and again,
# to find out which of them are alive; this one does so when it has to.
_COLLECTOR = "-XX:+UseParallelGC"

# Of a session within this process only.
_LOCAL = {
    # How files of a checkpoint are put in place. Spark's choice asks Hadoop for links and permissions, and where Hadoop
    # has no native library, that starts a process for each question: 22 of them for a file, with this one 4.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Workers are forked with everything loaded. On a cluster, set it where Windlass is installed on the workers.
    "spark.python.daemon.module": "windlass.spark.daemon",
    # Nothing listens beyond this machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # The driver is everything here, and 1g, the default, is soon used up by state and Arrow buffers.
    "spark.driver.memory": "2g",
}


def session(
    app_name: str = "windlass", *, master: str = "local[*]", config: Mapping[str, object] | None = None
) -> SparkSession:
    """The running Spark session, or a new one on `master`, with `config` on top of Windlass's settings."""
    chosen = {key: _text(value) for key, value in (config or {}).items()}
    if SparkContext._active_spark_context is not None:
        # `getOrCreate` without settings changes none; with settings, those that can still be changed.
        spark = SparkSession.builder.config(map=dict(chosen)).getOrCreate()
        check(spark)
    else:
        local = master.startswith("local")
        settings = _SETTINGS | (_LOCAL if local else {})
        collector = [] if _has_collector(chosen) else [_COLLECTOR]
        settings["spark.driver.extraJavaOptions"] = " ".join([*_JAVA, *_QUIET, *collector])
        if local:  # of executors that are processes of this machine; elsewhere they have options of their own
            settings["spark.executor.extraJavaOptions"] = " ".join([*_JAVA, *collector])
            settings |= socket_settings(chosen)
        if cores := _cores(master):
            # Each partition of state has a store to commit, so more of them than cores only cost time.
            settings["spark.sql.shuffle.partitions"] = str(cores)
        _prepare(chosen, local=local)
        builder = SparkSession.builder.appName(app_name).master(master)
        with without_zip() if _is_own(chosen) else nullcontext():
            spark = builder.config(map=dict(settings | chosen)).getOrCreate()
        check(spark)
    register(spark)
    return spark


def check(spark: SparkSession) -> None:
    """Refuse a session that cannot run Windlass, and say what to set."""
    provider = spark.conf.get(PROVIDER)
    if not provider or not provider.endswith(".RocksDBStateStoreProvider"):
        raise InvalidArgument(
            f"Windlass keeps its state in RocksDB, but this session has {PROVIDER} = {provider}: "
            f"spark.conf.set({PROVIDER!r}, {ROCKSDB!r}), or make the session with windlass.spark.session()"
        )
    if not is_classic(spark):
        return  # of Spark Connect: what its server runs Python with cannot be seen from here
    context = spark.sparkContext
    if str(context.master).startswith("local") and (trouble := _trouble(context.pythonExec)):
        raise InvalidArgument(
            f"this session runs Python code with {context.pythonExec!r}, {trouble}: stop it, set PYSPARK_PYTHON to "
            f"{sys.executable!r} and start anew, or make the session with windlass.spark.session()"
        )


def is_classic(spark: object) -> bool:
    """Whether a session has its JVM at hand; one of Spark Connect has not."""
    return hasattr(spark, "_jsparkSession")


def measures_batches(spark: SparkSession) -> bool:
    """Whether Spark looks, at every row that it hands to Python, how large the batch has become."""
    return spark.conf.get(ARROW_BYTES) != NO_LIMIT


def _prepare(chosen: Mapping[str, str], *, local: bool) -> None:
    """What has to be in the environment when the JVM starts: a Java, and the Python of the workers."""
    # Not on a user's own choice: Spark's setting or variable for both, or the variable for the driver.
    if "spark.pyspark.python" not in chosen:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "spark.pyspark.driver.python" not in chosen:
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if SparkContext._gateway is None:  # a JVM outlives the sessions in it
        os.environ["JAVA_HOME"] = str(java_home())
        if local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark looks for an address, and says so


def _is_own(chosen: Mapping[str, str]) -> bool:
    """Whether the workers' Python is this one, which has pyspark installed."""
    return (chosen.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")) == sys.executable


def _has_collector(chosen: Mapping[str, str]) -> bool:
    """Whether someone has said which collector Java is to use: it does not start if it is told of two."""
    names = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
    given = [os.environ.get(name, "") for name in names]
    return bool(re.search(r"-XX:\+Use\w+GC\b", " ".join([*given, chosen.get("spark.driver.defaultJavaOptions", "")])))


def _cores(master: str) -> int | None:
    """How many tasks a local master runs at once."""
    if not master.startswith("local"):
        return None
    if cluster := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(cluster[1]) * int(cluster[2])  # executors, and the cores of each
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _trouble(python: str) -> str | None:
    """What is wrong with the interpreter of the workers, if it is not the one we run in."""
    found = shutil.which(python)
    if found is None:
        return "which is not there"
    if Path(found) == Path(sys.executable):
        return None
    run = subprocess.run([found, "-c", _PROBE], capture_output=True, text=True, check=False)
    if run.returncode:
        return "which cannot import windlass"
    if run.stdout.split()[-1:] != [f"{sys.version_info[0]}.{sys.version_info[1]}"]:
        return "which is another version of Python"
    return None


_PROBE = "import sys, pyarrow, windlass; print('%d.%d' % sys.version_info[:2])"
