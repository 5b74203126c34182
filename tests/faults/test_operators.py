"""Interrupted calls of operators."""

from faults.interruptions import *  # noqa: F403
from faults.operators import CASES as CASES
