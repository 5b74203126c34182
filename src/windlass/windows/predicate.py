"""A condition on events: the name of a boolean column, an Arrow expression, or a function of the table.

    Predicate.of("is_closing")
    Predicate.of(pc.field("price") < 10)
    Predicate.of(lambda table: pc.less(table["price"], 10))

A null is no, as in SQL. Two predicates are equal if they name the same column, if their expressions are the same, or if
they are the same function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windlass.errors import InvalidArgument, UnknownColumn, WrongType

__all__ = ["Condition", "Predicate"]

Condition: TypeAlias = "str | pc.Expression | Callable[[pa.Table], Any] | Predicate"


class Predicate:
    """A condition, checked to be one; `mask` says which rows of a table meet it."""

    __slots__ = ("condition",)

    def __init__(self, condition: Any) -> None:
        self.condition = condition

    @classmethod
    def of(cls, condition: Condition) -> Predicate:
        if isinstance(condition, Predicate):
            return condition
        if isinstance(condition, str):
            if not condition:
                raise InvalidArgument("a predicate's column needs a name, got ''")
        elif not isinstance(condition, pc.Expression) and not callable(condition):
            raise WrongType(
                "a predicate is the name of a boolean column, a pyarrow.compute.Expression or a function of the table, "
                f"got {type(condition).__name__}"
            )
        return cls(condition)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns it reads; None if only evaluating it on the whole table can tell."""
        return (self.condition,) if isinstance(self.condition, str) else None

    def mask(self, table: pa.Table | pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each row whether it meets the condition."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if isinstance(self.condition, str):
            found = _column(table, self.condition)
        elif isinstance(self.condition, pc.Expression):
            found = _evaluated(table, self.condition)
        else:
            try:
                found = self.condition(table)
            except Exception as error:
                error.add_note(f"raised by the predicate {self}, given a table of {table.num_rows} rows")
                raise
        return self._booleans(found, table.num_rows)

    def _booleans(self, found: Any, rows: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if isinstance(found, np.ndarray) and found.dtype == np.bool_ and found.ndim == 1:
            mask = found
        else:
            mask = self._from_arrow(found)
        if len(mask) != rows:
            raise InvalidArgument(f"predicate {self} gave {len(mask)} answers for {rows} rows; it must give one a row")
        return mask

    def _from_arrow(self, found: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if not isinstance(found, pa.Array | pa.ChunkedArray):
            try:
                found = pa.array(found)
            except MemoryError:  # Arrow's is an ArrowException, too
                raise
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise WrongType(
                    f"predicate {self} must give an array of booleans, got {type(found).__name__}"
                ) from error
        if isinstance(found.type, pa.DictionaryType):
            found = found.cast(found.type.value_type)
        if pa.types.is_null(found.type):
            return np.zeros(len(found), np.bool_)
        if not pa.types.is_boolean(found.type):
            raise WrongType(f"predicate {self} must give booleans, got {found.type}")
        if found.null_count:
            found = pc.fill_null(found, False)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        answers: np.ndarray[Any, np.dtype[np.bool_]] = np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
        return answers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicate):
            return NotImplemented
        mine, theirs = self.condition, other.condition
        if isinstance(mine, pc.Expression) and isinstance(theirs, pc.Expression):
            return bool(mine.equals(theirs))
        if isinstance(mine, str) and isinstance(theirs, str):
            return mine == theirs
        return mine is theirs

    def __hash__(self) -> int:
        return hash(str(self.condition) if isinstance(self.condition, str | pc.Expression) else id(self.condition))

    def __repr__(self) -> str:
        if isinstance(self.condition, str):
            return repr(self.condition)
        if isinstance(self.condition, pc.Expression):
            return str(self.condition)
        return str(getattr(self.condition, "__name__", None) or repr(self.condition))


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if table.column_names.count(name) != 1:
        state = "is there more than once" if name in table.column_names else "does not exist"
        raise UnknownColumn(f"the predicate's column {name!r} {state}; the columns are {table.column_names}")
    return table.column(name)


def _evaluated(table: pa.Table, expression: pc.Expression) -> pa.ChunkedArray:
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["met"]), inputs=[source])
    try:
        # One thread: only then do the rows come back in their order.
        return project.to_table(use_threads=False).column("met")
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except pa.ArrowException as error:
        if "FieldRef" in str(error):
            raise UnknownColumn(
                f"the predicate {expression} names a column that does not exist; the columns are {table.column_names}"
            ) from error
        raise WrongType(f"the predicate {expression} cannot be evaluated: {error}") from error
