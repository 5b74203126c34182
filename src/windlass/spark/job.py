"""A job: what `shared_windows` was asked for, in a form that travels to the workers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from windlass.operator import state
from windlass.operator.operator import Operator
from windlass.operator.query import Query
from windlass.operator.slicer import Slicer, refusal

Late = Literal["slices", "rows"]


@dataclass(frozen=True)
class Job:
    queries: tuple[Query, ...]
    schema: pa.Schema  # of the columns that are shipped
    time: str
    key: tuple[str, ...]
    sequence: str | None
    allowed_lateness: Any
    key_ttl: Any
    late: Late
    buckets: int

    def operator(self) -> Operator:
        """The operator of one bucket, before the first event."""
        operator = Operator(
            self.queries,
            time=self.time,
            key=list(self.key) or None,
            sequence=self.sequence,
            allowed_lateness=self.allowed_lateness,
            key_ttl=self.key_ttl,
        )
        operator.bind(self.schema)
        return operator

    def slicer(self) -> Slicer:
        return Slicer(self.queries, self.schema, time=self.time, key=list(self.key) or None)

    @cached_property
    def fingerprint(self) -> str:
        """What a checkpoint belongs to, as text."""
        asked = state.asked(self.operator())
        asked |= {"schema": str(self.schema), "late": self.late, "buckets": self.buckets}
        return json.dumps(asked, sort_keys=True, default=str)

    @cached_property
    def ships_events(self) -> str | None:
        """Why events travel to the state as they are; None if they are cut and pre-aggregated before."""
        if self.late == "rows":
            return "late events are asked for as rows"
        return refusal(self.operator())
