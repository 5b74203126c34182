"""The `windlass` command, and windlass plan queries.toml: print and draw the shared plan of a file of queries."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.tree import Tree as Shown

from windlass.cli.history import build_history_command
from windlass.cli.inspection import inspect_command
from windlass.cli.queries import read_queries
from windlass.errors import WindlassError
from windlass.sharing.cost import OBJECTIVES
from windlass.sharing.fragments import FRAGMENTS
from windlass.sharing.plan import Plan
from windlass.sharing.planning import OPTIMIZERS, alternatives, plan
from windlass.sharing.showing import called
from windlass.sharing.techniques import TECHNIQUES
from windlass.version import __version__

__all__ = ["windlass"]

_UNIT = {"paper": "operations", "operations": "operations", "time": "ns"}


@click.group()
@click.version_option(__version__, package_name="windlass")
def windlass() -> None:
    """Shared window aggregation for streams and queries."""


windlass.add_command(build_history_command)
windlass.add_command(inspect_command)


@windlass.command("plan")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rate", type=float, help="Events a second (or in a unit of time); overrides the file's.")
@click.option("--optimizer", type=click.Choice(OPTIMIZERS), default="auto", show_default=True)
@click.option("--technique", type=click.Choice(["auto", "slickdeque", *TECHNIQUES]), default="auto", show_default=True)
@click.option("--fragments", type=click.Choice(list(FRAGMENTS)), default="pairs", show_default=True)
@click.option("--objective", type=click.Choice(OBJECTIVES), default="time", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw the plan into this file.")
def plan_command(
    file: Path,
    rate: float | None,
    optimizer: str,
    technique: str,
    fragments: str,
    objective: str,
    as_json: bool,
    picture: Path | None,
) -> None:
    """Print the cheapest shared plan for the queries of FILE (TOML or JSON), and what others would cost.

    \b
    rate = 1000                      # events a second
    [[query]]
    name = "per_minute"
    range = "1m"
    slide = "5s"                     # the range, if there is none
    aggregate = "sum(amount)"
    """
    try:
        acqs, given = read_queries(file)
        found = plan(
            acqs,
            rate=given if rate is None else rate,
            optimizer=optimizer,
            technique=technique,
            fragments=fragments,
            objective=objective,
        )
        if picture is not None:
            found.draw().savefig(picture)
    except WindlassError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(found.to_json())
        return
    _show(found)
    if picture is not None:
        click.echo(f"\n{picture}")


def _show(found: Plan) -> None:
    console = Console()
    each, unit = ("s" if found.per_second > 1 else "unit of time"), _UNIT[found.objective]
    root = Shown(
        f"[bold]{len(found.acqs)} ACQs in {len(found.trees)} trees[/] by {found.optimizer}: "
        f"{found.cost:.4g} {unit}/{each} at {found.rate:.4g} events/{each}"
    )
    for tree in found.trees:
        branch = root.add(
            f"[bold cyan]{tree.describe()}[/] {tree.aggregate!r}: {tree.edge_rate:.4g} edges/{each}, "
            f"{tree.omega:.4g} operations an edge, {tree.cost:.4g} {unit}/{each}"
        )
        for q in tree.acqs[:12]:
            branch.add(called(q))
        if len(tree.acqs) > 12:
            branch.add(f"… and {len(tree.acqs) - 12} more")
    console.print(root)
    table = Table(title="Other plans", title_justify="left")
    table.add_column("plan")
    table.add_column(f"{unit}/{each}", justify="right")
    table.add_column("against this", justify="right")
    for name, cost in alternatives(found):
        table.add_row(name, f"{cost:.4g}", f"{cost / found.cost:.2f} ×")
    console.print()
    console.print(table)
