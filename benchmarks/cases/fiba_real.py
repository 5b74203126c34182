"""Real disorder (FiBA Figure 15): Citi Bike trips as they end, by the time they began, over windows of days.

The trips of Jersey City, August to December 2018, repeated in time to make a stream that is long enough; fed in
chunks of 1024.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import fiba, workloads
from benchmarks.cases import Scale, Table
from benchmarks.results import Row

TITLE = "FiBA: Citi Bike trips in order of arrival (FiBA Figure 15)"

FILE = "citibike_jc_2018-08_12.parquet"
DAY = 86_400_000_000


def run(scale: Scale) -> Iterator[Row]:
    directory = workloads.data_directory()
    if directory is None or not (directory / FILE).is_file():
        scale.say(f"{FILE}: no such data; set WINDLASS_DATA to its directory. Skipped.")
        return
    trips = pq.read_table(directory / FILE, columns=["ts", "arrival", "value", "key"]).to_pandas()
    trips = trips.sort_values("arrival", kind="stable")
    times, durations = trips["ts"].to_numpy(), trips["value"].to_numpy().astype(np.int64)
    stations = trips["key"].to_numpy().astype(np.int64)
    for aggregate in scale.pick(("sum", "geomean", "bloom"), ("sum",)):
        values = {"sum": durations, "geomean": durations.astype(float), "bloom": stations}[aggregate]
        n = scale.pick(len(times) if aggregate != "bloom" else len(times) // 4, 4096)
        for quarters in scale.pick((1, 4, 16, 64, 128), (4, 16)):
            scale.say(f"{aggregate}, {quarters / 4:g} days")
            rates: dict[str, list[float]] = {}
            for repetition in range(scale.pick(3, 1) + 1):
                for name, make in fiba.stores((16, 4)).items():
                    store = make(aggregate)
                    seconds = fiba.fed(store, times[:n], values[:n], span=quarters * DAY // 4)
                    if repetition:
                        rates.setdefault(name, []).append(n / seconds)
            for name, found in rates.items():
                yield fiba.row(aggregate, name, quarters, found)


def tables(rows: list[Row]) -> list[Table]:
    return fiba.pivot(rows, "million events/s", "window, days", lambda q: f"{q / 4:g}")


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for panel in dict.fromkeys(r["panel"] for r in rows):
        mine = {(r["series"], r["x"]): r["per_second"] for r in rows if r["panel"] == panel}
        longest = max(x for _, x in mine)
        ratio = mine["FiBA 16", longest] / mine["classic 8", longest]
        lines.append(f"{panel}, {longest / 4:g} days: {ratio:.2f} times the classic tree")
    return lines


def draw(rows: list[Row]) -> Any:
    return fiba.lines_of(rows, "window (quarters of a day)", what="million events a second")
