"""Blocks: what goes in comes out, as narrow as it can be on the way."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import CorruptSnapshot
from windlass.spark.blocks import EVENTS, SLICES, decode_block, encode_block

WORDS = st.integers(-(2**63), 2**63 - 1)
NEAR = st.builds(lambda at, by: [min(at + d, 2**63 - 1) for d in by], WORDS, st.lists(st.integers(0, 2**33)))


def comes_back(table: pa.Table) -> bytes:
    block = encode_block(table, SLICES)
    kind, found = decode_block(block)
    assert kind == SLICES
    assert found.schema.remove_metadata() == table.schema
    assert found.equals(table)
    return block


@given(NEAR | st.lists(WORDS), st.sampled_from([pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")]))
def test_words(values, type_):
    comes_back(pa.table({"a": pa.array(values, pa.int64()).cast(pa.int64()).view(type_)}))


@given(st.lists(st.none() | WORDS))
def test_words_and_nulls(values):
    comes_back(pa.table({"a": pa.array(values, pa.int64())}))


def test_other_types_stay_as_they_are():
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["a", None]))
    comes_back(
        pa.table(
            {
                "key": keys,
                "text": ["x", None, "z"],
                "number": [0.5, float("inf"), -0.0],
                "flag": [True, False, None],
                "small": pa.array([1, 2, 3], pa.int32()),
                "unsigned": pa.array([0, 2**64 - 1, 1], pa.uint64()),
            }
        )
    )


def test_several_chunks():
    one = pa.table({"a": [1, 2], "b": ["x", "y"]})
    comes_back(pa.concat_tables([one, one]))
    comes_back(one.slice(1))
    comes_back(one.slice(2))


@pytest.mark.parametrize(("range_", "width"), [(0, 1), (255, 1), (256, 2), (65_536, 4), (2**32 - 1, 4), (2**32, 8)])
def test_as_narrow_as_the_range(range_, width):
    n = 100_000
    times = np.full(n, -(2**62))
    times[-1] += range_
    block = comes_back(pa.table({"ts": pa.array(times).view(pa.timestamp("us", "UTC"))}))
    assert n * width <= len(block) < n * width + 2000


def test_damaged_blocks_are_refused():
    block = encode_block(pa.table({"a": [1, 2, 3]}), EVENTS)
    for bad in (b"", b"nonsense", block[:-40], block[: len(block) // 2], block[:-60] + b"?" + block[-59:]):
        with pytest.raises(CorruptSnapshot, match=r"damaged|not written by Windlass"):
            decode_block(bad)


@given(st.integers(0, 3000), st.integers(1, 400), st.booleans())
def test_structs_nulls_and_texts_that_repeat_themselves(n, distinct, valid):
    texts = pa.array([f"text {i % distinct}" for i in range(n)], pa.string())
    times = pa.array([i * 1_000_000 for i in range(n)], pa.timestamp("us", "UTC"))
    window = pa.struct([("start", times.type), ("end", times.type)])
    late = pa.struct([("reason", pa.string()), ("row", window)])
    some = pa.array([valid or bool(i % 3) for i in range(n)], pa.bool_())
    inner = pa.StructArray.from_arrays(
        [times, texts], fields=[pa.field("t", times.type), pa.field("text", pa.string())]
    )
    block = comes_back(
        pa.table(
            {
                "query": texts,
                "window": pa.StructArray.from_arrays([times, times], fields=list(window)),
                "within": pa.StructArray.from_arrays([inner], names=["inner"]),
                "partly": pa.StructArray.from_arrays([times], names=["t"], mask=pc.invert(some)),
                "late": pa.nulls(n, late),
                "nothing": pa.nulls(n),
            }
        )
    )
    if n == 3000 and distinct < 64 and valid:
        assert len(block) < n * (1 + 2 * 8 + 8 + 1 + 8) + 20_000
