"""A clock for compiled loops: the processor's time stamp counter, on x86-64.

`stamp(x)` reads it once x, and everything before it, is computed (lfence; rdtsc). An aggregate whose `lower` is a
stamp gives the time of each answer in place of its value, so every round of a store's own bulk loop can be timed.
"""

from __future__ import annotations

import platform
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import binding, ir
from numba import njit, types
from numba.extending import intrinsic

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid

AVAILABLE = platform.machine().lower() in ("x86_64", "amd64")

binding.initialize_native_asmparser()


@intrinsic
def stamp(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        code = "lfence; rdtsc; shlq $$32, %rdx; orq %rdx, %rax"
        constraints = "={rax},r,~{rdx},~{memory},~{dirflag},~{fpsr},~{flags}"
        assembly = ir.InlineAsm(ir.FunctionType(word, [word]), code, constraints, side_effect=True)
        return builder.call(assembly, arguments)

    return types.int64(types.int64), generate


stamp.__module__ = "numba"  # an intrinsic has no content that could be named; numba's own need none, and are cached


def stamped(aggregate: Aggregate) -> Aggregate:
    """The same aggregate over int64, answering with the time at which each answer was there."""

    def build(*types_: Any) -> Monoid:
        return replace(aggregate.build(*types_), lower=_lower, result=pa.int64(), results=(), finish=None)

    return replace(aggregate, build=build, build_invertible=None)


def _lower(p: Any) -> Any:
    return (stamp(p[0]),)


@njit
def only_stamps(times: np.ndarray) -> np.ndarray:
    """What the clock itself costs."""
    for i in range(len(times)):
        times[i] = stamp(i)
    return times


def nanoseconds_a_tick() -> float:
    times = np.zeros(1, np.int64)
    only_stamps(times)
    start, ticks = time.perf_counter_ns(), int(times[0])
    time.sleep(0.2)
    only_stamps(times)
    return (time.perf_counter_ns() - start) / (int(times[0]) - ticks)
