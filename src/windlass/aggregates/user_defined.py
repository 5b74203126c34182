"""define: an aggregate out of plain Python functions.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| define(…) | skipped: the functions never see one | as the functions have it | null |

A partial is a tuple, or, where there is one field, that value itself. What the functions do not say is found
out by calling them with a sample of the column's type: how many fields a partial has, of which types, and the
type of the answer.

    mean = define("mean", lift=lambda x: (x, 1), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
                  lower=lambda p: p[0] / p[1])
    mean("price")

The functions are compiled if numba can compile them, and then follow its rules: integers have 64 bits, and
dividing by zero gives infinity or NaN. Otherwise the same algorithms run them interpreted, which is correct
but slower, and a warning (`InterpretedAggregate`) says why, once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate, Kind
from windlass.aggregates.fitting import bare, cast_to, constant, lowered, same_as_younger, struct_of
from windlass.aggregates.monoid import Function, Monoid, digest_of
from windlass.aggregates.parameters import whole
from windlass.aggregates.samples import Shape, cast, field_dtype, parameters_of, sample, shape_of, unified
from windlass.aggregates.values import OBJECT, ValueType, value_type
from windlass.errors import InterpretedAggregate, InvalidArgument, WrongType
from windlass.kernels import CannotCompile, Field, accessors
from windlass.kernels.digests import Undigestible, plain

_serials = count()
# Numba's words for a function that makes arrays or lists while that is switched off.
_NEEDS_MEMORY = ("NRT required", "Only accept returning of array passed")


def define(
    name: str,
    *,
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any] | None = None,
    identity: Any = None,
    inverse: Callable[[Any, Any], Any] | None = None,
    selects: Callable[[Any, Any], bool] | None = None,
    columns: int | None = None,
    commutative: bool = False,
    selective: bool = False,
    kind: Kind = "algebraic",
    fields: Mapping[str, Any] | None = None,
    result: Any = None,
    compile: bool = True,
) -> Definition:
    """Define an aggregate; what is returned makes it for columns, as `sum` does: `mean("price")`.

    lift(v, …)     the partial of one event; as many values as it has parameters, or as `columns` says
    combine(a, b)  associative; `a` is the older part; neither may be changed
    lower(p)       the answer; a tuple becomes a struct. Default: the partial
    identity       a partial, or a function that makes one. Default: one is adjoined
    inverse(c, a)  takes the oldest part off: inverse(combine(a, b), a) == b. Makes it invertible
    selects(a, b)  whether combine(a, b) is b, for selective aggregates. Default: compares
    fields         names and types of a partial's fields, as {"sum": float, "n": int}; `object` for any other
    result         the Arrow type of the answer, or the name of one
    compile        False: run interpreted, without a warning
    """
    if not name:
        raise InvalidArgument("an aggregate needs a name")
    functions = {"lift": lift, "combine": combine, "lower": lower, "inverse": inverse, "selects": selects}
    for role, function in functions.items():
        if function is None and role not in ("lift", "combine"):
            continue
        if not callable(function):
            raise WrongType(f"{role} of {name} must be a function, got {type(function).__name__}")
    if kind not in ("distributive", "algebraic", "holistic"):
        raise InvalidArgument(f"kind must be 'distributive', 'algebraic' or 'holistic', got {kind!r}")
    return Definition(
        name=name,
        lift=plain(lift),
        combine=plain(combine),
        lower=plain(lower),
        identity=identity() if callable(identity) else identity,
        inverse=plain(inverse),
        selects=plain(selects),
        columns=parameters_of(plain(lift)) if columns is None else whole("columns", columns, 0),
        commutative=commutative,
        selective=selective or selects is not None,
        kind=kind,
        fields=None if fields is None else tuple((field, field_dtype(t)) for field, t in fields.items()),
        result=None if result is None else value_type(result).arrow,
        compile=compile,
    )


class Definition:
    """What `define` returns: call it with column names to get an `Aggregate`."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts
        self._known: dict[tuple[ValueType, ...], Monoid] = {}
        self._told = False
        functions = tuple(parts[role] for role in ("lift", "combine", "lower", "inverse", "selects"))
        rest = (parts["identity"], repr(parts["fields"]), str(parts["result"]))
        try:
            self.digest = digest_of(functions + rest)
        except Undigestible:
            self.digest = f"unnamed {next(_serials)}"

    def __call__(self, *columns: str | None) -> Aggregate:
        arity = self.parts["columns"]
        if columns and len(columns) != arity:
            raise InvalidArgument(f"{self.parts['name']} takes {arity} column(s), got {len(columns)}: {columns}")
        return Aggregate(
            self.parts["name"],
            columns or (None,) * arity,
            self.build,
            self.parts["kind"],
            commutative=self.parts["commutative"],
            invertible=self.parts["inverse"] is not None,
            selective=self.parts["selective"],
            definition=self.digest,
        )

    def __repr__(self) -> str:
        return f"<aggregate {self.parts['name']}>"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}  # another process compiles, or finds, its own

    def build(self, *types: ValueType) -> Monoid:
        if types not in self._known:
            monoid = _Binding(self.parts, types).monoid()
            if not monoid.is_compiled and self.parts["compile"] and not self._told:
                self._told = True
                warnings.warn(
                    f"{self.parts['name']} runs interpreted, which is slower: {monoid.interpreted}. "
                    "If that is intended, say compile=False",
                    InterpretedAggregate,
                    stacklevel=2,
                )
            self._known[types] = monoid
        return self._known[types]


class _Binding:
    """A definition and the types of its columns: what the functions make of samples, then the monoid."""

    def __init__(self, parts: dict[str, Any], types: tuple[ValueType, ...]) -> None:
        self.types = types
        self.name: str = parts["name"]
        self.parts = parts
        one = self._lifted_sample()
        self.bare = not isinstance(one, tuple)
        self.one = self._tuple(one)
        self.samples = {"lift": self.one} | self._combined_samples()
        self.fields = self._fields()
        self.answer = self._sample_of_lower()
        given = parts["result"]
        self.struct = isinstance(self.answer, tuple) or (
            self.answer is None and given is not None and pa.types.is_struct(given)
        )

    # ------------------------------------------------------------------ samples

    def _lifted_sample(self) -> Any:
        error: Exception | None = None
        for number in (1, 2, 7):  # a function may be undefined for one of them
            samples = tuple(sample(t.arrow, number) for t in self.types)
            try:
                return self.parts["lift"](*samples)
            except Exception as raised:
                error = raised
        raise WrongType(
            f"{self.name} cannot take values of {', '.join(map(str, self.types))}: "
            f"lift{samples} raised {type(error).__name__}: {error}"
        )

    def _tuple(self, partial: Any) -> tuple[Any, ...]:
        return (partial,) if self.bare else tuple(partial)

    def _combined_samples(self) -> dict[str, tuple[Any, ...]]:
        raw = self.one[0] if self.bare else self.one
        try:
            two = self.parts["combine"](raw, raw)
            samples = {"combine": self._tuple(two)}
            if self.parts["inverse"] is not None:
                samples["inverse"] = self._tuple(self.parts["inverse"](two, raw))
            return samples
        except Exception as error:
            raise WrongType(
                f"{self.name}: combining the sample partial {raw!r} with itself raised {type(error).__name__}: {error}"
            ) from error

    def _fields(self) -> tuple[Field, ...]:
        seen = list(self.samples.values())
        if self.parts["identity"] is not None:
            seen.append(self._tuple(self.parts["identity"]))
        widths = {len(partial) for partial in seen}
        if len(widths) > 1:
            raise InvalidArgument(f"{self.name}: its functions give partials of different lengths, as {seen}")
        given = self.parts["fields"]
        if given is not None:
            if len(given) not in widths:
                raise InvalidArgument(
                    f"{self.name}: {len(given)} field(s) are named, a partial has {widths.pop()}: {self.one}"
                )
            shapes = [(field, Shape(dtype)) for field, dtype in given]
        else:
            columns = list(zip(*seen, strict=True))
            shapes = [
                ("value" if self.bare else f"_{k + 1}", unified([shape_of(v) for v in column]))
                for k, column in enumerate(columns)
            ]
        return tuple(Field(field, shape.dtype, shape.shape) for field, shape in shapes)

    def _sample_of_lower(self) -> Any:
        lower = self.parts["lower"]
        one = tuple(cast(value, field) for value, field in zip(self.one, self.fields, strict=True))
        partial = one[0] if self.bare else one
        if lower is None:
            return one if len(one) > 1 else one[0]
        try:
            return lower(partial)
        except Exception as error:
            if self.parts["result"] is not None:
                return None
            raise WrongType(
                f"{self.name}: lower({partial!r}) raised {type(error).__name__}: {error}; "
                "give result= if that is no mistake"
            ) from error

    # ------------------------------------------------------------------ the monoid

    def monoid(self) -> Monoid:
        reason = self._reason_not_to_compile()
        if reason is None:
            try:
                return self._compiled()
            except CannotCompile as error:
                reason = str(error)
            except Exception as error:  # plain Python ran the same sample, so this is numba failing in its own way
                reason = f"numba failed with {type(error).__name__}: {error}"
        return self._monoid(tuple(Field(f.name, OBJECT) for f in self.fields), reason)

    def _reason_not_to_compile(self) -> str | None:
        if not self.parts["compile"]:
            return "it was defined with compile=False"
        for type_ in self.types:
            if type_.dtype == OBJECT:
                return f"values of {type_} are Python objects"
        for field, value in zip(self.fields, self.one, strict=True):
            if field.dtype == OBJECT:
                return f"its partials hold Python objects, such as {value!r}"
        if any(field.dtype == OBJECT for field in self._results(compiled=True)):
            return f"its answers are Python objects, such as {self.answer!r}"
        return None

    def _compiled(self) -> Monoid:
        """Compile the plain fold, which is on disk for the next time, to see whether numba can."""
        needs_memory = any(field.shape for field in self.fields)
        monoid = replace(self._monoid(self.fields, None), allocates=needs_memory)
        try:
            _probe(monoid)
        except CannotCompile as error:
            if needs_memory or not any(words in str(error) for words in _NEEDS_MEMORY):
                raise
            monoid = replace(monoid, allocates=True)
            _probe(monoid)
        return monoid

    def _monoid(self, fields: tuple[Field, ...], interpreted: str | None) -> Monoid:
        lift, combine, lower = self.parts["lift"], self.parts["combine"], self.parts["lower"]
        inverse, selects = self.parts["inverse"], self.parts["selects"]
        if self.bare:
            lift, combine, inverse, selects = bare(len(self.types), lift, combine, inverse, selects)
        if interpreted is None:
            lift, combine = self._exact(lift, "lift"), self._exact(combine, "combine")
            inverse = inverse and self._exact(inverse, "inverse")
        if selects is None and self.parts["selective"]:
            selects = same_as_younger(combine, fields)
        return Monoid(
            self.types,
            fields,
            lift,
            combine,
            lowered(lower, self.bare, self.struct),
            constant(self.parts["identity"], fields, self.bare),
            self._result(),
            results=self._results(compiled=interpreted is None),
            finish=struct_of(self._result()) if self.struct else None,
            inverse=inverse,
            selects=selects,
            interpreted=interpreted,
            has_identity=self.parts["identity"] is not None,
        )

    def _exact(self, function: Any, role: str) -> Any:
        """The function with its result in the fields' own types; no cast where the sample has them."""
        shown = [shape_of(value) for value in self.samples[role]]
        if shown == [Shape(field.dtype, field.shape) for field in self.fields]:
            return function
        return cast_to(self.fields, function)

    def _result(self) -> pa.DataType:
        if self.parts["result"] is not None:
            return self.parts["result"]
        if not isinstance(self.answer, tuple):
            return self._arrow(self.answer)
        names = [field.name for field in self.fields] if self.parts["lower"] is None else None
        return pa.struct(
            [(names[k] if names else f"_{k + 1}", self._arrow(value)) for k, value in enumerate(self.answer)]
        )

    def _arrow(self, value: Any) -> pa.DataType:
        try:
            if isinstance(value, np.ndarray):
                return pa.list_(pa.from_numpy_dtype(value.dtype))
            found = pa.from_numpy_dtype(value.dtype) if isinstance(value, np.generic) else pa.scalar(value).type
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            found = pa.null()
        if pa.types.is_null(found):
            raise InvalidArgument(f"{self.name}: the type of the answer {value!r} is not clear; give result=")
        return found

    def _results(self, compiled: bool) -> tuple[Field, ...]:
        result = self._result()
        types = [field.type for field in result] if self.struct else [result]
        return tuple(Field(f"_{k + 1}", value_type(t).dtype if compiled else OBJECT) for k, t in enumerate(types))


def _probe(m: Monoid) -> None:
    """Compile everything the user wrote, on one sample."""
    columns = tuple(np.array([sample(t.arrow, 1)], t.dtype) for t in m.inputs)
    events = (columns, np.zeros(0, np.bool_), 1)
    evaluation.fold_into(m, events, evaluation.empty_answers(m, 1))
    if m.inverse is not None or m.selects is not None:
        evaluation.kernel(m, lambda: _others(m), "inverse and selects")(events, m.allocate(1))


def _others(m: Monoid) -> Function:
    lift_at = evaluation.lifted(m)
    inverse: Any = m.inverse
    selects: Any = m.selects
    _, store = accessors(m.fields)

    if inverse is None:

        def others(events: Any, out: Any) -> Any:
            x = lift_at(events, 0)
            store(out, 0, x)
            return bool(selects(x, x))

    else:

        def others(events: Any, out: Any) -> Any:
            x = lift_at(events, 0)
            store(out, 0, inverse(x, x))
            return True

    return others
