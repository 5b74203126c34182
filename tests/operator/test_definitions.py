"""Queries as data: whatever the package has comes back as it was; functions of a user's do not."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow.compute as pc
import pytest

from windlass import Query, agg, windows
from windlass.formats.kinds import Reader, Writer
from windlass.formats.query import DEFINITION
from windlass.operator.definitions import BUILT_IN, defined, definition
from windlass.windows import (
    Band,
    Cumulate,
    DataDriven,
    Deterministic,
    Landmark,
    LastN,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)

WINDOWS = [
    Tumbling("1m"),
    Tumbling(4, measure="count"),
    Tumbling(4, offset=1, measure="km"),
    Sliding("1m", datetime.timedelta(seconds=3), offset=4),
    Cumulate("1s", "10s"),
    Band(0, 4),
    Landmark(3, 5),
    Session("3s"),
    Punctuation("x"),
    ThresholdFrame("x", min_size=2),
    SlideByTuple("3s", every=2),
    LastN(4, "3s"),
    Snapshot("3s"),
]
ONE_COLUMN = """
approx_count_distinct avg bloom_filter bool_and bool_or collect_list concat count count_distinct count_min first
geomean last m4 max max_count median min min_count min_max mode product spread stddev stddev_pop stddev_samp sum
var_pop var_samp variance
"""
AGGREGATES = [getattr(agg, name)("a") for name in ONE_COLUMN.split()]
AGGREGATES += [agg.count(), agg.max("a").alias("most"), agg.avg("a", weight="b"), agg.arg_min("a", by="b")]
AGGREGATES += [agg.arg_max("a", by="b"), agg.ith_youngest("a", 2), agg.top_n("a", 3), agg.percentile("a", 95)]
AGGREGATES += [agg.quantile("a", 0.5), agg.approx_quantile("a", 0.25)]
NO_AGGREGATES = {"Aggregate", "Counter", "bloom_contains", "check_laws", "count_min_estimate", "counted", "define"}


def written(query: Query) -> Any:
    """The definition of a query, as it is read from JSON."""
    node = DEFINITION.write(definition(query), Writer())  # type: ignore[arg-type]
    return DEFINITION.read(json.loads(json.dumps(node)), Reader([]))


def test_all_aggregates_are_tried() -> None:
    assert {a.name for a in AGGREGATES} | NO_AGGREGATES | {"stddev", "variance", "mean"} >= set(agg.__all__)


@pytest.mark.parametrize("a", AGGREGATES, ids=repr)
def test_aggregates_come_back(a: Any) -> None:
    query = Query("q", Tumbling("1m"), a, where="is_paid")
    assert defined("q", written(query)) == query


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_windows_come_back(window: Any) -> None:
    query = Query("q", window, agg.sum("a"))
    assert defined("q", written(query)) == query


def test_expressions_are_those_of_the_others_or_nothing_meets_them() -> None:
    dear = Query("q", Tumbling(1), agg.count(), where=pc.field("price") > 10)
    data = written(dear)
    same = Query("other", Tumbling(1), agg.count(), where=pc.field("price") > 10)
    assert defined("q", data, [same]) == dear
    alone = defined("q", data)
    assert alone is not None and alone != dear
    assert alone.where == defined("q", data).where  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "query",
    [
        Query("q", Tumbling(1), agg.count(), where=lambda table: table["x"]),
        Query("q", Punctuation(lambda table: table["x"]), agg.count()),
        Query("q", DataDriven(lambda ts: (1, 1)), agg.count()),
        Query("q", Deterministic(lambda state, ts: (state, 0, 0)), agg.count()),
    ],
    ids=repr,
)
def test_functions_do_not_come_back(query: Query) -> None:
    assert definition(query) is None


def test_what_is_not_known_is_not_made() -> None:
    data = definition(Query("q", Tumbling(1), agg.sum("x")))
    assert data is not None
    built_in = {"window": "window", "parameters": {}, "predicate": None}
    assert defined("q", data | {"window": ("built-in", built_in)}) is None
    for name, columns in (("define", []), ("__import__", ["os"])):
        built_in = {"aggregate": name, "columns": columns, "parameters": {}, "output": None}
        assert defined("q", data | {"aggregates": [("built-in", built_in)]}) is None
    assert defined("q", {}) is None


def test_every_window_has_a_name() -> None:
    exported = {getattr(windows, name) for name in windows.__all__} - {windows.Window}
    assert set(BUILT_IN.values()) == exported
