"""A job: what `shared_windows` was asked for, in a form that travels to the workers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from windlass.errors import CorruptSnapshot, InvalidArgument
from windlass.formats.container import parse_json
from windlass.formats.kinds import Reader, Writer
from windlass.formats.spark import JOB
from windlass.operator.asked import asked, recalled
from windlass.operator.operator import Operator
from windlass.operator.query import Query
from windlass.operator.row_limit import MAX_ROWS
from windlass.operator.slicer import Slicer, refusal
from windlass.spark.history import Keeper, KeepHistory
from windlass.version import __version__

Late = Literal["slices", "rows"]

_VERSION = "version"  # of the driver, in a job on its way to an executor


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
    max_ahead: Any = None
    delay: int = 0  # milliseconds by which Spark's watermark is behind the greatest event time
    history: KeepHistory | None = None
    removed: tuple[Query, ...] = ()  # queries that a checkpoint may still know, and that are not asked any more
    technique: str = "auto"
    plan: tuple[tuple[tuple[str, ...], str], ...] | None = None  # trees that were asked for
    max_rows: int = MAX_ROWS  # of a bucket in one micro-batch

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), _VERSION: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        version = state.pop(_VERSION, "0.1")
        if version != __version__:
            raise InvalidArgument(
                f"the driver runs Windlass {version}, this executor {__version__}: install the same version on both"
            )
        self.__dict__.update(state)

    @cached_property
    def all_queries(self) -> tuple[Query, ...]:
        """With the one that the history is."""
        return self.queries if self.history is None else (*self.queries, self.history.query())

    @cached_property
    def keeper(self) -> Keeper | None:
        """Who writes the history."""
        if self.history is None:
            return None
        return Keeper(self.history, self.history.kept(self.schema, self.time, self.key, self.buckets))

    def operator(self) -> Operator:
        """The operator of one bucket, before the first event."""
        operator = Operator(
            self.all_queries,
            time=self.time,
            key=list(self.key) or None,
            sequence=self.sequence,
            allowed_lateness=self.allowed_lateness,
            key_ttl=self.key_ttl,
            technique=self.technique,
            plan=self._trees,
            max_rows=self.max_rows,
        )
        operator.bind(self.schema)
        return operator

    @property
    def _trees(self) -> list[tuple[tuple[str, ...], str]] | None:
        """The plan for all queries: the one that the history is has a tree of its own."""
        if self.plan is None or self.history is None:
            return None if self.plan is None else list(self.plan)
        return [*self.plan, ((self.history.query().name,), "auto")]

    def slicer(self) -> Slicer:
        return Slicer(self.all_queries, self.schema, time=self.time, key=list(self.key) or None)

    @cached_property
    def fingerprint(self) -> str:
        """What a checkpoint belongs to, as text."""
        schema = base64.b64encode(self.schema.serialize()).decode()
        known = {"asked": asked(self.operator()), "schema": schema, "late": self.late, "buckets": self.buckets}
        return json.dumps(JOB.write(known, Writer()), sort_keys=True)

    def before(self, fingerprint: str) -> Job:
        """The job that a checkpoint was last written by: this one, or one with other queries."""
        if fingerprint == self.fingerprint:
            return self
        was, now = (_known(text) for text in (fingerprint, self.fingerprint))
        for name, hint in (("buckets", "give that number"), ("late", "give late as it was")):
            if was[name] != now[name]:
                raise _refused(f"{name} was {was[name]!r}, now it is {now[name]!r}; {hint}")
        _check_options(was["asked"]["options"], now["asked"]["options"])
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(was["schema"])))
        for field in schema:
            if field.name in self.schema.names and (type_ := self.schema.field(field.name).type) != field.type:
                raise _refused(
                    f"column {field.name!r} was of {field.type}, now it is of {type_}; cast it to {field.type}"
                )
        try:
            queries = tuple(recalled(was["asked"], self.all_queries, self.removed))
        except CorruptSnapshot as error:
            raise _refused(str(error).replace("the snapshot", "the checkpoint")) from error
        return replace(self, queries=queries, schema=schema, history=None, plan=_plan_of(was["asked"]["options"]))

    @cached_property
    def ships_events(self) -> str | None:
        """Why events travel to the state as they are; None if they are cut and pre-aggregated before."""
        if self.late == "rows":
            return "late events are asked for as rows"
        return refusal(self.operator())


def _check_options(was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in now.items():
        if name != "plan" and was.get(name) != value:  # trees go on as they are
            raise _refused(f"{name} was {was.get(name)!r}, now it is {value!r}; give it as it was")


def _plan_of(options: Mapping[str, Any]) -> tuple[tuple[tuple[str, ...], str], ...] | None:
    trees = options.get("plan")
    return None if trees is None else tuple((tuple(tree["queries"]), tree["technique"]) for tree in trees)


def _known(fingerprint: str) -> dict[str, Any]:
    """What a fingerprint says of its job."""
    known: dict[str, Any] = JOB.read(parse_json(fingerprint.encode(), "the job of the checkpoint"), Reader([]))
    return known


def _refused(why: str) -> CorruptSnapshot:
    return CorruptSnapshot(f"the checkpoint was written by another job: {why}, or start a new checkpoint")
