"""An aggregate as users write it: a name, its columns, what it promises, and how to make its monoid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import ValueType
from windlass.errors import InvalidArgument, Overflow, UnsupportedAggregate, WrongType

Build = Callable[..., Monoid]
Kind = Literal["distributive", "algebraic", "holistic"]


@dataclass(frozen=True, repr=False)
class Aggregate:
    """What to compute over the events of a window.

    `commutative`, `invertible`, `selective` and `kind` are the properties that decide which techniques can serve
    it: subtract-on-evict needs an inverse, SlickDeque a selective or invertible aggregate, a wheel a commutative one.
    """

    name: str
    columns: tuple[str | None, ...]
    build: Build = field(compare=False)
    kind: Kind = "distributive"
    commutative: bool = True
    invertible: bool = False
    selective: bool = False
    params: tuple[tuple[str, Any], ...] = ()
    # Builds the form whose partials can be subtracted without drift, where that is not the plain form.
    build_invertible: Build | None = field(default=None, compare=False)
    output: str | None = None
    keywords: tuple[str, ...] = ()  # the last columns are given by these names: avg(x, weight=w)
    scan: Callable[..., Any] | None = field(default=None, compare=False)  # a bulk combine of its own
    definition: str = ""  # tells user-defined aggregates of one name apart: a digest of their functions

    def alias(self, output: str) -> Aggregate:
        """The same aggregate under another result name, as in Spark."""
        if not output:
            raise InvalidArgument("an alias must not be empty")
        return replace(self, output=output)

    def with_scan(self, scan: Callable[..., Any]) -> Aggregate:
        """The same aggregate with a bulk combine: `scan(columns, first, last)` gives the partial, a tuple, of the rows
        first … last - 1 of columns of partials, one array a field. Wheels use it in place of their own loop."""
        if not callable(scan):
            raise WrongType(f"a bulk combine is a function, got {type(scan).__name__}")
        return replace(self, scan=scan)

    @property
    def output_name(self) -> str:
        return self.output or repr(self)

    def monoid(
        self, types: Sequence[ValueType], *, nullable: bool = True, subtractable: bool = False, identity: bool = True
    ) -> Monoid:
        """Make it concrete. `subtractable` asks for partials that ⊖ may be applied to without end, `identity` for a
        true identity, which a user's aggregate may lack."""
        if len(types) != len(self.columns):
            raise WrongType(f"{self!r} takes {len(self.columns)} column(s), got {len(types)}")
        build = self.build
        if subtractable:
            if not self.invertible:
                raise UnsupportedAggregate(
                    f"{self!r} has no inverse: what was combined cannot be subtracted again; "
                    "use TwoStacks, DABA, FlatFIT or FlatFAT"
                )
            build = self.build_invertible or build
        monoid = replace(build(*types), commutative=self.commutative)
        if self.scan is not None and monoid.has_identity and not nullable:  # partials are as the aggregate makes them
            monoid = replace(monoid, scan=self.scan)
        if identity:
            monoid = monoid.with_identity()
        return monoid.optional() if nullable else monoid

    def of(self, values: Any, dtype: Any = None) -> Any:
        """The answer over all of the values: an array, or for several columns a table, a dict or a tuple of arrays.

        `dtype` is the type of the values, or a tuple of one for each column; needed only where the values do not tell.
        """
        from windlass.aggregates import evaluation
        from windlass.aggregates.input import read_columns, types_of
        from windlass.aggregates.overflow import LIMIT, greatest, located

        read = read_columns(self, values, types_of(self, dtype))
        nullable = any(c.valid is not None for c in read.columns)
        m = self.monoid([c.type for c in read.columns], nullable=nullable, identity=False)
        if read.length == 0:
            return evaluation.answer_of_nothing(m)
        if m.wide is not None and greatest(read.columns[0].values) * read.length >= LIMIT:
            m = m.wide
        try:
            return evaluation.fold(m, evaluation.events_of(m, read.columns, read.length))[0].as_py()
        except Overflow as error:
            raise located(error, lambda row: f"{self!r} of {read.length} values") from None

    def __repr__(self) -> str:
        positional = len(self.columns) - len(self.keywords)
        arguments = [column for column in self.columns[:positional] if column is not None]
        arguments += [f"{k}={column}" for k, column in zip(self.keywords, self.columns[positional:], strict=True)]
        arguments += [f"{name}={_shown(value)}" for name, value in self.params]
        return f"{self.name}({', '.join(arguments)})"


def _shown(value: Any) -> str:
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)  # p=99, also of 99.0


def refuse_type(aggregate: str, type_: ValueType, wanted: str) -> WrongType:
    return WrongType(f"{aggregate} needs {wanted}, got values of {type_}")
