"""Keys: dense ids against a dictionary, all types, taking back, snapshots, and input that must be refused."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import CorruptSnapshot, InvalidArgument, WrongType
from windlass.operator.keys import KeyIndex

UTC = dt.UTC

# A few values of every type that can be a key, with nulls and repeats.
SAMPLES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [5, None, 5, -(2**63), 2**63 - 1, 0, None, 5]),
    "int8": (pa.int8(), [5, -128, 127, None, 5]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, None, 2**63, 2**64 - 1]),
    "uint16": (pa.uint16(), [65535, 0, 65535]),
    "bool": (pa.bool_(), [True, False, None, True]),
    "float64": (pa.float64(), [1.5, None, math.inf, -math.inf, 1.5, 5e-324]),
    "float32": (pa.float32(), [1.5, None, 0.25]),
    "float16": (pa.float16(), [np.float16(1.5), None, np.float16(0.25)]),
    "timestamp": (pa.timestamp("ns"), [dt.datetime(2024, 1, 1), None, dt.datetime(1969, 1, 1)]),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), [dt.datetime(2024, 1, 1, tzinfo=UTC), None]),
    "date32": (pa.date32(), [dt.date(2024, 1, 1), None, dt.date(1900, 1, 1)]),
    "date64": (pa.date64(), [dt.date(2024, 1, 1), None, dt.date(1900, 1, 1)]),
    "time32": (pa.time32("s"), [dt.time(1, 2, 3), None]),
    "time64": (pa.time64("us"), [dt.time(1, 2, 3, 4), None]),
    "duration": (pa.duration("ms"), [dt.timedelta(seconds=1), None]),
    "string": (pa.string(), ["ann", "", None, "bob", "ann", "zoë", "a" * 100]),
    "large_string": (pa.large_string(), ["ann", "", None, "bob"]),
    "binary": (pa.binary(), [b"ann", b"", None, b"\x00", b"\x00\x00"]),
    "large_binary": (pa.large_binary(), [b"ann", b"", None]),
    "fixed": (pa.binary(3), [b"ann", b"bob", None, b"\x00\x00\x00", b"ann"]),
    "decimal128": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal("-1.50"), Decimal("1.50")]),
    "decimal256": (pa.decimal256(50, 2), [Decimal("1.50"), None, Decimal("-1.50")]),
}


def identity(value: Any) -> Any:
    """What makes two key values the same key."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def dense(rows: list[Any], known: dict[Any, int]) -> list[int]:
    return [known.setdefault(identity(row), len(known)) for row in rows]


# --------------------------------------------------------------------------- ids


def test_ids_are_given_in_order_of_first_appearance():
    #   ann  bob  ann  null  bob  cid
    #    0    1    0    2     1    3
    index = KeyIndex(("user",))
    assert index.encode([pa.array(["ann", "bob", "ann", None])]).tolist() == [0, 1, 0, 2]
    assert index.encode([pa.array(["bob", "cid"])]).tolist() == [1, 3]
    assert len(index) == 4
    (users,) = index.decode(np.array([3, 2, 0]))
    assert users.to_pylist() == ["cid", None, "ann"]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_type_of_key_comes_back_as_it_was(name):
    type_, values = SAMPLES[name]
    index, known = KeyIndex(("k",)), {}
    array = pa.array(values, type_)
    assert index.encode([array]).tolist() == dense(array.to_pylist(), known)
    backwards = array.take(pa.array(range(len(array))[::-1]))
    assert index.encode([backwards]).tolist() == dense(backwards.to_pylist(), known)
    assert len(index) == len(known)
    (decoded,) = index.decode(np.arange(len(index)))
    assert decoded.type == type_
    assert decoded.to_pylist() == list(dict.fromkeys(array.to_pylist()))
    decoded.validate(full=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_slices_chunks_and_dictionaries_are_only_other_encodings(name):
    type_, values = SAMPLES[name]
    array = pa.array(values * 3, type_)
    expected = KeyIndex(("k",)).encode([array]).tolist()
    padded = pa.concat_arrays([array[:1], array, array[:2]])
    assert KeyIndex(("k",)).encode([padded.slice(1, len(array))]).tolist() == expected
    chunked = pa.chunked_array([array[:2], array[2:2], array[2:]])
    assert KeyIndex(("k",)).encode([chunked]).tolist() == expected
    if name != "float16":  # which Arrow does not put in dictionaries
        encoded = array.dictionary_encode()
        index = KeyIndex(("k",))
        assert index.encode([encoded]).tolist() == expected
        assert index.decode(np.array([0]))[0].type == type_
        assert index.encode([array]).tolist() == expected


def test_numbers_that_are_equal_are_one_key():
    index = KeyIndex(("x",))
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    assert index.encode([pa.array([0.0, -0.0, math.nan, other_nan, -math.nan])]).tolist() == [0, 0, 1, 1, 1]
    (x,) = index.decode(np.array([0, 1]))
    assert math.copysign(1, x[0].as_py()) == 1
    assert math.isnan(x[1].as_py())


def test_strings_that_share_prefixes_lengths_and_zeros_are_kept_apart():
    texts = ["", "\0", "\0\0", "a", "a\0", "abcdefgh", "abcdefg\0", "abcdefghi", "abcdefgh\0", "x" * 17, "x" * 16 + "y"]
    index = KeyIndex(("k",))
    assert index.encode([pa.array(texts)]).tolist() == list(range(len(texts)))
    assert index.encode([pa.array(texts[::-1])]).tolist() == list(range(len(texts)))[::-1]


def test_views_are_strings():
    index = KeyIndex(("k",))
    views = pa.array(["a", None, "a long string that is not inlined"], pa.string_view())
    assert index.encode([views]).tolist() == [0, 1, 2]
    assert index.types == [pa.string()]


def test_categories_of_views_are_strings():
    frame = pl.DataFrame({"k": pl.Series(["u", "v", None, "u"], dtype=pl.Categorical)})
    index = KeyIndex(("k",))
    assert index.encode([pa.table(frame)["k"]]).tolist() == [0, 1, 2, 0]
    assert index.decode(np.arange(3))[0].equals(pa.array(["u", "v", None]))


def test_no_key_is_one_key():
    index = KeyIndex()
    assert len(index) == 1
    assert index.encode([], rows=3).tolist() == [0, 0, 0]
    assert index.decode(np.zeros(3, np.int64)) == []
    with pytest.raises(InvalidArgument, match="rows"):
        index.encode([])
    assert len(KeyIndex.restore((), index.record())) == 1


def test_several_columns_are_one_key():
    index, known = KeyIndex(("a", "b", "c")), {}
    a = pa.array([1, 1, 2, None, 1, 1, None])
    b = pa.array(["x", None, "x", "x", "x", "y", "x"])
    c = pa.array([True, True, True, True, True, False, True])
    rows = list(zip(a.to_pylist(), b.to_pylist(), c.to_pylist(), strict=True))
    assert index.encode([a, b, c]).tolist() == dense(rows, known)
    assert len(index) == len(known)
    decoded = index.decode(np.arange(len(index)))
    assert list(zip(*(column.to_pylist() for column in decoded), strict=True)) == list(known)
    assert [column.type for column in decoded] == [pa.int64(), pa.string(), pa.bool_()]


values = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63), 2**32, 2**40, 1 << 62]))
texts = st.one_of(st.none(), st.text("ab\0é", max_size=12))
batches = st.lists(st.lists(st.tuples(values, texts), max_size=60), max_size=6)


@given(batches, st.data())
def test_ids_agree_with_a_dictionary_whatever_is_taken_back(batches, data):
    for columns in (["n"], ["s"], ["n", "s"], ["s", "n", "s"]):
        index, known = KeyIndex([f"{c}{k}" for k, c in enumerate(columns)]), {}
        for batch in batches:
            rows = [tuple(n if c == "n" else s for c in columns) for n, s in batch]
            arrays = [
                pa.array([row[k] for row in rows], pa.int64() if c == "n" else pa.string())
                for k, c in enumerate(columns)
            ]
            before = len(known)
            assert index.encode(arrays).tolist() == dense(rows, known)
            if data.draw(st.booleans(), "take back"):
                keep = data.draw(st.integers(before, len(known)), "keep")
                index.truncate(keep)
                known = dict(list(known.items())[:keep])
            assert len(index) == len(known)
            if data.draw(st.booleans(), "restore"):
                index = KeyIndex.restore(index.names, index.record())
            decoded = index.decode(np.arange(len(index)))
            assert list(zip(*(c.to_pylist() for c in decoded), strict=True)) == list(known)


def test_many_keys_grow_the_tables_and_can_be_taken_back():
    rng = np.random.default_rng(7)
    numbers = rng.integers(-(2**63), 2**63 - 1, 200_000)
    texts = pa.array([f"user-{n}" for n in numbers[:50_000]])
    for array, more in ((pa.array(numbers[:100_000]), pa.array(numbers)), (texts[:20_000], texts)):
        index = KeyIndex(("k",))
        first = index.encode([array])
        assert first.tolist() == list(range(len(array)))
        assert index.encode([more]).tolist() == list(range(len(more)))
        index.truncate(len(array))
        assert index.encode([array]).tolist() == first.tolist()
        assert index.encode([more]).tolist() == list(range(len(more)))
        assert index.decode(np.arange(len(more)))[0].equals(more)


def test_regular_integers_do_not_pile_up():
    for step in (1, 1 << 20, 1 << 32, 1 << 43, -7):
        index = KeyIndex(("k",))
        keys = np.arange(20_000) * np.int64(step)
        index.encode([pa.array(keys)])
        slots = np.flatnonzero(index._columns[0].table.slots[:, 1])
        longest = np.max(np.diff(np.flatnonzero(np.concatenate([[1], np.diff(slots) != 1, [1]]))))
        assert longest < 200


# --------------------------------------------------------------------------- types


def test_other_widths_are_taken_if_no_value_is_changed():
    index = KeyIndex(("k",))
    index.encode([pa.array([1, 2], pa.int32())])
    assert index.encode([pa.array([2], pa.int8())]).tolist() == [1]
    assert index.encode([pa.array([1], pa.uint64())]).tolist() == [0]
    assert index.encode([pa.array([3, None], pa.int64())]).tolist() == [2, 3]
    with pytest.raises(WrongType, match="'k' is of int32 since the first batch"):
        index.encode([pa.array([4, 2**40])])
    assert len(index) == 4
    assert index.types == [pa.int32()]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array(["1"])),
        (pa.array(["1"]), pa.array([1])),
        (pa.array(["1"]), pa.array([b"1"])),
        (pa.array([1]), pa.array([1.0])),
        (pa.array([1]), pa.array([True])),
        (pa.array([1]), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
        (pa.array([1], pa.timestamp("s")), pa.array([1_500_000], pa.timestamp("us"))),
        (pa.array([0.5], pa.float32()), pa.array([0.1])),
        (pa.array([0.5]), pa.array([2**53 + 1])),
        (pa.array([b"abc"], pa.binary(3)), pa.array([b"abcd"], pa.binary(4))),
        (pa.array([b"abc"], pa.binary(3)), pa.array([b"abcd"])),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.55")])),
        (pa.array(["1"]).dictionary_encode(), pa.array([1]).dictionary_encode()),
    ],
)
def test_another_type_is_refused_and_nothing_changes(first, second):
    index = KeyIndex(("a", "k"))
    index.encode([pa.array([1]), first])
    before = index.record()
    with pytest.raises(WrongType, match="'k'"):
        index.encode([pa.array([2]), second])
    assert repr(index.record()) == repr(before)
    assert index.encode([pa.array([1]), first]).tolist() == [0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(["a"]), pa.array(["a"], pa.large_string())),
        (pa.array(["a"]), pa.array(["a"], pa.string_view())),
        (pa.array(["a"]), pa.array(["a"]).dictionary_encode()),
        (pa.array([b"abc"]), pa.array([b"abc"], pa.binary(3))),
        (pa.array([0.5]), pa.array([0.5], pa.float32())),
        (pa.array([0.5], pa.float32()), pa.array([0.5])),
        (pa.array([2.0]), pa.array([2])),
        (pa.array([1], pa.timestamp("s")), pa.array([1_000_000], pa.timestamp("us"))),
        (pa.array([1], pa.timestamp("s", "UTC")), pa.array([1_000], pa.timestamp("ms", "Asia/Tokyo"))),
        (pa.array([1], pa.date32()), pa.array([86_400_000], pa.date64())),
        (pa.array([Decimal("1.50")]), pa.array([Decimal("1.5")])),
        (pa.array([Decimal("1.50")]), pa.array([Decimal("1.50")], pa.decimal256(40, 2))),
    ],
)
def test_other_encodings_of_equal_values_are_equal_keys(first, second):
    index = KeyIndex(("k",))
    assert index.encode([first]).tolist() == index.encode([second]).tolist() == [0]
    assert index.types == [first.type]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)),
    ],
)
def test_types_that_cannot_be_keys(array):
    index = KeyIndex(("k",))
    with pytest.raises(WrongType, match="a key is an integer, a string"):
        index.encode([array])
    assert index.encode([pa.array([1])]).tolist() == [0]


def test_a_column_of_nothing_but_nulls_does_not_fix_the_type():
    for later in (pa.array(["a", None]), pa.array([7, None])):
        index = KeyIndex(("k",))
        assert index.encode([pa.nulls(2)]).tolist() == [0, 0]
        assert index.types == [pa.null()]
        assert index.decode(np.array([0]))[0].to_pylist() == [None]
        index = KeyIndex.restore(("k",), index.record())
        assert index.encode([later]).tolist() == [1, 0]
        assert index.encode([pa.nulls(1)]).tolist() == [0]
        assert index.decode(np.array([0, 1]))[0].equals(later.take(pa.array([1, 0])))
        index.truncate(1)  # the type was told by what is taken back
        assert index.types == [pa.null()]
        assert index.encode([pa.array([b"x"])]).tolist() == [1]


def test_a_batch_that_was_taken_back_leaves_no_type_behind():
    index = KeyIndex(("a", "b"))
    index.encode([pa.array([1]), pa.array(["x"])])
    index.truncate(0)
    assert index.encode([pa.array(["x"]), pa.array([1])]).tolist() == [0]


def test_empty_batches():
    index = KeyIndex(("a", "b"))
    empty = [pa.array([], pa.int64()), pa.chunked_array([], pa.string())]
    assert index.encode(empty).tolist() == []
    assert index.types == [pa.int64(), pa.string()]
    assert len(index) == 0
    assert [c.type for c in index.decode(np.array([], np.int64))] == [pa.int64(), pa.string()]


# --------------------------------------------------------------------------- hostile input


def test_columns_that_do_not_fit_together():
    index = KeyIndex(("a", "b"))
    with pytest.raises(InvalidArgument, match="2 key column"):
        index.encode([pa.array([1])])
    with pytest.raises(InvalidArgument, match="length"):
        index.encode([pa.array([1]), pa.array([1, 2])])
    assert len(index) == 0


def test_ids_and_lengths_that_do_not_exist():
    index = KeyIndex(("a",))
    index.encode([pa.array([1, 2])])
    for ids in ([2], [-1]):
        with pytest.raises(InvalidArgument):
            index.decode(np.array(ids))
    for n in (-1, 3):
        with pytest.raises(InvalidArgument):
            index.truncate(n)


def test_a_dictionary_with_wild_indices():
    indices = pa.array([0, 5], pa.int8())
    wild = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    with pytest.raises(InvalidArgument, match="outside of its dictionary"):
        KeyIndex(("k",)).encode([wild])


def test_dictionaries_with_unused_repeated_and_null_entries():
    array = pa.DictionaryArray.from_arrays(
        pa.array([4, 1, None, 2, 0, 3], pa.int32()), pa.array(["a", "b", "a", None, "z", "never used"])
    )
    index = KeyIndex(("k",))
    assert index.encode([array]).tolist() == [0, 1, 2, 3, 3, 2]
    assert index.decode(np.arange(4))[0].to_pylist() == ["z", "b", None, "a"]


def test_misaligned_buffers():
    raw = b"\0" + np.arange(5, dtype=np.int64).tobytes()
    array = pa.Array.from_buffers(pa.int64(), 5, [None, pa.py_buffer(raw)[1:]])
    assert KeyIndex(("k",)).encode([array]).tolist() == [0, 1, 2, 3, 4]


def test_a_refused_column_leaves_all_columns_as_they_were():
    index = KeyIndex(("a", "b"))
    index.encode([pa.array([1]), pa.array(["x"])])
    before = repr(index.record())
    with pytest.raises(WrongType):
        index.encode([pa.array([2]), pa.array([2.5])])
    assert repr(index.record()) == before


# --------------------------------------------------------------------------- snapshots


def snapshots() -> tuple[KeyIndex, dict[str, Any]]:
    index = KeyIndex(("a", "b"))
    index.encode([pa.array([1, 2, None, 1]), pa.array(["x", "yy", "x", None])])
    return index, index.record()


def test_a_snapshot_does_not_change_with_the_index():
    index, state = snapshots()
    before = repr(state)
    index.encode([pa.array([9]), pa.array(["z"])])
    assert repr(state) == before
    assert len(KeyIndex.restore(("a", "b"), state)) == 4


@pytest.mark.parametrize(
    ("place", "part", "value"),
    [
        (0, "words", np.array([1, 1, 0])),
        (0, "null", 9),
        (0, "null", -2),
        (1, "ends", np.array([0, 1])),
        (1, "ends", np.array([0, 3, 1, 3])),
        (1, "bytes", np.array([1], np.uint8)),
        (None, "words", np.array([7 << 32])),
        (None, "words", np.array([-1])),
        (None, "words", np.array([9])),
        (None, "words", "nonsense"),
    ],
)
def test_damaged_records_are_refused(place, part, value):
    _, state = snapshots()
    of = state["pairs"][0] if place is None else state["columns"][place][1]
    assert part in of
    of[part] = value
    with pytest.raises(CorruptSnapshot):
        KeyIndex.restore(("a", "b"), state)


def test_a_record_of_other_columns_is_refused():
    _, state = snapshots()
    with pytest.raises(CorruptSnapshot, match="key columns"):
        KeyIndex.restore(("b", "a"), state)
    with pytest.raises(CorruptSnapshot, match="4 keys"):
        KeyIndex.restore(("a", "b"), state | {"count": 5})
    with pytest.raises(CorruptSnapshot):
        KeyIndex.restore(("a", "b"), state | {"pairs": []})
    with pytest.raises(CorruptSnapshot, match="cannot be words"):
        KeyIndex.restore(("a", "b"), state | {"columns": [state["columns"][0]] * 2})


def test_a_type_that_only_nulls_have_told_is_put_back() -> None:
    index = KeyIndex(("k",))
    index.encode([pa.array([None], pa.string())])
    before, types = repr(index.record()), index.types
    index.encode([pa.array(["a"])])
    index.truncate(1, types)
    assert repr(index.record()) == before
    index.truncate(1, types)
    assert repr(index.record()) == before
