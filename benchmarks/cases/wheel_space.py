"""Space for a sum of one event a second, over 1 and 7 days (µWheel Figure 11): bytes.

The wheel keeps all slots of all levels; with prefixes; compressed; saved as Parquet. Beside it a segment tree, a
sorted array of times and values, a DuckDB file after a checkpoint, and FiBA where it is installed. Fares are random
between 3 and 100 dollars, in cents."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import rides
from benchmarks.cases import Scale, Table
from benchmarks.cases.wheel_queries import _SegmentTree, wheel_of
from benchmarks.results import Row

TITLE = "Space for a sum by the second (µWheel Figure 11)"


def run(scale: Scale) -> Iterator[Row]:
    for days in (1, 7):
        ts, fares = rides.taxi(days, scale.seed)
        found = {
            "wheel": wheel_of(days, scale.seed).nbytes,
            "wheel, prefix": wheel_of(days, scale.seed, prefix=True).nbytes,
            "wheel, compressed": wheel_of(days, scale.seed, compressed=True).nbytes,
            "segment tree": _SegmentTree(fares).nodes.nbytes,
            "sorted array": ts.nbytes + fares.nbytes,
        }
        with tempfile.TemporaryDirectory() as directory:
            wheel_of(days, scale.seed).save(directory)
            found["wheel, Parquet"] = sum(f.stat().st_size for f in Path(directory).rglob("*") if f.is_file())
            size = _duckdb(Path(directory) / "rides.db", ts, fares)
        if size is not None:
            found["DuckDB file"] = size
        found |= _fiba(fares)
        for name, size in found.items():
            yield {"technique": name, "days": days, "bytes": int(size), "slots": len(ts)}
        scale.say(f"{days} days")


def _duckdb(path: Path, ts: Any, fares: Any) -> int | None:
    try:
        import duckdb
    except ImportError:
        return None
    with duckdb.connect(str(path)) as connection:
        connection.register("given", pa.table({"ts": ts, "fare": fares}))
        connection.execute("create table rides as select * from given order by ts")
        connection.execute("checkpoint")
    return path.stat().st_size


def _fiba(fares: Any) -> dict[str, int]:
    from windlass import agg, stores

    kind = getattr(stores, "FiBA", None)
    if kind is None:
        return {}
    tree = kind(agg.sum(), dtype="int64")
    tree.bulk_insert(range(len(fares)), fares)
    return {"FiBA": tree.nbytes}


def tables(rows: list[Row]) -> list[Table]:
    days = list(dict.fromkeys(r["days"] for r in rows))
    names = list(dict.fromkeys(r["technique"] for r in rows))
    lines = []
    for name in names:
        mine = {r["days"]: r for r in rows if r["technique"] == name}
        lines.append(
            [
                name,
                *(f"{mine[d]['bytes'] / 1e6:.3g}" for d in days),
                f"{mine[days[-1]]['bytes'] / mine[days[-1]]['slots']:.2f}",
            ]
        )
    return [("megabytes", ["", *(f"{d} day(s)" for d in days), "bytes a slot"], lines)]


def findings(rows: list[Row]) -> list[str]:
    week = {r["technique"]: r for r in rows if r["days"] == 7}
    wheel, packed = week["wheel"], week["wheel, compressed"]
    lines = [f"7 days: the wheel takes {wheel['bytes'] / (8 * wheel['slots']) - 1:.1%} more than 8 bytes a slot"]
    if "DuckDB file" in week:
        lines.append(
            f"7 days: compressed, it takes {packed['bytes'] / week['DuckDB file']['bytes']:.2f} of DuckDB's file"
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 2, width=5.2, height=3.4)
    for axes, days in zip(grid[0], (1, 7), strict=True):
        part = [r for r in rows if r["days"] == days]
        axes.barh([r["technique"] for r in part], [r["bytes"] / 1e6 for r in part], color="#0072B2")
        axes.invert_yaxis()
        axes.set_xlabel("megabytes")
        axes.set_title(f"{days} day(s)")
        axes.grid(axis="y", visible=False)
    return fig
