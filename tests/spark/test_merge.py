"""The second stage without Spark: what is left on the shelf at a watermark leads to the state that a step led to."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from windlass import Query, Sliding, Tumbling, agg
from windlass.spark import state
from windlass.spark.cut import cut
from windlass.spark.frame import Frame
from windlass.spark.job import Job
from windlass.spark.merge import counted_in, restored, step

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64())])
QUERIES = (Query("sliding", Sliding(20, 5), agg.sum("x")), Query("tumbling", Tumbling(8), agg.max("x"), agg.count()))
EVENTS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 100)), st.sampled_from("ab"), st.integers(-9, 9)), max_size=12
)
# The blocks of two partitions, and the watermark after them; most events are not late.
STEPS = st.lists(st.tuples(EVENTS, EVENTS, st.integers(0, 15)), min_size=1, max_size=6)


@given(STEPS, st.sampled_from([0, 10]))
def test_what_is_left_at_the_watermark_leads_to_the_same_state(steps, lateness) -> None:
    job = Job(QUERIES, SCHEMA, "ts", ("k",), None, lateness, None, "slices", 1)
    frame = Frame(job)
    operator, watermark = job.operator(), None
    for one, other, more in steps:
        blocks = [block for events in (one, other) for block in _blocks(job, events, watermark or 0)]
        left: list[tuple[bytes, list[bytes]]] = []

        def leave(rest: Sequence[bytes], operator=operator, left=left) -> bool:
            left.append((operator.snapshot(), list(rest)))
            return False

        watermark = (watermark or 0) + more
        step(frame, operator, blocks, watermark, leave)
        assert len(left) <= 1
        for snapshot, rest in left:
            again = restored(frame, snapshot, [state.encode_step(rest, watermark)])
            assert again.counters == operator.counters
            assert again.watermark == operator.watermark
            assert copy.copy(again).finish().to_arrow() == copy.copy(operator).finish().to_arrow()
            operator = again  # and so it goes on


def test_at_a_watermark_the_blocks_of_the_future_are_left() -> None:
    job = Job(QUERIES, SCHEMA, "ts", ("k",), None, 0, None, "slices", 1)
    frame, operator = Frame(job), job.operator()
    late, future = (_blocks(job, [(t, "a", 1)], 0) for t in (3, 50))
    left: list[list[bytes]] = []
    step(frame, operator, [*future, *late], 20, lambda rest: bool(left.append(list(rest))))
    assert left == [future]
    assert operator.watermark == 20
    assert operator.counters["events"] == 2


@given(STEPS, st.sampled_from([0, 10]))
def test_blocks_may_wait_for_the_next_step(steps, lateness) -> None:
    job = Job(QUERIES, SCHEMA, "ts", ("k",), None, lateness, None, "slices", 1)
    frame = Frame(job)
    one, other, watermark = job.operator(), job.operator(), None
    waiting: list[bytes] = []
    for some, more, further in steps:
        blocks = [block for events in (some, more) for block in _blocks(job, events, watermark or 0)]
        watermark = (watermark or 0) + further
        left: list[bytes] = []

        def wait(rest: Sequence[bytes], left=left) -> bool:
            left.extend(rest)
            return True

        at_once = step(frame, one, blocks, watermark)
        later = step(frame, other, [*waiting, *blocks], watermark, wait)
        assert _rows(later.rows) == _rows(at_once.rows)
        assert later.refused == at_once.refused
        waiting = left
        events, slices = counted_in(frame, waiting)
        assert other.counters["events"] + events == one.counters["events"]
        assert other.counters["slices"] + slices >= one.counters["slices"]
    step(frame, other, waiting, watermark)
    assert other.counters == one.counters
    assert _rows([other.finish().to_arrow()]) == _rows([one.finish().to_arrow()])


def _rows(tables: list[pa.Table]) -> list[str]:
    return sorted(str(row) for table in tables for row in table.to_pylist())


def _blocks(job: Job, events, shift: int) -> list[bytes]:
    columns = zip(*events, strict=True) if events else ([], [], [])
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA.names
    )
    table = table.set_column(
        0, "ts", pa.array([None if t is None else t + shift - 10 for t in table["ts"].to_pylist()], pa.int64())
    )
    return [row.column("block")[0].as_py() for row in cut(job, heartbeat=False)(iter(table.to_batches()))]
