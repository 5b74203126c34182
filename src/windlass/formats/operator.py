"""The records of an operator and of a FineGrained.

    operator ── keys, watermarks, counters
       └── branch          queries that share slices
              └── engine   in-order │ reordered │ general │ general-in-order
                     └── slices, partials, events, windows that may still be corrected

Times are integers in the stream's unit: microseconds, or whatever its integers are. The least int64 stands for "before
all times", the greatest for "never". Partials are lists: one entry for each lift of the branch, each a column for each
of its fields; a lift that only removed queries used has no columns.

What is determined by queries and types is not written: plans, edges, which slices are combined in advance. Nor is how
much room there is for keys to come, or what is expected to be needed the next time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.formats.arrays import Array, ArrowSchema, ArrowTable, Bytes, Column, Embedded, Tagged
from windlass.formats.kinds import Either, Field, Flag, Float, Group, Integer, Kind, ListOf, MapOf, Maybe, Rule, Text
from windlass.formats.query import CONTENT as QUERY_CONTENT
from windlass.formats.query import QUERY
from windlass.formats.record import Record
from windlass.formats.store import FIELDS

__all__ = ["ASKED", "FINE_GRAINED", "MOST_ROOM", "OPERATOR"]

MOST_ROOM = 64  # a key's run may have room for this many times its slices

TIME = Integer()
COUNT = Integer(0)
NAME = Text()


def times(*axes: str | int) -> Array:
    return Array("int64", *axes)


def partials(rows: str) -> Kind:
    return ListOf(ListOf(Column(rows)))


# --------------------------------------------------------------------------- what was asked

WATERMARKS = Group("watermarks that follow", Field("delay", Tagged()), Field("every", Maybe(Tagged())))
TECHNIQUE = Text("auto", "panes", "flatfat", "blocks")
TREE = Group("tree that was asked for", Field("queries", ListOf(NAME)), Field("technique", TECHNIQUE))

OPTIONS = Group(
    "options",
    Field("time", NAME),
    Field("key", Maybe(ListOf(NAME, least=1))),
    Field("sequence", Maybe(NAME)),
    Field("allowed_lateness", COUNT),
    Field("order", Text("in-order", "out-of-order")),
    Field("store", Text("auto", "lazy", "eager", "fiba")),
    Field("slicing", Text("auto", "cutty", "pairs", "panes")),
    Field("watermarks", Maybe(WATERMARKS)),
    Field("key_ttl", Maybe(Integer(1))),
    Field("technique", TECHNIQUE),
    Field("plan", Maybe(ListOf(TREE))),
)

ASKED = Group(
    "what was asked",
    Field("options", OPTIONS),
    Field("python", Text(), "the version whose byte code functions have digests of"),
    Field("queries", ListOf(Embedded("query", QUERY.version, QUERY_CONTENT), least=1), "removed ones too"),
)

# --------------------------------------------------------------------------- keys


def _ends(column: dict[str, Any]) -> bool:
    ends = column["ends"]
    return len(ends) > 0 and ends[0] == 0 and ends[-1] == len(column["bytes"]) and bool((np.diff(ends) >= 0).all())


WORDS = Group(
    "key column of words",
    Field("null", Integer(-1), "which value is null; -1: none"),
    Field("words", times("values"), "numbers and times as they are, floats as their bits"),
    sizes="values",
)
STRINGS = Group(
    "key column of bytes",
    Field("null", Integer(-1), "which value is null; -1: none"),
    Field("ends", Array("int64", "ends", least=0), "where each value ends; the first is 0"),
    Field("bytes", Array("uint8", "bytes")),
    sizes="ends bytes",
    rules=[Rule("`ends` ascends from 0 to the number of bytes", _ends)],
)
PAIRS = Group(
    "key pairs",
    Field("words", Array("int64", "pairs", least=0), "2^32 times the id of the columns so far, and that of this one"),
    sizes="pairs",
)
KEYS = Group(
    "keys",
    Field("count", Integer(0, 1 << 40, size="keys"), "ids that are given out"),
    Field("types", ArrowSchema(), "of the key columns; null: no batch has told"),
    Field("columns", ListOf(Either(words=WORDS, bytes=STRINGS)), "the distinct values, by the first row they were in"),
    Field("pairs", ListOf(PAIRS), "of each column but the first"),
)

# --------------------------------------------------------------------------- events, rows

EVENTS = Group(
    "events",
    Field("key", Array("int64", "events", least=0, below="keys")),
    Field("time", times("events")),
    Field("sequence", times("numbers"), "what orders events of one time"),
    Field("arrival", times("arrivals")),
    Field("columns", MapOf(Either(values=Column("events"), arrow=ArrowTable("events")))),
    Field("valid", MapOf(Array("bool", "events")), "of columns that have held a null"),
    Field("masks", ListOf(Array("bool", "events")), "by condition"),
    Field("last", Maybe(times("events")), "of slices that were cut elsewhere: the time of their last event"),
    Field("partials", partials("events"), "of slices that were cut elsewhere"),
    sizes="events numbers arrivals",
    rules=[
        Rule("`sequence` is empty or has an entry an event", lambda e: len(e["sequence"]) in (0, len(e["time"]))),
        Rule("`arrival` is empty or has an entry an event", lambda e: len(e["arrival"]) in (0, len(e["time"]))),
    ],
)

ROWS = Group(
    "rows",
    Field("finding", Array("int64", "rows", least=0), "which window of the plan"),
    Field("key", Array("int64", "rows", least=0, below="keys")),
    Field("low", times("rows")),
    Field("high", times("rows"), "or its ordinal"),
    Field("start", times("rows")),
    Field("end", times("rows")),
    Field("revision", Array("int64", "rows", least=0)),
    Field("retraction", Array("bool", "rows")),
    Field("partials", partials("rows")),
    sizes="rows",
)
DUE = ListOf(ROWS)

EMITTED = Group(
    "windows that may be corrected",
    Field("table", times("windows", 17), "finding, key, low, high, start, end, begin, oldest, youngest, events, next "
          "revision, state, ordinal, how it closes (4)"),
    Field("partials", partials("windows")),
    sizes="windows",
)  # fmt: skip

# --------------------------------------------------------------------------- slices


def _runs(s: dict[str, Any]) -> bool:
    return bool((s["place"] + s["count"] <= s["capacity"]).all())


def _ascend(name: str) -> Any:
    """Whether values ascend among the slices of each key."""

    def ascend(s: dict[str, Any]) -> bool:
        ends = np.cumsum(s["count"])
        return bool(np.delete(np.diff(s[name]) >= 0, ends[(ends > 0) & (ends < len(s[name]))] - 1).all())

    return ascend


RUNS = (
    Field("place", Array("int64", "held", least=0), "of each key's first slice in its run, on which trees depend"),
    Field("count", Array("int64", "held", least=0), "slices of each key"),
    Field("capacity", Array("int64", "held", least=0), "of each key's run"),
)
RUNS_FIT = [
    Rule("each run has room for its slices", _runs),
    Rule(f"no run has room for more than {MOST_ROOM} times its slices (of one, if it has none)",
         lambda s: bool((s["capacity"] <= MOST_ROOM * np.maximum(s["count"], 1)).all())),
    Rule("there are as many slices as keys have", lambda s: int(s["count"].sum()) == len(s["first"])),
]  # fmt: skip

CUTTY = Group(
    "slices in order",
    *RUNS,
    Field("first", times("slices"), "the time of each slice's first event"),
    Field("position", times("slices"), "of its first event in the key's order"),
    Field("measures", times("measures", "slices"), "values of other measures at its first event"),
    Field("partials", partials("slices")),
    sizes="slices measures",
    rules=[*RUNS_FIT, Rule("positions ascend in each run", _ascend("position"))],
)
GENERAL = Group(
    "general slices",
    *RUNS,
    Field("start", times("slices"), "edges between which each slice lies"),
    Field("end", times("slices")),
    Field("first", times("slices"), "the times of its first and last event"),
    Field("last", times("slices")),
    Field("born", times("slices"), "numbers of watermarks"),
    Field("changed", times("slices")),
    Field("barrier", times("slices"), "sessions of a gap up to this do not reach the slice before"),
    Field("partials", partials("slices")),
    sizes="slices",
    rules=[
        *RUNS_FIT,
        Rule("first events ascend in each run", _ascend("first")),
        Rule("no slice ends before it begins", lambda s: bool((s["first"] <= s["last"]).all())),
    ],
)

# --------------------------------------------------------------------------- engines

CONTEXT = Group("context", Field("words", times("held", "words"), "a row a key"), sizes="words")
CARRY = Group(
    "carry",
    Field("words", times("open", "words"), "a row an open window, which begins with its key"),
    sizes="open words",
)
FOUND = (
    Field("contexts", ListOf(CONTEXT), "what each window type that finds its edges in events remembers of a key"),
    Field("carries", ListOf(CARRY), "and of its open windows"),
)

ORDERED = Group(
    "windows over events in order",
    Field("watermark", TIME),
    Field("closed_upto", TIME, "empty windows that end by then do not come out"),
    Field("epoch", COUNT, "runs so far"),
    Field("slices", CUTTY),
    Field("count", Array("int64", "held", least=0), "events of each key"),
    Field("earliest", times("axes", "held"), "the value of its first event"),
    Field("latest", times("axes", "held")),
    Field("after", times("specs", "held"), "windows that end by then are done"),
    Field("skipped", times("specs", "held"), "positions that a window does not count"),
    Field("seen_from", times("specs", "held"), "the position of the first event that it sees"),
    Field("begun", times("specs", "held"), "the first event that it saw, if it has empty windows"),
    Field("has_begun", Array("bool", "specs", "held")),
    *FOUND,
    sizes="specs",
)
KEYS_HELD = Field("keys", Integer(0, 1 << 40, size="held"), "that the engine has room for")
IN_ORDER = Group(
    "engine for events in order",
    KEYS_HELD,
    Field("windows", ORDERED),
    Field("ordinals", times("numbered", "held", 3), "of each finding that counts equal windows: the last one"),
    Field("due", DUE),
    Field("found", COUNT),
    sizes="held axes numbered",
)

REFUSED = Group("refused events", Field("of", COUNT, "a finding or a measure"), Field("mask", Array("bool", "kept")))
WAITING = Group(
    "events that wait",
    Field("events", EVENTS),
    Field("late", Array("bool", "waiting")),
    Field("refusals", Maybe(Array("bool", "findings", "waiting")), "which findings they came too late for"),
    sizes="waiting",
    rules=[Rule("`late` has an entry an event", lambda w: len(w["late"]) == len(w["events"]["time"]))],
)
REORDERED = Group(
    "engine that keeps events",
    KEYS_HELD,
    Field("windows", ORDERED),
    Field("emitted", EMITTED),
    Field("failed", times("failed", 5), "finding, key, begin, start, end of runs that are no windows"),
    Field("events", Maybe(EVENTS), "by key, in order"),
    Field("refused", ListOf(REFUSED), "by finding: which of these came too late for it"),
    Field("unfit", ListOf(REFUSED), "by measure: which came too late for all windows on it"),
    Field("position", Array("int64", "held", least=0), "of each key's first event"),
    Field("closed", times("findings", "held", 4), "the last closed window"),
    Field("frontier", times("findings", "held", 2), "what a late event must not come before: time, sequence"),
    Field("resume", times("findings", "held"), "the position from which a rewound finding reads again"),
    Field("own", times("findings", "held"), "how many events it counted before that"),
    Field("behind", times("axes", "held"), "values of the last event before those that are kept"),
    *FOUND,
    Field("pending", ListOf(WAITING)),
    sizes="held axes kept failed findings",
)

LATE = Group(
    "late events",
    Field("events", EVENTS),
    Field("refusals", Array("bool", "findings", "waiting")),
    sizes="waiting",
    rules=[Rule("`refusals` has an entry an event", lambda w: w["refusals"].shape[1] == len(w["events"]["time"]))],
)
CHOICE = Group(
    "technique in use",
    Field("store", Text("lazy", "eager", "fiba")),
    Field("lazy", Float(0), "what each would have cost lately"),
    Field("eager", Float(0)),
    Field("fiba", Float(0)),
)
GENERAL_FIELDS = (
    KEYS_HELD,
    Field("watermark", TIME),
    Field("epoch", COUNT, "watermarks so far"),
    Field("kept_from", TIME, "slices from then on are needed one by one"),
    Field("evict_at", COUNT, "slices from which on it is looked which are needed"),
    Field("slices", GENERAL),
    Field("earliest", times("counted", "held"), "each key's first event, by specification, if it has empty windows"),
    Field("started", Array("bool", "counted", "held")),
    Field("latest", times("held")),
    Field("pending", ListOf(LATE), "that wait for the next watermark"),
    Field("revisions", times("revised", 5), "finding, key, low, high, revision"),
    Field("emitted", EMITTED),
    Field("choice", CHOICE),
)
SIZES = "held counted revised findings"
GENERAL_ENGINE = Group("engine for events in any order", *GENERAL_FIELDS, sizes=SIZES)
GENERAL_IN_ORDER = Group(
    "the same for events in order", *GENERAL_FIELDS, Field("due", DUE), Field("found", COUNT), sizes=SIZES
)

# --------------------------------------------------------------------------- branches, the operator

JOIN = Group("queries that joined", Field("since", TIME), Field("first", COUNT, "the first of them"))
BOUND = Group("bound of a sum", Field("lift", COUNT), Field("bound", Integer(0, 1 << 127), "of Σ|x|"))
BRANCH = Group(
    "branch",
    Field("queries", ListOf(NAME), "removed ones too"),
    Field("technique", TECHNIQUE),
    Field("since", TIME, "it sees the events after that"),
    Field("joins", ListOf(JOIN), "of queries that were added and share these slices"),
    Field("removed", ListOf(NAME)),
    Field("dtypes", MapOf(Text()), "of the columns that are read, as NumPy calls them"),
    Field("lifts", ListOf(FIELDS), "the fields of the partials that are kept"),
    Field("sizes", ListOf(BOUND)),
    Field("due", DUE),
    Field("found", COUNT),
    Field("engine", Maybe(Either(
        in_order=IN_ORDER, reordered=REORDERED, general=GENERAL_ENGINE, general_in_order=GENERAL_IN_ORDER
    )), "null before the first event"),
)  # fmt: skip

STREAM = Group(
    "stream",
    Field("watermark", TIME),
    Field("next", TIME, "the watermark to come"),
    Field("greatest", TIME),
    Field("sequence", TIME, "of the last event, if they come in order"),
    Field("passed", times("passed"), "watermarks since the last results, if empty windows depend on them"),
    Field("arrivals", COUNT),
    Field("finished", Flag()),
    sizes="passed",
    rules=[Rule("`passed` ascends", lambda s: bool((np.diff(s["passed"]) >= 0).all()))],
)
COUNTERS = Group("counters", *(Field(name, COUNT) for name in ("events", "late", "expired", "batches", "rows")))
LIFETIMES = Group(
    "lifetimes",
    Field("latest", times("living"), "each key's last event, if keys end"),
    Field("credit", COUNT, "what was done since all keys were looked at"),
    sizes="living",
)
OBSERVED = Group("observation", Field("rate", Float(0)), Field("keys", COUNT), Field("batch", COUNT))
PLANNING = Group(
    "planning",
    Field("observed", Maybe(OBSERVED), "what the plan was made for"),
    Field("seen", Maybe(OBSERVED), "what was seen at the last look"),
    Field("rows", COUNT, "since that look"),
    Field("batches", COUNT),
    Field("greatest", TIME),
    Field("removals", COUNT, "queries that were removed so far"),
)

CONTENT = Group(
    "operator",
    Field("asked", ASKED),
    Field("types", ArrowSchema(), "of the time, and of the columns that were read"),
    Field("keys", KEYS),
    Field("stream", STREAM),
    Field("counters", COUNTERS),
    Field("lifetimes", LIFETIMES),
    Field("planning", PLANNING),
    Field("expired", ListOf(ArrowTable()), "events that no query accepted, with the reason"),
    Field("branches", ListOf(BRANCH)),
    sizes="keys",
)

OPERATOR = Record(
    "operator",
    5,
    "An operator between two calls. Options must be those of the operator that is restored; queries may differ.",
    CONTENT,
    outdated={4: "0.1"},
)

# --------------------------------------------------------------------------- fine-grained

PARTIAL_OF = Group(
    "aggregate of each event's window",
    Field("name", NAME),
    Field("aggregate", Text(), "in words"),
    Field("functions", ListOf(Maybe(Text())), "digests"),
)
SINGLE = Group("windows without keys", Field("stores", MapOf(Bytes()), "a [store](#store) record in its container"))
KEYED = Group(
    "windows by key",
    Field("keys", KEYS),
    Field("sizes", Array("int64", "keys", least=0), "times in each key's window"),
    Field("times", times("times")),
    Field("partials", MapOf(ListOf(Column("times"))), "by aggregate"),
    sizes="keys times",
    rules=[Rule("there are as many times as keys have", lambda k: int(k["sizes"].sum()) == len(k["times"]))],
)
FINE_CONTENT = Group(
    "fine-grained",
    Field("aggregates", ListOf(PARTIAL_OF, least=1)),
    Field("time", NAME),
    Field("key", ListOf(NAME)),
    Field("span", COUNT, "of a window; 0: it is a number of times"),
    Field("window", COUNT),
    Field("types", ArrowSchema(), "of the time, and of the columns that were read"),
    Field("windows", Either(single=SINGLE, keyed=KEYED)),
)

FINE_GRAINED = Record(
    "fine-grained",
    5,
    "A FineGrained between two calls: a window for every event.",
    FINE_CONTENT,
    outdated={4: "0.1"},
)
