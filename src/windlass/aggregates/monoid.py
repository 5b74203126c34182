"""A monoid: an aggregate made concrete for the types of its columns. This is what stores and kernels work with.

A partial is a tuple, one item a field. The functions take and return such tuples and must not change what they
are given:

    lift(v, …)      the partial of one event
    combine(a, b)   ⊕, associative; `a` is the older part
    lower(p)        the answer, as a tuple of result columns
    identity()      combine(identity(), a) == a == combine(a, identity())
    inverse(c, a)   ⊖: takes the oldest part off again, inverse(combine(a, b), a) == b
    selects(a, b)   for selective aggregates: whether a ⊕ b is b (else it is a)
    defined(p)      whether there is an answer (var_samp of one event has none); None: always, given a value
    seen(p)         whether there was a value at all, where the fields can tell (avg keeps a count)
    gather(v, …)    the partial of a whole array of events at once, where that beats lifting them one by one
    unite([p, …])   the partial of several, oldest first, which may put off combining them until someone looks
    scan(c, i, j)   the combination of rows i … j - 1 of columns of partials at once (µWheel's combine_simd)
    vectorised      pairs of lift or lower, where it is costly (logarithms), and the same function for loops that do
                    nothing else: without branches and calls, LLVM makes vector instructions of it. The last place of
                    its results may differ

Nulls are not the functions' business: a null value becomes the identity. Where the answer over nothing but nulls
is null, and the fields cannot tell, `optional` adds one that can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import BOOL, INT64, OBJECT, ValueType, to_arrow, value_type
from windlass.kernels import Field, digest
from windlass.kernels.digests import Undigestible

Function = Callable[..., Any]
Columns = tuple[np.ndarray[Any, Any], ...]

_serials = count()


_DIGITS_MORE = 12  # digits that a sum of 10^12 decimals gains at most


@dataclass(frozen=True)
class Monoid:
    inputs: tuple[ValueType, ...]
    fields: tuple[Field, ...]
    lift: Function
    combine: Function
    lower: Function
    identity: Function
    result: pa.DataType
    results: tuple[Field, ...] = ()
    finish: Callable[[Columns, np.ndarray[Any, Any] | None], pa.Array] | None = None
    inverse: Function | None = None
    selects: Function | None = None
    defined: Function | None = None
    seen: Function | None = None
    gather: Function | None = None
    unite: Function | None = None
    scan: Function | None = None
    vectorised: tuple[tuple[Function, Function], ...] = ()
    has_identity: bool = True  # False: identity() only fills memory, ⊕ must never see it
    answers_empty: bool = False  # lower(identity()) is an answer: count of nothing is 0
    wraps: bool = False  # ⊕ adds modulo 2^64 or 2^128, so ⊖ is exact after any number of ⊕
    wide: Monoid | None = None  # the form with one more field, for sums that may leave 64 bits: see `overflow`
    can_overflow: bool = False  # an answer that overflows its type raises; for decimals see `may_not_fit`
    nullable: bool = False
    commutative: bool = True
    interpreted: str | None = None  # why kernels run interpreted; None: compiled
    allocates: bool = False
    encode: Callable[[Any], Any] | None = None  # a Python-object field as plain data, for snapshots
    decode: Callable[[Any], Any] | None = None

    @cached_property
    def result_fields(self) -> tuple[Field, ...]:
        """The columns that `lower` fills; a single one of the result's own dtype unless said otherwise."""
        return self.results or (Field("value", _result_dtype(self.result)),)

    @cached_property
    def may_not_fit(self) -> bool:
        """Whether an answer can overflow its type and raise."""
        if self.can_overflow or self.finish is not None or not pa.types.is_decimal(self.result):
            return self.can_overflow
        digits = max((t.arrow.precision for t in self.inputs if t.is_decimal), default=0)
        return bool(digits + _DIGITS_MORE > self.result.precision)

    @cached_property
    def is_compiled(self) -> bool:
        return self.interpreted is None

    @cached_property
    def own_kernels(self) -> dict[Any, Function]:
        """Kernels that no other monoid can share: interpreted ones, and those whose functions have no digest."""
        return {}

    @cached_property
    def key(self) -> str | None:
        """Names what this monoid computes; monoids of one key share compiled kernels. None if it cannot be named."""
        parts = [
            self.lift,
            self.combine,
            self.lower,
            self.identity,
            self.inverse,
            self.selects,
            self.defined,
            self.scan,
        ]
        shape = (
            tuple((f.name, f.dtype.str, f.shape) for f in self.fields + self.result_fields),
            tuple(t.dtype.str for t in self.inputs),
            self.nullable,
            self.is_compiled,
            self.allocates,
            self.commutative,
            len(self.vectorised),  # what they compute, lift and lower say
        )
        try:
            return ":".join([*(digest(part) for part in parts if part is not None), digest_of(shape)])
        except Undigestible:
            return f"unnamed {next(_serials)}"  # not id(self): kernels outlive the monoids they were made for

    @property
    def partial_nbytes(self) -> int:
        return sum(field.nbytes for field in self.fields)

    def allocate(self, slots: int) -> Columns:
        return tuple(field.allocate(slots) for field in self.fields)

    def answers(self, columns: Columns, defined: np.ndarray[Any, Any] | None) -> pa.Array:
        """Lowered result columns as one Arrow array."""
        if self.finish is not None:
            return self.finish(columns, defined)
        return to_arrow(columns[0], defined, self.result)

    def apart(self) -> Monoid:
        """The same aggregate for loops that do nothing but lift, or lower; itself, if it has no other functions for
        them. Whoever has replaced lift or lower gets what they have put there."""
        lift, lower = self.lift, self.lower
        for function, vectorised in self.vectorised:
            lift = vectorised if function is self.lift else lift
            lower = vectorised if function is self.lower else lower
        return self if lift is self.lift and lower is self.lower else replace(self, lift=lift, lower=lower)

    def with_identity(self) -> Monoid:
        """The same aggregate with a true identity, adjoined where its functions have none."""
        return self if self.has_identity else _with_identity(self)

    def optional(self) -> Monoid:
        """The same aggregate over values that may be null."""
        if self.nullable:
            return self
        if not self.has_identity:
            return self.with_identity().optional()
        if self.defined is not None or self.answers_empty:
            return replace(self, nullable=True)
        if self.seen is not None:
            return replace(self, nullable=True, defined=self.seen)
        return _with_validity(self)


def digest_of(value: Any) -> str:
    return digest(lambda: value)


def _result_dtype(result: pa.DataType) -> np.dtype[Any]:
    return value_type(result).dtype


def _with_validity(m: Monoid) -> Monoid:
    """Adjoin what tells "no value yet": a count where partials are subtracted, else a flag (which stays selective)."""
    base_lift, base_combine, base_lower, base_identity = m.lift, m.combine, m.lower, m.identity
    base_inverse, base_selects = m.inverse, m.selects
    inverse: Function | None = None
    selects: Function | None = None

    if base_inverse is not None:
        extra = Field("valid", INT64)

        def lift(*values: Any) -> Any:
            return base_lift(*values) + (1,)

        def combine(a: Any, b: Any) -> Any:
            return base_combine(a[:-1], b[:-1]) + (a[-1] + b[-1],)

        def identity() -> Any:
            return base_identity() + (0,)

        def inverse_(c: Any, a: Any) -> Any:
            return base_inverse(c[:-1], a[:-1]) + (c[-1] - a[-1],)

        def defined(p: Any) -> Any:
            return p[-1] > 0

        inverse = inverse_
    else:
        extra = Field("valid", BOOL)

        def lift(*values: Any) -> Any:
            return base_lift(*values) + (True,)

        def combine(a: Any, b: Any) -> Any:
            return base_combine(a[:-1], b[:-1]) + (a[-1] | b[-1],)

        def identity() -> Any:
            return base_identity() + (False,)

        def defined(p: Any) -> Any:
            return p[-1]

    if base_selects is not None:

        def selects_(a: Any, b: Any) -> Any:
            return (not a[-1]) or (b[-1] and base_selects(a[:-1], b[:-1]))

        selects = selects_

    def lower(p: Any) -> Any:
        return base_lower(p[:-1])

    return replace(
        m,
        wide=None if m.wide is None else _with_validity(m.wide),
        fields=(*m.fields, extra),
        lift=lift,
        combine=combine,
        lower=lower,
        identity=identity,
        inverse=inverse,
        selects=selects,
        defined=defined,
        gather=None if m.gather is None else _with_last(m.gather, 1 if base_inverse is not None else True),
        unite=None,  # it knows nothing of the field that was added
        scan=None,
        nullable=True,
    )


def _with_identity(m: Monoid) -> Monoid:
    """Adjoin an identity that the functions never see: a last field tells whether there was a value.

    Where partials are subtracted it counts; otherwise it is a flag, under which selective stays selective.
    """
    base_lift, base_combine, base_lower, base_identity = m.lift, m.combine, m.lower, m.identity
    base_inverse: Any = m.inverse
    base_selects: Any = m.selects
    one, none = (1, 0) if base_inverse is not None else (True, False)

    def lift(*values: Any) -> Any:
        return base_lift(*values) + (one,)

    def combine(a: Any, b: Any) -> Any:
        if not a[-1]:
            return b
        if not b[-1]:
            return a
        return base_combine(a[:-1], b[:-1]) + (plus(a[-1], b[-1]),)

    def inverse(c: Any, a: Any) -> Any:
        if not a[-1]:
            return c
        if c[-1] == a[-1]:
            return identity()
        return base_inverse(c[:-1], a[:-1]) + (c[-1] - a[-1],)

    def selects(a: Any, b: Any) -> Any:
        if not a[-1] or not b[-1]:
            return not a[-1]
        return base_selects(a[:-1], b[:-1])

    def lower(p: Any) -> Any:
        return base_lower(p[:-1])

    def identity() -> Any:
        return base_identity() + (none,)

    def seen(p: Any) -> Any:
        return p[-1] != none

    def added(n: Any, more: Any) -> Any:
        return n + more

    def either(flag: Any, other: Any) -> Any:
        return flag or other

    plus = either if base_inverse is None else added
    dtype = OBJECT if not m.is_compiled else BOOL if base_inverse is None else INT64
    return replace(
        m,
        fields=(*m.fields, Field("events" if base_inverse is not None else "any", dtype)),
        lift=lift,
        combine=combine,
        lower=lower,
        identity=identity,
        inverse=None if base_inverse is None else inverse,
        selects=None if base_selects is None else selects,
        seen=seen,
        gather=None if m.gather is None else _with_last(m.gather, one),
        unite=None,
        scan=None,
        has_identity=True,
    )


def _with_last(gather: Function, one: Any) -> Function:
    """Gather, with the field after the others that says there was a value, or how many."""

    def gather_all(*values: Any) -> Any:
        return gather(*values) + (True if one is True else len(values[0]),)

    return gather_all


def object_field(name: str) -> Field:
    return Field(name, OBJECT)
