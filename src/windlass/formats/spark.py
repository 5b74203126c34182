"""The records of a Spark job: the state of a bucket of keys, and the blocks that travel to it.

    head      token │ base │ job │ watermark │ timer │ bytes of log and snapshot           one a bucket
    log       an operator's record, if the head says that there is one │ step │ step │ …
    step      watermark │ block │ block │ …
    block     a table of slices or of events

Every entry of the log ends with its digest, and the head's token is a digest of all that led to it.
"""

from __future__ import annotations

from windlass.formats.arrays import ArrowTable, Bytes
from windlass.formats.container import DIGEST
from windlass.formats.kinds import Field, Group, Integer, ListOf, Maybe, Rule, Text
from windlass.formats.operator import ASKED
from windlass.formats.record import Record

__all__ = ["BLOCK", "HEAD", "JOB", "MOST_EVENTS", "STEP"]

MOST_EVENTS, _MOST_SLICES = 1 << 20, 1 << 22  # in a block

WATERMARK = Field("watermark", Maybe(Integer()), "in microseconds; null: there is none yet")

JOB = Group(
    "spark job",
    Field("asked", ASKED),
    Field("schema", Text(), "of the columns that are shipped: an Arrow schema, in base64"),
    Field("late", Text("slices", "rows")),
    Field("buckets", Integer(1, 1 << 24)),
)

HEAD = Record(
    "spark-head",
    5,
    "The head of a bucket's state, in the column `seal` of its row. The row's `version` is that of the record, its "
    "other columns are null.",
    Group(
        "spark-head",
        Field("token", Bytes(DIGEST), "a digest of all that led to the state"),
        Field("base", Bytes(DIGEST), "the token before the snapshot"),
        Field("job", Bytes(of=JOB), "that wrote it: a [spark job](#spark-job) as JSON, its keys sorted"),
        WATERMARK,
        Field("timer", Integer(0), "milliseconds"),
        Field("log", Integer(0), "bytes"),
        Field("snapshot", Integer(0), "bytes; 0: there is none"),
    ),
    outdated={4: "0.1"},
)

STEP = Record(
    "spark-step",
    5,
    "A step of a bucket: blocks that it took, then a watermark that it advanced to.",
    Group("spark-step", WATERMARK, Field("blocks", ListOf(Bytes()), "[blocks](#spark-block) in their containers")),
    outdated={4: "0.1"},
)

BLOCK = Record(
    "spark-block",
    2,
    "A table on its way to a bucket. 64-bit integers and times are offsets from the column's least, in the narrowest "
    "type that fits, and texts that repeat themselves are dictionary-encoded; a field's metadata says what it was.",
    Group(
        "spark-block",
        Field("kind", Text("slices", "events", "untimed", "ahead"), "untimed: without a time; ahead: of the future"),
        Field("rows", ArrowTable(most=_MOST_SLICES)),
        rules=[
            Rule(
                f"a block has at most {MOST_EVENTS} events",
                lambda b: b["kind"] == "slices" or b["rows"].num_rows <= MOST_EVENTS,
            )
        ],
    ),
    outdated={1: "0.1"},
)
