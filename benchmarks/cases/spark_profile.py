"""Where the time of a batch on Spark goes: by stage, and of each stage what the JVM's threads took of it.

One sliding window of 60 s every second, 100 keys, sums. The three ways events come in: Parquet files that workers read,
a DataFrame that Spark cuts with its own aggregation, and one whose rows are handed to Python. Median run of three.

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
from benchmarks.results import Row
from benchmarks.spark import Events, Periodic, batch
from windlass.spark import shared_windows

TITLE = "Spark: where the time goes"

WINDOW = Periodic(60, 1)


def run(scale: Scale) -> Iterator[Row]:
    events = Events.of(scale.pick(20_000_000, 200_000), 100, scale.seed)

    def framed(cut: Any) -> Callable[[], DataFrame]:
        return lambda: shared_windows(events.frame(), WINDOW.query(), time="ts", key="k", cut=cut)

    ways = {
        "Parquet": lambda: spark.shared(events.parquet(), [WINDOW]),
        "DataFrame, cut by Spark": framed("spark"),
        "DataFrame, cut by Python": framed("python"),
    }
    for way, make in ways.items():
        scale.say(way)
        runs = [_once(way, make, events.rows) for _ in range(4)][1:]
        yield from sorted(runs, key=lambda rows: float(rows[0]["seconds"]))[1]


def _once(way: str, make: Callable[[], DataFrame], rows: int) -> list[Row]:
    before = {stage.stageId() for stage in _stages()}
    start = time.time()
    frame = make()
    defined = time.time() - start
    batch(rows, lambda: frame).call()
    whole = time.time() - start
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
    for way in dict.fromkeys(r["way"] for r in rows):
        mine = [r for r in rows if r["way"] == way]
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
    return made


def findings(rows: list[Row]) -> list[str]:
    lines = []
    for way in dict.fromkeys(r["way"] for r in rows):
        whole = next(r["seconds"] for r in rows if r["way"] == way and r["stage"] == "all")
        stages = [r for r in rows if r["way"] == way and "tasks" in r]
        rest = whole - sum(r["seconds"] for r in stages)
        jvm = sum(r["jvm_seconds"] for r in stages) / sum(r["tasks_seconds"] for r in stages)
        lines.append(
            f"{way}: {whole:.2f} s, of which {rest:.2f} in no stage; of the tasks' time the JVM's threads {jvm:.0%}"
        )
    return lines


def draw(rows: list[Row]) -> Any:
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=7.0, height=2.6)
    axes = grid[0][0]
    ways = list(dict.fromkeys(r["way"] for r in rows))
    for y, way in enumerate(ways):
        left = 0.0
        mine = [r for r in rows if r["way"] == way and r["stage"] != "all"]
        whole = next(r["seconds"] for r in rows if r["way"] == way and r["stage"] == "all")
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
