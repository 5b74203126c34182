"""Workers are forked with Windlass loaded, and have no garbage to look for in it."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

pytestmark = pytest.mark.xdist_group("spark")


def test_workers_of_a_session_find_windlass_loaded(spark) -> None:
    def look(batches):
        import gc
        import sys

        for _ in batches:
            pass
        loaded = [name for name in ("numba", "windlass.spark.bucket") if name in sys.modules]
        yield pa.RecordBatch.from_pydict({"loaded": [len(loaded)], "frozen": [gc.get_freeze_count()]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(look, "loaded bigint, frozen bigint").collect()
    assert found.loaded == 2 and found.frozen > 50_000


def test_a_processor_travels_without_windlass() -> None:
    """Spark starts a process for each query that only asks what state there will be."""
    program = """
import sys
import pyarrow as pa
from pyspark import cloudpickle
from windlass import Query, Tumbling, agg
from windlass.spark.frame import Frame
from windlass.spark.job import Job
from windlass.spark.processor import processor

schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.int64())])
job = Job((Query("q", Tumbling("1m"), agg.sum("x")),), schema, "ts", (), None, 0, None, "slices", 2)
sys.stdout.buffer.write(cloudpickle.dumps(processor(Frame(job))))
"""
    made = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
    reader = """
import sys
from pyspark import cloudpickle
found = cloudpickle.loads(sys.stdin.buffer.read())
print(type(found).__name__, *[name for name in ("windlass", "numba", "pandas") if name in sys.modules])
"""
    read = subprocess.run([sys.executable, "-c", reader], check=True, capture_output=True, input=made).stdout
    assert read.decode().split() == ["Processor"]
