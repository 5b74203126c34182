"""Interrupted calls of windows per event, slicers and running plans."""

from faults.interruptions import *  # noqa: F403
from faults.others import CASES as CASES
