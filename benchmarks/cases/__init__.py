"""The cases, one file each. A case is a module with

TITLE                       one line
run(scale) -> rows          measure; yields one dict a measurement
tables(rows) -> tables      (caption, header, lines) for the terminal and for documents
findings(rows) -> lines     the ratios and checks that the case is about
draw(rows) -> figure        from rows that were read from a file
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TypeVar

from benchmarks.workloads import SEED

STORES = ("single_query", "multi_query", "memory", "latency", "compile_time", "kernel_choices", "sums_overflow")
FIBA = (
    "fiba_distance",
    "fiba_in_order",
    "fiba_latency",
    "fiba_sharing",
    "fiba_real",
    "fiba_coarse",
    "fiba_bulk",
    "fiba_operator",
)
SLICING = (
    "slicing_in_order",
    "slicing_disorder",
    "slicing_memory",
    "slicing_latency",
    "slicing_order",
    "slicing_functions",
    "slicing_median",
    "slicing_split",
    "slicing_measures",
    "slicing_dashboard",
    "slicing_periodic",
    "slicing_marked",
    "slicing_buckets",
    "slicing_peers",
    "slicing_keys",
    "slicing_sessions",
    "slicing_counts",
)
SHARING = (
    "sharing_calibration",
    "sharing_omega",
    "sharing_plans",
    "sharing_edges",
    "sharing_planning",
    "sharing_throughput",
    "sharing_mixed",
    "sharing_engine",
    "sharing_operator",
    "sharing_spark",
)
SPARK = (
    "spark_sliding",
    "spark_streaming",
    "spark_windows",
    "spark_shapes",
    "spark_profile",
    "spark_scaling",
    "spark_soak",
)
WHEEL = ("wheel_windows", "wheel_inserts", "wheel_queries", "wheel_space")
NAMES = STORES + FIBA + SLICING + SHARING + WHEEL + SPARK

T = TypeVar("T")
Table = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True)
class Scale:
    """How much to run, and where to tell of progress."""

    quick: bool
    say: Callable[[str], None]
    seed: int = SEED

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full


def load(name: str) -> ModuleType:
    return import_module(f"benchmarks.cases.{name}")
