"""What leaves the process: the declared records, and the two things that they are in.

A *record* says what a state is: its fields, their types, ranges and invariants, and a version. Engines, stores and
wheels convert to their records and back, here and nowhere else is it said what bytes mean.

    container.py      binary: a head, parts, a digest of it all
    document.py       text: JSON with a checksum
    kinds.py          what a field can be, as JSON
    arrays.py         what a field can be, as a part of a container
    tagged_json.py    Python objects as JSON
    record.py         a record, and how it is read and written
    store.py …        the declarations, a family each
"""

from windlass.formats.record import Record
from windlass.formats.store import STORE

__all__ = ["Record", "records"]


def records() -> tuple[Record, ...]:
    """All records that this version of Windlass writes."""
    return (STORE,)
