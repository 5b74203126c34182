from windlass.aggregates.extremes import max, min
from windlass.aggregates.sums import avg, count, sum
