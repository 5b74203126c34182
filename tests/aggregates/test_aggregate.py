import pickle

import numpy as np
import pytest

import windlass.aggregates as agg
from windlass.stores import TwoStacks

AGGREGATES = [
    agg.sum("x"),
    agg.count(),
    agg.count("x"),
    agg.avg("x"),
    agg.avg("x", weight="y"),
    agg.product("x"),
    agg.geomean("x"),
    agg.min("x"),
    agg.max("x"),
    agg.min_max("x"),
    agg.spread("x"),
    agg.arg_min("x", by="y"),
    agg.arg_max("x", by="y"),
    agg.min_count("x"),
    agg.max_count("x"),
    agg.m4("x"),
    agg.m4("x", time="y"),
    agg.collect_list("x"),
    agg.median("x"),
    agg.percentile("x", 90),
    agg.quantile("x", 0.5),
    agg.count_distinct("x"),
    agg.mode("x"),
    agg.approx_count_distinct("x"),
    agg.bloom_filter("x", expected=10),
    agg.count_min("x", epsilon=0.1),
    agg.first("x"),
    agg.last("x"),
    agg.ith_youngest("x", 2),
    agg.top_n("x", 2),
    agg.stddev("x"),
    agg.var_pop("x"),
    agg.approx_quantile("x", 0.5),
]


def test_texts_and_truths_can_be_pickled():
    for aggregate, values, answer in (
        (agg.concat("x", separator="-"), ["a", "b"], "a-b"),
        (agg.bool_and("x"), [True, False], False),
        (agg.bool_or("x"), [True, False], True),
    ):
        assert pickle.loads(pickle.dumps(aggregate)).of(values) == answer


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
def test_aggregates_can_be_pickled(aggregate):
    copy = pickle.loads(pickle.dumps(aggregate.alias("answer")))
    assert copy == aggregate.alias("answer")
    table = {"x": np.array([3, 1, 2]), "y": np.array([1, 1, 2])}
    assert copy.of(table) == aggregate.of(table)


@pytest.mark.parametrize(
    ("aggregate", "text"),
    [
        (agg.avg("p", weight="w"), "avg(p, weight=w)"),
        (agg.avg(weight="w"), "avg(weight=w)"),
        (agg.arg_max("a", by="b"), "arg_max(a, by=b)"),
        (agg.arg_min("a", by="b"), "arg_min(a, by=b)"),
        (agg.m4("x", time="t"), "m4(x, time=t)"),
        (agg.m4("x"), "m4(x)"),
        (agg.percentile("x", np.float64(99)), "percentile(x, p=99)"),
        (agg.approx_count_distinct("x", precision=np.int64(10)), "approx_count_distinct(x, precision=10)"),
    ],
)
def test_an_aggregate_reads_as_it_is_written(aggregate, text):
    assert repr(aggregate) == aggregate.output_name == text


def test_parameters_are_plain_numbers():
    pairs = [
        (agg.percentile("x", 99), agg.percentile("x", np.float64(99))),
        (agg.quantile("x", 1), agg.quantile("x", np.float32(1))),
        (agg.bloom_filter("x", expected=np.int32(7)), agg.bloom_filter("x", expected=7)),
        (agg.count_min("x", epsilon=np.float64(0.5)), agg.count_min("x", epsilon=0.5)),
    ]
    for one, other in pairs:
        assert one == other and repr(one.params) == repr(other.params)
        assert all(type(value) in (int, float) for _, value in one.params)


def test_a_pickled_aggregate_serves_a_store():
    aggregate = pickle.loads(pickle.dumps(agg.max()))
    assert TwoStacks(aggregate).slide(np.array([3, 1, 2]), window=2).tolist() == [3, 3, 2]
