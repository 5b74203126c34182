"""When windows begin and end: `Tumbling("5m")`, `Session("30m")`, or your own with `Deterministic`."""

from windlass.windows.band import Band
from windlass.windows.cumulate import Cumulate
from windlass.windows.landmark import Landmark
from windlass.windows.session import Session
from windlass.windows.sliding import Sliding
from windlass.windows.tumbling import Tumbling
from windlass.windows.window import Window

__all__ = ["Band", "Cumulate", "Landmark", "Session", "Sliding", "Tumbling", "Window"]
