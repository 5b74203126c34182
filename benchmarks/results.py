"""Result files: what was run, where, with what, and the rows. Everything shown anywhere is read from them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PACKAGES = ("windlass", "numpy", "numba", "pyarrow", "polars", "duckdb", "pyspark")

Row = dict[str, Any]
Result = dict[str, Any]


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    commit = _git("rev-parse", "--short", "HEAD")
    if commit:
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src")
        found["commit"] = commit + (" with changes" if changed else "")
    return found


def write(directory: Path, case: str, head: dict[str, Any], rows: list[Row]) -> Path:
    """One row a line, so that two runs can be compared with a diff."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{case}.json"
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in {"case": case, **head}.items()]
    body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    path.write_text("\n".join(["{", *lines, '  "rows": [', body, "  ]", "}"]) + "\n")
    return path


def read(path: Path) -> Result:
    result: Result = json.loads(path.read_text())
    return result


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def what_ran(result: Result) -> str:
    """One line for titles and documents."""
    m, v = result["machine"], result["versions"]
    quick = "quick run, small sizes; " if result["quick"] else ""
    return (
        f"{quick}{m['cpu']}, {m['cores']} cores, load {m['load_before']} before; "
        f"Python {v['python']}, numba {v.get('numba')}, "
        f"windlass {v.get('commit', v.get('windlass'))}; {result['date']}"
    )


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
