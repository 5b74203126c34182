"""Windows and aggregates of your own, sharing slices with those that are built in.

    python examples/custom_window.py

A trader watches a stock (Cutty, Figure 1): the volume-weighted price of the last 10 minutes every 5, but of the last 5
every 2 while the price is at most $10. That is a data-driven window, given by a rule. Beside it run a window type
that is defined below, bars of equal volume, and an aggregate that is, the deepest fall of the price. The slicing core
knows neither: a window only says with which events it begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windlass import DataDriven, Deterministic, Operator, Query, Results, Sliding, agg
from windlass.windows import Window

MINUTE = 60


def main() -> None:
    trades = session()
    vwap = agg.avg("price", weight="volume").alias("vwap")
    op = Operator(
        [
            Query("report", DataDriven(more_often_when_cheap, columns=("price",)), vwap, fall("price")),
            Query("bars", VolumeBar(6_000), vwap, fall("price")),
            Query("steady", Sliding(10 * MINUTE, 5 * MINUTE), vwap),
        ],
        time="second",
        order="in-order",
    )
    op.process(trades)
    results = op.finish()

    draw_price(trades)
    draw(results, "report", "Figure 1: windows that follow the price")
    draw(results, "bars", "Bars of 6,000 shares")
    draw(results, "steady", "Every 5 minutes, for comparison")
    print(op.explain())


# ------------------------------------------------------------------ a window from a rule


def more_often_when_cheap(second: int, price: float) -> tuple[int, int]:
    """The size and the slide that hold at this event."""
    return (10 * MINUTE, 5 * MINUTE) if price > 10 else (5 * MINUTE, 2 * MINUTE)


# ------------------------------------------------------------------ a window type


@dataclass(frozen=True, repr=False)
class VolumeBar(Window):
    """`VolumeBar(6_000)`: trades one after another, until that many shares have changed hands."""

    shares: int
    context = "FCF"  # an event says whether a window begins with it, but a late one may move the bars after it
    columns = ("volume",)

    def bind(self, unit: str | None) -> Any:
        shares = self.shares

        def step(state: Any, second: Any, volume: Any) -> Any:
            traded, begun = state
            full = traded >= shares  # by the trades before this one
            return (volume if full else traded + volume, True), full or not begun, full

        return Deterministic(step, self.columns, state=(0, False)).bind(unit)


# ------------------------------------------------------------------ an aggregate

# A partial is (highest, lowest, deepest fall). The right half may lie lower than the left half's peak, so order counts.
fall = agg.define(
    "fall",
    lift=lambda price: (price, price, 0.0),
    combine=lambda a, b: (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2], a[0] - b[1])),
    lower=lambda p: p[2],
)


# ------------------------------------------------------------------ an hour of trades, and how to draw it


def session() -> dict[str, np.ndarray]:
    """An hour of trades, a few seconds apart. After 25 minutes the price falls below $10, and later it recovers."""
    rng = np.random.default_rng(10)
    second = np.cumsum(rng.integers(1, 9, 1_000))
    second = second[second < 60 * MINUTE]
    trend = np.interp(second / MINUTE, [0, 15, 24, 26, 38, 46, 60], [11.2, 11.6, 10.3, 9.6, 9.2, 10.6, 11.4])
    price = np.round(trend + rng.normal(0, 0.02, len(second)), 2)
    return {"second": second, "price": price, "volume": rng.integers(10, 200, len(second))}


def draw_price(trades: dict[str, np.ndarray]) -> None:
    minute = trades["second"] // MINUTE
    line = "".join("▔" if trades["price"][minute == m].mean() > 10 else "▁" for m in range(60))
    print(f"\n{'minute':<10}{''.join(f'{m:<10}' for m in range(0, 60, 10))}60\n{'price':<10}{line}   ▔ above $10\n")


def draw(results: Results, query: str, title: str) -> None:
    """Every window as a line, a character a minute."""
    print(title)
    for row in results[query].to_pylist():
        window, values = row["window"], [row[name] for name in row if name not in ("window", "revision", "retraction")]
        start, end = (round(window[edge] / MINUTE) for edge in ("start", "end"))
        bar = " " * max(start, 0) + "├" + "─" * max(end - max(start, 0) - 2, 0) + "┤"
        print(f"{'':<10}{bar[:60]:<63}{'   '.join(f'{value:5.2f}' for value in values)}")
    print()


if __name__ == "__main__":
    main()
