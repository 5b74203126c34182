"""A million keys: sums of each over two tumbling windows, 10 million events, beside Polars and DuckDB: seconds.

Events in order, keys drawn evenly. The operator takes the stream in batches and hands over each window when it is
complete; the peers have the whole table and group it, with one thread each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import driving, peers, streams
from benchmarks.baselines import Periodic, Windows
from benchmarks.cases import Scale, Table
from benchmarks.measure import Entrant, race
from benchmarks.results import Row
from benchmarks.streams import SECOND
from windlass import agg

TITLE = "A million keys"

EVENTS, KEYS = 10_000_000, 1_000_000
SPAN = 100 * SECOND
LENGTHS = (50 * SECOND, 100 * SECOND)


def run(scale: Scale) -> Iterator[Row]:
    for keys in scale.pick((1000, 100_000, KEYS), (1000,)):
        events = scale.pick(EVENTS, 50_000)
        rng = np.random.default_rng(scale.seed)
        ts = np.sort(rng.integers(0, SPAN, events))
        stream = streams.keyed(streams.Stream(ts, rng.integers(0, 1000, events)), keys, scale.seed)
        windows = Windows(tuple(Periodic(length, length) for length in LENGTHS))
        asked, batches = driving.queries(windows, agg.sum("value")), stream.batches()
        first: list[float] = []

        def mine(asked: list[Any] = asked, batches: list[Any] = batches, first: list[float] = first) -> int:
            op, total = driving.operator(asked, key="key"), 0
            start = time.perf_counter()
            for k, batch in enumerate(batches):
                op.process(batch)
                total += driving.read(op.advance())
                if k == 0:
                    first.append(time.perf_counter() - start)
            return total + driving.read(op.finish())

        calls = {driving.OPERATOR: mine}
        calls |= peers.keyed_sums(list(LENGTHS), stream.ts, stream.columns["key"], stream.value)
        scale.say(f"{keys} keys: comparing answers")
        numbers = {name: call() for name, call in calls.items()}
        assert len(set(numbers.values())) == 1, f"different numbers of results: {numbers}"
        scale.say(f"{keys} keys: racing {', '.join(calls)}")
        entrants = {name: Entrant(call, events) for name, call in calls.items()}
        race(entrants, repetitions=3, warm=False)
        for name, entrant in entrants.items():
            yield {
                "keys": keys,
                "technique": name,
                "events": events,
                "results": numbers[name],
                "seconds": round(entrant.seconds, 4),
                "events_per_second": round(entrant.rate),
                "first_batch_seconds": round(first[0], 4) if name == driving.OPERATOR else None,
            }


def tables(rows: list[Row]) -> list[Table]:
    names = list(dict.fromkeys(r["technique"] for r in rows))
    lines = []
    for keys in dict.fromkeys(r["keys"] for r in rows):
        at = {r["technique"]: r for r in rows if r["keys"] == keys}
        shown = [f"{at[n]['seconds']:.3g} ({at[n]['events_per_second'] / 1e6:.3g})" for n in names]
        lines.append([f"{keys:,}", f"{at[names[0]]['results']:,}", *shown])
    caption = f"{rows[0]['events']:,} events, two tumbling windows: seconds (million events/s)"
    return [(caption, ["keys", "results", *names], lines)]


def findings(rows: list[Row]) -> list[str]:
    most = max(r["keys"] for r in rows)
    at = {r["technique"]: r["seconds"] for r in rows if r["keys"] == most}
    mine = at.pop(driving.OPERATOR)
    return [f"{most:,} keys: time against Windlass: {', '.join(f'{name} {s / mine:.2g}' for name, s in at.items())}"]


def draw(rows: list[Row]) -> Any:
    from benchmarks import rates, style

    fig, grid = style.figure(1, 1, width=6.0, height=3.8)
    rates.lines(grid[0][0], rows, "keys", "keys")
    grid[0][0].set_title(f"{rows[0]['events']:,} events, sums over two tumbling windows")
    style.shared_legend(fig, grid)
    return fig
