"""One way of compiling kernels, timed in a process of its own: what benchmarks.cases.kernel_choices starts.

`python -m benchmarks.kernel_variant "signed indices"` takes one choice of windlass.kernels back and prints
nanoseconds a round for a few techniques as JSON. `"closure over dispatchers"` and `"closure over plain functions"`
instead time a first call, given the cache of the process before.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

VARIANTS = ("as built", "signed indices", "not forced inline", "arrays counted", "none of the three")
CACHED = ("closure over dispatchers", "closure over plain functions")
ROUNDS, WINDOW = 1 << 16, 1 << 12


def main(variant: str) -> None:
    print(json.dumps(_first_call(variant) if variant in CACHED else _rounds(variant)))


def _rounds(variant: str) -> dict[str, float]:
    from benchmarks.techniques import TECHNIQUES
    from windlass import agg
    from windlass.kernels import compilation

    if variant in ("signed indices", "none of the three"):
        _keep_indices_signed()
    if variant in ("not forced inline", "none of the three"):
        _leave_inlining_to_llvm(compilation)
    if variant in ("arrays counted", "none of the three"):
        _count_references(compilation)

    values = np.random.default_rng(0).integers(0, 1000, ROUNDS)
    nanoseconds = {}
    for name in ("TwoStacks", "DABA", "FlatFIT", "FlatFAT"):
        store = TECHNIQUES[name](agg.sum())
        store.slide(values, window=WINDOW)
        times = []
        for _ in range(40):
            start = time.perf_counter()
            store.slide(values, window=WINDOW)
            times.append(time.perf_counter() - start)
        nanoseconds[name] = round(min(times) / ROUNDS * 1e9, 3)
    return nanoseconds


def _keep_indices_signed() -> None:
    def signed(i: Any) -> Any:
        return i

    for name, module in list(sys.modules.items()):
        if name.startswith("windlass") and hasattr(module, "unsigned"):
            module.unsigned = signed


def _leave_inlining_to_llvm(compilation: Any) -> None:
    from numba.extending import register_jitable

    compilation._register = lambda function: register_jitable(**compilation._OPTIONS)(function)


def _count_references(compilation: Any) -> None:
    from windlass.aggregates import evaluation

    compiled = compilation.compiled
    evaluation.compiled = lambda kernel, allocates=False: compiled(kernel, allocates=True)


def _first_call(variant: str) -> dict[str, float]:
    """Seconds until a kernel over two small functions has run once: the cache of an earlier process hits, or not."""
    import numba
    from numba.extending import register_jitable

    numba.njit(lambda: 0)()
    mark = numba.njit if variant == CACHED[0] else register_jitable
    lift, combine = mark(_lift), mark(_combine)

    def fold(values: Any) -> Any:
        acc = lift(values[0])
        for i in range(1, len(values)):
            acc = combine(acc, lift(values[i]))
        return acc

    kernel = numba.njit(cache=True)(fold)
    start = time.perf_counter()
    kernel(np.arange(10.0))
    return {"seconds": round(time.perf_counter() - start, 4), "hit": sum(kernel.stats.cache_hits.values())}


def _lift(x: Any) -> Any:
    return (x, x * x, 1)


def _combine(a: Any, b: Any) -> Any:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


if __name__ == "__main__":
    main(sys.argv[1])
