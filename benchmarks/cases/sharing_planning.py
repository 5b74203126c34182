"""How long planning takes, and changing a plan: ten thousand ACQs of several kinds, and one more among a thousand.

"divisors": slides that divide 1000, as in the paper. "durations": what people write, 1 s to 1 d. "arbitrary": any
slide of 1 to 60 minutes, in seconds, and ranges that are no multiples of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.acqs import acqs
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass.sharing import ACQ, plan, with_acq, without_acq

TITLE = "Seconds to plan, and to change a plan"

DURATIONS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def workload(kind: str, number: int, seed: int) -> list[ACQ]:
    rng = np.random.default_rng(seed)
    if kind == "divisors":
        return acqs(number, seed=seed)
    overlap = rng.integers(1, 61, number)
    if kind == "durations":
        slides = rng.choice(DURATIONS, number)
        ranges = slides * overlap
    else:
        slides = rng.integers(60, 3601, number)
        ranges = slides * overlap + rng.integers(0, slides)
    pairs = zip(ranges.tolist(), slides.tolist(), strict=True)
    return [ACQ(r, s, name=str(k)) for k, (r, s) in enumerate(pairs)]


def run(scale: Scale) -> Iterator[Row]:
    for kind in ("divisors", "durations", "arbitrary"):
        for number in scale.pick((100, 1000, 10_000), (10, 20)):
            chosen = workload(kind, number, scale.seed)
            for rate in (0.1, 10.0, 1000.0):
                seconds, found = _timed(lambda c=chosen, r=rate: plan(c, rate=r))  # type: ignore[misc]
                scale.say(f"{kind}, {number} ACQs at rate {rate:g}: {seconds:.2f} s")
                yield {
                    "kind": kind,
                    "what": "plan",
                    "acqs": number,
                    "rate": rate,
                    "seconds": seconds,
                    "trees": len(found.trees),
                    "counting": found.counting,
                }
                if number != scale.pick(1000, 20):
                    continue
                new = ACQ(1234, 17, name="one more")
                added = [_timed(lambda f=found, q=new: with_acq(f, q)) for _ in range(5)]  # type: ignore[misc]
                removed = [_timed(lambda f=added[0][1], q=new: without_acq(f, q)) for _ in range(5)]  # type: ignore[misc]
                for what, times in (("add one", added), ("remove one", removed)):
                    one = float(np.median([t for t, _ in times]))
                    yield {"kind": kind, "what": what, "acqs": number, "rate": rate, "seconds": one}


def _timed(function: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def tables(rows: list[Row]) -> list[Table]:
    lines = []
    for kind, what, number in dict.fromkeys((r["kind"], r["what"], r["acqs"]) for r in rows):
        mine = [r for r in rows if (r["kind"], r["what"], r["acqs"]) == (kind, what, number)]
        cells = [f"{1000 * r['seconds']:,.0f}" for r in mine]
        lines.append(
            [f"{kind}: {what}", f"{number:,}", *cells, "/".join(str(r.get("trees", "")) for r in mine).strip("/")]
        )
    return [("milliseconds, at rates 0.1, 10 and 1000", ["", "ACQs", "0.1", "10", "1000", "trees"], lines)]


def findings(rows: list[Row]) -> list[str]:
    most = max(r["acqs"] for r in rows)
    slowest = max(r["seconds"] for r in rows if r["what"] == "plan" and r["acqs"] == most)
    change = max(r["seconds"] for r in rows if r["what"] != "plan")
    return [
        f"{most:,} ACQs are planned in {slowest:.1f} s at most (WeaveShare, TriWeave and maximum sharing compared)",
        f"one more or one less takes {1000 * change:.0f} ms at most",
    ]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=6.0, height=3.8)
    for kind, colour in zip(("divisors", "durations", "arbitrary"), ("#0072B2", "#009E73", "#D55E00"), strict=True):
        mine = [r for r in rows if r["kind"] == kind and r["what"] == "plan" and r["rate"] == 10.0]
        label = f"{kind} slides"
        style.line(grid[0][0], label, [r["acqs"] for r in mine], [r["seconds"] for r in mine], color=colour, marker="o")
    grid[0][0].set_xscale("log")
    grid[0][0].set_yscale("log")
    grid[0][0].set_xlabel("number of ACQs")
    grid[0][0].set_ylabel("seconds to plan")
    style.shared_legend(fig, grid)
    return fig
