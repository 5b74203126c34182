"""Windlass on Spark: `shared_windows` over any DataFrame, streaming or batch."""

from windlass.spark.generator import generate, register
from windlass.spark.history import build_history, keep_history
from windlass.spark.parquet import parquet_events
from windlass.spark.pipeline import explain, remaining_windows, shared_windows
from windlass.spark.progress import progress
from windlass.spark.session import session
from windlass.spark.sinks import idempotent_parquet, read_upserted, upsert_parquet
from windlass.spark.views import late_of, queries_of, results_of

__all__ = [
    "build_history",
    "explain",
    "generate",
    "idempotent_parquet",
    "keep_history",
    "late_of",
    "parquet_events",
    "progress",
    "queries_of",
    "read_upserted",
    "register",
    "remaining_windows",
    "results_of",
    "session",
    "shared_windows",
    "upsert_parquet",
]
