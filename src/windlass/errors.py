"""Every exception Windlass raises on purpose.

Each one is a `WindlassError` and also the builtin it is a case of, so both `except WindlassError` and
`except ValueError` do what they say. All of them survive pickling, because Spark carries them between
processes.
"""

from __future__ import annotations

__all__ = [
    "Busy",
    "CorruptSnapshot",
    "EmptyWindow",
    "InterpretedAggregate",
    "Interrupted",
    "InvalidArgument",
    "LawViolation",
    "MissingExtra",
    "OutOfOrder",
    "Overflow",
    "TooManyRows",
    "Unanswerable",
    "UnknownColumn",
    "UnsupportedAggregate",
    "UntrustedDirectory",
    "WindlassError",
    "WrongType",
]


class WindlassError(Exception):
    """Base of all errors of this package."""


class InvalidArgument(WindlassError, ValueError):
    """A value of the right type that cannot be used, such as a slide longer than its window."""


class TooManyRows(InvalidArgument):
    """A call would return more rows than `max_rows` allows. Nothing has changed."""


class WrongType(WindlassError, TypeError):
    """A value or column of a type that cannot be used."""


class UnknownColumn(WindlassError, KeyError):
    """A column that the data does not have."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would show the repr of the message


class OutOfOrder(WindlassError, ValueError):
    """An event that is earlier than its predecessor, where the order was promised."""


class Overflow(WindlassError, OverflowError):
    """An answer does not fit its type, such as a sum of int64 beyond 2^63."""

    row: int | None = None  # of the answer among those made together, if there were several


class Unanswerable(WindlassError, LookupError):
    """A range of the past whose slots are no longer retained."""


class EmptyWindow(WindlassError, IndexError):
    """Eviction from a store that holds nothing."""


class UnsupportedAggregate(WindlassError, TypeError):
    """An aggregate without a property that the technique needs, such as an inverse."""


class CorruptSnapshot(WindlassError, ValueError):
    """A snapshot that is damaged, or of another version or configuration."""


class Interrupted(WindlassError, RuntimeError):
    """An exception interrupted an earlier call, so the object's state is unknown: restore it, or make another."""


class Busy(WindlassError, RuntimeError):
    """The object is in another call, made by another thread or from inside a user's function."""


class LawViolation(WindlassError, AssertionError):
    """An aggregate that breaks a law it declares, such as associativity; the message has a counterexample."""


class MissingExtra(WindlassError, ImportError):
    """A feature whose optional dependencies are not installed.

    >>> raise MissingExtra("spark", "windlass.spark")
    Traceback (most recent call last):
    windlass.errors.MissingExtra: windlass.spark needs the 'spark' extra: pip install 'windlass[spark]'
    """

    def __init__(self, extra: str, feature: str = "this feature") -> None:
        super().__init__(extra, feature)  # what pickling calls __init__ with again
        self.extra = extra
        self.feature = feature
        self.msg = str(self)

    def __str__(self) -> str:
        return f"{self.feature} needs the {self.extra!r} extra: pip install 'windlass[{self.extra}]'"


class InterpretedAggregate(UserWarning):
    """An aggregate's functions do not compile, so they run interpreted: correct, but slower."""


class UntrustedDirectory(UserWarning):
    """A directory that code would be loaded from is not used, because others could have written to it."""
