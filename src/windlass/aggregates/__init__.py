from windlass.aggregates.bloom import bloom_contains, bloom_filter
from windlass.aggregates.count_min import count_min, count_min_estimate
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
from windlass.aggregates.logic import bool_and, bool_or
from windlass.aggregates.m4 import m4
from windlass.aggregates.moments import stddev, stddev_pop, stddev_samp, var_pop, var_samp, variance
from windlass.aggregates.order import collect_list, concat, first, ith_youngest, last
from windlass.aggregates.products import geomean, product
from windlass.aggregates.quantiles import median, percentile, quantile
from windlass.aggregates.sums import avg, count, sum
from windlass.aggregates.top import top_n
