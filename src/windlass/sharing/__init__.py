"""Sharing: from a set of queries to the cheapest plan that answers them together (MQO).

from windlass.sharing import ACQ, plan

chosen = plan([ACQ("1m", "5s"), ACQ("1h", "1m"), ACQ("1d", "1h")], rate=1000)
print(chosen.explain())
"""

from windlass.sharing.acq import ACQ
from windlass.sharing.bit_set import bit_set
from windlass.sharing.calibration import Calibration, calibration
from windlass.sharing.executor import Answers, PlanRun
from windlass.sharing.f1 import f1
from windlass.sharing.fragments import composite_slide, edges_of
from windlass.sharing.plan import Plan, Tree
from windlass.sharing.planning import alternatives, plan, with_acq, without_acq
from windlass.sharing.techniques import TECHNIQUES

__all__ = [
    "ACQ",
    "TECHNIQUES",
    "Answers",
    "Calibration",
    "Plan",
    "PlanRun",
    "Tree",
    "alternatives",
    "bit_set",
    "calibration",
    "composite_slide",
    "edges_of",
    "f1",
    "plan",
    "with_acq",
    "without_acq",
]
