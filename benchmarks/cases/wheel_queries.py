"""Ad-hoc queries over a range of time (µWheel Figures 9 and 10): latency, and ⊕ a query.

One event a second for 1 and 7 days. Q1 asks for everything, Q2 for random ranges on seconds, minutes and hours;
50 000 of each. The wheel without hints (fewest ⊕), with hints (one level at once up to 15 000 ⊕, the paper's threshold)
and with prefixes; a segment tree, a sorted array with sums on demand, DuckDB with a prepared statement and in one
statement for many ranges, plainly and with running sums by hand; Polars; FiBA where it is installed. Processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import rides
from benchmarks.cases import Scale, Table
from benchmarks.results import Row
from windlass import agg
from windlass.kernels import compiled
from windlass.wheel.wheel import Wheel

TITLE = "Ad-hoc queries over ranges of time (µWheel Figures 9 and 10)"

QUERIES = ("Q1", "Q2 seconds", "Q2 minutes", "Q2 hours")
WHEELS: dict[str, dict[str, Any]] = {
    "wheel": {"hints": False},
    "wheel, default": {},
    "wheel, hints": {"hints": True, "simd_threshold": 15_000},
    "wheel, prefix": {"prefix": True},
}
FEW = 200  # queries of those that take a hundred times as long
JOINED = 20  # ranges that DuckDB joins with the events that are in them


def ranges(query: str, days: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts spread evenly, and durations evenly over what is left, on the granularity of the query; seconds."""
    total = days * rides.DAY
    if query == "Q1":
        return np.zeros(n, np.int64), np.full(n, total)
    unit = {"Q2 seconds": 1, "Q2 minutes": 60, "Q2 hours": 3600}[query]
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, total // unit, n)
    return starts * unit, (starts + 1 + (rng.random(n) * (total // unit - starts)).astype(np.int64)) * unit


def wheel_of(days: int, seed: int, **options: Any) -> Wheel:
    ts, fares = rides.taxi(days, seed)
    w = Wheel(agg.sum("fare"), np.datetime64(rides.START, "us"), dtype="int64", **options)
    w.ingest(fares, rides.START + ts * rides.SECOND)
    w.advance_to(rides.START + days * rides.DAY * rides.SECOND)
    return w


def run(scale: Scale) -> Iterator[Row]:
    n = scale.pick(50_000, 500)
    for days in scale.pick((1, 7), (1,)):
        ts, fares = rides.taxi(days, scale.seed)
        sums = np.concatenate(([0], np.cumsum(fares)))
        wheels = {name: wheel_of(days, scale.seed, **options) for name, options in WHEELS.items()}
        for query in QUERIES:
            scale.say(f"{days} days, {query}")
            starts, ends = ranges(query, days, n, scale.seed)
            expected = sums[ends] - sums[starts]
            for name, (call, operations) in _singles(ts, fares, wheels, starts, ends).items():
                few = min(n, FEW) if name.startswith(("DuckDB", "Polars", "sorted", "FiBA")) else n
                assert [int(call(i)) for i in range(20)] == expected[:20].tolist(), name
                taken = rides.latencies(call, few)
                yield {
                    "technique": name,
                    "days": days,
                    "query": query,
                    "form": "one call each",
                    "queries": few,
                    "p50": round(float(np.percentile(taken, 50)), 4),
                    "p95": round(float(np.percentile(taken, 95)), 4),
                    "operations": operations,
                }
            for name, (call, count) in _many(ts, fares, wheels, starts, ends).items():
                assert np.array_equal(np.asarray(call(), np.int64), expected[:count]), name
                each = rides.seconds(call, 3 if name.startswith("DuckDB") else 7) / count * 1e6
                yield {
                    "technique": name,
                    "days": days,
                    "query": query,
                    "form": "all in one call",
                    "queries": count,
                    "p50": round(each, 4),
                    "p95": round(each, 4),
                    "operations": None,
                }


def _singles(
    ts: np.ndarray, fares: np.ndarray, wheels: dict[str, Wheel], starts: np.ndarray, ends: np.ndarray
) -> dict[str, tuple[Callable[[int], Any], float | None]]:
    a, b = starts.tolist(), ends.tolist()
    low, high = (rides.START + starts * rides.SECOND).tolist(), (rides.START + ends * rides.SECOND).tolist()
    found: dict[str, tuple[Callable[[int], Any], float | None]] = {}
    few = range(0, len(a), max(1, len(a) // 100))
    for name, w in wheels.items():
        costs = [w.explain(low[i], high[i]).cost or 0 for i in few]
        found[name] = (lambda i, w=w: w.query(low[i], high[i])), float(np.mean(costs))
    tree = _SegmentTree(fares)
    found["segment tree"] = (
        (lambda i: tree.query(a[i], b[i])),
        float(np.mean([tree.operations(a[i], b[i]) for i in few])),
    )
    found["sorted array"] = (
        (lambda i: fares[np.searchsorted(ts, a[i]) : np.searchsorted(ts, b[i])].sum()),
        float(np.mean(ends - starts - 1)),
    )
    found |= _fiba(fares, a, b)
    connection = _duckdb(ts, fares)
    if connection is not None:
        connection.execute("prepare ask as select sum(fare)::bigint from rides where ts >= ? and ts < ?")
        found["DuckDB"] = (lambda i: connection.execute(f"execute ask({a[i]}, {b[i]})").fetchone()[0]), None
    try:
        import polars as pl

        frame = pl.DataFrame({"ts": ts, "fare": fares}).set_sorted("ts")
        found["Polars"] = (
            (
                lambda i: (
                    frame.lazy()
                    .filter(pl.col("ts").is_between(a[i], b[i], closed="left"))
                    .select(pl.col("fare").sum())
                    .collect()
                    .item()
                )
            ),
            None,
        )
    except ImportError:
        pass
    return found


def _many(
    ts: np.ndarray, fares: np.ndarray, wheels: dict[str, Wheel], starts: np.ndarray, ends: np.ndarray
) -> dict[str, tuple[Callable[[], Any], int]]:
    """Calls that answer all ranges, and how many these are."""
    low, high = rides.START + starts * rides.SECOND, rides.START + ends * rides.SECOND
    n, few = len(starts), min(len(starts), JOINED)
    found: dict[str, tuple[Callable[[], Any], int]] = {
        name: ((lambda w=w: w.query_many(low, high)), n) for name, w in wheels.items()
    }
    tree = _SegmentTree(fares)
    found["segment tree"] = (lambda: tree.query_many(starts, ends)), n
    connection = _duckdb(ts, fares)
    if connection is not None:
        connection.register("asked", pa.table({"i": np.arange(n), "a": starts, "b": ends}))
        plain = (
            f"select i, sum(fare)::bigint as s from (select * from asked where i < {few}) "
            "join rides on ts >= a and ts < b group by i order by i"
        )
        by_hand = (
            "with running as (select ts, fare, sum(fare) over (order by ts) as upto from rides) "
            "select (y.upto - x.upto + x.fare)::bigint as s from asked join running x on x.ts = a "
            "join running y on y.ts = b - 1 order by i"
        )
        found["DuckDB"] = (lambda: connection.sql(plain).to_arrow_table()["s"].to_numpy()), few
        found["DuckDB, running sums"] = (lambda: connection.sql(by_hand).to_arrow_table()["s"].to_numpy()), n
    return found


def _duckdb(ts: np.ndarray, fares: np.ndarray) -> Any:
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", pa.table({"ts": ts, "fare": fares}))
    connection.execute("create table rides as select * from given order by ts")
    return connection


def _fiba(fares: np.ndarray, a: list[int], b: list[int]) -> dict[str, tuple[Callable[[int], Any], float | None]]:
    from windlass import stores

    kind = getattr(stores, "FiBA", None)
    if kind is None:
        return {}
    tree = kind(agg.sum(), dtype="int64")
    tree.bulk_insert(np.arange(len(fares)), fares)
    closed = int(tree.query(0, 1)) != int(fares[0])  # whether its ranges include their end
    return {"FiBA": ((lambda i: tree.query(a[i], b[i] - closed)), None)}


class _SegmentTree:
    """The static one: leaves n … 2n - 1, parents above; a range is O(log n) nodes."""

    def __init__(self, values: np.ndarray) -> None:
        self.size = 1 << int(len(values) - 1).bit_length()
        self.nodes = np.zeros(2 * self.size, np.int64)
        self.nodes[self.size : self.size + len(values)] = values
        level = self.size
        while level > 1:
            self.nodes[level // 2 : level] = self.nodes[level : 2 * level : 2] + self.nodes[level + 1 : 2 * level : 2]
            level //= 2
        self.kernel = compiled(_tree_query)

    def query_many(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        out = np.empty(len(starts), np.int64)
        self.kernel(self.nodes, self.size, starts, ends, out)
        return out

    def query(self, start: int, end: int) -> int:
        out = np.empty(1, np.int64)
        self.kernel(self.nodes, self.size, np.array([start]), np.array([end]), out)
        return int(out[0])

    def operations(self, start: int, end: int) -> int:
        low, high, count = start + self.size, end + self.size, 0
        while low < high:
            count += (low & 1) + (high & 1)
            low, high = (low + 1) >> 1, high >> 1
        return max(count - 1, 0)


def _tree_query(nodes: Any, size: Any, starts: Any, ends: Any, out: Any) -> Any:
    for i in range(len(starts)):
        low, high, total = starts[i] + size, ends[i] + size, 0
        while low < high:
            if low & 1:
                total += nodes[low]
                low += 1
            if high & 1:
                high -= 1
                total += nodes[high]
            low >>= 1
            high >>= 1
        out[i] = total


def _pick(rows: list[Row], form: str, days: int) -> list[Row]:
    return [r for r in rows if r["form"] == form and r["days"] == days]


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for days in dict.fromkeys(r["days"] for r in rows):
        for form, what, caption in (
            ("one call each", "p95", "µs of one query, p95"),
            ("all in one call", "p50", "µs a query"),
            ("one call each", "operations", "⊕ a query, on average"),
        ):
            part = _pick(rows, form, days)
            names = [
                t
                for t in dict.fromkeys(r["technique"] for r in part)
                if any(r[what] is not None for r in part if r["technique"] == t)
            ]
            lines = []
            for name in names:
                cells = {r["query"]: r[what] for r in part if r["technique"] == name}
                lines.append([name, *(f"{cells[q]:.3g}" if cells.get(q) is not None else "" for q in QUERIES)])
            found.append((f"{days} day(s), {form}: {caption}", ["", *QUERIES], lines))
    return found


def _value(rows: list[Row], technique: str, query: str, form: str, days: int, what: str) -> float:
    (found,) = (
        r[what] for r in rows if (r["technique"], r["query"], r["form"], r["days"]) == (technique, query, form, days)
    )
    return float(found)


def findings(rows: list[Row]) -> list[str]:
    days = max(r["days"] for r in rows)
    wheels = [t for t in WHEELS if any(r["technique"] == t for r in rows)]
    slowest = max(_value(rows, t, q, "one call each", days, "p95") for t in wheels for q in QUERIES)
    lines = [f"{days} days: one query of a wheel takes at most {slowest:.2g} µs (p95), whatever plan and granularity"]
    for name in wheels:
        each = ", ".join(f"{q} {_value(rows, name, q, 'all in one call', days, 'p50') * 1e3:.0f}" for q in QUERIES)
        lines.append(f"{name}, in bulk, ns a query: {each}")
    if any(r["technique"] == "DuckDB" for r in rows):
        for peer, form, text, mine in (
            ("DuckDB", "one call each", "a prepared statement", "wheel, default"),
            ("DuckDB", "all in one call", "the ranges joined in one statement", "wheel, default"),
            ("DuckDB, running sums", "all in one call", "running sums by hand in one statement", "wheel, prefix"),
        ):
            ratios = [
                _value(rows, peer, q, form, days, "p50") / _value(rows, mine, q, form, days, "p50") for q in QUERIES
            ]
            shown = ", ".join(f"{q} {r:.3g}" for q, r in zip(QUERIES, ratios, strict=True))
            lines.append(f"time of DuckDB with {text} / {mine}: {shown}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    spans = list(dict.fromkeys(r["days"] for r in rows))
    fig, grid = style.figure(2, len(spans), width=6.2, height=3.2)
    for column, days in enumerate(spans):
        for line, (form, what, label) in enumerate(
            (("one call each", "p95", "p95 of a query (µs)"), ("all in one call", "p50", "a query in bulk (µs)"))
        ):
            axes, part = grid[line][column], _pick(rows, form, days)
            names = list(dict.fromkeys(r["technique"] for r in part))
            width = 0.8 / len(names)
            for k, name in enumerate(names):
                cells = {r["query"]: r[what] for r in part if r["technique"] == name}
                axes.bar([i + k * width for i in range(len(QUERIES))], [cells[q] for q in QUERIES], width, label=name)
            axes.set_xticks([i + 0.4 for i in range(len(QUERIES))], QUERIES)
            axes.set_yscale("log")
            axes.set_ylabel(label)
            axes.set_title(f"{days} day(s), {form}")
    style.shared_legend(fig, grid, columns=4)
    return fig
