"""The oracle, pinned down by examples that a reader can check by hand.

Events are written as a letter and a time, "a3 b5"; a window as its bounds and its letters, "[0,10) ab". What follows:
"@[3,6)" the times it covers if its bounds are not times, "r1" its revision, "gone" a retraction. A capital letter is an
event that satisfies the condition of a punctuation or a frame.
"""

from __future__ import annotations

import re
from typing import Any

import oracle
import pytest
from oracle import (
    Asked,
    Band,
    Cumulate,
    Deterministic,
    Landmark,
    LastN,
    NonDeterministic,
    Punctuation,
    Query,
    Row,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    Stream,
    ThresholdFrame,
    Tumbling,
)


def capital(columns: Any) -> bool:
    return columns["x"].isupper()


def events(text: str) -> list[dict[str, Any]]:
    """The events of "a3 b-5"; "a3#7" has the sequence number 7, "a3=9" the measure 9, "k:a3" the key k."""
    found = []
    for word in text.split():
        match = re.fullmatch(r"(?:(\w+):)?(\w)(-?\d+)(?:#(\d+))?(?:=(-?\d+))?", word)
        assert match, word
        key, x, ts, seq, measure = match.groups()
        found.append({"ts": int(ts), "x": x, "k": key, "seq": int(seq or 0), "km": int(measure or 0)})
    return found


def say(row: Row) -> str:
    text = f"[{row.low},{row.high}){f'#{row.ordinal}' * (row.ordinal > 0)} {''.join(row.values[0])}"
    if (row.low, row.high) != (row.start, row.end):
        text += f" @[{row.start},{row.end})"
    text += f" r{row.revision}" if row.revision else ""
    text += " gone" if row.retraction else ""
    return text if row.key in ((), (None,)) else f"{row.key[0]}: {text}"


class Told:
    """A stream with one query, which speaks in text."""

    def __init__(self, window: Any, lateness: int = 0, *, keyed: bool = False, sequence: bool = False, **options: Any):
        query = Query("q", window, (Asked(oracle.collect_list, ("x",)),), **options)
        key, seq = (("k",) if keyed else ()), ("seq" if sequence else None)
        self.stream = Stream([query], key=key, sequence=seq, allowed_lateness=lateness)

    def process(self, text: str) -> Told:
        self.stream.process(events(text))
        return self

    def advance(self, w: int) -> list[str]:
        return [say(row) for row in self.stream.advance(w)]

    def finish(self, partial: bool = False) -> list[str]:
        return [say(row) for row in self.stream.finish(partial)]

    def late(self) -> str:
        return " ".join(f"{row['x']}{row['ts']}" for row in self.stream.late())


def found(window: Any, text: str, **options: Any) -> list[str]:
    """All windows of a whole stream."""
    partial = options.pop("partial", False)
    return Told(window, **options).process(text).finish(partial)


# --------------------------------------------------------------------------- fixed edges on time


def test_tumbling() -> None:
    #   a  b         c             d
    # --1--9|-------15-|---------|-30-------|
    #       10         20        30         40         the window [20, 30) is empty
    assert found(Tumbling(10), "a1 b9 c15 d30") == ["[0,10) ab", "[10,20) c", "[30,40) d"]
    assert found(Tumbling(10, offset=5), "a1 b9 c15") == ["[-5,5) a", "[5,15) b", "[15,25) c"]
    assert found(Tumbling(10), "a-1 b-10 c-11") == ["[-20,-10) c", "[-10,0) ba"]


def test_sliding_where_the_slide_does_not_divide_the_length() -> None:
    #      a     b      c
    # -----5-----10-----15
    # |----------|            [0, 10)
    #    |----------|         [3, 13)
    #        |----------|     [6, 16)     and those before and after
    assert found(Sliding(10, 3), "a5 b10 c15") == [
        "[-3,7) a",
        "[0,10) a",
        "[3,13) ab",
        "[6,16) bc",
        "[9,19) bc",
        "[12,22) c",
        "[15,25) c",
    ]


def test_band_cumulate_landmark() -> None:
    # a   b     c    d
    # 1   4     10   14           a Band from 4 of size 10 holds its start and not its end
    assert found(Band(4, 10), "a1 b4 c10 d14") == ["[4,14) bc"]
    assert found(Cumulate(5, 15), "a1 b7 c16") == [
        "[0,5) a",
        "[0,10) ab",
        "[0,15) ab",
        "[15,20) c",
        "[15,25) c",
        "[15,30) c",
    ]
    # |--a-|----|--b-|-c--| ...   a landmark's window without an event in its last slide does not come out
    assert found(Landmark(10, 5), "z9 a11 b21 c25") == ["[10,15) a", "[10,25) ab", "[10,30) abc"]


def test_a_window_comes_out_once_when_the_watermark_reaches_its_end() -> None:
    told = Told(Tumbling(10)).process("a1 b9 c10")
    assert told.advance(9) == []
    assert told.advance(10) == ["[0,10) ab"]
    assert told.advance(10) == []
    assert told.advance(5) == []  # it never goes back
    assert told.process("d10").advance(20) == ["[10,20) cd"]
    assert told.finish() == []


def test_a_watermark_before_any_event() -> None:
    told = Told(Tumbling(10))
    assert told.advance(15) == []
    assert told.process("a12 b16 c9").advance(20) == ["[10,20) ab"]
    assert told.late() == "c9"


def test_empty_windows() -> None:
    #      a                  b
    # |----5----|---------|---21----|           from the first window with an event to the watermark
    told = Told(Tumbling(10), emit_empty=True).process("a5 b21")
    assert told.advance(20) == ["[0,10) a", "[10,20) "]
    assert told.advance(45) == ["[20,30) b", "[30,40) "]
    assert told.finish() == []
    # The last window starts at or before the last event.
    assert found(Tumbling(10), "a5 b30", emit_empty=True) == ["[0,10) a", "[30,40) b", "[10,20) ", "[20,30) "]
    assert found(Sliding(4, 2), "a5 b12", emit_empty=True)[-1:] == ["[8,12) "]
    assert found(Cumulate(5, 15), "a7", emit_empty=True) == ["[0,10) a", "[0,15) a", "[0,5) "]
    assert found(Band(0, 5), "a7", emit_empty=True) == []


def test_an_empty_window_is_corrected() -> None:
    told = Told(Tumbling(10), lateness=20, emit_empty=True).process("a5 b21")
    assert told.advance(20) == ["[0,10) a", "[10,20) "]
    assert told.process("c12").advance(20) == ["[10,20) c r1"]


# --------------------------------------------------------------------------- late events, fixed edges


def test_a_late_event_corrects_what_is_not_closed() -> None:
    #    c    a        b          w = 20, lateness 5: [0, 10) is closed, [10, 20) is not
    # |--3----5-|----12--|--------
    told = Told(Tumbling(10), lateness=5).process("a5 b12")
    assert told.advance(20) == ["[0,10) a", "[10,20) b"]
    told.process("c3 d11")  # c: its window ended at 10 <= 15; d: older than 15, but its window ends at 20
    assert told.late() == "c3"
    assert told.advance(20) == ["[10,20) db r1"]
    assert told.advance(25) == []
    assert told.process("e19").late() == "e19"  # now [10, 20) is closed as well


def test_without_lateness_every_event_before_the_watermark_is_expired_where_windows_do_not_overlap_it() -> None:
    told = Told(Tumbling(10)).process("a5")
    assert told.advance(7) == []
    assert told.process("b6").advance(10) == ["[0,10) ab"]  # late, but its window is not complete
    assert told.process("c9").late() == "c9"


def test_a_late_event_is_only_seen_by_the_windows_that_are_not_closed() -> None:
    #           late x
    # |----5----15---20              [10, 20) is closed, [15, 25) is not
    told = Told(Sliding(10, 5)).process("a5")
    assert told.advance(21) == ["[0,10) a", "[5,15) a"]
    assert told.process("x15").advance(25) == ["[15,25) x"]
    assert told.late() == ""


def test_a_late_event_in_a_past_window_that_was_empty() -> None:
    told = Told(Tumbling(10), lateness=100).process("a1 b31")
    assert told.advance(30) == ["[0,10) a"]
    assert told.process("c15").advance(30) == ["[10,20) c"]


def test_a_late_event_of_a_landmark_is_always_accepted() -> None:
    told = Told(Landmark(0, 10)).process("a1 b11")
    assert told.advance(20) == ["[0,10) a", "[0,20) ab"]
    assert told.process("c2 z-1 d25").advance(30) == ["[0,30) acbd"]
    assert told.late() == "z-1"


# --------------------------------------------------------------------------- sessions


def test_sessions() -> None:
    # a  b     c      d       gap 3: b is at distance 3 of a and joins, c is not
    # 0  3     7      20
    assert found(Session(3), "a0 b3 c7 d20") == ["[0,6) ab", "[7,10) c", "[20,23) d"]


def test_a_session_is_complete_after_its_end_because_an_event_at_its_end_joins() -> None:
    told = Told(Session(3)).process("a0")
    assert told.advance(3) == []
    assert told.process("b3").advance(4) == []
    assert told.advance(7) == ["[0,6) ab"]


def test_a_late_event_merges_two_sessions() -> None:
    # a     b               a     b
    # 0--|  5--|      ->    0--c--5--|
    told = Told(Session(3), lateness=10).process("a0 b5")
    assert told.advance(9) == ["[0,3) a", "[5,8) b"]
    assert told.process("c3").advance(9) == ["[0,8) acb", "[0,3) a r1 gone", "[5,8) b r1 gone"]
    assert told.advance(30) == []


def test_a_late_event_inside_an_emitted_session() -> None:
    told = Told(Session(3), lateness=10).process("a0 b3")
    assert told.advance(9) == ["[0,6) ab"]
    assert told.process("c1").advance(9) == ["[0,6) acb r1"]


def test_a_closed_session_takes_no_part_in_anything() -> None:
    # [0, 3) is closed at w = 4. c at 1 would make [1, 4), which is complete only after 4, and does not join a.
    told = Told(Session(3)).process("a0")
    assert told.advance(4) == ["[0,3) a"]
    assert told.process("c1").advance(5) == ["[1,4) c"]
    assert told.process("d1").late() == "d1"


def test_a_late_event_joins_a_session_that_is_not_closed() -> None:
    #  x     a    b  c       gap 5, w = 16: x alone would be [2, 7), closed; but it is within 5 of a
    #  2     6    11 14
    told = Told(Session(5)).process("a6 b11 c14")
    assert told.advance(16) == []
    assert told.process("x2 y0").late() == "y0"
    assert told.advance(20) == ["[2,19) xabc"]


# --------------------------------------------------------------------------- counts and other measures


def test_count_windows_with_equal_times() -> None:
    # a b c | d e f | g       position by time, then by arrival
    # 1 5 5   5 6 6   9
    told = Told(Tumbling(3, measure="count")).process("a1 f6 b5 c5 d5 e6")
    assert told.advance(5) == ["[0,3) abc @[1,6)"]
    assert told.advance(6) == ["[3,6) dfe @[5,7)"]
    assert told.process("g9").finish() == []
    assert found(Tumbling(3, measure="count"), "a1 b2 c3 d4", partial=True) == ["[0,3) abc @[1,4)", "[3,6) d @[4,5)"]


def test_count_windows_begin_with_an_event() -> None:
    # a b c d e        [-2, 2) is none
    # |-----|
    #     |-----| ...
    assert found(Sliding(4, 2, measure="count"), "a1 b2 c3 d4 e5 f6") == ["[0,4) abcd @[1,5)", "[2,6) cdef @[3,7)"]
    assert found(Band(1, 2, measure="count"), "a1 b2 c3 d4") == ["[1,3) bc @[2,4)"]
    assert found(Landmark(1, 2, measure="count"), "a1 b2 c3 d4 e5") == ["[1,3) bc @[2,4)", "[1,5) bcde @[2,6)"]
    assert found(Cumulate(1, 2, measure="count"), "a1 b2 c3") == ["[0,1) a @[1,2)", "[0,2) ab @[1,3)", "[2,3) c @[3,4)"]


def test_a_late_event_shifts_count_windows() -> None:
    # a b | c d | e        a x | b c | d e
    # 1 3   5 7   9        1 2   3 5   7 9
    told = Told(Tumbling(2, measure="count"), lateness=100).process("a1 b3 c5 d7 e9")
    assert told.advance(9) == ["[0,2) ab @[1,4)", "[2,4) cd @[5,8)"]
    assert told.process("x2").advance(9) == ["[0,2) ax @[1,3) r1", "[2,4) bc @[3,6) r1", "[4,6) de @[7,10)"]


def test_a_late_event_before_the_first_count_window_that_is_not_closed_is_expired() -> None:
    # a b | c          [0, 2) is closed; c has begun [2, 4)
    # 1 3   5          x after c in order is accepted although it is late
    told = Told(Tumbling(2, measure="count")).process("a1 b3 c5")
    assert told.advance(9) == ["[0,2) ab @[1,4)"]
    assert told.process("x4 y5").late() == "x4"
    assert told.advance(9) == ["[2,4) cy @[5,6)"]


def test_a_measure_of_ones_own() -> None:
    # km   2   8   12  25         complete when an event has reached the end
    # ts   1   2   7   9
    told = Told(Tumbling(10, measure="km")).process("a1=2 b2=8 c7=12")
    assert told.advance(6) == []
    assert told.advance(7) == ["[0,10) ab @[1,3)"]
    assert told.process("d9=25").advance(9) == ["[10,20) c @[7,8)"]
    assert told.finish() == []
    assert found(Sliding(10, 5, measure="km"), "a1=7 b2=21") == ["[0,10) a @[1,2)", "[5,15) a @[1,2)"]
    assert found(Landmark(0, 10, measure="km"), "a1=7 b2=21 c3=30", partial=True) == [
        "[0,10) a @[1,2)",
        "[0,30) ab @[1,3)",
        "[0,40) abc @[1,4)",
    ]


def test_a_late_event_on_a_measure() -> None:
    told = Told(Tumbling(10, measure="km"), lateness=5).process("a1=2 c7=12 d9=25")
    assert told.advance(10) == ["[0,10) a @[1,2)", "[10,20) c @[7,8)"]
    assert told.process("x3=5 y6=11").late() == "x3"  # [0, 10) covers [1, 2): closed at 10 - 5
    assert told.advance(10) == ["[10,20) yc @[6,8) r1"]


# --------------------------------------------------------------------------- punctuations and frames


def test_punctuations() -> None:
    # a b | C d | E        a punctuation belongs to the window that it begins
    # 1 2   4 5   7
    told = Told(Punctuation(capital)).process("a1 b2 C4 d5 E7")
    assert told.advance(3) == []
    assert told.advance(4) == ["[1,4) ab"]
    assert told.finish() == ["[4,7) Cd"]
    assert found(Punctuation(capital), "A1 b2", partial=True) == ["[1,3) Ab"]
    assert found(Punctuation(capital), "A5 B5 C5") == ["[5,5) A", "[5,5)#1 B"]


def test_a_late_punctuation_divides_a_window() -> None:
    told = Told(Punctuation(capital), lateness=10).process("a1 b4 C6")
    assert told.advance(8) == ["[1,6) ab"]
    assert told.process("X3").advance(8) == ["[1,3) a", "[3,6) Xb", "[1,6) ab r1 gone"]


def test_a_late_punctuation_in_the_open_window_is_accepted() -> None:
    told = Told(Punctuation(capital)).process("A1 b4")
    assert told.advance(8) == []
    assert told.process("X3 y0").late() == "y0"
    assert told.advance(8) == ["[1,3) A"]
    assert told.process("Z9").advance(9) == ["[3,9) Xb"]


def test_a_punctuation_at_the_watermark_is_not_late() -> None:
    told = Told(Punctuation(capital)).process("A1 b4")
    assert told.advance(8) == []
    assert told.process("X8").advance(8) == ["[1,8) Ab"]
    assert told.process("Y8").advance(8) == ["[8,8) X"]


def test_a_late_punctuation_puts_a_window_in_front_of_others_with_the_same_bounds() -> None:
    # B C D 5       sequence 1 3 5, then late 2: the windows of C and D have a new content, and there is one more
    told = Told(Punctuation(capital), lateness=9, sequence=True).process("A4#0 B5#1 C5#3 D5#5 E6#0")
    assert told.advance(6) == ["[4,5) A", "[5,5) B", "[5,5)#1 C", "[5,6) D"]
    assert told.process("X5#2").advance(6) == ["[5,5)#1 X r1", "[5,5)#2 C"]


def test_a_closed_window_keeps_its_ordinal() -> None:
    told = Told(Punctuation(capital)).process("A5 B5 C5")
    assert told.advance(5) == ["[5,5) A", "[5,5)#1 B"]
    assert told.process("D5 E6").advance(6) == ["[5,5)#2 C", "[5,6) D"]


def test_a_run_that_is_too_short_is_closed_like_a_frame() -> None:
    # A B c 5       A alone is too short; it is closed by b at the horizon, and stays so though B comes in between
    told = Told(ThresholdFrame(capital, 2), sequence=True).process("A5#0 b5#5")
    assert told.advance(5) == []
    assert told.process("B5#2 C5#6 D5#7 e5#8").advance(6) == ["[5,5) CD"]


def test_frames() -> None:
    #   |---|    |--|
    # a B   C  d E    f       min_size 2: E alone is no frame
    # 1 2   4  5 6    7
    assert found(ThresholdFrame(capital), "a1 B2 C4 d5 E6 f7 G8") == ["[2,5) BC", "[6,7) E"]
    assert found(ThresholdFrame(capital, 2), "a1 B2 C4 d5 E6 f7 G8 H9", partial=True) == ["[2,5) BC", "[8,10) GH"]


def test_a_frame_that_was_too_short_grows() -> None:
    told = Told(ThresholdFrame(capital, 2), lateness=4).process("A-3 b2")
    assert told.advance(2) == []
    assert told.process("C0").advance(5) == ["[-3,2) AC"]


def test_a_late_event_cuts_a_frame() -> None:
    told = Told(ThresholdFrame(capital), lateness=100).process("A1 B2 C3 d4")
    assert told.advance(4) == ["[1,4) ABC"]
    assert told.process("x2").advance(4) == ["[1,2) AB", "[3,4) C", "[1,4) ABC r1 gone"]


# --------------------------------------------------------------------------- events as edges


def test_slide_by_tuple() -> None:
    # a   b   c   d  e        every second event opens [ts, ts + 4)
    # 1   3   4   4  8
    assert found(SlideByTuple(4, 2), "a1 b3 c4 d4 e8") == ["[1,5) abcd", "[4,8) cd", "[8,12) e"]
    # Equal bounds are one window.
    assert found(SlideByTuple(4), "a1 b1 c2") == ["[1,5) abc", "[2,6) c"]


def test_a_late_event_shifts_the_windows_after_it() -> None:
    told = Told(SlideByTuple(4, 2), lateness=100).process("a1 b3 c4 d6 e8")
    assert told.advance(8) == ["[1,5) abc", "[4,8) cd"]
    # a1 x2 b3 c4 d6 e8: the windows begin with a, b, d
    assert told.process("x2").advance(8) == ["[1,5) axbc r1", "[3,7) bcd", "[4,8) cd r1 gone"]


def test_last_n() -> None:
    #     a b c    |         |   d      |          edges 10, 20, 30; nothing new at 20
    #     1 2 9    10        20  25     30
    assert found(LastN(2, 10), "a1 b2 c9 d25") == ["[2,10) bc", "[9,30) cd"]
    assert found(LastN(9, 10), "a1 b10") == ["[1,10) a", "[1,20) ab"]


def test_a_late_event_among_the_last_n() -> None:
    told = Told(LastN(2, 10), lateness=100).process("a1 b2 c9 d25")
    assert told.advance(30) == ["[2,10) bc", "[9,30) cd"]
    assert told.process("x3 y15").advance(30) == [
        "[3,10) xc",
        "[9,20) cy",
        "[15,30) yd",
        "[2,10) bc r1 gone",
        "[9,30) cd r1 gone",
    ]


def test_closed_edges_stay_closed() -> None:
    told = Told(LastN(2, 10)).process("a1 b2 c3 d15")
    assert told.advance(16) == ["[2,10) bc"]
    assert told.process("x4 y2").late() == "y2"  # the open window holds c and d
    assert told.advance(20) == ["[4,20) xd"]


def test_snapshot() -> None:
    # a lives   1-------6
    # b lives       3-------8
    # edges     1   3   6   8
    assert found(Snapshot(5), "a1 b3") == ["[1,3) a", "[3,6) ab", "[6,8) b"]
    assert found(Snapshot(5), "a1 b6 c20 d20") == ["[1,6) a", "[6,11) b", "[20,25) cd"]


def test_a_late_event_cuts_a_snapshot() -> None:
    told = Told(Snapshot(5), lateness=100).process("a1")
    assert told.advance(6) == ["[1,6) a"]
    assert told.process("b3").advance(6) == ["[1,3) a", "[3,6) ab", "[1,6) a r1 gone"]
    assert told.advance(8) == ["[6,8) b"]


def test_an_event_at_the_watermark_cuts_a_snapshot() -> None:
    told = Told(Snapshot(5)).process("a1")
    assert told.advance(4) == []
    assert told.process("b4").advance(4) == ["[1,4) a"]
    assert told.advance(6) == ["[4,6) ab"]


# --------------------------------------------------------------------------- user-defined


def count_4_by_2(state: Any, ts: int) -> Any:
    """Cutty's own example (3.2): count windows of range 4 and slide 2, as begins and ends."""
    (k,) = state
    return (k + 1,), int(k % 2 == 0), int(k >= 4 and k % 2 == 0)


def test_deterministic() -> None:
    # a b c d e f g         |a b c d| ends before e, |c d e f| before g
    told = Told(Deterministic(count_4_by_2)).process("a1 b2 c3 d4 e5 f6 g7")
    assert told.advance(4) == []
    assert told.advance(5) == ["[1,5) abcd"]
    assert told.finish(partial=True) == ["[3,7) cdef", "[5,8) efg", "[7,8) g"]


def test_deterministic_windows_are_found_again_after_a_late_event() -> None:
    told = Told(Deterministic(count_4_by_2), lateness=100).process("a1 b2 c3 d4 e5")
    assert told.advance(5) == ["[1,5) abcd"]
    assert told.process("x2").advance(5) == ["[1,4) abxc", "[1,5) abcd r1 gone"]


def test_a_window_that_was_open_comes_out_even_if_a_late_event_ends_it_in_the_past() -> None:
    # a b c d e          |a b c d| is closed; |c d e … is open, and late x and y fill it
    # 1 1 2 3 6          1 1 2 x y 3 6: |c x y d| ends before e, where the closed window ended; |a b c d| stays
    told = Told(Deterministic(count_4_by_2)).process("a1 b1 c2 d3 e6")
    assert told.advance(6) == ["[1,6) abcd"]
    assert told.process("x2 y2 z1").late() == "z1"
    assert told.advance(6) == ["[2,6) cxyd"]


def last_3_on_demand(state: Any, ts: int, x: str) -> Any:
    """The last three events at each capital letter."""
    (kept,) = state
    evict = int(kept == 3)
    return (kept + 1 - evict,), evict, x.isupper()


def even(state: Any, ts: int, x: str) -> Any:
    """A window begins with every event, and the oldest ends before a capital that is even."""
    n = state[0] + 1
    return (n,), 1, int(x.isupper() and n % 2 == 0)


def test_a_closed_window_does_not_come_again() -> None:
    # a b c D       |a b c| ends before D, the fourth. With d3 that is the fifth: nothing ends before it
    told = Told(Deterministic(even, ("x",))).process("a0 b1 c2 D4")
    assert told.advance(5) == ["[0,4) abc"]
    assert told.process("d3").advance(5) == []
    assert told.process("F6").advance(6) == []  # |a b c d D|, which was closed
    assert told.process("g7 H8").advance(8) == ["[1,8) bcdDFg"]
    assert told.process("y0").late() == "y0"


def third_and_even(state: Any, ts: int, x: str) -> Any:
    n = state[0] + 1
    return (n,), int(n % 3 == 1), int(x.isupper() and n % 2 == 0)


def test_a_window_that_comes_back_goes_on_with_its_revisions() -> None:
    told = Told(Deterministic(third_and_even, ("x",)), lateness=3).process("A1 B3 C6 D8 e11 F14")
    assert told.advance(15) == ["[1,3) A", "[8,14) De"]
    assert told.process("G9").advance(17) == ["[8,14) De r1 gone"]
    assert told.process("h13").advance(21) == ["[8,14) DGeh r2"]


def two_at_once(state: Any, ts: int, x: str) -> Any:
    """Two windows begin with a capital, and one ends before a digit."""
    return state, 2 * x.isupper(), x.isdigit()


def test_windows_that_begin_with_one_event() -> None:
    told = Told(Deterministic(two_at_once, ("x",)), lateness=10).process("A1 B1 c2")
    assert told.process("13 23").advance(3) == ["[1,3) ABc", "[1,3)#1 ABc1"]
    assert told.process("33 44").advance(4) == ["[1,3)#2 Bc12", "[1,4) Bc123"]
    assert told.process("x2").advance(4) == [
        "[1,3) ABcx r1",
        "[1,3)#1 ABcx1 r1",
        "[1,3)#2 Bcx12 r1",
        "[1,4) Bcx123 r1",
    ]


def test_non_deterministic() -> None:
    # a b c D e F
    # 1 2 3 4 5 6
    window = NonDeterministic(last_3_on_demand, ("x",))
    assert found(window, "a1 b2 c3 D4 e5 F6") == ["[2,5) bcD", "[4,7) DeF"]
    assert found(window, "A1 b2", partial=True) == ["[1,2) A", "[1,3) Ab"]
    assert found(window, "A1", partial=True) == ["[1,2) A"]


def test_non_deterministic_evicts_everything() -> None:
    def drop(state: Any, ts: int) -> Any:
        return state, 5, True

    assert found(NonDeterministic(drop), "a1 b2") == []


# --------------------------------------------------------------------------- keys, filters, order


def test_keys_have_their_own_windows_and_null_is_a_key() -> None:
    rows = found(Tumbling(2, measure="count"), "p:a1 q:b2 p:c3 d4 e5", keyed=True)
    assert rows == ["p: [0,2) ac @[1,4)", "[0,2) de @[4,6)"]


def test_a_filter_hides_events_from_the_aggregates_but_not_from_the_windows() -> None:
    assert found(Tumbling(2, measure="count"), "a1 B2 c3 d4", where=capital) == ["[0,2) B @[1,3)", "[2,4)  @[3,5)"]
    told = Told(Tumbling(10), lateness=100, where=capital).process("A1")
    assert told.advance(10) == ["[0,10) A"]
    assert told.process("b2").advance(10) == ["[0,10) A r1"]  # its set of events changed


def test_a_sequence_column_orders_equal_times() -> None:
    told = Told(Tumbling(2, measure="count"), sequence=True).process("a5#3 b5#1 c5#2 d4#9")
    assert told.advance(5) == ["[0,2) db @[4,6)", "[2,4) ca @[5,6)"]
    # At the watermark an event may still come between others: it is late, but accepted.
    assert told.process("x5#0").advance(5) == ["[0,2) dx @[4,6) r1", "[2,4) bc @[5,6) r1"]
    assert told.stream.came_late == 1


def test_in_order() -> None:
    query = Query("q", Session(3), (Asked(oracle.count_events),))
    stream = Stream([query], in_order=True)
    assert stream.advance() == []
    stream.process(events("a1 b3 c7"))
    assert [row[2:4] for row in stream.advance()] == [(1, 6)]
    with pytest.raises(ValueError):
        stream.process(events("d6"))


@pytest.mark.parametrize("second", ["b1#2", "q:b1#2", "p:b0#5"])
def test_in_order_with_a_sequence(second: str) -> None:
    query = Query("q", Session(3), (Asked(oracle.count_events),))
    stream = Stream([query], key=("k",), sequence="seq", in_order=True)
    stream.process(events("p:a1#3 q:c1#3"))
    with pytest.raises(ValueError):
        stream.process(events(second))


def test_revisions_count_retractions_too() -> None:
    told = Told(Session(3), lateness=100).process("a0 b6")
    assert told.advance(20) == ["[0,3) a", "[6,9) b"]
    assert told.process("x3").advance(20) == ["[0,9) axb", "[0,3) a r1 gone", "[6,9) b r1 gone"]
    frames = Told(ThresholdFrame(capital), lateness=100, sequence=True).process("A1#1 b2#5")
    assert frames.advance(9) == ["[1,2) A"]
    assert frames.process("c1#0").advance(9) == []
    assert frames.process("d1#2").advance(9) == ["[1,1) A", "[1,2) A r1 gone"]


def test_each_query_judges_for_itself() -> None:
    counted = (Asked(oracle.count_events),)
    stream = Stream([Query("short", Tumbling(5), counted), Query("long", Tumbling(100), counted)])
    stream.process(events("a1"))
    stream.advance(50)
    stream.process(events("b2"))
    assert stream.late() == []  # the long window takes it
    assert [(row.query, row.values) for row in stream.finish()] == [("long", (2,))]


def test_an_added_query_starts_after_the_greatest_time_seen() -> None:
    told = Told(Tumbling(10)).process("a1 b12")
    told.stream.add(Query("new", Tumbling(5), (Asked(oracle.collect_list, ("x",)),)))
    told.process("c13 d14 e15 f21")
    rows = told.stream.finish()
    assert [say(row) for row in rows if row.query == "new"] == ["[15,20) e", "[20,25) f"]
