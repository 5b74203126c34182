"""Where the time of a batch on Spark goes: by stage, and of each stage what the JVM's threads took of it.

One sliding window of 60 s every second, 100 keys, sums. The ways events come in: Parquet files that workers read, a
DataFrame that Spark cuts with its own aggregation, and one whose rows are handed to Python; of the last also with the
limit to the bytes of a batch that Spark has and Windlass's session has not. Median run of three.

Then who cuts faster, Spark or Python, with more and more events a slice; medians of three.

`tasks` is the time of all tasks of a stage together; the JVM's part of it is what its task threads were running:
reading, turning rows into Arrow and back, compressing and moving blocks. The rest is Python's, or waiting for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from benchmarks import spark
from benchmarks.cases import Scale, Table
from benchmarks.measure import race
from benchmarks.results import Row
from benchmarks.spark import Events, Periodic, batch
from windlass.spark import shared_windows
from windlass.spark.session import ARROW_BYTES, NO_LIMIT

TITLE = "Spark: where the time goes"

WINDOW = Periodic(60, 1)
SLIDES = (1, 2, 5, 10, 30)  # seconds
LIMITED = "DataFrame, cut by Python, 64 MiB a batch"


def run(scale: Scale) -> Iterator[Row]:
    events = Events.of(scale.pick(20_000_000, 200_000), 100, scale.seed)

    def framed(cut: Any, window: Periodic = WINDOW) -> Callable[[], DataFrame]:
        return lambda: shared_windows(events.frame(), window.query(), time="ts", key="k", cut=cut)

    ways = {
        "Parquet": lambda: spark.shared(events.parquet(), [WINDOW]),
        "DataFrame, cut by Spark": framed("spark"),
        "DataFrame, cut by Python": framed("python"),
        LIMITED: framed("python"),
    }
    for way, make in ways.items():
        scale.say(way)
        spark.spark().conf.set(ARROW_BYTES, str(1 << 26) if way == LIMITED else NO_LIMIT)
        runs = [_once(way, make, events.rows) for _ in range(4)][1:]
        yield from sorted(runs, key=lambda rows: float(rows[0]["seconds"]))[1]
    spark.spark().conf.set(ARROW_BYTES, NO_LIMIT)
    for slide in SLIDES:
        scale.say(f"who cuts: a slice a key every {slide} s")
        jobs = {cut: batch(events.rows, framed(cut, Periodic(60, slide))) for cut in ("spark", "python")}
        race(jobs, repetitions=3)
        seconds = {cut: round(job.seconds, 3) for cut, job in jobs.items()}
        yield {"events_a_slice": 1000 * slide // events.keys, "rows": events.rows, **seconds}


def _once(way: str, make: Callable[[], DataFrame], rows: int) -> list[Row]:
    before = {stage.stageId() for stage in _stages()}
    start = time.time()
    frame = make()
    defined = time.time() - start
    batch(rows, lambda: frame).call()
    whole = time.time() - start
    spark.settle()
    found: list[Row] = [{"way": way, "stage": "all", "rows": rows, "seconds": round(whole, 3)}]
    found.append({"way": way, "stage": "definition", "seconds": round(defined, 3)})
    ran = [s for s in _stages() if s.stageId() not in before and s.submissionTime().isDefined()]
    ran = [s for s in ran if s.submissionTime().get().getTime() / 1e3 > start + defined and s.executorRunTime() > 0]
    for number, stage in enumerate(sorted(ran, key=lambda s: s.stageId()), 1):
        begin, end = (at.get().getTime() / 1e3 for at in (stage.submissionTime(), stage.completionTime()))
        found.append(
            {
                "way": way,
                "stage": f"stage {number}",
                "seconds": round(end - begin, 3),
                "tasks": stage.numTasks(),
                "tasks_seconds": round(stage.executorRunTime() / 1e3, 3),
                "jvm_seconds": round(stage.executorCpuTime() / 1e9, 3),
                "shuffled_mib": round(stage.shuffleWriteBytes() / (1 << 20), 1),
            }
        )
    return found


def _stages() -> list[Any]:
    context: Any = spark.spark().sparkContext
    none = context._gateway.new_array(context._jvm.double, 0)
    listed = spark.spark()._jsparkSession.sparkContext().statusStore().stageList(None, False, False, none, None)
    return [listed.apply(i) for i in range(listed.size())]


def tables(rows: list[Row]) -> list[Table]:
    made = []
    for way in _ways(rows):
        mine = [r for r in rows if r.get("way") == way]
        lines = [
            [
                r["stage"],
                f"{r['seconds']:.2f}",
                f"{r['tasks_seconds']:.2f}" if "tasks" in r else "",
                f"{r['jvm_seconds']:.2f}" if "tasks" in r else "",
                f"{r['shuffled_mib']:.0f}" if "tasks" in r else "",
            ]
            for r in mine
        ]
        header = ["", "seconds", "of all tasks", "of them the JVM's threads", "MiB to the next stage"]
        made.append((f"{way}: {mine[0]['rows']:,} rows", header, lines))
    cuts = [r for r in rows if "events_a_slice" in r]
    lines = [[str(r["events_a_slice"]), f"{r['spark']:.2f}", f"{r['python']:.2f}"] for r in cuts]
    return [*made, ("Who cuts a DataFrame: seconds", ["events a slice", "Spark", "Python"], lines)]


def _ways(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(r["way"] for r in rows if "way" in r))


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for way in _ways(rows):
        whole = next(r["seconds"] for r in rows if r.get("way") == way and r["stage"] == "all")
        stages = [r for r in rows if r.get("way") == way and "tasks" in r]
        rest = whole - sum(r["seconds"] for r in stages)
        jvm = sum(r["jvm_seconds"] for r in stages) / sum(r["tasks_seconds"] for r in stages)
        lines.append(
            f"{way}: {whole:.2f} s, of which {rest:.2f} in no stage; of the tasks' time the JVM's threads {jvm:.0%}"
        )
    ratios = [
        f"{r['python'] / r['spark']:.2g} with {r['events_a_slice']} events a slice"
        for r in rows
        if "events_a_slice" in r
    ]
    return [*lines, f"cut by Python against cut by Spark: {', '.join(ratios)}"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=7.0, height=2.6)
    axes = grid[0][0]
    ways = _ways(rows)
    for y, way in enumerate(ways):
        left = 0.0
        mine = [r for r in rows if r.get("way") == way and r["stage"] != "all"]
        whole = next(r["seconds"] for r in rows if r.get("way") == way and r["stage"] == "all")
        colours = ["#999999", "#0072B2", "#56B4E9", "#009E73", "#E69F00"]
        for r, colour in zip(mine, colours, strict=False):
            axes.barh(y, r["seconds"], left=left, color=colour, label=r["stage"] if y == 1 else None)
            left += r["seconds"]
        axes.barh(y, whole - left, left=left, color="#eeeeee", label="between" if y == 1 else None)
    axes.set_yticks(range(len(ways)), ways)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.grid(axis="y", visible=False)
    axes.legend(ncols=3, fontsize="small")
    return fig
