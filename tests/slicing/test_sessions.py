"""Sessions among slices."""

from tests.slicing.test_general import Bench
from windlass.slicing import sessions
from windlass.slicing.slices import BASE


def test_a_closed_session_is_not_joined() -> None:
    # 0 was the end of a session [0, 3), which is closed at 100; an event at 2 begins one of its own
    bench = Bench([], gap=3, watermark=100)
    bench.take([(0, 0)])
    bench.take([(0, 2)])
    assert [part[:2] for part in bench.found()[0]] == [(0, 0), (2, 2)]
    s = bench.slices
    base = int(s.directory[0, BASE])
    assert not sessions.linked(s.rows, base + 1, 3)
