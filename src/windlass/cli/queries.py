"""Files of queries for `windlass plan`: TOML or JSON.

rate = 1000                            events a second, or in a unit of time where lengths are plain integers

[[query]]
name = "per_minute"
range = "1m"
slide = "5s"                           the range, if there is none
offset = "0s"
aggregate = "sum(amount)"              a name of windlass.agg, with its columns; or several
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass import aggregates
from windlass.aggregates.aggregate import Aggregate
from windlass.errors import InvalidArgument, WindlassError
from windlass.sharing.acq import ACQ

__all__ = ["read_aggregate", "read_queries"]

_FIELDS = ("name", "range", "slide", "offset", "aggregate")
_CALL = re.compile(r"\s*([a-z_0-9]+)\s*\(\s*([^()]*?)\s*\)\s*")


def read_queries(path: Path) -> tuple[list[ACQ], float]:
    """The ACQs of a file, and the rate of events it gives (1 if it does not)."""
    text = path.read_text()
    try:
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArgument(f"{path.name} is not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from error
    if not isinstance(found, Mapping) or not isinstance(found.get("query"), list) or not found["query"]:
        raise InvalidArgument(f"{path.name} has no queries: write a [[query]] table for each")
    unknown = set(found) - {"rate", "query"}
    if unknown:
        raise InvalidArgument(f"{path.name}: unknown {', '.join(sorted(unknown))}; there are rate and query")
    acqs = []
    for k, query in enumerate(found["query"]):
        where = f"{path.name}, query {query.get('name', k + 1) if isinstance(query, Mapping) else k + 1}"
        acqs += _acqs(query, k, where)
    return acqs, found.get("rate", 1)


def _acqs(query: Any, k: int, where: str) -> list[ACQ]:
    if not isinstance(query, Mapping) or "range" not in query:
        raise InvalidArgument(f"{where}: a query needs a range")
    unknown = set(query) - set(_FIELDS)
    if unknown:
        raise InvalidArgument(f"{where}: unknown {', '.join(sorted(unknown))}; there are {', '.join(_FIELDS)}")
    wanted = query.get("aggregate", "count()")
    lengths = {name: query[name] for name in ("slide", "offset") if name in query}
    try:
        return [
            ACQ(
                query["range"],
                lengths.get("slide"),
                read_aggregate(a),
                offset=lengths.get("offset", 0),
                name=_name(query, k),
            )
            for a in (wanted if isinstance(wanted, list) else [wanted])
        ]
    except WindlassError as error:
        raise InvalidArgument(f"{where}: {error}") from error


def _name(query: Mapping[str, Any], k: int) -> str:
    return str(query.get("name", f"query {k + 1}"))


def read_aggregate(text: Any) -> Aggregate:
    """An aggregate as it is written: `sum(amount)`."""
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    make = getattr(aggregates, call[1], None) if call and call[1] in aggregates.__all__ else None
    if call is None or make is None:
        raise InvalidArgument(f"an aggregate is written like sum(amount), with a name of windlass.agg; got {text!r}")
    try:
        made = make(*(part.strip() for part in call[2].split(",") if part.strip()))
    except TypeError as error:
        raise InvalidArgument(f"{text}: {error}") from error
    if not isinstance(made, Aggregate):
        raise InvalidArgument(f"{text} is no aggregate")
    return made
