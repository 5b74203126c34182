"""windlass build-history: the history of a table that is there, through Spark, with a progress bar."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from windlass.cli.queries import read_aggregate
from windlass.errors import MissingExtra, WindlassError

__all__ = ["build_history_command"]

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json"}


@click.command("build-history")
@click.argument("table")
@click.argument("history", type=click.Path(file_okay=False, path_type=Path))
@click.option("--time", required=True, help="The column of event times.")
@click.option("--key", multiple=True, help="A key column; may be given several times.")
@click.option("--aggregate", "aggregates", multiple=True, required=True, help="Such as 'sum(fare)'; may be repeated.")
@click.option("--tick", default="1s", show_default=True, help="The length of the smallest slot.")
@click.option("--format", "form", help="parquet, csv, delta, … (default: by the name, else parquet).")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of Spark's reader.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
def build_history_command(
    table: str,
    history: Path,
    time: str,
    key: tuple[str, ...],
    aggregates: tuple[str, ...],
    tick: str,
    form: str | None,
    options: tuple[str, ...],
    master: str,
) -> None:
    """Build a HISTORY directory from TABLE, a path of files.

    \b
    windlass build-history rides/ rides-history/ --time started_at --key station --aggregate 'sum(fare)' --tick 1m
    """
    try:
        from windlass.spark import build_history, session
        from windlass.spark.history import read_table
    except ModuleNotFoundError as error:
        raise click.ClickException(str(MissingExtra("spark", "windlass build-history"))) from error
    from windlass.wheel.history import History

    try:
        kept = [read_aggregate(text) for text in aggregates]
        given = dict(_pair(option) for option in options)
        spark = session("windlass build-history", master=master)
        rows = read_table(spark, table, form or _FORMATS.get(Path(table).suffix, "parquet"), given, time)
        with _Shown(spark, f"{table} → {history}"):
            build_history(rows, str(history), kept, time=time, key=list(key) or None, tick=tick)
        Console().print(History(history))
    except WindlassError as error:
        raise click.ClickException(str(error)) from error


def _pair(option: str) -> tuple[str, str]:
    name, sign, value = option.partition("=")
    if not sign:
        raise click.ClickException(f"an option of the reader is written NAME=VALUE, got {option!r}")
    return name, value


class _Shown:
    """A bar of the tasks that are done, while a job runs."""

    def __init__(self, spark: Any, text: str) -> None:
        self.tracker, self.text, self.done = spark.sparkContext.statusTracker(), text, threading.Event()

    def __enter__(self) -> _Shown:
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} tasks"))
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(self.text, total=None)
            seen: dict[int, tuple[int, int]] = {}
            while not self.done.wait(0.2):
                for stage in self.tracker.getActiveStageIds():
                    if (info := self.tracker.getStageInfo(stage)) is not None:
                        seen[stage] = info.numCompletedTasks, info.numTasks
                total = sum(n for _, n in seen.values())
                if total:
                    active = set(self.tracker.getActiveStageIds())
                    completed = sum(done if stage in active else n for stage, (done, n) in seen.items())
                    bar.update(task, total=total, completed=completed)
            total = sum(n for _, n in seen.values()) or 1
            bar.update(task, total=total, completed=total)
