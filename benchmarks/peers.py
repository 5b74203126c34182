"""What others offer for the same rolling aggregate, each with one thread: NumPy, Polars and DuckDB.

They answer over a column that is there as a whole; a store answers over a stream. All of them hand over
every answer as an array. Their answers are compared with NumPy's over the last window before anything is
timed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when Polars is first imported

import numpy as np
import pyarrow as pa

Call = Callable[[], Any]

VIEW_UP_TO = 1 << 8  # NumPy has no rolling maximum; folding a view costs the whole window for each answer
DUCKDB_UP_TO = 1 << 14


def rolling(aggregate: str, window: int, values: np.ndarray) -> dict[str, Call]:
    """The peers that have this aggregate, for windows they take a bearable time for."""
    calls: dict[str, Call] = {}
    if aggregate in ("sum", "avg"):
        calls["NumPy"] = lambda: _numpy_sums(values, window, mean=aggregate == "avg")
    elif aggregate == "max" and window <= VIEW_UP_TO:
        calls["NumPy"] = lambda: np.lib.stride_tricks.sliding_window_view(values, window).max(axis=1)
    if aggregate in ("sum", "max", "avg"):
        calls |= _polars(aggregate, window, values)
        if window <= DUCKDB_UP_TO:
            calls |= _duckdb(aggregate, window, values)
    youngest = values[-window:]
    for peer, call in calls.items():
        expected = {"sum": np.sum, "max": np.max, "avg": np.mean}[aggregate](youngest)
        assert np.isclose(float(call()[-1]), float(expected)), f"{peer} gives another {aggregate}"
    return calls


def _numpy_sums(values: np.ndarray, window: int, *, mean: bool) -> np.ndarray:
    """The difference of two running sums; of windows that are full."""
    running = np.cumsum(values)
    sums = running[window - 1 :].copy()
    sums[1:] -= running[:-window]
    return sums / window if mean else sums


def _polars(aggregate: str, window: int, values: np.ndarray) -> dict[str, Call]:
    try:
        import polars as pl
    except ImportError:
        return {}
    series = pl.Series(values)
    name = {"sum": "rolling_sum", "max": "rolling_max", "avg": "rolling_mean"}[aggregate]
    return {"Polars": lambda: getattr(series, name)(window_size=window)}


def _duckdb(aggregate: str, window: int, values: np.ndarray) -> dict[str, Call]:
    try:
        import duckdb
    except ImportError:
        return {}
    connection = duckdb.connect(config={"threads": 1})
    connection.register("events", pa.table({"i": np.arange(len(values)), "v": values}))
    connection.execute("create table stored as select * from events")
    result = "bigint" if aggregate != "avg" else "double"
    frame = f"order by i rows between {window - 1} preceding and current row"
    query = f"select ({aggregate}(v) over ({frame}))::{result} as a from stored"
    return {"DuckDB": lambda: connection.sql(query).to_arrow_table()["a"].to_numpy()}


def windows(lengths: list[int], slide: int, ts: np.ndarray, values: np.ndarray) -> dict[str, Call]:
    """Sums over several sliding windows of one slide, each a multiple of it, over a table that is there as a whole.

    Each call returns, for every window length, the starts and the sums. `…, panes`: the events of each slide are summed
    first, by hand, and the windows are made of these sums. Windows that begin before the first event are left out.
    """
    calls = _polars_windows(lengths, slide, ts, values) | _duckdb_windows(lengths, slide, ts, values)
    for peer, call in calls.items():
        for length, (starts, sums) in zip(lengths, call(), strict=True):
            k = len(starts) // 2
            inside = (ts >= starts[k]) & (ts < starts[k] + length)
            assert int(sums[k]) == int(values[inside].sum()), f"{peer} gives another sum over {length}"
    return calls


def _polars_windows(lengths: list[int], slide: int, ts: np.ndarray, values: np.ndarray) -> dict[str, Call]:
    try:
        import polars as pl
    except ImportError:
        return {}
    events = pl.DataFrame({"ts": ts, "v": values}).set_sorted("ts")

    def over(frame: Any, length: int) -> tuple[np.ndarray, np.ndarray]:
        grouped = frame.group_by_dynamic("ts", every=f"{slide}i", period=f"{length}i").agg(pl.col("v").sum())
        return grouped["ts"].to_numpy(), grouped["v"].to_numpy()

    def naively() -> list[Any]:
        return [over(events, length) for length in lengths]

    def with_panes() -> list[Any]:
        panes = events.group_by_dynamic("ts", every=f"{slide}i").agg(pl.col("v").sum())
        return [over(panes, length) for length in lengths]

    return {"Polars": naively, "Polars, panes": with_panes}


def _duckdb_windows(lengths: list[int], slide: int, ts: np.ndarray, values: np.ndarray) -> dict[str, Call]:
    try:
        import duckdb
    except ImportError:
        return {}
    connection = duckdb.connect(config={"threads": 1})
    connection.register("events", pa.table({"ts": ts, "v": values}))
    connection.execute("create table stored as select * from events")
    first = int(ts[0]) // slide

    def over(table: str, length: int) -> tuple[np.ndarray, np.ndarray]:
        # Every row is copied into each window it is in, as Spark does it.
        copies = f"select unnest(range(ts // {slide} - {length // slide - 1}, ts // {slide} + 1)) as k, v from {table}"
        grouped = f"select k * {slide} as start, sum(v)::bigint as total from ({copies}) where k >= {first} group by k"
        found = connection.sql(f"{grouped} order by start").to_arrow_table()
        return found["start"].to_numpy(), found["total"].to_numpy()

    def naively() -> list[Any]:
        return [over("stored", length) for length in lengths]

    def with_panes() -> list[Any]:
        pane = f"select (ts // {slide}) * {slide} as ts, sum(v)::bigint as v from stored group by 1"
        connection.execute(f"create or replace temp table panes as {pane}")
        return [over("panes", length) for length in lengths]

    return {"DuckDB": naively, "DuckDB, panes": with_panes}


def keyed_sums(lengths: list[int], ts: np.ndarray, keys: np.ndarray, values: np.ndarray) -> dict[str, Call]:
    """Sums of each key over tumbling windows; each call returns how many there are."""
    calls: dict[str, Call] = {}
    try:
        import polars as pl

        events = pl.DataFrame({"ts": ts, "key": keys, "v": values})

        def polars() -> int:
            total = 0
            for length in lengths:
                total += len(events.group_by("key", pl.col("ts") // length).agg(pl.col("v").sum()))
            return total

        calls["Polars"] = polars
    except ImportError:
        pass
    try:
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        connection.register("events", pa.table({"ts": ts, "key": keys, "v": values}))
        connection.execute("create table stored as select * from events")

        def duckdb_() -> int:
            total = 0
            for length in lengths:
                query = f"select key, ts // {length} as k, sum(v)::bigint as total from stored group by 1, 2"
                total += len(connection.sql(query).to_arrow_table())
            return total

        calls["DuckDB"] = duckdb_
    except ImportError:
        pass
    return calls


def keyed_sessions(gap: int, ts: np.ndarray, keys: np.ndarray, values: np.ndarray) -> dict[str, Call]:
    """Sums of each key over its sessions, from a table in any order; each call returns how many there are."""
    calls: dict[str, Call] = {}
    try:
        import polars as pl

        events = pl.DataFrame({"ts": ts, "key": keys, "v": values})

        def polars() -> int:
            ordered = events.sort("key", "ts", maintain_order=True)
            begins = (pl.col("key") != pl.col("key").shift(1)) | (pl.col("ts") - pl.col("ts").shift(1) > gap)
            numbered = ordered.with_columns(session=begins.fill_null(True).cum_sum())
            found = numbered.group_by("session").agg(
                pl.col("key").first(),
                pl.col("ts").min().alias("first"),
                pl.col("ts").max().alias("last"),
                pl.col("v").sum(),
            )
            return len(found)

        calls["Polars"] = polars
    except ImportError:
        pass
    try:
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        connection.register("events", pa.table({"ts": ts, "key": keys, "v": values}))
        connection.execute("create table stored as select * from events")
        joins = f"ts - lag(ts) over (partition by key order by ts) <= {gap}"
        marked = f"select key, ts, v, (case when {joins} then 0 else 1 end) as begins from stored"
        numbered = f"select key, ts, v, sum(begins) over (partition by key order by ts) as session from ({marked})"
        query = f"select key, min(ts), max(ts), sum(v)::bigint as total from ({numbered}) group by key, session"
        calls["DuckDB"] = lambda: len(connection.sql(query).to_arrow_table())
    except ImportError:
        pass
    return calls
