"""Window sharing (FiBA Figure 14): a big window and a small one over the same stream.

`twin` keeps a tree for each; `shared` keeps one, and answers for the small window from it (`last=`). Events come at
half the small window's distance from the youngest. The C++ program asks its tree for a range.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import fiba
from benchmarks.cases import Scale, Table
from benchmarks.results import Row

TITLE = "FiBA: two windows, one tree or two (FiBA Figure 14)"


def run(scale: Scale) -> Iterator[Row]:
    big = scale.pick(1 << 22, 1 << 13)
    rounds = scale.pick(1 << 17, 1 << 12)
    values = fiba.values_for("sum", rounds)
    for exponent in scale.pick((4, 7, 10, 13, 16), (4, 8)):
        small = 1 << exponent
        distance = small // 2
        scale.say(f"small window 2^{exponent}")
        rates: dict[str, list[float]] = {}
        for arity in (16, 8):
            make = fiba.stores((arity,), classic=False)[f"FiBA {arity}"]
            # The times behind the distance are consecutive, so that the small window is one of time, too.
            end = big + (scale.pick(4, 2) + 1) * rounds
            shared, large, little = make("sum"), make("sum"), make("sum")
            filled = np.concatenate([np.arange(big - distance), end + np.arange(distance)])
            for store, times in ((shared, filled), (large, filled), (little, filled[-small:])):
                store.bulk_insert(times, fiba.values_for("sum", len(times)))
            for repetition in range(scale.pick(4, 2)):
                times = big - distance + repetition * rounds + np.arange(rounds)
                seconds = {"shared": _shared(shared, times, values, big, end + distance - times[0])}
                seconds["twin"] = fiba.fed(large, times, values, window=big)
                seconds["twin"] += fiba.fed(little, times, values, window=small)
                assert shared.query() == large.query()
                if repetition:
                    for name, taken in seconds.items():
                        rates.setdefault(f"{name} {arity}", []).append(rounds / taken)
        for arity in (4, 8, 16):
            for name, how in (("shared", "range"), ("twin", "twin")):
                found = [_cpp(arity, how, big, small, scale.pick(1 << 21, 1 << 15)) for _ in range(scale.pick(3, 1))]
                known = [rate for rate in found if rate is not None]
                if known:
                    rates[f"C++ {name} {arity}"] = known
        for name, found in rates.items():
            yield fiba.row(f"sum, big window 2^{big.bit_length() - 1}", name, small, found)


def _cpp(arity: int, how: str, big: int, small: int, rounds: int) -> float | None:
    def arguments(n: int) -> list[str]:
        return [f"bfinger{arity}", "sum", str(big), str(small), str(big + n), how]

    return fiba.cpp_rate("shared_benchmark_driver", arguments, rounds)


def _shared(store: Any, times: Any, values: Any, window: int, last: int) -> float:
    start = time.process_time()
    for k in range(0, len(times), fiba.CHUNK):
        store.stream(times[k : k + fiba.CHUNK], values[k : k + fiba.CHUNK], window=window, last=[int(last)])
    return time.process_time() - start


def tables(rows: list[Row]) -> list[Table]:
    return fiba.pivot(rows, "million rounds/s", "small window", lambda w: f"2^{w.bit_length() - 1}")


def findings(rows: list[Row]) -> list[str]:
    mine = {(r["series"], r["x"]): r["per_second"] for r in rows}
    ratios = [f"{mine['shared 16', x] / mine['twin 16', x]:.2f}" for x in sorted({x for _, x in mine})]
    return [f"one tree over two, by the small window: {', '.join(ratios)}", *_against_cpp(mine)]


def _against_cpp(mine: dict[tuple[str, int], int]) -> list[str]:
    """The best arity of each, where both ran."""
    lines = []
    for how in ("twin", "shared"):
        ratios = []
        for x in sorted({x for _, x in mine}):
            ours = max(rate for (name, at), rate in mine.items() if at == x and name.startswith(how))
            cpp = [rate for (name, at), rate in mine.items() if at == x and name.startswith(f"C++ {how}")]
            ratios += [f"{ours / max(cpp):.2f}"] if cpp else []
        if ratios:
            lines.append(f"{how}: best here over best in C++, by the small window: {', '.join(ratios)}")
    return lines


def draw(rows: list[Row]) -> Any:
    return fiba.lines_of(rows, "small window (times)", what="million rounds a second")
