"""What a query refuses as too late does not exist for it, whoever else accepted it.

Examples that once differed from the oracle, as they were found. `Twins` compares at each watermark.
"""

from __future__ import annotations

from typing import Any

from oracle import LastN, NonDeterministic, Session, SlideByTuple, ThresholdFrame, Tumbling

from tests.operator.rows import Asked, Named, Twins, event


def flags(*rows: tuple[int, int], ids: int = 0) -> list[dict[str, Any]]:
    return [event(ts, id=ids + i, flag=flag == 1) for i, (ts, flag) in enumerate(rows)]


def keep_all_and_emit(state: Any, ts: Any) -> Any:
    return state, 0, True


def test_a_run_that_is_too_short_for_a_frame_may_grow_while_it_ends_after_the_horizon() -> None:
    # ts     -1  0 0 0 0   2       flags    ·  ·  ·  ·  ×   ·
    twins = Twins([Asked("frames", ThresholdFrame(Named("flag"), 2)), Asked("q", Tumbling(1))], allowed_lateness=1)
    twins.process(flags((0, 0), (0, 0), (0, 0), (0, 1), (-1, 0), (2, 0)))
    twins.advance(2)
    twins.process(flags((0, 0), ids=6)).advance(0)
    twins.finish()


def test_a_run_of_a_frame_does_not_grow_by_what_it_refused() -> None:
    # Only the tumbling window accepts 3; with it there would be a frame of two.
    twins = Twins([Asked("frames", ThresholdFrame(Named("flag"), 2)), Asked("q", Tumbling(100))])
    twins.process(flags((1, 0), (4, 1), (5, 0))).advance(5)
    twins.process(flags((3, 1), ids=3)).advance(5)
    twins.process(flags((5, 1), (6, 1), (7, 0), ids=4)).advance(8)
    twins.finish()


def test_a_window_that_keeps_events_keeps_none_that_it_refused() -> None:
    asked = [Asked("kept", NonDeterministic(keep_all_and_emit)), Asked("pairs", Tumbling(2, measure="count"))]
    twins = Twins([*asked, Asked("q", Tumbling(100), ("list",))])
    twins.process(flags((5, 0), (6, 0))).advance(6)
    twins.process(flags((1, 0), ids=2)).advance(6)
    twins.process(flags((7, 0), ids=3)).advance(8)
    twins.finish()


def test_windows_that_events_open_hold_none_that_were_refused() -> None:
    asked = [Asked("opened", SlideByTuple(3, 2)), Asked("other", SlideByTuple(6, 3)), Asked("q", Tumbling(50))]
    twins = Twins(asked, allowed_lateness=2)
    twins.process(flags((10, 0), (12, 0), (12, 0), (20, 0))).advance(20)
    twins.process(flags((12, 0), (17, 0), (9, 0), ids=4)).advance(20)
    twins.process(flags((20, 0), (21, 0), ids=7)).advance(30)
    twins.finish()


def test_a_session_that_grows_over_an_event_it_refused() -> None:
    # 50 is too late for the session; events near it come one after the other until they reach 50.
    twins = Twins([Asked("s", Session(5), ("list",)), Asked("q", Tumbling(1000), ("list",))])
    twins.process(flags((99, 0))).advance(100)
    twins.process(flags((80, 0), ids=1)).advance(100)
    for i, ts in enumerate((94, 89, 84, 79, 76)):
        twins.process(flags((ts, 0), ids=2 + i)).advance(100)
    twins.finish()


def test_the_last_n_at_an_edge_that_a_late_event_makes_one_hold_none_that_was_refused() -> None:
    # Before 8 there is only the event at -11; those at -1 make 0 an edge. The ones at -9 and -2 are too late for it.
    twins = Twins([Asked("last", LastN(5, 8), ("list",)), Asked("q", Tumbling(100), ("list",))], allowed_lateness=5)
    twins.process(flags((0, 0), (2, 0), (2, 0), (0, 0), (0, 0), (-11, 0))).advance(4)
    twins.process(flags((-1, 0), (5, 0), (8, 0), (-1, 0), (-2, 0), (-9, 0), ids=6)).advance(9)
    twins.finish()


def test_what_is_too_late_for_the_last_n_is_so_for_good() -> None:
    # The event at -24 makes -16 an edge, with all before it: a window that begins before the others. They had not
    # waited for what comes before -38.
    twins = Twins([Asked("last", LastN(5, 8), ("list",))], allowed_lateness=30)
    twins.process(flags((-30, 0), (-61, 0))).advance(1)
    twins.process(flags((-38, 0), (-8, 0), (-13, 0), (-14, 0), ids=2)).advance(6)
    twins.process(flags((-24, 0), ids=6)).advance(11)
    twins.process(flags((-40, 0), ids=7)).advance(16)
    twins.finish()
