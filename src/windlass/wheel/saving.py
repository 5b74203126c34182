"""save and open: a wheel in a directory, by the slots that are new since it was last there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Monoid
from windlass.errors import CorruptSnapshot, InvalidArgument
from windlass.private_directories import create_private
from windlass.wheel import settings
from windlass.wheel.contents import Cells, Contents, assemble, contents, fitting, rolled_up
from windlass.wheel.files import Directory, Form, names_of, partials_from_arrow, partials_to_arrow
from windlass.wheel.slots import NEXT

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel

_TOTAL, _AHEAD = -1, -2  # as levels, in the table of the state


def save(w: Wheel, path: str | os.PathLike[str], form: Form) -> int:
    """Write what is new; gives the number of the commit."""
    if w._monoid is None:
        raise InvalidArgument(
            "a wheel that has seen no event and was given no dtype cannot be saved: its types are unknown"
        )
    w._flush()
    try:
        return _commit(w, path, form)
    except BaseException as error:
        w.undone(error)  # the next save takes the same number and replaces these files
        raise


def _commit(w: Wheel, path: str | os.PathLike[str], form: Form) -> int:
    directory, name = Directory(path), str(Path(path).resolve())
    known, commits = w._saved.get(name), directory.commits
    ours = [
        w._saving.get(name),
        None if known is None else known[0],
    ]  # an interrupted save may or may not have been committed
    if commits and commits[-1] not in ours:
        raise InvalidArgument(
            f"{path} holds another wheel, or a later state of this one; save to a directory of its own"
        )
    number = w._saving.get(name, commits[-1] + 1 if commits else 0)
    w._saving[name] = number
    if not commits:
        create_private(Path(path))
        settings.write(Path(path), w)
    c = contents(w, None if known is None else known[1])
    m, keyed = w._bound, w.keys is not None
    slots = {l: _table(m, cells, keyed, number) for l, cells in enumerate(c.levels) if len(cells.slots)}
    state = pa.concat_tables(
        [_table(m, cells, True, level) for level, cells in ((_TOTAL, c.totals), (_AHEAD, c.ahead))]
    )
    directory.commit(
        number,
        slots,
        state,
        form,
        watermark=c.watermark,
        start=c.start,
        first=c.first,
        oldest=list(c.oldest),
        gaps=[list(gap) for gap in c.gaps],
        keys=None if c.keys is None else list(c.keys),
        late=w.late,
    )
    w._saved[name] = number, tuple(w._slots.get(l, NEXT) for l in range(len(w.levels)))
    del w._saving[name]
    return number


def restore(path: str | os.PathLike[str], aggregate: Aggregate, memory_map: bool) -> Wheel:
    """A wheel as it was saved last."""
    from windlass.wheel.wheel import Wheel

    found = settings.read(Path(path), aggregate)
    tables, state, manifest = Directory(path).read(memory_map)
    if state is None:
        raise CorruptSnapshot(f"{path} has no manifest, so nothing was ever saved there")
    m = found.monoid
    w = Wheel._from_settings(found)
    nothing = _cells(m, state.slice(0, 0), found.keyed)
    levels = tuple(_cells(m, tables[l], found.keyed) if l in tables else nothing for l in range(len(w.levels)))
    kind = state["version"].to_numpy()
    totals, ahead = (_cells(m, state.filter(pa.array(kind == level)), True) for level in (_TOTAL, _AHEAD))
    keys = None if manifest["keys"] is None else tuple(manifest["keys"])
    gaps = tuple((a, b) for a, b in manifest["gaps"])
    start, watermark, first = (manifest[name] for name in ("start", "watermark", "first"))
    c = Contents(start, watermark, first, gaps, tuple(manifest["oldest"]), levels, totals, ahead, keys)
    assemble(w, _derived(w, c) if manifest["corrects"] else c)
    w.late = manifest["late"]
    w._saved[str(Path(path).resolve())] = manifest["number"], tuple(w._slots.get(l, NEXT) for l in range(len(w.levels)))
    return w


def _derived(w: Wheel, c: Contents) -> Contents:
    """The same, of which slots of the lowest level were corrected: what is rolled up is derived from these again."""
    (cells,) = fitting(w, c.levels[:1])
    levels, totals = rolled_up(w, cells, c.start, c.watermark)
    gaps = tuple((a, b) for a, b in c.gaps if not ((cells.slots >= a) & (cells.slots < b)).any())
    first = min(c.first, int(cells.slots.min())) if len(cells.slots) else c.first
    return replace(c, first=first, gaps=gaps, levels=levels, totals=totals)


def _table(m: Monoid, cells: Cells, keyed: bool, version: int) -> pa.Table:
    columns: dict[str, Any] = {"slot": pa.array(cells.slots.astype(np.int64))}
    if keyed:
        columns["key"] = pa.array(cells.keys.astype(np.int64))
    columns["version"] = pa.array(np.full(len(cells.slots), version, np.int64))
    return pa.table(columns | partials_to_arrow(m, cells.partials))


def _cells(m: Monoid, table: pa.Table, keyed: bool) -> Cells:
    slots = table["slot"].to_numpy()
    keys = table["key"].to_numpy() if keyed else np.zeros(len(slots), np.int64)
    is_wide = m.wide is not None and set(names_of(m.wide)) <= set(table.column_names)
    return Cells(slots, keys, partials_from_arrow(m.wide if m.wide is not None and is_wide else m, table))
