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
