"""A dashboard over a web shop: many windows at once, data that comes late, and figures that correct themselves.

    python examples/dashboard.py

Three shops send requests. Most arrive within two seconds, some take up to twenty, a few two minutes. The
watermark follows two seconds behind the clock: a figure is shown as soon as it is due, and shown again if a late
request changes it within the allowed lateness of thirty seconds. What comes after that is on the list at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windlass import Operator, Query, Results, Sliding, ThresholdFrame, Tumbling, agg

EPOCH = datetime(2026, 1, 1, 12)
SHOPS = ["oslo", "lima", "pune"]
SECONDS, RATE = 90, 200  # of the stream, and requests a second
ON_DISPLAY = ("10s", "1m", "sales", "errors", "stall")


def main() -> None:
    millis = agg.avg("millis").alias("mean"), agg.quantile("millis", 0.99).alias("p99")
    op = Operator(
        [
            Query("10s", Tumbling("10s"), agg.count().alias("requests"), *millis),
            Query("1m", Sliding("1m", "30s"), agg.count().alias("requests"), *millis),
            Query("sales", Tumbling("30s"), agg.sum("paid").alias("paid"), agg.count_distinct("user").alias("users")),
            Query("errors", Tumbling("30s"), agg.count().alias("failed"), where=pc.field("status") >= 500),
            Query("stall", ThresholdFrame(pc.field("millis") > 200, min_size=12), agg.count().alias("requests")),
            *(Query(f"{n}s", Tumbling(f"{n}s"), agg.max("millis")) for n in range(1, 10)),  # not on display
        ],
        time="time",
        key="shop",
        allowed_lateness="30s",
    )
    print(op.explain(), "\n")
    shown = Board()
    for arrived, batch in arrivals():
        op.process(batch)
        shown.update(op.advance(EPOCH + timedelta(seconds=arrived - 2)))
    shown.update(op.finish())
    shown.summary(op)


class Board:
    """Prints the rows of the shop in Oslo as they come out, and counts the corrections of all."""

    def __init__(self) -> None:
        self.rows = self.revised = self.retracted = 0

    def update(self, results: Results) -> None:
        self.rows += len(results)
        for query in ON_DISPLAY:
            for row in results[query].to_pylist():
                self.revised += row["revision"] > 0 and not row["retraction"]
                self.retracted += row["retraction"]
                if row["shop"] == "oslo":
                    self.show(query, row)

    def show(self, query: str, row: dict[str, object]) -> None:
        window = row["window"]
        assert isinstance(window, dict)
        span = f"{window['start']:%H:%M:%S} – {window['end']:%H:%M:%S}"
        mark = "withdrawn" if row["retraction"] else f"revision {row['revision']}" if row["revision"] else ""
        known = ("shop", "window", "low", "high", "revision", "retraction")
        values = "  ".join(
            f"{name} {value:,.0f}" for name, value in row.items() if name not in known and value is not None
        )
        print(f"{query:<8}{span}   {values:<44}{mark}")

    def summary(self, op: Operator) -> None:
        late, counters = op.late(), op.counters
        print(f"\n{self.rows:,} rows, of the queries on display {self.revised} revised and {self.retracted} withdrawn")
        print(
            f"{counters['events']:,} events, {counters['late']} late, {counters['expired']} too late for all queries:"
        )
        for row in late.slice(0, 3).to_pylist():
            print(f"  {row['time']:%H:%M:%S} {row['shop']}: {row['reason']}")


def arrivals() -> Iterator[tuple[int, pa.Table]]:
    """Batches in the order in which requests arrive, one for every 10 seconds."""
    rng = np.random.default_rng(1)
    n = SECONDS * RATE
    second = np.sort(rng.uniform(0, SECONDS, n))
    delay = rng.exponential(0.3, n).clip(max=1.9)
    delay = np.where(rng.random(n) < 0.004, rng.uniform(2, 20, n), delay)
    delay = np.where(rng.random(n) < 0.0003, rng.uniform(100, 120, n), delay)
    slow = 1 + 4 * ((second > 40) & (second < 55))  # something is wrong for a quarter of a minute
    millis = rng.gamma(3, 20, n) * slow
    paid = np.where((rng.random(n) < 0.02) & (slow == 1), rng.integers(5, 200, n), 0)
    table = pa.table(
        {
            "time": pa.array(np.datetime64(EPOCH, "us") + (second * 1e6).astype("timedelta64[us]")),
            "shop": pa.array(SHOPS).take(pa.array(rng.choice(3, n, p=[0.5, 0.3, 0.2]))),
            "user": rng.zipf(1.5, n).clip(max=5_000),
            "millis": millis,
            "status": np.where(rng.random(n) < 0.002 * slow**2, 503, 200),
            "paid": paid,
        }
    )
    arrived = second + delay
    for until in range(10, SECONDS + 130, 10):
        rows = np.flatnonzero((arrived >= until - 10) & (arrived < until))
        if len(rows):
            yield until, table.take(rows[np.argsort(arrived[rows])])


if __name__ == "__main__":
    main()
