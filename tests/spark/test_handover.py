"""Rows that a bucket leaves for the worker that hands them to Spark."""

import os
import resource
import time

import numpy as np
import pyarrow as pa
import pytest

from windlass.errors import WindlassError
from windlass.spark.handover import leave, pick_up


@pytest.fixture
def executor(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},another")
    return tmp_path / "windlass-rows"


def numbers(count):
    return pa.table({"n": np.arange(count)})


def test_what_was_left_is_picked_up_once_in_order(executor):
    left = [leave([numbers(200_000), numbers(3)]), leave([numbers(2)])]
    assert sorted(left) == sorted(map(str, executor.iterdir()))
    found = pa.Table.from_batches(list(pick_up(left)))
    assert found["n"].to_pylist() == [*range(200_000), *range(3), *range(2)]
    assert not list(executor.iterdir())
    with pytest.raises(OSError, match=left[0]):
        next(pick_up(left[:1]))


def test_more_files_than_a_process_may_have_open(executor):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = [leave([numbers(1)]) for _ in range(700)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    try:
        assert sum(batch.num_rows for batch in pick_up(left)) == 700
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not list(executor.iterdir())


def test_who_stops_half_way_leaves_nothing_behind(executor):
    rows = pick_up([leave([numbers(200_000)]), leave([numbers(2)])])
    assert next(rows).num_rows == 1 << 16
    rows.close()
    assert not list(executor.iterdir())


def test_what_nobody_picked_up_goes_after_a_while(executor):
    killed, running = leave([numbers(1)]), leave([numbers(2)])
    os.utime(killed, (0, 0))
    hours_ago = time.time() - 12 * 3600
    os.utime(running, (hours_ago, hours_ago))  # the first bucket of a task that takes long
    another = leave([numbers(3)])
    assert set(map(str, executor.iterdir())) == {running, another}


def test_others_cannot_read_it(executor):
    leave([numbers(1)])
    assert executor.stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_left(executor):
    executor.write_text("not a directory")
    with pytest.raises(WindlassError, match=r"cannot be left in .*spark.local.dir has room"):
        leave([numbers(1)])
    assert list(executor.parent.iterdir()) == [executor]
