import collections
import datetime
import json
from decimal import Decimal

import numpy as np
import pytest

from windlass.errors import CorruptSnapshot, WrongType
from windlass.formats.tagged_json import decode, encode

Point = collections.namedtuple("Point", "x y")


class Word(str):
    pass


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 2**80, -0.5, float("inf"), "a", b"\x00a", Decimal("1.50")),
        *((1, ("a", None)), [1, [2.0]], {1, 2}, {"b"}, set(), frozenset({(1, 2)}), {(1, "a"): {3}, None: []}),
        *(datetime.datetime(2026, 1, 2, 3), datetime.date(2026, 1, 2), datetime.time(3), datetime.timedelta(1, 2, 3)),
        np.int32(3),
    ],
    ids=repr,
)
def test_what_is_written_is_read_back_as_the_same_type(value):
    read = decode(json.loads(json.dumps(encode(value))))
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    "value",
    [collections.Counter("ab"), collections.OrderedDict(a=1), Point(1, 2), Word("a"), [Point(1, 2)], range(3)],
    ids=repr,
)
def test_subclasses_are_refused_rather_than_read_back_as_something_else(value):
    with pytest.raises(WrongType, match="which a snapshot cannot write"):
        encode(value)


def test_arrays():
    array = decode(json.loads(json.dumps(encode(np.array([[1, 2], [3, 4]], np.int16)))))
    assert array.dtype == np.int16 and array.tolist() == [[1, 2], [3, 4]]
    assert decode(encode(np.array(["a", None], object))).tolist() == ["a", None]


def test_unknown_kinds():
    with pytest.raises(CorruptSnapshot, match="unknown kind"):
        decode({"module": "os"})
