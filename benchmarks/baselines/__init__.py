"""The techniques that the papers compare slicing with, for the comparison only.

| technique | paper | idea | order |
|---|---|---|---|
| TupleBuffer | Scotty 3.1 | a sorted buffer of tuples, each window folded when it ends | any |
| AggregateTree, RA | Scotty 3.2, Cutty 7.1 | FlatFAT with a leaf a tuple | any |
| AggregateBuckets | Scotty 3.3 | a partial for each open window, every tuple combined into all it belongs to | any |
| TupleBuckets | Scotty 3.3 | the tuples of each open window | any |
| Naive | Cutty 7.1 | an aggregator for each query, every window folded on its own | in order |
| Pairs | Cutty 7.1 | slices cut at the begins and ends of windows, folded when a window ends (lazy) | in order |
| PairsPlus | Cutty 7.1 | the same slices under a FlatFAT (eager) | in order |
| Cutty | Cutty 5 | slices cut at the begins only, under a FlatFAT | in order |

They take batches and give batches, and are compiled as the operator is. What a baseline needs to know about windows it
is told by a `Schedule`, made a batch at a time: which windows end where. None of them pays for finding that out event
by event, which the papers' own did. No event may be late: there is no allowed lateness.
"""

from benchmarks.baselines.aggregate_buckets import AggregateBuckets
from benchmarks.baselines.aggregate_tree import RA, AggregateTree
from benchmarks.baselines.baseline import Answers, Baseline
from benchmarks.baselines.naive import Naive
from benchmarks.baselines.schedule import Periodic, Windows
from benchmarks.baselines.slices import Cutty, Pairs, PairsPlus
from benchmarks.baselines.tuple_buckets import TupleBuckets
from benchmarks.baselines.tuple_buffer import TupleBuffer

BASELINES: dict[str, type[Baseline]] = {
    "Tuple buffer": TupleBuffer,
    "Aggregate tree": AggregateTree,
    "Buckets": AggregateBuckets,
    "Tuple buckets": TupleBuckets,
    "Naive": Naive,
    "Pairs": Pairs,
    "Pairs+": PairsPlus,
    "Cutty": Cutty,
    "RA": RA,
}

__all__ = [
    "BASELINES",
    "RA",
    "AggregateBuckets",
    "AggregateTree",
    "Answers",
    "Baseline",
    "Cutty",
    "Naive",
    "Pairs",
    "PairsPlus",
    "Periodic",
    "TupleBuckets",
    "TupleBuffer",
    "Windows",
]
