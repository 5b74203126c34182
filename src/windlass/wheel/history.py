"""The history of a stream: aggregates of any range of its past, by key, as fresh as the watermark of its job.

    history = windlass.History("history/")
    history.query("2024-05-01", "2024-05-02", aggregate="sum(fare)", key="JFK")

The slots on disk become a wheel for each aggregate, when it is first asked about. `refresh` reads the files of batches
that came since, and no others: what is put together from files that were read says nothing new. Their slots are added
to the wheels that there are, or correct them, so it takes as long as there is news.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import HIGH, located
from windlass.aggregates.partials import unpacked
from windlass.aggregates.values import to_arrow
from windlass.errors import Busy, Interrupted, InvalidArgument, Overflow, UnknownColumn
from windlass.exclusive import Exclusive, exclusive, reading
from windlass.wheel.contents import Cells, Contents, assemble, combined, fitting, rolled_up
from windlass.wheel.history_files import HistoryFiles, Kept, newest, together
from windlass.wheel.revising import can_revise
from windlass.wheel.wheel import Wheel

__all__ = ["History"]

Array = np.ndarray[Any, Any]
_TRIES = 5
_PLACE = "\0place"  # a column: the place of the row's key


class History(Exclusive):
    """What a job keeps under a path. One process writes it, any number read it.

    `aggregates` are those with functions of your own, if it keeps any: these are not on disk.
    """

    _mend = "open it again"

    def __init__(self, path: str | os.PathLike[str], *, aggregates: Sequence[Aggregate] = ()) -> None:
        self._files = HistoryFiles(path)
        self._kept: Kept = self._files.kept(aggregates)
        self._upto = dict.fromkeys(range(self._kept.buckets), -1)  # of each bucket, the last batch that was read
        self._parts: list[pa.Table] = []  # slots as they were read, to put together when someone looks at all of them
        self._versions: dict[tuple[int, int], int] = {}  # of slots and keys that were corrected
        self._places: dict[Any, int] = {}  # of keys
        self._watermark: int | None = None
        self._wheels: dict[str, Wheel] = {}
        self.refresh()

    # ------------------------------------------------------------------ what there is

    @exclusive
    def refresh(self) -> bool:
        """Take what was written since; whether there was anything. Wheels that were handed out move along."""
        keys = len(self._places)
        try:
            names, read = self._unread()
            if not names:
                return False
            # If this is interrupted, the next refresh repeats all of it.
            marks = [mark for _, mark in read if mark is not None]
            table, versions = self._news(together([table for table, _ in read]))
            upto = dict(self._upto)
            for _, last, bucket in names:
                upto[bucket] = max(upto[bucket], last)
            known = [] if self._watermark is None else [self._watermark]
            watermark = max(known + marks, default=None)
            fresh = not any(part.num_rows for part in self._parts)
            wheels = {} if fresh else self._moved_along(table, watermark)
        except BaseException as error:
            while len(self._places) > keys:
                self._places.popitem()
            self.undone(error)
            raise
        self._parts = [*self._parts, table]
        self._versions.update(versions)
        self._upto, self._watermark, self._wheels = upto, watermark, wheels
        return True

    def _unread(self) -> tuple[list[tuple[int, int, int]], list[tuple[pa.Table, int | None]]]:
        """The new files, by name, with their contents."""
        for attempt in range(_TRIES):
            names = [name for name in self._files.complete(self._kept.buckets) if name[1] > self._upto[name[2]]]
            try:
                return names, [self._files.read(name) for name in names]
            except FileNotFoundError:  # put together with others, since we looked
                if attempt == _TRIES - 1:
                    raise
                time.sleep(0.05)
        raise AssertionError("the last attempt returns or raises")

    def _moved_along(self, table: pa.Table, watermark: int | None) -> dict[str, Wheel]:
        """Give the new slots to the wheels that can take them, and return these. The others are rebuilt when asked.

        So are those that have taken the slots, if the refresh fails afterwards.
        """
        moved = {}
        for name in list(self._wheels):
            wheel = self._wheels[name]
            try:
                if self._moved(wheel, table, watermark):
                    moved[name] = wheel
            except Busy:  # has taken nothing
                raise
            except BaseException:
                del self._wheels[name]
                raise
            del self._wheels[name]
        return moved

    @property
    def aggregates(self) -> list[str]:
        return [a.output_name for a in self._kept.aggregates]

    @property
    def key(self) -> list[str]:
        """The names of the key columns."""
        return list(self._kept.key.names)

    @property
    def tick(self) -> int:
        """The length of a slot, in the unit of the stream's times."""
        return self._kept.tick

    @property
    def watermark(self) -> Any:
        """Up to where the past is complete, in whole ticks; None before there is one."""
        if self._watermark is None:
            return None
        upto = self._watermark // self._kept.tick * self._kept.tick
        return upto if pa.types.is_integer(self._kept.time) else pa.scalar(upto, self._kept.time).as_py()

    @reading
    def slots(self, every: int | None = None) -> pa.Table:
        """All slots that are complete: key columns, start, end, and the answer of each aggregate over the slot; or of
        slots rolled up to `every` so much time, a multiple of the tick."""
        kept = self._kept
        ticks, rest = divmod(kept.tick if every is None else every, kept.tick)
        if rest or ticks < 1:
            raise InvalidArgument(f"{every} is not a multiple of the tick, which is {kept.tick}")
        table = self._put_together()
        upto = (self._watermark or 0) // (kept.tick * ticks) * ticks
        table = table.filter(pc.less(table["slot"], upto))
        places = table[_PLACE].to_numpy()
        slot = table["slot"].to_numpy() // ticks
        distinct, of = np.unique(np.column_stack([slot, places]), axis=0, return_inverse=True)
        bounds = [
            to_arrow(np.ascontiguousarray((distinct[:, 0] + i) * ticks * kept.tick), None, pa.int64()).cast(kept.time)
            for i in (0, 1)
        ]
        first = np.zeros(len(distinct), np.int64)
        first[of.reshape(-1)] = np.arange(len(slot))
        columns = [table[name].take(to_arrow(first, None, pa.int64())) for name in self.key]
        names = [*self.key, "start", "end"]
        for i, a in enumerate(kept.aggregates):
            try:
                columns.append(_rolled(a, kept, table[str(i)].combine_chunks(), of.reshape(-1), len(distinct)))
            except Overflow as error:
                rows = pa.Table.from_arrays([*columns[: len(self.key)], *bounds], names[: len(self.key) + 2])
                raise located(error, partial(_slot_shown, a, rows)) from None
            names.append(a.output_name)
        return pa.Table.from_arrays([*columns[: len(self.key)], *bounds, *columns[len(self.key) :]], names)

    def __len__(self) -> int:
        """How many slots there are, of all keys."""
        # Any thread may call `repr` at any time, so it reads a list that is replaced and never changed.
        return int(self._table().num_rows)

    def __repr__(self) -> str:
        by = f" by {', '.join(self.key)}" if self.key else ""
        return f"<History {', '.join(self.aggregates)}{by}: {len(self):,} slots up to {self.watermark}>"

    # ------------------------------------------------------------------ asking

    @exclusive
    def wheel(self, aggregate: str | None = None) -> Wheel:
        """The wheel of an aggregate, with all that can be asked of one.

        It is a live view: until the next `refresh` it stays as it is, and then it either moves along to the new
        watermark as a whole, or stays behind for good as it was, because another took its place. Its `watermark` says
        which. One thread refreshes and asks; for a state that stays, open another `History`.
        """
        try:
            a = self._chosen(aggregate)
            if a.output_name not in self._wheels:
                self._wheels[a.output_name] = self._made(a)
            return self._wheels[a.output_name]
        except BaseException as error:
            self.undone(error)
            raise

    def query(self, start: Any, end: Any, *, aggregate: str | None = None, key: Any = None, keys: Any = None) -> Any:
        """The answer over [start, end), of all keys, of one or of some; None if there is no event."""
        return self.wheel(aggregate).query(start, end, key=key, keys=keys)

    def query_many(
        self, starts: Any, ends: Any, *, aggregate: str | None = None, key: Any = None, keys: Any = None
    ) -> pa.Array:
        return self.wheel(aggregate).query_many(starts, ends, key=key, keys=keys)

    def group_by(self, start: Any, end: Any, every: Any, *, aggregate: str | None = None, **options: Any) -> pa.Table:
        """The answers over the groups of [start, end): hours, days, months of a time zone, …"""
        return self.wheel(aggregate).group_by(start, end, every, **options)

    def by_key(self, start: Any, end: Any, *, aggregate: str | None = None) -> pa.Table:
        """The answers over [start, end), of each key by itself."""
        return self.wheel(aggregate).by_key(start, end)

    # ------------------------------------------------------------------ from slots to wheels

    def _chosen(self, name: str | None) -> Aggregate:
        kept = self._kept.aggregates
        if name is None:
            if len(kept) > 1:
                raise InvalidArgument(f"say which aggregate: {self.aggregates}")
            return kept[0]
        for a in kept:
            if a.output_name == name:
                return a
        raise UnknownColumn(f"this history keeps {self.aggregates}, not {name!r}")

    def _table(self) -> pa.Table:
        """All slots, each in its newest version."""
        parts = self._parts
        if len(parts) == 0:
            return self._nothing()
        if len(parts) == 1:
            return parts[0]
        return newest(together(parts), [_PLACE])

    def _put_together(self) -> pa.Table:
        """The same, cached until there is more."""
        table = self._table()
        if len(self._parts) > 1:
            self._parts = [table]
        return table

    def _news(self, table: pa.Table) -> tuple[pa.Table, dict[tuple[int, int], int]]:
        """The rows of a table that are new, with the places of keys; and the versions of corrected cells."""
        table = newest(table.append_column(_PLACE, to_arrow(self._encoded(table), None, pa.int64())), [_PLACE])
        slot, place, version = (table[name].to_numpy() for name in ("slot", _PLACE, "version"))
        new, versions = np.ones(len(slot), np.bool_), {}
        for i in range(len(slot)) if self._versions else np.flatnonzero(version > 0).tolist():
            cell = int(slot[i]), int(place[i])
            if version[i] < self._versions.get(cell, 0):
                new[i] = False
            elif version[i] > 0:
                versions[cell] = int(version[i])
        return table.filter(pa.array(new)), versions

    def _nothing(self) -> pa.Table:
        fields = [*self._kept.key, ("slot", pa.int64()), ("version", pa.int64()), (_PLACE, pa.int64())]
        for i, a in enumerate(self._kept.aggregates):
            m = a.monoid(self._kept.values(a), nullable=False)
            fields.append((str(i), pa.struct([(f.name, pa.int64()) for f in m.fields])))
        return pa.schema(fields).empty_table()

    def _made(self, a: Aggregate) -> Wheel:
        kept, table = self._kept, self._put_together()
        plain = pa.types.is_integer(kept.time)
        slot = table["slot"].to_numpy()
        start = int(slot.min()) if len(slot) else 0
        upto = max(start, (self._watermark or 0) // kept.tick)
        begin: Any = start * kept.tick if plain else np.datetime64(start * kept.tick, "us")
        tick: Any = kept.tick if plain else np.timedelta64(kept.tick, "us")
        wheel = Wheel(a, begin, tick=tick, keys=bool(self.key), unit="us")
        wheel._bind(kept.values(a))
        (cells,) = fitting(wheel, [self._cells(wheel, table)])
        cells = cells.where(cells.slots < upto)
        levels, totals = rolled_up(wheel, cells, start, upto)
        oldest = tuple(start // level.ticks for level in wheel.levels)
        ahead = cells.where(np.zeros(len(cells.slots), np.bool_))
        first = int(cells.slots.min()) if len(cells.slots) else start
        keys = tuple(self._places) if self.key else None
        assemble(wheel, Contents(start, upto, first, (), oldest, levels, totals, ahead, keys))
        return wheel

    def _cells(self, wheel: Wheel, table: pa.Table) -> Cells:
        """The partials of a wheel's aggregate, where there are any. Once there is one it does not go away: versions of
        a slot have more and more events."""
        struct = table[str(self.aggregates.index(wheel.aggregate.output_name))].combine_chunks()
        there = np.flatnonzero(struct.is_valid().to_numpy(zero_copy_only=False))
        chosen = struct.take(to_arrow(there, None, pa.int64()))
        partials = _partials(chosen, wheel._plain.wide or wheel._plain)
        return Cells(table["slot"].to_numpy()[there], table[_PLACE].to_numpy()[there], partials)

    def _moved(self, wheel: Wheel, table: pa.Table, watermark: int | None) -> bool:
        """Have a wheel take slots that are new or corrected; whether it could."""
        cells, upto = self._cells(wheel, table), (watermark or 0) // self._kept.tick
        if not can_revise(wheel, cells.slots) or (len(cells.slots) and int(cells.slots.max()) >= upto):
            return False
        new = [] if wheel.keys is None else [key for key in self._places if key not in wheel.keys.places]
        try:
            (cells,) = fitting(wheel, [cells])
            wheel._revise(cells, new, upto)
        except Interrupted:  # an earlier call of the wheel was interrupted
            return False
        return True

    def _encoded(self, table: pa.Table) -> Array:
        """The place of each row's key: a value, or a tuple of them if there are several columns."""
        found = self._places
        if not self.key:
            return np.zeros(table.num_rows, np.int64)
        if len(self.key) == 1:
            encoded = table[self.key[0]].combine_chunks().dictionary_encode(null_encoding="encode")
            places = [found.setdefault(value, len(found)) for value in encoded.dictionary.to_pylist()]
            found_at: Array = np.array(places, np.int64)[encoded.indices.to_numpy()]
            return found_at
        rows = zip(*(table[name].to_pylist() for name in self.key), strict=True)
        return np.fromiter((found.setdefault(row, len(found)) for row in rows), np.int64, table.num_rows)


def _rolled(a: Aggregate, kept: Kept, struct: pa.StructArray, of: Array, groups: int) -> pa.Array:
    """The answer over each group of slots; null where there is no value in any of them."""
    m = a.monoid(kept.values(a), nullable=False)
    m = m.wide or m
    there = np.flatnonzero(struct.is_valid().to_numpy(zero_copy_only=False))
    chosen = struct.take(to_arrow(there, None, pa.int64()))
    partials = _partials(chosen, m)
    rolled = combined(m, [Cells(of[there], np.zeros(len(there), np.int64), partials)])
    answers = evaluation.empty_answers(m, len(rolled.slots))
    if len(rolled.slots):
        evaluation.lower_many(m, rolled.partials, answers)
    places = np.full(groups, -1, np.int64)
    places[rolled.slots] = np.arange(len(rolled.slots))
    index = pa.array(places, mask=places < 0)
    try:
        return evaluation.finish(m, answers).take(index)
    except Overflow as error:
        if error.row is not None:
            error.row = int(rolled.slots[error.row])
        raise


def _slot_shown(a: Aggregate, rows: pa.Table, row: int) -> str:
    """An answer's place in words: `sum(fare), city='oslo', slot [start, end)`."""
    *key, start, end = (rows[name][row] for name in rows.column_names)
    named = [f"{name}={value.as_py()!r}" for name, value in zip(rows.column_names, key, strict=False)]
    return ", ".join([a.output_name, *named, f"slot [{start}, {end})"])


def _partials(struct: pa.StructArray, m: Monoid) -> Columns:
    """The fields of partials. Sums written before they had a second field get 0 there."""
    found = []
    for field in m.fields:
        at = struct.type.get_field_index(field.name)
        found.append(
            np.zeros(len(struct), field.dtype) if at < 0 and field == HIGH else unpacked(struct.field(at), field)
        )
    return tuple(found)
