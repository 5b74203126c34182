"""python -m benchmarks.run [case …] [--quick] [--list] [--plot]: run cases, write results, draw plots from
the files.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import results
from benchmarks.cases import NAMES, Scale, Table, load


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("case", nargs="*", help=f"one of {', '.join(NAMES)}; all of them if none is named")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, a few minutes; results go to benchmarks/quick"
    )
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--plot", action="store_true", help="only draw again from the result files")
    parser.add_argument("--into", type=Path, help="directory for results/ and plots/ instead of benchmarks/")
    options = parser.parse_args(arguments)
    if options.list:
        for name in NAMES:
            print(f"{name:18} {load(name).TITLE}")
        return 0
    unknown = [name for name in options.case if name not in NAMES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(NAMES)}")

    directory = options.into or (results.ROOT / "quick" if options.quick else results.ROOT)
    names = options.case or list(NAMES)
    if len(names) > 1 and not options.plot:
        return max(run_apart(name, options.quick, directory) for name in names)
    for name in names:
        if not options.plot:
            run_case(name, options.quick, directory)
        plot_case(name, directory)
    return 0


def run_apart(name: str, quick: bool, directory: Path) -> int:
    """In a process of its own: what ran before it, in Spark's Java above all, is no part of what a case measures."""
    command = [sys.executable, "-m", "benchmarks.run", name, "--into", str(directory.absolute())]
    return subprocess.run([*command, *(["--quick"] if quick else [])], cwd=results.ROOT.parent, check=False).returncode


def run_case(name: str, quick: bool, directory: Path) -> None:
    case = load(name)
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - start:6.1f} s] {name}: {text}", file=sys.stderr, flush=True)

    scale = Scale(quick, say)
    head = {
        "title": case.TITLE,
        "quick": quick,
        "date": results.now(),
        "seed": scale.seed,
        "machine": results.machine(),
        "versions": results.versions(),
    }
    rows = list(case.run(scale))
    if not rows:
        return
    path = results.write(directory / "results", name, {**head, "seconds": round(time.perf_counter() - start)}, rows)
    result = results.read(path)
    print(f"\n{case.TITLE}\n{results.what_ran(result)}")
    for table in case.tables(result["rows"]):
        print_table(table)
    for line in case.findings(result["rows"]):
        print(f"  {line}")
    print(flush=True)


def print_table(table: Table) -> None:
    caption, header, lines = table
    widths = [max(len(line[k]) for line in [header, *lines]) for k in range(len(header))]
    print(f"\n{caption}")
    for line in [header, *lines]:
        print(
            "  "
            + "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
        )


def plot_case(name: str, directory: Path) -> None:
    """Draw from the result file, so that what is shown is what was kept."""
    path = directory / "results" / f"{name}.json"
    if not path.is_file():
        print(f"{name}: no result file, no plot", file=sys.stderr)
        return
    try:
        from benchmarks import style
    except ImportError:
        print("plots need matplotlib: pip install 'windlass[bench]'", file=sys.stderr)
        return
    result = results.read(path)
    plots = directory / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    style.save(load(name).draw(result["rows"]), plots / f"{name}.png", result["title"], results.what_ran(result))
    print(f"{plots / name}.png", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
