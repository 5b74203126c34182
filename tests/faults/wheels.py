"""Calls of wheels that may be interrupted anywhere. What must come out is computed from lists of events."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from faults.injection import Case
from faults.scratch import directory
from faults.stores import plus

from windlass import Wheel, agg
from windlass.errors import CorruptSnapshot

WATERMARK = 20
BEFORE = [(t, t % 7 + 1) for t in range(3, 40)]  # times and values: beyond the watermark they wait
NEWS = [(25, 10), (19, 20), (21, 30), (500, 40), (10**6, 50)]  # one is late, two are far ahead


def wheel(interpreted: bool = False, keyed: bool = False, windows: bool = False) -> Wheel:
    made = Wheel(plus() if interpreted else agg.sum(), 0, tick=1, unit="s", write_ahead=16, keys=keyed, dtype=np.int64)
    if windows:
        made.window(10, 4)
        made.session(5)
    times, values = columns(BEFORE)
    made.insert_many(values, times, [key(t) for t in times.tolist()] if keyed else None)
    made.advance_to(WATERMARK)
    made.place = directory()  # type: ignore[attr-defined]  # where it may be saved
    return made


def columns(events: list[tuple[int, int]]) -> tuple[Any, Any]:
    return np.array([t for t, _ in events], np.int64), np.array([v for _, v in events], np.int64)


def key(t: int) -> str:
    return "even" if t % 2 == 0 else "odd"


# ---------------------------------------------------------------------- what a wheel holds, and what it should


def slots(made: Wheel) -> Any:
    """Watermark, late events and all slots with events, also those that are not complete yet: a wheel merged with an
    empty one is a copy that can be advanced."""
    empty = made._like(0)
    whole = empty.merge(made) if made.watermark == 0 else _ahead(made)
    whole.advance_to(10**6 + 1)
    near = whole.range(0, 600)
    found = {t: v for t, v in zip(near["start"].to_pylist(), near[2].to_pylist(), strict=True) if v is not None}
    far = whole.query(600, 10**6 + 1)
    return made.watermark, made.late, found | ({10**6: far} if far is not None else {})


def _ahead(made: Wheel) -> Wheel:
    empty = made._like(0)
    empty.advance_to(made.watermark)
    return empty.merge(made)


def held(events: list[tuple[int, int]], watermark: int, late: int = 0) -> Any:
    found: dict[int, int] = {}
    for t, v in events:
        found[t] = found.get(t, 0) + v
    return watermark, late, found


def windows_until(to: int) -> list[tuple[str, int, int, int]]:
    """Windows of 10 every 4, and sessions with a gap of 5, which end after the watermark and up to a time."""
    events = [(t, v) for t, v in BEFORE]
    found = []
    for start in range(-8, to, 4):
        inside = [v for t, v in events if start <= t < start + 10]
        if inside and WATERMARK < start + 10 <= to:
            found.append(("10/4", start, start + 10, sum(inside)))
    return found


def rows(due: Any) -> list[tuple[str, int, int, int]]:
    return sorted(tuple(row)[:4] for row in due)


# ---------------------------------------------------------------------- the cases

REFUSED = (
    *(lambda w: w.query(0, 5), lambda w: w.by_key(0, 5) if w.keys is not None else w.query_many([0], [5])),
    *(lambda w: w.range(0, 5), lambda w: w.save(directory()), lambda w: w.merge(w._like(0))),
    *(lambda w: w.insert_many(*columns([])), lambda w: w.session(9, label="never"), copy.copy, copy.deepcopy),
)
ALLOWED = (repr, lambda w: (w.watermark, w.start, w.late, w.mode), lambda w: w.reader().query(0, WATERMARK))


def case(
    name: str,
    call: Callable[[Any], Any],
    value: Any,
    after: Any,
    make: Callable[[], Any] = wheel,
    read: Callable[[Any], Any] = slots,
    shown: Callable[[Any], Any] = lambda value: value,
) -> Case:
    def restore(broken: Wheel, saved: Any) -> Wheel:
        return make()

    allowed = ALLOWED if make().keys is None else ALLOWED[:2]
    refused = REFUSED if make().keys is None else (*REFUSED[:5], *REFUSED[6:])
    return Case(
        name=f"Wheel.{name}",
        make=make,
        call=call,
        read=read,
        expected=lambda: (value, after),
        restore=restore,
        shown=shown,
        refused=tuple(refused),
        allowed=allowed,
    )


def inserted(made: Wheel) -> bool:
    return made.insert(10, 25)


def inserted_many(made: Wheel) -> list[int]:
    times, values = columns(NEWS)
    return made.insert_many(values, times).tolist()


def ingested(made: Wheel) -> list[int]:
    """After two events the watermark is at the latest time that was ever seen, 39."""
    times, values = columns([(25, 10), (19, 20), (21, 30), (30, 1), (28, 2)])
    return made.ingest(values, times, every=2, delay=0).late.tolist()


def advanced(made: Wheel) -> Any:
    return made.advance_to(36)


def advanced_far(made: Wheel) -> Any:
    return made.advance_to(100_000)


def sessions(due: Any) -> list[tuple[str, int, int, int]]:
    return [row for row in rows(due) if row[0] == "session 5"]


def inserted_with_keys(made: Wheel) -> list[int]:
    return made.insert_many([10, 20, 30], [25, 26, 27], ["new", "even", "other"]).tolist()


def by_key(made: Wheel) -> Any:
    copied = _ahead(made)
    copied.advance_to(100)
    found = copied.by_key(0, 100)
    return dict(zip(found["key"].to_pylist(), found[1].to_pylist(), strict=True))


def keyed_sums() -> dict[str, int]:
    sums = {name: sum(v for t, v in BEFORE if key(t) == name) for name in ("odd", "even")}
    return sums | {"new": 10, "even": sums["even"] + 20, "other": 30}


def place(made: Wheel) -> Path:
    """A directory for one wheel in one child."""
    return Path(made.place) / str(os.getpid())  # type: ignore[attr-defined]


def on_disk(made: Wheel) -> Any:
    try:
        return slots(Wheel.open(place(made), made.aggregate))
    except CorruptSnapshot:
        return None


def shared(made: Wheel) -> Any:
    """What another process reads. A wheel that is not shared has no files, or files without a state."""
    if made._publisher is None:
        return None
    return Wheel.attach(place(made), made.aggregate).query(0, WATERMARK)


def labels(made: Wheel) -> list[str]:
    return [window.label for window in made._windows]


def other() -> Wheel:
    made = Wheel(agg.sum(), 0, tick=1, unit="s", write_ahead=16, dtype=np.int64)
    made.insert_many([5, 6], [2, 30])
    made.advance_to(25)
    return made


def with_windows() -> Wheel:
    return wheel(windows=True)


def interpreted() -> Wheel:
    return wheel(interpreted=True)


late_one = [event for event in NEWS if event[0] != 19]
CASES = [
    case("insert", inserted, True, held([*BEFORE, (25, 10)], WATERMARK)),
    case("insert, late,", lambda w: w.insert(10, 5), False, held(BEFORE, WATERMARK, 1)),
    case("insert_many of new keys", inserted_with_keys, [], keyed_sums(), lambda: wheel(keyed=True), by_key),
    case("insert_many", inserted_many, [1], held([*BEFORE, *late_one], WATERMARK, 1)),
    case("insert_many, interpreted,", inserted_many, [1], held([*BEFORE, *late_one], WATERMARK, 1), interpreted),
    case("ingest", ingested, [1, 2, 3, 4], held([*BEFORE, (25, 10)], 39, 4)),
    case("advance_to", advanced, windows_until(36), held(BEFORE, 36), with_windows, shown=rows),
    case(
        "advance_to over a quiet time",
        advanced_far,
        [("session 5", 3, 44, sum(v for _, v in BEFORE))],
        held(BEFORE, 100_000),
        with_windows,
        shown=sessions,
    ),
    case("advance_to, interpreted,", advanced, [], held(BEFORE, 36), interpreted, shown=rows),
    case("window", lambda w: w.window(12, 4), "12/4", ["12/4"], read=labels),
    case("session", lambda w: w.session(12), "session 12", ["session 12"], read=labels),
    case("query", lambda w: w.query(5, 15), sum(v for t, v in BEFORE if 5 <= t < 15), held(BEFORE, WATERMARK)),
    case(
        "merge",
        lambda w: w.merge(other()),
        held([*BEFORE, (2, 5), (30, 6)], WATERMARK),
        held(BEFORE, WATERMARK),
        shown=slots,
    ),
    case("share", lambda w: w.share(place(w)), None, sum(v for t, v in BEFORE if t < WATERMARK), read=shared),
    case("save", lambda w: w.save(place(w)), 0, held(BEFORE, WATERMARK), read=on_disk),
]
