"""Keys that nobody needs are dropped and nothing is different; with key_ttl, keys end as the oracle says.

The threshold below which keys are not worth dropping is lowered, so that they are dropped in small streams too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Band, Cumulate, Landmark, LastN, Session, SlideByTuple, Sliding, Snapshot, ThresholdFrame, Tumbling

import windlass
from tests.operator.rows import Asked, Twins, event, table
from tests.operator.streams import TYPES, Step, queries, streams
from tests.operator.test_properties import keys, lateness, run, thoroughly
from windlass import Operator, Query, agg
from windlass.errors import CorruptSnapshot, InvalidArgument, WrongType
from windlass.operator import forgetting
from windlass.operator.keys import KeyIndex


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(forgetting, "FEW", 1)
    yield


# --------------------------------------------------------------------------- streams whose keys come and go


def churning(steps: list[Step]) -> list[Step]:
    """The same stream, in which a step has keys of its own for the most part."""

    def moved(i: int, row: dict[str, Any]) -> dict[str, Any]:
        k = row["k"]
        return row if k in (None, "a") else {**row, "k": f"{k} {i // 2}"}

    return [replace(s, batches=[[moved(i, row) for row in b] for b in s.batches]) for i, s in enumerate(steps)]


changing = st.sampled_from([("k",), ("k",), ("k", "j"), ("j", "k")])


def reach(window: Any) -> int:
    """The longest time after an event at which a watermark completes a window that holds it."""
    match window:
        case Tumbling() | Sliding() | Cumulate() | Band() if window.measure == "time":
            return window.size
        case Landmark(measure="time"):
            return window.slide
        case Session():
            return window.gap + 1
        case SlideByTuple():
            return window.size
        case LastN():
            return window.every
        case Snapshot():
            return window.lifetime
    return 1


def certain(asked: list[Asked]) -> list[Asked]:
    """Without frames that have to be long: one that a late event would make long enough may be closed too early,
    whether keys end or not."""
    long = [isinstance(query.window, ThresholdFrame) for query in asked]
    return [replace(q, window=replace(q.window, min_size=1)) if is_ else q for q, is_ in zip(asked, long, strict=True)]


def least_ttl(asked: list[Asked]) -> int:
    return max(reach(query.window) for query in asked)


# --------------------------------------------------------------------------- what nobody notices


@pytest.mark.parametrize("type_", TYPES)
@thoroughly(15)
@given(st.data(), changing, lateness, streams(most=8), st.booleans())
def test_forgetting_changes_nothing(
    type_: str, data: Any, key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    asked = certain(data.draw(queries((type_,), most=2)))
    run(Twins(asked, key=key, allowed_lateness=lateness), churning(steps), partial)


@thoroughly(50)
@given(queries(("time", "session")), changing, lateness, streams(interruptions=True, most=10), st.booleans())
def test_forgetting_between_snapshots(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness), churning(steps), partial)


@pytest.mark.parametrize("store", ["lazy", "eager"])
@thoroughly(20)
@given(queries(("time", "session")), changing, streams(in_order=True, interruptions=True, most=10))
def test_forgetting_in_order(store: str, asked: list[Asked], key: tuple[str, ...], steps: list[Step]) -> None:
    run(Twins(asked, key=key, in_order=True, store=store), churning(steps), partial=False)


@thoroughly(25)
@given(queries(("time", "session")), queries(("time",), most=2), changing, lateness, streams(most=8), st.booleans())
def test_forgetting_while_queries_come_and_go(
    asked: list[Asked], more: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], removed: bool
) -> None:
    twins = Twins(asked, key=key, allowed_lateness=lateness)
    for i, step in enumerate(churning(steps)):
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


# --------------------------------------------------------------------------- keys that end

ttls = st.sampled_from([0, 0, 1, 4, 15])  # besides what windows need


@pytest.mark.parametrize("type_", TYPES)
@thoroughly(20)
@given(st.data(), keys, lateness, streams(interruptions=True, most=8), ttls, st.booleans(), st.booleans())
def test_keys_of_one_type_of_window_end(
    type_: str,
    data: Any,
    key: tuple[str, ...],
    lateness: int,
    steps: list[Step],
    more: int,
    partial: bool,
    churn: bool,
) -> None:
    asked = certain(data.draw(queries((type_,), most=2)))
    twins = Twins(asked, key=key, allowed_lateness=lateness, key_ttl=least_ttl(asked) + more)
    run(twins, churning(steps) if churn else steps, partial)


@thoroughly(60)
@given(queries().map(certain), keys, lateness, streams(interruptions=True, most=8), ttls, st.booleans())
def test_keys_end(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], more: int, partial: bool
) -> None:
    run(Twins(asked, key=key, allowed_lateness=lateness, key_ttl=least_ttl(asked) + more), steps, partial)


@thoroughly(25)
@given(queries().map(certain), keys, lateness, streams(most=8), ttls)
def test_keys_end_with_a_sequence(
    asked: list[Asked], key: tuple[str, ...], lateness: int, steps: list[Step], more: int
) -> None:
    twins = Twins(asked, key=key, sequence="seq", allowed_lateness=lateness, key_ttl=least_ttl(asked) + more)
    run(twins, steps, partial=False)


@thoroughly(60)
@given(queries(), keys, streams(in_order=True, interruptions=True, most=8), ttls, st.booleans(), st.booleans())
def test_keys_end_in_order(
    asked: list[Asked], key: tuple[str, ...], steps: list[Step], more: int, partial: bool, churn: bool
) -> None:
    twins = Twins(asked, key=key, in_order=True, key_ttl=least_ttl(asked) + more)
    run(twins, churning(steps) if churn else steps, partial)
