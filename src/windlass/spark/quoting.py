"""Names of columns and texts in Spark's expressions, whatever is in them."""

from __future__ import annotations

__all__ = ["quoted", "text"]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """As a literal, which says the same whatever settings Spark's parser has."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"
