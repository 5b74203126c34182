"""windlass inspect PATH: what a file or a directory is, which version wrote it, and whether it is whole."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.errors import WindlassError
from windlass.formats.inspection import inspected

__all__ = ["inspect_command"]


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path))
def inspect_command(path: Path) -> None:
    """Say what PATH is: a snapshot, a wheel, a history, a part of a Spark job's state.

    Says which version of Windlass wrote it, and whether it is whole. If that cannot be told, or something is damaged,
    the reason is printed and the exit code is 1.
    """
    try:
        lines = inspected(path)
    except (WindlassError, OSError) as error:
        click.echo(str(error).splitlines()[0], err=True)
        raise SystemExit(1) from None
    for line in lines:
        click.echo(line)
