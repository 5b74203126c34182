"""The `windlass` command."""

from windlass.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """The entry point: what it needs is imported when it is run."""
    try:
        from windlass.cli.commands import windlass
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        raise SystemExit(str(MissingExtra("cli", "the windlass command"))) from error
    windlass()
