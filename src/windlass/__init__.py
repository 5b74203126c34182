"""Windlass: shared window aggregation for streams and queries."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windlass.version import __version__ as __version__

if TYPE_CHECKING:
    from windlass import aggregates as agg
    from windlass import formats, windows
    from windlass.operator.fine_grained import FineGrained
    from windlass.operator.operator import Operator, aggregate
    from windlass.operator.query import Query
    from windlass.operator.results import Results
    from windlass.operator.watermarks import Watermarks
    from windlass.wheel.hierarchy import Level
    from windlass.wheel.history import History
    from windlass.wheel.wheel import Wheel
    from windlass.windows import (
        Band,
        Cumulate,
        DataDriven,
        Deterministic,
        Landmark,
        LastN,
        NonDeterministic,
        Punctuation,
        Session,
        SlideByTuple,
        Sliding,
        Snapshot,
        ThresholdFrame,
        Tumbling,
    )

__all__ = [
    "Band",
    "Cumulate",
    "DataDriven",
    "Deterministic",
    "FineGrained",
    "History",
    "Landmark",
    "LastN",
    "Level",
    "NonDeterministic",
    "Operator",
    "Punctuation",
    "Query",
    "Results",
    "Session",
    "SlideByTuple",
    "Sliding",
    "Snapshot",
    "ThresholdFrame",
    "Tumbling",
    "Watermarks",
    "Wheel",
    "agg",
    "aggregate",
    "formats",
    "windows",
]

_MODULES = {"agg": "windlass.aggregates", "formats": "windlass.formats", "windows": "windlass.windows"}
_HOMES = {
    "FineGrained": "windlass.operator.fine_grained",
    "Operator": "windlass.operator.operator",
    "aggregate": "windlass.operator.operator",
    "History": "windlass.wheel.history",
    "Query": "windlass.operator.query",
    "Results": "windlass.operator.results",
    "Watermarks": "windlass.operator.watermarks",
    "Level": "windlass.wheel.hierarchy",
    "Wheel": "windlass.wheel.wheel",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for when it is asked for: importing windlass costs nothing."""
    if name in _MODULES:
        found = import_module(_MODULES[name])
    elif name in __all__:
        found = getattr(import_module(_HOMES.get(name, "windlass.windows")), name)
    else:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
