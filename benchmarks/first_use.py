"""The first use of one store with one aggregate, timed in a process of its own: what
benchmarks.cases.compile_time starts.

`python -m benchmarks.first_use TwoStacks rms` prints seconds as JSON: importing windlass, starting numba
(its import and a function of nothing), and the first slide, also in processor time.
"""

from __future__ import annotations

import json
import sys
import time


def main(technique: str, aggregate: str) -> None:
    seconds = {}
    start = time.perf_counter()
    import windlass.stores  # noqa: F401

    seconds["import_windlass"] = time.perf_counter() - start

    start = time.perf_counter()
    import numba

    numba.njit(lambda: 0)()
    seconds["start_numba"] = time.perf_counter() - start

    import numpy as np

    from benchmarks.techniques import AGGREGATES, TECHNIQUES

    values = np.arange(64)
    start, processor = time.perf_counter(), time.process_time()
    TECHNIQUES[technique](AGGREGATES[aggregate]()).slide(values, window=16)
    seconds["first_use"] = time.perf_counter() - start
    seconds["first_use_processor"] = time.process_time() - processor
    print(json.dumps({what: round(value, 4) for what, value in seconds.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
