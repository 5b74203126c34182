"""What every store is, whatever its technique: an aggregate bound to types, state that is checked, saved and undone.

A store binds to the types of its columns with the first values it sees (or with `dtype=`), makes the aggregate's monoid
for them, and compiles the technique for that monoid on first use. Everything is checked before the state changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Answers, Events
from windlass.aggregates.input import read_columns
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.overflow import LIMIT, greatest, greatest_signed, located, widened
from windlass.aggregates.values import FLOAT64, INT64, OBJECT, ValueType, scalar, type_of, value_type
from windlass.errors import CorruptSnapshot, InvalidArgument, Overflow, UnsupportedAggregate, WrongType
from windlass.exclusive import Exclusive, reading, restoring
from windlass.kernels import CannotCompile
from windlass.stores.journal import Journal
from windlass.stores.layout import Layout
from windlass.stores.rounds import Function
from windlass.stores.snapshot import pack, take_over

SMALLEST, MOST = 16, 1 << 40  # events
_NO_NULLS = np.zeros(0, np.bool_)


class Bound(Layout, Exclusive):
    """A window of events as partials of one aggregate. Subclasses say what can be done with it."""

    costs: ClassVar[str] = ""
    subtractable: ClassVar[bool] = False  # needs the aggregate's inverse
    needs_identity: ClassVar[bool] = False  # combines slots that hold no event
    layout: ClassVar[int] = 1  # raised when the meaning of a snapshot's arrays changes
    _as_it_is: np.dtype[Any] | None = None  # the dtype of NumPy values that kernels take without conversion
    _is_plain: bool = False  # the result column is the answer
    _watches: bool = False  # sums may leave 64 bits later; until then partials have one field
    _always_fits: ClassVar[int] = LIMIT // MOST - 1  # values up to this: their sum over any window is below 2^63
    _size: int = 0  # the greatest |x|, once one was above that; a window's Σ|x| is at most this times its length
    _journal: Journal | None = None  # of the current change, if it consists of interpreted steps
    _kept: dict[str, Any] | None = None  # the attributes before a kernel wrote, if that may be undone
    _has_written: bool = False  # whether compiled code has begun to write to the arrays in this call

    def __init__(
        self, aggregate: Aggregate, *, dtype: Any = None, nullable: bool | None = None, capacity: int | None = None
    ) -> None:
        if not isinstance(aggregate, Aggregate):
            raise UnsupportedAggregate(
                f"{type(self).__name__} needs an aggregate such as agg.sum(), got {type(aggregate).__name__}"
            )
        self.aggregate = aggregate
        self._check_aggregate()
        if nullable is not None and not isinstance(nullable, bool):
            raise InvalidArgument(f"nullable must be True, False or None, got {nullable!r}")
        self._nullable = nullable
        self._fixed_types: tuple[ValueType, ...] | None = None  # what dtype= said
        self._reserved = count_of(capacity, "capacity") if capacity is not None else 0
        if dtype is not None or not aggregate.columns:
            given = dtype if isinstance(dtype, tuple | list) else [dtype] * len(aggregate.columns)
            self._fixed_types = tuple(value_type(t) for t in given)
            self._bind(self._fixed_types, bool(nullable))

    def _check_aggregate(self) -> None:
        if self.subtractable and not self.aggregate.invertible:
            raise UnsupportedAggregate(
                f"{type(self).__name__} subtracts what leaves the window, and {self.aggregate!r} has no inverse; "
                "use TwoStacks, DABA, FlatFIT, FlatFAT or BInt"
            )

    # ------------------------------------------------------------------ snapshots and looks

    @reading
    def snapshot(self) -> bytes:
        """The whole state as bytes: checked, versioned, and free of pickled code."""
        return pack(self)

    @restoring
    def restore(self, data: bytes) -> Self:
        """Take over a snapshot of the same technique and aggregate. Anything else is refused, and nothing changes."""
        fresh = type(self)(self.aggregate, nullable=self._nullable, capacity=self._reserved or None)
        take_over(fresh, data)
        if self._fixed_types is not None and fresh._monoid is not None and fresh._monoid.inputs != self._fixed_types:
            found = ", ".join(map(str, fresh._monoid.inputs))
            raise CorruptSnapshot(
                f"the snapshot holds values of {found}, and this store was constructed for another dtype"
            )
        fresh._fixed_types = self._fixed_types
        self.__dict__ = fresh.__dict__
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        make, arguments = self.__reduce__()
        return cast(Self, make(*arguments))

    def __reduce__(self) -> Any:
        options = {"nullable": self._nullable, "capacity": self._reserved or None}
        return _unpickled, (type(self), self.aggregate, options, self.snapshot())

    @property
    def mode(self) -> str:
        """`compiled`, or `interpreted: why`; `unbound` before the first value."""
        if self._monoid is None:
            return "unbound"
        return "compiled" if self._monoid.is_compiled else f"interpreted: {self._monoid.interpreted}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.aggregate!r}: {len(self)} events, {self.mode}>"

    # ------------------------------------------------------------------ binding

    def _bind(self, types: Sequence[ValueType], nullable: bool) -> None:
        """Fix the types of the columns; done by the first values unless `dtype` was given."""
        monoid = self.aggregate.monoid(
            types, nullable=nullable, subtractable=self.subtractable, identity=self.needs_identity
        )
        self._install(monoid, self._reserved)
        self._watches = monoid.wide is not None
        # What needs no conversion is told now: small batches would spend more time on finding out than on events.
        one = monoid.inputs[0] if len(monoid.inputs) == 1 and monoid.is_compiled and not monoid.nullable else None
        natural = one is not None and one.dtype in (INT64, FLOAT64) and value_type(one.dtype) == one
        self._as_it_is = np.dtype(one.dtype) if one is not None and natural else None
        result, given = value_type(monoid.result), monoid.result_fields[0].dtype
        self._is_plain = monoid.finish is None and result.dtype == given and result.is_number

    # ------------------------------------------------------------------ overflow

    def _watch(self, size: int, events: int, window: int | None = None) -> None:
        """Widen the sums before a batch of `events` values with |x| <= `size`, if they could overflow 64 bits.

        From this batch on, no more than `window` events stay in the window.
        """
        if size <= self._always_fits and not self._size:
            return
        self._size = max(self._size, size)
        most = len(self) + events if window is None else max(window, len(self))
        if self._size * most >= LIMIT:
            self._widen()

    def _widen(self) -> None:
        self.__dict__.update(self._widened())  # in one step, so that an interruption finds all or nothing done

    def _widened(self) -> dict[str, Any]:
        """The attributes that change when the sums are widened."""
        m = self._bound
        assert m.wide is not None
        changed: dict[str, Any] = {name: widened(m, getattr(self, name)) for name in self._partials}
        return changed | {"_monoid": m.wide, "_watches": False, "_is_plain": False}

    _partials: ClassVar[tuple[str, ...]] = ("_ring", "_running")  # attributes that are columns of partials

    def _bind_to_values(self, values: Sequence[Any]) -> None:
        types = []
        for value in values:
            if value is None:
                raise InvalidArgument(
                    f"the first value is null, so its type is unknown; construct {type(self).__name__}(…, dtype=…)"
                )
            try:
                types.append(type_of(value))
            except MemoryError:
                raise
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise WrongType(f"{value!r} is not a value Windlass can aggregate: {error}") from error
        self._bind(types, True if self._nullable is None else self._nullable)

    def _refuse_nulls_unless_nullable(self, m: Monoid) -> None:
        if not m.nullable:
            raise InvalidArgument(
                f"got a null, but this {type(self).__name__} was bound to values without nulls; "
                "construct it with nullable=True"
            )

    # ------------------------------------------------------------------ kernels

    def _run(
        self, function: Function, state: tuple[Any, ...], arguments: tuple[Any, ...], bulk: bool, writes: bool = True
    ) -> Any:
        """Run a kernel of this store's monoid, compiled or interpreted, and say what went wrong."""
        if not self._bound.is_compiled:
            return self._interpret(function, state, arguments, bulk)
        had_written = self._has_written
        if writes:
            self._has_written = True
        try:
            return function(state, *arguments)
        except CannotCompile as error:  # nothing has run
            self._has_written = had_written
            raise UnsupportedAggregate(
                f"numba cannot compile {type(self).__name__} for {self.aggregate!r}: {error}; "
                "an aggregate of your own can be defined with compile=False"
            ) from error

    def _interpret(self, function: Function, state: tuple[Any, ...], arguments: tuple[Any, ...], bulk: bool) -> Any:
        """Run a step in Python and note its changes in the journal of the current change.

        A single step outside a change undoes itself if it raises.
        """
        with np.errstate(all="ignore"):  # as in compiled code: NaN and infinity are data, integers wrap
            if self._journal is not None:
                return function(self._journal.noting(state), *arguments)
            if bulk:
                return function(state, *arguments)
            journal = Journal()
            try:
                return function(journal.noting(state), *arguments)
            except BaseException:
                journal.undo()
                raise

    def _is_compiled(self) -> bool:
        """Whether the store is bound and compiled, so that writes of kernels cannot be undone."""
        return self._monoid is not None and self._monoid.is_compiled

    def _copies(self) -> dict[str, Any]:
        """The arrays of the state, copied; by attribute."""
        raise NotImplementedError

    @reading
    def copied(self) -> Self:
        """A copy that shares no memory. Calls no function of the aggregate."""
        other: Self = type(self).__new__(type(self))
        other.__dict__ = self.__dict__ | self._copies()
        return other

    def _keep_if_answers_may_not_fit(self) -> None:
        """Keep the state before a kernel that writes and answers: if an answer overflows, the writes must be undone."""
        if self._bound.may_not_fit and self._is_compiled():
            self._kept = self.__dict__ | self._copies()

    def _all_or_nothing(self, bulk: bool = False) -> _Change:
        """Undo a change that raises: the store is neither bound to the refused values nor grown, and took no event.

        If compiled code was interrupted while it wrote, the store is broken.
        """
        try:
            return _Change(self, bulk)
        except BaseException as error:  # nothing has changed yet
            self.undone(error)
            raise

    # ------------------------------------------------------------------ values in, answers out

    def _event(self, values: Sequence[Any]) -> Events:
        """One event, given as a value a column."""
        width = len(self.aggregate.columns)
        if len(values) != width and not (width == 0 and len(values) == 1):
            raise InvalidArgument(f"{self.aggregate!r} takes {width} value(s) an event, got {len(values)}")
        if self._monoid is None:
            self._bind_to_values(values)
        m = self._bound
        items = [scalar(v, t) for v, t in zip(values, m.inputs, strict=False)]
        missing = any(item is None for item in items)
        if missing:
            self._refuse_nulls_unless_nullable(m)
        if self._watches and not missing:
            self._watch(abs(int(items[0])), 1)
        columns = tuple(_one(item, t, as_object=not m.is_compiled) for item, t in zip(items, m.inputs, strict=True))
        return columns, np.array([not missing]), 1

    def _read(self, values: Any, window: int | None = None) -> tuple[Events, bool]:
        """The events, and whether they came as Arrow. No more than `window` of them stay in the window."""
        if type(values) is np.ndarray and values.dtype is self._as_it_is and values.ndim == 1:
            values = values if values.flags.c_contiguous else np.ascontiguousarray(values)
            n = len(values)
            if self._watches:
                size = greatest_signed()(values) + 1 if n != 1 else abs(values.item(0))
                if size > self._always_fits or self._size:  # otherwise `_watch` would return at once
                    self._watch(size, n, window)
            return ((values,), _NO_NULLS, n), False
        types = self._monoid.inputs if self._monoid is not None else None
        read = read_columns(self.aggregate, values, types)
        if self._monoid is None:
            nullable = self._nullable if self._nullable is not None else read.may_be_null
            self._bind([c.type for c in read.columns], nullable)
        m = self._bound
        if any(c.valid is not None for c in read.columns):
            self._refuse_nulls_unless_nullable(m)
        if self._watches:
            self._watch(greatest(read.columns[0].values), read.length, window)
        return evaluation.events_of(m, read.columns, read.length), read.arrow

    def _answers(self, n: int) -> Answers:
        return evaluation.empty_answers(self._bound, n)

    def _finish(self, answers: Answers) -> pa.Array:
        try:
            return evaluation.finish(self._bound, answers)
        except Overflow as error:
            raise located(error, self._place_of) from None
        except MemoryError:
            raise
        except pa.ArrowException as error:
            raise WrongType(f"an answer of {self.aggregate!r} does not fit {self._bound.result}: {error}") from error

    def _place_of(self, row: int) -> str:
        return f"answer {row} of {self.aggregate!r} by {type(self).__name__}"

    def _present(self, answers: Answers, arrow: bool) -> Any:
        columns, defined = answers
        if arrow:
            return self._finish(answers)
        if self._is_plain and (len(defined) == 0 or bool(defined.all())):
            return columns[0]
        return self._finish(answers).to_numpy(zero_copy_only=False)

    def _empty_answer(self) -> Any:
        return None if self._monoid is None else evaluation.answer_of_nothing(self._monoid)


class _Change:
    """A change of a store, undone unless it completes.

    The attributes are put back by one assignment. Where code is interpreted, arrays are put back from a journal, or in
    bulk from copies made before. Compiled code has neither: after it has written, only arrays that this change has made
    itself can be dropped.
    """

    __slots__ = ("before", "journal", "store")

    def __init__(self, store: Bound, bulk: bool) -> None:
        monoid = store._monoid
        self.store, self.journal = store, None
        self.before = dict(store.__dict__)
        if monoid is not None and not monoid.is_compiled:
            if bulk:
                self.before |= store._copies()
            else:
                self.journal = Journal()

    def __enter__(self) -> None:
        self.store._journal, self.store._has_written = self.journal, False

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        store = self.store
        kept, store._kept = store._kept, None
        if error is None:
            store._journal = None
            return
        if kept is not None:
            store.__dict__ = kept
            store.undone(error)
            return
        if store._has_written and self.before.get("_monoid") is not None:
            store.unfinished(error)
            return
        if self.journal is not None:
            self.journal.undo()
        store.__dict__ = self.before
        store.undone(error)


def _one(item: Any, type_: ValueType, as_object: bool) -> np.ndarray[Any, Any]:
    """A column of one value, or of anything where it is null."""
    array = np.zeros(1, OBJECT if as_object else type_.dtype)
    if item is not None:
        array[0] = item.item() if isinstance(item, np.generic) and as_object else item
    return array


def count_of(value: Any, what: str, least: int = 1) -> int:
    if type(value) is int and least <= value <= MOST:
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidArgument(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise InvalidArgument(f"{what} must be at least {least}, got {value}")
    if value > MOST:
        raise InvalidArgument(f"{what} must be at most {MOST}, got {value}")
    return int(value)


def _unpickled(technique: type[Bound], aggregate: Aggregate, options: dict[str, Any], data: bytes) -> Bound:
    return technique(aggregate, **options).restore(data)
