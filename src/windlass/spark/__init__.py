"""Windlass on Spark: `shared_windows` over any DataFrame, streaming or batch."""

from windlass.spark.frame import late_of, queries_of, results_of
from windlass.spark.generator import register
from windlass.spark.pipeline import remaining_windows, shared_windows
from windlass.spark.session import session

__all__ = ["late_of", "queries_of", "register", "remaining_windows", "results_of", "session", "shared_windows"]
