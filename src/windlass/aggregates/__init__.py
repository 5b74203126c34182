"""What to compute over a window: `agg.sum("price")`, `agg.median("delay")`, or your own with `agg.define`."""

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.bloom import bloom_contains, bloom_filter
from windlass.aggregates.count_min import count_min, count_min_estimate
from windlass.aggregates.counting import Counter, counted
from windlass.aggregates.distinct import count_distinct, mode
from windlass.aggregates.extremes import (
    arg_max,
    arg_min,
    max,
    max_count,
    min,
    min_count,
    min_max,
    spread,
)
from windlass.aggregates.hyperloglog import approx_count_distinct
from windlass.aggregates.kll import approx_quantile
from windlass.aggregates.laws import check_laws
from windlass.aggregates.logic import bool_and, bool_or
from windlass.aggregates.m4 import m4
from windlass.aggregates.moments import stddev, stddev_pop, stddev_samp, var_pop, var_samp, variance
from windlass.aggregates.order import collect_list, concat, first, ith_youngest, last
from windlass.aggregates.products import geomean, product
from windlass.aggregates.quantiles import median, percentile, quantile
from windlass.aggregates.sums import avg, count, mean, sum
from windlass.aggregates.top import top_n
from windlass.aggregates.user_defined import define

__all__ = [
    "Aggregate",
    "Counter",
    "approx_count_distinct",
    "approx_quantile",
    "arg_max",
    "arg_min",
    "avg",
    "bloom_contains",
    "bloom_filter",
    "bool_and",
    "bool_or",
    "check_laws",
    "collect_list",
    "concat",
    "count",
    "count_distinct",
    "count_min",
    "count_min_estimate",
    "counted",
    "define",
    "first",
    "geomean",
    "ith_youngest",
    "last",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "min_max",
    "mode",
    "percentile",
    "product",
    "quantile",
    "spread",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_n",
    "var_pop",
    "var_samp",
    "variance",
]
