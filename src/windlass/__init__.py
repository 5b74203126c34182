"""Windlass: shared window aggregation for streams and queries."""

from windlass import aggregates as agg

__all__ = ["agg"]
__version__ = "0.1.0"
