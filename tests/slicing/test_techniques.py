"""Panes, Pairs, Cutty and general slicing: their fragments, and MQO Table 1 asserted of them and of the operator.

                  partials a window     r % s = 0      else
Panes                                   r / s          r / gcd(r, s)
Pairs, general                          r / s          2·⌊r / s⌋ + 1
Cutty                                   r / s          ⌈r / s⌉
"""

from __future__ import annotations

from itertools import combinations
from math import gcd, lcm
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import Band, Cumulate, Landmark, Operator, Query, Sliding, Tumbling, agg
from windlass.errors import InvalidArgument
from windlass.slicing import cuts, edges
from windlass.slicing.fragments import fragments, partials
from windlass.windows.window import Periodic


def composite_slide(windows: list[Periodic]) -> int:
    return lcm(*(w.period for w in windows))


def panes(windows: list[Periodic]) -> Any:
    return edges.repeating(p for w in windows for p in cuts.panes(w.step, w.period, w.origin))


def pairs(windows: list[Periodic]) -> Any:
    return edges.repeating(p for w in windows for p in cuts.pairs(w.step, w.period, w.origin))


def general(windows: list[Periodic]) -> Any:
    return edges.together(edges.begins(windows), edges.ends(windows))


TECHNIQUES = {"panes": panes, "pairs": pairs, "cutty": edges.begins, "general": general}

#                     r   s     Figures 2, 3 and 4 of MQO, Figure 7 of Cutty, and some whose slides leave no rest
EXAMPLES = [(4, 1), (14, 8), (5, 3), (10, 3), (10, 5), (12, 4), (7, 7), (1, 1), (60, 7), (9, 6)]


def sliding(r: int, s: int, origin: int = 0) -> Periodic:
    return Periodic(origin, s, r, 1)


def table_1(technique: str, r: int, s: int) -> int:
    if r % s == 0:
        return r // s
    return {"panes": r // gcd(r, s), "pairs": 2 * (r // s) + 1, "general": 2 * (r // s) + 1, "cutty": -(-r // s)}[
        technique
    ]


ranges_and_slides = st.integers(1, 40).flatmap(lambda r: st.tuples(st.just(r), st.integers(1, r)))


# --------------------------------------------------------------------------- the formulas


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize(("r", "s"), EXAMPLES)
def test_partials_a_window(technique: str, r: int, s: int) -> None:
    # Panes at r % s = 0 have length s, so the formula of the other column gives the same.
    for start in (0, s, -5 * s):
        assert partials(TECHNIQUES[technique]([sliding(r, s)]), start, start + r) == table_1(technique, r, s)


@given(ranges_and_slides, st.integers(-50, 50))
def test_partials_a_window_whatever_range_slide_and_offset(window: tuple[int, int], origin: int) -> None:
    r, s = window
    for technique, edges_of in TECHNIQUES.items():
        assert partials(edges_of([sliding(r, s, origin)]), origin, origin + r) == table_1(technique, r, s)


@pytest.mark.parametrize(
    ("technique", "lengths"), [("panes", [1, 1, 1]), ("pairs", [1, 2]), ("cutty", [3]), ("general", [1, 2])]
)
def test_slices_of_range_10_and_slide_3(technique: str, lengths: list[int]) -> None:
    # Cutty, Figure 7
    assert fragments(TECHNIQUES[technique]([sliding(10, 3)]), 3).tolist() == lengths


@pytest.mark.parametrize(
    ("r", "s", "f1", "f2"),
    [(14, 8, 2, 6), (10, 3, 2, 1), (10, 5, 5, 0), (5, 3, 1, 2)],
    ids=["MQO figure 3", "", "", ""],
)
def test_the_two_fragments_of_a_pair(r: int, s: int, f1: int, f2: int) -> None:
    assert cuts.pair(r, s) == (f1, f2)
    assert sorted(fragments(pairs([sliding(r, s)]), s).tolist()) == sorted(f for f in (f1, f2) if f)


def test_a_composite_slide() -> None:
    #     │       │       │       │       slide 4
    #     │           │           │       slide 6
    windows = [sliding(4, 4), sliding(6, 6)]
    assert composite_slide(windows) == 12
    assert fragments(edges.begins(windows), 12).tolist() == [4, 2, 2, 4]
    # Perfectly weaving: only common edges (MQO 3.1.1).
    assert fragments(edges.begins([sliding(4, 4), sliding(8, 8)]), 8).tolist() == [4, 4]


@given(st.lists(ranges_and_slides, min_size=1, max_size=4), st.integers(-9, 9))
def test_fragments_fill_the_composite_slide(given_: list[tuple[int, int]], origin: int) -> None:
    windows = [sliding(r, s, origin) for r, s in given_]
    slide = composite_slide(windows)
    for edges_of in TECHNIQUES.values():
        found = fragments(edges_of(windows), slide)
        assert (found > 0).all()
        assert found.sum() == slide
    # More edges never make fewer slices: Cutty ≤ Pairs = general ≤ Panes.
    counts = {name: len(fragments(edges_of(windows), slide)) for name, edges_of in TECHNIQUES.items()}
    assert counts["cutty"] <= counts["pairs"] == counts["general"] <= counts["panes"]
    assert edges.between(pairs(windows), 0, slide).tolist() == edges.between(general(windows), 0, slide).tolist()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_edges_counted_by_bit_set_and_by_f1(slides: list[int]) -> None:
    """MQO equation 2, for edges at multiples of the slides: inclusion and exclusion over all groups of slides."""
    windows = [sliding(s, s) for s in slides]
    whole = composite_slide(windows)
    f1 = sum(
        (-1) ** (size + 1) * whole // lcm(*group)
        for size in range(1, len(slides) + 1)
        for group in combinations(slides, size)
    )
    bit_set = np.zeros(whole, np.bool_)
    for s in slides:
        bit_set[::s] = True
    assert len(fragments(edges.begins(windows), whole)) == f1 == bit_set.sum()


# --------------------------------------------------------------------------- the operator


def stream(low: int, high: int) -> dict[str, Any]:
    """An event at every time."""
    ts = np.arange(low, high)
    return {"ts": ts, "x": ts % 7}


@pytest.mark.parametrize(("r", "s"), EXAMPLES)
@pytest.mark.parametrize(
    ("order", "technique", "options"),
    [
        ("in-order", "cutty", {}),
        ("out-of-order", "general", {}),
        *(("in-order", technique, {"slicing": technique}) for technique in ("cutty", "pairs", "panes")),
    ],
)
def test_slices_of_the_operator_are_those_of_table_1(order: Any, technique: str, options: Any, r: int, s: int) -> None:
    # The last event is the last of the window [0, r), the oldest that is not complete: its slices are all there is.
    operator = Operator(Query("q", Sliding(r, s), agg.sum("x")), time="ts", order=order, **options)
    operator.process(stream(-3 * r, r))
    operator.advance(r - 1)
    assert operator.counters["slices"] == table_1(technique, r, s)


@pytest.mark.parametrize("technique", ["cutty", "pairs", "panes"])
@pytest.mark.parametrize("key", [None, "k"])
def test_the_technique_is_the_operators_choice_and_changes_no_answer(technique: Any, key: Any) -> None:
    windows = [Sliding(10, 3), Cumulate(3, 12), Tumbling(7), Band(20, 30), Landmark(5, 9)]
    windows += [Sliding(8, 3, measure="count")]
    queries = [Query(f"q{i}", window, agg.sum("x"), agg.last("x")) for i, window in enumerate(windows)]
    events = stream(0, 100) | {"k": np.arange(100) % 3}
    rows = []
    for slicing in ("auto", technique):
        operator = Operator(queries, time="ts", key=key, order="in-order", slicing=slicing)
        for part in np.array_split(np.arange(100), 9):
            operator.process({name: values[part] for name, values in events.items()})
        rows.append(sorted(map(repr, operator.finish().to_arrow().to_pylist())))
        assert technique.capitalize() in operator.explain() or slicing == "auto"
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slicing": "slabs", "order": "in-order"}, "one of 'auto', 'cutty', 'pairs', 'panes'"),
        ({"slicing": "pairs"}, "is for order='in-order'"),
    ],
)
def test_techniques_that_cannot_be_had(options: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        Operator(Query("q", Tumbling(5), agg.sum("x")), time="ts", **options)


@pytest.mark.parametrize(("r", "s"), EXAMPLES)
def test_count_windows_in_order_are_cut_at_begins_only(r: int, s: int) -> None:
    operator = Operator(Query("q", Sliding(r, s, measure="count"), agg.sum("x")), time="ts", order="in-order")
    first = 3 * r // s * s  # events at positions 0 … first + r - 2: the window [first, first + r) lacks one
    operator.process(stream(0, first + r - 1))
    operator.advance()
    assert operator.counters["slices"] == len(edges.between(edges.begins([sliding(r, s)]), first - 1, first + r - 2))


@pytest.mark.parametrize(("r", "s"), EXAMPLES)
@pytest.mark.parametrize("measure", ["time", "count"])
def test_space_of_cutty_table_1(measure: str, r: int, s: int) -> None:
    """⌈r / s⌉ + 1 slices at most, whenever one looks."""
    operator = Operator(Query("q", Sliding(r, s, measure=measure), agg.sum("x")), time="ts", order="in-order")
    for ts in range(3 * r):
        operator.process({"ts": [ts], "x": [1]})
        assert operator.counters["slices"] <= -(-r // s) + 1


@pytest.mark.parametrize(
    "windows",
    [
        [Tumbling(4), Tumbling(6)],
        [Sliding(10, 3), Sliding(14, 8)],
        [Sliding(5, 3), Tumbling(7), Cumulate(3, 12)],
        [Tumbling(n) for n in range(1, 13)],
    ],
)
def test_slices_of_a_composite_slide(windows: list[Any]) -> None:
    bounds = [w.bind(None) for w in windows]
    slide = composite_slide(bounds)
    queries = [Query(f"q{i}", w, agg.sum("x")) for i, w in enumerate(windows)]
    operator = Operator(queries, time="ts")
    operator.process(stream(slide, 3 * slide))
    assert operator.counters["slices"] == 2 * len(fragments(general(bounds), slide))


def test_slices_are_shared_whatever_the_number_of_windows() -> None:
    for order in ("in-order", "out-of-order"):
        one = Operator(Query("q", Tumbling(1), agg.sum("x")), time="ts", order=order)
        many = Operator([Query(f"q{n}", Tumbling(n), agg.sum("x")) for n in range(1, 21)], time="ts", order=order)
        for operator in (one, many):
            operator.process(stream(0, 1000))
            operator.advance(999)
        oldest = min(999 - 999 % n for n in range(1, 21))  # 980: of the windows that are not complete, the first begin
        assert many.counters["slices"] == 1000 - oldest
        assert one.counters["slices"] == 1
