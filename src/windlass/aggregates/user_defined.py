"""define: an aggregate out of plain Python functions.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| define(…) | skipped: the functions never see one | as the functions have it | null |

A partial is a tuple, or, where there is one field, that value itself. What the functions do not say is found
out by calling them with samples of the column's type: how many fields a partial has, of which types, and the
type of the answer. A type holds what all samples gave; compiled, it also holds what numba says the functions can
give, and interpreted, an answer of another type is refused. `fields` and `result` say the types instead.

    mean = define("mean", lift=lambda x: (x, 1), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
                  lower=lambda p: p[0] / p[1])
    mean("price")

The functions are compiled if numba can compile them, and then follow its rules: integers have 64 bits, and
dividing by zero gives infinity or NaN. Otherwise the same algorithms run them interpreted, which is correct
but slower, and a warning (`InterpretedAggregate`) says why, once.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.aggregate import Aggregate, Kind
from windlass.aggregates.fitting import bare, cast_to, constant, fitted, lowered, same_as_younger, struct_of
from windlass.aggregates.monoid import Function, Monoid, digest_of
from windlass.aggregates.parameters import whole
from windlass.aggregates.samples import (
    Shape,
    arrow_type,
    cast,
    field_dtype,
    parameters_of,
    sample,
    sample_rows,
    shape_of,
    tried,
    unified,
)
from windlass.aggregates.values import BOOL, FLOAT64, INT64, OBJECT, UINT64, ValueType, value_type
from windlass.errors import InterpretedAggregate, InvalidArgument, WrongType
from windlass.kernels import CannotCompile, Field, accessors
from windlass.kernels.digests import Undigestible, plain

_serials = count()
# Numba's words for a function that makes arrays or lists while that is switched off.
_RESULTS = 1000  # the place of the first result; those of the fields come before
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
        self._known: dict[tuple[tuple[ValueType, ...], bool], Monoid] = {}
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
            build_invertible=None if self.parts["inverse"] is None else self.build_invertible,
            selective=self.parts["selective"],
            definition=self.digest,
        )

    def __repr__(self) -> str:
        return f"<aggregate {self.parts['name']}>"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}  # another process compiles, or finds, its own

    def build(self, *types: ValueType) -> Monoid:
        """The form that is never subtracted from: its inverse need not be compiled."""
        return self._built(types, self.parts | {"inverse": None})

    def build_invertible(self, *types: ValueType) -> Monoid:
        return self._built(types, self.parts)

    def _built(self, types: tuple[ValueType, ...], parts: dict[str, Any]) -> Monoid:
        key = types, parts["inverse"] is not None
        if key not in self._known:
            monoid = _Binding(parts, types).monoid()
            if not monoid.is_compiled and self.parts["compile"] and not self._told:
                self._told = True
                warnings.warn(
                    f"{self.parts['name']} runs interpreted, which is slower: {monoid.interpreted}. "
                    "If that is intended, say compile=False",
                    InterpretedAggregate,
                    stacklevel=_outside(),
                )
            self._known[key] = monoid
        return self._known[key]


class _Binding:
    """A definition and the types of its columns: what the functions make of samples, then the monoid."""

    def __init__(self, parts: dict[str, Any], types: tuple[ValueType, ...]) -> None:
        self.types = types
        self.name: str = parts["name"]
        self.parts = parts
        lifted = self._lifted_samples()
        self.bare = not isinstance(lifted[0], tuple)
        combined = self._combined_samples(lifted)
        self.samples = {role: [self._tuple(p) for p in partials] for role, partials in combined.items()}
        self.fields = self._fields()
        self.answers = self._samples_of_lower()
        self.widened: dict[int, pa.DataType] = {}  # results that only the compiled functions showed to be wider
        given = parts["result"]
        self.struct = any(isinstance(answer, tuple) for answer in self.answers) or (
            not self.answers and given is not None and pa.types.is_struct(given)
        )

    # ------------------------------------------------------------------ samples

    def _lifted_samples(self) -> list[Any]:
        rows = sample_rows(t.arrow for t in self.types)
        partials, error = tried(partial(self.parts["lift"], *row) for row in rows)
        if not partials:
            raise WrongType(
                f"{self.name} cannot take values of {', '.join(map(str, self.types))}: "
                f"lift{rows[0]} raised {type(error).__name__}: {error}"
            )
        return partials

    def _tuple(self, p: Any) -> tuple[Any, ...]:
        if self.bare:
            return (p,)
        if not isinstance(p, tuple):
            raise InvalidArgument(f"{self.name}: its functions give partials of different lengths, as {p!r}")
        return p

    def _combined_samples(self, lifted: list[Any]) -> dict[str, list[Any]]:
        """Partials of one event, of two and of three, and what is left when the oldest is taken off."""
        combine, inverse = self.parts["combine"], self.parts["inverse"]
        pairs = [(a, a) for a in lifted] + list(pairwise(lifted))
        pairs += [(b, a) for a, b in pairwise(lifted)]
        twos, error = tried(partial(combine, a, b) for a, b in pairs)
        if not twos:
            raise WrongType(
                f"{self.name}: combining the sample partial {lifted[0]!r} with itself raised "
                f"{type(error).__name__}: {error}"
            ) from error
        threes, _ = tried(partial(combine, ab, c) for ab, c in zip(twos, reversed(lifted), strict=False))
        samples = {"lift": lifted, "combine": twos + threes}
        if inverse is not None:

            def left(a: Any, b: Any) -> Any:
                return inverse(combine(a, b), a)

            samples["inverse"], error = tried(partial(left, a, b) for a, b in pairs)
            if not samples["inverse"]:
                raise WrongType(
                    f"{self.name}: taking a sample partial off again raised {type(error).__name__}: {error}"
                ) from error
        return samples

    def _fields(self) -> tuple[Field, ...]:
        seen = [p for partials in self.samples.values() for p in partials]
        if self.parts["identity"] is not None:
            seen.append(self._tuple(self.parts["identity"]))
        widths = {len(p) for p in seen}
        if len(widths) > 1:
            shown = [next(p for p in seen if len(p) == width) for width in sorted(widths)]
            raise InvalidArgument(f"{self.name}: its functions give partials of different lengths, as {shown}")
        given = self.parts["fields"]
        if given is not None:
            if len(given) not in widths:
                raise InvalidArgument(
                    f"{self.name}: {len(given)} field(s) are named, a partial has {widths.pop()}: {seen[0]}"
                )
            shapes = [(field, Shape(dtype)) for field, dtype in given]
        else:
            columns = list(zip(*seen, strict=True))
            shapes = [("value" if self.bare else f"_{k + 1}", unified(column)) for k, column in enumerate(columns)]
        return tuple(Field(field, shape.dtype, shape.shape) for field, shape in shapes)

    def _samples_of_lower(self) -> list[Any]:
        lower = self.parts["lower"]
        partials = [
            tuple(cast(value, field) for value, field in zip(p, self.fields, strict=True))
            for p in self.samples["lift"] + self.samples["combine"]
        ]
        if lower is None:
            return [p if len(p) > 1 else p[0] for p in partials]
        answers, error = tried(partial(lower, p[0] if self.bare else p) for p in partials)
        if not answers and self.parts["result"] is None:
            raise WrongType(
                f"{self.name}: lower({(partials[0][0] if self.bare else partials[0])!r}) raised "
                f"{type(error).__name__}: {error}; give result= if that is no mistake"
            ) from error
        return answers

    # ------------------------------------------------------------------ the monoid

    def monoid(self) -> Monoid:
        reason = self._reason_not_to_compile()
        if reason is None:
            try:
                return self._compiled()
            except CannotCompile as error:
                reason = str(error)
            except (WrongType, MemoryError):
                raise
            except Exception as error:  # plain Python ran the same sample, so this is numba failing in its own way
                reason = f"numba failed with {type(error).__name__}: {error}"
        return self._monoid(tuple(Field(f.name, OBJECT) for f in self.fields), reason)

    def _reason_not_to_compile(self) -> str | None:
        if not self.parts["compile"]:
            return "it was defined with compile=False"
        for type_ in self.types:
            if type_.dtype == OBJECT:
                return f"values of {type_} are Python objects"
        for k, field in enumerate(self.fields):
            if field.dtype == OBJECT:
                return f"its partials hold Python objects, such as {self._odd_one(k)!r}"
        if any(field.dtype == OBJECT for field in self._results(compiled=True)):
            return "its answers are Python objects" + (f", such as {self.answers[0]!r}" if self.answers else "")
        return None

    def _odd_one(self, k: int) -> Any:
        values = [p[k] for partials in self.samples.values() for p in partials]
        return next((value for value in values if shape_of(value).dtype == OBJECT), values[0])

    def _compiled(self) -> Monoid:
        """Compile the plain fold, which is on disk for the next time, to see whether numba can."""
        allocates = any(field.shape for field in self.fields)
        while True:
            try:
                _probe(replace(self._monoid(self.fields, None, checking=True), allocates=allocates))
            except CannotCompile as error:
                if error.narrowed is not None:
                    self._widen(*error.narrowed)
                elif not allocates and any(words in str(error) for words in _NEEDS_MEMORY):
                    allocates = True
                else:
                    raise
            else:
                return replace(self._monoid(self.fields, None), allocates=allocates)

    def _widen(self, place: int, found: str) -> None:
        """Make room for what numba says a function can give, where samples did not show it; else do not compile."""
        results = self._results(compiled=True)
        field = self.fields[place] if place < _RESULTS else results[place - _RESULTS]
        numbers = {"int64": INT64, "float64": FLOAT64}
        # Numba makes signed integers, or floats, of signed and unsigned ones; Python's integers are right.
        dtypes = [t.dtype for t in self.types] + [f.dtype for f in (*self.fields, *results)]
        order = [BOOL, INT64, FLOAT64]
        if UINT64 in dtypes or found not in numbers or field.dtype not in order:
            raise CannotCompile(f"its samples give {field.dtype}, the compiled functions {found}")
        dtype = numbers[found]
        if order.index(dtype) <= order.index(field.dtype):
            raise CannotCompile(f"its samples give {field.dtype}, the compiled functions {found}")
        if place < _RESULTS:
            if self.parts["fields"] is not None:
                raise WrongType(
                    f"{self.name}: its functions can give {found} for the field {field.name!r}, "
                    f"fields= says {field.dtype}; say {dtype} there, or convert"
                )
            self.fields = tuple(replace(f, dtype=dtype) if k == place else f for k, f in enumerate(self.fields))
            self.answers = self._samples_of_lower()
        else:
            if self.parts["result"] is not None:
                raise WrongType(
                    f"{self.name}: its answers can be {found}, result= says {self.parts['result']}; "
                    "give another result=, or convert in lower"
                )
            self.widened[place - _RESULTS] = pa.from_numpy_dtype(dtype)

    def _monoid(self, fields: tuple[Field, ...], interpreted: str | None, checking: bool = False) -> Monoid:
        lift, combine, lower = self.parts["lift"], self.parts["combine"], self.parts["lower"]
        inverse, selects = self.parts["inverse"], self.parts["selects"]
        if self.bare:
            lift, combine, inverse, selects = bare(len(self.types), lift, combine, inverse, selects)
        lower = lowered(lower, self.bare, self.struct)
        results = self._results(compiled=interpreted is None)
        if interpreted is None:
            lift, combine = self._exact(lift, "lift", checking), self._exact(combine, "combine", checking)
            inverse = inverse and self._exact(inverse, "inverse", checking)
            lower = cast_to(results, lower, first=_RESULTS)
        else:
            lower = fitted(lower, self._result_types(), self.name)
        if selects is None and self.parts["selective"]:
            selects = same_as_younger(combine, fields)
        return Monoid(
            self.types,
            fields,
            lift,
            combine,
            lower,
            constant(self.parts["identity"], fields, self.bare),
            self._result(),
            results=results,
            finish=struct_of(self._result()) if self.struct else None,
            inverse=inverse,
            selects=selects,
            interpreted=interpreted,
            has_identity=self.parts["identity"] is not None,
        )

    def _exact(self, function: Any, role: str, checking: bool) -> Any:
        """The function with its result in the fields' own types. Where samples show just these, that is only to be
        checked once, by the probe: kernels compile faster without."""
        made = [unified(column) for column in zip(*self.samples[role], strict=True)]
        if not checking and made == [Shape(field.dtype, field.shape) for field in self.fields]:
            return function
        return cast_to(self.fields, function, made)

    def _result(self) -> pa.DataType:
        if self.parts["result"] is not None:
            return self.parts["result"]
        if not self.struct:
            return self._arrow(0, self.answers)
        answers = [answer for answer in self.answers if answer is not None]
        if len({len(answer) if isinstance(answer, tuple) else -1 for answer in answers}) > 1:
            raise InvalidArgument(f"{self.name}: its answers are of different lengths, as {answers}; give result=")
        names = [field.name for field in self.fields] if self.parts["lower"] is None else None
        columns = [list(column) for column in zip(*answers, strict=True)]
        return pa.struct(
            [(names[k] if names else f"_{k + 1}", self._arrow(k, column)) for k, column in enumerate(columns)]
        )

    def _arrow(self, place: int, values: list[Any]) -> pa.DataType:
        if place in self.widened:
            return self.widened[place]
        scale = max((t.arrow.scale for t in self.types if t.is_decimal), default=0)
        found = arrow_type(values, scale)
        if found is None:
            shown = " or ".join({repr(value): None for value in (values[0], values[-1])})
            raise InvalidArgument(f"{self.name}: the type of the answer {shown} is not clear; give result=")
        return found

    def _result_types(self) -> list[pa.DataType]:
        result = self._result()
        return [field.type for field in result] if self.struct else [result]

    def _results(self, compiled: bool) -> tuple[Field, ...]:
        return tuple(
            Field(f"_{k + 1}", value_type(t).dtype if compiled else OBJECT) for k, t in enumerate(self._result_types())
        )


def _probe(m: Monoid) -> None:
    """Compile everything the user wrote, on one sample."""
    columns = tuple(np.array([sample(t.arrow, 1)], t.dtype) for t in m.inputs)
    events = (columns, np.zeros(0, np.bool_), 1)
    evaluation.fold_into(m, events, evaluation.empty_answers(m, 1))
    if m.inverse is not None:
        evaluation.kernel(m, lambda: _inverse_kernel(m), "inverse")(events, m.allocate(1))
    if m.selects is not None:
        evaluation.kernel(m, lambda: _selects_kernel(m), "selects")(events)


def _inverse_kernel(m: Monoid) -> Function:
    lift_at = evaluation.lifted(m)
    inverse: Any = m.inverse
    _, store = accessors(m.fields)

    def take_off(events: Any, out: Any) -> Any:
        x = lift_at(events, 0)
        store(out, 0, inverse(x, x))

    return take_off


def _selects_kernel(m: Monoid) -> Function:
    lift_at = evaluation.lifted(m)
    selects: Any = m.selects

    def choose(events: Any) -> Any:
        x = lift_at(events, 0)
        return bool(selects(x, x))

    return choose


def _outside() -> int:
    """The stack level, for a warning of the caller's, of the first line that is not Windlass's own."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "windlass":
        frame, level = frame.f_back, level + 1
    return level
