"""docs/guide/cluster.md is true: its job, submitted as it says, on a master and two workers that have no Windlass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.spark import children
from windlass.spark.java import java_home

pytestmark = pytest.mark.faults

GUIDE = children.ROOT / "docs" / "guide" / "cluster.md"
MINUTE = 60_000_000


def job(path: Path) -> Path:
    """The blocks of the page that are the job."""
    blocks = re.findall(r"^```(?:python|py)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    path.write_text("\n\n".join(blocks))
    return path


def settings() -> list[str]:
    """Those of its table that are not about the size of the cluster, nor need Windlass on the workers beforehand."""
    rows = re.findall(r"^\| `(spark\.[\w.]+)` \| `([^`]+)` \|", GUIDE.read_text(), re.MULTILINE)
    chosen = [(name, value) for name, value in rows if name != "spark.python.daemon.module"]
    assert len(chosen) == len(rows) - 1 > 4
    return [part for name, value in chosen for part in ("--conf", f"{name}={value}")]


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        source = children.ROOT / "src"
        for file in sorted(source.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(source))
    return path


def test_the_job_of_the_guide(tmp_path, monkeypatch):
    (tmp_path / "events").mkdir()
    random, found = Random(5), defaultdict(list)
    for n in range(4):
        times = [1_700_000_040_000_000 + n * 5 * MINUTE + random.randrange(5 * MINUTE) for _ in range(500)]
        rows = [{"ts": ts, "sensor": random.choice("ab"), "value": random.randrange(100) / 4} for ts in times]
        for row in rows:
            found[row["sensor"], row["ts"] // MINUTE * MINUTE].append(row["value"])
        types = {"ts": pa.timestamp("us", "UTC"), "sensor": pa.string(), "value": pa.float64()}
        file = tmp_path / "events" / f"{n}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(types)), file)
        os.utime(file, (1e9 + n, 1e9 + n))

    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    bare = children.environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    bare.pop("PYTHONPATH")  # neither the cluster nor the driver finds Windlass but in the zip file
    monkeypatch.setattr(children, "environment", lambda: {k: v for k, v in bare.items() if k != "SPARK_LOCAL_IP"})
    cache = tmp_path / "kernels"
    with children.standalone(tmp_path) as master:
        submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master, *settings()]
        submit += ["--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.host=127.0.0.1"]
        submit += ["--conf", "spark.executor.memory=1g", "--conf", f"spark.executorEnv.WINDLASS_CACHE_DIR={cache}"]
        submit += ["--conf", f"spark.pyspark.python={sys.executable}", "--conf", "spark.log.level=ERROR"]
        submit += ["--py-files", str(zipped(tmp_path / "windlass.zip")), str(job(tmp_path / "job.py")), str(tmp_path)]
        run = subprocess.run(submit, env=bare, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-6000:]
    assert list(cache.rglob("*.kernel")), "the workers keep what they compiled where they are told"

    tables = [
        pq.read_table(p, coerce_int96_timestamp_unit="us") for p in (tmp_path / "windows").glob("batch=*/*.parquet")
    ]
    rows = [row for table in tables for row in table.to_pylist() if row["query"] == "minutes"]
    got = {(row["sensor"], int(row["window"]["start"].timestamp()) * 1_000_000): row["minutes"] for row in rows}
    assert len(got) == len(rows)
    # The last watermark lies between the starts of the last two minutes.
    complete = {key: values for key, values in found.items() if key[1] < max(start for _, start in found)}
    assert got == {key: {"n": len(v), "mean": sum(v) / len(v)} for key, v in complete.items()}
