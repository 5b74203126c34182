"""Many windows at once on Spark, and native Spark's best case: twenty windows in one pass, and one tumbling window.

100 keys, 1000 events a second, sums, in batch. The twenty: tumbling 10 to 600 s, sliding 20 s every 10 to 3600 s every
600. Native Spark runs one aggregation for each, one after the other. One of them is there alone, too, and as what its
reader sees of all twenty (`results_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.cases import Scale, Table
from benchmarks.cases.spark_sliding import FRAME, PARQUET, each_way, rows_of
from benchmarks.cases.spark_sliding import draw as draw
from benchmarks.cases.spark_sliding import findings as findings_of
from benchmarks.cases.spark_sliding import tables as tables_of
from benchmarks.results import Row
from benchmarks.spark import Events, Periodic, Race, batch, shared
from windlass.spark import results_of

TITLE = "Spark: twenty windows at once, and one tumbling window"

TUMBLING = (10, 20, 30, 60, 120, 300, 600)
SLIDING = (
    (20, 10), (30, 10), (60, 10), (60, 20), (60, 30), (120, 10), (120, 60), (300, 10), (300, 60), (600, 60), (900, 60),
    (1800, 300), (3600, 600),
)  # fmt: skip
TWENTY = tuple(Periodic(size, size) for size in TUMBLING) + tuple(Periodic(*pair) for pair in SLIDING)
ONE = Periodic(60, 10)
_ALL, _ONE = "twenty windows", "60 s every 10 s"


def run(scale: Scale) -> Iterator[Row]:
    events = Events.of(scale.pick(20_000_000, 200_000), 100, scale.seed)
    scale.say("twenty windows, and one of them alone, in turn")
    yield from rows_of(
        scale,
        Race(
            _ALL,
            events,
            lambda e: {
                "native, one by one": batch(e.rows, *((lambda w=w: w.native(e.frame())) for w in TWENTY)),
                FRAME: batch(e.rows, lambda: shared(e.frame(), TWENTY)),
                PARQUET: batch(e.rows, lambda: shared(e.parquet(), TWENTY)),
            },
        ),
        Race(
            _ONE,
            events,
            lambda e: (
                each_way(e, ONE)
                | {
                    f"{PARQUET}, of all twenty": batch(
                        e.rows, lambda: results_of(shared(e.parquet(), TWENTY), ONE.name)
                    )
                }
            ),
        ),
    )
    scale.say("one tumbling window")
    yield from rows_of(scale, Race("tumbling 10 s", events, lambda e: each_way(e, Periodic(10, 10))))


def tables(rows: list[Row]) -> list[Table]:
    return tables_of(rows)


def findings(rows: list[Row]) -> list[str]:
    took = {(r["kind"], r["technique"]): r["seconds"] for r in rows}
    ratios = [f"{way} {took[_ALL, way] / took[_ONE, way]:.3g}" for way in (FRAME, PARQUET)]
    return [*findings_of(rows), f"twenty windows, times the one of {_ONE} alone: {', '.join(ratios)}"]


__all__: list[Any] = ["TITLE", "draw", "findings", "run", "tables"]
