"""The main job, small: one generated stream, many questions, every answer checked against a second technique.

make examples
"""

from __future__ import annotations

import time

import numpy as np

from windlass import agg
from windlass.stores import DABA, FlatFAT, FlatFIT, SlickDeque, Store, SubtractOnEvict, TwoStacks

EVENTS, BATCH, SAMPLE = 4_000_000, 65_536, 16
BARS = "▁▂▃▄▅▆▇█"


def main() -> None:
    print(f"A sensor sends {EVENTS:,} readings. Compiling kernels on first use …\n")
    readings = sensor(EVENTS)
    many_windows(readings)
    one_window(readings)
    own_aggregate(readings)


def sensor(n: int) -> np.ndarray:
    """A daily rhythm, noise, and a few spikes."""
    rng = np.random.default_rng(7)
    rhythm = 20_000 + 4_000 * np.sin(np.arange(n) * (2 * np.pi / 500_000))
    spikes = np.where(rng.random(n) < 1e-6, 15_000, 0)
    return (rhythm + rng.normal(0, 400, n) + spikes).astype(np.int64)


def stream(store: Store, readings: np.ndarray, **window: object) -> tuple[np.ndarray, float]:
    """Every 16th answer, and how long all of them took, batch by batch as a stream would come."""
    type(store)(store.aggregate).slide(readings[:10], **window)  # compile
    batches = [readings[i : i + BATCH] for i in range(0, len(readings), BATCH)]
    start = time.perf_counter()
    answers = [store.slide(batch, **window)[::-SAMPLE][::-1].copy() for batch in batches]
    seconds = time.perf_counter() - start
    return np.concatenate(answers), seconds


def many_windows(readings: np.ndarray) -> None:
    windows = [2**k for k in range(2, 18)]
    print(f"Maximum over {len(windows)} windows at once, {windows[0]} to {windows[-1]:,} events, one structure:")
    store = SlickDeque(agg.max())
    answers, seconds = stream(store, readings, windows=windows)
    for column in (0, 8, 15):
        print(f"  last {windows[column]:>7,}   {spark(answers[:, column])}   now {answers[-1, column]:,}")
    total = len(readings) * len(windows)
    rate = f"{total / seconds / 1e6:.0f} million a second"
    print(f"  {total:,} answers in {seconds:.2f} s, {rate}, from {store.nbytes:,} bytes of state\n")


def one_window(readings: np.ndarray) -> None:
    print("Mean of the last 65,536 readings, by technique (million rounds a second; ⊕ a round counted apart):")
    expected = None
    for technique in (SubtractOnEvict, SlickDeque, TwoStacks, DABA, FlatFIT, FlatFAT):
        answers, seconds = stream(technique(agg.avg()), readings, window=65_536)
        expected = answers if expected is None else expected
        agree = "agrees" if np.array_equal(answers, expected) else "DIFFERS"
        print(
            f"  {technique.__name__:<16}{len(readings) / seconds / 1e6:7.0f}   {combines(technique):5.2f} ⊕   {agree}"
        )
    print()


def combines(technique: type) -> float:
    """⊕ calls a round on a full window of 64 events."""
    aggregate, calls = agg.counted(agg.avg())
    store = technique(aggregate)
    values = np.random.default_rng(1).integers(0, 1000, 64 * 20)
    store.slide(values[:64], window=64)
    calls.reset()
    store.slide(values[64:], window=64)
    return calls.total / len(values[64:])


def own_aggregate(readings: np.ndarray) -> None:
    print("An aggregate of your own, from plain Python functions: the steepest rise within the window")
    steepest = agg.define(
        "steepest_rise",
        lift=lambda x: (x, x, 0),  # first, last, steepest
        combine=lambda a, b: (a[0], b[1], max(a[2], b[2], b[0] - a[1])),
        lower=lambda p: p[2],
    )
    store = DABA(steepest())
    answers, seconds = stream(store, readings, window=1000)
    print(f"  last 1,000      {spark(answers)}   now {answers[-1]:,}")
    print(f"  {store!r}: {len(readings) / seconds / 1e6:.0f} million rounds a second")


def spark(values: np.ndarray, width: int = 60) -> str:
    """A line of bars: the maximum of each of `width` stretches."""
    tops = np.array([stretch.max() for stretch in np.array_split(values, width)], float)
    low, high = tops.min(), tops.max()
    scaled = np.zeros(width, int) if high == low else ((tops - low) / (high - low) * 7).round().astype(int)
    return "".join(BARS[level] for level in scaled)


if __name__ == "__main__":
    main()
