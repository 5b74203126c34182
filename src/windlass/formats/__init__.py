"""What leaves the process: the declared records, and the two things that they are in.

A *record* says what a state is: its fields, their types, ranges and invariants, and a version. Engines, stores and
wheels convert to their records and back. Only here is it said what bytes mean.

    container.py      binary: a head, parts, a digest of it all
    document.py       text: JSON with a checksum
    kinds.py          what a field can be, as JSON
    arrays.py         what a field can be, as a part of a container
    tagged_json.py    Python objects as JSON
    record.py         a record, and how it is read and written
    operator.py, query.py, store.py, spark.py, wheel.py      the declarations
    page.py           the declarations in words, for `docs/formats.md`
    inspection.py     what a file or a directory is: `windlass inspect`
"""

from windlass.formats.operator import FINE_GRAINED, OPERATOR
from windlass.formats.query import QUERY
from windlass.formats.record import Record
from windlass.formats.spark import BLOCK, HEAD, STEP
from windlass.formats.store import STORE
from windlass.formats.wheel import WHEEL, WHEEL_MANIFEST, WHEEL_SHARED, WHEEL_STATE

__all__ = ["Record", "records"]


def records() -> tuple[Record, ...]:
    """All records that this version of Windlass writes."""
    return (
        OPERATOR,
        FINE_GRAINED,
        STORE,
        HEAD,
        STEP,
        BLOCK,
        QUERY,
        WHEEL,
        WHEEL_MANIFEST,
        WHEEL_STATE,
        WHEEL_SHARED,
    )
