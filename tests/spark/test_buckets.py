"""Which keys a bucket has."""

import numpy as np
import pyarrow as pa
import pytest

from windlass.spark.buckets import bucket_of


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
