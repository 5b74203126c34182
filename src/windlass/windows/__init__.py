"""When windows begin and end: `Tumbling("5m")`, `Session("30m")`, or your own with `Deterministic`."""

from windlass.windows.band import Band
from windlass.windows.cumulate import Cumulate
from windlass.windows.data_driven import DataDriven
from windlass.windows.landmark import Landmark
from windlass.windows.last_n import LastN
from windlass.windows.punctuation import Punctuation
from windlass.windows.session import Session
from windlass.windows.slide_by_tuple import SlideByTuple
from windlass.windows.sliding import Sliding
from windlass.windows.snapshot import Snapshot
from windlass.windows.threshold_frame import ThresholdFrame
from windlass.windows.tumbling import Tumbling
from windlass.windows.user_defined import Deterministic, NonDeterministic
from windlass.windows.window import Window

__all__ = [
    "Band",
    "Cumulate",
    "DataDriven",
    "Deterministic",
    "Landmark",
    "LastN",
    "NonDeterministic",
    "Punctuation",
    "Session",
    "SlideByTuple",
    "Sliding",
    "Snapshot",
    "ThresholdFrame",
    "Tumbling",
    "Window",
]
