"""A late event may join an open session from before the end of a closed one, whose slices other windows still need."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.operator.rows import Asked, Twins, event

TUMBLING = Asked("tumbling", oracle.Tumbling(4), ("count",))
SHORT, LONG = (Asked(f"session {gap}", oracle.Session(gap), ("sum", "count")) for gap in (2, 3))


def asked(ts: int, x: int, key: str = "a") -> dict[str, Any]:
    return event(ts, k=key, x=x)


def test_sessions_get_slices_of_their_own() -> None:
    """The session of 0 is closed when 2 comes; then another 0 joins 2 and 3, but not the first 0."""
    twins = Twins([TUMBLING, SHORT], key=("k",), allowed_lateness=4)
    twins.process([asked(0, 1)], [asked(3, 4), asked(6, 9)]).advance(6)
    twins.process([asked(2, 16)]).advance(6)
    assert [tree.queries for tree in twins.operator.plan] == [("tumbling", "session 2")]
    twins.process([asked(0, 25)])
    assert [tree.queries for tree in twins.operator.plan] == [("tumbling",), ("session 2",)]
    rows = {(row.query, row.low, row.high, row.retraction): row.values for row in twins.finish()}
    assert rows["session 2", 0, 5, False] == (16 + 4 + 25, 3)


steps = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(-8, 3), st.sampled_from("ab")), min_size=1, max_size=4),
        st.integers(-2, 1),  # a watermark, from the greatest time on
        st.none(),  # on from a snapshot
    ),
    min_size=5,
    max_size=20,
)


@pytest.mark.parametrize("lateness", [0, 3])
@settings(max_examples=150, deadline=None)
@example([[(1, "a"), (3, "a"), (3, "b")], 0, [(3, "a"), (-4, "b"), (-6, "b"), (-8, "b")], 0, [(-4, "b"), (-8, "b")]])
@given(steps)
def test_late_events_among_sessions(lateness: int, done: Any) -> None:
    twins = Twins([TUMBLING, SHORT, LONG], key=("k",), allowed_lateness=lateness)
    now = n = 0
    for step in done:
        if step is None:
            twins.restart()
        elif isinstance(step, int):
            twins.advance(now + step)
        else:
            rows = []
            for ahead, key in step:
                rows.append(asked(max(0, now + ahead), n := n + 1, key))
                now = max(now, now + ahead)
            twins.process(rows)
    twins.finish()
