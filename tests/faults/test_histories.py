"""Interrupted calls of histories."""

from faults.histories import CASES as CASES
from faults.interruptions import *  # noqa: F403
