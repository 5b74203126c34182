"""Windlass: shared window aggregation for streams and queries."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass import aggregates as agg

__all__ = ["agg"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads what is asked for when it is asked for: importing windlass costs nothing."""
    if name == "agg":
        globals()["agg"] = import_module("windlass.aggregates")
        return globals()["agg"]
    raise AttributeError(f"module 'windlass' has no attribute {name!r}")
