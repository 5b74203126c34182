"""Interrupted calls of stores."""

from faults.interruptions import *  # noqa: F403
from faults.stores import CASES as CASES
