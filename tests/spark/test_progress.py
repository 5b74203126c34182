"""The progress display: what a line says, how it is drawn, and that it listens to real queries."""

import io

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from windlass.spark.generator import NAME
from windlass.spark.progress import METRICS, Display, _bus, _bytes, _count, _moment, progress

pytestmark = pytest.mark.xdist_group("spark")


class Operator:
    memoryUsedBytes = 500_000


class Sink:
    def __init__(self, rows=-1):
        self.numOutputRows = rows


class Report:
    """As much of Spark's StreamingQueryProgress as is looked at."""

    def __init__(self, batch, rows=1000, metrics=None, name="sensors", sink=-1, watermark=None, operators=()):
        self.batchId, self.numInputRows, self.name = batch, rows, name
        self.durationMs = {"triggerExecution": 500}
        self.eventTime = {"watermark": watermark} if watermark else {}
        self.observedMetrics = {} if metrics is None else {METRICS: Row(**metrics)}
        self.stateOperators, self.sink = operators, Sink(sink)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(text):
    """What a terminal shows after this text."""
    lines, row, column = [""], 0, 0
    i = 0
    while i < len(text):
        c = text[i]
        if c == "\r":
            column = 0
        elif c == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif c == "\x1b":
            end = next(k for k in range(i + 2, len(text)) if text[k].isalpha())
            if text[end] == "A":
                row -= int(text[i + 2 : end])
            else:
                assert text[end] == "K"
                lines[row] = lines[row][:column]
            i = end
        else:
            lines[row] = lines[row][:column].ljust(column) + c + lines[row][column + 1 :]
            column += 1
        i += 1
    return lines


METRIC = {
    "events": 1000,
    "late": 2,
    "slices": 212,
    "state_bytes": 1_400_000,
    "rows": 40,
    "watermark": 1_704_067_200_000,
}


def test_a_line():
    out = io.StringIO()
    display = Display(out, lambda: 0.0)
    display.progressed("run", Report(0, metrics=METRIC))
    assert out.getvalue() == (
        "sensors  batch 0 · 2k rows/s · 1k events · 2 late · 40 rows out · 212 slices · 1.4 MB · "
        "up to 2024-01-01 00:00:00 · 0.50 s\n"
    )


def test_counts_add_up_and_missing_metrics_are_no_trouble():
    display = Display(io.StringIO(), lambda: 0.0)
    display.progressed("run", Report(0, metrics=METRIC))
    display.progressed("run", Report(1, metrics={"events": None, "late": 5, "expired": 1, "open_windows": 3}))
    display.progressed("run", Report(1, rows=0))  # Spark repeats itself
    line = display.queries["run"].line()
    assert (
        "batch 1 · 2k rows/s · 1k events · 7 late · 1 expired · 40 rows out · 3 open windows · 212 slices · 1.4 MB"
        in line
    )
    renamed = Report(0, metrics=METRIC)
    renamed.observedMetrics = {"mine": renamed.observedMetrics[METRICS], "theirs": Row(n=1)}
    display.progressed("renamed", renamed)
    assert "212 slices" in display.queries["renamed"].line()
    display.progressed(
        "other", Report(0, name=None, sink=7, watermark="2024-05-06T07:08:09.123Z", operators=[Operator()])
    )
    assert display.queries["other"].line() == (
        "query other  batch 0 · 2k rows/s · 1k events · 7 rows out · 500 kB · up to 2024-05-06 07:08:09 · 0.50 s"
    )


def test_at_most_a_line_a_second_without_a_terminal():
    out, now = io.StringIO(), [0.0]
    display = Display(out, lambda: now[0])
    for batch in range(25):
        display.progressed("run", Report(batch))
        now[0] += 0.125
    assert [line.split(" · ")[0] for line in out.getvalue().splitlines()] == [
        f"sensors  batch {n}" for n in (0, 8, 16, 24)
    ]
    display.progressed("run", Report(25))
    display.close()
    assert "batch 25" in out.getvalue().splitlines()[-1]
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()


def test_lines_are_drawn_over_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    display = Display(out)
    display.started("1", "first")
    display.progressed("1", Report(123456, metrics=METRIC, name="first"))
    display.progressed("1", Report(7, name="first"))
    display.started("2", None)
    display.progressed("2", Report(8, name=None))
    display.idle("1")
    display.terminated("2", failed=True)
    shown = screen(out.getvalue())
    assert [line[:16] for line in shown] == ["first  batch 7 ·", "query 2  batch 8"]
    assert all(len(line) < 60 for line in shown)
    display.close()
    assert screen(out.getvalue())[2:] == [""]  # the prompt comes below


def test_states_are_said():
    out = io.StringIO()
    display = Display(out, lambda: 0.0)
    display.started("1", "q")
    display.idle("unknown")
    display.terminated("unknown", failed=False)
    display.terminated("1", failed=True)
    assert out.getvalue().splitlines() == ["q  starting", "q  failed"]


def test_a_display_that_is_gone_disturbs_nobody():
    out = io.StringIO()
    display = Display(out)
    out.close()
    display.started("1", "q")
    display.close()


def test_numbers():
    assert [_count(n) for n in (0, 999, 1000, 98_234, 999_999, 4_100_000, 2e9)] == [
        "0", "999", "1k", "98.2k", "1M", "4.1M", "2G",
    ]  # fmt: skip
    assert [_bytes(n) for n in (0, 999, 1000, 1_234_567, 5e12)] == ["0 B", "999 B", "1 kB", "1.23 MB", "5e+03 GB"]
    assert [_moment(m) for m in (None, "1970-01-01T00:00:00.000Z", 2**62)] == [None, None, str(2**62)]


def test_real_queries(spark, tmp_path):
    out = io.StringIO()

    def start(name):
        stream = spark.readStream.format(NAME).options(rows=300, rowsPerBatch=100, partitions=1).load()
        counted = stream.observe(METRICS, F.count("*").alias("events"), F.lit(3).cast("long").alias("late"))
        writer = counted.writeStream.format("noop").queryName(name).option("checkpointLocation", str(tmp_path / name))
        return writer.trigger(availableNow=True).start()

    with progress(spark, file=out):
        for query in [start("first"), start("second")]:
            query.awaitTermination()
        _bus(spark).waitUntilEmpty(2**31)  # a busy machine tells listeners later; `progress` waits for a moment only
    text = out.getvalue()
    for name in ("first", "second"):
        mine = [line for line in text.splitlines() if line.startswith(name)]
        assert mine[0] == f"{name}  starting"
        assert "batch 2" in mine[-1] and "300 events · 9 late" in mine[-1] and mine[-1].endswith("ended")
    written = len(text)
    query = start("third")
    query.awaitTermination()
    assert len(out.getvalue()) == written  # it no longer listens
