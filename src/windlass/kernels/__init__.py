"""How an aggregate becomes compiled code: the only place that imports numba.

Every hot loop of Windlass is a plain Python function that closes over the functions of one aggregate. Called
as it is, it is the interpreted mode and serves partials that are Python objects. Handed to `compiled`, the
same source becomes machine code specialised for that aggregate, like a C++ template.
"""

from windlass.kernels.columns import Field, accessors, chooser, prefetch, prefetcher, state_accessors
from windlass.kernels.compilation import CannotCompile, compiled, direct
from windlass.kernels.digests import digest
from windlass.kernels.floats import plus_in_any_order
from windlass.kernels.integers import highest_bit, lowest_bit, unsigned
from windlass.kernels.logarithms import branchless_exp, branchless_log

__all__ = [
    "CannotCompile",
    "Field",
    "accessors",
    "branchless_exp",
    "branchless_log",
    "chooser",
    "compiled",
    "digest",
    "direct",
    "highest_bit",
    "lowest_bit",
    "plus_in_any_order",
    "prefetch",
    "prefetcher",
    "state_accessors",
    "unsigned",
]
