"""Names of columns in Spark's expressions, whatever is in them."""

from __future__ import annotations

__all__ = ["quoted"]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
