"""Interrupted calls of wheels."""

from faults.interruptions import *  # noqa: F403
from faults.wheels import CASES as CASES
