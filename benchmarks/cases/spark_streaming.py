"""The same window on Spark as a stream: native Spark and Windlass, 2 and 10 million rows a micro-batch.

A sliding window of 60 s every second, sums, 100 keys, 1000 events a second; all that there is, in micro-batches
(`availableNow`), with the start of the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import spark
from benchmarks.cases import Scale
from benchmarks.cases.spark_sliding import FRAME, NATIVE, PARQUET, rows_of
from benchmarks.cases.spark_sliding import draw as draw
from benchmarks.cases.spark_sliding import findings as findings
from benchmarks.cases.spark_sliding import tables as tables
from benchmarks.results import Row
from benchmarks.spark import Events, Periodic, Race, shared, streaming

TITLE = "Spark: one sliding window, 60 s every second, as a stream"


def run(scale: Scale) -> Iterator[Row]:
    events = Events.of(scale.pick(20_000_000, 200_000), 100, scale.seed)
    window = Periodic(60, 1)
    scale.say("2 and 10 files a micro-batch, in turn")
    yield from rows_of(
        scale,
        *(
            Race(
                f"stream, {events.rows // spark.FILES * files:,} rows a micro-batch",
                events,
                lambda e, files=files: {
                    NATIVE: streaming(e.rows, lambda: window.native(e.stream(files))),
                    FRAME: streaming(e.rows, lambda: shared(e.stream(files), [window])),
                    PARQUET: streaming(e.rows, lambda: shared(e.parquet_stream(files), [window])),
                },
            )
            for files in (2, 10)
        ),
    )


__all__: list[Any] = ["TITLE", "draw", "findings", "run", "tables"]
