"""What comes behind `shared_windows` in a stream: the event time of a result, and its watermark.

    events ──watermark──► shared_windows ──results_of(…, time="at")──► shared_windows, window, joins, dropDuplicates

Spark takes a column for the event time if its metadata say so, and hands each stateful operator the watermark that the
one before it has reached. So all that results need is a column with that mark, whose times are not late where they go:
not before the watermark of the micro-batch before. A window on time comes out at the first watermark that reaches its
end, so its last moment is not; a session comes out at the first that is past its end, so what is after that is not.

A second `withWatermark` would be another thing: a watermark of the results. Spark goes by the smaller of the two, and
that of the results waits for results, which wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windlass.errors import InvalidArgument
from windlass.spark.session import is_classic

DELAY = "spark.watermarkDelayMs"  # what marks a column as the event time of a stream, in its metadata

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_STATEFUL = "TransformWithState"  # what a shared_windows is in Spark's plans
WATERMARK = "EventTimeWatermark"


def event_time(results: DataFrame, name: str, note: Mapping[str, Any], time: str, taken: Sequence[str]) -> Column:
    """When a result of query `name` happened, as a column `time`. `note` is what its frame says of the query."""
    if time in taken:
        raise InvalidArgument(f"there is a column {time!r} already; choose another name for the event time")
    if note["by_events"]:
        ended = "events, also by late ones" if note["measure"] == "time" else f"{note['measure']!r}"
        raise InvalidArgument(
            f"windows of {name!r} are ended by {ended}: they may come out long after the time of their last event, "
            "which is no event time for what comes behind. Write the results, and read them as a stream of their own"
        )
    if not note["final"]:
        raise InvalidArgument(
            f"with an allowed lateness, windows of {name!r} come out again when they are corrected, and what comes "
            "behind would count them twice. Leave allowed_lateness at 0 and raise the delay of withWatermark instead, "
            "or keep a table that corrects itself (upsert_parquet) and read that"
        )
    end = F.col("window.end")
    instant = F.expr("interval 1 microsecond")
    moment = end + instant if note["closed"] else end - instant
    return moment.alias(time, metadata={DELAY: 0} if results.isStreaming else {})


def holds_windows(events: DataFrame) -> bool:
    """Whether they come out of a shared_windows."""
    return is_classic(events.sparkSession) and has(plan_of(events), _STATEFUL)


def refuse_two_watermarks(events: DataFrame) -> None:
    """One on events and one on windows of them: neither would ever move. (Spark Connect does not show its plans.)"""
    if not is_classic(events.sparkSession) or events.sparkSession.conf.get(POLICY) == "max":
        return
    pending = [plan_of(events)]
    while pending:
        node = pending.pop()
        if node.nodeName() == WATERMARK and any(has(child, WATERMARK) for child in _children(node)):
            raise InvalidArgument(
                "there are two watermarks, one on the events and one on windows of them. Spark goes by the smaller, "
                "and that on the windows waits for windows, which wait for it: nothing would ever come out. Windows "
                "have the first one if you ask for it: results_of(…, time=…), and no withWatermark behind that"
            )
        pending += _children(node)


def plan_of(events: DataFrame) -> Any:
    return events._jdf.queryExecution().analyzed()


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(i) for i in range(children.size())]


def has(node: Any, name: str) -> bool:
    """Whether a plan has such a node."""
    return str(node.nodeName()).startswith(name) or any(has(child, name) for child in _children(node))
