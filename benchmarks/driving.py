"""Driving a whole stream through the operator or a baseline, and racing several of them.

A course is one entrant: how to make a new operator, and the batches. A lap feeds it batch by batch and reads every
result. The first batch is timed apart: on the first lap it compiles, or loads what was compiled. Laps are cut to the
batches that fit into the first lap's patience, so slow entrants see less of the stream, never another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

import windlass
from benchmarks.baselines import BASELINES, Answers, Windows
from benchmarks.measure import no_collection
from benchmarks.results import Row
from benchmarks.streams import BATCH, SECOND, Stream
from windlass.aggregates.aggregate import Aggregate

OPERATOR = "Windlass"


@dataclass
class Course:
    """`make()` gives a function that takes a batch and returns how many results it read."""

    make: Callable[[], Callable[[Any], int]]
    batches: Sequence[Any]
    events: Callable[[Any], int]
    patience: float = 1.0
    times: list[float] = field(default_factory=list)
    first_batch: float = 0.0
    results: int = 0
    reading: list[float] = field(default_factory=list)  # for each batch since the first lap began, of the operator

    def lap(self) -> None:
        feed = self.make()
        start = time.perf_counter()
        results = feed(self.batches[0])
        first = time.perf_counter()
        for fed, batch in enumerate(self.batches[1:], 2):
            results += feed(batch)
            if not self.first_batch and time.perf_counter() - first > self.patience:
                self.batches = self.batches[:fed]
                break
        if not self.first_batch:
            self.first_batch, self.results = first - start, results
        else:
            self.times.append(time.perf_counter() - first)

    @property
    def rounds(self) -> int:
        """Events after the first batch."""
        return sum(self.events(batch) for batch in self.batches[1:])

    @property
    def rate(self) -> float:
        """Events a second after the first batch, by the median lap."""
        return self.rounds / median(self.times)


def race(courses: dict[str, Course], repetitions: int = 3) -> None:
    """The entrants in turn, each repetition starting with another one, as in `measure.race`."""
    with no_collection():
        names = list(courses)
        for name in names:
            courses[name].lap()
        for repetition in range(repetitions):
            turn = repetition % len(names)
            for name in names[turn:] + names[:turn]:
                courses[name].lap()


def rows(courses: dict[str, Course], **labels: Any) -> Iterable[Row]:
    for name, course in courses.items():
        yield {
            **labels,
            "technique": name,
            "events": course.rounds,
            "results": course.results,
            "events_per_second": round(course.rate),
            "seconds": [round(t, 5) for t in course.times],
            "first_batch_seconds": round(course.first_batch, 4),
            "reading_seconds": round(sum(course.reading) / (len(course.times) + 1), 5),
        }


def queries(windows: Windows, *aggregates: Aggregate) -> list[Any]:
    """The baselines' windows as queries of the operator, of the same numbers."""
    found = []
    for k, (size, slide) in enumerate((p.size, p.slide) for p in windows.periodic):
        window = (
            windlass.Tumbling(size, measure=windows.measure)
            if size == slide
            else windlass.Sliding(size, slide, measure=windows.measure)
        )
        found.append(windlass.Query(f"q{k}", window, *aggregates))
    if windows.gap is not None:
        found.append(windlass.Query(f"q{len(found)}", windlass.Session(windows.gap), *aggregates))
    return found


def operator(asked: list[Any], *, delay: int | None = None, every: int = SECOND, **options: Any) -> Any:
    """In order, or with watermarks that lag by `delay` and rise each `every` of event time."""
    if delay is None:
        return windlass.Operator(asked, time="ts", order="in-order", **options)
    return windlass.Operator(asked, time="ts", watermarks=windlass.Watermarks(delay=delay, every=every), **options)


def operator_course(
    stream: Stream, asked: list[Any], *, size: int = BATCH, patience: float = 1.0, **options: Any
) -> Course:
    reading: list[float] = []

    def make() -> Callable[[Any], int]:
        op = operator(asked, **options)

        def feed(batch: Any) -> int:
            op.process(batch)
            results = op.advance()
            start = time.perf_counter()
            number = read(results)
            reading.append(time.perf_counter() - start)
            return number

        return feed

    return Course(make, stream.batches(size), len, patience, reading=reading)


def read(results: Any) -> int:
    """Have every result in Arrow tables, one for each set of queries with the same aggregates; how many there are."""
    return sum(table.num_rows for table in results.tables())


def tables_of(results: Any) -> dict[str, Any]:
    """The per-query tables that have rows."""
    return {name: results[name] for name in results.queries}


def baseline_course(
    name: str,
    stream: Stream,
    windows: Any,
    aggregate: Aggregate,
    *,
    size: int = BATCH,
    patience: float = 1.0,
    extra: Sequence[str] = (),
    **options: Any,
) -> Course:
    """`windows`: or a function that makes a schedule anew. `extra`: further columns that the schedule reads."""

    def make() -> Callable[[Any], int]:
        baseline = BASELINES[name](windows() if callable(windows) else windows, aggregate, **options)
        return lambda batch: len(baseline.process(*batch))

    columns = [stream.ts, stream.value, *(stream.columns[name] for name in extra)]
    batches = [tuple(c[start : start + size] for c in columns) for start in range(0, len(stream), size)]
    return Course(make, batches, lambda batch: len(batch[0]), patience)


def operator_rows(stream: Stream, asked: list[Any], *, size: int = BATCH, **options: Any) -> list[tuple[Any, ...]]:
    """All results, sorted: (number of the query, start, end, value)."""
    op = operator(asked, **options)
    found: list[tuple[Any, ...]] = []
    for batch in stream.batches(size):
        op.process(batch)
        found += _rows(op.advance())
    return sorted(found + _rows(op.finish()))


def baseline_rows(
    name: str, stream: Stream, windows: Any, aggregate: Aggregate, *, size: int = BATCH, **options: Any
) -> list[tuple[Any, ...]]:
    baseline = BASELINES[name](windows, aggregate, **options)
    answers: list[Answers] = [baseline.process(*batch) for batch in stream.arrays(size)]
    return sorted(row for answer in [*answers, baseline.finish()] for row in answer.rows())


def _rows(results: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for name, table in tables_of(results).items():
        measured = "low" in table.column_names
        window = table["window"].combine_chunks()
        low, high = (table["low"], table["high"]) if measured else (window.field("start"), window.field("end"))
        values = [v if not isinstance(v, dict) else tuple(v.values()) for v in table.columns[-1].to_pylist()]
        number = int(name[1:])
        for start, end, value in zip(low.to_pylist(), high.to_pylist(), values, strict=True):
            found.append((number, start, end, *(value if isinstance(value, tuple) else (value,))))
    return found


def agree(answers: dict[str, list[tuple[Any, ...]]]) -> None:
    """Everybody gives the same answers; checked before anything is timed."""
    (first, expected), *others = answers.items()
    assert expected, f"{first} gives no answer at all"
    for name, found in others:
        assert len(found) == len(expected), f"{name} gives {len(found)} answers, {first} {len(expected)}"
        for a, b in zip(found, expected, strict=True):
            assert a[:3] == b[:3] and np.allclose(a[3:], b[3:]), f"{name} gives {a}, {first} {b}"
