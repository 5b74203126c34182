"""Random scenarios: what may happen to an operator, made from a seed.

scenario(seed)    options, queries and actions (process, advance, add, remove, restart, …), all drawn from one seed
play              runs a scenario against the oracle; every difference fails
valid             whether a scenario makes sense: a part of one may not
as_test           a scenario as the code of a test

A scenario is drawn from a `Draft`. Each of the `DIMENSIONS` is a function that changes the draft: an option of the
operator, the columns of events, how often an action comes. A new dimension is a function with the decorator
`dimension`; the fields of `Draft` are what it can change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from random import Random
from typing import Any

from oracle import (
    Band,
    Cumulate,
    Landmark,
    LastN,
    Punctuation,
    Session,
    SlideByTuple,
    Sliding,
    Snapshot,
    ThresholdFrame,
    Tumbling,
)

from tests.operator.rows import AGGREGATES, CONDITIONS, SLICED, Asked, Named, Twins, event
from tests.operator.streams import KEYS, NON_DETERMINISTIC, STEPS

# --------------------------------------------------------------------------- scenarios


@dataclass(frozen=True)
class Action:
    """What happens at one moment: the name of a method of `Twins`, and what it is given."""

    name: str
    given: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """Options of an operator, the queries that it begins with, and what happens then."""

    options: Mapping[str, Any]
    asked: tuple[Asked, ...]
    actions: tuple[Action, ...]


def play(scenario: Scenario) -> None:
    """Run a scenario; raise at the first difference between the operator and the oracle."""
    twins = Twins(scenario.asked, **scenario.options)
    for action in scenario.actions:
        getattr(twins, action.name)(*action.given)


def valid(scenario: Scenario) -> bool:
    """Whether queries are there when they are removed, and not when they are added."""
    names = [query.name for query in scenario.asked]
    other: list[str] = []  # the queries of a copy
    for action in scenario.actions:
        if action.name == "add":
            if action.given[0].name in names:
                return False
            names.append(action.given[0].name)
        elif action.name == "remove":
            if action.given[0] not in names or len(names) == 1:
                return False
            names.remove(action.given[0])
        elif action.name == "copy":
            other = list(names)
        elif action.name == "swap" and other:
            names, other = other, names
        elif action.name in ("exchange", "change"):
            kept, more = action.given[0], _queries_of(action)
            if not kept or not set(kept) <= set(names) or set(names) & {query.name for query in more}:
                return False
            names = [*kept, *(query.name for query in more)]
    return bool(scenario.asked) and [a.name for a in scenario.actions].count("finish") <= 1


def _queries_of(action: Action) -> list[Asked]:
    return [given for given in action.given if isinstance(given, Asked)]


# --------------------------------------------------------------------------- what is drawn


@dataclass
class Draft:
    """What a scenario will be drawn from."""

    rng: Random
    options: dict[str, Any] = field(default_factory=dict)  # of Twins
    types: list[str] = field(default_factory=lambda: list(WINDOWS))  # of windows, from which queries are drawn
    aggregates: tuple[str, ...] = tuple(sorted(AGGREGATES))
    is_pinned: bool = False  # whether the plan is drawn, too
    columns: dict[str, Callable[[int], Any]] = field(default_factory=dict)  # of an event, by its time
    weights: dict[str, int] = field(default_factory=lambda: dict(WEIGHTS))  # how often an action comes
    offsets: tuple[int, int] = (-14, 10)  # out of order: how far an event may be from the time of the stream
    jumps: tuple[int, ...] = (0, 3, 3, 6, 40)  # how far the time of the stream goes on between two watermarks
    coarse: int = 1  # what all times are multiples of

    @property
    def in_order(self) -> bool:
        return bool(self.options.get("in_order"))


WEIGHTS = {"process": 12, "advance": 8, "add": 3, "remove": 3, "restart": 2, "exchange": 1, "change": 2}
WEIGHTS |= {"copy": 1, "swap": 2, "peek": 2, "late": 1, "slices": 0}
Dimension = Callable[[Draft], None]
DIMENSIONS: dict[str, Dimension] = {}


def dimension(change: Dimension) -> Dimension:
    """Register a function that changes the draft of each scenario."""
    DIMENSIONS[change.__name__] = change
    return change


@dimension
def keys(draft: Draft) -> None:
    names = draft.rng.choice([(), ("k",), ("k", "j"), ("j",)])
    draft.options["key"] = names


@dimension
def order(draft: Draft) -> None:
    if draft.rng.random() < 0.25:
        draft.options["in_order"] = True
    else:
        draft.options["allowed_lateness"] = draft.rng.choice([0, 0, 1, 5, 12, 1000])


@dimension
def techniques(draft: Draft) -> None:
    """How windows are answered from slices, and which queries share these."""
    rng = draft.rng
    option = rng.choice(["store", "technique", "plan", "", "", ""])
    if option == "store":
        draft.options["store"] = rng.choice(["lazy", "eager", "fiba"])
    elif option == "technique":
        draft.options["technique"] = rng.choice(TECHNIQUES)
    draft.is_pinned = option == "plan"
    if draft.in_order and rng.random() < 0.3:
        draft.options["slicing"] = rng.choice(["cutty", "pairs", "panes"])


@dimension
def collected(draft: Draft) -> None:
    """Expired events may lie for several watermarks before they are asked for."""
    if draft.rng.random() < 0.4:
        draft.options["late_waits"] = True


@dimension
def values(draft: Draft) -> None:
    rng = draft.rng
    draft.columns |= {
        "k": lambda ts: rng.choice(KEYS),
        "j": lambda ts: rng.randint(0, 1),
        "x": lambda ts: rng.choice([None, *range(-9, 10)]),
        "y": lambda ts: rng.randint(0, 4),
        "f": lambda ts: rng.randint(-8, 8) / 4,
        "flag": lambda ts: rng.random() < 0.5,
    }


@dimension
def ties(draft: Draft) -> None:
    """Few distinct times, so that events often have the time of other events, and of edges."""
    draft.coarse = draft.rng.choice([1, 1, 1, 2, 5])
    if draft.rng.random() < 0.3:
        draft.offsets, draft.jumps = draft.rng.choice([(-3, 2), (-6, 1), (-1, 1)]), (0, 0, 1, 2, 5)


@dimension
def sequences(draft: Draft) -> None:
    """A column that orders events of the same time; in order it must not decrease there."""
    if draft.rng.random() < 0.4:
        rng, last = draft.rng, [0, 0]
        draft.options["sequence"] = "seq"

        def ascending(ts: int) -> int:
            last[:] = ts, last[1] + rng.randint(0, 1) if ts == last[0] else rng.randint(-3, 3)
            return last[1]

        draft.columns["seq"] = ascending if draft.in_order else lambda ts: rng.randint(0, 3)


@dimension
def measures(draft: Draft) -> None:
    """Columns that windows are defined on follow from the time, so that they never decrease in the order of events."""
    least, steps = -60, draft.rng.choice([(0, 1), (0, 0, 0, 5), (1, 2, 3)])
    km = list(accumulate(draft.rng.choice(steps) for _ in range(700)))
    draft.columns["km"] = lambda ts: km[ts - least] - 40
    draft.columns["miles"] = lambda ts: (km[ts - least] - 40) * 3 / 7


@dimension
def misfits(draft: Draft) -> None:
    """Now and then an event whose measures decrease, or its sequence in order: it is refused, or too late to matter."""
    if draft.rng.random() < 0.15 and "km" in draft.columns:
        rng, km = draft.rng, draft.columns["km"]
        draft.columns["km"] = lambda ts: km(ts) - (rng.random() < 0.1) * rng.randint(-9, 9)
        if draft.in_order and "seq" in draft.columns:
            sequence = draft.columns["seq"]
            draft.columns["seq"] = lambda ts: sequence(ts) - (rng.random() < 0.3) * rng.randint(1, 3)


@dimension
def watermarks(draft: Draft) -> None:
    """Watermarks that follow the stream, beside those that are given."""
    if not draft.in_order and draft.rng.random() < 0.2:
        draft.options["watermarks"] = (draft.rng.randint(0, 9), draft.rng.randint(1, 5))


@dimension
def ending_keys(draft: Draft) -> None:
    if draft.rng.random() < 0.15:
        draft.options["key_ttl"] = draft.rng.choice([20, 30, 60])


@dimension
def window_types(draft: Draft) -> None:
    """Few types in one scenario, so that what goes together is often of the same type."""
    if draft.rng.random() < 0.7:
        draft.types = draft.rng.sample(draft.types, min(len(draft.types), draft.rng.randint(1, 3)))


@dimension
def slices(draft: Draft) -> None:
    """Events that were cut into slices elsewhere, among others."""
    if not draft.in_order and "watermarks" not in draft.options and draft.rng.random() < 0.1:
        draft.types, draft.aggregates = ["time"], SLICED
        draft.weights["slices"] = 12


# --------------------------------------------------------------------------- queries

TECHNIQUES = ("panes", "flatfat", "blocks")


def _measured(rng: Random, measure: str) -> Any:
    """The windows that can be on any measure. Positions have no offsets below zero."""
    offset = rng.randint(0, 5) if measure == "count" else rng.randint(-5, 5)
    start = rng.randint(0, 12) if measure == "count" else rng.randint(-10, 25)
    size, step = rng.randint(1, 12), rng.randint(1, 4)
    return rng.choice(
        [
            Tumbling(size, offset, measure),
            Sliding(size, rng.randint(1, size), offset, measure),
            Cumulate(step, step * rng.randint(1, 4), offset, measure),
            Band(start, rng.randint(1, 20), measure),
            Landmark(start, size, measure),
        ]
    )


def _condition(rng: Random) -> Named:
    return Named(rng.choice(sorted(CONDITIONS)))


WINDOWS: dict[str, Callable[[Random], Any]] = {
    "time": lambda rng: _measured(rng, "time"),
    "count": lambda rng: _measured(rng, "count"),
    "column": lambda rng: _measured(rng, "km"),
    "fractions": lambda rng: _measured(rng, "miles"),
    "session": lambda rng: Session(rng.randint(1, 8)),
    "punctuation": lambda rng: Punctuation(_condition(rng)),
    "frame": lambda rng: ThresholdFrame(_condition(rng), rng.randint(1, 3)),
    "slide by tuple": lambda rng: SlideByTuple(rng.randint(1, 12), rng.randint(1, 4)),
    "last n": lambda rng: LastN(rng.randint(1, 5), rng.randint(1, 12)),
    "snapshot": lambda rng: Snapshot(rng.randint(1, 12)),
    "deterministic": lambda rng: rng.choice(STEPS),
    "non-deterministic": lambda rng: rng.choice(NON_DETERMINISTIC),
}


def _query(draft: Draft, name: str) -> Asked:
    rng = draft.rng
    window = WINDOWS[rng.choice(draft.types)](rng)
    aggregates = tuple(rng.sample(draft.aggregates, rng.choice([1, 1, 1, 2, 3])))
    where = rng.choice([None, None, None, *sorted(CONDITIONS)])
    can_be_empty = isinstance(window, Tumbling | Sliding | Cumulate | Band) and window.measure == "time"
    return Asked(name, window, aggregates, where, can_be_empty and rng.random() < 0.5)


def _plan(rng: Random, asked: tuple[Asked, ...]) -> list[tuple[list[str], str]]:
    """Some of the queries in one tree, the others in another."""
    trees: tuple[list[str], list[str]] = ([], [])
    for query in asked:
        rng.choice(trees).append(query.name)
    return [(names, rng.choice(["auto", *TECHNIQUES])) for names in trees if names]


# --------------------------------------------------------------------------- drawing


def draft_of(seed: int, types: list[str] | None = None, without: tuple[str, ...] = ()) -> Draft:
    """What the scenario of a seed is drawn from, as the dimensions have it."""
    draft = Draft(Random(seed))
    if types is not None:
        draft.types = list(types)
    for name, change in DIMENSIONS.items():
        if name not in without:
            change(draft)
    return draft


def scenario(seed: int, types: list[str] | None = None, without: tuple[str, ...] = ()) -> Scenario:
    """The scenario of a seed: with windows of these types, and without some of the dimensions."""
    draft = draft_of(seed, types, without)
    asked = tuple(_query(draft, f"q{i}") for i in range(draft.rng.choice([1, 1, 2, 3])))
    plan = {"plan": _plan(draft.rng, asked)} if draft.is_pinned else {}
    return Scenario(draft.options | plan, asked, tuple(_actions(draft, asked)))


def _actions(draft: Draft, asked: tuple[Asked, ...]) -> Iterator[Action]:
    rng, there, made = draft.rng, list(asked), len(asked)
    other: list[Asked] = []  # the queries of a copy
    now, serial = rng.randint(-20, 10), 0
    for _ in range(rng.randint(2, 16)):
        name = rng.choices(list(draft.weights), list(draft.weights.values()))[0]
        if name in ("process", "slices"):
            batch, now = _events(draft, now, serial)
            serial += len(batch)
            yield Action(name, (batch,))
        elif name == "advance":
            follows = draft.in_order or ("watermarks" in draft.options and rng.random() < 0.7)
            yield Action("advance", () if follows else (now + rng.randint(-9, 4),))
            now += rng.choice(draft.jumps)
        elif name == "add":
            there.append(_query(draft, f"q{made}"))
            made += 1
            yield Action("add", (there[-1],))
        elif name == "remove":
            if len(there) > 1:
                yield Action("remove", (there.pop(rng.randrange(len(there))).name,))
        elif name in ("exchange", "change"):
            kept = rng.sample(there, rng.randint(1, len(there)))
            more = [_query(draft, f"q{made + n}") for n in range(rng.randint(0, 2))]
            there, made = kept + more, made + len(more)
            since = [rng.choice([None, None, now + rng.randint(0, 9)])] if name == "change" else []
            yield Action(name, ([query.name for query in kept], *since, *more))
        elif name == "copy":
            other = list(there)
            yield Action("copy", (rng.choice(["copy", "pickle"]),))
        elif name == "swap":
            if other:
                there, other = other, there
                yield Action("swap")
        else:
            yield Action(name)
    yield Action("finish", (rng.random() < 0.5,))


def _events(draft: Draft, now: int, serial: int) -> tuple[list[dict[str, Any]], int]:
    """A batch, and the time of the stream after it. In order the time of an event counts from the one before it."""
    rng, batch = draft.rng, []
    for n in range(rng.choice([1, 1, 2, 4, 6])):
        now += rng.choice([0, 0, 1, 2, 3]) if draft.in_order else 0
        ts = now if draft.in_order else now + rng.randint(*draft.offsets)
        ts = ts // draft.coarse * draft.coarse
        batch.append(event(ts, id=serial + n, **{name: make(ts) for name, make in draft.columns.items()}))
    return batch, now


# --------------------------------------------------------------------------- smaller ones


def smaller(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """A part of a scenario that fails like the whole."""
    while True:
        found = next((s for s in _parts(scenario) if valid(s) and fails(s)), None)
        if found is None:
            return scenario
        scenario = found


def _parts(whole: Scenario) -> Iterator[Scenario]:
    actions = whole.actions
    for size in (8, 4, 2, 1):
        for i in range(0, len(actions), size):
            yield replace(whole, actions=actions[:i] + actions[i + size :])
    for i in range(len(whole.asked)):
        yield replace(whole, asked=whole.asked[:i] + whole.asked[i + 1 :])
    for i, action in enumerate(actions):
        if action.name in ("process", "slices"):
            batch = action.given[0]
            for n in range(len(batch)):
                yield replace(whole, actions=_with(actions, i, Action(action.name, (batch[:n] + batch[n + 1 :],))))
    for name in whole.options:
        yield replace(whole, options={k: v for k, v in whole.options.items() if k != name})
    for i, query in enumerate(whole.asked):
        for plain in _plainer(query):
            yield replace(whole, asked=_with(whole.asked, i, plain))
    for i, action in enumerate(actions):
        for n, given in enumerate(action.given):
            for plain in _plainer(given) if isinstance(given, Asked) else ():
                yield replace(whole, actions=_with(actions, i, Action(action.name, _with(action.given, n, plain))))
        for query in _queries_of(action) if action.name != "add" else ():
            fewer = tuple(given for given in action.given if given is not query)
            yield replace(whole, actions=_with(actions, i, Action(action.name, fewer)))
        if action.name in ("process", "slices"):
            for n, row in enumerate(action.given[0]):
                for name in draft_of(0).columns:
                    plain_row = event(row["ts"], **{k: v for k, v in row.items() if k not in (name, "ts")})
                    if name not in ("km", "miles") and plain_row != row:
                        batch = _with(action.given[0], n, plain_row)
                        yield replace(whole, actions=_with(actions, i, Action(action.name, (batch,))))


def _plainer(query: Asked) -> Iterator[Asked]:
    if query.where is not None:
        yield replace(query, where=None)
    if query.aggregates != ("list",):
        yield replace(query, aggregates=("list",))
    if query.emit_empty:
        yield replace(query, emit_empty=False)


def _with(some: Any, i: int, item: Any) -> Any:
    return type(some)([*some[:i], item, *some[i + 1 :]])


# --------------------------------------------------------------------------- as code


def as_test(scenario: Scenario, name: str) -> str:
    """The code of a test that plays a scenario; what it names is in `rows`, `streams` and `oracle`."""
    options = "".join(f", {k}={v!r}" for k, v in scenario.options.items() if v not in ((), 0, False, None))
    asked = ", ".join(map(_query_code, scenario.asked))
    lines = [f"def test_{name}() -> None:", f"    twins = Twins([{asked}]{options})"]
    lines += [f"    twins.{action.name}({', '.join(map(_code, action.given))})" for action in scenario.actions]
    return "\n".join(lines)


def _code(given: Any) -> str:
    if isinstance(given, Asked):
        return _query_code(given)
    if isinstance(given, list | tuple) and all(isinstance(item, dict) for item in given):
        return f"[{', '.join(map(_event_code, given))}]"
    if isinstance(given, list | tuple):
        return f"[{', '.join(map(_code, given))}]"
    return repr(given)


def _event_code(row: Mapping[str, Any]) -> str:
    usual = event(row["ts"])
    return f"event({', '.join([str(row['ts']), *(f'{k}={v!r}' for k, v in row.items() if v != usual[k])])})"


def _query_code(query: Asked) -> str:
    parts = [repr(query.name), _window_code(query.window)]
    parts += [f"{f.name}={v!r}" for f in fields(Asked)[2:] if (v := getattr(query, f.name)) != f.default]
    return f"Asked({', '.join(parts)})"


def _window_code(window: Any) -> str:
    for name, known in (("STEPS", STEPS), ("NON_DETERMINISTIC", NON_DETERMINISTIC)):
        if window in known:
            return f"{name}[{known.index(window)}]"
    return repr(window)
