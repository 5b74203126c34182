"""Slices that are needed together only."""

import numpy as np

from tests.slicing.test_general import Bench
from tests.slicing.test_slices import check
from windlass.operator.tuples import Tuples
from windlass.slicing import instructions, retention
from windlass.slicing.edges import NEVER
from windlass.slicing.slices import BASE, END, HI, LO, SLOT, START
from windlass.windows.window import Periodic


def test_old_slices_are_merged_where_only_a_landmark_needs_them() -> None:
    #  slices of a tumbling window of 5, and a landmark at 10
    bench = Bench([Periodic(0, 5, 5, 1)])
    bench.take([(0, t) for t in range(40)])
    s = bench.slices
    keep, together = s.directory[:, LO].copy(), s.directory[:, LO].copy()
    together[0] = 6  # slices before 30
    program = np.empty((len(s), instructions.WIDTH), np.int64)
    n, s.free_count = retention.merge_old()(
        np.array([10]), NEVER, keep, together, s.directory, s.rows, s.free, s.free_count, program
    )
    none = np.empty(0, np.int64)
    bench.lift.run(program[:n], Tuples(none, none, none, none, {"x": np.empty(0)}), s, ())
    check(s)
    base, lo, hi = s.directory[0, [BASE, LO, HI]].tolist()
    rows = s.rows[base + lo : base + hi]
    assert rows[:, [START, END]].tolist() == [[0, 10], [10, 30], [30, 35], [35, 40]]
    sums = bench.lift.pool[0][rows[:, SLOT]]
    assert sums.tolist() == [sum(range(10)), sum(range(10, 30)), sum(range(30, 35)), sum(range(35, 40))]
