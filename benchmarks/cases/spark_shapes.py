"""How the shape of the data matters on Spark: the number of rows, of keys, one hot key, no key.

Sliding 60 s every 10 s. Rows: a stream of Parquet files, a million rows a micro-batch, with the bytes of state and of
the checkpoint; the first micro-batch, which starts the query, apart from the others. Keys: one million of them, beside
native Spark. Skew: 90 % of the rows have one key, or there is no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks import spark
from benchmarks.cases import Scale, Table
from benchmarks.cases.spark_sliding import FRAME, PARQUET, each_way, row_of, rows_of
from benchmarks.cases.spark_sliding import tables as tables_of
from benchmarks.results import Row
from benchmarks.spark import Events, Job, Periodic, Race, batch, compare, shared, streaming

TITLE = "Spark: rows, keys and skew"

WINDOW = Periodic(60, 10)


def run(scale: Scale) -> Iterator[Row]:
    million = scale.pick(1_000_000, 10_000)
    scale.say("5, 10 and 20 micro-batches, in turn")
    streams = [_stream(Events.of(count * million, 100, scale.seed), million) for count in (5, 10, 20)]
    for race, jobs in zip(streams, compare(scale, *streams), strict=True):
        for name, job in jobs.items():
            told = [p.observedMetrics["windlass"] for p in job.progress if "windlass" in p.observedMetrics]
            yield row_of(race, name, job) | {
                "us_a_row_started": round(_once_started(job, million), 4),
                "state_bytes": told[-1]["state_bytes"],
                "checkpoint_bytes_a_batch": round(job.checkpoint_bytes / max(1, len(told))),
            }
    events = Events.of(10 * million, million, scale.seed)
    scale.say(f"{million:,} keys")
    yield from rows_of(scale, Race(f"{million:,} keys", events, lambda e: each_way(e, WINDOW)))
    yield {
        "kind": "memory",
        "technique": "greatest so far",
        "workers_mib": spark.peak_mib(spark.workers(spark.jvm())),
        "jvm_mib": spark.peak_mib([spark.jvm()]),
    }
    even, hot = Events.of(10 * million, 100, scale.seed), Events.of(10 * million, 100, scale.seed, hot=0.9)
    scale.say("even keys, one hot key and no key, in turn")
    yield from rows_of(
        scale, _keyed("even keys", even), _keyed("one hot key", hot), _keyed("no key", even, keyed=False)
    )


def _stream(events: Events, rows: int) -> Race:
    """Of Parquet files, in micro-batches of so many rows."""
    files = rows // (events.rows // spark.FILES)
    return Race(
        "rows of a stream",
        events,
        lambda e: {PARQUET: streaming(e.rows, lambda: shared(e.parquet_stream(files), [WINDOW]))},
    )


def _keyed(kind: str, events: Events, keyed: bool = True) -> Race:
    return Race(
        kind,
        events,
        lambda e: {
            FRAME: batch(e.rows, lambda: shared(e.frame(), [WINDOW], keyed)),
            PARQUET: batch(e.rows, lambda: shared(e.parquet(), [WINDOW], keyed)),
        },
    )


def _once_started(job: Job, rows: int) -> float:
    """Microseconds a row of the micro-batches after the first, of so many rows each; of the runs that counted."""
    durations = ([p.durationMs["triggerExecution"] for p in run[1:] if p.numInputRows] for run in job.progresses)
    return 1000 * median(sum(run) / (rows * len(run)) for run in durations)


def tables(rows: list[Row]) -> list[Table]:
    mine = [r for r in rows if "state_bytes" in r]
    header = ["rows", "seconds", "µs a row", "µs a row once started", "state bytes", "checkpoint bytes a micro-batch"]
    lines = [
        [
            f"{r['rows']:,}",
            f"{r['seconds']:.2f}",
            f"{r['us_a_row']:.3g}",
            f"{r['us_a_row_started']:.3g}",
            f"{r['state_bytes']:,}",
            f"{r['checkpoint_bytes_a_batch']:,}",
        ]
        for r in mine
    ]
    return [
        ("a stream of Parquet files", header, lines),
        *tables_of([r for r in rows if "us_a_row" in r and "state_bytes" not in r]),
    ]


def findings(rows: list[Row]) -> list[str]:
    whole, started = ([r[name] for r in rows if "state_bytes" in r] for name in ("us_a_row", "us_a_row_started"))
    by_kind = {(r["kind"], r["technique"]): r["us_a_row"] for r in rows if "us_a_row" in r}
    lines = [
        f"cost a row from the fewest rows to the most: {started[0]:.3g} to {started[-1]:.3g} µs, "
        f"with the start of the query {whole[0]:.3g} to {whole[-1]:.3g}"
    ]
    (memory,) = (r for r in rows if r["kind"] == "memory")
    lines.append(
        f"greatest memory up to and with many keys: all Python workers {memory['workers_mib']:,.0f} MiB, "
        f"the JVM {memory['jvm_mib']:,.0f} MiB (native Spark's too)"
    )
    for technique in (FRAME, PARQUET):
        even = by_kind["even keys", technique]
        others = [f"{kind} {by_kind[kind, technique] / even:.2g}" for kind in ("one hot key", "no key")]
        lines.append(f"{technique}, time against even keys: {', '.join(others)}")
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks.cases.spark_sliding import draw as draw_races

    return draw_races([r for r in rows if "us_a_row" in r and "state_bytes" not in r])
