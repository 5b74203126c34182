"""Whatever the stream, the queries and the batches are: the operator says what the oracle says.

The oracle finds all windows anew from all events at each watermark and shares no code with the operator. Rows are
compared as multisets after each watermark, with expired events and counters. `WINDLASS_EXAMPLES=1000` looks longer.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windlass
from tests.operator.rows import Asked, Twins, operator_rows, table
from tests.operator.streams import TYPES, Step, queries, streams
from windlass.slicing import forest

EXAMPLES = int(os.environ.get("WINDLASS_EXAMPLES", "0"))


def thoroughly(examples: int) -> Any:
    """The same examples every time; WINDLASS_EXAMPLES asks for so many new ones."""
    return settings(
        max_examples=EXAMPLES or examples,
        derandomize=not EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


keys = st.sampled_from([(), ("k",), ("k", "j"), ("j",)])
lateness = st.sampled_from([0, 0, 1, 5, 12, 1000])


def take(twins: Twins, step: Step) -> None:
    twins.process(*step.batches)
    if step.restart:
        twins.restart()
    if step.peek:
        twins.peek()
    twins.advance(None if twins.in_order else step.watermark)


def run(twins: Twins, steps: list[Step], partial: bool) -> None:
    for step in steps:
        take(twins, step)
    twins.finish(partial)


# Each type of window by itself, so that a failure names its type; then all of them together.


@pytest.mark.parametrize("type_", TYPES)
@thoroughly(20)
@given(st.data(), keys, lateness, streams(), st.booleans())
def test_one_type_of_window(
    type_: str, data: Any, key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    asked = data.draw(queries((type_,), most=2))
    run(Twins(asked, key=key, allowed_lateness=lateness), steps, partial)


@thoroughly(60)
@given(queries(), keys, lateness, streams(), st.booleans())
def test_queries_together(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness), steps, partial)


@thoroughly(30)
@given(queries(), keys, lateness, streams(), st.booleans())
def test_a_sequence_column(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    run(Twins(asked, key=key, sequence="seq", allowed_lateness=lateness), steps, partial)


@thoroughly(40)
@given(queries(), keys, streams(in_order=True), st.booleans())
def test_in_order(asked: list[Asked], key: tuple[str, ...], steps: list[Step], partial: bool) -> None:
    run(Twins(asked, key=key, in_order=True), steps, partial)


@thoroughly(30)
@given(queries(), keys, lateness, streams(interruptions=True), st.booleans())
def test_snapshots_and_peeks_change_nothing(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness), steps, partial)


# What begins after the greatest event time seen, and not what may have begun before.
ADDED = ("time", "session", "punctuation", "frame", "last n", "snapshot", "column", "fractions")


@thoroughly(20)
@given(queries(("time", "session", "count")), queries(ADDED, most=2), keys, lateness, streams(), st.booleans())
def test_queries_come_and_go(
    asked: list[Asked], more: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], removed: bool
) -> None:
    twins = Twins(asked, key=key, allowed_lateness=lateness)
    for i, step in enumerate(steps):
        twins.process(*step.batches[:1])
        if i < len(more):
            twins.add(replace(more[i], name=f"more {i}"))
        if i == 2 and removed:
            twins.remove("q0")
        twins.process(*step.batches[1:])
        twins.advance(step.watermark)
        if not twins.asked:
            return
    twins.finish()


@pytest.mark.parametrize("store", ["lazy", "eager", "fiba"])
@thoroughly(20)
@given(queries(), keys, lateness, streams())
def test_either_store(store: str, asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step]) -> None:
    with patch.object(forest, "FEW", 2):  # trees for windows of few slices, too
        run(Twins(asked, key=key, allowed_lateness=lateness, store=store), steps, partial=False)


@thoroughly(60)
@given(queries(("time", "session")), keys, lateness, streams(interruptions=True), st.booleans())
def test_trees_over_slices(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    with patch.object(forest, "FEW", 1):
        run(Twins(asked, key=key, allowed_lateness=lateness, store="fiba"), steps, partial)


@thoroughly(20)
@given(queries(most=3), keys, lateness, streams())
def test_batches_do_not_matter(asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step]) -> None:
    """The same rows, in the same order, whether the events between two watermarks come at once or one by one."""

    def rows(cut: bool) -> list[Any]:
        operator = Twins(asked, key=key, allowed_lateness=lateness).operator
        out = []
        for step in steps:
            events = [row for batch in step.batches for row in batch]
            for batch in [[row] for row in events] if cut else [events]:
                operator.process(table(batch))
            out.append(operator_rows(operator.advance(step.watermark), asked, key))
            out.append([row["id"] for row in operator.late().to_pylist()])
        out.append(operator_rows(operator.finish(), asked, key))
        return out

    assert rows(cut=True) == rows(cut=False)


@thoroughly(15)
@given(queries(most=3), keys, streams(most=3))
def test_aggregate_is_process_and_finish(asked: list[Asked], key: tuple[str, ...], steps: list[Step]) -> None:
    events = table([row for step in steps for batch in step.batches for row in batch])
    asked_of = [query.for_operator() for query in asked]
    twins = Twins(asked, key=key)
    results = windlass.aggregate(events, asked_of, time="ts", key=twins.options["key"])
    twins.operator.process(events)
    assert operator_rows(results, asked, key) == operator_rows(twins.operator.finish(), asked, key)
