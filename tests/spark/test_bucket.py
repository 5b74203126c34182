"""What a bucket hands over, and which keys it has."""

import numpy as np
import pyarrow as pa
import pytest

from windlass.errors import WindlassError
from windlass.spark import bucket
from windlass.spark.blocks import unpacked
from windlass.spark.bucket import Bucket
from windlass.spark.buckets import bucket_of
from windlass.spark.merge import Step


def handed_over(rows):
    one = Bucket(None, 0, None, None, None)
    return list(one._payloads(Step(rows, 0)))


def test_rows_leave_as_payloads():
    tables = [pa.table({"n": np.arange(100_000)}), pa.table({"n": np.arange(3)})]
    given = handed_over(tables)
    assert len(given) == 3
    assert all(row.events == 0 and row.watermark is None for row in given)
    assert pa.concat_tables([unpacked(row.payload)[1] for row in given])["n"].to_pylist() == [*range(100_000), 0, 1, 2]


def test_more_than_an_array_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(bucket, "_MOST", 1 << 16)
    assert len(handed_over([pa.table({"n": np.arange(10_000)})])) == 1
    with pytest.raises(WindlassError, match="more buckets"):
        handed_over([pa.table({"n": np.arange(1_000_000)})])


@pytest.mark.parametrize("step", [1, 2, 7, 100, 3600, -5])
@pytest.mark.parametrize("buckets", [2, 3, 8])
def test_numbers_in_steps_are_spread_evenly(step, buckets):
    keys = pa.array(np.arange(1000) * step - 20)
    found = np.bincount(bucket_of([keys], 1000, buckets), minlength=buckets)
    assert found.max() <= 1.1 * 1000 / buckets


def test_the_bucket_of_a_key_does_not_depend_on_the_others():
    keys = pa.array([None, 3, -7, 2**40, 3, None], pa.int64())
    found = bucket_of([keys], 6, 5).tolist()
    assert [bucket_of([keys.slice(i, 1)], 1, 5)[0] for i in range(6)] == found
    assert bucket_of([keys.dictionary_encode()], 6, 5).tolist() == found
    assert bucket_of([pa.chunked_array([keys.slice(0, 2), keys.slice(2)])], 6, 5).tolist() == found
