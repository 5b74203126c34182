"""What the kernels of all discretizers do alike: end times, and writing down what was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.windows.window import FOREVER, Array

TWIN = 5


def later(ts: Any, duration: Any) -> Any:
    """ts + duration, which is positive; FOREVER if that is past the end of time."""
    return ts + duration if ts <= FOREVER - duration else FOREVER


def emit(found: Any, n: Any, key: Any, first: Any, stop: Any, start: Any, end: Any) -> Any:
    """Write window n down, and return the number of the next. The rows are what `Windows.of` takes."""
    found[0, n] = key
    found[1, n] = first
    found[2, n] = stop
    found[3, n] = start
    found[4, n] = end
    return n + 1


def room(windows: int, twins: bool = False) -> Array:
    """An array for a kernel's windows. With `twins` it has the row TWIN: how many windows had begun earlier with the
    same event."""
    return np.empty((6 if twins else 5, windows), np.int64)
